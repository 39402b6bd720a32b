"""A damaged, compacted log of the last replica that may lead is rebuilt with another replica's log (docs/adr/0017)."""

from __future__ import annotations

import asyncio
import os
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from replication_support import World, view

from raftlog.errors import StorageError
from raftlog.model import NO_LEADER
from raftlog.partition.rebuild import CHUNK_BYTES
from raftlog.partition.replica import Replica
from raftlog.partition.storage.checkpoint import Checkpoint
from raftlog.partition.storage.data_dir import CUT_SUFFIX, CUTTING_SUFFIX, DataDir, put_rebuilt
from raftlog.partition.storage.files import FailedSyncError, write_json
from raftlog.partition.storage.rebuilt_log import RebuiltLog
from raftlog.record import NewRecord, build_batch, stamp
from raftlog.record.batch import HEADER_BYTES, iter_batches, parse_header
from raftlog.wire.repair import Holding, RepairRequest, RepairResponse

COMPACT = {"cleanup_policy": "compact", "segment_bytes": 4096}
AHEAD, BEHIND, DAMAGED = 1, 3, 2
"""The replica that may lead; one that has compacted its log; one that is damaged where the first one is."""


async def put(world: World, *pairs: tuple[str, str | None]) -> None:
    records = [NewRecord(None if v is None else v.encode(), k.encode(), timestamp=1) for k, v in pairs]
    await world.brokers[AHEAD].manager.produce("t", 0, build_batch(records), acks=-1, timeout_ms=5_000)


async def churn(world: World, updates: int) -> None:
    for number in range(updates):
        await put(world, (f"k{number % 3}", f"{number}".ljust(300)))


async def level(world: World, *brokers: int) -> None:
    """Have replicas hold all records, synced and known as committed."""
    end = world.brokers[AHEAD].replica.log.log_end_offset
    replicas = [world.brokers[broker].replica for broker in brokers]
    await world.until(
        lambda: all(
            (replica.high_watermark, replica.log.log_end_offset, replica.log.durable_end_offset) == (end, end, end)
            for replica in replicas
        )
    )


async def clean(world: World, broker: int) -> None:
    await level(world, broker)
    world.brokers[broker].replica.log.roll()
    assert await world.brokers[broker].manager.cleaner.clean_dirtiest()


def folder_of(world: World, broker: int) -> Path:
    return world.folder / str(broker) / "partitions" / f"t-0-{world.topic_id}"


def flip_header(world: World, broker: int, *offsets: int) -> None:
    """Damage the headers of batches."""
    for path in sorted(folder_of(world, broker).glob("*.log")):
        content, position = bytearray(path.read_bytes()), 0
        while position + HEADER_BYTES <= len(content):
            header = parse_header(content, position)
            if header.base_offset in offsets:
                content[position + 20] ^= 1
            position += header.batch_length
        path.write_bytes(content)


async def restart_damaged(
    world: World, places: dict[int, tuple[int, ...]], *, recovery_point: int | None = None
) -> None:
    """Stop brokers, damage their logs and start them: they read every header, as after a power loss.

    Args:
        recovery_point: of the checkpoint that a killed process left.
    """
    for broker, offsets in places.items():
        await world.stop(broker)
        world.epochs[broker] += 10
        if recovery_point is not None:
            old = Checkpoint(recovery_point=recovery_point, high_watermark=recovery_point)
            old.save(folder_of(world, broker))
        flip_header(world, broker, *offsets)
        for index in folder_of(world, broker).glob("*.index"):
            index.unlink()
    for broker in places:
        await world.start(broker)


def only_ahead_may_lead(world: World) -> None:
    world.state = replace(world.state, leader=NO_LEADER, isr=(), elr=(AHEAD,), leader_epoch=1, partition_epoch=9)


def latest(replica: Replica) -> dict[bytes | None, bytes]:
    by_key = {key: value for _, key, value in view(replica)}
    return {key: value.rstrip() for key, value in by_key.items() if value is not None}


def leftovers(world: World) -> list[str]:
    suffixes = (CUT_SUFFIX, CUTTING_SUFFIX)
    return [path.name for path in folder_of(world, AHEAD).parent.iterdir() if path.name.endswith(suffixes)]


