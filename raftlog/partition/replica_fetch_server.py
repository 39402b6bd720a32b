"""Follower fetches in sessions (KIP-227): the cost of a fetch grows with changed partitions, not with all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from raftlog.errors import ErrorCode, FencedError, OffsetOutOfRangeError, RaftlogError, RetriableError
from raftlog.model import NO_LEADER_EPOCH, BrokerId, Offset, TopicIdPartition
from raftlog.partition.core.epochs import diverging_epoch, require_same_epoch
from raftlog.partition.core.fetch_sessions import MAX_SESSIONS, LeaderSession, LeaderSessions, Urgency
from raftlog.partition.core.leader import UNKNOWN_OFFSET
from raftlog.partition.local_broker import LocalBroker
from raftlog.partition.replica import Replica
from raftlog.partition.sent_producers import kept_by_leader
from raftlog.partition.storage.verified_reads import MOST_BATCHES, FileRange, VerifiedBatches
from raftlog.runtime import Clock, TimedEvent
from raftlog.wire.data import DivergingEpoch
from raftlog.wire.errors import WireError
from raftlog.wire.replication import (
    ReplicaFetchPartition,
    ReplicaFetchRequest,
    ReplicaFetchResponse,
    ReplicaFetchResult,
)

FindReplica = Callable[[TopicIdPartition], Replica]
_MANY = 256
"""Partitions of a session that are looked at in one turn of the event loop: each may be read from its log."""
MARKS_WAIT_S = 0.01
"""How long (s) a new high watermark may wait for records to be sent with it."""


class _Subscription:
    """Subscribes one session to one replica's notifiers."""

    def __init__(self, subscriptions: _Subscriptions, key: TopicIdPartition, replica: Replica) -> None:
        self._subscriptions = subscriptions
        self._key = key
        self.replica = replica
        self._marks = _MarksSubscription(subscriptions, key)
        replica.data_notifier.add(self)
        replica.marks_notifier.add(self._marks)

    def set(self) -> None:
        """Mark this partition as changed."""
        if self._subscriptions.session.mark(self._key):
            self._subscriptions.parked.set()

    def end(self) -> None:
        self.replica.data_notifier.remove(self)
        self.replica.marks_notifier.remove(self._marks)


@dataclass(slots=True, eq=False)
class _MarksSubscription:
    """Lets new offsets of one partition wait for records: it moves the deadline of a parked request."""

    subscriptions: _Subscriptions
    key: TopicIdPartition

    def set(self) -> None:
        """Mark this partition as changed; records that follow at once wake the request, with the offsets."""
        if self.subscriptions.session.mark(self.key):
            self.subscriptions.parked.by(asyncio.get_running_loop().time() + MARKS_WAIT_S)


@dataclass(slots=True)
class _Subscriptions:
    """The replicas to which a session is subscribed. They stay from one request to the next: subscribing is costly."""

    session: LeaderSession
    parked: TimedEvent = field(default_factory=TimedEvent)
    """Wakes the newest request."""
    marks: dict[TopicIdPartition, _Subscription] = field(default_factory=dict)

    def listen(self, key: TopicIdPartition, replica: Replica) -> None:
        current = self.marks.get(key)
        if current is None or current.replica is not replica:
            self.forget(key)
            self.marks[key] = _Subscription(self, key, replica)

    def forget(self, key: TopicIdPartition) -> None:
        """Unsubscribe from a partition; the session's fetches no longer count for it."""
        if (mark := self.marks.pop(key, None)) is not None:
            mark.end()
            if mark.replica.core is not None:
                mark.replica.core.on_follower_left(self.session.follower, self.session.clock)

    def renew(self) -> TimedEvent:
        """Return what wakes a new request; the previous request is woken and ends."""
        self.parked.set()
        self.parked = TimedEvent()
        return self.parked

    def close(self) -> None:
        self.parked.set()
        for key in list(self.marks):
            self.forget(key)


