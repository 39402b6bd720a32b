"""The rules by which controllers, coordinators and partition leaders decide, each checked by a test of its own."""

from __future__ import annotations

from typing import Any

from mutating import mutant, told_by

from raftlog.broker.lifecycle import BrokerLifecycle
from raftlog.coordinator.group import membership, offsets, reconciliation
from raftlog.coordinator.group.state import Group
from raftlog.coordinator.runtime.shard import Shard
from raftlog.coordinator.transaction import sets
from raftlog.coordinator.transaction.core import TransactionCoordinator
from raftlog.coordinator.transaction.markers import MarkerWriter
from raftlog.metadata_quorum.active_controller import Controller
from raftlog.metadata_quorum.assignments import Assignments
from raftlog.metadata_quorum.controller import brokers, damage, elections, grouping, isr, producer_ids
from raftlog.metadata_quorum.decision_effects import DecisionEffects
from raftlog.metadata_quorum.decision_writer import DecisionWriter
from raftlog.metadata_quorum.http import ControllerRoutes
from raftlog.metadata_quorum.publisher import Publisher
from raftlog.metadata_quorum.raft.engine import RaftEngine
from raftlog.model import PartitionState
from raftlog.partition import consumer_fetch
from raftlog.partition.core import producers, read_replicas
from raftlog.partition.core.fetch_sessions import LeaderSession, LeaderSessions
from raftlog.partition.core.leader import LeaderCore
from raftlog.partition.core.producers import ProducerStates
from raftlog.partition.core.throttle import Throttle
from raftlog.partition.core.transactions import Transactions

CONTROLLER = "tests/metadata_quorum/test_active_controller.py"
CONTROLLER_HTTP = "tests/metadata_quorum/test_controller_http.py"
DECISIONS = "tests/metadata_quorum/test_controller_decisions.py"
DAMAGED = "tests/metadata_quorum/test_damaged_replicas.py"
PUBLISHER = "tests/metadata_quorum/test_publisher_and_sessions.py"
GROUP_OFFSETS = "tests/coordinator/test_group_offsets.py"
RECONCILIATION = "tests/coordinator/test_group_reconciliation.py"
RUNTIME = "tests/coordinator/test_coordinator_runtime.py"
TRANSACTIONS = "tests/coordinator/test_transaction_core.py"
LARGE_TRANSACTIONS = "tests/coordinator/test_large_transactions.py"
MARKERS = "tests/coordinator/test_transaction_markers.py"
LEADER = "tests/partition/test_leader_core.py"
PRODUCERS = "tests/partition/test_epochs_and_producers.py"
PARTITION_TRANSACTIONS = "tests/partition/test_transactions.py"
SESSIONS = "tests/partition/test_fetch_sessions.py"

# The controller.
ASSIGNMENTS = "tests/metadata_quorum/test_assignments.py"


@mutant
@told_by(CONTROLLER_HTTP)
def a_controller_is_ready_before_it_knows_the_leaders_epoch(patch: Any) -> None:
    patch.edit(
        ControllerRoutes._describe,
        "controller.leader is not None and image.controller_id == controller.leader",
        "image.controller_id >= 0",
    )


@mutant
@told_by(CONTROLLER)
def an_elected_controller_decides_before_its_epoch_begins(patch: Any) -> None:
    """In the epoch of its predecessor, whose commands may still arrive."""
    patch.edit(
        DecisionWriter.leadership_changed,
        "self._epoch = None",
        "self._epoch = self._image().controller_epoch if leader == self._node_id else None",
    )


@mutant
@told_by("tests/metadata_quorum/test_controller_doubt.py")
def a_decision_counts_though_a_later_epoch_voided_it(patch: Any) -> None:
    patch.edit(DecisionEffects.applied, "set_result(False)", "set_result(True)")


@mutant
@told_by("tests/metadata_quorum/test_controller_doubt.py")
def a_snapshot_shows_that_a_decision_is_void(patch: Any) -> None:
    """It contains the decision, perhaps."""
    patch.edit(DecisionEffects.skipped, "effect.cancel()", "pass")


