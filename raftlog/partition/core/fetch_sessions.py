"""Fetch sessions (KIP-227), the leader's side: requests and responses contain only partitions that changed.

The follower's first request names every partition; later ones name those whose position changed. A response contains
the partitions with records, an error, a diverging epoch, or offsets (high watermark, log start) not sent yet. The
rules:

- A session id is never used twice. The session epoch counts requests, so a late or repeated request is refused.
- A position is an acknowledgement: the leader's core counts exactly the positions in a request, for the request's
  broker epoch and leader epochs.
- Results count as delivered only when the next request arrives without `answers_lost`; otherwise they are sent again.

`follower_session` is the follower's side.
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
"""Limit of sessions, one for each follower: above the number of brokers of any cluster."""


@dataclass(slots=True)
class SessionPartition:
    """One partition of a session: the follower's position, and the offsets last sent to it."""

    position: ReplicaFetchPartition
    marks: tuple[Offset, ...] | None = None
    """High watermark, log start offset and replicated offset last sent; None: not sent yet."""
    awaiting: bool = False
    """Records, an error or a divergence were sent: nothing more is sent until the follower's next position."""


@dataclass(slots=True)
class LeaderSession:
    """The leader's side of one session."""

    session_id: str
    """Empty for a request without a session: the same code answers it, then drops the state."""
    follower: BrokerId
    broker_epoch: BrokerEpoch
    epoch: int = field(init=False, default=NEW_SESSION)
    """Session epoch of the newest request."""
    closed: bool = field(init=False, default=False)
    clock: SessionClock = field(init=False, default_factory=SessionClock)
    partitions: dict[TopicIdPartition, SessionPartition] = field(init=False, default_factory=dict)
    _dirty: dict[TopicIdPartition, None] = field(init=False, default_factory=dict)
    """Partitions that may have changed, the longest waiting first."""
    _unconfirmed: dict[TopicIdPartition, None] = field(init=False, default_factory=dict)
    """Partitions in the last response, whose delivery is not confirmed yet."""

    def on_request(self, request: ReplicaFetchRequest, now_ms: int) -> None:
        """Apply the positions and removals of a request; without a session the caller applies the positions."""
        self.epoch, self.clock.last_fetch_ms = request.session_epoch, now_ms
        if request.answers_lost:
            for key in self._unconfirmed:
                self._send_again(key)
        self._unconfirmed.clear()
        for key in request.forgotten:
            self.partitions.pop(key, None)
            self._dirty.pop(key, None)
        if self.session_id:
            for position in request.partitions:
                self.on_position(position)

    def on_position(self, position: ReplicaFetchPartition) -> None:
        """Apply the follower's position in one partition, which counts as changed."""
        key = position.key
        if (partition := self.partitions.get(key)) is None:
            self.partitions[key] = SessionPartition(position)
        else:
            partition.position, partition.awaiting = position, False
        self._dirty[key] = None

    def require_under_way(self, epoch: int) -> None:
        """Raise if a newer request or another session has replaced this request.

        Raises:
            RetriableError: INVALID_FETCH_SESSION_EPOCH or FETCH_SESSION_ID_NOT_FOUND.
        """
        if self.closed:
            raise _unknown(self.session_id)
        if self.epoch != epoch:
            raise _out_of_order(self.session_id, expected=self.epoch, received=epoch)

    def mark(self, key: TopicIdPartition) -> bool:
        """Mark a partition as changed; return whether a waiting request must wake."""
        partition = self.partitions.get(key)
        if partition is None or partition.awaiting:
            return False
        self._dirty[key] = None
        return True

    def dirty(self) -> list[TopicIdPartition]:
        """Return the changed partitions, the longest waiting first."""
        return list(self._dirty)

    def urgency(self, result: ReplicaFetchResult) -> Urgency:
        """Return when a result must be sent, apart from its records: a new high watermark may wait for records.

        A partition without any change is no longer marked as changed.
        """
        partition = self.partitions[result.key]
        if not self.session_id and partition.marks is None:
            # Without a session, each response has the offsets: only a change during the wait is urgent.
            partition.marks = _marks(result)
        if result.error is not None or result.diverging is not None:
            return "now"
        if urgency := _urgency(partition.marks, _marks(result)):
            return urgency
        if result.length == 0 and self.session_id:
            self._dirty.pop(result.key, None)
        return ""

    def caught_up(self, key: TopicIdPartition, marks: tuple[Offset, ...]) -> Urgency:
        """Return when offsets must be sent to a follower that has every record: `urgency` without a result.

        Args:
            marks: high watermark, log start offset and replicated offset.
        """
        urgency = _urgency(self.partitions[key].marks, marks)
        if not urgency:
            self._dirty.pop(key, None)
        return urgency

    @property
    def dirty_count(self) -> int:
        """The number of changed partitions."""
        return len(self._dirty)

    def on_answered(self, results: Iterable[ReplicaFetchResult]) -> None:
        """Record the results that a response contains. Without a session nothing is recorded: there is no next one."""
        if not self.session_id:
            return
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
    """The sessions of one broker's followers: at most one for each follower, at most `limit` in all.

    Args:
        on_closed: called with each session that was replaced or evicted.
    """

    def __init__(self, *, on_closed: Callable[[LeaderSession], None], limit: int = MAX_SESSIONS) -> None:
        self._on_closed = on_closed
        self._limit = limit
        self._by_follower: dict[BrokerId, LeaderSession] = {}
        """Least recently used first."""
        self._opened = 0

    def __len__(self) -> int:
        return len(self._by_follower)

    def on_request(self, request: ReplicaFetchRequest, *, broker_epoch: BrokerEpoch, now_ms: int) -> LeaderSession:
        """Return the session of a request, after applying the request to it.

        Args:
            broker_epoch: this broker's own, part of session ids: none is used again after a restart.

        Raises:
            RetriableError: FETCH_SESSION_ID_NOT_FOUND or INVALID_FETCH_SESSION_EPOCH: open another session.
            FencedError: STALE_BROKER_EPOCH: a later incarnation of this follower has opened a session.
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


def _urgency(sent: tuple[Offset, ...] | None, marks: tuple[Offset, ...]) -> Urgency:
    """Return when offsets must be sent: a high watermark may wait for records, a log start offset may not."""
    if marks == sent:
        return ""
    return "soon" if sent is not None and marks[1] == sent[1] else "now"


def _unknown(session_id: str) -> RetriableError:
    return RetriableError(
        f"fetch session {session_id!r:.80} does not exist here: open a new one with every partition",
        code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    )


def _out_of_order(session_id: str, *, expected: int, received: int) -> RetriableError:
    return RetriableError(
        f"fetch session {session_id!r:.80}: expected request {expected}, received {received}",
        code=ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    )
