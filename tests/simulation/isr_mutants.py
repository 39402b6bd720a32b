"""The rules of the high watermark, of the ISR, and of elections."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any
from unittest import mock
from weakref import WeakKeyDictionary, WeakSet

from mutating import mutant, told_by

from raftlog.errors import RaftlogError
from raftlog.metadata_quorum.controller import brokers, elections, reassignment
from raftlog.metadata_quorum.controller import isr as isr_decisions
from raftlog.model import NO_LEADER, PartitionState
from raftlog.partition import fetcher, isr, replica_fetch_server
from raftlog.partition.core import fetch_sessions, leader
from raftlog.partition.replica import Replica

# The high watermark, and which replicas count.


@mutant
def high_watermark_of_the_leader_alone(patch: Any) -> None:
    patch(leader.LeaderCore, "maximal_isr", property(lambda self: frozenset({self.broker_id})))


@mutant
def pending_additions_do_not_count(patch: Any) -> None:
    patch(leader.LeaderCore, "maximal_isr", property(lambda self: frozenset(self.state.isr)))


@mutant
def pending_removals_do_not_count(patch: Any) -> None:
    patch(
        leader.LeaderCore,
        "maximal_isr",
        property(lambda self: self.pending_isr if self.pending_isr is not None else frozenset(self.state.isr)),
    )


@mutant
def high_watermark_moves_below_min_isr(patch: Any) -> None:
    patch(leader.LeaderCore, "under_min_isr", property(lambda self: False))


@mutant
def an_unknown_change_of_the_isr_is_taken_back(patch: Any) -> None:
    """After an attempt without an answer the leader goes on as if its proposal had been refused."""
    check = isr.IsrKeeper.check

    async def forgetful(self: Any) -> None:
        await check(self)
        for change in list(self._in_flight):
            if change in self._unanswered:
                for one in self._leaders():
                    if one.assignment.key == change and one.core is not None:
                        one.core.pending_isr = None
                self._in_flight.pop(change)

    patch(isr.IsrKeeper, "check", forgetful)


@mutant
def a_refused_change_may_still_be_on_its_way(patch: Any) -> None:
    """A late copy of a change that was sent twice is not fenced."""
    check = isr.IsrKeeper.check

    async def sure(self: Any) -> None:
        self._unanswered = set()
        await check(self)
        self._unanswered = set()

    patch(isr.IsrKeeper, "check", sure)


@mutant
def followers_count_before_they_sync(patch: Any) -> None:
    patch(fetcher, "_sync", lambda replicas: [])


@mutant
def the_leader_counts_before_it_syncs(patch: Any) -> None:
    patch(Replica, "persisted_end_offset", property(lambda self: self.log.log_end_offset))
    appended = Replica._appended

    def eager(self: Any, core: Any) -> None:
        appended(self, core)
        self._moved(core.on_local_end(self.log.log_end_offset))

    patch(Replica, "_appended", eager)


@mutant
def acknowledged_when_the_leader_has_it(patch: Any) -> None:
    async def wait(self: Any, result: Any, core: Any, acks: Any, timeout_ms: int) -> None:
        if self.persisted_end_offset <= result.last_offset:
            await self._held.wait(result.last_offset, timeout_ms=timeout_ms)

    patch(Replica, "_wait_for", wait)


@mutant
def a_leader_that_resigns_acknowledges(patch: Any) -> None:
    """Waiting clients get a success instead of an unknown outcome."""
    resign = Replica._resign

    def cheerful(self: Any, why: str) -> None:
        self._acknowledged.passed(self.log.log_end_offset)
        resign(self, why)

    patch(Replica, "_resign", cheerful)


@mutant
def late_fetches_of_an_earlier_incarnation_count(patch: Any) -> None:
    """Three rules fence them, by requests, by sessions and by positions: each alone is enough."""
    patch(replica_fetch_server.ReplicaFetchServer, "_require_registered", lambda self, request: None)
    fetch, opened = leader.LeaderCore.on_follower_fetch, fetch_sessions.LeaderSessions._open

    def gullible(self: Any, follower_id: int, *, broker_epoch: int, **more: Any) -> bool:
        known = self.followers.get(follower_id)
        return fetch(self, follower_id, broker_epoch=max(broker_epoch, known.broker_epoch if known else -1), **more)

    def open_gullibly(self: Any, request: Any, broker_epoch: int) -> Any:
        known = self._by_follower.get(request.replica_id)
        newest = max(request.broker_epoch, known.broker_epoch if known else -1)
        return opened(self, replace(request, broker_epoch=newest), broker_epoch)

    patch(leader.LeaderCore, "on_follower_fetch", gullible)
    patch(fetch_sessions.LeaderSessions, "_open", open_gullibly)


@told_by("tests/partition/test_consumer_and_replica_fetch.py")
@mutant
def a_fetch_that_comes_before_its_assignment_is_swallowed(patch: Any) -> None:
    """A follower that learned of a reassignment first gets a normal answer: it reports its position only once."""
    fetch = leader.LeaderCore.on_follower_fetch

    def deaf(self: Any, follower_id: int, **more: Any) -> bool:
        return follower_id in self.followers and fetch(self, follower_id, **more)

    patch(leader.LeaderCore, "require_assigned", lambda self, follower_id: None)
    patch(leader.LeaderCore, "on_follower_fetch", deaf)


@mutant
def what_was_seen_before_the_wait_passes_for_told(patch: Any) -> None:
    """An update in the same turn of the loop in which a fetch times out is removed from the list without being sent."""
    parked, look = replica_fetch_server.TimedEvent.wait, replica_fetch_server.ReplicaFetchServer._look
    seen: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
    timed_out: WeakSet[Any] = WeakSet()

    async def wait(self: Any, until: float) -> float:
        until = await parked(self, until)
        if not self._is_set:
            timed_out.add(asyncio.current_task())
        return until

    def look_once(self: Any, session: Any, request: Any) -> Any:
        task = asyncio.current_task()
        if task in timed_out:
            timed_out.discard(task)
        else:
            seen[task] = look(self, session, request)
        return seen.get(task, ([], ""))

    patch(replica_fetch_server.TimedEvent, "wait", wait)
    patch(replica_fetch_server.ReplicaFetchServer, "_look", look_once)


@mutant
@told_by("tests/partition/test_consumer_and_replica_fetch.py")
def whoever_acknowledges_has_everything(patch: Any) -> None:
    """A follower's fetch waits although the log has more."""
    patch.edit(
        replica_fetch_server.ReplicaFetchServer._acknowledge,
        "position.fetch_offset != replica.log.log_end_offset",
        "False",
    )


