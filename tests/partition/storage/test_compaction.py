"""Compaction of one log: which records are kept and removed, and crashes at every step."""

from __future__ import annotations

import errno
import itertools
import os
import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from cleaning_support import DAY_MS, Model, append, clean, open_compacted, pairs, records
from hypothesis import given, settings
from hypothesis import strategies as st
from storage_support import batch, headers, offset_since

from raftlog.errors import CorruptBatchError, DamagedDataError, RaftlogError
from raftlog.partition.core.compaction import cleanable_end
from raftlog.partition.core.producers import ProducerStates
from raftlog.partition.storage.cleaner import CleanerState
from raftlog.partition.storage.fsck import check_partition
from raftlog.partition.storage.index import read_facts
from raftlog.partition.storage.log import PartitionLog
from raftlog.partition.storage.segment_replacement import open_cleaned
from raftlog.record import NewRecord, build_batch, parse_header, stamp
from raftlog.record.compacted import is_filler


def closed(log: PartitionLog) -> PartitionLog:
    """Close the active segment and sync, so that everything may be compacted."""
    log.roll()
    log.fsync()
    return log


def test_the_last_record_of_each_key_stays_where_it_was(tmp_path: Path):
    log = open_compacted(tmp_path / "p")
    append(log, ("a", "1"), ("b", "1"), ("a", "2"), compression="zstd")
    append(log, ("a", "3"))
    append(log, ("c", "1"), ("b", "2"))
    append(closed(log), ("a", "active"))

    clean(log)

    assert pairs(log) == {3: (b"a", b"3"), 4: (b"c", b"1"), 5: (b"b", b"2"), 6: (b"a", b"active")}
    assert (log.log_start_offset, log.log_end_offset) == (0, 7)
    assert offset_since(log, 1_000, limit=7) == 3
    log.close()
    assert len(pairs(open_compacted(tmp_path / "p"))) == 4


def test_what_is_active_or_above_the_high_watermark_or_too_young_stays(tmp_path: Path):
    log = open_compacted(tmp_path / "p", min_compaction_lag_ms=1)
    for _ in range(4):
        append(log, ("a", "x"), ("a", "y"))
        closed(log)
    append(log, ("a", "x"), ("a", "y"))

    assert cleanable_end(log.segments, 10, 10**6, log.config) == 8
    clean(log, high_watermark=5, now_s=1)
    assert list(pairs(log)) == [3, 4, 5, 6, 7, 8, 9]
    clean(log, now_s=0)  # Their timestamps are 1,000 us and more.
    assert len(pairs(log)) == 7
    state = clean(log, now_s=1)
    assert list(pairs(log)) == [7, 8, 9]
    assert state.cleaned_below == 8


def test_compaction_makes_no_segment_newer(tmp_path: Path):
    log = open_compacted(tmp_path / "p")
    for number in range(3):
        append(log, ("a", "x"), ("a", "y"))
        closed(log)
        os.utime(log.segments[number].path, ns=(1_000_000 * (number + 1),) * 2)
    clean(log)
    assert [segment.written_us() for segment in log.segments[:-1]] == [3_000]


def test_removed_batches_become_one_filler_of_each_epoch_and_small_segments_one(tmp_path: Path):
    log = open_compacted(tmp_path / "p")
    for epoch in (1, 1, 1, 2, 2, 4):
        for _ in range(10):
            append(log, ("a", "x" * 300), epoch=epoch)
    append(closed(log), ("b", "active"), epoch=4)
    before = len(log.segments)

    clean(log)

    written = headers(log)
    assert [(h.base_offset, h.last_offset, h.leader_epoch) for h in written if is_filler(h)] == [
        (0, 29, 1),
        (30, 49, 2),
        (50, 58, 4),
    ]
    assert (before > 4, len(log.segments), len(list((tmp_path / "p").glob("*.log")))) == (True, 2, 2)
    assert log.epochs.entries == ((1, 0), (2, 30), (4, 50))


