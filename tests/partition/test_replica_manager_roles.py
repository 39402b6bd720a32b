"""Replica managers over real HTTP: identical bytes after fail-overs, deleted partitions, roles that move."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from replication_support import Broker, World

from raftlog.errors import DiskFullError, ErrorCode, RaftlogError, StaleRouteError, StorageError
from raftlog.model import PartitionAssignment, PartitionState
from raftlog.partition import stray_partitions
from raftlog.partition.storage.data_dir import DataDir
from raftlog.partition.storage.log import PartitionLog
from raftlog.wire.data import FetchPartition, FetchRequest


def stored(broker: Broker) -> tuple[bytes, list]:
    """Return a log's every byte, and its leader epochs."""
    log, data = broker.replica.log, b""
    position = log.log_start_offset
    while position < log.log_end_offset:
        data += log.read(position, 1 << 24, limit_offset=log.log_end_offset)
        position = log.log_end_offset
    return data, list(log.epochs.entries)


async def test_after_every_broker_has_led_the_logs_are_the_same_to_the_byte(tmp_path: Path):
    async with World(tmp_path) as world:
        for turn in range(6):
            leader = 1 + turn % 3
            await world.elect(leader, (1, 2, 3))
            identity = {"producer_id": 3, "producer_epoch": 0, "base_sequence": turn}
            assert await world.produce(f"turn {turn}", broker=leader, **identity) == (turn, False)
        await world.until(lambda: all(b.replica.log.log_end_offset == 6 for b in world.brokers.values()))

        copies = [stored(broker) for broker in world.brokers.values()]
        assert copies[0] == copies[1] == copies[2]
        assert [epoch for epoch, _ in copies[0][1]] == [1, 2, 3, 4, 5, 6]


async def test_a_tail_that_only_an_isolated_leader_had_leaves_no_byte_behind(tmp_path: Path):
    async with World(tmp_path) as world:
        await world.produce("both")
        world.reachable = False
        await world.stop(2)
        await world.stop(3)
        with pytest.raises(RaftlogError):
            await world.produce("only on 1 " * 50, timeout_ms=50)
        await world.stop(1)
        world.reachable = True
        for broker in (2, 3):
            await world.start(broker)
        await world.elect(2, (2, 3))
        assert await world.produce("on 2 and 3", broker=2) == (1, False)
        await world.start(1)
        await world.push()
        await world.until(lambda: 1 in world.state.isr)

        copies = [stored(broker) for broker in world.brokers.values()]
        assert copies[0] == copies[1] == copies[2]
        assert world.brokers[1].values() == ["both", "on 2 and 3"]


async def test_a_leader_syncs_its_log_if_there_is_something_to_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A topic of 10,000 partitions would wait for 10,000 syncs of nothing."""
    synced, real = list[int](), PartitionLog.fsync

    def fsync(self: PartitionLog) -> int:
        synced.append(self.log_end_offset)
        return real(self)

    monkeypatch.setattr(PartitionLog, "fsync", fsync)
    async with World(tmp_path) as world:
        for leader in (1, 2, 3):
            await world.elect(leader, (1, 2, 3))
        await world.produce("first", broker=3)
    assert synced
    assert set(synced) == {1}


async def test_a_leader_without_records_sends_no_follower_back_to_the_start(tmp_path: Path, monkeypatch):
    """Nor does it know their epochs any more. A follower that began at 0 and was elected would give offsets twice."""
    offsets, real = [], PartitionLog.reset_to

    def reset_to(self: PartitionLog, offset: int, **options: Any) -> None:
        offsets.append(offset)
        real(self, offset, **options)

    async with World(tmp_path) as world:
        for value in "abc":
            await world.produce(value)
        await world.stop(3)
        log = world.brokers[1].replica.log
        log.fsync()
        log.advance_log_start(3, 3)
        await world.stop(1)
        (log.folder / "leader-epochs.json").unlink()
        await world.start(1)
        monkeypatch.setattr(PartitionLog, "reset_to", reset_to)
        await world.push()
        assert world.brokers[1].replica.log.epochs.entries == ()
        await world.start(3)
        await world.elect(1, (1, 2, 3))
        await world.until(lambda: world.brokers[3].replica.log.log_start_offset == 3)

        assert await world.produce("d") == (3, False)
        await world.until(lambda: world.brokers[3].replica.log.log_end_offset == 4)
        assert set(offsets) == {3}


async def test_a_follower_that_has_what_its_leader_deleted_keeps_its_producers(tmp_path: Path):
    """The leader's records are all of its new epoch, so it compares followers by the epoch of the last deleted one."""
    numbers = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
    async with World(tmp_path) as world:
        assert await world.produce("a", **numbers) == (0, False)
        await world.elect(1, (1, 2, 3))
        log = world.brokers[1].replica.log
        log.fsync()
        log.advance_log_start(1, 1)
        assert await world.produce("b") == (1, False)
        await world.until(lambda: world.brokers[2].replica.log.log_start_offset == 1)
        await world.elect(2, (1, 2, 3))
        assert await world.produce("a", broker=2, **numbers) == (0, True)