@mutant
@told_by("tests/metadata_quorum/raft/test_raft_quorum.py")
def a_pause_counts_as_silence_of_the_others(patch: Any) -> None:
    patch(RaftEngine, "extend_deadlines", lambda self, pause_s: None)


@mutant
@told_by("tests/metadata_quorum/test_grouped_decisions.py")
def decisions_of_one_commit_do_not_see_each_other(patch: Any) -> None:
    patch(grouping, "replay", lambda image, offset, records: image)


@mutant
@told_by(DECISIONS)
def proposals_of_one_request_are_judged_apart(patch: Any) -> None:
    """Two for one partition: the second is not compared with the decision on the first."""
    patch.edit(
        isr.decide_alter_partitions,
        "decided.get(key) or image.partition(",
        "image.partition(",
    )


@mutant
@told_by(DECISIONS)
def a_dead_process_registers_after_a_later_one(patch: Any) -> None:
    """A request that the network has kept: its folder counts as an older copy, and the broker leaves every ISR."""
    patch.edit(brokers.decide_registration, "request.incarnation_id in registered.replaced", "False")


@mutant
@told_by(DECISIONS)
def brokers_are_unfenced_before_they_have_caught_up(patch: Any) -> None:
    patch.edit(brokers.decide_heartbeat, "request.metadata_offset >= broker.broker_epoch", "True")


@mutant
@told_by(DECISIONS)
def a_frozen_controller_ends_brokers_that_registered_elsewhere(patch: Any) -> None:
    patch.edit(brokers.require_current, "ErrorCode.NOT_CONTROLLER", "ErrorCode.STALE_BROKER_EPOCH")


@mutant
@told_by(DECISIONS)
def a_broker_that_shuts_down_is_unfenced_again(patch: Any) -> None:
    patch.edit(
        brokers.decide_heartbeat, "broker.fenced and caught_up and not broker.in_controlled_shutdown", "broker.fenced"
    )


@mutant
@told_by(DECISIONS)
def a_fence_of_an_earlier_incarnation_counts(patch: Any) -> None:
    patch.edit(brokers.decide_fence, "broker.broker_epoch != broker_epoch or ", "")


@mutant
@told_by(DECISIONS)
def a_producer_id_is_given_twice(patch: Any) -> None:
    patch.edit(producer_ids.decide_producer_ids, "first + BLOCK,", "first + BLOCK - 1,")


@mutant
@told_by(CONTROLLER)
def a_broker_that_came_back_is_fenced_for_the_one_before(patch: Any) -> None:
    """Its session ends, because no listener was open while it was down."""
    patch.edit(Controller.probe, " or current.broker_epoch != broker.broker_epoch", "")


@mutant
@told_by(PUBLISHER)
def brokers_skip_what_one_answer_did_not_hold(patch: Any) -> None:
    patch.edit(Publisher._update, "end = entries[-1].offset", "end = image.offset")


@mutant
@told_by(DAMAGED)
def a_damaged_leader_that_gives_way_keeps_its_epoch(patch: Any) -> None:
    """A follower's reported position in this epoch counts after the follower has dropped its records."""
    patch.edit(damage._without_replica, "replace(after, leader_epoch=state.leader_epoch + 1)", "after")


@mutant
@told_by("tests/metadata_quorum/test_offline_replicas.py")
def the_last_replica_that_holds_everything_is_forgotten_when_damaged(patch: Any) -> None:
    patch.edit(elections.mark_offline, "last = eligible == {broker_id}", "last = False")


@mutant
@told_by("tests/metadata_quorum/test_broker_lifecycle.py")
def a_broker_that_was_unregistered_does_not_register_again(patch: Any) -> None:
    patch.edit(BrokerLifecycle.run, "error.code is ErrorCode.BROKER_ID_NOT_REGISTERED", "False")


# Groups and transactions.


@mutant
@told_by(RECONCILIATION)
def silence_about_what_is_owned_gives_it_up(patch: Any) -> None:
    patch.edit(reconciliation.next_current, "current.revoking and (owned is None or owned", "owned and (owned")


