"""The rules of groups, transactions and snapshots. Worlds have few of these: tests of each rule find them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mutating import mutant, told_by

from raftlog.broker import image_topics
from raftlog.broker.image_topics import PatternTopics
from raftlog.coordinator.group import (
    assignors,
    classic,
    classic_in_consumer,
    conversion,
    coordinator,
    membership,
    offsets,
)
from raftlog.coordinator.group.classic_draft import ClassicDraft
from raftlog.coordinator.group.classic_state import ClassicTimes
from raftlog.coordinator.group.state import GroupsState
from raftlog.coordinator.runtime.shard import Shard
from raftlog.coordinator.transaction import core
from raftlog.metadata_quorum.raft import engine, snapshots
from raftlog.model import TopicPartition
from raftlog.partition import follower_replica

GROUP_OFFSETS = "tests/coordinator/test_group_offsets.py"
UNSTABLE = "tests/coordinator/test_unstable_offsets.py"
MEMBERSHIP = "tests/coordinator/test_group_membership.py"
CLASSIC_JOINING = "tests/coordinator/test_classic_joining.py"
CLASSIC_REBALANCES = "tests/coordinator/test_classic_rebalances.py"
CLASSIC_STATIC = "tests/coordinator/test_classic_static_members.py"
CLASSIC_FAILOVER = "tests/coordinator/test_classic_failover.py"
CONVERTED = "tests/coordinator/test_converted_groups.py"
TRANSACTIONS = "tests/coordinator/test_transaction_core.py"


@mutant
@told_by(CONVERTED)
def an_upgrade_forgets_what_members_may_not_have_given_up(patch: Any) -> None:
    holdings = conversion._holdings

    def forgetful(classic: Any, subscriptions: Any) -> Any:
        return {name: has._replace(revoking=frozenset()) for name, has in holdings(classic, subscriptions).items()}

    patch(conversion, "_holdings", forgetful)


@mutant
@told_by(CONVERTED)
def an_upgrade_takes_what_its_leader_assigned_for_assigned(patch: Any) -> None:
    patch.edit(conversion.upgrade, "epoch=classic.generation + 1", "epoch=classic.generation")


@mutant
@told_by(CONVERTED)
def a_late_join_of_a_classic_member_is_believed(patch: Any) -> None:
    patch(classic_in_consumer, "_reported", lambda said, current: said.owned)


@mutant
@told_by(CONVERTED)
def a_classic_member_may_join_again_whenever_it_likes(patch: Any) -> None:
    patch.edit(classic_in_consumer.decide_heartbeat_of_consumer, "if session.revoke_by_ms is None:", "if False:")


@mutant
@told_by(CONVERTED)
def a_downgrade_keeps_no_sessions(patch: Any) -> None:
    patch.edit(conversion.downgrade, "full_ms if session is None else session.ends_at_ms", "full_ms")


@mutant
@told_by(GROUP_OFFSETS)
def require_stable_looks_at_the_first_open_transaction_only(patch: Any) -> None:
    known = "state.unstable.get(group_id, {}) if"
    patch.edit(offsets.decide_fetch, known, f"dict([*{known[:-3]}.items()][:1]) if")


@mutant
@told_by(UNSTABLE)
def the_end_of_one_transaction_makes_offsets_of_another_stable(patch: Any) -> None:
    patch.edit(GroupsState._end_pending, "if not unstable[partition]:", "if True:")


@mutant
@told_by(UNSTABLE)
def a_transaction_moves_a_plain_commit_back(patch: Any) -> None:
    patch.edit(offsets.decide_commit, "records += [record, *replaced]", "records.append(record)")


@mutant
@told_by(UNSTABLE)
def a_transaction_moves_the_offset_of_another_back(patch: Any) -> None:
    patch.edit(offsets.decide_end_of_transaction, "records += replaced", "pass")


@mutant
@told_by(UNSTABLE)
def the_first_offset_of_a_transaction_places_it(patch: Any) -> None:
    patch.edit(GroupsState._replay_pending, "producers.pop(record.producer_id, None)", "pass")


@mutant
@told_by(GROUP_OFFSETS)
def a_late_commit_counts_while_the_new_owner_is_not_stable(patch: Any) -> None:
    require = offsets._require_owner

    def lenient(group: Any, asked: Any, member_id: str) -> None:
        owner = group.owners.get(TopicPartition(asked.topic, asked.partition), member_id)
        if owner == member_id or group.current[owner].state == "stable":
            require(group, asked, member_id)

    patch(offsets, "_require_owner", lenient)


@mutant
@told_by("tests/coordinator/test_coordinator_runtime.py")
def offset_reads_are_not_confirmed(patch: Any) -> None:
    patch(Shard, "_write_barrier", lambda self: True)


@mutant
@told_by("tests/coordinator/test_coordinator_runtime.py")
def offset_reads_below_min_isr_are_not_confirmed(patch: Any) -> None:
    async def nothing(self: Any, timeout_ms: int) -> int:
        return timeout_ms

    patch(Shard, "_require_newest_leader", nothing)


@mutant
@told_by("tests/broker/test_image_topics.py")
def a_pattern_keeps_topics_that_are_deleted(patch: Any) -> None:
    patch.edit(PatternTopics.of, "if name not in changed", "")


@mutant
@told_by("tests/broker/test_image_topics.py")
def topics_that_appear_during_a_search_are_not_matched(patch: Any) -> None:
    patch.edit(PatternTopics.find, "names, seen)", "names)")


@mutant
@told_by("tests/broker/test_image_topics.py")
def groups_do_not_notice_new_partitions(patch: Any) -> None:
    patch(image_topics, "_have_equal_sizes", lambda before, now: True)


@mutant
@told_by("tests/coordinator/test_assignors.py")
def a_reader_of_two_kinds_of_topics_counts_as_empty(patch: Any) -> None:
    patch.edit(assignors._FewestFirst.first, "!= (size := len(assigned[heap[0][1]]))", "!= (size := heap[0][0])")


@mutant
@told_by(MEMBERSHIP)
def late_heartbeats_are_believed(patch: Any) -> None:
    patch(membership, "_require_newest", lambda state, group_id, request: request.number)


@mutant
@told_by(GROUP_OFFSETS)
def commits_of_an_earlier_member_epoch_count(patch: Any) -> None:
    patch(offsets, "require_committer", lambda group, member_id, member_epoch: None)


@mutant
@told_by(GROUP_OFFSETS)
def late_markers_end_the_next_transactions_offsets(patch: Any) -> None:
    end = offsets.decide_end_of_transaction

    def any_epoch(state: Any, now: Any, *, producer_id: int, producer_epoch: int, commit: bool) -> Any:
        epochs = [pending.producer_epoch for pending in state.pending.get(producer_id, {}).values()]
        return end(state, now, producer_id=producer_id, producer_epoch=max([producer_epoch, *epochs]), commit=commit)

    patch(offsets, "decide_end_of_transaction", any_epoch)


@mutant
@told_by(CLASSIC_REBALANCES)
def a_sync_of_another_generation_is_answered(patch: Any) -> None:
    patch(classic, "require_generation", lambda group, generation: None)


@mutant
@told_by(CLASSIC_STATIC)
def an_earlier_process_of_a_static_member_is_not_fenced(patch: Any) -> None:
    require = classic.require_classic_member

    def lenient(group: Any, group_id: str, member_id: str, instance_id: Any) -> None:
        require(group, group_id, member_id, None)

    patch(classic, "require_classic_member", lenient)


@mutant
@told_by(CLASSIC_JOINING)
def a_rebalance_does_not_wait_for_promised_members(patch: Any) -> None:
    complete = ClassicDraft.try_complete

    def hasty(self: Any) -> None:
        promises, self._state.promises = self._state.promises, type(self._state.promises)()
        complete(self)
        self._state.promises = promises

    patch(ClassicDraft, "try_complete", hasty)


@mutant
@told_by(CLASSIC_REBALANCES)
def members_that_joined_the_last_round_count_in_the_next(patch: Any) -> None:
    enter = ClassicTimes.enter

    def forgetful(self: Any, group: Any, now_ms: int) -> None:
        joined = self.joined
        enter(self, group, now_ms)
        self.joined = joined

    patch(ClassicTimes, "enter", forgetful)


@mutant
@told_by(CLASSIC_FAILOVER)
def a_new_coordinator_gives_no_session_to_classic_members(patch: Any) -> None:
    def expired(state: Any, now: Any) -> None:
        state.classic_times = {
            group_id: ClassicTimes(sessions=dict.fromkeys(group.members, now.monotonic_ms))
            for group_id, group in state.classic.items()
        }

    patch(coordinator, "restart_sessions", expired)


@mutant
@told_by(CLASSIC_REBALANCES)
def a_leader_that_never_assigns_stays(patch: Any) -> None:
    enter = ClassicTimes.enter

    def endless(self: Any, group: Any, now_ms: int) -> None:
        enter(self, group, now_ms)
        if group.phase == "CompletingRebalance":
            self.deadline_ms = now_ms + 10**9

    patch(ClassicTimes, "enter", endless)


@mutant
@told_by(TRANSACTIONS)
def a_transactions_time_counts_from_its_last_change(patch: Any) -> None:
    tick = core.TransactionCoordinator.on_tick

    def patient(self: Any, state: Any, now: Any) -> Any:
        known = dict(state.by_id)
        state.by_id.update({name: replace(known[name], began_ms=known[name].changed_ms) for name in state.ongoing})
        records = list(tick(self, state, now))
        state.by_id.update(known)
        return records

    patch(core.TransactionCoordinator, "on_tick", patient)


@mutant
@told_by(TRANSACTIONS)
def a_transaction_of_a_clock_ahead_stays_open(patch: Any) -> None:
    patch(core, "_is_late", lambda _, current, now: current.began_ms + current.timeout_ms <= now.wall_ms)


@mutant
@told_by("tests/metadata_quorum/raft/test_snapshots.py")
def a_snapshots_checksum_is_not_checked(patch: Any) -> None:
    def unchecked(content: bytes) -> bytes:
        return content[len(snapshots._MAGIC) + snapshots._HEAD.size :]

    patch(snapshots, "_body", unchecked)


@mutant
@told_by("tests/partition/test_replication.py")
def a_cut_log_keeps_its_high_watermark(patch: Any) -> None:
    patch.edit(follower_replica.FollowerReplica.truncate_to, "self._limit_high_watermark()", "pass")


@mutant
@told_by("tests/metadata_quorum/raft/test_forfeited_votes.py")
def a_forfeited_vote_may_be_given(patch: Any) -> None:
    """The voter notes the term, and that it has not voted in it."""
    patch(engine.RaftEngine, "forfeit_vote", lambda self, term: self.adopt_term(term))
