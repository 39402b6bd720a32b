"""Appending, reading, truncating, retaining and recovering one partition's log."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from unittest.mock import Mock, patch

import pytest
from storage_support import batch, fill, headers, names_of_syncs, open_log, values

from raftlog.errors import CorruptBatchError, DamagedDataError, DiskFullError, OffsetOutOfRangeError, StorageError
from raftlog.partition.core.producers import ProducerStates
from raftlog.partition.storage import segment as segment_module
from raftlog.partition.storage import sync as sync_module
from raftlog.partition.storage.epochs import EpochTable
from raftlog.partition.storage.fsck import check_partition
from raftlog.partition.storage.producer_snapshots import save_producers, snapshot_offsets
from raftlog.partition.storage.segment import segment_path
from raftlog.record import Marker, build_marker, stamp


def test_what_is_appended_is_read_and_survives_reopening(tmp_path: Path):
    log = open_log(tmp_path / "p")
    log.append(batch(0, "a", "b") + batch(2, "c"))

    assert (log.log_start_offset, log.log_end_offset, log.durable_end_offset) == (0, 3, 0)
    assert log.fsync() == 3
    assert values(log) == ["a", "b", "c"]
    log.close()
    assert values(open_log(tmp_path / "p")) == ["a", "b", "c"]


def test_reads_are_whole_batches_below_the_limit(tmp_path: Path):
    log = open_log(tmp_path / "p")
    first, second, third = batch(0, "a", "b"), batch(2, "c", "d"), batch(4, "e")
    log.append(first + second + third)

    assert log.read(1, 1, limit_offset=5) == first
    assert log.read(0, len(first) + len(second), limit_offset=5) == first + second
    assert log.read(0, 1 << 20, limit_offset=3) == first
    assert log.read(2, 1 << 20, limit_offset=3) == b""
    assert log.read(4, 1 << 20, limit_offset=5) == third
    assert log.read(5, 1 << 20, limit_offset=5) == b""
    for outside in (-1, 6):
        with pytest.raises(OffsetOutOfRangeError, match="it holds 0 to 5"):
            log.read(outside, 1, limit_offset=5)


def test_appends_that_do_not_continue_the_log_are_refused(tmp_path: Path):
    log = open_log(tmp_path / "p")
    log.append(batch(0, "a", epoch=3))

    for wrong in (batch(0, "b", epoch=3), batch(2, "b", epoch=3), batch(1, "b", epoch=2)):
        with pytest.raises(CorruptBatchError, match="expected a batch at offset 1 of epoch 3 or later"):
            log.append(wrong)
    with pytest.raises(CorruptBatchError):
        log.append(batch(1, "b", epoch=3) + batch(3, "c", epoch=3))
    assert values(log) == ["a"]


def test_segments_roll_by_size_and_by_age(tmp_path: Path):
    log = open_log(tmp_path / "p", segment_bytes=4096, segment_ms=1)
    fill(log, 20)
    by_size = len(list((tmp_path / "p").glob("*.log")))
    log.append(batch(20, "later", timestamp=10_000_000))

    assert by_size > 2
    assert segment_path(tmp_path / "p", 20).exists()
    assert values(log) == [*map(str, range(20)), "later"]
    assert values(log, 13)[0] == "13"


@pytest.mark.parametrize("offset", [0, 1, 7, 13, 19, 20, 25])
def test_truncation_anywhere_takes_epochs_with_it_and_lasts(tmp_path: Path, offset: int):
    log = open_log(tmp_path / "p", segment_bytes=4096)
    fill(log, 10, epoch=1)
    fill(log, 10, epoch=4)
    log.fsync()
    log.checkpoint(20)

    log.truncate_to(offset)

    end = min(offset, 20)
    assert (log.log_end_offset, log.durable_end_offset) == (end, end)
    assert [epoch for epoch, _ in log.epochs.entries] == [1, 4][: (end > 0) + (end > 10)]
    fill(log, 2, epoch=5)
    log.close()
    assert values(open_log(tmp_path / "p")) == [*map(str, range(end)), str(end), str(end + 1)]


def test_truncation_inside_a_batch_drops_the_batch(tmp_path: Path):
    log = open_log(tmp_path / "p")
    log.append(batch(0, "a") + batch(1, "b", "c"))

    log.truncate_to(2)

    assert log.log_end_offset == 1


@pytest.mark.parametrize(("offset", "end"), [(6, 5), (5, 5), (4, 3), (2, 1), (1, 1)])
def test_a_process_killed_after_a_truncation_inside_a_batch_finds_an_intact_log(tmp_path: Path, offset: int, end: int):
    log = open_log(tmp_path / "p")
    log.append(batch(0, "0") + batch(1, "1", "2") + batch(3, "3", "4") + batch(5, "5", "6"))
    log.fsync()
    log.checkpoint(7)
    assert log.recovery_point == 7

    assert log.end_if_cut_at(offset) == end
    log.truncate_to(offset)

    assert (log.log_end_offset, log.recovery_point, log.high_watermark_checkpoint) == (end, end, end)
    # No checkpoint follows: the process is killed, and its files are what the next one finds.
    again = open_log(shutil.copytree(tmp_path / "p", tmp_path / "killed"))
    assert values(again) == [str(number) for number in range(end)]


def test_a_checkpoint_planned_before_a_cut_is_void_after_it(tmp_path: Path):
    log = open_log(tmp_path / "p")
    fill(log, 10)
    log.fsync()
    write = log.plan_checkpoint(10)
    assert write is not None
    log.truncate_to(9)
    write()
    assert (log.recovery_point, log.high_watermark_checkpoint) == (0, 0)
    fill(log, 1, epoch=1)
    again = open_log(shutil.copytree(tmp_path / "p", tmp_path / "killed"))
    assert again.log_end_offset == 10
    assert again.recovery_point == 0


def test_a_segment_rolls_by_time_in_milliseconds(tmp_path: Path):
    log = open_log(tmp_path / "p", segment_ms=1_000)
    log.append(batch(0, "0", timestamp=7))
    log.append(batch(1, "1", timestamp=1_000_007))
    assert len(log.segments) == 1
    log.append(batch(2, "2", timestamp=1_000_008))
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_a_log_without_a_record_costs_the_disk_nothing(tmp_path: Path):
    log = open_log(tmp_path / "p")
    assert (log.fsync(), log.read(0, 100, limit_offset=0), headers(log)) == (0, b"", [])
    assert log.offset_for_timestamp(0, limit_offset=0) is None
    log.checkpoint(0, closing=True)
    log.close()
    assert list(tmp_path.iterdir()) == []


def test_the_epoch_of_a_batch_is_durable_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Otherwise nothing tells the last batch, if it is damaged, apart from another replica's of another epoch."""
    log = open_log(tmp_path / "p")
    fill(log, 1)
    log.fsync()
    synced = names_of_syncs(monkeypatch)
    fill(log, 1)
    log.fsync()
    assert synced == []

    fill(log, 1, epoch=1)
    log.fsync()
    assert synced == ["leader-epochs.json", "p"]
    log.close()

    open_log(tmp_path / "p").close()
    assert synced[2:4] == ["leader-epochs.json.new", "p"], "the process before may have failed to sync it"


