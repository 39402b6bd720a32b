"""Broken rules of what stays of deleted records: their last epoch, their producers, and the way to delete more."""

from __future__ import annotations

from typing import Any

from mutating import mutant, told_by

from raftlog.partition.storage import log_start, reserve
from raftlog.partition.storage.epochs import EpochTable
from raftlog.partition.storage.log_segments import SegmentedLog


@mutant
@told_by("tests/partition/storage/test_lost_epochs.py")
def a_table_of_deleted_records_contradicts_the_next_epochs(patch: Any) -> None:
    patch.edit(EpochTable._contradicts, "first = NO_LEADER_EPOCH", "pass")


@mutant
@told_by("tests/partition/storage/test_lost_epochs.py")
def a_table_that_is_built_again_forgets_the_last_deleted_epoch(patch: Any) -> None:
    patch.edit(EpochTable.complete, "[*kept, *built]", "built")


@mutant
@told_by("tests/partition/test_kept_producers.py")
def retention_keeps_producers_again_for_the_same_start(patch: Any) -> None:
    patch.edit(SegmentedLog._apply_retention, " > self.log_start_offset:", " >= 0:")


@mutant
@told_by("tests/partition/test_reserve.py")
def the_first_step_gets_the_whole_reserve(patch: Any) -> None:
    patch(reserve, "SLICE_BYTES", reserve.RESERVE_BYTES)


@mutant
@told_by("tests/partition/test_reserve.py")
def one_step_may_use_the_whole_reserve(patch: Any) -> None:
    patch.edit(reserve.with_reserve, "range(MOST_SLICES)", "range(1_000)")


@mutant
@told_by("tests/partition/test_reserve.py")
def a_lack_of_descriptors_counts_as_a_full_disk(patch: Any) -> None:
    patch.edit(reserve.with_reserve, "_lacks_descriptors(error) or ", "")


@mutant
@told_by("tests/partition/test_reserve.py")
def a_half_used_reserve_counts_as_whole(patch: Any) -> None:
    patch.edit(reserve.make_reserve, "(size := _size_of(path)) >= RESERVE_BYTES", "(size := _size_of(path))")


@mutant
@told_by("tests/partition/storage/test_repair_in_place.py")
def a_log_of_which_everything_is_deleted_stays_closed(patch: Any) -> None:
    patch(log_start, "_go_on_empty", lambda *_: False)


@mutant
@told_by("tests/partition/storage/test_repair_in_place.py")
def damaged_records_at_an_unknown_end_count_as_deleted(patch: Any) -> None:
    patch.edit(log_start._go_on_empty, " or not end.is_certain", "")
