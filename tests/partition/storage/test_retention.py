"""Retention: which segments are deleted, when their files are removed, and that a quiet topic expires, too."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from storage_support import batch, fill, open_log, values

from raftlog.config import TopicConfig
from raftlog.errors import OffsetOutOfRangeError, StorageError
from raftlog.model import NO_LEADER
from raftlog.partition.log_maintenance import LogMaintenance
from raftlog.partition.metrics import PartitionMetrics
from raftlog.partition.storage.epochs import EpochTable
from raftlog.partition.storage.files import read_json
from raftlog.partition.storage.log import PartitionLog
from raftlog.partition.storage.retention import MOST_DROPPED
from raftlog.partition.waiters import Notifier
from raftlog.runtime import SystemClock

HOUR_US = 3_600_000_000


def names(folder: Path, pattern: str) -> list[str]:
    return sorted(path.name for path in folder.glob(pattern))


def test_dropped_files_stay_for_a_while_and_go_at_start(tmp_path: Path):
    log = open_log(tmp_path / "p", segment_bytes=4096, retention_bytes=0, retention_ms=-1, file_delete_delay_ms=1_000)
    fill(log, 20)

    assert log.apply_retention(now_us=5_000_000, high_watermark=20) > 1
    dropped = names(tmp_path / "p", "*.log.deleted")
    assert len(dropped) > 1
    log.apply_retention(now_us=5_999_999, high_watermark=20)
    assert names(tmp_path / "p", "*.log.deleted") == dropped
    log.apply_retention(now_us=6_000_000, high_watermark=20)
    assert names(tmp_path / "p", "*.log.deleted") == []

    fill(log, 20)
    log.apply_retention(now_us=7_000_000, high_watermark=40)
    assert names(tmp_path / "p", "*.log.deleted") != []
    log.close()
    open_log(tmp_path / "p")
    assert names(tmp_path / "p", "*.log.deleted") == []


def test_the_log_start_is_durable_before_a_file_is_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    log = open_log(tmp_path / "p", segment_bytes=4096, retention_bytes=0, retention_ms=-1)
    fill(log, 20)
    log.fsync()
    real = os.rename

    def refused(source: Path, target: Path) -> None:
        if str(source).endswith(".log"):
            raise OSError(errno.EIO, "Input/output error")
        real(source, target)

    monkeypatch.setattr(os, "rename", refused)
    with pytest.raises(StorageError, match="Input/output error"):
        log.apply_retention(now_us=0, high_watermark=20)
    monkeypatch.undo()

    start = (read_json(tmp_path / "p" / "checkpoint.json") or {})["log_start_offset"]
    log.close()
    reopened = open_log(tmp_path / "p")
    assert (reopened.log_start_offset, values(reopened)) == (start, [str(n) for n in range(start, 20)])
    assert start > 10
    assert names(tmp_path / "p", "*.log")[0] == f"{start:020d}.log"


def test_a_quiet_topic_is_emptied_once_its_newest_record_has_expired(tmp_path: Path):
    log = open_log(tmp_path / "p", retention_ms=3_600_000)
    log.append(batch(0, "old", timestamp=1) + batch(1, "newest", timestamp=HOUR_US))

    assert log.apply_retention(now_us=2 * HOUR_US, high_watermark=2) == 0
    assert log.apply_retention(now_us=2 * HOUR_US + 1, high_watermark=1) == 0  # Not above the high watermark.
    assert log.apply_retention(now_us=2 * HOUR_US + 1, high_watermark=2) == 1

    assert (log.log_start_offset, log.log_end_offset, values(log)) == (2, 2, [])
    log.append(batch(2, "next"))
    log.close()
    assert values(open_log(tmp_path / "p")) == ["next"]


def test_the_largest_timestamp_counts_not_the_last(tmp_path: Path):
    log = open_log(tmp_path / "p", retention_ms=3_600_000)
    log.append(batch(0, "from the future", timestamp=10 * HOUR_US) + batch(1, "late", timestamp=1))

    assert log.apply_retention(now_us=11 * HOUR_US, high_watermark=2) == 0
    assert log.apply_retention(now_us=11 * HOUR_US + 1, high_watermark=2) == 1


def test_a_time_that_no_clock_reaches_counts_as_the_time_of_its_writing(tmp_path: Path):
    log = open_log(tmp_path / "p", segment_bytes=4096, retention_ms=3_600_000)
    log.append(batch(0, "never", timestamp=2**62))
    fill(log, 40, size=200)
    written_us = written(log, 10 * HOUR_US)

    assert log.apply_retention(now_us=written_us + HOUR_US, high_watermark=41) == 0
    assert log.apply_retention(now_us=written_us + HOUR_US + 1, high_watermark=41) > 1
    assert log.log_start_offset == 41


@pytest.mark.parametrize("ahead_max_ms", [-1, 3_600_000])
def test_a_time_that_the_topic_accepts_counts_as_it_is(tmp_path: Path, ahead_max_ms: int):
    log = open_log(tmp_path / "p", retention_ms=1_000, message_timestamp_after_max_ms=ahead_max_ms)
    log.append(batch(0, "soon", timestamp=11 * HOUR_US))
    written(log, HOUR_US)

    assert log.apply_retention(now_us=10 * HOUR_US, high_watermark=1) == 0
    assert log.apply_retention(now_us=11 * HOUR_US + 1_000_001, high_watermark=1) == 1


def test_a_topic_can_go_by_when_its_records_were_written(tmp_path: Path):
    log = open_log(tmp_path / "p", segment_bytes=4096, retention_ms=3_600_000, retention_by="append_time")
    fill(log, 40, size=200)  # Of 1970.
    written_us = written(log, 1_000 * HOUR_US)
    os.utime(log.segments[0].path, ns=(0, 0))

    assert log.apply_retention(now_us=written_us + HOUR_US, high_watermark=40) == 1
    log.fsync()
    write = log.plan_checkpoint(40, closing=True)
    assert write is not None
    write()
    log.close()
    log = open_log(tmp_path / "p", segment_bytes=4096, retention_ms=3_600_000, retention_by="append_time")
    assert log.apply_retention(now_us=written_us + HOUR_US, high_watermark=40) == 0
    assert log.apply_retention(now_us=written_us + HOUR_US + 1, high_watermark=40) > 1
    assert log.log_start_offset == 40


def written(log: PartitionLog, at_us: int) -> int:
    """Have every segment count as written at a time."""
    for segment in log.segments:
        os.utime(segment.path, ns=(at_us * 1_000, at_us * 1_000))
    return at_us


def test_a_topic_that_is_only_compacted_keeps_what_is_old_or_too_much(tmp_path: Path):
    log = open_log(tmp_path / "p", segment_bytes=4096, retention_bytes=0, retention_ms=1, cleanup_policy="compact")
    fill(log, 20)

    assert log.apply_retention(now_us=10 * HOUR_US, high_watermark=20) == 0
    log.config = log.config.with_overrides({"cleanup_policy": "compact,delete"})
    assert log.apply_retention(now_us=10 * HOUR_US, high_watermark=20) > 1


def test_a_live_change_of_the_settings_counts_at_the_next_look(tmp_path: Path):
    log = open_log(tmp_path / "p", segment_bytes=4096, retention_ms=-1)
    fill(log, 20)
    assert log.apply_retention(now_us=10 * HOUR_US, high_watermark=20) == 0

    log.config = TopicConfig().with_overrides({"retention_ms": 1})

    assert log.apply_retention(now_us=10 * HOUR_US, high_watermark=20) > 1
    assert log.log_start_offset == 20


@pytest.mark.parametrize("offset", [7, 10, 19, 20])
def test_records_below_an_offset_can_be_deleted_durably(tmp_path: Path, offset: int):
    log = open_log(tmp_path / "p", segment_bytes=4096, cleanup_policy="compact")
    fill(log, 10, epoch=1)
    fill(log, 10, epoch=2)
    log.fsync()

    log.advance_log_start(offset, 20)
    log.apply_retention(now_us=0, high_watermark=20)

    kept = [str(n) for n in range(offset, 20)]
    assert values(log) == kept
    assert (read_json(tmp_path / "p" / "checkpoint.json") or {})["log_start_offset"] == offset
    assert log.segments[0].next_offset > offset or len(log.segments) == 1
    with pytest.raises(OffsetOutOfRangeError, match=f"it holds {offset} to 20"):
        log.read(offset - 1, 1, limit_offset=20)
    log.advance_log_start(3, 20)  # It never goes back.
    log.close()
    reopened = open_log(tmp_path / "p")
    assert (reopened.log_start_offset, values(reopened)) == (offset, kept)
    assert EpochTable(tmp_path / "p").epoch_at(19) == 2 or offset == 20
    fill(reopened, 1, epoch=2)
    assert values(reopened) == [*kept, "20"]


def retaining(log: PartitionLog, leader: int = 1) -> LogMaintenance:
    """Return what applies retention to one replica's log, whose records are all replicated."""
    replica = SimpleNamespace(
        log=log, high_watermark=log.log_end_offset, data_notifier=Notifier(), assignment=SimpleNamespace()
    )
    replica.state = SimpleNamespace(leader=leader)
    replica.assignment.topic_partition = "t-0"
    replica.keep_producers = lambda _: None
    return LogMaintenance(
        replicas=lambda: [replica],  # type: ignore[list-item, return-value]
        clock=SystemClock(),
        checkpoint_interval_ms=1,
        retention_check_interval_ms=1,
        metrics=PartitionMetrics(),
    )