def test_an_epoch_table_that_could_not_be_opened_is_synced_by_the_next_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    table = EpochTable(tmp_path)
    table.assign(3, 0)
    synced = names_of_syncs(monkeypatch)
    with monkeypatch.context() as within:
        within.setattr(os, "open", Mock(side_effect=OSError(errno.EMFILE, "Too many open files")))
        with pytest.raises(OSError, match="Too many open files"):
            table.sync()

    table.sync()

    assert synced == ["leader-epochs.json", tmp_path.name]


def test_names_last_before_anything_in_them_has_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    synced = names_of_syncs(monkeypatch)
    log = open_log(tmp_path / "p")
    fill(log, 1)
    assert synced == []  # Nobody was promised anything yet.

    log.fsync()
    assert synced == ["leader-epochs.json", "p", "p", tmp_path.name]

    fill(log, 1)
    log.fsync()
    log.checkpoint(1)
    log.close()
    assert synced[4:] == ["checkpoint.json.new"]  # The one before would do.

    log = open_log(tmp_path / "p")
    fill(log, 1)
    log.fsync()
    log.checkpoint(3)
    del synced[:]
    log.checkpoint(3, closing=True)
    log.checkpoint(3, closing=True)
    log.close()
    assert synced == ["checkpoint.json.new", "p"]

    del synced[:]
    log = open_log(tmp_path / "p")
    fill(log, 1)
    log.fsync()
    assert synced == []


