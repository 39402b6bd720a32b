"""A replica found damaged while it serves: it serves until it leaves ISR and ELR, then fetches its log again."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from replica_support import Solo
from replication_support import World

from raftlog.errors import DiskFullError, RaftlogError, StaleRouteError, StorageError
from raftlog.model import NO_LEADER, NO_LEADER_EPOCH, PartitionState
from raftlog.partition.core.damage import may_refetch
from raftlog.partition.readable_replica import in_memory
from raftlog.partition.storage import verified_reads
from raftlog.partition.storage.file_pool import PooledFile
from raftlog.partition.storage.segment import segment_path
from raftlog.partition.storage.verified_reads import FileRange
from raftlog.record import NewRecord, build_batch, stamp
from raftlog.serving.workers import in_worker

VALUES = [str(number) for number in range(5)]
STATE = PartitionState(replicas=(1, 2, 3), isr=(1, 2), leader=1, leader_epoch=5, partition_epoch=0)


@pytest.mark.parametrize(
    ("change", "served_epoch", "allowed"),
    [
        ({}, 4, True),
        ({}, NO_LEADER_EPOCH, True),
        ({}, 5, False),
        ({"leader": 3}, 4, False),
        ({"leader": NO_LEADER}, 4, False),
        ({"isr": (1, 2, 3)}, 4, False),
        ({"elr": (3,)}, 4, False),
    ],
    ids=["later epoch", "never served", "same epoch", "leads", "no leader", "in sync", "eligible"],
)
def test_a_log_is_replaced_only_outside_isr_and_elr(change: dict, served_epoch: int, allowed: bool):
    assert may_refetch(replace(STATE, **change), 3, served_epoch=served_epoch) is allowed


def log_file(world: World, broker: int) -> Path:
    return segment_path(world.folder / str(broker) / "partitions" / f"t-0-{world.topic_id}", 0)


async def find_damage(world: World, broker: int) -> bytes:
    """Damage a replica's log, and let a read find that."""
    for value in VALUES:
        await world.produce(value)
    replica = world.brokers[broker].replica
    await world.until(lambda: replica.log.log_end_offset == len(VALUES))
    damaged = bytearray(log_file(world, broker).read_bytes())
    damaged[300] ^= 1  # In the first batch.
    log_file(world, broker).write_bytes(damaged)
    with pytest.raises(RaftlogError, match="is damaged on broker"):
        replica.read_sound(0, 1, limit_offset=len(VALUES))
    await world.until(lambda: bool(world.damage_reports))
    return bytes(damaged)


async def test_a_log_is_fetched_again_only_in_a_later_leader_epoch(tmp_path: Path):
    async with World(tmp_path, repairing=False) as world:
        damaged = await find_damage(world, 3)
        manager, replica = world.brokers[3].manager, world.brokers[3].replica
        assert world.damage_reports[0].partitions[0].leader_epoch == 0

        world.reachable = False  # It would come back into the ISR at once.
        world.state = replace(world.state, isr=(1, 2), partition_epoch=world.state.partition_epoch + 1)
        await world.push()
        assert world.brokers[3].replica is replica
        assert (manager.quarantined, len(manager.damage), dict(manager.offline)) == (0, 1, {})

        await world.elect(1, (1, 2))
        world.reachable = True
        await world.until(lambda: 3 in world.state.isr)
        assert world.brokers[3].values() == VALUES
        assert (manager.quarantined, len(manager.damage), dict(manager.offline)) == (1, 0, {})
        folder = log_file(world, 3).parent
        assert segment_path(folder.with_name(f"{folder.name}.quarantined-1"), 0).read_bytes() == damaged


async def test_a_damaged_replica_that_served_on_in_a_later_epoch_waits_for_one_more(tmp_path: Path):
    async with World(tmp_path, repairing=False) as world:
        await find_damage(world, 3)
        manager = world.brokers[3].manager
        await world.elect(1, (1, 2, 3))
        world.reachable = False
        world.state = replace(world.state, isr=(1, 2), partition_epoch=world.state.partition_epoch + 1)
        await world.push()
        assert (manager.quarantined, len(manager.damage)) == (0, 1)
        await world.until(lambda: world.damage_reports[-1].partitions[0].leader_epoch == 1)

        await world.elect(1, (1, 2))
        assert (manager.quarantined, len(manager.damage)) == (1, 0)