async def test_thousands_of_segments_are_dropped_over_several_turns_and_removed_by_a_worker_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """10,000 segments that expired together held the event loop until all were unlinked."""
    log = open_log(tmp_path / "p", segment_bytes=4096, retention_bytes=0, retention_ms=-1, file_delete_delay_ms=0)
    many = 2 * MOST_DROPPED + 10
    for _ in range(many):
        fill(log, 1)
        log.roll()
    dropped, threads = list[int](), set[int]()
    apply, unlink = log.apply_retention, os.unlink

    def unlinked(path: Path) -> None:
        if str(path).endswith(".deleted"):
            threads.add(threading.get_ident())
        unlink(path)

    monkeypatch.setattr(
        log, "apply_retention", lambda *times, before: dropped.append(apply(*times, before=before)) or dropped[-1]
    )
    monkeypatch.setattr(os, "unlink", unlinked)
    running = asyncio.create_task(retaining(log).retain_regularly())
    async with asyncio.timeout(10):
        while log.log_start_offset < many or names(tmp_path / "p", "*.deleted"):
            await asyncio.sleep(0.001)
    running.cancel()

    assert dropped[:3] == [MOST_DROPPED, MOST_DROPPED, 10]
    assert threads
    assert threading.get_ident() not in threads
    log.close()