class ReplicaFetchServer:
    """Serves every follower of one broker."""

    def __init__(
        self,
        *,
        find: FindReplica,
        local: LocalBroker,
        clock: Clock,
        max_sessions: int = MAX_SESSIONS,
    ) -> None:
        self._find = find
        self._local = local
        self._clock = clock
        self._subscriptions: dict[str, _Subscriptions] = {}
        self.under_way = 0
        """The number of requests that are being answered, or wait for changes."""
        self.sessions = LeaderSessions(on_closed=self._on_closed, limit=max_sessions)

    async def serve(self, request: ReplicaFetchRequest) -> tuple[ReplicaFetchResponse, list[bytes | FileRange]]:
        """Answer a follower as soon as a partition has changed, or at its deadline.

        Raises:
            RetriableError: the follower must open another session. Or metadata here does not contain its broker epoch
                yet.
            FencedError: STALE_BROKER_EPOCH: a later incarnation of the follower has registered, or fetched.
        """
        self._require_registered(request)
        deadline = asyncio.get_running_loop().time() + request.max_wait_ms / 1000
        session = self.sessions.on_request(
            request, broker_epoch=self._local.broker_epoch, now_ms=self._clock.monotonic_ms()
        )
        subscriptions = self._subscriptions.get(session.session_id) or _Subscriptions(session)
        if session.session_id:
            self._subscriptions[session.session_id] = subscriptions
        self.under_way += 1
        try:
            return await self._answer(subscriptions, request, deadline)
        finally:
            self.under_way -= 1
            if not session.session_id:
                subscriptions.close()

    @property
    def session_count(self) -> int:
        """The number of sessions."""
        return len(self.sessions)

    @property
    def session_partitions(self) -> int:
        """The number of partitions in all sessions."""
        return sum(len(subscriptions.session.partitions) for subscriptions in self._subscriptions.values())

    def close(self) -> None:
        """End every session."""
        self.sessions.close()

    def _require_registered(self, request: ReplicaFetchRequest) -> None:
        """Require that the follower's broker epoch is the one that metadata has.

        A position is an acknowledgement, so it must come from the newest registered process of its broker. An epoch
        above it would make the real follower's fetches count as stale.
        """
        registration = self._local.brokers.get(request.replica_id)
        if registration is None or request.broker_epoch > registration.broker_epoch:
            expected = "no such broker" if registration is None else f"epoch {registration.broker_epoch}"
            raise RetriableError(
                f"replica_id, broker_epoch: the newest metadata here has {expected}, "
                f"received broker {request.replica_id} in epoch {request.broker_epoch}"
            )
        if request.broker_epoch < registration.broker_epoch:
            raise FencedError(
                f"broker {request.replica_id}: epoch {request.broker_epoch} was replaced by "
                f"{registration.broker_epoch}",
                code=ErrorCode.STALE_BROKER_EPOCH,
            )

    async def _answer(
        self, subscriptions: _Subscriptions, request: ReplicaFetchRequest, deadline: float
    ) -> tuple[ReplicaFetchResponse, list[bytes | FileRange]]:
        session, parked = subscriptions.session, subscriptions.renew()
        arrived = await self._arrived(subscriptions, request)
        loop, until = asyncio.get_running_loop(), deadline
        pairs = list[tuple[ReplicaFetchResult, bytes | FileRange]]()
        urgency: Urgency | Literal["more"] | None = arrived
        while True:
            parked.clear()
            if urgency is None or loop.time() >= until:
                pairs, urgency = await self._look(subscriptions, request)
            if urgency == "more" and loop.time() < until:
                await asyncio.sleep(0)
                session.require_under_way(request.session_epoch)
                urgency = None
                continue
            if urgency == "now" or loop.time() >= until:
                break  # The results must be read after waking: changes during the wait would be lost otherwise.
            if urgency == "soon" and until == deadline:
                until = min(deadline, loop.time() + MARKS_WAIT_S)
            until = await parked.wait(until)
            session.require_under_way(request.session_epoch)  # A replaced request must not mark results as sent.
            urgency = None
        session.on_answered(result for result, _ in pairs)
        results = tuple(result for result, _ in pairs)
        response = ReplicaFetchResponse(
            session_id=session.session_id, partitions=results, packs=bool(session.session_id)
        )
        return response, [data for _, data in pairs]

    async def _arrived(self, subscriptions: _Subscriptions, request: ReplicaFetchRequest) -> Urgency | None:
        """Apply a request's removals and positions. Return when it must be answered; None: a look decides.

        No look is necessary while the follower has every record of each partition that it names: the usual case, for a
        follower that acknowledges what it has just appended.
        """
        session = subscriptions.session
        for key in request.forgotten:
            subscriptions.forget(key)
        urgencies = set[Urgency | None]()
        for number, position in enumerate(request.partitions, 1):
            if not session.session_id:
                session.on_position(position)
            urgencies.add(self._acknowledge(subscriptions, position))
            if number % _MANY == 0:  # A new session names thousands of partitions: other requests run in between.
                await asyncio.sleep(0)
                session.require_under_way(request.session_epoch)
        if len(request.partitions) != 1 or urgencies - {"", "soon"} or not session.session_id or not request.min_bytes:
            return None
        soon: Urgency = "soon" if "soon" in urgencies else ""
        return soon if session.dirty_count == len(soon and request.partitions) else None

    def _acknowledge(self, subscriptions: _Subscriptions, position: ReplicaFetchPartition) -> Urgency | None:
        """Record the follower's position in the leader's core, unless its log diverges or its epoch differs.

        Return when offsets must be sent to a follower that has every record; None: a look decides.
        """
        session = subscriptions.session
        try:
            replica = self._find(position.key)
            subscriptions.listen(position.key, replica)
            if _diverging(replica, session.follower, position) is None:
                replica.on_follower_fetch(
                    session.follower,
                    broker_epoch=session.broker_epoch,
                    fetch_offset=position.fetch_offset,
                    log_start_offset=position.log_start_offset,
                    session=session.clock if session.session_id else None,
                )
                if position.fetch_offset != replica.log.log_end_offset:
                    return None
                return session.caught_up(position.key, _marks_of(replica))
        except RaftlogError:
            pass  # `_look` returns the error in the partition's result.
        subscriptions.forget(position.key)
        return None

    async def _look(
        self, subscriptions: _Subscriptions, request: ReplicaFetchRequest
    ) -> tuple[list[tuple[ReplicaFetchResult, bytes | FileRange]], Urgency | Literal["more"]]:
        """Return the results of changed partitions, and when they must be sent; "more": look at the others first.

        A look at thousands of partitions would hold the event loop. What it has found is sent at once then, so that no
        result is older than its turn: the partitions that are left come first in the next response.

        Without a session there is no next response that remembers them: the look goes on in further turns. Its results
        may be older than the last turn. No change is lost: a change meanwhile wakes a request that waits, and every
        later one without a session is answered with all offsets.
        """
        session = subscriptions.session
        pairs, urgencies = list[tuple[ReplicaFetchResult, bytes | FileRange]](), set[Urgency]()
        left, count = request.max_bytes, 0
        dirty = session.dirty()
        for number, key in enumerate(dirty):
            if session.session_id and (left <= 0 or count >= MOST_BATCHES or number == _MANY):
                break  # The other partitions come first in the next response.
            if number and (number % _MANY == 0 or count >= MOST_BATCHES):
                await asyncio.sleep(0)
            position = session.partitions[key].position
            if not self._counts(subscriptions, key):
                self._acknowledge(subscriptions, position)
            most = min(request.partition_max_bytes, left) if count < MOST_BATCHES else 0
            result, found = self._result(session.follower, position, most)
            data = found.data
            left -= len(data)
            count += found.count
            urgencies.add(urgency := session.urgency(result))
            if urgency or data or not session.session_id:
                pairs.append((result, data))
        if session.session_id and len(dirty) > _MANY:
            return pairs, "now" if pairs else "more"
        if "now" in urgencies or sum(len(data) for _, data in pairs) >= request.min_bytes:
            return pairs, "now"
        return pairs, "soon" if "soon" in urgencies else ""

    def _counts(self, subscriptions: _Subscriptions, key: TopicIdPartition) -> bool:
        """Return whether the leader's core has counted the position that the session stores.

        The partition may not have been open here, or not in that epoch, when the follower sent the position. If the
        error response is lost, the follower does not send it again: leader and follower would wait for each other.
        The same holds after reassignments that removed the follower and added it again: the core has no state of it.
        """
        mark, session = subscriptions.marks.get(key), subscriptions.session
        try:
            replica = self._find(key)
        except RaftlogError:
            return False
        if mark is None or mark.replica is not replica or replica.core is None:
            return False
        return replica.core.counts_session(session.follower, session.clock if session.session_id else None)

    def _result(
        self, follower: BrokerId, position: ReplicaFetchPartition, max_bytes: int
    ) -> tuple[ReplicaFetchResult, VerifiedBatches]:
        found = VerifiedBatches()
        try:
            replica = self._find(position.key)
            diverging = _diverging(replica, follower, position)
            if diverging is not None:
                truncate_to = DivergingEpoch(epoch=diverging[0], end_offset=diverging[1])
                if truncate_to.epoch == NO_LEADER_EPOCH:
                    found = self._producers_below(replica, truncate_to.end_offset)
                result = ReplicaFetchResult(
                    topic_id=position.topic_id,
                    partition=position.partition,
                    length=len(found.data),
                    diverging=truncate_to,
                )
                return result, found
            end, marks = replica.log.log_end_offset, _marks_of(replica)
            if max_bytes > 0 and position.fetch_offset < end:
                found = replica.find_verified(
                    position.fetch_offset, max_bytes, limit_offset=end, check_crcs=position.check_crcs
                )
        except RaftlogError as error:
            return self._refusal(position, error)
        result = ReplicaFetchResult(
            topic_id=position.topic_id,
            partition=position.partition,
            length=len(found.data),
            high_watermark=marks[0],
            log_start_offset=marks[1],
            leader_epoch=replica.state.leader_epoch,
            replicated_offset=marks[2],
        )
        return result, found

    def _refusal(
        self, position: ReplicaFetchPartition, error: RaftlogError
    ) -> tuple[ReplicaFetchResult, VerifiedBatches]:
        """Return an error as a partition's result. A follower that must start over gets the producers with it."""
        found = VerifiedBatches()
        if isinstance(error, OffsetOutOfRangeError) and position.fetch_offset < error.details["log_start_offset"]:
            found = self._producers_below(self._find(position.key), error.details["log_start_offset"])
        failed = ReplicaFetchResult(
            topic_id=position.topic_id,
            partition=position.partition,
            length=len(found.data),
            error=WireError.of(error),
        )
        return failed, found

    def _producers_below(self, replica: Replica, log_start: Offset) -> VerifiedBatches:
        now_ms = self._clock.wall_us() // 1000
        data, count = kept_by_leader(replica.producers, log_start, now_ms=now_ms)
        return VerifiedBatches(data=data, count=count)

    def _on_closed(self, session: LeaderSession) -> None:
        if (subscriptions := self._subscriptions.pop(session.session_id, None)) is not None:
            subscriptions.close()