def test_retention_without_a_sync_makes_the_names_durable_before_the_log_start(tmp_path: Path):
    log = open_log(tmp_path / "p", segment_bytes=4096, retention_bytes=5_000, retention_ms=-1)
    fill(log, 60)
    with patch.object(sync_module, "fsync_dir") as fsync_dir:
        assert log.apply_retention(0, 60) > 0
    assert [call.args[0] for call in fsync_dir.call_args_list] == [tmp_path / "p", tmp_path]


def test_a_process_that_ended_before_its_first_sync_may_have_left_names_that_do_not_last(tmp_path: Path):
    log = open_log(tmp_path / "p")
    fill(log, 1)
    log.close()

    with patch.object(sync_module, "fsync_dir") as fsync_dir:
        open_log(tmp_path / "p")

    assert [call.args[0] for call in fsync_dir.call_args_list] == [tmp_path / "p", tmp_path]


def test_starting_over_at_an_offset(tmp_path: Path):
    log = open_log(tmp_path / "p")
    fill(log, 5, epoch=2)

    log.reset_to(100)

    assert (log.log_start_offset, log.log_end_offset, log.epochs.entries) == (100, 100, ())
    fill(log, 1, epoch=3)
    log.close()
    assert values(open_log(tmp_path / "p")) == ["100"]


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


def test_a_cut_inside_the_batch_in_which_the_log_starts_leaves_an_empty_log(tmp_path: Path):
    log = open_log(tmp_path / "p")
    log.append(batch(0, *"abcdef"))
    log.fsync()
    log.advance_log_start(2, 6)

    log.truncate_to(4)

    assert (log.log_start_offset, log.log_end_offset) == (2, 2)
    log.close()
    again = open_log(tmp_path / "p")
    assert (again.log_start_offset, again.log_end_offset) == (2, 2)
    again.close()


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


def test_leader_epochs_answer_where_histories_part(tmp_path: Path):
    log = open_log(tmp_path / "p")
    fill(log, 4, epoch=1)
    fill(log, 3, epoch=5)
    log.epochs.assign(6, 7)
    log.epochs.assign(8, 7)  # Epoch 6 wrote nothing.

    answers = {epoch: log.epochs.end_offset_for(epoch, log.log_end_offset) for epoch in (0, 1, 3, 5, 7, 8, 9)}

    assert answers == {0: (-1, 0), 1: (1, 4), 3: (1, 4), 5: (5, 7), 7: (5, 7), 8: (8, 7), 9: (8, 7)}
    assert log.last_epoch == 5
    assert [log.epochs.epoch_at(offset) for offset in (0, 3, 4, 6)] == [1, 1, 5, 5]


def test_a_torn_tail_of_any_length_is_cut(tmp_path: Path):
    log = open_log(tmp_path / "p")
    fill(log, 2)
    whole = (tmp_path / "p" / segment_path(Path(), 0)).read_bytes()
    last = len(batch(1, "1".ljust(10)))
    log.close()

    for missing in [*range(1, last, 37), last - 1]:
        (tmp_path / "p" / segment_path(Path(), 0)).write_bytes(whole[:-missing])
        reopened = open_log(tmp_path / "p")
        assert (values(reopened), reopened.size_bytes) == (["0"], len(whole) - last)
        reopened.close()


def flip(path: Path, at: int) -> None:
    damaged = bytearray(path.read_bytes())
    damaged[at] ^= 1
    path.write_bytes(damaged)


@pytest.mark.parametrize("byte", [3, 20, 70, 300])
@pytest.mark.parametrize("power_lost", [False, True])
def test_a_flipped_bit_is_no_torn_tail_if_sound_batches_follow(tmp_path: Path, byte: int, power_lost: bool):
    log = open_log(tmp_path / "p")
    fill(log, 3)
    log.close()
    path, size = segment_path(tmp_path / "p", 0), len(batch(0, "0".ljust(10)))
    before = path.read_bytes()
    flip(path, size + byte)

    with pytest.raises(DamagedDataError, match="damaged at offset 1, and sound batches follow") as caught:
        open_log(tmp_path / "p", power_lost=power_lost)

    assert caught.value.details == {"damaged_at": 1}
    assert path.stat().st_size == len(before)
    flip(path, size + byte)
    flip(path, 2 * size + byte)
    assert values(open_log(tmp_path / "p", power_lost=True)) == ["0", "1"]


