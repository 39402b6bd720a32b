"""Fetch sessions (KIP-227): a follower and its leader remember what they have told each other, and tell only news.

The follower names its partitions once; then each request names those whose position has changed, and each answer those
with records, an error, a divergence, or marks that were not told yet. Session ids are never used twice; the epoch
counts the requests of one session, so that a late or repeated one is refused.

Two rules keep this safe. A position is an acknowledgement, so a session repeats none: the leader's core learns exactly
the positions that a request names, for the incarnation and leader epoch that it names. And what the leader tells is
told only once the next request says that it has arrived; else (`answers_lost`) it is told again.

This is the leader's side; `follower_session` is the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

from raftlog.errors import ErrorCode, FencedError, RetriableError
from raftlog.model import BrokerEpoch, BrokerId, Offset, TopicIdPartition
from raftlog.partition.core.leader import SessionClock
from raftlog.wire.replication import (
    NEW_SESSION,
    NO_SESSION,
    ReplicaFetchPartition,
    ReplicaFetchRequest,
    ReplicaFetchResult,
)

Urgency = Literal["now", "soon", ""]
MAX_SESSIONS = 1_000
"""One for each follower: more than any cluster has brokers."""


@dataclass(slots=True)
class SessionPartition:
    """One partition of a session, as the leader sees it: where the follower is, and what it has been told."""

    position: ReplicaFetchPartition
    marks: tuple[Offset, ...] | None = None
    """High watermark, log start offset, replicated offset."""
    awaiting: bool = False
    """It was told something to act on: nothing more until the follower names it again."""


@dataclass(slots=True)
class LeaderSession:
    """The leader's side of one session."""

    session_id: str
    """Empty for a request without a session: the same code answers it, and forgets it."""
    follower: BrokerId
    broker_epoch: BrokerEpoch
    epoch: int = NEW_SESSION
    """Of the newest request."""
    closed: bool = False
    clock: SessionClock = field(default_factory=SessionClock)
    partitions: dict[TopicIdPartition, SessionPartition] = field(default_factory=dict)
    _dirty: dict[TopicIdPartition, None] = field(default_factory=dict)
    """Partitions that may have news, the one that has waited longest first."""
    _unconfirmed: dict[TopicIdPartition, None] = field(default_factory=dict)
    """Partitions that the last answer told something."""

    def on_request(self, request: ReplicaFetchRequest, now_ms: int) -> None:
        """Take in what a request names."""
        self.epoch, self.clock.last_fetch_ms = request.session_epoch, now_ms
        if request.answers_lost:
            for key in self._unconfirmed:
                self._send_again(key)
        self._unconfirmed.clear()
        for key in request.forgotten:
            self.partitions.pop(key, None)
            self._dirty.pop(key, None)
        for position in request.partitions:
            partition = self.partitions.setdefault(position.key, SessionPartition(position))
            partition.position, partition.awaiting = position, False
            self.mark(position.key)

    def require_under_way(self, epoch: int) -> None:
        """Refuse to go on with a request that a newer one, or another session, has replaced.

        Raises:
            RetriableError: INVALID_FETCH_SESSION_EPOCH or FETCH_SESSION_ID_NOT_FOUND.
        """
        if self.closed:
            raise _unknown(self.session_id)
        if self.epoch != epoch:
            raise _out_of_order(self.session_id, expected=self.epoch, received=epoch)

    def mark(self, key: TopicIdPartition) -> bool:
        """Note that a partition may have news; return whether that is worth waking for."""
        partition = self.partitions.get(key)
        if partition is None or partition.awaiting:
            return False
        self._dirty[key] = None
        return True

    def dirty(self) -> list[TopicIdPartition]:
        """Return the partitions to look at, in order."""
        return list(self._dirty)

    def urgency(self, result: ReplicaFetchResult) -> Urgency:
        """Tell when a result must be said, whatever records it has: a high watermark that moved may wait for some.

        A result that says nothing new at all is looked at no longer.
        """
        partition = self.partitions[result.key]
        if not self.session_id and partition.marks is None:
            # Who keeps no session gets the marks with each answer: only a change while it waits is news.
            partition.marks = _marks(result)
        if result.error is not None or result.diverging is not None:
            return "now"
        if _marks(result) != partition.marks:
            sent_start = partition.marks[1] if partition.marks is not None else None
            return "soon" if result.log_start_offset == sent_start else "now"
        if result.length == 0 and self.session_id:
            self._dirty.pop(result.key, None)
        return ""

    def on_answered(self, results: Iterable[ReplicaFetchResult]) -> None:
        """Note what an answer tells."""
        for result in results:
            partition = self.partitions[result.key]
            self._unconfirmed[result.key] = None
            self._dirty.pop(result.key, None)
            partition.awaiting = result.length > 0 or result.error is not None or result.diverging is not None
            if result.error is None and result.diverging is None:
                partition.marks = _marks(result)

    def _send_again(self, key: TopicIdPartition) -> None:
        if (partition := self.partitions.get(key)) is not None:
            partition.marks, partition.awaiting = None, False
            self.mark(key)