def _marks_of(replica: Replica) -> tuple[Offset, Offset, Offset]:
    """Return the high watermark, the log start offset and the replicated offset of a replica that leads."""
    core = replica.require_leader()
    replicated = core.replicated_offset if replica.config.compacts else UNKNOWN_OFFSET
    return core.high_watermark, replica.log.log_start_offset, replicated


def _diverging(replica: Replica, follower: BrokerId, position: ReplicaFetchPartition) -> tuple[int, int] | None:
    """Compare a follower's position with the log; return the diverging epoch and its end offset, None if they agree.

    Raises:
        StaleRouteError, FencedError: this replica does not lead, or leads in another epoch, or the newest metadata here
            does not assign the follower.
        OffsetOutOfRangeError: the position is outside the log.
    """
    core = replica.require_leader()
    require_same_epoch(replica.state.leader_epoch, position.leader_epoch, replica.assignment.topic_partition)
    core.require_assigned(follower)
    diverging = diverging_epoch(
        replica.log.epochs,
        log_start_offset=replica.log.log_start_offset,
        log_end_offset=replica.log.log_end_offset,
        fetch_offset=position.fetch_offset,
        last_fetched_epoch=position.last_fetched_epoch,
    )
    start, end = replica.log.log_start_offset, replica.log.log_end_offset
    if diverging is None and not start <= position.fetch_offset <= end:
        raise OffsetOutOfRangeError(
            f"fetch_offset: expected {start} to {end}, the leader's log, received {position.fetch_offset}",
            details={"log_start_offset": start, "log_end_offset": end},
        )
    return diverging