@pytest.mark.parametrize("byte", [3, 20, 70, 300])
def test_a_flipped_bit_in_the_last_batch_is_no_torn_tail_unless_power_was_lost(tmp_path: Path, byte: int):
    """A process that is killed leaves the beginning of a write, whose bytes are right."""
    log = open_log(tmp_path / "p")
    fill(log, 3)
    log.close()
    path, size = segment_path(tmp_path / "p", 0), len(batch(0, "0".ljust(10)))
    flip(path, 2 * size + byte)

    with pytest.raises(DamagedDataError, match="damaged at offset 2, and the file does not end there") as caught:
        open_log(tmp_path / "p")

    assert caught.value.details == {"damaged_at": 2}
    assert path.stat().st_size == 3 * size
    assert [finding.severity for finding in check_partition(tmp_path / "p")] == ["damage"]


def test_a_flipped_bit_is_found_when_only_a_later_segment_is_sound(tmp_path: Path):
    log = open_log(tmp_path / "p", segment_bytes=4096)
    fill(log, 20)
    log.close()
    first, *_ = sorted((tmp_path / "p").glob("*.log"))
    flip(first, first.stat().st_size - 20)

    with pytest.raises(DamagedDataError, match="sound batches follow"):
        open_log(tmp_path / "p", segment_bytes=4096)


def test_a_write_that_a_power_cut_lost_is_cut_even_if_later_ones_reached_the_disk(tmp_path: Path):
    """Pages are written back in any order: a hole of zeros, and intact batches that were never synced."""
    log = open_log(tmp_path / "p", segment_bytes=4096)
    fill(log, 20, size=600)
    log.close()
    path = segment_path(tmp_path / "p", 0)
    content = bytearray(path.read_bytes())
    content[1024:1536] = bytes(512)
    path.write_bytes(content)

    with pytest.raises(DamagedDataError):
        open_log(tmp_path / "p")
    again = open_log(tmp_path / "p", power_lost=True)

    lost = next(offset for offset in range(20) if len(batch(0, "x" * 600)) * (offset + 1) > 1024)
    assert values(again) == [str(offset) for offset in range(lost)]
    assert len(list((tmp_path / "p").glob("*.log"))) == 1


def test_damage_below_the_recovery_point_is_refused(tmp_path: Path):
    log = open_log(tmp_path / "p")
    fill(log, 3)
    log.fsync()
    log.checkpoint(3)
    log.close()
    path, size = segment_path(tmp_path / "p", 0), len(batch(0, "0".ljust(10)))
    path.with_suffix(".index").unlink(missing_ok=True)
    flip(path, 2 * size + 3)
    with pytest.raises(DamagedDataError, match="damaged at offset 2, below the recovery point 3"):
        open_log(tmp_path / "p")


def test_records_missing_below_the_recovery_point_are_refused(tmp_path: Path):
    log = open_log(tmp_path / "p", segment_bytes=4096)
    fill(log, 20)
    log.fsync()
    log.checkpoint(20)
    log.close()
    max((tmp_path / "p").glob("*.log")).unlink()

    with pytest.raises(StorageError, match="records are missing"):
        open_log(tmp_path / "p")


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


def test_retention_by_size_and_by_time_keeps_the_active_segment_and_the_high_watermark(tmp_path: Path):
    log = open_log(tmp_path / "p", segment_bytes=4096, retention_bytes=5000, retention_ms=-1)
    fill(log, 40)
    files = len(list((tmp_path / "p").glob("*.log")))

    assert log.apply_retention(now_us=0, high_watermark=0) == 0
    dropped = log.apply_retention(now_us=0, high_watermark=40)

    assert 0 < dropped < files
    assert 5000 <= log.size_bytes < 5000 + 4096
    assert values(log)[0] == str(log.log_start_offset)
    assert log.epochs.entries == ((0, log.log_start_offset),)
    log.close()
    by_time = open_log(tmp_path / "p", segment_bytes=4096, retention_ms=1)
    by_time.apply_retention(now_us=10**12, high_watermark=39)
    assert len(list((tmp_path / "p").glob("*.log"))) == 1
    assert values(by_time)[-1] == "39"


