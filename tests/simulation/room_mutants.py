"""The rules of full disks, of damage that is found late, and of what a log's files say after a loss of power."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from mutating import mutant, told_by

from raftlog.broker import offsets
from raftlog.broker.kafka.offsets import KafkaOffsets
from raftlog.partition import log_maintenance, log_opener, readable_replica, replica_manager
from raftlog.partition.core import epochs
from raftlog.partition.core import repair as core_repair
from raftlog.partition.follower_replica import FollowerReplica
from raftlog.partition.storage import data_dir, file_pool, producer_snapshots, repair, reserve
from raftlog.partition.storage.epochs import EpochTable
from raftlog.partition.storage.log_truncation import TruncatableLog

RESERVE = "tests/partition/test_reserve.py"
QUARANTINE = "tests/partition/test_quarantine_failures.py"
DAMAGED = "tests/partition/test_damaged_logs.py"
DAMAGED_IN_USE = "tests/partition/test_damaged_in_use.py"
KEPT = "tests/partition/test_kept_producers.py"
COMPACTED = "tests/partition/storage/test_repair_of_compacted_logs.py"


def _without_reserve(_: Path, step: Callable[[], Any]) -> Any:
    return step()


# The reserve.


@mutant
@told_by(RESERVE)
def a_full_disk_keeps_its_reserve(patch: Any) -> None:
    patch.edit(reserve.with_reserve, " or not free_slice(data_folder)", " or True")


@mutant
@told_by(RESERVE)
def a_reserve_has_a_size_and_no_blocks(patch: Any) -> None:
    patch.edit(
        reserve.make_reserve,
        "os.posix_fallocate(descriptor, 0, RESERVE_BYTES)",
        "os.ftruncate(descriptor, RESERVE_BYTES)",
    )


@mutant
@told_by(RESERVE)
def a_reserve_takes_the_last_room(patch: Any) -> None:
    patch.edit(reserve.make_reserve, "free.f_bavail * free.f_frsize < FREE_FOR_RESERVE_BYTES", "False")


@mutant
@told_by(RESERVE)
def a_reserve_that_did_not_fit_counts_as_one(patch: Any) -> None:
    patch.edit(reserve.make_reserve, "_shrink(path, size)", "pass")


@mutant
@told_by(RESERVE)
def a_reserve_is_not_made_while_the_broker_runs(patch: Any) -> None:
    """Neither the first one, nor one after it was freed."""
    patch.edit(log_maintenance.LogMaintenance.retain_regularly, "to_thread(_make_reserves, ", "to_thread(len, ")


@mutant
@told_by(RESERVE)
def retention_frees_no_reserve(patch: Any) -> None:
    patch(log_maintenance, "with_reserve", _without_reserve)


@mutant
@told_by(RESERVE)
def a_deletion_frees_no_reserve(patch: Any) -> None:
    patch.edit(
        FollowerReplica.delete_before,
        "with_reserve(data_folder_of(self.log.folder), lambda: self.log.advance_log_start(offset, high_watermark))",
        "self.log.advance_log_start(offset, high_watermark)",
    )


@mutant
@told_by(RESERVE)
def what_is_kept_of_producers_frees_no_reserve(patch: Any) -> None:
    patch.edit(FollowerReplica._plan_kept, "with_reserve(data_folder_of(self.log.folder), write)", "write()")


@mutant
@told_by(RESERVE)
def a_start_frees_no_reserve(patch: Any) -> None:
    patch(data_dir, "with_reserve", _without_reserve)


# Damage.


@mutant
@told_by(DAMAGED_IN_USE)
def damage_is_reported_in_the_thread_that_found_it(patch: Any) -> None:
    patch(readable_replica, "on_this_loop", lambda report: report)


@mutant
@told_by(DAMAGED_IN_USE)
def what_a_thread_could_not_read_of_a_closed_log_is_damage(patch: Any) -> None:
    patch.edit(readable_replica.ReadableReplica._note_unreadable, "if found.is_there", "if True")


@mutant
@told_by(DAMAGED_IN_USE)
def damage_counts_as_reported_before_it_is(patch: Any) -> None:
    """A report that fails is then never repeated, and no repair begins."""
    report, note = "self._observer.on_damage(self.assignment.key, damage)", "self.damage = damage"
    patch.edit(
        readable_replica.ReadableReplica.note_damage,
        f"{report}\n        {note}",
        f"{note}\n        {report}",
    )


@mutant
@told_by(QUARANTINE)
def a_quarantine_that_was_interrupted_does_not_go_on(patch: Any) -> None:
    patch.edit(data_dir._put_aside, "if not (before := quarantined_logs(folder))", "if True")


@mutant
@told_by(QUARANTINE)
def old_logs_that_cannot_be_listed_end_a_quarantine(patch: Any) -> None:
    patch.edit(data_dir._limit_quarantined, "except OSError as error", "except ZeroDivisionError as error")


@mutant
@told_by(QUARANTINE)
def a_damaged_log_without_room_to_be_put_aside_stays_offline(patch: Any) -> None:
    patch.edit(
        replica_manager.ReplicaManager._retry,
        "if (reason := self.damage.replaces(assignment)) is not None",
        "if (reason := None) is not None",
    )


@mutant
@told_by(QUARANTINE)
def a_damaged_log_is_tried_again_with_its_former_state(patch: Any) -> None:
    patch.edit(replica_manager.ReplicaManager._forget_offline, " or key in self.damage", "")


@mutant
@told_by(QUARANTINE)
def an_empty_log_is_opened_for_one_that_could_not_be_put_aside(patch: Any) -> None:
    patch.edit(replica_manager.ReplicaManager._retry, "if assignment.key not in self.damage", "if True")


@mutant
@told_by(COMPACTED)
def compacted_batches_replace_intact_ones(patch: Any) -> None:
    patch.edit(core_repair.accept, "if header.is_compacted and not damaged.exact_fit", "if False")


@mutant
@told_by(COMPACTED)
def any_batch_fits_in_front_of_a_compacted_one(patch: Any) -> None:
    patch.edit(repair._describe, "if after is not None and after.is_compacted", "if False")


@mutant
@told_by(COMPACTED)
def what_is_compacted_may_end_after_the_damage(patch: Any) -> None:
    patch.edit(
        core_repair.DamagedBatch.as_compacted,
        "= self.following_position, self.following.base_offset",
        "= self.end_position, self.end_offset",
    )


@mutant
@told_by("tests/partition/storage/test_index_and_pool.py")
def a_segment_that_has_ended_is_opened_again(patch: Any) -> None:
    patch.edit(file_pool.FilePool.acquire, "if file.ended", "if False")


# Losses of power.


@mutant
@told_by(DAMAGED)
def a_restart_forgets_that_a_damaged_log_lost_power(patch: Any) -> None:
    patch.edit(log_opener.LogOpener._open, " or marker.exists()", "")


@mutant
@told_by(DAMAGED)
def a_log_that_was_opened_since_still_counts_as_one_that_lost_power(patch: Any) -> None:
    patch(log_opener, "_forget_power_loss", lambda _: None)


@mutant
@told_by(DAMAGED)
def a_loss_of_power_is_settled_without_room_to_note_the_damaged_logs(patch: Any) -> None:
    patch.edit(
        log_opener.LogOpener._settle_power_loss, 'may have lost writes", error)\n        return', 'lost", error)'
    )


@mutant
@told_by("tests/partition/storage/test_partition_log.py")
def a_log_that_starts_over_is_named_after_its_checkpoint(patch: Any) -> None:
    patch(TruncatableLog, "_name", lambda _: None)
    truncated = "self._syncer.truncated(offset, self._segments[-1])"
    patch.edit(TruncatableLog._reset_to, truncated, f"{truncated}\n            self._syncer.name()")


# Deletions, and what they leave.


@mutant
@told_by(KEPT)
def two_deletions_write_one_file_at_once(patch: Any) -> None:
    patch.edit(FollowerReplica._keeper, "with self._keeping", "if True")


@mutant
@told_by(KEPT)
def a_deletion_removes_what_is_kept_for_a_farther_one(patch: Any) -> None:
    patch.edit(producer_snapshots.remove_kept, "other < log_start", "other != log_start")


@mutant
@told_by(KEPT)
def what_a_lost_history_kept_of_producers_stays(patch: Any) -> None:
    patch.edit(producer_snapshots.plan_kept, "unlink_quietly(path)", "pass")


@mutant
@told_by("tests/partition/storage/test_lost_epochs.py", "tests/partition/storage/test_partition_log.py")
def the_epoch_of_deleted_records_stays_when_another_history_follows(patch: Any) -> None:
    patch.edit(EpochTable.assign, "kept.clear()", "pass")


@mutant
@told_by("tests/partition/test_epochs_and_producers.py")
def an_epoch_before_all_others_ends_before_the_log(patch: Any) -> None:
    patch.edit(
        epochs.diverging_epoch,
        "max(log_start_offset, min(end_offset, log_end_offset))",
        "min(end_offset, log_end_offset)",
    )


@mutant
@told_by("tests/broker/kafka/test_kafka_data.py::test_an_epoch_before_the_first_record_ends_where_that_begins")
def a_kafka_client_learns_of_an_epoch_that_ends_before_the_log(patch: Any) -> None:
    patch.edit(KafkaOffsets.epoch_end, "max(end, replica.log.log_start_offset)", "end")


@mutant
@told_by("tests/partition/test_time_search.py")
def an_answer_names_every_leader_epoch(patch: Any) -> None:
    patch(offsets, "_MAX_EPOCHS", 1_000)


@mutant
@told_by("tests/partition/test_time_search.py")
def an_answer_names_the_earliest_leader_epochs(patch: Any) -> None:
    patch.edit(offsets.describe_offsets, "[-_MAX_EPOCHS:]", "[:_MAX_EPOCHS]")
