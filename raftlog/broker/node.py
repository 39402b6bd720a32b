"""One node process: a controller, a broker, or both, from its configuration to its clean end."""

from __future__ import annotations

import asyncio
import signal

from raftlog.broker.broker_node import BrokerNode
from raftlog.config import NodeConfig
from raftlog.metadata_quorum.controller_node import ControllerNode
from raftlog.partition.storage.log_dirs import NodeFolders, open_folders


def run_node(config: NodeConfig) -> None:
    """Run one node in the foreground; see `serve`."""
    asyncio.run(serve(config))


async def serve(config: NodeConfig) -> None:
    """Run until SIGTERM or SIGINT.

    Raises:
        ConfigError: a port is in use, the data folder belongs to another node, or the controllers refuse this one.
        StorageError: the data folder cannot be used.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    data_dir = open_folders(config.data_dir, config.log_dirs, cluster_id=config.cluster_id, node_id=config.node_id)
    try:
        await _run(config, data_dir, stop)
    finally:
        data_dir.close()


async def _run(config: NodeConfig, data_dir: NodeFolders, stop: asyncio.Event) -> None:
    controller = ControllerNode(config, data_dir.path) if config.is_controller else None
    broker = BrokerNode(config, data_dir) if config.is_broker else None
    if broker is not None:
        await broker.start(internal=controller.routes.application() if controller else None)
    if controller is not None:
        await controller.start(serve=broker is None)
    stopped = asyncio.ensure_future(stop.wait())
    refused = broker.lifecycle.fatal if broker else loop_future()
    try:
        await asyncio.wait((stopped, refused), return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopped.cancel()
        if broker is not None:
            await broker.close()
        if controller is not None:
            await controller.close()
    if refused.done():
        raise refused.result()


def loop_future() -> asyncio.Future[Exception]:
    """Return a future that never ends: a controller is refused by nobody."""
    return asyncio.get_running_loop().create_future()
