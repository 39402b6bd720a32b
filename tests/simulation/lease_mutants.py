"""The rules of the bytes that a producer's fast path reserves in a batch."""

from __future__ import annotations

from typing import Any

from mutating import mutant, told_by

from raftlog.client.core.accumulator import Accumulator
from raftlog.client.delivery import SharedHandle
from raftlog.client.fast_path import FastPath
from raftlog.client.record_appender import RecordAppender

FAST_PATH = "tests/client/test_fast_path.py"


@mutant
@told_by(FAST_PATH)
def a_record_joins_a_batch_that_was_sent(patch: Any) -> None:
    patch.edit(Accumulator.take, "self.size -= batch.end_lease()", "pass")


@mutant
@told_by(FAST_PATH)
def a_record_joins_a_batch_that_was_taken_out(patch: Any) -> None:
    patch.edit(Accumulator._remove, "batch.end_lease() + batch.size", "batch.size")


@mutant
@told_by(FAST_PATH)
def a_record_joins_a_handle_that_is_no_longer_the_last(patch: Any) -> None:
    patch.edit(Accumulator._queue_for, "size - queue.end_lease()", "size")


@mutant
@told_by(FAST_PATH)
def a_record_overtakes_those_that_wait_for_metadata(patch: Any) -> None:
    patch.edit(RecordAppender._set_aside, "self.fast_paths.pop(record.topic, None)", "pass")


@mutant
@told_by(FAST_PATH)
def a_sticky_partition_counts_what_was_given_back(patch: Any) -> None:
    patch.edit(SharedHandle.take_back, "self.sticky.filled -= unused", "pass")


@mutant
@told_by(FAST_PATH)
def a_fast_path_takes_the_room_of_others(patch: Any) -> None:
    patch.edit(FastPath._lease, "queued < self._buffer_bytes // 2", "True")


@mutant
@told_by(FAST_PATH)
def a_fast_path_takes_records_of_another_loop(patch: Any) -> None:
    patch.edit(FastPath.take, "self._loop is not _get_running_loop()", "False")
