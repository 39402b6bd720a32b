"""The records of `__consumer_offsets`. Their names and fields are a format: see the golden files in the tests.

Partitions are written as `{topic: [numbers]}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from raftlog.coordinator.runtime.codec import RecordCodec
from raftlog.model import LeaderEpoch, Offset, ProducerEpoch, ProducerId, TopicId

Partitions: TypeAlias = Mapping[str, tuple[int, ...]]
MemberState: TypeAlias = Literal["stable", "unrevoked", "unreleased"]
"""Stable: the member has its target. Unrevoked: it must give up partitions. Unreleased: other members must."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMetadata:
    """A topic as of the last assignment: another id or count requires a new one."""

    topic_id: TopicId
    partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupChanged:
    """A group's epoch and topics. A target assignment of this epoch is needed."""

    KEY: ClassVar[tuple[str, ...]] = ("group_id",)
    VERSION: ClassVar[int] = 1
    group_id: str
    epoch: int
    topics: Mapping[str, TopicMetadata]
    """The existing topics that its members subscribe to."""
    empty_since_ms: int = -1
    """Since 1970, when its last member left; -1 while it has members."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberChanged:
    """A member and its subscription."""

    KEY: ClassVar[tuple[str, ...]] = ("group_id", "member_id")
    VERSION: ClassVar[int] = 1
    group_id: str
    member_id: str
    instance_id: str | None = None
    rack: str = ""
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    pattern: str = ""
    assignor: str = ""
    """Empty: no preference."""
    session_timeout_ms: int
    rebalance_timeout_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetChanged:
    """A member's target assignment."""

    KEY: ClassVar[tuple[str, ...]] = ("group_id", "member_id")
    VERSION: ClassVar[int] = 1
    group_id: str
    member_id: str
    partitions: Partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetEpochChanged:
    """The group epoch of the target assignment."""

    KEY: ClassVar[tuple[str, ...]] = ("group_id",)
    VERSION: ClassVar[int] = 1
    group_id: str
    assignment_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentChanged:
    """A member's current assignment, on its way to the target."""

    KEY: ClassVar[tuple[str, ...]] = ("group_id", "member_id")
    VERSION: ClassVar[int] = 1
    group_id: str
    member_id: str
    member_epoch: int
    previous_epoch: int
    state: MemberState
    assigned: Partitions
    revoking: Partitions
    """Partitions to give up; the member has not confirmed yet that it stopped reading them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitted:
    """A group's committed offset of one partition."""

    KEY: ClassVar[tuple[str, ...]] = ("group_id", "topic", "partition")
    VERSION: ClassVar[int] = 1
    group_id: str
    topic: str
    partition: int
    offset: Offset
    topic_id: TopicId = ""
    """Fences a topic that was deleted and recreated; empty if unknown."""
    leader_epoch: LeaderEpoch = -1
    metadata: str = ""
    committed_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetPending:
    """An offset that takes effect if its transaction commits."""

    KEY: ClassVar[tuple[str, ...]] = ("producer_id", "group_id", "topic", "partition")
    VERSION: ClassVar[int] = 1
    producer_id: ProducerId
    group_id: str
    topic: str
    partition: int
    producer_epoch: ProducerEpoch
    offset: Offset
    topic_id: TopicId = ""
    leader_epoch: LeaderEpoch = -1
    metadata: str = ""
    committed_at_ms: int


CODEC = RecordCodec(
    (GroupChanged, MemberChanged, TargetChanged, TargetEpochChanged, CurrentChanged, OffsetCommitted, OffsetPending)
)
