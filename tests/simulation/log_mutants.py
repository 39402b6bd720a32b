"""The rules of a log's content, its disk and its deletions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest import mock

from mutating import mutant, told_by

from raftlog.errors import RaftlogError
from raftlog.metadata_quorum import active_controller
from raftlog.metadata_quorum.controller import brokers
from raftlog.partition import (
    admission,
    fetcher,
    follower_replica,
    log_opener,
    record_deletion,
    replica_fetch_server,
)
from raftlog.partition.core import ages, leader
from raftlog.partition.core import repair as repair_core
from raftlog.partition.core.follower_session import FollowerSession
from raftlog.partition.replica import Replica
from raftlog.partition.storage import (
    data_dir,
    epochs,
    files,
    log,
    log_files,
    log_segments,
    log_truncation,
    recovery,
    sync,
)
from raftlog.partition.storage.segment import Segment

# Histories.


@mutant
def followers_do_not_see_that_histories_part(patch: Any) -> None:
    patch(replica_fetch_server, "diverging_epoch", lambda *_, **__: None)


@mutant
def followers_cut_where_the_leader_says_only(patch: Any) -> None:
    """Not at the end of their own epoch."""
    patch(
        fetcher,
        "truncation_offset",
        lambda epochs, *, log_end_offset, leader_epoch, leader_end_offset: leader_end_offset,
    )


@mutant
def followers_cut_to_their_high_watermark(patch: Any) -> None:
    """KIP-101."""
    apply = Replica.apply

    def eager(self: Any, assignment: Any) -> None:
        epoch = self.assignment.state.leader_epoch
        apply(self, assignment)
        if self.core is None and self.state.leader_epoch != epoch and self.log.log_end_offset > self.high_watermark:
            self.truncate_to(self.high_watermark)

    patch(Replica, "apply", eager)


@mutant
def a_restarted_follower_cuts_to_its_high_watermark(patch: Any) -> None:
    opened = log_opener.LogOpener._open

    def eager(self: Any, *arguments: Any) -> Any:
        found, known = opened(self, *arguments)
        found.truncate_to(max(found.log_start_offset, min(found.high_watermark_checkpoint, found.log_end_offset)))
        return found, known

    patch(log_opener.LogOpener, "_open", eager)


@mutant
@told_by("tests/partition/test_replication.py::test_a_fetch_of_an_earlier_epoch_counts_for_nothing")
def requests_of_any_leader_epoch_are_served(patch: Any) -> None:
    patch(replica_fetch_server, "require_same_epoch", lambda mine, theirs, partition: None)


@mutant
@told_by("tests/partition/test_times.py")
def records_of_any_time_are_appended(patch: Any) -> None:
    patch(admission, "require_timely", lambda header, batch, **limits: None)


@mutant
@told_by("tests/partition/storage/test_retention.py")
def retention_believes_every_time(patch: Any) -> None:
    patch(ages, "believed_us", lambda timestamp_us, segment, now_us, config: timestamp_us)


@mutant
def epochs_are_not_cut_with_the_log(patch: Any) -> None:
    patch(epochs.EpochTable, "truncate_from", lambda self, offset: None)


@mutant
def a_leader_does_not_note_its_epoch(patch: Any) -> None:
    """KAFKA-7415: what it appends belongs to the epoch before."""
    patch(
        epochs.EpochTable,
        "assign",
        lambda self, epoch, start_offset: None if self._entries else self._replace([(epoch, start_offset)]),
    )


@mutant
def epochs_that_a_loss_of_power_took_stay_away(patch: Any) -> None:
    patch(log_files, "require_epochs", lambda table, segments, start: None)


# Disks.


@mutant
def sync_does_nothing(patch: Any) -> None:
    def pretend(self: Any, log_end_offset: Any) -> Any:
        self.durable_end_offset = max(self.durable_end_offset, log_end_offset())
        return self.durable_end_offset

    patch(sync.Syncer, "sync", pretend)


@mutant
def folders_are_not_synced(patch: Any) -> None:
    for module in (files, log_truncation, log_segments, recovery, sync, data_dir):
        patch(module, "fsync_dir", lambda folder: None)


@mutant
def a_failed_sync_is_tried_again(patch: Any) -> None:
    synced = log.PartitionLog.fsync

    def stubborn(self: Any) -> Any:
        try:
            return synced(self)
        except RaftlogError:
            self._failure = None
            return self.log_end_offset

    patch(log.PartitionLog, "fsync", stubborn)


@mutant
def a_follower_whose_sync_has_failed_names_its_position(patch: Any) -> None:
    """Its broker is about to shut down, and until then reports a position that may be lost."""
    patch(FollowerSession, "leave", lambda self, key: None)


@mutant
def what_a_sync_failed_to_write_counts_after_a_restart(patch: Any) -> None:
    """A process finds bytes in the page cache that the one before failed to sync; its own sync writes nothing."""
    patch(Segment, "write_again", lambda self, offset: None)


@mutant
@told_by("tests/partition/storage/test_bad_files.py::test_every_byte_of_the_log_itself")
def a_torn_tail_is_kept(patch: Any) -> None:
    """Headers are accepted without a check of their payloads."""
    scan = recovery.Segment.scan
    patch(recovery.Segment, "scan", lambda self, start, end, *, verify: scan(self, start, end, verify=False))


@mutant
def a_replaced_disk_goes_unnoticed(patch: Any) -> None:
    decide = brokers.decide_registration

    def blind(image: Any, request: Any, **more: Any) -> Any:
        known = image.brokers.get(request.broker_id)
        return decide(image, replace(request, storage_id=known.storage_id if known else request.storage_id), **more)

    patch(active_controller, "decide_registration", blind)


@mutant
def a_lost_tail_goes_unnoticed(patch: Any) -> None:
    """KIP-966: the machine of a replica with `flush = os` went down, and it stays eligible."""
    last_end = data_dir._last_shutdown
    patch(data_dir, "_last_shutdown", lambda path: replace(last_end(path), unclean=False))


# Deletions.


@mutant
def records_above_the_high_watermark_expire(patch: Any) -> None:
    for name in ("expired_segments", "active_has_expired"):
        patch(log_segments, name, _as_if_all_were_committed(getattr(log_segments, name)))


def _as_if_all_were_committed(decide: Any) -> Any:
    def hasty(log_or_segment: Any, config: Any, now_us: int, high_watermark: int, start: int) -> Any:
        return decide(log_or_segment, config, now_us, 1 << 62, start)

    return hasty


@mutant
def retention_takes_one_segment_too_many(patch: Any) -> None:
    decide = log_segments.expired_segments

    def greedy(segments: Any, config: Any, now_us: int, high_watermark: int, start: int) -> int:
        count = decide(segments, config, now_us, high_watermark, start)
        more = 0 < count < len(segments) - 1 and segments[count].next_offset <= high_watermark
        return int(count + more)

    patch(log_segments, "expired_segments", greedy)


@mutant
def segments_go_before_the_log_start_is_on_disk(patch: Any) -> None:
    save = log_files.LogFiles._save_checkpoint

    def lazy(self: Any, *, log_start_offset: int | None = None, **marks: Any) -> None:
        if log_start_offset is None:
            save(self, **marks)
        else:
            self._checkpoint = replace(self._checkpoint, log_start_offset=log_start_offset)

    patch(log_segments.SegmentedLog, "_save_checkpoint", lazy)


@mutant
def followers_keep_what_the_leader_deleted(patch: Any) -> None:
    learn = Replica.update_marks
    patch(
        Replica,
        "update_marks",
        lambda self, mark, *, log_start_offset, replicated_offset: learn(
            self, mark, log_start_offset=0, replicated_offset=replicated_offset
        ),
    )


@mutant
@told_by("tests/partition/test_follower_marks.py")
def followers_call_committed_what_they_have_not_synced(patch: Any) -> None:
    patch.edit(Replica.update_marks, "self.persisted_end_offset", "self.log.log_end_offset")


@mutant
@told_by("tests/partition/storage/test_repair_in_place.py")
def repair_takes_batches_of_any_epoch_where_it_is_unknown(patch: Any) -> None:
    patch.edit(repair_core.accept, "damaged.leader_epoch != NO_LEADER_EPOCH", "True")


@mutant
def followers_take_what_nobody_has_checked(patch: Any) -> None:
    patch(follower_replica, "verify_payload_crc", lambda *_: None)


@mutant
def a_leader_is_not_asked_to_look_at_its_disk(patch: Any) -> None:
    """Its followers request a batch that is damaged there again and again."""
    patch(fetcher.LeaderFetcher, "_append", lambda _, replica, batches: replica.append_fetched(batches))


@mutant
def followers_wait_for_what_is_gone(patch: Any) -> None:
    """They request records below the leader's log start again and again."""
    patch(fetcher.LeaderFetcher, "_on_error", lambda self, replica, error: False)


@mutant
def a_deletion_is_answered_when_the_leader_has_done_it(patch: Any) -> None:
    async def hasty(*_: Any) -> None:
        return None

    patch(record_deletion, "_until_deleted_everywhere", hasty)


@mutant
def who_joins_the_isr_may_still_hold_what_was_deleted(patch: Any) -> None:
    patch(leader.LeaderCore, "on_deletion", lambda self, offset: None)


@mutant
def who_left_the_isr_is_not_asked_to_delete(patch: Any) -> None:
    """KIP-966: below min ISR it may still lead next."""
    low = leader.LeaderCore.low_watermark

    def forgetful(self: Any, own_log_start_offset: int) -> int:
        with mock.patch.object(self, "state", replace(self.state, elr=())):
            return low(self, own_log_start_offset)

    patch(leader.LeaderCore, "low_watermark", forgetful)