async def test_retention_waits_while_a_partition_has_no_leader(tmp_path: Path):
    """The replicas that may lead are damaged, perhaps, and repaired by the batches that are intact here."""
    log = open_log(tmp_path / "p", segment_bytes=4096, retention_bytes=0, retention_ms=-1)
    fill(log, 20, size=1000)
    work, led, looks = retaining(log, leader=NO_LEADER), retaining(log), asyncio.Semaphore(0)
    replicas = work._replicas
    work._replicas = lambda: looks.release() or replicas()  # type: ignore[func-returns-value]

    running = asyncio.create_task(work.retain_regularly())
    async with asyncio.timeout(10):
        for _ in range(3):  # Two passes are complete by then.
            await looks.acquire()
    assert log.log_start_offset == 0
    running.cancel()
    running = asyncio.create_task(led.retain_regularly())
    async with asyncio.timeout(10):
        while log.log_start_offset == 0:
            await asyncio.sleep(0.001)
    running.cancel()
    log.close()


async def test_retention_leaves_the_folder_of_a_closed_log_to_the_next_one(tmp_path: Path):
    """A log that was quarantined during a pass had its checkpoint written into the folder of the one in its place."""
    log = open_log(tmp_path / "p", segment_bytes=4096, retention_bytes=0, retention_ms=-1)
    fill(log, 20)
    work = retaining(log)
    log.close()
    (tmp_path / "p").rename(tmp_path / "aside")
    fresh = open_log(tmp_path / "p")
    fill(fresh, 1)
    fresh.checkpoint(0, closing=True)
    before = read_json(tmp_path / "p" / "checkpoint.json")

    running = asyncio.create_task(work.retain_regularly())
    await asyncio.sleep(0.05)
    running.cancel()

    assert read_json(tmp_path / "p" / "checkpoint.json") == before
    fresh.close()
