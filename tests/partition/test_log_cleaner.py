"""The broker's cleaner and deletion by offset, on replicas that talk to each other over HTTP."""

from __future__ import annotations

import asyncio
import errno
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from unittest.mock import Mock

import pytest
from replica_support import Solo
from replication_support import World, view

from raftlog.errors import (
    CorruptBatchError,
    DiskFullError,
    ErrorCode,
    InvalidRequestError,
    OffsetOutOfRangeError,
    StaleRouteError,
    UnknownOutcomeError,
)
from raftlog.partition.log_cleaner import CleanerSettings, LogCleaner
from raftlog.partition.record_deletion import delete_records
from raftlog.partition.replica import Replica
from raftlog.partition.storage import checkpoint
from raftlog.partition.storage.cleaner import CleanerState, CleaningPass, Moved
from raftlog.partition.storage.segment import Segment
from raftlog.record import NewRecord, build_batch, stamp
from raftlog.record.compacted import is_filler

COMPACT = {"cleanup_policy": "compact", "segment_bytes": 4096}


async def put(world: World, *pairs: tuple[str, str | None], broker: int = 1) -> int:
    """Produce one batch of (key, value)."""
    records = [NewRecord(None if v is None else v.encode(), k.encode(), timestamp=1) for k, v in pairs]
    result = await world.brokers[broker].manager.produce("t", 0, build_batch(records), acks=-1, timeout_ms=5_000)
    return result.base_offset


async def churn(world: World, updates: int, *, keys: int = 5) -> None:
    for number in range(updates):
        await put(world, (f"k{number % keys}", f"{number}".ljust(300)))


def bounds(replica: Replica) -> list[tuple[int, int, int]]:
    return [(h.base_offset, h.last_offset, h.leader_epoch) for h, _ in replica.log.scan()]


async def clean(world: World, broker: int) -> None:
    manager = world.brokers[broker].manager
    replica = world.brokers[broker].replica
    # A follower knows a high watermark before it has synced what it fetched; only what is synced is cleaned.
    await world.until(lambda: replica.high_watermark == replica.log.log_end_offset == replica.log.durable_end_offset)
    replica.log.roll()
    assert await manager.cleaner.clean_dirtiest()


async def test_a_follower_that_lost_its_disk_gets_a_cleaned_log(tmp_path: Path):
    async with World(tmp_path, configs=COMPACT) as world:
        await churn(world, 40)
        await world.elect(1, (1, 2, 3))
        await churn(world, 20)
        await put(world, ("k0", None), ("gone", None))
        await clean(world, 1)
        await world.stop(3)
        shutil.rmtree(tmp_path / "3")
        await world.start(3)
        await world.push()
        await put(world, ("k1", "last"))
        leader = world.brokers[1].replica
        await world.until(lambda: world.brokers[3].replica.log.log_end_offset == leader.log.log_end_offset)

        assert len(view(leader)) == 7
        assert view(world.brokers[3].replica) == view(leader)
        assert bounds(world.brokers[3].replica) == bounds(leader)
        assert world.brokers[3].replica.log.epochs.entries == leader.log.epochs.entries
        assert len(view(world.brokers[2].replica)) > 50  # Each replica cleans its own log.
        await clean(world, 2)
        await world.elect(2, (1, 2, 3))
        assert await put(world, ("k2", "by 2"), broker=2) == leader.log.log_end_offset - 1


async def test_a_follower_that_ends_inside_a_filler_goes_on_from_there(tmp_path: Path):
    async with World(tmp_path, configs=COMPACT) as world:
        await churn(world, 7)
        await world.until(lambda: world.brokers[3].replica.log.log_end_offset == 7)
        await world.stop(3)
        await churn(world, 33)
        await clean(world, 1)
        (filler, *_) = [h for h, _ in world.brokers[1].replica.log.scan() if is_filler(h)]
        assert filler.base_offset < 7 < filler.last_offset

        await world.start(3)
        await world.push()
        leader, follower = world.brokers[1].replica, world.brokers[3].replica
        await world.until(lambda: follower.log.log_end_offset == 40)

        assert view(follower)[-5:] == view(leader)[-5:]
        assert [offset for offset, _, _ in view(follower)][:7] == list(range(7))
        await clean(world, 3)
        assert view(follower) == view(leader)
        await world.stop(3)
        await world.start(3)
        await world.push()
        assert view(world.brokers[3].replica) == view(leader)


