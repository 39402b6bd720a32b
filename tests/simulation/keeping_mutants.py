"""The rules by which a log's files, scrubbers and repair keep records, each checked by a test of its own."""

from __future__ import annotations

from typing import Any

from mutating import mutant, told_by

from raftlog.metadata_quorum.raft import engine, frames
from raftlog.metadata_quorum.raft.snapshots import Snapshots
from raftlog.partition import follower_replica, replica_fetch_server, scrubber, sent_producers
from raftlog.partition.core import ages, compaction, producers, repair
from raftlog.partition.storage import cleaner, file_pool, index, producer_snapshots, retention, transaction_index
from raftlog.partition.storage.log_dirs import LogDirs
from raftlog.partition.storage.log_truncation import TruncatableLog
from raftlog.partition.storage.scrub import SegmentScrub
from raftlog.partition.storage.segment import Segment
from raftlog.partition.storage.verified_reads import FileRange

INDEX = "tests/partition/storage/test_index_and_pool.py"
COMPACTION = "tests/partition/storage/test_compaction.py"
CLEANING = "tests/partition/test_log_cleaner.py"
SNAPSHOTS = "tests/partition/storage/test_producer_snapshots.py"
SCRUBBER = "tests/partition/test_scrubber.py"
SEGMENTS = "tests/partition/storage/test_scrubbed_segments.py"
FATE = "tests/partition/test_repair_verdict.py"
IN_PLACE = "tests/partition/storage/test_repair_in_place.py"
CHANGED_BITS = "tests/metadata_quorum/raft/test_changed_bits.py"

# Files beside the log.


@mutant
@told_by(INDEX)
def entries_of_an_index_are_not_checked(patch: Any) -> None:
    patch.edit(index.decode_index, " or crc32c(entries) != crc", "")


@mutant
@told_by(INDEX)
def an_index_of_another_size_is_believed(patch: Any) -> None:
    patch.edit(Segment.load_index, " and read[0] == self.facts", "")


@mutant
@told_by(INDEX)
def an_index_is_believed_where_it_lands(patch: Any) -> None:
    patch.edit(Segment.position_before, "self.lands_on(entry)", "entry")


@mutant
@told_by("tests/partition/storage/test_transaction_index.py")
def an_index_of_aborted_transactions_is_of_any_time(patch: Any) -> None:
    patch.edit(transaction_index.decode_aborted, " or (base, covered) != (base_offset, size)", "")


@mutant
@told_by("tests/partition/storage/test_transaction_index.py")
def aborted_transactions_outlive_a_cut(patch: Any) -> None:
    patch.edit(Segment.truncate_to, " if entry.last_offset < self.next_offset", "")


@mutant
@told_by(SNAPSHOTS)
def a_snapshot_of_producers_beyond_the_logs_end_is_believed(patch: Any) -> None:
    patch.edit(producer_snapshots._load_newest, "<= offset <= last and", "<= offset and")


@mutant
@told_by(SNAPSHOTS)
def a_snapshot_of_producers_from_before_the_log_start_is_believed(patch: Any) -> None:
    """Its open transactions may have ended in what is deleted: the last stable offset stays there for ever."""
    patch.edit(producer_snapshots._load_newest, "if log.log_start_offset <= offset <= last", "if offset <= last")


@mutant
@told_by(SNAPSHOTS)
def no_snapshot_of_producers_survives_a_truncation_to_the_high_watermark(patch: Any) -> None:
    patch.edit(producer_snapshots.save_producers, "if old != lasting:", "if True:")


@mutant
@told_by(COMPACTION)
def compaction_merges_old_records_with_ever_newer_ones(patch: Any) -> None:
    patch.edit(ages.are_apart, "return apart_us > config.segment_ms * 1000", "return False")


@mutant
@told_by(SNAPSHOTS)
def a_snapshot_of_producers_is_not_checked(patch: Any) -> None:
    patch.edit(producer_snapshots.decode_producers, " or crc32c(body) != crc", "")


