"""Full disks and failed syncs: a change that failed leaves the log as it was, or the log fails for good."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from unittest.mock import Mock, patch

import pytest
from storage_support import batch, fill, open_log, values

from raftlog.errors import DiskFullError, StorageError
from raftlog.partition.storage import segment as segment_module
from raftlog.partition.storage.fsck import check_partition
from raftlog.partition.storage.log import PartitionLog
from raftlog.partition.storage.segment import segment_path


def refuse_room(monkeypatch: pytest.MonkeyPatch, *, spared: int) -> None:
    """There is room for so many more files, not for the next two, and then again."""
    real = os.open
    refused = iter([*[False] * spared, True, True])

    def open_file(path: Path, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_CREAT and next(refused, False):
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(path, flags, mode)

    monkeypatch.setattr(os, "open", open_file)


def test_a_full_disk_keeps_a_log_from_starting_over_and_all_is_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    log = open_log(tmp_path / "p")
    fill(log, 5)
    refuse_room(monkeypatch, spared=0)

    with pytest.raises(DiskFullError):
        log.reset_to(100)

    assert (log.failure, log.log_start_offset, values(log)) == (None, 0, ["0", "1", "2", "3", "4"])
    log.close()


@pytest.mark.parametrize("spared", [1, 2, 3])
def test_a_reset_interrupted_by_a_full_disk_can_be_retried(
    spared: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Each file in turn is the first for which there is no room."""
    log = open_log(tmp_path / "p")
    fill(log, 5)
    refuse_room(monkeypatch, spared=spared)
    with pytest.raises(DiskFullError):
        log.reset_to(100)
    with pytest.raises(DiskFullError):
        fill(log, 1)
    with pytest.raises(DiskFullError):
        log.reset_to(150)
    planned = log.plan_checkpoint(5)

    monkeypatch.undo()
    log.reset_to(200)
    if planned is not None:
        planned()  # It describes the log before it started over, and must write nothing.

    assert (log.recovery_point, log.high_watermark_checkpoint) == (200, 200)
    assert (log.failure, log.log_start_offset, log.log_end_offset, log.epochs.entries) == (None, 200, 200, ())
    fill(log, 1, epoch=3)
    log.close()
    again = open_log(tmp_path / "p")
    assert (again.log_start_offset, values(again)) == (200, ["200"])
    again.close()


