"""A broker's registration and heartbeats, at an active controller on a quorum in memory."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from controller_support import Bench

from raftlog.broker.lifecycle import BrokerLifecycle
from raftlog.config import ListenersConfig, NodeConfig, QuorumConfig, VoterConfig
from raftlog.errors import ErrorCode, FencedError
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


@pytest.mark.parametrize("is_lost", [False, True])
async def test_a_broker_ends_where_the_controllers_have_forgotten_its_last_registration(is_lost: bool, tmp_path: Path):
    """They started over on empty disks, with the same cluster id. The broker deleted every log as a stray."""
    before = DataDir.open(tmp_path, cluster_id="c", node_id=1)
    before.registered(10_000 if is_lost else 0)
    before.close()
    bench, broker = Bench(), StartingBroker()
    await bench.quorum.start()
    await bench.active()
    data_dir = DataDir.open(tmp_path, cluster_id="c", node_id=1)
    lifecycle = BrokerLifecycle(CONFIG, channel=Channel(bench.controller), data_dir=data_dir)
    running = asyncio.create_task(lifecycle.run(broker))
    try:
        await bench.until(lambda: broker.epochs or lifecycle.fatal.done())
        assert lifecycle.fatal.done() == is_lost == (not broker.epochs)
        if is_lost:
            message = lifecycle.fatal.result().message
            assert "the controllers' metadata is not this broker's: it was registered in epoch 10000" in message
            async with asyncio.timeout(1):
                await lifecycle.shut_down()
        else:
            assert data_dir.broker_epoch == lifecycle.broker_epoch > 0
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await bench.controller.close()
        data_dir.close()


@pytest.mark.parametrize("was_running", [False, True])
async def test_a_broker_ends_where_the_controllers_have_less_metadata_than_it_has_applied(
    was_running: bool, tmp_path: Path
):
    """Controllers without their disks hand out the first epochs again: every second broker was taken, and lost all."""
    before = DataDir.open(tmp_path, cluster_id="c", node_id=1)
    before.registered(0, 3)
    if not was_running:
        before.note_metadata(50_000)
        before.note_metadata(40_000)
        before.mark_clean()
        before.note_metadata(60_000)
    before.close()
    bench, broker = Bench(), StartingBroker()
    await bench.quorum.start()
    await bench.active()
    data_dir = DataDir.open(tmp_path, cluster_id="c", node_id=1)
    assert (data_dir.last_was_clean, data_dir.metadata_offset) == ((False, 3) if was_running else (True, 50_000))
    if was_running:
        broker.applied_offset = 50_000
    lifecycle = BrokerLifecycle(CONFIG, channel=Channel(bench.controller), data_dir=data_dir)
    running = asyncio.create_task(lifecycle.run(broker))
    try:
        async with asyncio.timeout(10):
            message = (await lifecycle.fatal).message
        assert "it has applied metadata up to offset 50000" in message
        assert not broker.epochs
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await bench.controller.close()
        data_dir.close()


async def test_a_broker_notes_which_metadata_it_has_applied(tmp_path: Path):
    bench, broker = Bench(), StartingBroker()
    await bench.quorum.start()
    await bench.active()
    data_dir = DataDir.open(tmp_path, cluster_id="c", node_id=1)
    lifecycle = BrokerLifecycle(CONFIG, channel=Channel(bench.controller), data_dir=data_dir)
    running = asyncio.create_task(lifecycle.run(broker))
    await bench.until(lambda: bool(broker.epochs))
    broker.applied_offset = data_dir.metadata_offset + 100
    lifecycle.heartbeat_now()
    await bench.until(
        lambda: json.loads((tmp_path / "run.json").read_text())["metadata_offset"] == broker.applied_offset
    )
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await bench.controller.close()
    data_dir.close()
    again = DataDir.open(tmp_path, cluster_id="c", node_id=1)
    assert again.metadata_offset == broker.applied_offset
    again.close()


async def test_a_broker_that_was_replaced_waits_for_no_controller(tmp_path: Path):
    class Replaced:
        async def register(self, _: RegisterBrokerRequest) -> RegisterBrokerResponse:
            return RegisterBrokerResponse(broker_epoch=5, metadata_offset=5)

        async def heartbeat(self, _: HeartbeatRequest, *, timeout_ms: int) -> HeartbeatResponse:
            raise FencedError("another process", code=ErrorCode.STALE_BROKER_EPOCH)

    data_dir = DataDir.open(tmp_path, cluster_id="c", node_id=1)
    lifecycle = BrokerLifecycle(CONFIG, channel=Replaced(), data_dir=data_dir)  # type: ignore[arg-type]
    await lifecycle.run(StartingBroker())
    assert lifecycle.fatal.done()
    async with asyncio.timeout(1):
        await lifecycle.shut_down()
    data_dir.close()


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