async def test_no_tombstone_goes_while_a_replica_lacks_it(tmp_path: Path):
    async with World(
        tmp_path, configs={**COMPACT, "delete_retention_ms": 0, "min_cleanable_dirty_ratio": 0.0}
    ) as world:
        await put(world, ("a", "1"), ("b", "1"))
        await world.until(lambda: world.brokers[3].replica.log.log_end_offset == 2)
        await world.stop(3)
        await put(world, ("a", None), ("c", "1"))
        await clean(world, 1)
        await world.until(lambda: world.state.isr == (1, 2))
        leader = world.brokers[1].replica
        assert [offset for offset, _, _ in view(leader)] == [1, 2, 3]
        await put(world, ("d", "1"))
        await clean(world, 1)
        assert [offset for offset, _, _ in view(leader)] == [1, 2, 3, 4]  # Its time has come, but 3 never heard of it.

        await world.start(3)
        await world.push()
        await world.until(lambda: leader.core is not None and leader.core.replicated_offset == 5)
        async with asyncio.timeout(20):
            while len(view(leader)) == 4:  # Until the second is over that `cleaned_at_s` was rounded up to.
                await world.brokers[1].manager.cleaner.clean_dirtiest()
                await asyncio.sleep(0.02)
        assert [offset for offset, _, _ in view(leader)] == [1, 3, 4]
        await clean(world, 3)
        assert (2, b"a", None) in view(world.brokers[3].replica)
        assert (0, b"a", b"1") not in view(world.brokers[3].replica)


async def test_followers_get_the_replicated_offset_without_other_changes(tmp_path: Path):
    async with World(tmp_path, configs=COMPACT) as world:
        await world.stop(3)
        await world.until(lambda: world.state.isr == (1, 2))
        await put(world, ("a", "1"), ("b", "1"))
        follower = world.brokers[2].replica
        await world.until(lambda: follower.high_watermark == 2)
        assert follower.replicated_offset <= 0

        world.reachable = False  # So 3 does not come back into the ISR, which would be news of another kind.
        await world.start(3)
        await world.push()
        await world.until(lambda: follower.replicated_offset == 2)


async def test_records_are_deleted_on_every_replica_before_the_answer(tmp_path: Path):
    async with World(tmp_path) as world:
        for number in range(6):
            await world.produce(str(number), str(number))
        leader = world.brokers[1].replica

        assert await delete_records(leader, 5, timeout_ms=5_000) == 5

        assert [broker.replica.log.log_start_offset for broker in world.brokers.values()] == [5, 5, 5]
        assert await delete_records(leader, 3, timeout_ms=5_000) == 5  # It never goes back.
        with pytest.raises(OffsetOutOfRangeError, match="at most the high watermark 12, received 13"):
            await delete_records(leader, 13, timeout_ms=5_000)
        with pytest.raises(OffsetOutOfRangeError, match="it holds 5 to 12"):
            leader.read(4, 100)
        with pytest.raises(StaleRouteError):
            await delete_records(world.brokers[2].replica, 6, timeout_ms=5_000)

        # A follower that starts from nothing begins in the middle of a batch.
        await world.stop(3)
        shutil.rmtree(tmp_path / "3")
        await world.start(3)
        await world.push()
        await world.until(lambda: world.brokers[3].replica.log.log_end_offset == 12)
        await world.until(lambda: world.brokers[3].replica.log.log_start_offset == 5)
        assert view(world.brokers[3].replica) == view(leader)
        assert await delete_records(leader, None, timeout_ms=5_000) == 12
        assert (view(leader), await world.produce("next")) == ([], (12, False))
        await world.until(lambda: world.brokers[3].replica.log.log_end_offset == 13)
        assert [(offset, value) for offset, _, value in view(world.brokers[3].replica)] == [(12, b"next")]


async def test_a_deletion_that_a_replica_in_sync_did_not_confirm_is_of_unknown_outcome(tmp_path: Path):
    async with World(tmp_path) as world:
        await world.produce("a", "b")
        world.reachable = False
        await world.stop(3)

        with pytest.raises(
            UnknownOutcomeError, match="not every replica that may lead next has confirmed: send the request again"
        ) as unknown:
            await delete_records(world.brokers[1].replica, 1, timeout_ms=300)

        assert unknown.value.details == {"log_start_offset": 1}
        world.reachable = True
        assert await delete_records(world.brokers[1].replica, 1, timeout_ms=10_000) == 1  # 3 leaves the ISR.