@mutant
@told_by("tests/partition/test_consumer_and_replica_fetch.py")
def the_named_partitions_are_all_that_changed(patch: Any) -> None:
    patch.edit(
        replica_fetch_server.ReplicaFetchServer._arrived,
        "session.dirty_count == len(soon and request.partitions)",
        "True",
    )


@mutant
@told_by("tests/partition/test_fetch_loop.py")
def a_change_leaves_the_parked_fetch_alone(patch: Any) -> None:
    patch.edit(fetcher.LeaderFetcher.follow, "self._in_flight is not None", "False")


# Which replicas may join the ISR.


@mutant
def anybody_who_fetches_joins_the_isr(patch: Any) -> None:
    patch(
        leader.LeaderCore,
        "_may_join",
        lambda self, member, eligible, now_ms: (
            eligible.get(member) == self.followers[member].broker_epoch and self.followers[member].end_offset >= 0
        ),
    )


@mutant
def the_controller_takes_any_member(patch: Any) -> None:
    """Fenced brokers and earlier incarnations may join an ISR."""
    judge = isr_decisions._accept

    def lenient(image: Any, state: Any, broker_id: int, asked: Any) -> Any:
        known = [m for m in asked.new_isr if m.broker_id in image.brokers]
        members = tuple(replace(m, broker_epoch=image.brokers[m.broker_id].broker_epoch) for m in known)
        with mock.patch.object(isr_decisions, "is_active", return_value=True):
            return judge(image, state, broker_id, replace(asked, new_isr=members))

    patch(isr_decisions, "_accept", lenient)


@mutant
def isr_changes_without_compare_and_swap(patch: Any) -> None:
    def require(state: Any, broker_id: int, asked: Any) -> None:
        if state.leader != broker_id:
            raise RaftlogError("not the leader")

    patch(isr_decisions, "_require_epochs", require)


# Elections.


@mutant
def anybody_is_elected(patch: Any) -> None:
    def choose_leader(state: Any, may_lead: Any) -> int:
        return next((replica for replica in state.replicas if may_lead(replica)), NO_LEADER)

    patch(elections, "choose_leader", choose_leader)


@mutant
def leader_epochs_stand_still(patch: Any) -> None:
    """Wherever the controller counts them."""
    for name in ("next_state", "_without_broker", "with_new_leader"):
        patch(elections, name, _standing_still(getattr(elections, name)))


def _standing_still(decide: Any) -> Any:
    def same_epoch(*arguments: Any, **more: Any) -> Any:
        before = next(one for one in arguments if isinstance(one, PartitionState))
        return replace(decide(*arguments, **more), leader_epoch=before.leader_epoch)

    return same_epoch


@mutant
def a_new_incarnation_keeps_its_place(patch: Any) -> None:
    patch(brokers, "remove_from_isrs", lambda image, broker_id, **lost: [])


@mutant
def who_leaves_the_isr_stays_eligible(patch: Any) -> None:
    """At or above min ISR too: it lacks the records that are acknowledged then."""
    next_state = elections.next_state

    def generous(state: Any, *, isr: Any, leader: int, min_isr: int, lost: Any = frozenset()) -> Any:
        after = next_state(state, isr=isr, leader=leader, min_isr=min_isr, lost=lost)
        left = {*state.elr, *state.isr} - {*after.isr, *lost}
        return replace(after, elr=tuple(member for member in state.replicas if member in left))

    for module in (elections, isr_decisions):
        patch(module, "next_state", generous)


@mutant
def a_move_ends_before_its_targets_hold_anything(patch: Any) -> None:
    complete = reassignment.with_reassignment_completed

    def hasty(image: Any, topic: Any, before: Any, state: Any) -> Any:
        target = tuple(replica for replica in state.replicas if replica not in state.removing)
        return complete(image, topic, before, replace(state, isr=tuple(dict.fromkeys((*target, *state.isr)))))

    for module in (reassignment, isr_decisions):
        patch(module, "with_reassignment_completed", hasty)


@mutant
def a_move_is_redirected_whoever_is_in_sync(patch: Any) -> None:
    patch(reassignment, "_require_kept", lambda *_: None)


@mutant
@told_by("tests/partition/test_session_replication.py")
def a_position_that_the_leader_could_not_take_is_not_looked_at_again(patch: Any) -> None:
    """When the follower reported it, the leader had not opened the partition, or was in another epoch."""
    patch(replica_fetch_server.ReplicaFetchServer, "_counts", lambda self, hearing, key: True)