async def rebuilt(world: World) -> Replica:
    """Wait until the damaged log is open again, and return its replica after it was elected."""
    manager = world.brokers[AHEAD].manager
    await world.push()
    await world.until(lambda: not manager.offline)
    assert (manager.quarantined, leftovers(world)) == (1, [])
    await world.elect(AHEAD, (AHEAD,))
    return world.brokers[AHEAD].replica


@pytest.mark.parametrize("damaged", [(4,), (4, 5, 6), (0,), (26, 27, 28, 29)])
async def test_records_that_another_replica_has_compacted_are_served_again(damaged: tuple[int, ...], tmp_path: Path):
    async with World(tmp_path, configs=COMPACT) as world:
        await churn(world, 30)
        await clean(world, BEHIND)
        expected = latest(world.brokers[AHEAD].replica)
        only_ahead_may_lead(world)
        await restart_damaged(world, {AHEAD: damaged, DAMAGED: damaged})
        replica = await rebuilt(world)
        assert replica.log.log_end_offset == 30
        assert latest(replica) == expected == {b"k0": b"27", b"k1": b"28", b"k2": b"29"}
        assert view(replica) == view(world.brokers[BEHIND].replica)
        assert world.brokers[AHEAD].disk_failures == []
        await world.until(lambda: BEHIND in world.state.isr)
        await put(world, ("k0", "new"))
        assert latest(replica)[b"k0"] == b"new"


async def test_records_that_only_the_damaged_log_has_are_kept(tmp_path: Path):
    async with World(tmp_path, configs=COMPACT) as world:
        await churn(world, 30)
        await clean(world, BEHIND)
        await world.stop(BEHIND)
        world.epochs[BEHIND] += 10
        world.state = replace(world.state, isr=(AHEAD, DAMAGED), partition_epoch=8)
        await world.push()
        await put(world, ("k1", None), ("last", "1"))
        await put(world, ("last", "2"))
        await level(world, AHEAD)
        only_ahead_may_lead(world)
        await restart_damaged(world, {AHEAD: (4,), DAMAGED: (4,)})
        await world.start(BEHIND)
        replica = await rebuilt(world)
        assert replica.log.log_end_offset == 33
        assert latest(replica) == {b"k0": b"27", b"k2": b"29", b"last": b"2"}


@pytest.mark.parametrize("damaged", [(20,), (4, 20), (4, 29), (4, 26, 27, 28, 29)])
@pytest.mark.parametrize("behind", [False, True])
async def test_damage_above_the_recovery_point_ends_no_log(damaged: tuple[int, ...], behind: bool, tmp_path: Path):
    """The process was killed, so its checkpoint is old: the rebuilt log ended at the first damage above it."""
    async with World(tmp_path, configs=COMPACT) as world:
        await churn(world, 30)
        await clean(world, BEHIND)
        expected = {b"k0": b"27", b"k1": b"28", b"k2": b"29"}
        if behind:
            await world.stop(BEHIND)
            world.epochs[BEHIND] += 10
            world.state = replace(world.state, isr=(AHEAD, DAMAGED), partition_epoch=8)
            await world.push()
            await put(world, ("late", "1"))
            await put(world, ("late", "2"))
            await level(world, AHEAD)
            expected[b"late"] = b"2"
        only_ahead_may_lead(world)
        await restart_damaged(world, {AHEAD: damaged, DAMAGED: damaged}, recovery_point=13)
        if behind:
            await world.start(BEHIND)
        replica = await rebuilt(world)
        assert latest(replica) == expected
        assert replica.log.log_end_offset == (32 if behind else 30)


async def test_damage_that_may_hide_the_last_records_of_the_damaged_log_waits(tmp_path: Path):
    """They were acknowledged. They are damaged here, so only their bytes elsewhere can be used."""
    async with World(tmp_path, configs=COMPACT) as world:
        await churn(world, 30)
        await clean(world, BEHIND)
        await world.stop(BEHIND)
        world.epochs[BEHIND] += 10
        world.state = replace(world.state, isr=(AHEAD, DAMAGED), partition_epoch=8)
        await world.push()
        await put(world, ("late", "1"))
        await level(world, AHEAD, DAMAGED)
        only_ahead_may_lead(world)
        await restart_damaged(world, {AHEAD: (4, 30), DAMAGED: (4,)}, recovery_point=13)
        await world.start(BEHIND)
        await world.push()
        await never_rebuilt(world)


