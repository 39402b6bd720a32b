"""Damaged batches are repaired from any replica that has them intact, without a change of roles (docs/adr/0017)."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from replication_support import World

from raftlog.errors import StaleRouteError, StorageError
from raftlog.model import NO_LEADER
from raftlog.partition.storage.segment import segment_path
from raftlog.record import NewRecord, build_batch, stamp
from raftlog.wire.repair import RepairRequest, RepairResponse

VALUES = [str(number) * 20 for number in range(9)]


def log_file(world: World, broker: int) -> Path:
    return segment_path(world.folder / str(broker) / "partitions" / f"t-0-{world.topic_id}", 0)


async def filled(world: World) -> int:
    """Have all replicas hold one batch for each value; return how long a batch is."""
    for value in VALUES:
        await world.produce(value)
    await world.until(lambda: all(b.replica.log.log_end_offset == len(VALUES) for b in world.brokers.values()))
    return log_file(world, 1).stat().st_size // len(VALUES)


def flip(world: World, broker: int, *places: int) -> None:
    path = log_file(world, broker)
    content = bytearray(path.read_bytes())
    for place in places:
        content[place] ^= 1
    path.write_bytes(content)


async def read_all(world: World, broker: int) -> None:
    """Read a whole replica as clients do: an answer that can be retried is asked for again."""
    replica, offset = world.brokers[broker].replica, 0
    async with asyncio.timeout(10):
        while offset < len(VALUES):
            try:
                offset = replica.find_verified(offset, 1, limit_offset=len(VALUES)).end_offset
            except StaleRouteError:  # Any other error fails the test.
                await asyncio.sleep(0.01)


async def test_a_repair_without_a_free_descriptor_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The replica gave up leadership, and was fetched again."""
    async with World(tmp_path) as world:
        size = await filled(world)
        refused = list[Path]()

        def few(folder: Path) -> list[Path]:
            refused.append(folder)
            if len(refused) < 4:
                raise OSError(errno.EMFILE, "Too many open files")
            return []

        monkeypatch.setattr("raftlog.partition.repair.quarantined_logs", few)
        flip(world, 1, 2 * size + 200)
        await read_all(world, 1)
        await world.until(lambda: world.brokers[1].replica.damage is None)
        assert len(refused) >= 4
        assert world.damage_reports == []


async def test_three_replicas_damaged_in_three_places_are_repaired(tmp_path: Path):
    async with World(tmp_path) as world:
        size = await filled(world)
        whole = log_file(world, 1).read_bytes()
        for broker in (1, 2, 3):
            # A payload, a header, and one batch after another, elsewhere on each.
            flip(world, broker, (broker - 1) * size + 100, (broker + 2) * size + 8, (broker + 5) * size + 20)
        for broker in (1, 2, 3):
            await read_all(world, broker)
            await world.until(lambda: world.brokers[broker].replica.damage is None)  # noqa: B023
        assert [log_file(world, broker).read_bytes() for broker in (1, 2, 3)] == [whole] * 3
        assert (world.damage_reports, world.state.isr, world.state.leader) == ([], (1, 2, 3), 1)
        assert sum(world.brokers[broker].manager.quarantined for broker in (1, 2, 3)) == 0


async def test_a_batch_that_no_replica_has_intact_is_reported_and_the_others_are_served(tmp_path: Path):
    async with World(tmp_path) as world:
        size = await filled(world)
        for broker in (1, 2, 3):
            flip(world, broker, 3 * size + 100, (3 + broker) * size + 100)
        replica, manager = world.brokers[1].replica, world.brokers[1].manager
        with pytest.raises(StaleRouteError, match="is being repaired") as caught:
            replica.find_verified(3, 1, limit_offset=len(VALUES))
        assert caught.value.http_status == 503
        await world.until(lambda: replica.suspects.get(3, False))
        with pytest.raises(StorageError, match="no replica has it intact"):
            replica.find_verified(3, 1, limit_offset=len(VALUES))
        assert manager.repairs.lost(replica.assignment.key) == (3,)
        assert len(replica.find_verified(4, 1 << 20, limit_offset=len(VALUES)).data) == 5 * size
        assert (world.damage_reports, manager.quarantined) == ([], 0)