async def test_the_high_watermark_of_a_reset_leader_starts_at_its_log_start(tmp_path: Path):
    solo = Solo(tmp_path, leader=2, isr=(2,))
    solo.replica.start_over_at(7)  # Where its leader's log starts; whose marks it does not know yet.

    solo.change(leader=1, leader_epoch=1, isr=(1,))

    assert (solo.replica.log.log_start_offset, solo.replica.high_watermark) == (7, 7)
    await solo.close()


async def test_a_change_of_a_topics_settings_reaches_its_open_logs(tmp_path: Path):
    async with World(tmp_path, configs={"segment_bytes": 4096}) as world:
        await churn(world, 20)
        await world.produce("without a key")
        manager, replica = world.brokers[1].manager, world.brokers[1].replica
        assert not await manager.cleaner.clean_dirtiest()

        world.configs = COMPACT
        await world.push()

        with pytest.raises(InvalidRequestError, match="every record needs a key") as refused:
            await world.produce("refused")
        assert refused.value.code is ErrorCode.INVALID_RECORD
        await clean(world, 1)
        assert [key for _, key, _ in view(replica)] == [b"k0", b"k1", b"k2", b"k3", b"k4", None]
        assert replica.log.apply_retention(10**18, replica.high_watermark) == 0
        world.configs = {"segment_bytes": 4096, "retention_ms": 1}
        await world.push()
        assert replica.log.apply_retention(10**18, replica.high_watermark) > 0
        assert await world.produce("with or without") == (21, False)


def cleaner(*solos: Solo, **settings: int) -> LogCleaner:
    return LogCleaner(
        CleanerSettings(**settings),  # type: ignore[arg-type]
        replicas=lambda: [solo.replica for solo in solos],
        clock=solos[0].clock,
    )


def feed(solo: Solo, count: int, key: str = "k") -> None:
    """Append more records to every replica, all of one key, in closed segments."""
    for _ in range(count):
        batch = build_batch([NewRecord(b"x" * 500, key.encode(), timestamp=1)])
        stamp(batch, base_offset=solo.replica.log.log_end_offset, leader_epoch=0)
        solo.replica.log.append(batch)
    solo.replica.log.roll()
    solo.replica.log.fsync()
    assert solo.replica.core is not None
    solo.replica.core.on_local_append(solo.replica.log.log_end_offset)
    solo.replica.core.on_local_end(solo.replica.log.log_end_offset)
    solo.follow(2, 3)


async def test_the_dirtiest_log_is_first_and_clean_ones_rest(tmp_path: Path):
    some, more = Solo(tmp_path, partition=0, **COMPACT), Solo(tmp_path, partition=1, **COMPACT)
    plain = Solo(tmp_path, partition=2, segment_bytes=4096)
    for solo in (some, more, plain):
        feed(solo, 10)
    work = cleaner(plain, some, more)
    assert await work.clean_dirtiest()
    assert (len(view(some.replica)), len(view(more.replica))) == (1, 10)
    feed(some, 3)
    assert await work.clean_dirtiest()  # All of `more` is dirty, not all of `some`.
    assert len(view(more.replica)) == 1

    assert await work.clean_dirtiest()
    assert not await work.clean_dirtiest()
    feed(some, 1, key="another")
    some.replica.log.config = some.replica.config.with_overrides({"min_cleanable_dirty_ratio": 1.0})
    assert not await work.clean_dirtiest()
    some.replica.log.config = some.replica.config.with_overrides({"max_compaction_lag_ms": 1_000})
    assert not await work.clean_dirtiest()
    plain.clock.now_ms = 1_002
    assert await work.clean_dirtiest()
    assert len(view(plain.replica)) == 10
    for solo in (some, more, plain):
        await solo.close()


async def test_a_quiet_log_is_closed_and_compacted_once_it_has_waited_too_long(tmp_path: Path):
    solo = Solo(tmp_path, **COMPACT, max_compaction_lag_ms=1_000)
    batch = build_batch([NewRecord(b"1", b"k", timestamp=1), NewRecord(b"2", b"k", timestamp=1)])
    appended = asyncio.ensure_future(solo.replica.append(batch, acks=-1, timeout_ms=5_000))
    await asyncio.sleep(0)
    solo.replica.log.fsync()
    solo.follow(2, 3)
    await appended
    work = cleaner(solo)
    assert not await work.clean_dirtiest()

    solo.clock.now_ms = 1_002

    assert await work.clean_dirtiest()
    assert view(solo.replica) == [(1, b"k", b"2")]
    await solo.close()