@mutant
@told_by(SNAPSHOTS)
def one_snapshot_of_producers_is_kept(patch: Any) -> None:
    """A truncation leaves none."""
    patch.edit(producer_snapshots.save_producers, "[:-_KEPT]", "[:-1]")


@mutant
@told_by("tests/partition/storage/test_log_dirs.py")
def a_folder_that_knows_fewer_incarnations_has_no_say(patch: Any) -> None:
    """A disk of a node that was restored to an earlier state goes unnoticed."""
    patch.edit(LogDirs.previous_incarnations.fget, "all(name in others", "any(name in others")


# Reads, deletions and rewrites.


@mutant
@told_by("tests/partition/storage/test_verified_reads.py")
def a_range_of_a_log_that_was_cut_is_sent(patch: Any) -> None:
    patch.edit(FileRange._require_there, "not self.is_there", "False")


@mutant
@told_by("tests/partition/storage/test_partition_log.py")
def retention_by_size_leaves_less_than_asked_for(patch: Any) -> None:
    patch.edit(retention.expired_segments, "total - segment.size >= config", "total > config")


@mutant
@told_by(COMPACTION)
def rotten_batches_are_compacted(patch: Any) -> None:
    patch.edit(cleaner._walk, "verify_payload_crc(header, batch)", "pass")


@mutant
@told_by(COMPACTION)
def what_compaction_writes_is_not_synced(patch: Any) -> None:
    patch.edit(cleaner._Output.finish, "sync_file(self._descriptor)", "pass")


@mutant
@told_by(COMPACTION)
def compaction_makes_records_newer(patch: Any) -> None:
    patch.edit(
        cleaner._Output.finish, "os.utime(self._descriptor, ns=(written_us * 1_000, written_us * 1_000))", "pass"
    )


@mutant
@told_by(COMPACTION)
def tombstones_go_before_every_replica_holds_them(patch: Any) -> None:
    patch.edit(compaction.Compactor._may_drop_tombstones, "and header.last_offset < self._rules.replicated_below", "")


@mutant
@told_by(COMPACTION)
def tombstones_of_another_replicas_pass_go_early(patch: Any) -> None:
    """This replica has not removed the records before them yet."""
    patch.edit(compaction.Compactor._may_drop_tombstones, "and header.base_offset < self._last.start_offset", "")


@mutant
@told_by(COMPACTION)
def segments_that_reach_above_the_high_watermark_are_compacted(patch: Any) -> None:
    patch.edit(compaction.cleanable_end, "segment.next_offset > limit_offset", "segment.base_offset > limit_offset")


# Scrubbers and repair.


@mutant
@told_by(SEGMENTS)
def scrubbers_do_not_see_that_batches_are_missing(patch: Any) -> None:
    patch.edit(SegmentScrub._next, "header.base_offset != self.offset or ", "")


@mutant
@told_by(SCRUBBER)
def what_was_cut_while_it_was_scrubbed_is_damaged(patch: Any) -> None:
    patch.edit(scrubber.Scrubber._check_segment, "segment.cuts != cuts or segment not in replica.log.segments", "False")


@mutant
@told_by(SCRUBBER)
def scrubbers_read_as_fast_as_they_can(patch: Any) -> None:
    patch.edit(scrubber.Scrubber._throttle, "await asyncio.sleep(self._free_at - now)", "await asyncio.sleep(0)")


@mutant
@told_by(SCRUBBER)
def a_pass_begins_again_after_a_restart(patch: Any) -> None:
    patch.edit(scrubber.Scrubber._check, "next_offset\n            await asyncio.to_thread(state.save)", "next_offset")


@mutant
@told_by(SCRUBBER)
def what_is_being_repaired_is_scrubbed(patch: Any) -> None:
    """And is counted as damaged again."""
    patch.edit(scrubber._can_check, "and replica.damage is None ", "")


@mutant
@told_by(FATE, IN_PLACE)
def repair_takes_batches_of_an_earlier_epoch(patch: Any) -> None:
    patch.edit(repair.accept, "or header.leader_epoch < epoch ", "")


