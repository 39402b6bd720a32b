"""The rules of groups, transactions and snapshots. Worlds have few of these: tests of each rule find them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mutating import mutant, told_by

from raftlog.coordinator.group import membership, offsets
from raftlog.coordinator.runtime.shard import Shard
from raftlog.coordinator.transaction import core
from raftlog.metadata_quorum.raft import engine, snapshots
from raftlog.model import TopicPartition
from raftlog.partition import follower_replica

GROUPS = "tests/coordinator/test_groups.py"
TRANSACTIONS = "tests/coordinator/test_transaction_core.py"


@mutant
@told_by(GROUPS)
def require_stable_looks_at_the_first_open_transaction_only(patch: Any) -> None:
    def first(state: Any, group_id: str) -> frozenset[TopicPartition]:
        places = next(iter(state.pending.values()), ())
        return frozenset(partition for group, partition in places if group == group_id)

    patch(offsets, "_unstable", first)


@mutant
@told_by(GROUPS)
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
    patch(Shard, "_write_barrier", lambda self: None)


@mutant
@told_by(GROUPS)
def late_heartbeats_are_believed(patch: Any) -> None:
    patch(membership, "_require_newest", lambda state, group_id, request: request.number)


@mutant
@told_by(GROUPS)
def commits_of_an_earlier_member_epoch_count(patch: Any) -> None:
    patch(offsets, "require_committer", lambda group, member_id, member_epoch: None)


@mutant
@told_by(GROUPS)
def late_markers_end_the_next_transactions_offsets(patch: Any) -> None:
    end = offsets.decide_end_of_transaction

    def any_epoch(state: Any, now: Any, *, producer_id: int, producer_epoch: int, commit: bool) -> Any:
        epochs = [pending.producer_epoch for pending in state.pending.get(producer_id, {}).values()]
        return end(state, now, producer_id=producer_id, producer_epoch=max([producer_epoch, *epochs]), commit=commit)

    patch(offsets, "decide_end_of_transaction", any_epoch)


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
@told_by("tests/metadata_quorum/raft/test_snapshots.py")
def a_snapshots_checksum_is_not_checked(patch: Any) -> None:
    def unchecked(content: bytes) -> bytes:
        return content[len(snapshots._MAGIC) + snapshots._HEAD.size :]

    patch(snapshots, "_body", unchecked)


@mutant
@told_by("tests/partition/test_replication.py")
def a_cut_log_keeps_its_high_watermark(patch: Any) -> None:
    after = follower_replica.FollowerReplica._after_truncation

    def keep(self: Any) -> None:
        mark = self._follower_high_watermark
        after(self)
        self._follower_high_watermark = mark

    patch(follower_replica.FollowerReplica, "_after_truncation", keep)


@mutant
@told_by("tests/metadata_quorum/raft/test_forfeited_votes.py")
def a_forfeited_vote_may_be_given(patch: Any) -> None:
    """The voter notes the term, and that it has not voted in it."""
    patch(engine.RaftEngine, "forfeit_vote", lambda self, term: self.adopt_term(term))
