"""The rules of repair: what may replace a damaged batch, and that it does."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from mutating import mutant, told_by

from raftlog.errors import StorageError
from raftlog.metadata_quorum.raft import journal
from raftlog.partition import damaged_logs, fetcher, follower_replica, log_opener, rebuild, repair
from raftlog.partition.core import repair as core_repair
from raftlog.partition.repair_manager import RepairManager
from raftlog.partition.scrubber import Scrubber
from raftlog.partition.storage import (
    batch_scan,
    behind_damage,
    log_start,
    rebuilt_log,
    repair_source,
    scrub,
    verified_reads,
)
from raftlog.partition.storage import repair as storage_repair
from raftlog.partition.storage.checkpoint import Checkpoint
from raftlog.partition.storage.log_truncation import TruncatableLog
from raftlog.partition.storage.rebuilt_log import RebuiltLog
from raftlog.partition.storage.repair import ClosedLog
from raftlog.record.batch import iter_batches

REBUILT = "tests/partition/test_rebuilt_logs.py"


@mutant
def damaged_batches_are_not_repaired(patch: Any) -> None:
    """A replica with a damaged batch resigns, and is fetched again as a whole, as before repair existed."""

    async def nobody(*_: Any) -> tuple[None, dict[int, None]]:
        return None, {}

    patch(repair.Repairer, "_ask", nobody)
    patch(repair, "repair_verdict", lambda *_, **__: repair.RepairVerdict.RESIGN)


@told_by("tests/partition/storage/test_repair_in_place.py")
@mutant
def a_repaired_batch_is_not_checked(patch: Any) -> None:
    """Another replica's bytes are written without a check; they are damaged too, and the replica resigns."""
    patch(repair_source, "_whole", lambda read, position, header, _: read(header.batch_length, position))
    patch(core_repair, "verify_payload_crc", lambda *_: None)


@told_by("tests/partition/test_repair.py::test_a_repair_without_a_free_descriptor_waits")
@mutant
def a_replica_without_a_free_descriptor_is_beyond_repair(patch: Any) -> None:
    patch(repair, "storage_error", lambda _, what: StorageError(what))


@told_by("tests/partition/test_damage_with_syncs.py")
@mutant
def damage_of_one_log_ends_the_broker(patch: Any) -> None:
    patch(follower_replica, "is_of_the_disk", lambda _: True)


@told_by("tests/partition/test_no_descriptor.py")
@mutant
def producers_of_before_a_truncation_are_kept(patch: Any) -> None:
    patch.edit(
        follower_replica.FollowerReplica.truncate_to,
        "self.producers = self._recovered() if producers is None else producers",
        "pass",
    )


@told_by("tests/partition/test_damage_with_syncs.py")
@mutant
def a_log_that_cannot_start_over_is_not_followed(patch: Any) -> None:
    """A follower gives up a log whose disk was full when it began again."""
    patch.edit(fetcher.LeaderFetcher._sync_all, "isinstance(error, DiskFullError)", "False")


@told_by("tests/partition/test_damage_with_syncs.py")
@mutant
def a_log_that_is_partly_removed_keeps_its_position(patch: Any) -> None:
    """A full disk keeps it from starting over. The position that it had acknowledges records that are gone."""
    patch.edit(fetcher.LeaderFetcher._position, "replica.finish_starting_over()", "pass")


@told_by("tests/partition/storage/test_verified_reads.py")
@mutant
def batches_behind_a_damaged_header_are_hidden(patch: Any) -> None:
    patch(verified_reads, "position_behind", lambda *_: None)


@told_by("tests/partition/storage/test_verified_reads.py")
@mutant
def bytes_of_a_record_pass_for_a_batch(patch: Any) -> None:
    """Behind a damaged header, what looks like a batch need not lead to the next index entry."""
    patch.edit(
        behind_damage.position_behind, "leads_on.get(position + header.batch_length) == header.next_offset", "True"
    )


@told_by("tests/partition/storage/test_repair_in_place.py")
@mutant
def adjacent_damage_in_a_compacted_log_stays(patch: Any) -> None:
    """Only a single batch may fill a gap there."""
    patch.edit(core_repair._is_single, "damaged.exact_fit and damaged.end_offset is None", "damaged.exact_fit")


@told_by("tests/partition/storage/test_repair_in_place.py")
@mutant
def a_cleaned_batch_may_replace_another_one(patch: Any) -> None:
    """In a compacted log, headers inside the damage are not compared with the batches of another replica."""
    patch.edit(core_repair._fits, "if any(start <= at < end", "if False and any(start <= at < end")


@told_by("tests/partition/storage/test_repair_in_place.py")
@mutant
def an_interrupted_repair_may_look_like_a_torn_tail(patch: Any) -> None:
    """The recovery point is not moved beyond the batch before it is written."""
    patch(ClosedLog, "_cover", lambda self, end: None)


@told_by("tests/partition/storage/test_batch_scan.py")
@mutant
def a_checksum_may_hide_the_header_that_it_is_of(patch: Any) -> None:
    """Headers are searched by matches without overlap: a byte like the magic hides the header after it."""
    patch(batch_scan, "_MAYBE_HEADER", re.compile(rb"\x01[\x00-\x1f]\x00\x00", re.DOTALL))