@mutant
@told_by(RECONCILIATION)
def who_gives_a_partition_up_late_takes_it_from_its_next_owner(patch: Any) -> None:
    patch.edit(Group._set_current, "if self.owners.get(partition) == member_id:", "if partition in self.owners:")


@mutant
@told_by(RECONCILIATION)
def each_heartbeat_gives_more_time_to_give_up(patch: Any) -> None:
    patch.edit(membership.renew_session, "if revoke_by_ms is None else revoke_by_ms", "")


@mutant
@told_by(RECONCILIATION)
def a_member_of_the_epoch_before_may_own_anything(patch: Any) -> None:
    patch.edit(membership._require_current, " and (owned is None or owned <= current.assigned)", "")


@mutant
@told_by(GROUP_OFFSETS)
def offsets_that_a_transaction_will_commit_expire(patch: Any) -> None:
    patch.edit(offsets.expired_offsets, " if partition not in pending", "")


@mutant
@told_by(GROUP_OFFSETS)
def offsets_of_an_empty_group_count_from_their_commit(patch: Any) -> None:
    patch.edit(offsets._is_expired, "since = max(since, group.empty_since_ms)", "pass")


@mutant
@told_by(RUNTIME)
def coordinators_answer_before_it_is_replicated(patch: Any) -> None:
    patch.edit(
        Shard.decide, "await self.replica.until_replicated(end, leader_epoch=self.epoch, timeout_ms=timeout_ms)", "end"
    )


@mutant
@told_by(RUNTIME)
def coordinators_load_what_is_committed_only(patch: Any) -> None:
    """Records above the high watermark count, too: this leader will never truncate them."""
    patch.edit(Shard.load, "self.replica.log.log_end_offset", "self.replica.high_watermark")


@mutant
@told_by(TRANSACTIONS)
def a_late_completion_ends_the_next_transaction(patch: Any) -> None:
    patch.edit(TransactionCoordinator.complete, "current is None or current != decided", "current is None")


@mutant
@told_by(TRANSACTIONS)
def a_transactional_id_expires_in_the_middle_of_its_end(patch: Any) -> None:
    patch.edit(TransactionCoordinator._expired, "current.phase in IDLE and ", "")


@mutant
@told_by(TRANSACTIONS)
def a_transactions_last_epoch_is_used(patch: Any) -> None:
    """The epoch after it must be left for its markers."""
    patch.edit(
        TransactionCoordinator.init, "current.producer_epoch < LAST_EPOCH - 1", "current.producer_epoch < LAST_EPOCH"
    )


@mutant
@told_by(MARKERS)
def transactions_that_cannot_end_keep_the_places_of_others(patch: Any) -> None:
    patch.edit(MarkerWriter._complete, "self._apart.add(name)", "pass")


@mutant
@told_by(LARGE_TRANSACTIONS)
def one_decision_aborts_however_many(patch: Any) -> None:
    patch.edit(sets.first_of, "size > most_bytes and", "size < 0 and")


@mutant
@told_by(LARGE_TRANSACTIONS)
def a_set_grows_until_it_cannot_be_committed(patch: Any) -> None:
    patch.edit(sets.require_room, "others + size > MAX_SET_BYTES", "size > MAX_SET_BYTES")


@mutant
@told_by(LARGE_TRANSACTIONS)
def what_begins_after_a_sets_end_is_aborted_with_it(patch: Any) -> None:
    patch.edit(sets._still_ongoing, " or producer_of(current) != producer_of(known)", "")


# A partition's leader.


@mutant
@told_by(LEADER)
def who_lags_is_caught_up_by_each_append(patch: Any) -> None:
    patch.edit(LeaderCore.on_local_append, "if follower.end_offset >= self._log_end_offset:", "if True:")


@mutant
@told_by(LEADER)
def who_keeps_up_with_each_fetch_lags(patch: Any) -> None:
    """A follower that always has the log's content at its previous fetch is in sync."""
    patch.edit(
        LeaderCore.on_follower_fetch,
        "fetch_offset >= follower.last_fetch_leader_end !=",
        "fetch_offset > follower.last_fetch_leader_end !=",
    )