async def down_and_damaged(
    world: World, places: dict[int, list[int]], *, lost: tuple[str, ...] = ("checkpoint.json",)
) -> None:
    """Stop brokers, damage their logs, and start them as other incarnations, without some of their files."""
    for broker, damaged in places.items():
        await world.stop(broker)
        world.epochs[broker] += 10
        flip(world, broker, *damaged)
        for name in (*lost, f"{0:020d}.index"):
            (log_file(world, broker).parent / name).unlink(missing_ok=True)
    for broker in places:
        await world.start(broker)


async def test_brokers_that_were_all_down_repair_each_others_logs_before_anybody_leads(tmp_path: Path):
    async with World(tmp_path) as world:
        size = await filled(world)
        whole = log_file(world, 1).read_bytes()
        world.state = replace(world.state, leader=NO_LEADER, isr=(), elr=(2, 3), leader_epoch=1, partition_epoch=9)
        await down_and_damaged(world, {1: [100, 5 * size + 4], 2: [size + 4], 3: [2 * size + 9, 3 * size + 70]})
        await world.push()
        managers = [broker.manager for broker in world.brokers.values()]
        await world.until(lambda: not any(manager.offline for manager in managers))
        assert [log_file(world, broker).read_bytes() for broker in (1, 2, 3)] == [whole] * 3
        assert [manager.quarantined for manager in managers] == [0, 0, 0]
        await world.elect(2, (2,))
        assert world.brokers[2].values() == VALUES


async def test_damage_among_records_that_another_replica_knows_to_be_deleted_keeps_no_log_closed(tmp_path: Path):
    """Only a replica that may not lead knows that they were deleted, and it no longer has them."""
    async with World(tmp_path) as world:
        size = await filled(world)
        await world.stop(2)
        await world.stop(3)
        world.brokers[1].replica.delete_before(6, len(VALUES))
        flip(world, 1, 2 * size + 100)
        world.state = replace(world.state, leader=NO_LEADER, isr=(), elr=(2, 3), leader_epoch=1, partition_epoch=9)
        await world.start(2)
        await world.start(3)
        await down_and_damaged(world, {2: [2 * size + 100, 4 * size + 8], 3: [2 * size + 8]})
        await world.push()
        await world.until(lambda: not any(world.brokers[broker].manager.offline for broker in (2, 3)))
        assert [world.brokers[broker].replica.log.log_start_offset for broker in (2, 3)] == [6, 6]
        await world.elect(2, (2,))
        assert world.brokers[2].values() == VALUES[6:]


async def test_damage_among_records_that_all_replicas_know_to_be_deleted_keeps_no_log_closed(tmp_path: Path):
    """The segment begins with deleted records, and no replica has them intact."""
    async with World(tmp_path) as world:
        size = await filled(world)
        for broker in (1, 2, 3):
            world.brokers[broker].replica.delete_before(6, len(VALUES))
        world.state = replace(world.state, leader=NO_LEADER, isr=(), elr=(2,), leader_epoch=1, partition_epoch=9)
        await down_and_damaged(world, {broker: [2 * size + 8] for broker in (1, 2, 3)}, lost=())
        await world.push()
        await world.until(lambda: not any(broker.manager.offline for broker in world.brokers.values()))
        await world.elect(2, (2,))
        assert world.brokers[2].values() == VALUES[6:]


async def test_a_quarantined_log_repairs_the_log_that_replaced_it(tmp_path: Path):
    """RF 2, in effect: the third never answers."""
    async with World(tmp_path) as world:
        size = await filled(world)
        aside = log_file(world, 1).parent.with_name(f"{log_file(world, 1).parent.name}.quarantined-1")
        shutil.copytree(log_file(world, 1).parent, aside)
        flip(world, 1, 2 * size + 100)
        for broker in (2, 3):
            world.brokers[broker].helpful = False
        await read_all(world, 1)
        assert world.damage_reports == []