async def test_a_log_that_cannot_be_read_rests_and_others_have_their_turn(tmp_path: Path):
    broken, sound = Solo(tmp_path, partition=0, **COMPACT), Solo(tmp_path, partition=1, **COMPACT)
    feed(broken, 10)
    feed(sound, 10)
    path = broken.replica.log.segments[0].path
    content = bytearray(path.read_bytes())
    content[-10] ^= 1
    path.write_bytes(content)
    work = cleaner(broken, sound)

    assert not await work.clean_dirtiest()
    assert await work.clean_dirtiest()

    assert len(view(sound.replica)) == 1
    assert path.read_bytes() == content
    await broken.close()
    await sound.close()


async def test_too_little_memory_for_one_log_does_not_end_the_cleaner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Until the next start no log of the broker was compacted any more."""
    large, sound = Solo(tmp_path, partition=0, **COMPACT), Solo(tmp_path, partition=1, **COMPACT)
    feed(large, 10)
    feed(sound, 10)
    work, clean = cleaner(large, sound), LogCleaner._clean

    async def without_memory(self: LogCleaner, replica: Replica, end: int) -> bool:
        if replica is large.replica:
            raise MemoryError
        return await clean(self, replica, end)

    monkeypatch.setattr(LogCleaner, "_clean", without_memory)
    while len(view(sound.replica)) > 1:
        await work.clean_dirtiest()
    assert len(view(large.replica)) == 10
    await large.close()
    await sound.close()


async def test_damage_that_the_cleaner_finds_is_noticed_once(tmp_path: Path):
    solo = Solo(tmp_path, **COMPACT)
    feed(solo, 10)
    path = solo.replica.log.segments[0].path
    content = bytearray(path.read_bytes())
    content[-10] ^= 1
    path.write_bytes(content)
    work = cleaner(solo, backoff_ms=1)

    assert not await work.clean_dirtiest()
    found = solo.replica.damage
    solo.clock.now_ms += 1_000
    assert not await work.clean_dirtiest()

    assert found is not None
    assert "payload checksum" in found.reason
    assert solo.replica.damage is found
    await solo.close()


async def test_what_is_found_after_a_log_was_closed_says_nothing_of_its_replica(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The folder may be deleted by then, or contain records that were fetched again."""
    solo = Solo(tmp_path, **COMPACT)
    feed(solo, 10)

    def steps(_: CleaningPass) -> Iterator[Moved]:
        solo.replica.log.close()
        raise CorruptBatchError("another log's")
        yield Moved(0)

    monkeypatch.setattr(CleaningPass, "steps", steps)
    assert not await cleaner(solo).clean_dirtiest()
    assert solo.replica.damage is None
    await solo.close()


async def test_a_cut_inside_a_batch_forgets_that_the_whole_batch_was_compacted(tmp_path: Path):
    """Other records come at its offsets: their keys must not be taken for compacted."""
    solo = Solo(tmp_path, isr=(1, 2), leader=2, **COMPACT)
    for base in (0, 3, 6):
        batch = build_batch([NewRecord(b"v", b"k", timestamp=1) for _ in range(3)])
        stamp(batch, base_offset=base, leader_epoch=0)
        solo.replica.log.append(batch)
    solo.replica.log.fsync()
    solo.replica.cleaned.finished(9, 0)

    solo.replica.truncate_to(5)

    assert (solo.replica.log.log_end_offset, solo.replica.cleaned.cleaned_below) == (3, 3)
    assert CleanerState(solo.replica.log.folder, 9).cleaned_below == 3
    await solo.close()


