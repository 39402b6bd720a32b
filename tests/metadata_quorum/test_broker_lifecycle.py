"""A broker's registration and heartbeats, at an active controller on a quorum in memory."""

from __future__ import annotations

import asyncio
from pathlib import Path

from controller_support import Bench

from raftlog.broker.lifecycle import BrokerLifecycle
from raftlog.config import ListenersConfig, NodeConfig, QuorumConfig, VoterConfig
from raftlog.metadata_quorum.active_controller import Controller
from raftlog.model import Address, BrokerEpoch, Offset
from raftlog.partition.storage.data_dir import DataDir
from raftlog.wire import paths
from raftlog.wire.admin import UnregisterBrokerRequest
from raftlog.wire.controller import HeartbeatRequest, HeartbeatResponse, RegisterBrokerRequest, RegisterBrokerResponse

CONFIG = NodeConfig(
    node_id=1,
    roles=("broker",),
    data_dir="unused",
    cluster_id="c",
    quorum=QuorumConfig(voters=(VoterConfig(node_id=101, quorum=Address("h", 1), internal=Address("h", 2)),)),
    listeners=ListenersConfig(public=Address("h", 3), internal=Address("h", 4)),
)


class Channel:
    """Passes a broker's requests to one controller."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    async def register(self, request: RegisterBrokerRequest) -> RegisterBrokerResponse:
        return await self._controller.register(request)

    async def heartbeat(self, request: HeartbeatRequest, *, timeout_ms: int) -> HeartbeatResponse:
        return await self._controller.heartbeat(request)


class StartingBroker:
    """A broker that has applied the metadata up to `applied_offset`."""

    offline = ()

    def __init__(self) -> None:
        self.applied_offset: Offset = -1
        self.epochs: list[BrokerEpoch] = []

    def on_registered(self, broker_epoch: BrokerEpoch) -> None:
        self.epochs.append(broker_epoch)


async def test_a_starting_broker_that_is_unregistered_registers_again(tmp_path: Path):
    """It is fenced, so it looks like one that is gone. Its heartbeats failed for ever, and it never served."""
    bench = Bench()
    await bench.quorum.start()
    await bench.active()
    data_dir = DataDir.open(tmp_path, cluster_id="c", node_id=1)
    lifecycle, broker = BrokerLifecycle(CONFIG, channel=Channel(bench.controller), data_dir=data_dir), StartingBroker()
    running = asyncio.create_task(lifecycle.run(broker))
    try:
        await bench.until(lambda: broker.epochs)
        await bench.controller.administer(paths.UNREGISTER_BROKER, UnregisterBrokerRequest(broker_id=1))
        assert 1 not in bench.controller.image.brokers

        lifecycle.heartbeat_now()
        await bench.until(lambda: 1 in bench.controller.image.brokers)
        broker.applied_offset = bench.controller.image.offset
        await bench.until(lambda: not lifecycle.fenced)

        first, second = broker.epochs
        assert first < second == lifecycle.broker_epoch
        assert not lifecycle.fatal.done()
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await bench.controller.close()
        data_dir.close()