@told_by("tests/partition/storage/test_repair_in_place.py")
@mutant
def the_epoch_table_is_not_asked_where_epochs_part(patch: Any) -> None:
    edit = "is_known = extent.epochs.epoch_at(after.base_offset)"
    patch.edit(storage_repair._epochs_of, edit, "is_known = False and extent.epochs.epoch_at(after.base_offset)")


@mutant
@told_by("tests/partition/storage/test_repair_in_place.py")
def a_log_that_has_diverged_repairs_others(patch: Any) -> None:
    patch.edit(core_repair.accept, "if is_proven and header.leader_epoch != damaged.epoch_of(offset)", "if False")


@mutant
def a_checkpoint_from_before_a_log_started_over_is_written(patch: Any) -> None:
    """A further attempt to start over does not count as a truncation."""
    really = TruncatableLog.reset_to

    def reset_to(self: TruncatableLog, offset: int, **options: Any) -> None:
        again = self._restarts_at is not None
        try:
            really(self, offset, **options)
        finally:
            self._cuts -= again

    patch(TruncatableLog, "reset_to", reset_to)


@told_by("tests/partition/test_repair.py")
@mutant
def a_damaged_log_never_starts_later(patch: Any) -> None:
    """Damage among records that were deleted keeps a log closed."""
    patch(damaged_logs, "move_log_start", lambda *_: False)


@told_by("tests/partition/storage/test_repair_in_place.py")
@mutant
def a_damaged_log_starts_where_another_history_starts(patch: Any) -> None:
    """The leader epoch at the log start is not compared."""
    patch(
        log_start,
        "intact_batch",
        lambda file, offset, really=log_start.intact_batch: (
            (found := really(file, offset)) and (found[0], replace(found[1], leader_epoch=AnyEpoch()))
        ),
    )


class AnyEpoch(int):
    """An epoch that differs from none."""

    __hash__ = int.__hash__

    def __eq__(self, _: object) -> bool:
        return True

    def __ne__(self, _: object) -> bool:
        return False


@mutant
def the_scrubber_says_nothing(patch: Any) -> None:
    """Unread damage stays: the scrubber finds it and it is not repaired."""

    async def sees_nothing(*_: Any) -> bool:
        return True

    patch(Scrubber, "_check_segment", sees_nothing)


@mutant
def the_scrubber_checks_headers_only(patch: Any) -> None:
    """The scrubber does not compare the checksums of payloads."""
    patch(scrub, "scan_batches", lambda *place, verify, name: batch_scan.scan_batches(*place, verify=False, name=name))


@told_by("tests/metadata_quorum/raft/test_quorum_scrub.py")
@mutant
def a_rotten_journal_stays(patch: Any) -> None:
    """A controller that finds its journal damaged while it runs does not rewrite it, and cannot start again."""
    patch(journal.RaftJournal, "rewrite", lambda _: None)


@mutant
@told_by(REBUILT)
def a_rebuilt_log_is_joined_without_a_check(patch: Any) -> None:
    """The other replica's log may differ below the join."""
    patch(RebuiltLog, "_is_known_equal", lambda *_: True)


@mutant
@told_by(REBUILT)
def a_log_that_is_compacted_meanwhile_is_copied(patch: Any) -> None:
    patch.edit(rebuild.rebuild, "last[0].generation != first.generation", "False")


@mutant
@told_by(REBUILT)
def quarantined_batches_rebuild_a_log(patch: Any) -> None:
    patch.edit(rebuild.rebuild, "or not response.from_log", "")


@mutant
@told_by(REBUILT)
def a_log_without_a_place_is_removed(patch: Any) -> None:
    """The replica then opens an empty log, and may be elected with it."""
    patch.edit(RebuiltLog.abandon, "if self.folder.exists():", "if True:")


@mutant
@told_by(REBUILT)
def damage_that_a_request_meets_is_not_repaired(patch: Any) -> None:
    patch.edit(RepairManager.serve, "if own is Holding.DAMAGED and is_stored:", "if False:")


@mutant
@told_by(REBUILT)
def a_replica_that_may_not_lead_is_rebuilt(patch: Any) -> None:
    patch(damaged_logs, "is_relied_upon", lambda *_: True)


@mutant
@told_by(REBUILT)
def a_rebuilt_log_ends_at_the_first_damage_above_the_recovery_point(patch: Any) -> None:
    """A killed process left an old checkpoint: acknowledged records behind the damage are lost."""

    def first_damage(folder: Any) -> Any:
        end = Checkpoint.load(folder).recovery_point
        while data := repair_source.find_batches([folder], end, -1, 1 << 20)[1]:
            end = max(header.next_offset for header, _ in iter_batches(data))
        return repair_source.LogEnd(end, is_certain=True)

    patch(rebuilt_log, "log_end", first_damage)


@mutant
@told_by(REBUILT)
def an_uncertain_end_is_taken_for_the_end(patch: Any) -> None:
    patch.edit(rebuild._end, "if log.is_end_certain:\n", "if True:\n")


@mutant
@told_by(REBUILT)
def an_empty_log_is_opened_in_place_of_a_rebuilt_one(patch: Any) -> None:
    patch(log_opener, "lacks_rebuilt", lambda _: False)


@mutant
@told_by(REBUILT)
def epochs_that_contradict_are_joined(patch: Any) -> None:
    patch.edit(RebuiltLog._is_known_equal, "if contradicts or ", "if ")
