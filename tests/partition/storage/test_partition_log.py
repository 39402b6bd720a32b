"""Appending, reading, truncating, retaining and recovering one partition's log."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from unittest.mock import Mock, patch

import pytest
from storage_support import batch, fill, headers, names_of_syncs, offset_since, open_log, values

from raftlog.errors import CorruptBatchError, OffsetOutOfRangeError
from raftlog.partition.core.producers import ProducerStates
from raftlog.partition.storage import sync as sync_module
from raftlog.partition.storage.epochs import EpochTable
from raftlog.partition.storage.producer_snapshots import save_producers, snapshot_offsets
from raftlog.partition.storage.segment import segment_path
from raftlog.partition.storage.sync import Syncer
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
    assert offset_since(log, 0, limit=0) is None
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


def test_retention_by_size_and_by_time_keeps_the_active_segment_and_the_high_watermark(tmp_path: Path):
    log = open_log(tmp_path / "p", segment_bytes=4096, retention_bytes=5000, retention_ms=-1)
    fill(log, 40)
    files = len(list((tmp_path / "p").glob("*.log")))

    assert log.apply_retention(now_us=0, high_watermark=0) == 0
    dropped = log.apply_retention(now_us=0, high_watermark=40)

    assert 0 < dropped < files
    assert 5000 <= log.size_bytes < 5000 + 4096
    assert values(log)[0] == str(log.log_start_offset)
    assert log.epochs.entries == ((0, log.log_start_offset - 1),)
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
        return offset_since(log, time, limit=limit)

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
    assert [offset_since(log, time, limit=3) for time in (0, 1_001, 4_001)] == [0, 2, None]


def test_the_newest_record(tmp_path: Path):
    log = open_log(tmp_path / "p", segment_bytes=4096)

    def newest(limit: int) -> int | None:
        return offset_since(log, log.newest_timestamp(limit_offset=limit), limit=limit)

    assert newest(0) is None
    times = [3_000 if offset == 7 else 2_000 if offset in (15, 27) else 1_000 for offset in range(30)]
    for offset, time in enumerate(times):
        log.append(batch(offset, "x" * 200, timestamp=time))
    assert [newest(limit) for limit in (0, 1, 7, 8, 16, 30)] == [None, 0, 0, 7, 7, 7]


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


class KilledError(BaseException):
    """The process ends here."""


def test_a_new_log_that_starts_over_is_named_before_its_checkpoint_says_so(tmp_path: Path):
    """After a loss of power its folder was gone, with records that had been acknowledged."""
    log, synced = open_log(tmp_path / "partitions" / "p"), list[Path]()
    with patch.object(sync_module, "fsync_dir", synced.append):
        with patch.object(Syncer, "truncated", side_effect=KilledError), pytest.raises(KilledError):
            log.reset_to(500)
        again = open_log(tmp_path / "partitions" / "p")
        assert again.log_start_offset == 500
        fill(again, 1)
        again.fsync()
    assert tmp_path / "partitions" in synced
    again.close()