def test_offsets_by_time(tmp_path: Path):
    log = open_log(tmp_path / "p", segment_bytes=4096)
    for offset in range(20):
        log.append(batch(offset, str(offset), timestamp=1_000 * (offset + 1)))
    log.append(batch(20, "x", "y", "z"[:1], timestamp=50_000))

    def find(time: int, limit: int = 23) -> int | None:
        return log.offset_for_timestamp(time, limit_offset=limit)

    assert [find(time) for time in (0, 1_000, 1_001, 20_000, 20_001, 50_000, 50_001)] == [0, 0, 1, 19, 20, 20, None]
    assert find(20_000, limit=19) is None


def test_offsets_by_time_pass_over_markers(tmp_path: Path):
    """A marker has a time and no rows."""
    log = open_log(tmp_path / "p")
    log.append(batch(0, "a", timestamp=1_000))
    ended = Marker(committed=True, coordinator_epoch=1, stable_offset=0)
    marker = build_marker(ended, producer_id=9, producer_epoch=1, timestamp_us=50_000)
    stamp(marker, base_offset=1, leader_epoch=0)
    log.append(marker)
    log.append(batch(2, "b", timestamp=4_000))
    assert [log.offset_for_timestamp(time, limit_offset=3) for time in (0, 1_001, 4_001)] == [0, 2, None]


def test_the_newest_record(tmp_path: Path):
    log = open_log(tmp_path / "p", segment_bytes=4096)
    assert log.offset_of_newest(limit_offset=0) is None
    times = [3_000 if offset == 7 else 2_000 if offset in (15, 27) else 1_000 for offset in range(30)]
    for offset, time in enumerate(times):
        log.append(batch(offset, "x" * 200, timestamp=time))
    assert [log.offset_of_newest(limit_offset=limit) for limit in (0, 1, 7, 8, 16, 30)] == [None, 0, 0, 7, 7, 7]


def test_headers_can_be_scanned_from_an_offset(tmp_path: Path):
    log = open_log(tmp_path / "p", segment_bytes=4096)
    fill(log, 20)

    assert [header.base_offset for header in headers(log, 17)] == [17, 18, 19]
    assert len(headers(log)) == 20


def test_what_is_appended_during_a_sync_is_not_durable_after_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    log = open_log(tmp_path / "p")
    fill(log, 1)
    real = os.fdatasync

    def slow(descriptor: int) -> None:
        real(descriptor)
        fill(log, 1)

    monkeypatch.setattr(os, "fdatasync", slow)
    assert log.fsync() == log.durable_end_offset == 1
    monkeypatch.undo()
    assert (log.log_end_offset, log.fsync()) == (2, 2)
    log.close()


def test_snapshots_of_producers_that_speak_of_what_was_cut_go_with_it(tmp_path: Path):
    log = open_log(tmp_path / "p")
    fill(log, 6)
    log.fsync()
    for offset in (3, 6):
        save_producers(tmp_path / "p", offset, ProducerStates().to_plain())

    log.truncate_to(4)

    assert snapshot_offsets(tmp_path / "p") == [3]
    log.close()


def test_the_recovery_point_goes_with_a_single_record(tmp_path: Path):
    log = open_log(tmp_path / "p")
    fill(log, 5)
    log.fsync()
    log.checkpoint(5)

    log.truncate_to(4)

    log.close()
    again = open_log(tmp_path / "p")
    assert values(again) == ["0", "1", "2", "3"]
    again.close()


def test_every_segment_that_was_written_since_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    log = open_log(tmp_path / "p", segment_bytes=4096)
    fill(log, 8, size=900)
    synced: list[Path] = []
    monkeypatch.setattr(os, "fdatasync", lambda number: synced.append(Path(f"/proc/self/fd/{number}").readlink()))
    log.fsync()
    monkeypatch.undo()
    assert synced == [segment.path for segment in log.segments]
    assert len(synced) > 2
    log.close()