@mutant
@told_by(LEADER)
def the_end_of_an_earlier_session_silences_a_follower(patch: Any) -> None:
    patch.edit(LeaderCore.on_follower_left, " and follower.session is session", "")


@mutant
@told_by(PRODUCERS)
def leaders_remember_one_batch_less(patch: Any) -> None:
    patch.edit(ProducerStates.on_appended, "1 - REMEMBERED_BATCHES", "2 - REMEMBERED_BATCHES")


@mutant
@told_by(PRODUCERS)
def sequences_wrap_one_too_early(patch: Any) -> None:
    patch.edit(producers._after, "% (MAX_SEQUENCE + 1)", "% MAX_SEQUENCE")


@mutant
@told_by(PRODUCERS, PARTITION_TRANSACTIONS)
def a_producer_is_forgotten_in_the_middle_of_its_transaction(patch: Any) -> None:
    patch.edit(ProducerStates.expire, "if producer not in self.transactions:", "if True:")


@mutant
@told_by(PARTITION_TRANSACTIONS)
def a_marker_at_the_high_watermark_decides(patch: Any) -> None:
    patch.edit(Transactions.forget_decided, "< high_watermark", "<= high_watermark")


@mutant
@told_by(SESSIONS)
def what_a_lost_answer_told_is_not_told_again(patch: Any) -> None:
    patch.edit(LeaderSession.on_request, "if request.answers_lost:", "if False:")


@mutant
@told_by(SESSIONS)
def requests_of_a_session_may_be_missing(patch: Any) -> None:
    patch.edit(LeaderSessions._continued, "request.session_epoch != session.epoch + 1", "False")


@mutant
@told_by("tests/partition/test_throttled_moves.py")
def a_rest_is_made_up_for_at_once(patch: Any) -> None:
    """The bucket holds more than a second's worth."""
    patch.edit(Throttle._refill, "min(float(self._rate), self._tokens + max(0.0, gained))", "self._tokens + gained")


@mutant
@told_by("tests/partition/test_consumer_and_replica_fetch.py")
def a_log_without_the_readers_epoch_counts_as_its_own(patch: Any) -> None:
    """Found by seed 673: the leader had begun on an empty disk."""
    patch.edit(consumer_fetch._diverging, "if wanted.offset <= end_offset:", "if True:")


@mutant
@told_by("tests/partition/test_read_replicas.py")
def a_follower_that_has_deleted_the_offset_is_preferred(patch: Any) -> None:
    patch.edit(read_replicas.preferred_read_replica, "if not 0 <= follower.log_start_offset <= offset:", "if False:")


@mutant
@told_by("tests/metadata_quorum/test_elections.py")
def replicas_that_are_added_are_required_at_once(patch: Any) -> None:
    patch(PartitionState, "most_in_sync", property(lambda self: len(self.replicas)))


@mutant
@told_by("tests/partition/test_read_replicas.py")
def consumers_are_sent_to_an_earlier_incarnation(patch: Any) -> None:
    patch.edit(read_replicas.preferred_read_replica, "broker.broker_epoch == follower.broker_epoch and ", "")


@mutant
@told_by(ASSIGNMENTS)
def assignments_keep_earlier_defaults(patch: Any) -> None:
    patch.edit(Assignments.of, "self._known if defaults == self._defaults else {}", "self._known")


@mutant
@told_by(ASSIGNMENTS)
def assignments_keep_a_topics_earlier_settings(patch: Any) -> None:
    patch.edit(Assignments._assigned, "kept is not None and kept.topic.configs == topic.configs", "kept is not None")


@mutant
@told_by(ASSIGNMENTS)
def assignments_keep_earlier_states(patch: Any) -> None:
    patch.edit(Assignments._assigned, "same is not None and same.state is state", "same is not None")


@mutant
@told_by(ASSIGNMENTS)
def assignments_are_made_anew_for_each_image(patch: Any) -> None:
    """10,000 take 25 to 40 ms of the broker's event loop."""
    patch.edit(Assignments.of, "kept is not None and kept.topic is topic", "False")
    patch.edit(Assignments._assigned, "same is not None and same.state is state", "False")