@pytest.mark.parametrize("lie", ["flipped", "shorter", "other offset", "noise", "never"])
async def test_a_source_that_lies_or_never_answers_is_not_believed(
    lie: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async with World(tmp_path) as world:
        size = await filled(world)
        whole = log_file(world, 1).read_bytes()
        honest = world.brokers[2].manager.repair

        async def dishonest(request: RepairRequest) -> tuple[RepairResponse, bytes]:
            if lie == "never":
                await asyncio.sleep(60)
            response, data = await honest(request)
            lies = {
                "flipped": data[:80] + bytes([data[80] ^ 1]) + data[81:],
                "shorter": data[: size - 8],
                "other offset": data[size:],
                "noise": b"\xff" * 100_000,
            }
            return response, lies[lie]

        monkeypatch.setattr(world.brokers[2].manager, "repair", dishonest)
        flip(world, 1, 2 * size + 100, 5 * size + 4)
        await read_all(world, 1)
        assert log_file(world, 1).read_bytes() == whole


async def test_a_damaged_leader_resigns_if_no_replica_has_its_tail(tmp_path: Path):
    """It was never acknowledged: the next leader continues without it."""
    async with World(tmp_path) as world:
        size = await filled(world)
        replica = world.brokers[1].replica
        for broker in (2, 3):
            await world.stop(broker)
        batch = build_batch([NewRecord(b"tail" * 20, timestamp=1)])
        await world.brokers[1].manager.produce("t", 0, batch, acks=0, timeout_ms=1_000)
        flip(world, 1, len(VALUES) * size + 100)
        replica.log.segments[-1].forget_recent()  # It has the batch in memory, too.
        with pytest.raises(StaleRouteError):
            replica.find_verified(len(VALUES), 1, limit_offset=len(VALUES) + 1)
        for broker in (2, 3):
            world.epochs[broker] += 10
            await world.start(broker)
        await world.push(to={2, 3})
        await world.until(lambda: bool(world.damage_reports))
        assert world.damage_reports[0].broker_id == 1


async def test_compacted_logs_are_repaired_from_equal_bytes_and_give_way_to_others(tmp_path: Path):
    async with World(tmp_path, configs={"cleanup_policy": "compact"}) as world:
        for number in range(6):
            batch = build_batch([NewRecord(b"v" * 50, key=b"%d" % number, timestamp=1)])
            await world.brokers[1].manager.produce("t", 0, batch, acks=-1, timeout_ms=5_000)
        await world.until(lambda: all(b.replica.log.log_end_offset == 6 for b in world.brokers.values()))
        whole = log_file(world, 1).read_bytes()
        size = len(whole) // 6
        flip(world, 3, 2 * size + 100, 4 * size + 4)
        follower = world.brokers[3].replica
        for offset in (2, 4):
            with pytest.raises(StaleRouteError):
                follower.find_verified(offset, 1, limit_offset=6)
        await world.until(lambda: log_file(world, 3).read_bytes() == whole)
        await world.until(lambda: follower.damage is None)
        assert world.damage_reports == []

        # The others have another batch there now, as if they had compacted theirs: nobody has the same bytes.
        cleaned = bytearray(build_batch([NewRecord(b"w" * 50, key=b"2", timestamp=1)]))
        stamp(cleaned, base_offset=2, leader_epoch=0)
        for broker in (1, 2):
            content = log_file(world, broker).read_bytes()
            log_file(world, broker).write_bytes(content[: 2 * size] + cleaned + content[3 * size :])
        flip(world, 3, 2 * size + 100)
        with pytest.raises(StaleRouteError):
            follower.find_verified(2, 1, limit_offset=6)
        await world.until(lambda: bool(world.damage_reports))
        assert world.damage_reports[0].broker_id == 3


async def test_a_repair_that_cannot_be_synced_ends_the_broker_and_damage_that_keeps_a_log_from_being_cut_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async with World(tmp_path) as world:
        size = await filled(world)
        ended: list[StorageError] = []
        manager, replica = world.brokers[3].manager, world.brokers[3].replica
        monkeypatch.setattr(manager.repairs, "_on_disk_failure", ended.append)
        flip(world, 3, 4, 5 * size + 4)
        with pytest.raises(StorageError, match="cannot be truncated"):
            replica.truncate_to(6)
        await world.until(lambda: bool(world.damage_reports))
        assert ended == []

        real = os.fsync

        def fsync(descriptor: int) -> None:
            if Path(f"/proc/self/fd/{descriptor}").readlink() == log_file(world, 2):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            real(descriptor)

        monkeypatch.setattr(world.brokers[2].manager.repairs, "_on_disk_failure", ended.append)
        monkeypatch.setattr(os, "fsync", fsync)
        flip(world, 2, 3 * size + 100)
        with pytest.raises(StaleRouteError):
            world.brokers[2].replica.find_verified(3, 1, limit_offset=len(VALUES))
        await world.until(lambda: bool(ended))
        assert "cannot sync a repaired batch" in ended[0].message
        monkeypatch.undo()
