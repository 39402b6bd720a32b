"""A group member's state and its next heartbeat (KIP-848). No IO.

    joining -> member -> (left | lost) -> joining ...        failed: for good

`target` is the assignment from the coordinator, `owned` the partitions that the member reads. The consumer reconciles
them when the application asks for records: it revokes first, reports that in a heartbeat, then takes new partitions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from raftlog.client.core.epochs_read import EpochsRead
from raftlog.errors import ErrorCode, RaftlogError
from raftlog.model import TopicPartition
from raftlog.wire.groups import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    NO_MEMBER_EPOCH,
    Assignor,
    GroupHeartbeatRequest,
    GroupHeartbeatResponse,
    by_topic,
    flat,
)

Phase: TypeAlias = Literal["joining", "member", "lost", "failed"]
FENCED = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID)
FIRST_INTERVAL_MS = 1_000
SHORTEST_INTERVAL_MS, LONGEST_INTERVAL_MS = 50, 3_600_000
"""Bounds of the interval that a coordinator may name: more heartbeats would keep the processor busy."""
"""The heartbeat interval until the coordinator names one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberOptions:
    """The options with which a member joins."""

    topics: tuple[str, ...] = ()
    pattern: str = ""
    instance_id: str | None = None
    assignor: Assignor | None = None
    rack: str = ""
    client_id: str = ""
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """The member of a group whose offsets a transaction commits."""

    group_id: str
    """The group's id."""
    member_id: str = ""
    """The member's id; empty: partitions are assigned by hand."""
    member_epoch: int = NO_MEMBER_EPOCH
    """The member's epoch, by which the coordinator refuses a member that it has dropped."""
    epochs_read: EpochsRead = field(default_factory=EpochsRead, repr=False, compare=False)
    """The leader epochs in which this member has read the records before the offsets that it may send."""


class _Difference(NamedTuple):
    """How the partitions that a member owns differ from its assignment."""

    owned: frozenset[TopicPartition] = frozenset()
    target: frozenset[TopicPartition] = frozenset()
    to_revoke: frozenset[TopicPartition] = frozenset()
    to_take: frozenset[TopicPartition] = frozenset()


@dataclass(slots=True)
class Membership:
    """One member."""

    member_id: str
    options: MemberOptions
    phase: Phase = field(init=False, default="joining")
    epoch: int = field(init=False, default=JOIN_EPOCH)
    owned: frozenset[TopicPartition] = field(init=False, default=frozenset())
    target: frozenset[TopicPartition] = field(init=False, default=frozenset())
    interval_ms: int = field(init=False, default=FIRST_INTERVAL_MS)
    error: RaftlogError | None = field(init=False, default=None)
    """Why the membership is lost or failed."""
    sent: int = field(init=False, default=0)
    """How many heartbeats were sent."""
    joins: int = field(init=False, default=0)
    """How many times the coordinator has made this a member."""
    _latest: _Difference = field(init=False, default=_Difference(), repr=False, compare=False)

    @property
    def reconciling(self) -> bool:
        """Whether the member must revoke or take partitions."""
        return self.phase == "member" and bool(self.to_revoke or self.to_take)

    @property
    def to_revoke(self) -> frozenset[TopicPartition]:
        """The partitions that the member owns, and that the coordinator assigns to it no longer."""
        return self._difference().to_revoke

    @property
    def to_take(self) -> frozenset[TopicPartition]:
        """The partitions that the coordinator assigns to the member, and that it does not own yet."""
        return self._difference().to_take

    def _difference(self) -> _Difference:
        """Compare `owned` with `target` once for each change: an iteration asks before every record."""
        owned, target = self.owned, self.target
        if owned is not self._latest.owned or target is not self._latest.target:
            self._latest = _Difference(owned, target, owned - target, target - owned)
        return self._latest

    def request(self) -> GroupHeartbeatRequest:
        """Return the next heartbeat. The coordinator may hold it until a change, unless the member is reconciling."""
        joining: dict[str, Any] = {}
        self.sent += 1
        if self.phase == "joining":
            joining = {
                "topics": self.options.topics,
                "pattern": self.options.pattern,
                "assignor": self.options.assignor,
                "rack": self.options.rack,
                "client_id": self.options.client_id,
                "session_timeout_ms": self.options.session_timeout_ms,
                "rebalance_timeout_ms": self.options.rebalance_timeout_ms,
            }
        return GroupHeartbeatRequest(
            member_id=self.member_id,
            member_epoch=self.epoch if self.phase == "member" else JOIN_EPOCH,
            instance_id=self.options.instance_id,
            # The target as well: the member may start to read it while this heartbeat is in flight.
            owned=by_topic(self.owned | self.target),
            max_wait_ms=self.interval_ms if self.phase == "member" and not self.reconciling else 0,
            number=self.sent,
            **joining,
        )

    def keepalive_request(self) -> GroupHeartbeatRequest | None:
        """Return a heartbeat that only keeps the session alive; None: this is not a member."""
        if self.phase != "member":
            return None
        return GroupHeartbeatRequest(
            member_id=self.member_id, member_epoch=self.epoch, instance_id=self.options.instance_id
        )

    def leave_request(self, *, for_good: bool) -> GroupHeartbeatRequest:
        """Return the last heartbeat.

        Args:
            for_good: a static member's partitions go to other members at once.
        """
        stays = self.options.instance_id is not None and not for_good
        return GroupHeartbeatRequest(
            member_id=self.member_id,
            member_epoch=LEAVE_STATIC_EPOCH if stays else LEAVE_EPOCH,
            instance_id=self.options.instance_id,
        )

    def on_response(self, response: GroupHeartbeatResponse) -> bool:
        """Apply a heartbeat response; return whether epoch, target or phase changed."""
        if self.phase not in ("joining", "member"):
            return False  # A late response: the member has left meanwhile.
        target = flat(response.assignment)
        changed = self.phase == "joining" or response.member_epoch != self.epoch or target != self.target
        self.joins += self.phase == "joining"
        self.phase, self.epoch, self.target = "member", response.member_epoch, target
        self.interval_ms = min(max(SHORTEST_INTERVAL_MS, response.heartbeat_interval_ms), LONGEST_INTERVAL_MS)
        return changed

    def on_refusal(self, error: RaftlogError) -> None:
        """Apply an error response: the coordinator fenced the member, or refuses it."""
        if error.code in FENCED:
            self.lose(error)
        else:
            self.phase, self.error, self.target = "failed", error, frozenset()

    def lose(self, error: RaftlogError) -> None:
        """End the membership: other members may read its partitions already."""
        if self.phase != "failed":
            self.phase, self.error, self.target, self.epoch = "lost", error, frozenset(), JOIN_EPOCH

    def rejoin(self) -> None:
        """Join again, owning nothing. Called after the application was notified of the loss."""
        assert self.phase == "lost"
        self.phase, self.error, self.owned = "joining", None, frozenset()

    def released(self, partitions: Iterable[TopicPartition]) -> None:
        """Remove partitions from `owned`."""
        self.owned -= frozenset(partitions)

    def acquired(self, partitions: Iterable[TopicPartition]) -> None:
        """Add partitions to `owned`."""
        self.owned |= frozenset(partitions)