async def test_a_log_that_cannot_be_quarantined_is_not_opened_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async with World(tmp_path, repairing=False) as world:
        damaged = await find_damage(world, 3)
        broker = world.brokers[3]

        def refuse(_: Path) -> Path:
            raise StorageError("no")

        with monkeypatch.context() as patched:
            patched.setattr(broker.data_dir, "quarantine", refuse)
            await world.elect(1, (1, 2))
            await world.push()
            assert list(broker.manager.replicas) == []
            assert list(broker.manager.offline) == [(world.topic_id, 0)]
            assert log_file(world, 3).read_bytes() == damaged
            with pytest.raises(StaleRouteError, match="t-0 is offline on broker 3: its disk failed: no"):
                broker.manager.replica("t", 0)

        await world.push()
        await world.until(lambda: 3 in world.state.isr)
        assert broker.values() == VALUES
        assert (dict(broker.manager.offline), broker.manager.quarantined) == ({}, 1)


async def test_a_follower_that_receives_a_damaged_batch_has_its_leader_look(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    async with World(tmp_path, repairing=False) as world:
        await world.stop(3)
        world.state = replace(world.state, isr=(1, 2), partition_epoch=world.state.partition_epoch + 1)
        await world.push()
        values = [VALUES[0], "x" * 300_000, "y" * 300_000]
        for value in values:
            await world.produce(value)
        damaged = bytearray(log_file(world, 1).read_bytes())
        damaged[-300_100] ^= 1  # In the batch of the third value.
        log_file(world, 1).write_bytes(damaged)
        assert len(world.brokers[1].replica.find_verified(2, 1, limit_offset=3, check_crcs=False).data) > 300_000
        assert world.brokers[1].replica.damage is None

        await world.start(3)
        await world.push()
        await world.until(lambda: bool(world.damage_reports))
        assert [report.broker_id for report in world.damage_reports] == [1]
        await world.until(lambda: world.brokers[3].values() == values[:2])
        assert "payload checksum" in caplog.text
        with pytest.raises(RaftlogError, match="is damaged on broker 1"):  # Now it looks for whoever asks.
            world.brokers[1].replica.find_verified(2, 1, limit_offset=3, check_crcs=False)

        await world.elect(2, (2,))
        await world.until(lambda: set(world.state.isr) == {1, 2, 3})
        assert [world.brokers[broker].values() for broker in (1, 2, 3)] == [values] * 3


@pytest.mark.parametrize("damage", ["EIO", "shorter"])
async def test_what_turns_out_damaged_while_it_is_sent_is_noticed(
    damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async with World(tmp_path, repairing=False) as world:
        for value in ("x" * 300_000, "y" * 300_000):
            await world.produce(value)
        replica = world.brokers[1].replica
        found = replica.find_verified(0, 1 << 20, limit_offset=2, check_crcs=False).data
        assert isinstance(found, verified_reads.FileRange)

        def sendfile(*_: int) -> int:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        out, into = socket.socketpair()
        with monkeypatch.context() as patched, out, into:
            if damage == "EIO":
                patched.setattr(os, "sendfile", sendfile)
            else:
                os.truncate(log_file(world, 1), 200_000)
            with pytest.raises(OSError, match="Input/output error" if damage == "EIO" else "ends before byte"):
                found.send(out.fileno(), 250_000)
        assert replica.damage is not None
        # What can be read again is sound; what is gone is not, and nobody helps.
        await world.until(lambda: replica.damage is None if damage == "EIO" else bool(world.damage_reports))


async def test_a_reader_that_disconnected_is_no_damage(tmp_path: Path):
    async with World(tmp_path) as world:
        await world.produce("x" * 300_000)
        replica = world.brokers[1].replica
        found = replica.find_verified(0, 1 << 20, limit_offset=1, check_crcs=False).data
        assert isinstance(found, verified_reads.FileRange)
        out, into = socket.socketpair()
        into.close()
        with out, pytest.raises(BrokenPipeError):
            found.send(out.fileno(), 0)
        assert replica.damage is None


@pytest.mark.parametrize("refusal", [errno.EIO, errno.EMFILE])
async def test_what_the_disk_cannot_read_is_damage_and_what_the_process_may_not_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: int
):
    async with World(tmp_path, repairing=False) as world:
        for value in VALUES:
            await world.produce(value)
        replica, size = world.brokers[3].replica, log_file(world, 1).stat().st_size // len(VALUES)
        await world.until(lambda: replica.log.log_end_offset == len(VALUES))
        real = os.pread

        def pread(descriptor: int, length: int, position: int) -> bytes:
            of_it = Path(f"/proc/self/fd/{descriptor}").readlink() == log_file(world, 3)
            if of_it and position + length > 3 * size:
                raise OSError(refusal, os.strerror(refusal))
            return real(descriptor, length, position)

        with monkeypatch.context() as patched:
            patched.setattr(verified_reads, "WINDOW_BYTES", 3 * size)
            patched.setattr(os, "pread", pread)
            if refusal == errno.EMFILE:
                with pytest.raises(StaleRouteError, match="Too many open files; send the request again"):
                    replica.read_sound(3, 1 << 20, limit_offset=len(VALUES))
                assert replica.damage is None
                return
            assert len(replica.read_sound(0, 1 << 20, limit_offset=len(VALUES))) == 3 * size
            with pytest.raises(RaftlogError, match=r"is damaged on broker 3: .*Input/output error"):
                replica.read_sound(3, 1 << 20, limit_offset=len(VALUES))
            await world.until(lambda: bool(world.damage_reports))

        await world.elect(1, (1, 2))
        await world.until(lambda: 3 in world.state.isr)
        assert world.brokers[3].values() == VALUES


async def test_the_last_one_leads_on_and_keeps_what_it_has(tmp_path: Path):
    async with World(tmp_path, repairing=False) as world:
        damaged = await find_damage(world, 1)
        await world.elect(1, (1,))
        await world.push()
        manager = world.brokers[1].manager

        assert log_file(world, 1).read_bytes() == damaged
        assert (manager.quarantined, len(manager.damage), dict(manager.offline)) == (0, 1, {})
        batch = build_batch([NewRecord(b"more", timestamp=1)])
        assert (await manager.produce("t", 0, batch, acks=1, timeout_ms=5_000)).base_offset == len(VALUES)


async def test_a_sync_that_failed_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Scenario matrix, fsync EIO on all brokers: each reported its log as damaged, and no broker was left to lead."""
    async with World(tmp_path) as world:
        await world.produce(VALUES[0])
        replica = world.brokers[3].replica
        await world.until(lambda: replica.log.log_end_offset == 1)

        def fdatasync(_: int) -> None:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

        batch = bytearray(build_batch([NewRecord(b"1")]))
        stamp(batch, base_offset=1, leader_epoch=replica.state.leader_epoch)
        with monkeypatch.context() as patched:
            patched.setattr(os, "fdatasync", fdatasync)
            replica.log.append(batch)
            with pytest.raises(StorageError, match="cannot fsync"):
                replica.log.fsync()
        with pytest.raises(StorageError, match="cannot fsync"):
            replica.truncate_to(1)
        assert replica.damage is None


def one_that_holds(folder: Path, records: int) -> Solo:
    solo = Solo(folder, leader=2)
    for offset in range(records):
        batch = bytearray(build_batch([NewRecord(b"x" * 100)]))
        stamp(batch, base_offset=offset, leader_epoch=0)
        solo.replica.log.append(batch)
    return solo


async def test_a_damaged_log_that_cannot_be_truncated_gives_way_and_its_broker_goes_on(tmp_path: Path):
    solo = one_that_holds(tmp_path, 3)
    segment = next((tmp_path / "t-0").glob("*.log"))
    damaged = bytearray(segment.read_bytes())
    damaged[8] ^= 1  # In the first batch's header.
    segment.write_bytes(damaged)

    with pytest.raises(StorageError, match="cannot be truncated"):
        solo.replica.truncate_to(2)

    assert solo.replica.damage is not None
    assert solo.failures == []
    await solo.close()


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
async def test_a_disk_that_does_not_sync_a_log_that_starts_over_ends_the_broker(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    solo = one_that_holds(tmp_path, 3)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", Mock(side_effect=OSError(number, os.strerror(number))))
        with pytest.raises(StorageError):
            solo.replica.start_over_at(9)

    assert solo.failures == [solo.replica.log.failure]
    with pytest.raises(StorageError):
        solo.replica.start_over_at(9)
    await solo.close()


async def test_a_full_disk_keeps_a_log_from_starting_over_and_ends_no_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    solo = one_that_holds(tmp_path, 3)
    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", Mock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
        with pytest.raises(DiskFullError):
            solo.replica.start_over_at(9)

    assert (solo.failures, solo.replica.log.log_end_offset) == ([], 3)
    solo.replica.start_over_at(9)
    assert solo.replica.log.log_end_offset == 9
    await solo.close()


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
async def test_a_disk_that_does_not_sync_a_cut_ends_the_broker(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    solo = one_that_holds(tmp_path, 3)
    monkeypatch.setattr(os, "fdatasync", Mock(side_effect=OSError(number, os.strerror(number))))
    with pytest.raises(StorageError):
        solo.replica.truncate_to(2)
    monkeypatch.undo()

    assert solo.failures == [solo.replica.log.failure]
    await solo.close()


async def test_a_block_that_a_worker_thread_cannot_read_is_repaired(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The repair was to begin in that thread, which has no event loop: it never began."""
    async with World(tmp_path) as world:
        await world.produce("x" * 300_000)
        await world.until(lambda: all(broker.replica.log.log_end_offset == 1 for broker in world.brokers.values()))
        replica = world.brokers[1].replica
        data = replica.find_verified(0, 1, limit_offset=1, check_crcs=False).data
        assert isinstance(data, FileRange)
        bad = OSError(errno.EIO, "Input/output error")
        with monkeypatch.context() as patched:
            patched.setattr(PooledFile, "pread", Mock(side_effect=bad))
            with pytest.raises(StaleRouteError, match="Input/output"):
                await in_worker(in_memory, data)
        assert replica.damage is not None
        await world.until(lambda: replica.damage is None)
        assert in_memory(data)


async def test_what_a_thread_finds_in_a_log_that_was_closed_since_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    solo = Solo(tmp_path)
    await solo.append("x" * 300_000, acks=1)
    data = solo.replica.find_verified(0, 1, limit_offset=1, check_crcs=False).data
    bad = OSError(errno.EIO, "Input/output error")
    with monkeypatch.context() as patched, ThreadPoolExecutor(1) as threads:
        patched.setattr(PooledFile, "pread", Mock(side_effect=bad))
        failed = threads.submit(in_memory, data).exception()  # The event loop waits here.
    assert isinstance(failed, StaleRouteError)
    solo.replica.log.close()
    await asyncio.sleep(0)
    assert (solo.replica.damage, solo.replica.suspects) == (None, {})
    await solo.close()


async def test_damage_that_could_not_be_reported_is_reported_with_the_next_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    solo = Solo(tmp_path)
    report = Mock(side_effect=[RuntimeError("no event loop"), None])
    monkeypatch.setattr(solo, "on_damage", report)
    with pytest.raises(RuntimeError, match="no event loop"):
        solo.replica.note_damage(0, "a wrong checksum")
    for _ in range(2):
        solo.replica.note_damage(0, "a wrong checksum")
    assert report.call_count == 2
    assert solo.replica.damage is not None
    await solo.close()