async def test_a_deleted_topic_answers_waiting_requests_and_its_folder_is_deleted(tmp_path: Path):
    async with World(tmp_path) as world:
        await world.produce("x")
        request = FetchRequest(partitions=(FetchPartition(topic="t", partition=0, offset=1),), max_wait_ms=60_000)
        parked = asyncio.ensure_future(world.brokers[1].manager.fetch(request))
        await asyncio.sleep(0)
        for broker in world.brokers.values():
            await broker.manager.apply([], world.registrations(), complete=True)
        async with asyncio.timeout(5):
            ((result, *_),) = await parked

        assert result.error is not None
        assert result.error.retriable
        for broker in world.brokers:
            folder = tmp_path / str(broker) / "partitions"
            await world.until(lambda folder=folder: list(folder.iterdir()) == [])
            assert list(world.brokers[broker].manager.replicas) == []


async def test_a_stray_is_renamed_at_once_and_deleted_later(tmp_path: Path, monkeypatch, caplog):
    monkeypatch.setattr(stray_partitions, "DELAY_S", 0.05)
    folder, topic_id = tmp_path / "1" / "partitions", "e" * 32
    for name in (f"gone-0-{topic_id}", f"gone-0-{topic_id}.quarantined-1", f"old-0-{topic_id}.stray"):
        (folder / name).mkdir(parents=True)
    async with World(tmp_path) as world:
        await world.produce("x")
        await world.push(complete=True)
        names = {path.name for path in folder.iterdir()}
        assert f"gone-0-{topic_id}.stray" in names
        assert f"gone-0-{topic_id}" not in names
        assert f"gone-0-{topic_id} is a stray" in caplog.text
        await world.until(lambda: [path.name for path in folder.iterdir()] == [f"t-0-{world.topic_id}"])


async def test_metadata_that_takes_no_partition_away_looks_at_no_folder(tmp_path: Path, monkeypatch):
    """Each change of metadata listed the folders of all partitions: 10,000 for each change of an ISR."""
    listings, listed = [], DataDir.list_partitions
    monkeypatch.setattr(DataDir, "list_partitions", lambda self: listings.append(self) or listed(self))
    async with World(tmp_path) as world:
        await world.push(complete=True)
        listings.clear()
        for _ in range(5):
            await world.push(complete=True)
        assert listings == []
        await world.brokers[1].manager.apply([], world.registrations(), complete=True)
        assert len(listings) == 1
        await world.until(lambda: list((tmp_path / "1" / "partitions").iterdir()) == [])


async def test_a_stray_outlives_a_broker_that_ends_in_time(tmp_path: Path):
    folder, name = tmp_path / "1" / "partitions", f"gone-0-{'e' * 32}"
    (folder / name).mkdir(parents=True)
    for _ in range(2):
        async with World(tmp_path) as world:
            await world.push(complete=True)
        assert (folder / f"{name}.stray").exists()


async def test_a_folder_that_cannot_be_removed_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):

    def fail(_: Path) -> None:
        raise OSError(errno.EIO, "the device is gone")

    async with World(tmp_path) as world:
        await world.produce("x")
        with monkeypatch.context() as patched:
            patched.setattr("shutil.rmtree", fail)
            await world.brokers[1].manager.apply([], world.registrations(), complete=True)

        assert list(world.brokers[1].manager.replicas) == []
        assert len(list((tmp_path / "1" / "partitions").iterdir())) == 1


