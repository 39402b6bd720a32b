"""The rules of a log's files: truncation, checkpoints, segments, and failed syncs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest import mock

from mutating import mutant, told_by

from raftlog.errors import DiskFullError
from raftlog.partition import follower_replica, replica, replica_manager, stray_partitions
from raftlog.partition.storage import files, log_files, log_truncation, recovery, segment, sync
from raftlog.partition.storage.cleaner import CleanerState
from raftlog.partition.storage.epochs import EpochTable
from raftlog.partition.storage.file_pool import FilePool
from raftlog.partition.storage.log import PartitionLog
from raftlog.partition.storage.segment import Segment

LOG = "tests/partition/storage/test_partition_log.py"


@mutant
@told_by("tests/partition/test_clean_ends.py")
def logs_that_were_not_opened_count_as_synced(patch: Any) -> None:
    """After a power loss, a broker that was killed and then stopped stays in the ISR without its last records."""
    patch.edit(replica_manager.ReplicaManager.close, "self._data_dir.last_was_clean and ", "")


@mutant
@told_by("tests/partition/test_clean_ends.py")
def logs_that_are_still_to_be_opened_count_as_synced(patch: Any) -> None:
    patch.edit(replica_manager.ReplicaManager.close, "self._assigned <= self._replicas.keys()", "not self._offline")


@mutant
@told_by("tests/partition/test_flush_changes.py")
def a_change_of_flush_acknowledges_nothing(patch: Any) -> None:
    """Appends that wait for a sync which is no longer required then wait for the next append."""
    patch.edit(replica.Replica.apply, "self._on_persisted(self.persisted_end_offset)", "pass")


@mutant
@told_by("tests/partition/storage/test_failed_opens.py")
def a_log_that_cannot_be_opened_leaves_its_files_open(patch: Any) -> None:
    patch.edit(log_files.LogFiles.__init__, "segment.close()", "pass")


@mutant
@told_by("tests/partition/test_unreadable_blocks.py")
def a_block_that_cannot_be_read_is_taken_for_a_torn_write(patch: Any) -> None:
    patch.edit(recovery._Recovery._require_torn, "is_unreadable(error.__cause__)", "False")


@mutant
@told_by("tests/partition/test_unreadable_blocks.py")
def a_block_that_cannot_be_read_ends_the_broker(patch: Any) -> None:
    patch(segment, "is_unreadable", lambda _: False)


@mutant
@told_by("tests/partition/test_transactional_replica.py")
def a_follower_that_starts_over_keeps_its_producers(patch: Any) -> None:
    patch.edit(
        follower_replica.FollowerReplica.start_over_at, "self.producers = ProducerStates(", "_ = ProducerStates("
    )


@mutant
@told_by("tests/partition/test_stray_failures.py")
def a_full_disk_at_the_deletion_of_a_topic_ends_the_broker(patch: Any) -> None:
    patch.edit(stray_partitions.StrayPartitions.remove, "except DiskFullError", "except ZeroDivisionError")


@mutant
@told_by("tests/partition/test_no_descriptor.py")
def a_truncation_without_a_free_descriptor_fails_the_log(patch: Any) -> None:
    patch(log_truncation, "lacks_descriptor", lambda _: False)


@mutant
@told_by(f"{LOG}::test_the_epoch_of_a_batch_is_durable_with_it")
def the_epoch_table_is_not_synced(patch: Any) -> None:
    """After a power loss, a damaged last batch then has no known epoch, and cannot be repaired (seed 1048)."""
    patch(EpochTable, "sync", lambda self: None)


@mutant
@told_by(f"{LOG}::test_the_recovery_point_goes_with_a_single_record")
def the_recovery_point_stays_when_one_offset_is_cut(patch: Any) -> None:
    cut = log_truncation.TruncatableLog._truncate_inside

    def lazy(self: Any, offset: int) -> None:
        with mock.patch.object(self, "_save_checkpoint", _unless(self.log_end_offset - offset == 1, self)):
            cut(self, offset)

    patch(log_truncation.TruncatableLog, "_truncate_inside", lazy)


def _unless(forgets: bool, log: Any) -> Callable[..., None]:
    save = log._save_checkpoint
    return (lambda **_: None) if forgets else save


@mutant
@told_by(f"{LOG}::test_a_process_killed_after_a_truncation_inside_a_batch_finds_an_intact_log")
def the_recovery_point_is_put_where_the_cut_was_asked_for(patch: Any) -> None:
    """Not at the start of the batch that is removed as a whole."""
    patch(log_truncation.TruncatableLog, "end_if_cut_at", lambda self, offset: min(offset, self.log_end_offset))


@mutant
@told_by(f"{LOG}::test_a_checkpoint_planned_before_a_cut_is_void_after_it")
def a_checkpoint_planned_before_a_cut_is_written_after_it(patch: Any) -> None:
    plan = log_files.LogFiles.plan_checkpoint

    def stale(self: Any, *arguments: Any, **named: Any) -> Any:
        write, cuts, point = plan(self, *arguments, **named), self._cuts, self.durable_end_offset

        def write_anyway() -> None:
            now, self._cuts = self._cuts, cuts
            with mock.patch.object(self._syncer, "durable_end_offset", point):
                write()
            self._cuts = now

        return write and write_anyway

    patch(log_files.LogFiles, "plan_checkpoint", stale)


@mutant
@told_by(f"{LOG}::test_a_segment_rolls_by_time_in_milliseconds")
def segments_span_a_thousand_times_as_long(patch: Any) -> None:
    must_roll = PartitionLog._must_roll

    def late(self: Any, pending: int, header: Any) -> bool:
        with mock.patch.object(self, "config", replace(self.config, segment_ms=self.config.segment_ms * 1000)):
            return must_roll(self, pending, header)

    patch(PartitionLog, "_must_roll", late)


@mutant
@told_by("tests/partition/test_log_cleaner.py::test_a_cut_inside_a_batch_forgets_that_the_whole_batch_was_compacted")
def what_was_cut_counts_as_compacted(patch: Any) -> None:
    patch(CleanerState, "truncated_to", lambda self, offset: None)


@mutant
@told_by("tests/partition/storage/test_log_disk_errors.py::test_a_log_whose_sync_fails_during_a_reset_refuses_changes")
def want_of_room_excuses_a_failed_sync(patch: Any) -> None:
    error_of = files.storage_error

    def kind(error: OSError, what: str) -> Any:
        full = error.errno in files._FULL
        return DiskFullError(f"{what}: {error.strerror}") if full else error_of(error, what)

    for module in (files, log_truncation, log_files):
        patch(module, "storage_error", kind)


@mutant
@told_by("tests/partition/test_damaged_in_use.py::test_a_disk_that_does_not_sync_a_cut_ends_the_broker")
def a_broker_whose_cut_cannot_be_synced_goes_on(patch: Any) -> None:
    patch(follower_replica.FollowerReplica, "on_storage_failure", lambda self, error: None)


@mutant
@told_by("tests/partition/test_checkpoints.py::test_a_checkpoint_that_cannot_be_synced_ends_the_broker")
def a_failed_sync_beside_the_log_leaves_it_sound(patch: Any) -> None:
    patch(log_files.LogFiles, "fail", lambda self, failure: None)


@mutant
@told_by(f"{LOG}::test_every_segment_that_was_written_since_is_synced")
def only_the_newest_segment_is_synced(patch: Any) -> None:
    wrote = sync.Syncer.wrote

    def forgetful(self: Any, segment: Segment) -> None:
        self._unsynced.clear()
        wrote(self, segment)

    patch(sync.Syncer, "wrote", forgetful)


@mutant
@told_by(f"{LOG}::test_what_is_appended_during_a_sync_is_not_durable_after_it")
def what_is_appended_during_a_sync_counts_as_synced(patch: Any) -> None:
    synced = sync.Syncer.sync

    def hasty(self: Any, log_end_offset: Callable[[], int]) -> int:
        synced(self, log_end_offset)
        self.durable_end_offset = log_end_offset()
        return int(self.durable_end_offset)

    patch(sync.Syncer, "sync", hasty)


@mutant
@told_by("tests/partition/storage/test_index_and_pool.py::test_a_file_with_unsynced_bytes_stays_open")
def files_with_unsynced_bytes_are_closed(patch: Any) -> None:
    close_some = FilePool._close_some

    def careless(self: Any, excess: int) -> None:
        for file in self._open.values():
            file.unsynced = False
        close_some(self, excess)

    patch(FilePool, "_close_some", careless)


@mutant
@told_by(f"{LOG}::test_snapshots_of_producers_that_speak_of_what_was_cut_go_with_it")
def snapshots_of_producers_outlive_a_cut(patch: Any) -> None:
    patch(log_files.LogFiles, "_remove_files", lambda self, suffix, above=-1: None)