@pytest.mark.parametrize("spared", [1, 2, 3])
@pytest.mark.parametrize("start", [3, 5, 100])
def test_a_process_that_ends_in_a_reset_finds_an_empty_log_at_the_offset(
    start: int, spared: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Not one that ends where the log before began: a replica in sync reaches what is committed, deleted or not."""
    log = open_log(tmp_path / "p")
    fill(log, 5)
    refuse_room(monkeypatch, spared=spared)
    with pytest.raises(DiskFullError):
        log.reset_to(start)
    assert (log.log_end_offset, log.durable_end_offset) == (start, start)
    log.close()

    again = open_log(tmp_path / "p")  # The disk is still full.
    assert (again.log_start_offset, again.log_end_offset, values(again)) == (start, start, [])
    again.close()
    monkeypatch.undo()
    later = open_log(tmp_path / "p")
    fill(later, 1, epoch=3)
    later.fsync()
    later.close()  # Without a checkpoint.
    last = open_log(tmp_path / "p")
    assert (last.log_start_offset, values(last)) == (start, [str(start)])
    last.close()


class Killed(BaseException):
    """The process ends here."""


def test_a_process_that_is_killed_during_the_removal_of_files_finds_an_empty_log_at_the_offset(tmp_path: Path):
    log = open_log(tmp_path / "p", segment_bytes=4096)
    fill(log, 5, size=4096)
    with patch.object(PartitionLog, "_remove", side_effect=[None, Killed]), pytest.raises(Killed):
        log.reset_to(3)

    assert [finding.severity for finding in check_partition(tmp_path / "p")] == ["note"]
    again = open_log(tmp_path / "p")
    assert (again.log_start_offset, again.log_end_offset) == (3, 3)
    assert not list((tmp_path / "p").glob("*.log"))
    again.close()


SYNC_ERRORS = (errno.EIO, errno.ENOSPC, errno.EDQUOT)


@pytest.mark.parametrize("number", SYNC_ERRORS)
@pytest.mark.parametrize("spared", range(8))
def test_a_log_whose_sync_fails_during_a_reset_refuses_changes(
    spared: int, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Each sync in turn fails once. Want of room at a sync is no reason to try it again: it would seem to succeed."""
    log = open_log(tmp_path / "p")
    fill(log, 5)
    monkeypatch.setattr(os, "fsync", Mock(side_effect=[*[None] * spared, OSError(number, os.strerror(number))]))
    with pytest.raises(StorageError) as failed:
        log.reset_to(100)
    monkeypatch.undo()

    assert not isinstance(failed.value, DiskFullError)
    assert log.failure is failed.value
    for refused in (log.fsync, lambda: fill(log, 1), lambda: log.reset_to(150), lambda: log.truncate_to(1)):
        with pytest.raises(StorageError) as again:
            refused()
        assert again.value is failed.value
    log.close()


CHANGES = {
    "roll": lambda log: log.roll(),
    "append in a new epoch that replaces one": lambda log: log.append(batch(8, "x", epoch=9)),
    "retention": lambda log: log.apply_retention(0, 8),
    "deletion": lambda log: log.advance_log_start(6, 8),
    "checkpoint": lambda log: log.checkpoint(8, closing=True),
    "cut": lambda log: log.truncate_to(7),
}


@pytest.mark.parametrize("number", SYNC_ERRORS)
@pytest.mark.parametrize("change", CHANGES)
def test_whichever_sync_beside_the_log_fails_the_log_fails(
    change: str, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    log = open_log(tmp_path / "p", segment_bytes=4096, retention_bytes=1)
    for offset in range(8):
        log.append(batch(offset, "v".ljust(900)))
    log.epochs.assign(3, 8)  # A leader that has written nothing.
    log.fsync()
    monkeypatch.setattr(os, "fsync", Mock(side_effect=[OSError(number, os.strerror(number))]))
    with pytest.raises(StorageError) as failed:
        CHANGES[change](log)
    monkeypatch.undo()

    assert not isinstance(failed.value, DiskFullError)
    assert log.failure is failed.value
    log.close()


def test_a_cut_for_which_the_file_system_has_no_room_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Where the log ends is not known then: it does not wait for room, and others can lead."""
    log = open_log(tmp_path / "p")
    fill(log, 3)
    log.fsync()
    monkeypatch.setattr(os, "ftruncate", Mock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
    with pytest.raises(StorageError) as failed:
        log.truncate_to(1)

    assert not isinstance(failed.value, DiskFullError)
    assert log.failure is failed.value
    log.close()


def test_what_the_last_process_left_unsynced_is_written_again_before_it_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Its last sync may have failed: the system shows such bytes, and calls the next sync a success all the same."""
    log = open_log(tmp_path / "p", segment_bytes=4096)
    fill(log, 1, size=900)
    log.fsync()
    log.checkpoint(1)
    fill(log, 8, size=900)
    log.close()
    sizes = {path.name: path.stat().st_size for path in (tmp_path / "p").glob("*.log")}
    assert len(sizes) > 2
    written: dict[str, set[int]] = {name: set() for name in sizes}
    real = os.pwrite

    def pwrite(descriptor: int, data: memoryview, position: int) -> int:
        name = Path(f"/proc/self/fd/{descriptor}").readlink().name
        count = real(descriptor, data, position)
        written.get(name, set()).update(range(position, position + count))
        return count

    monkeypatch.setattr(os, "pwrite", pwrite)
    again = open_log(tmp_path / "p", segment_bytes=4096)
    monkeypatch.undo()

    assert (again.durable_end_offset, len(values(again))) == (9, 9)
    at = next(position for position, header in again.segments[0].headers() if header.base_offset == 1)
    first, *later = sorted(sizes)
    assert set(range(at, sizes[first])) <= written[first]
    assert all(written[name] == set(range(sizes[name])) for name in later)
    again.close()


def test_a_full_disk_appends_nothing_and_the_log_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    log = open_log(tmp_path / "p")
    fill(log, 1)
    real = os.pwrite

    calls = iter([10])

    def partly(descriptor: int, data: memoryview, position: int) -> int:
        if (count := next(calls, 0)) == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, data[:count], position)

    monkeypatch.setattr(segment_module.os, "pwrite", partly)
    with pytest.raises(DiskFullError, match="nothing was appended: No space left on device"):
        fill(log, 1)
    monkeypatch.setattr(segment_module.os, "pwrite", real)

    assert (log.log_end_offset, log.size_bytes) == (1, segment_path(tmp_path / "p", 0).stat().st_size)
    fill(log, 1)
    assert values(log) == ["0", "1"]


def test_after_a_failed_fsync_the_log_takes_nothing_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    log = open_log(tmp_path / "p")
    fill(log, 1)

    def broken(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", broken)
    with pytest.raises(StorageError, match="cannot fsync"):
        log.fsync()
    monkeypatch.undo()

    for refused in (log.fsync, lambda: fill(log, 1)):
        with pytest.raises(StorageError, match="takes no more appends"):
            refused()
    assert log.durable_end_offset == 0