async def test_a_log_start_inside_a_batch_of_the_other_replica_is_kept(tmp_path: Path):
    async with World(tmp_path, configs={**COMPACT, "cleanup_policy": "compact,delete"}) as world:
        await churn(world, 30)
        await level(world, AHEAD, DAMAGED, BEHIND)
        await clean(world, BEHIND)
        for broker in (AHEAD, BEHIND):
            world.brokers[broker].replica.delete_before(2, 30)
        only_ahead_may_lead(world)
        await restart_damaged(world, {AHEAD: (4,), DAMAGED: (4,)})
        replica = await rebuilt(world)
        assert replica.log.log_start_offset == 2
        assert latest(replica) == {b"k0": b"27", b"k1": b"28", b"k2": b"29"}


async def test_epochs_that_contradict_keep_a_log_closed(tmp_path: Path):
    """After an unclean election the other replica's high watermark belongs to records that are not there any more."""
    damaged = (26, 27, 28, 29)
    async with World(tmp_path, configs=COMPACT) as world:
        await churn(world, 30)
        await clean(world, BEHIND)
        only_ahead_may_lead(world)
        for broker in (AHEAD, DAMAGED):
            await world.stop(broker)
            table = [(0, 0), (3, 27)]
            write_json(folder_of(world, broker) / "leader-epochs.json", {"version": 1, "epochs": table})
            await world.start(broker)
        await restart_damaged(world, {AHEAD: damaged, DAMAGED: damaged})
        await world.push()
        await never_rebuilt(world)


async def test_a_failed_sync_of_a_rebuilt_log_ends_the_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async with World(tmp_path, configs=COMPACT) as world:
        await churn(world, 30)
        await clean(world, BEHIND)
        only_ahead_may_lead(world)
        await restart_damaged(world, {AHEAD: (4,), DAMAGED: (4,)})
        real = os.fdatasync

        def fails(descriptor: int) -> None:
            if CUTTING_SUFFIX in str(Path(f"/proc/self/fd/{descriptor}").readlink()):
                raise OSError(5, "Input/output error")
            real(descriptor)

        monkeypatch.setattr(os, "fdatasync", fails)
        monkeypatch.setattr(os, "fsync", fails)
        await world.push()
        failures = world.brokers[AHEAD].disk_failures
        await world.until(lambda: bool(failures))
        assert isinstance(failures[0], FailedSyncError)
        await world.until(lambda: not leftovers(world))  # A thread removes them: the broker reports its failure first.


async def test_a_removed_tombstone_brings_no_record_back(tmp_path: Path):
    """The other replica has removed the tombstone and what it deletes. Here the tombstone is damaged."""
    configs = {**COMPACT, "delete_retention_ms": 0, "min_cleanable_dirty_ratio": 0.0}
    async with World(tmp_path, configs=configs) as world:
        await put(world, ("gone", "1"))
        await put(world, ("gone", None))
        await churn(world, 28)
        other = world.brokers[BEHIND].replica
        await level(world, AHEAD, DAMAGED, BEHIND)

        async def without_tombstone() -> bool:
            await world.brokers[BEHIND].manager.cleaner.clean_dirtiest()
            return all(key != b"gone" for _, key, _ in view(other))

        other.log.roll()
        while not await without_tombstone():  # It goes one second later: its stamp is in whole seconds.
            await put(world, ("k0", "27"))
            await level(world, BEHIND)
        assert any(key == b"gone" for _, key, _ in view(world.brokers[AHEAD].replica))
        only_ahead_may_lead(world)
        await restart_damaged(world, {AHEAD: (1,), DAMAGED: (1,)})
        assert b"gone" not in latest(await rebuilt(world))


async def test_batches_that_are_each_whole_on_another_replica_are_repaired(tmp_path: Path):
    """No replica alone has what fits. Each repairs its own damage first, once it was asked for that batch."""
    async with World(tmp_path, configs=COMPACT) as world:
        await churn(world, 30)
        await level(world, 1, 2, 3)
        everything = view(world.brokers[AHEAD].replica)
        only_ahead_may_lead(world)
        await restart_damaged(world, {AHEAD: (4, 5)})
        flip_header(world, DAMAGED, 4)
        flip_header(world, BEHIND, 5)
        manager = world.brokers[AHEAD].manager
        await world.push()
        await world.until(lambda: not manager.offline)
        assert (manager.quarantined, leftovers(world)) == (0, [])
        assert view(world.brokers[AHEAD].replica) == everything


