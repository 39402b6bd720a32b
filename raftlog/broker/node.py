"""One node process: a controller, a broker, or both, from its configuration to its clean end."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from typing import TYPE_CHECKING

from raftlog.broker.open_files import raise_limit
from raftlog.config import NodeConfig
from raftlog.partition.storage.log_dirs import NodeFolders, open_folders
from raftlog.runtime import loop_factory
from raftlog.serving.loop_watch import LoopWatch

if TYPE_CHECKING:
    from raftlog.broker.broker_node import BrokerNode
    from raftlog.metadata_quorum.controller_node import ControllerNode


_SWITCH_S = 0.0002
"""How long a thread that decodes or renders may keep the interpreter from the event loop; Python's default is 5 ms.

The loop waits so long after each system call that it makes meanwhile, and a request makes many.
"""


class _NotHere:
    """An import finder that says that there are no numpy and no pandas."""

    def find_spec(self, name: str, *_: object) -> None:
        if name in ("numpy", "pandas"):
            raise ModuleNotFoundError(f"a node uses no {name}", name=name)


_COLLECT_AFTER = (20_000, 10, 10)
"""When the garbage collector looks at young, middle-aged and all objects (`gc.set_threshold`).

By default it looks at all objects whenever some ten thousand were made and are still there, as in one request about
9,000 partitions: with a thousand connections that takes 40 to 100 ms. What requests and connections leave behind is
freed without it, apart from a few objects for each connection.
"""


def keep_pyarrow_small() -> None:
    """Hide numpy and pandas from pyarrow, which loads what is installed, though no node has any use for them.

    For numpy that is 12 MB; for pandas, loaded to see whether the first list that pyarrow is given is one of theirs,
    50 MB and a pause. And its allocator is not to touch its first 4 MB before anything is in them.
    """
    sys.meta_path.insert(0, _NotHere())
    os.environ.setdefault("MIMALLOC_ARENA_EAGER_COMMIT", "0")


def run_node(config: NodeConfig) -> None:
    """Run one node in the foreground; see `serve`."""
    keep_pyarrow_small()
    raise_limit()
    sys.setswitchinterval(_SWITCH_S)
    gc.set_threshold(*_COLLECT_AFTER)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(serve(config))


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
    watch = LoopWatch()
    controller = _make_controller(config, data_dir) if config.is_controller else None
    broker = _make_broker(config, data_dir, watch) if config.is_broker else None
    # What was imported and made so far stays: looking at it again in each full collection takes 100 ms.
    gc.collect()
    watch.start()
    if broker is not None:
        await broker.start(internal=controller.routes.application() if controller else None)
    if controller is not None:
        await controller.start(serve=broker is None)
    gc.freeze()
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
        watch.close()
    if refused.done():
        raise refused.result()


def _make_controller(config: NodeConfig, data_dir: NodeFolders) -> ControllerNode:
    from raftlog.metadata_quorum.controller_node import ControllerNode  # noqa: PLC0415  (a broker needs no Raft)

    return ControllerNode(config, data_dir.path)


def _make_broker(config: NodeConfig, data_dir: NodeFolders, watch: LoopWatch) -> BrokerNode:
    from raftlog.broker.broker_node import BrokerNode  # noqa: PLC0415  (a controller needs no pyarrow)

    return BrokerNode(config, data_dir, watch=watch)


def loop_future() -> asyncio.Future[Exception]:
    """Return a future that never ends: a controller is refused by nobody."""
    return asyncio.get_running_loop().create_future()