@mutant
@told_by(FATE, IN_PLACE)
def repair_takes_another_batch_with_the_same_offset(patch: Any) -> None:
    patch.edit(repair._is_wanted, "header == damaged.header", "header.base_offset == damaged.header.base_offset")


@mutant
@told_by(FATE, IN_PLACE)
def repair_writes_beyond_what_is_known_to_be_damaged(patch: Any) -> None:
    patch.edit(repair._fits, "length and length + header.batch_length > damaged.unsound_bytes", "False")


@mutant
@told_by(FATE)
def records_are_lost_before_everybody_has_answered(patch: Any) -> None:
    patch.edit(
        repair.repair_verdict,
        "for other in others):\n        return RepairVerdict.WAIT",
        "for other in heirs):\n        return RepairVerdict.WAIT",
    )


@mutant
@told_by(FATE)
def a_silent_heir_is_not_waited_for(patch: Any) -> None:
    patch.edit(repair.repair_verdict, "patience_over and ", "")


# The quorum's files; `tests/metadata_quorum/raft/mutants_support.py` has more, which the quorum's schedules find.


@mutant
@told_by(CHANGED_BITS)
def a_damaged_journal_is_cut(patch: Any) -> None:
    patch(frames, "_require_torn", lambda *_: None)


@mutant
@told_by(CHANGED_BITS)
def a_journals_checksums_are_not_checked(patch: Any) -> None:
    patch.edit(frames._Format.record_at, "crc32c(body) != crc", "False")


@mutant
@told_by(CHANGED_BITS)
def a_journals_lengths_are_believed(patch: Any) -> None:
    patch(frames, "_head_is_valid", lambda *_: True)


@mutant
@told_by(CHANGED_BITS)
def a_controller_starts_on_a_damaged_snapshot(patch: Any) -> None:
    patch(engine, "require_valid_snapshot", lambda _: 1)


@mutant
@told_by(CHANGED_BITS)
def a_damaged_snapshot_is_sent(patch: Any) -> None:
    patch(Snapshots, "_valid_content", lambda self: self._path.read_bytes())


@mutant
@told_by("tests/partition/test_kept_producers.py")
def producers_of_deleted_batches_are_forgotten(patch: Any) -> None:
    """After a loss of power a repeat of a deleted batch is appended."""
    patch(follower_replica, "plan_kept", lambda *_: lambda: None)


@mutant
@told_by("tests/partition/test_kept_producers.py")
def batches_that_may_be_cut_are_kept_as_deleted_ones(patch: Any) -> None:
    patch.edit(producers.ProducerStates.plan_below, "if batch.last_offset < offset", "")


@mutant
@told_by("tests/partition/test_sent_producers.py")
def a_follower_that_starts_over_hears_nothing_of_deleted_batches(patch: Any) -> None:
    """As a leader it appends a producer's repeat of one."""
    patch(replica_fetch_server, "kept_by_leader", lambda *_, **__: (b"", 0))


@mutant
@told_by("tests/partition/test_sent_producers.py")
def a_follower_that_starts_inside_a_batch_forgets_the_producers_before_it(patch: Any) -> None:
    patch.edit(
        follower_replica.FollowerReplica._continuing, "(first.base_offset, self.producers)", "(first.base_offset)"
    )


@mutant
@told_by("tests/partition/test_sent_producers.py")
def what_a_leader_says_of_producers_is_believed(patch: Any) -> None:
    patch(sent_producers, "_require_sound", lambda *_: None)


@mutant
@told_by(INDEX)
def a_file_is_closed_while_a_thread_reads_it(patch: Any) -> None:
    """The thread reads the next file that gets the descriptor's number."""
    patch.edit(file_pool.FilePool.close, " and file.users", " and False")


@mutant
@told_by("tests/partition/test_removed_files.py")
def the_blocks_of_a_log_that_starts_over_are_freed_on_the_event_loop(patch: Any) -> None:
    patch.edit(TruncatableLog._reset_to, ", blocks_later=True", "")
