"""The rules of Spark's streams over logs that were truncated: epochs in checkpoints, in ranges and in tasks."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from mutating import mutant, told_by

TRUNCATION = "tests/spark/test_spark_truncation.py"


def _source(module: str) -> Any:
    """Import a module of the data source now: Spark takes a second, and the other mutants do without."""
    return import_module(f"pyspark_raftlog.{module}")


# Checkpoints.


@mutant
@told_by(TRUNCATION)
def a_checkpoint_has_no_epochs(patch: Any) -> None:
    patch.edit(_source("checkpoint").StreamPosition.encode, "if known", "if False")


@mutant
@told_by(TRUNCATION)
def the_epochs_of_a_checkpoint_are_not_read(patch: Any) -> None:
    patch.edit(
        _source("checkpoint").StreamPosition.decode.__func__,
        "decode_positions(ids.pop(EPOCHS, {})), _decode",
        "decode_positions(ids.pop(EPOCHS, {}) and {}), _decode",
    )


@mutant
@told_by(TRUNCATION)
def a_stream_takes_the_epoch_of_what_it_has_read_from_the_log_of_now(patch: Any) -> None:
    patch.edit(
        _source("checkpoint").StreamPosition.moved_to,
        "if offset == self.offsets.get(key)\n        else ends[key].epoch_before",
        "if False\n        else ends[key].epoch_before",
    )


@mutant
@told_by(TRUNCATION)
def the_epochs_of_what_a_stream_has_read_are_those_of_the_log_of_now(patch: Any) -> None:
    patch.edit(
        _source("checkpoint").StreamPosition.moved_to,
        "if offset == self.offsets.get(key) else ends[key].epochs_before",
        "if False else ends[key].epochs_before",
    )


@mutant
@told_by(TRUNCATION)
def a_stream_goes_on_behind_what_an_older_log_has_in_their_place(patch: Any) -> None:
    patch.edit(_source("offsets").LogEnds.agreed, ", self._shared_end(offset, read))", ")")


@mutant
@told_by(TRUNCATION)
def the_starts_of_epochs_in_a_checkpoint_are_not_read(patch: Any) -> None:
    patch.edit(
        _source("checkpoint").StreamPosition.decode.__func__,
        "ids.pop(EPOCH_STARTS, {})",
        "ids.pop(EPOCH_STARTS, {}) and {}",
    )


# Positions.


@mutant
@told_by(TRUNCATION)
def a_log_that_has_grown_again_counts_as_whole(patch: Any) -> None:
    patch.edit(_source("stream")._problems, "elif ends[key].was_truncated(offset, epoch)", "elif False")


@mutant
@told_by(TRUNCATION)
def a_record_of_an_earlier_epoch_counts_as_the_one_that_was_read(patch: Any) -> None:
    patch.edit(
        _source("offsets").LogEnds.was_truncated,
        "self.epoch_before(offset) not in (NO_LEADER_EPOCH, epoch)",
        "self.epoch_before(offset) > epoch",
    )


@mutant
@told_by(TRUNCATION)
def a_stream_goes_on_behind_what_replaced_its_records(patch: Any) -> None:
    patch.edit(
        _source("offsets").LogEnds.agreed, "min(offset, next(later, offset), self._shared_end(offset, read))", "offset"
    )


@mutant
@told_by(TRUNCATION)
def records_above_the_high_watermark_are_of_known_epochs(patch: Any) -> None:
    patch.edit(_source("offsets").LogEnds.reaching, "self.epochs if undecided >= 0 else ()", "self.epochs")


@mutant
@told_by(TRUNCATION)
def a_batch_that_goes_back_forgets_where_it_begins(patch: Any) -> None:
    patch.edit(
        _source("stream").RaftlogStreamReader.latestOffset.__wrapped__,
        "return end | {BEGIN: begin.encode()}",
        "return end",
    )


@mutant
@told_by(TRUNCATION)
def a_loss_is_noted_with_every_batch(patch: Any) -> None:
    patch.edit(
        _source("stream").RaftlogStreamReader._after_losses,
        "changed = (anew & moved.keys()) | cut",
        "changed = anew & moved.keys()",
    )


@mutant
@told_by(TRUNCATION)
def a_run_with_an_end_leaves_out_what_replaced_its_records(patch: Any) -> None:
    patch.edit(_source("stream").RaftlogStreamReader._after_losses, "for key in anew | cut}", "for key in anew}")


# Tasks.


@mutant
@told_by(TRUNCATION)
def a_task_reads_what_replaced_its_records(patch: Any) -> None:
    patch.edit(_source("fetch").RangeFetch._was_planned, "batch[0].leader_epoch <= wanted.last_epoch", "True")


@mutant
@told_by(TRUNCATION)
def a_record_behind_a_range_ends_its_task(patch: Any) -> None:
    patch.edit(_source("fetch").RangeFetch._was_planned, " or batch[0].base_offset >= wanted.end", "")


@mutant
@told_by(TRUNCATION)
def the_ranges_of_a_stream_have_no_epoch(patch: Any) -> None:
    patch.edit(_source("offsets").ranges_between, "epochs.get(partition, NO_LEADER_EPOCH)", "NO_LEADER_EPOCH")


@mutant
@told_by(TRUNCATION)
def the_ranges_of_a_batch_query_have_no_epoch(patch: Any) -> None:
    patch.edit(_source("reader")._readable, ", last_epoch=ends.epoch_before(end)", "")


@mutant
@told_by(TRUNCATION)
def the_tasks_of_a_range_have_no_epoch(patch: Any) -> None:
    patch.edit(
        _source("offsets")._cut,
        "replace(item, start=start, end=end)",
        "replace(item, start=start, end=end, last_epoch=-1)",
    )