class LeaderSessions:
    """All sessions of one broker's followers: one for each follower, a bounded number in all.

    Args:
        on_closed: called with each session that was replaced or evicted.
    """

    def __init__(self, *, on_closed: Callable[[LeaderSession], None], limit: int = MAX_SESSIONS) -> None:
        self._on_closed = on_closed
        self._limit = limit
        self._by_follower: dict[BrokerId, LeaderSession] = {}
        """The one that was used longest ago first."""
        self._opened = 0

    def __len__(self) -> int:
        return len(self._by_follower)

    def on_request(self, request: ReplicaFetchRequest, *, broker_epoch: BrokerEpoch, now_ms: int) -> LeaderSession:
        """Return the session of a request, which has taken in what the request names.

        Args:
            broker_epoch: this broker's own: part of the ids, so that none is used again after a restart.

        Raises:
            RetriableError: FETCH_SESSION_ID_NOT_FOUND or INVALID_FETCH_SESSION_EPOCH: open another session.
            FencedError: STALE_BROKER_EPOCH: a later incarnation of this follower has opened one.
        """
        if request.session_epoch == NO_SESSION:
            session = LeaderSession("", request.replica_id, request.broker_epoch)
        elif request.session_epoch == NEW_SESSION:
            session = self._open(request, broker_epoch)
        else:
            session = self._continued(request)
        session.on_request(request, now_ms)
        return session

    def close(self) -> None:
        """End every session."""
        for follower in list(self._by_follower):
            self._close(follower)

    def _open(self, request: ReplicaFetchRequest, broker_epoch: BrokerEpoch) -> LeaderSession:
        previous = self._by_follower.get(request.replica_id)
        if previous is not None and previous.broker_epoch > request.broker_epoch:
            raise FencedError(
                f"broker {request.replica_id}: epoch {request.broker_epoch} was replaced by {previous.broker_epoch}",
                code=ErrorCode.STALE_BROKER_EPOCH,
            )
        self._close(request.replica_id)
        if len(self._by_follower) >= self._limit:
            self._close(next(iter(self._by_follower)))
        self._opened += 1
        session = LeaderSession(f"{broker_epoch}-{self._opened}", request.replica_id, request.broker_epoch)
        self._by_follower[request.replica_id] = session
        return session

    def _continued(self, request: ReplicaFetchRequest) -> LeaderSession:
        session = self._by_follower.get(request.replica_id)
        if session is None or (session.session_id, session.broker_epoch) != (request.session_id, request.broker_epoch):
            raise _unknown(request.session_id)
        if request.session_epoch != session.epoch + 1:
            raise _out_of_order(request.session_id, expected=session.epoch + 1, received=request.session_epoch)
        self._by_follower[request.replica_id] = self._by_follower.pop(request.replica_id)
        return session

    def _close(self, follower: BrokerId) -> None:
        if (session := self._by_follower.pop(follower, None)) is not None:
            session.closed = True
            self._on_closed(session)


def _marks(result: ReplicaFetchResult) -> tuple[Offset, ...]:
    return result.high_watermark, result.log_start_offset, result.replicated_offset


def _unknown(session_id: str) -> RetriableError:
    return RetriableError(
        f"fetch session {session_id!r:.80} is not known here: name every partition in a new one",
        code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    )


def _out_of_order(session_id: str, *, expected: int, received: int) -> RetriableError:
    return RetriableError(
        f"fetch session {session_id!r:.80}: expected request {expected}, received {received}",
        code=ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    )
