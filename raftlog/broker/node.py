"""One node process: a controller, a broker, or both, from configuration to clean shutdown."""

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
from raftlog.record.hidden import HIDDEN
from raftlog.runtime import SystemClock, loop_factory
from raftlog.security.node_security import SharedSecurity
from raftlog.serving.loop_turns import TurnLoop
from raftlog.serving.loop_watch import LoopWatch
from raftlog.serving.node_metrics import NodeMetrics
from raftlog.serving.node_tls import NodeTls
from raftlog.serving.reloads import Reloads

if TYPE_CHECKING:
    from raftlog.broker.broker_node import BrokerNode
    from raftlog.metadata_quorum.controller_node import ControllerNode


SWITCH_S = 0.0002
"""The interpreter's thread switch interval (`sys.setswitchinterval`); Python's default is 5 ms.

While a worker thread computes, the event loop waits this long after each system call, and a request makes many. The
wait begins again whenever the worker releases the interpreter, even if the worker takes it back before the loop wakes
up. Worker threads convert 10,000 values at a time, in about 2 ms, and release it after each conversion: with 5 ms, the
loop would wait for 200 ms and more.
"""


_COLLECT_AFTER = (5_000, 3, 130)
"""The garbage collector's thresholds (`gc.set_threshold`). The first two bound a collection of new objects to 20,000:
a flood of connections makes such a collection take 10 to 17 ms.

With the defaults, a full collection runs whenever about 10,000 new objects survive, as in one request about 9,000
partitions. With 1,000 connections it takes 40 to 100 ms. Reference counting frees almost all objects of requests and
connections.
"""


def keep_pyarrow_small() -> None:
    """Hide numpy and pandas from pyarrow, which imports them if they are installed; see `record.hidden`.

    That saves 12 MB for numpy, and 50 MB and a pause for pandas, which the first conversion of a list imports. Also
    keep pyarrow's allocator from touching its first 4 MB early.
    """
    sys.meta_path.insert(0, HIDDEN)
    os.environ.setdefault("MIMALLOC_ARENA_EAGER_COMMIT", "0")


def run_node(config: NodeConfig) -> None:
    """Run one node in the foreground; see `serve`."""
    keep_pyarrow_small()
    raise_limit()
    sys.setswitchinterval(SWITCH_S)
    gc.set_threshold(*_COLLECT_AFTER)
    with asyncio.Runner(loop_factory=loop_factory() or TurnLoop) as runner:
        runner.run(serve(config))


async def serve(config: NodeConfig) -> None:
    """Run until SIGTERM or SIGINT. SIGHUP makes the node look at its files: certificates, token keys, the audit log.

    A node that was started in a terminal shuts down at SIGHUP: the terminal was closed.

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
    reloads = Reloads(on_closed_terminal=stop.set)
    reloads.start()
    watch, tls, shared = LoopWatch(), NodeTls(config.tls), SharedSecurity.of(config, SystemClock())
    metrics = NodeMetrics(watch)
    if shared.audit is not None:
        metrics.add(shared.audit.show)
    controller = _make_controller(config, data_dir, metrics, tls, shared) if config.is_controller else None
    broker = _make_broker(config, data_dir, metrics, tls, shared) if config.is_broker else None
    reloads.add(tls.reload)
    shared.add_to(reloads)
    # Excludes the objects so far from garbage collection: scanning them takes 100 ms in each full collection.
    gc.collect()
    watch.start()
    metrics.start()
    tls.start()
    await shared.start()
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
        await _stop(broker, controller)
        await reloads.close()
        await metrics.close()
        await tls.close()
        await shared.close()
        watch.close()
    if refused.done():
        raise refused.result()


async def _stop(broker: BrokerNode | None, controller: ControllerNode | None) -> None:
    """Stop both roles of a node.

    The controller leaves the quorum before the broker syncs its logs, which may take long: no broker reaches it through
    the closed listeners, and it would fence them all.
    """
    if broker is not None:
        await broker.lifecycle.shut_down()
    if controller is not None:
        await controller.stop_fencing()
    if broker is not None:
        await broker.stop_serving()
    if controller is not None:
        await controller.close()
    if broker is not None:
        await broker.close()


def _make_controller(
    config: NodeConfig, data_dir: NodeFolders, metrics: NodeMetrics, tls: NodeTls, shared: SharedSecurity
) -> ControllerNode:
    from raftlog.metadata_quorum.controller_node import ControllerNode  # noqa: PLC0415  (a broker needs no Raft)

    return ControllerNode(config, data_dir.path, metrics=metrics, tls=tls, shared=shared)


def _make_broker(
    config: NodeConfig, data_dir: NodeFolders, metrics: NodeMetrics, tls: NodeTls, shared: SharedSecurity
) -> BrokerNode:
    from raftlog.broker.broker_node import BrokerNode  # noqa: PLC0415  (a controller needs no pyarrow)

    return BrokerNode(config, data_dir, metrics=metrics, tls=tls, shared=shared)


def loop_future() -> asyncio.Future[Exception]:
    """Return a future that never completes, in place of `BrokerLifecycle.fatal` on a controller."""
    return asyncio.get_running_loop().create_future()