async def never_rebuilt(world: World) -> None:
    """Let the repair try to rebuild the log, and fail."""
    manager = world.brokers[AHEAD].manager
    tried = list[bool]()
    (running,) = manager.repairs._repairer._running
    real = manager.repairs._repairer._rebuild

    async def noted(*arguments) -> bool:
        done = await real(*arguments)
        tried.append(arguments[0].rebuild_at > 0)
        return done

    manager.repairs._repairer._rebuild = noted
    await world.until(lambda: any(tried))
    assert running in manager.repairs
    assert manager.offline
    assert (manager.quarantined, leftovers(world)) == (0, [])


@pytest.mark.parametrize("lie", ["another epoch", "flipped", "compacted meanwhile", "quarantined", "no end", "damaged"])
async def test_a_log_that_does_not_fit_replaces_nothing(lie: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async with World(tmp_path, configs=COMPACT) as world:
        await churn(world, 30)
        await clean(world, BEHIND)
        honest, answers = world.brokers[BEHIND].manager.repair, list[int]()

        async def dishonest(request: RepairRequest) -> tuple[RepairResponse, bytes]:
            response, data = await honest(request)
            answers.append(request.offset)
            if lie == "another epoch" and data:
                data = bytearray(data)
                for header, batch in list(iter_batches(bytes(data))):
                    whole = bytearray(batch)
                    stamp(whole, base_offset=header.base_offset, leader_epoch=7)
                    at = bytes(data).index(bytes(batch)[8:40]) - 8
                    data[at : at + len(whole)] = whole
                data = bytes(data)
            lies = {
                "flipped": (response, data[:-9] + bytes([data[-9] ^ 1]) + data[-8:] if data else data),
                "compacted meanwhile": (replace(response, generation=f"{len(answers)}"), data),
                "quarantined": (replace(response, from_log=False), data),
                "no end": (replace(response, first_offset=-1), data),
                "damaged": (
                    replace(
                        response, holding=Holding.DAMAGED if request.max_bytes == CHUNK_BYTES else response.holding
                    ),
                    data,
                ),
            }
            return lies.get(lie, (response, data))

        monkeypatch.setattr(world.brokers[BEHIND].manager, "repair", dishonest)
        only_ahead_may_lead(world)
        await restart_damaged(world, {AHEAD: (4,), DAMAGED: (4,)})
        await world.push()
        await never_rebuilt(world)


async def test_a_replica_that_nobody_relies_on_is_not_rebuilt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    begun = list[Path]()

    async def unavailable(log: RebuiltLog, *_: object) -> bool:
        """Leave the log of the only heir damaged: once that is rebuilt, the other is to be fetched again."""
        begun.append(log.folder)
        return False

    monkeypatch.setattr("raftlog.partition.damaged_logs.rebuild", unavailable)
    async with World(tmp_path, configs=COMPACT) as world:
        await churn(world, 30)
        await clean(world, BEHIND)
        world.state = replace(world.state, leader=NO_LEADER, isr=(), elr=(DAMAGED,), leader_epoch=1, partition_epoch=9)
        await restart_damaged(world, {AHEAD: (4,), DAMAGED: (4,)})
        await world.push()
        await world.until(lambda: folder_of(world, DAMAGED) in begun)
        await never_rebuilt(world)
        assert set(begun) == {folder_of(world, DAMAGED)}


async def test_a_rebuilt_log_that_cannot_be_put_in_place_ends_the_broker_and_the_next_start_finishes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """An empty log in that place might be elected."""
    async with World(tmp_path, configs=COMPACT) as world:
        await churn(world, 30)
        await clean(world, BEHIND)
        only_ahead_may_lead(world)
        await restart_damaged(world, {AHEAD: (4,), DAMAGED: (4,)})
        real, place = os.rename, folder_of(world, AHEAD)

        def rename(source: Path, target: Path) -> None:
            if str(source).endswith(CUT_SUFFIX) and Path(target) == place:
                raise OSError(5, "Input/output error")
            real(source, target)

        monkeypatch.setattr(os, "rename", rename)
        await world.push()
        failures = world.brokers[AHEAD].disk_failures
        await world.until(lambda: bool(failures))
        assert isinstance(failures[0], FailedSyncError)
        (failed,) = world.brokers[AHEAD].manager.offline
        await world.until(lambda: failed not in world.brokers[AHEAD].manager.repairs)  # It had tried again.
        assert list(world.brokers[AHEAD].manager.offline) == [failed]
        assert not place.exists()
        monkeypatch.undo()
        await world.stop(AHEAD)
        world.epochs[AHEAD] += 10
        await world.start(AHEAD)
        replica = await rebuilt(world)
        assert latest(replica) == {b"k0": b"27", b"k1": b"28", b"k2": b"29"}


async def test_a_broker_that_stops_while_a_rebuilt_log_is_put_in_place_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """What the attempt had left was removed, while the thread renamed it."""
    async with World(tmp_path, configs=COMPACT) as world:
        await churn(world, 30)
        await clean(world, BEHIND)
        only_ahead_may_lead(world)
        await restart_damaged(world, {AHEAD: (4,), DAMAGED: (4,)})
        begun, may_go_on, done = threading.Event(), threading.Event(), threading.Event()

        def slow(folder: Path) -> Path:
            begun.set()
            assert may_go_on.wait(10)
            try:
                return put_rebuilt(folder)
            finally:
                done.set()

        monkeypatch.setattr("raftlog.partition.log_opener.put_rebuilt", slow)
        await world.push()
        await world.until(begun.is_set)
        (attempt,) = world.brokers[AHEAD].manager.repairs._repairer._running.values()
        stopping = asyncio.ensure_future(world.stop(AHEAD))
        await asyncio.wait([attempt])  # It is cancelled, and has removed files, if it does that.
        may_go_on.set()
        await stopping
        await world.until(done.is_set)
        monkeypatch.undo()
        world.epochs[AHEAD] += 10
        await world.start(AHEAD)
        assert latest(await rebuilt(world)) == {b"k0": b"27", b"k1": b"28", b"k2": b"29"}


@pytest.mark.parametrize("complete", [False, True])
async def test_a_crash_before_the_log_is_in_place_leaves_the_damaged_one(complete: bool, tmp_path: Path):
    async with World(tmp_path, configs=COMPACT) as world:
        await churn(world, 30)
        place = folder_of(world, AHEAD)
        await world.stop(AHEAD)
        beside = place.with_name(place.name + (CUT_SUFFIX if complete else CUTTING_SUFFIX))
        beside.mkdir()
        (beside / "file").write_bytes(b"x")
        before = sorted(place.iterdir())
        DataDir.open(world.folder / str(AHEAD), cluster_id="c", node_id=AHEAD).close()
        assert leftovers(world) == []
        assert sorted(place.iterdir()) == before
        await world.start(AHEAD)


async def test_a_full_disk_leaves_the_damaged_log_and_the_next_attempt_succeeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async with World(tmp_path, configs=COMPACT) as world:
        await churn(world, 30)
        await clean(world, BEHIND)
        only_ahead_may_lead(world)
        await restart_damaged(world, {AHEAD: (4,), DAMAGED: (4,)})
        real, refused = os.pwrite, list[int]()

        def full(descriptor: int, *rest: Any) -> int:
            if CUTTING_SUFFIX in str(Path(f"/proc/self/fd/{descriptor}").readlink()) and len(refused) < 1:
                refused.append(descriptor)
                raise OSError(28, "No space left on device")
            return real(descriptor, *rest)

        monkeypatch.setattr(os, "pwrite", full)
        await rebuilt(world)
        assert refused
        assert world.brokers[AHEAD].disk_failures == []


def test_a_failure_before_the_first_rename_keeps_the_damaged_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    place = tmp_path / "t-0"
    place.mkdir()
    (tmp_path / "t-0.cut").mkdir()

    def rename(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "rename", rename)
    with pytest.raises(StorageError) as caught:
        put_rebuilt(place)
    assert not isinstance(caught.value, FailedSyncError)
    assert place.exists()