async def test_a_partition_that_cannot_be_opened_says_why_and_the_others_serve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    real = PartitionLog.open

    def refuse(folder: Path, config: object, **_: object) -> PartitionLog:
        if "t-0-" in folder.name:
            raise StorageError(f"{folder}: Input/output error")
        return real(folder, config)  # type: ignore[arg-type]

    async with World(tmp_path, isr=(1,)) as world:
        await world.stop(1)
        monkeypatch.setattr(PartitionLog, "open", refuse)
        await world.start(1)
        manager = world.brokers[1].manager
        alone = PartitionState(replicas=(1,), isr=(1,), leader=1, leader_epoch=0, partition_epoch=0)
        assignments = [
            PartitionAssignment(topic="t", topic_id=world.topic_id, partition=0, state=world.state),
            PartitionAssignment(topic="t", topic_id=world.topic_id, partition=1, state=alone),
        ]
        await manager.apply(assignments, world.registrations())
        with pytest.raises(
            StaleRouteError, match=r"t-0 is offline on broker 1: its disk failed: .*Input/output"
        ) as refused:
            manager.leader("t", 0)
        assert refused.value.code is ErrorCode.LEADER_NOT_AVAILABLE, "consumers and producers wait for a leader"
        assert manager.leader("t", 1).state == alone

        monkeypatch.setattr(PartitionLog, "open", real)
        await manager.apply(assignments, world.registrations())
        assert manager.leader("t", 0).state.leader == 1
        await manager.apply(assignments[1:], world.registrations())
        with pytest.raises(StaleRouteError):
            manager.leader("t", 0)


async def test_a_partition_whose_log_has_no_room_to_be_opened_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A consumer of it ended with an error, though the log is opened as soon as there is room."""
    async with World(tmp_path, isr=(1,)) as world:
        await world.stop(1)
        with monkeypatch.context() as patched:
            patched.setattr(PartitionLog, "open", Mock(side_effect=DiskFullError("no room")))
            await world.start(1)
            manager = world.brokers[1].manager
            assigned = PartitionAssignment(topic="t", topic_id=world.topic_id, partition=0, state=world.state)
            await manager.apply([assigned], world.registrations())
            with pytest.raises(StaleRouteError, match="t-0 is offline until there is room: no room") as refused:
                manager.leader("t", 0)
        assert (refused.value.code, refused.value.retriable) == (ErrorCode.LEADER_NOT_AVAILABLE, True)


async def test_a_leader_at_a_new_address_is_followed_there(tmp_path: Path):
    async with World(tmp_path) as world:
        await world.produce("before")
        await world.stop(1)
        old = world.brokers[1].server
        await old.close()
        world.brokers[1] = Broker(world, 1)
        await world.brokers[1].server.start_server()
        assert world.brokers[1].server.port != old.port
        await world.start(1)
        await world.elect(1, (1, 2, 3))

        assert await world.produce("after") == (1, False)
        assert [broker.values() for broker in world.brokers.values()] == [["before", "after"]] * 3


async def test_a_restart_keeps_the_high_watermark_that_was_known(tmp_path: Path):
    async with World(tmp_path) as world:
        for number in range(3):
            await world.produce(str(number))
        await world.until(lambda: all(b.replica.high_watermark == 3 for b in world.brokers.values()))
        for broker in (1, 2, 3):
            await world.stop(broker)
        await world.start(2)
        await world.push(to={2})

        assert world.brokers[2].replica.high_watermark == 3
        assert world.brokers[2].replica.log.log_end_offset == 3


async def test_metadata_that_repeats_or_comes_late_disturbs_nothing(tmp_path: Path):
    async with World(tmp_path) as world:
        await world.produce("x")
        old = world.state
        await world.elect(2, (1, 2, 3))
        core = world.brokers[2].replica.core
        newest, world.state = world.state, old
        await world.push()
        world.state = newest
        await world.push()

        assert world.brokers[2].replica.core is core
        assert world.brokers[1].replica.core is None
        assert await world.produce("y", broker=2) == (1, False)


async def test_settings_of_a_topic_change_while_it_is_led(tmp_path: Path):
    async with World(tmp_path) as world:
        await world.produce("x" * 2_000)
        world.configs = {"max_message_bytes": 1_024}
        await world.push()
        with pytest.raises(RaftlogError) as refused:
            await world.produce("x" * 2_000)

        assert refused.value.code.value == "MESSAGE_TOO_LARGE"
        assert await world.produce("small") == (1, False)