def test_tombstones_go_a_day_after_what_they_deleted_and_only_when_all_replicas_have_them(tmp_path: Path):
    log = open_compacted(tmp_path / "p")
    append(log, ("a", "1"), ("b", "1"))
    append(closed(log), ("a", None), ("c", "1"))
    append(closed(log), ("d", "active"))

    state = clean(log, now_s=1_000)
    assert pairs(log) == {1: (b"b", b"1"), 2: (b"a", None), 3: (b"c", b"1"), 4: (b"d", b"active")}
    assert state.oldest_tombstone_s == 1_001
    clean(log, state, now_s=1_000 + DAY_MS // 1000)
    assert 2 in pairs(log)
    clean(log, state, now_s=1_001 + DAY_MS // 1000, replicated_below=2)
    assert 2 in pairs(log)
    clean(log, state, now_s=1_001 + DAY_MS // 1000, replicated_below=4)

    assert list(pairs(log)) == [1, 3, 4]
    assert state.oldest_tombstone_s == 0


def test_a_tombstone_that_another_replica_stamped_waits_for_its_own_time_here(tmp_path: Path):
    leader, follower = open_compacted(tmp_path / "leader"), open_compacted(tmp_path / "follower")
    append(leader, ("a", "1"))
    old = leader.read(0, 1 << 20, limit_offset=1)
    append(closed(leader), ("a", None), ("b", "1"))
    append(closed(leader), ("c", "active"))
    clean(leader, now_s=1_000)
    follower.append(old)
    follower.append(leader.read(1, 1 << 20, limit_offset=3))
    append(closed(follower), ("c", "active"))

    state = clean(follower, now_s=1_001 + DAY_MS // 1000)

    assert list(pairs(follower)) == [1, 2, 3]
    assert state.oldest_tombstone_s == 1_002 + DAY_MS // 1000


def test_producers_are_recognised_after_their_records_were_removed(tmp_path: Path):
    log = open_compacted(tmp_path / "p")
    for sequence in range(8):
        append(log, ("a", "x"), producer_id=7, producer_epoch=2, base_sequence=sequence)
    append(log, ("a", "y"))
    append(closed(log), ("b", "active"))

    clean(log)
    log.close()
    log = open_compacted(tmp_path / "p")

    assert list(pairs(log)) == [8, 9]
    producers = ProducerStates(headers(log))
    for sequence in range(3, 8):
        repeat = build_batch([NewRecord(b"x", b"a")], producer_id=7, producer_epoch=2, base_sequence=sequence)
        earlier = producers.check(parse_header(repeat))
        assert earlier is not None
        assert earlier.base_offset == sequence
    log.close()


def test_a_log_with_more_keys_than_memory_takes_several_passes(tmp_path: Path):
    log = open_compacted(tmp_path / "p")
    for _ in range(2):
        for number in range(100):
            append(log, (f"k{number}", "x" * 50))
    append(closed(log), ("z", "active"))
    state, passes = CleanerState(tmp_path / "p", log.log_end_offset), 0

    while state.cleaned_below < 200:
        before = state.cleaned_below
        clean(log, state, dedupe_buffer_bytes=5_000)
        assert state.cleaned_below > before
        passes += 1

    assert passes > 3
    assert list(pairs(log)) == list(range(100, 201))


def test_a_cut_inside_a_compacted_batch_makes_the_whole_batch_dirty(tmp_path: Path):
    """A follower's log is cut where the leader's histories part: a batch goes as a whole."""
    log = open_compacted(tmp_path / "p")
    log.append(batch(0, "a", "b", "c"))
    state = CleanerState(tmp_path / "p", log.log_end_offset)
    state.finished(3, 0)

    state.truncated_to(log.end_if_cut_at(2))

    assert state.cleaned_below == 0


def test_truncation_makes_what_comes_there_dirty_again(tmp_path: Path):
    log = open_compacted(tmp_path / "p")
    append(log, ("a", "1"), ("b", "1"))
    append(closed(log), ("c", "1"))
    append(closed(log), ("d", "active"))
    state = clean(log)
    assert state.cleaned_below == 3

    state.truncated_to(2)
    log.truncate_to(2)
    append(log, ("a", None), ("a", None), epoch=1)
    append(closed(log), ("d", "active"), epoch=1)
    again = CleanerState(tmp_path / "p", log.log_end_offset)
    assert again.cleaned_below == 2
    clean(log, again, delete_retention_ms=0)

    assert pairs(log) == {1: (b"b", b"1"), 3: (b"a", None), 4: (b"d", b"active")}


def test_a_file_that_does_not_match_the_log_any_more_is_not_put_in_place(tmp_path: Path):
    log = open_compacted(tmp_path / "p", retention_bytes=0)
    append(log, ("a", "1"), ("a", "2"))
    append(closed(log), ("a", "3"))
    closed(log)
    segments = log.segments

    log.config = log.config.with_overrides({"cleanup_policy": "compact,delete"})
    log.apply_retention(now_us=0, high_watermark=3)

    assert not log.swap(segments[:1], segments[0], cuts=log.cuts)
    assert pairs(log) == {}


@pytest.mark.parametrize(("policy", "segments"), [("compact", 2), ("compact,delete", 4)])
def test_old_records_are_not_merged_with_ever_newer_ones_where_they_are_to_be_deleted(
    tmp_path: Path, policy: str, segments: int
):
    """Retention deletes whole segments, by their newest record: a key that was written once would stay for good."""
    log = open_compacted(tmp_path / "p", cleanup_policy=policy, segment_ms=DAY_MS, segment_bytes=1 << 20)
    for day in (0, 1, 3, 4, 6):
        built = build_batch([NewRecord(b"%d" % day, key=b"k%d" % day, timestamp=day * DAY_MS * 1_000)])
        stamp(built, base_offset=log.log_end_offset, leader_epoch=0)
        log.append(built)
        closed(log)
    clean(log, now_s=8 * 86_400)
    assert log.segment_count == segments
    assert len(pairs(log)) == 5


def test_many_passes_merge_no_more_than_one(tmp_path: Path):
    """Each of them would otherwise move the time by which the next one compares."""
    log, state = (
        open_compacted(tmp_path / "p", cleanup_policy="compact,delete", segment_ms=DAY_MS, segment_bytes=1 << 20),
        None,
    )
    for quarter in range(40):
        built = build_batch([NewRecord(b"x", key=b"k%d" % quarter, timestamp=quarter * DAY_MS * 250)])
        stamp(built, base_offset=log.log_end_offset, leader_epoch=0)
        log.append(built)
        state = clean(closed(log), state, now_s=60 * 86_400)
    assert log.segment_count >= 9
    assert len(pairs(log)) == 40


def test_a_damaged_note_of_how_far_it_went_costs_work_and_nothing_else(tmp_path: Path):
    log = open_compacted(tmp_path / "p")
    append(log, ("a", "1"), ("a", "2"))
    append(closed(log), ("b", "active"))
    assert clean(log).cleaned_below == 2
    (tmp_path / "p" / "cleaner.json").write_text("{")

    again = CleanerState(tmp_path / "p", log.log_end_offset)

    assert again.cleaned_below == 0
    assert clean(log, again).cleaned_below == 2
    assert list(pairs(log)) == [1, 2]


def test_a_damaged_segment_is_left_alone(tmp_path: Path):
    log = open_compacted(tmp_path / "p")
    append(log, ("a", "1"), ("a", "2"))
    append(closed(log), ("a", "3"))
    path = log.segments[0].path
    damaged = bytearray(path.read_bytes())
    damaged[-20] ^= 1
    path.write_bytes(damaged)

    with pytest.raises(CorruptBatchError, match="payload checksum"):
        clean(log)

    assert path.read_bytes() == damaged
    assert list((tmp_path / "p").glob("*.cleaned")) == []


@given(seed=st.integers(0, 2**32), passes=st.integers(1, 4))
@settings(max_examples=25, deadline=None)
def test_whatever_is_written_every_promise_holds(tmp_path_factory: pytest.TempPathFactory, seed: int, passes: int):
    draw = random.Random(seed)
    model = Model(open_compacted(tmp_path_factory.mktemp("log") / "p"), draw)
    state = CleanerState(model.log.folder, 0)
    bound = 0
    for number in range(passes):
        model.fill(draw.randint(1, 60))
        bound = draw.randint(bound, model.log.log_end_offset)
        clean(
            model.log,
            state,
            now_s=1_000 + 100 * number,
            high_watermark=bound,
            delete_retention_ms=draw.choice([0, 150_000]),
            replicated_below=draw.choice([0, bound, 1 << 62]),
            dedupe_buffer_bytes=draw.choice([2_000, 1 << 20]),
        )
        model.check(untouched_from=bound)
        if draw.random() < 0.5:
            model.reopen()
            state = CleanerState(model.log.folder, model.log.log_end_offset)
            model.check(untouched_from=bound)
    model.log.close()


HOOKED = ("open", "pread", "pwrite", "fsync", "fdatasync", "rename", "replace", "unlink", "ftruncate", "close")


class DeadError(BaseException):
    """The process has ended: nothing runs after this, no clean-up either."""


class Faults:
    """Counts calls of the system, and makes one fail, or that one and all that follow."""

    def __init__(self, at: int, *, dead: bool) -> None:
        self.at, self.dead, self.count = at, dead, 0

    def install(self, patch: pytest.MonkeyPatch) -> None:
        for name in HOOKED:
            patch.setattr(os, name, self._hook(getattr(os, name)))

    def _hook(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            number, self.count = self.count, self.count + 1
            if self.dead and number >= self.at:
                raise DeadError
            if number == self.at:
                raise OSError(errno.EIO, "Input/output error")
            return real(*args, **kwargs)

        return call


@pytest.mark.parametrize("dead", [True, False], ids=["crash", "error"])
def test_a_crash_or_an_error_at_any_call_of_the_system_leaves_the_old_or_the_new(
    tmp_path: Path, dead: bool, monkeypatch: pytest.MonkeyPatch
):
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, lambda _: None)  # A process that dies loses nothing that was written.
    model = Model(open_compacted(tmp_path / "whole"), random.Random(5))
    model.fill(40)
    model.log.close()
    for at in itertools.count():
        shutil.copytree(tmp_path / "whole", tmp_path / str(at))
        model.log = open_compacted(tmp_path / str(at))
        faults = Faults(at, dead=dead)
        with pytest.MonkeyPatch.context() as patch:
            faults.install(patch)
            with suppress(DeadError, OSError, RaftlogError):
                clean(model.log, delete_retention_ms=0)
        model.reopen()
        model.check()
        clean(model.log, delete_retention_ms=0, now_s=2_000)
        model.check()
        assert list((tmp_path / str(at)).glob("*.cleaned")) == []
        model.log.close()
        if faults.count <= at:
            break  # The pass ended before: every call has had its turn.
    assert at > 50


def test_the_new_file_is_durable_before_the_old_ones_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    log = open_compacted(tmp_path / "p")
    for number in range(3):
        append(log, ("a", str(number)))
        closed(log)
    events: list[str] = []

    def note(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(first: Any, *rest: Any, **more: Any) -> Any:
            path = Path(f"/proc/self/fd/{first}").readlink() if isinstance(first, int) else Path(first)
            events.append(f"{name} {path.name}")
            return real(first, *rest, **more)

        return call

    for name in ("fsync", "rename", "unlink"):
        monkeypatch.setattr(os, name, note(name, getattr(os, name)))
    clean(log)
    monkeypatch.undo()

    base = f"{0:020d}.log"
    assert events[:14] == [
        f"fsync {base}.cleaned",
        "fsync checkpoint.json.new",
        "fsync p",
        *(f"unlink {number:020d}.{kind}" for number in range(3) for kind in ("index", "txnindex")),
        "fsync p",
        f"rename {base}.cleaned",
        "fsync p",
        f"unlink {1:020d}.log",
        f"unlink {2:020d}.log",
    ]
    assert events[11] == "fsync p"
    assert [record.value for record in records(log)] == [b"2"]


def merged(folder: Path) -> tuple[PartitionLog, dict[str, bytes]]:
    """Compact three segments into one; return the log, and the files as they were."""
    log = open_compacted(folder)
    for number in range(3):
        append(log, (f"k{number}", "x" * 100), ("a", str(number)))
        closed(log)
    append(log, ("b", "active"))
    before = {path.name: path.read_bytes() for path in folder.glob("*.log")}
    clean(log)
    return log, before


def test_segments_whose_removal_was_interrupted_are_removed_at_the_next_start(tmp_path: Path):
    folder = tmp_path / "p"
    log, before = merged(folder)
    kept = pairs(log)
    log.checkpoint(log.log_end_offset)
    log.close()
    for base in (2, 4):
        (folder / f"{base:020d}.log").write_bytes(before[f"{base:020d}.log"])
    (folder / f"{0:020d}.log.cleaned").write_bytes(b"unfinished")

    assert {(finding.severity, Path(finding.path).name) for finding in check_partition(folder)} == {
        ("note", f"{2:020d}.log"),
        ("note", f"{4:020d}.log"),
        ("note", f"{0:020d}.log.cleaned"),
    }
    log = open_compacted(folder)

    assert pairs(log) == kept
    assert sorted(path.name for path in folder.glob("*.log*")) == [f"{0:020d}.log", f"{6:020d}.log"]
    log.close()
    assert check_partition(folder) == []


def test_damage_in_a_compacted_segment_is_never_taken_for_a_torn_tail(tmp_path: Path):
    folder = tmp_path / "p"
    log, _ = merged(folder)
    assert (log.recovery_point, log.segments[0].next_offset) == (6, 6)
    log.close()
    path = folder / f"{0:020d}.log"
    content = bytearray(path.read_bytes())
    content[-20] ^= 1
    path.write_bytes(content[:-8])
    (folder / f"{6:020d}.log").write_bytes(b"")

    with pytest.raises(DamagedDataError, match="below the recovery point 6"):
        open_compacted(folder)

    assert path.read_bytes() == content[:-8]


def test_damage_before_a_compacted_batch_is_no_torn_tail(tmp_path: Path):
    log = open_compacted(tmp_path / "p")
    append(log, ("a", "x" * 400))
    append(log, ("b", "1"), ("b", "2"))
    append(closed(log), ("c", "active"))
    clean(log)
    log.close()
    (tmp_path / "p" / "checkpoint.json").unlink()
    (tmp_path / "p" / f"{3:020d}.log").unlink()
    (tmp_path / "p" / f"{0:020d}.index").unlink(missing_ok=True)
    path = tmp_path / "p" / f"{0:020d}.log"
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)

    with pytest.raises(DamagedDataError, match="sound batches follow"):
        open_compacted(tmp_path / "p")


def test_a_cut_makes_a_pass_void_even_if_the_log_has_grown_as_far_again(tmp_path: Path):
    log = open_compacted(tmp_path / "p")
    append(log, ("a", "1"), ("a", "2"))
    append(closed(log), ("b", "active"))
    cuts, segments = log.cuts, log.segments
    fresh = open_cleaned(shutil.copy(segments[0].path, tmp_path / "p" / "x.cleaned"), 0, segments[0].file.pool)

    log.truncate_to(0)
    append(log, ("a", "3"), ("a", "4"), epoch=1)

    assert not log.swap(log.segments[:1], fresh, cuts=cuts)
    assert pairs(log) == {0: (b"a", b"3"), 1: (b"a", b"4")}


def test_a_compacted_segment_has_an_index_of_its_own_after_the_next_checkpoint(tmp_path: Path):
    folder = tmp_path / "p"
    log, _ = merged(folder)
    assert list(folder.glob(f"{0:020d}.index")) == []
    log.checkpoint(log.log_end_offset)
    facts = read_facts(folder / f"{0:020d}.index")
    assert facts == log.segments[0].facts
    log.close()
    log = open_compacted(folder)
    assert (log.segments[0].facts, log.segments[0].indexed_size) == (facts, facts.size)
    assert check_partition(folder) == []