async def test_a_full_disk_that_keeps_a_quiet_log_from_being_closed_ends_no_cleaner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    solo = Solo(tmp_path, **COMPACT, max_compaction_lag_ms=1_000)
    batch = build_batch([NewRecord(b"1", b"k", timestamp=1), NewRecord(b"2", b"k", timestamp=1)])
    stamp(batch, base_offset=0, leader_epoch=0)
    solo.replica.log.append(batch)
    solo.replica.log.fsync()
    assert solo.replica.core is not None
    solo.replica.core.on_local_append(2)
    solo.replica.core.on_local_end(2)
    solo.follow(2, 3)
    solo.clock.now_ms = 1_002
    work = cleaner(solo)
    with monkeypatch.context() as full:
        full.setattr(Segment, "create", Mock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
        assert not await work.clean_dirtiest()
    assert (solo.failures, solo.replica.log.failure) == ([], None)
    assert not await work.clean_dirtiest(), "the log rests"
    solo.clock.now_ms = 3_600_000
    assert await work.clean_dirtiest()
    assert view(solo.replica) == [(1, b"k", b"2")]
    await solo.close()


async def test_a_full_disk_leaves_no_compacted_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The file, and its descriptor, stayed until the next start, and the disk stayed full."""
    solo = Solo(tmp_path, **COMPACT)
    feed(solo, 10)
    before, opened = view(solo.replica), set(solo.replica.log.segments)
    work = cleaner(solo, backoff_ms=1)
    with monkeypatch.context() as full:
        full.setattr(checkpoint, "write_json", Mock(side_effect=DiskFullError("No space left on device")))
        assert not await work.clean_dirtiest()
    assert list(solo.replica.log.folder.glob("*.cleaned*")) == []
    assert (view(solo.replica), set(solo.replica.log.segments)) == (before, opened)
    assert not [name for name in open_files(tmp_path) if name.endswith(".cleaned (deleted)")]
    assert (solo.failures, solo.replica.log.failure) == ([], None)
    solo.clock.now_ms += 1_000
    assert await work.clean_dirtiest()
    assert len(view(solo.replica)) == 1
    await solo.close()


def open_files(folder: Path) -> list[str]:
    """Return what this process has open in a folder: name, and "(deleted)" if the file was removed."""
    names = list[str]()
    for path in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            names.append(str(path.readlink()))
    return [name for name in names if name.startswith(str(folder))]


async def test_a_compacted_file_that_cannot_be_opened_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    solo = Solo(tmp_path, **COMPACT)
    feed(solo, 10)
    work = cleaner(solo, backoff_ms=1)
    with monkeypatch.context() as patched:
        full = OSError(errno.EMFILE, "Too many open files")
        patched.setattr("raftlog.partition.storage.cleaner.open_cleaned", Mock(side_effect=full))
        assert not await work.clean_dirtiest()
    assert list(solo.replica.log.folder.glob("*.cleaned*")) == []
    assert (solo.failures, solo.replica.log.failure) == ([], None)
    solo.clock.now_ms += 1_000
    assert await work.clean_dirtiest()
    assert len(view(solo.replica)) == 1
    await solo.close()


async def test_the_rate_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    solo, slept = Solo(tmp_path, **COMPACT), []
    feed(solo, 40)
    size = solo.replica.log.size_bytes
    monkeypatch.setattr("raftlog.partition.log_cleaner.asyncio.sleep", _noting(slept))

    assert await cleaner(solo, io_max_bytes_per_second=1000).clean_dirtiest()

    # Read twice, and written once, almost to nothing.
    assert slept[-1] == pytest.approx(2 * size / 1000, rel=0.15)
    await solo.close()


def _noting(slept: list[float]):
    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    return sleep


async def test_many_dirty_logs_are_measured_a_few_times_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Each compaction measured all logs again: with 10,000 dirty ones, each of them 10,000 times."""
    dirty = [Solo(tmp_path, partition=number, **COMPACT) for number in range(30)]
    for solo in dirty:
        feed(solo, 4)
    measured, measure = [], LogCleaner._measure
    monkeypatch.setattr(
        LogCleaner, "_measure", lambda self, replica: measured.append(replica) or measure(self, replica)
    )

    work = asyncio.create_task(cleaner(*dirty).run())
    async with asyncio.timeout(20):
        while any(len(view(solo.replica)) > 1 for solo in dirty):
            await asyncio.sleep(0.01)
    work.cancel()

    assert len(measured) <= 3 * len(dirty)
    for solo in dirty:
        await solo.close()


async def test_a_log_that_is_closed_after_it_was_measured_is_left_alone(tmp_path: Path):
    first, second = Solo(tmp_path, partition=0, **COMPACT), Solo(tmp_path, partition=1, **COMPACT)
    for solo in (first, second):
        feed(solo, 10)
    work = cleaner(first, second)
    cleaned, clean = [], work._clean

    async def then_close(replica: Replica, end: int) -> bool:
        cleaned.append(replica)
        second.replica.close()
        return await clean(replica, end)

    work._clean = then_close  # type: ignore[method-assign]
    assert await work.clean_dirtiest(2)
    assert cleaned == [first.replica]
    for solo in (first, second):
        await solo.close()
