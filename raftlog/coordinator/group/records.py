"""The records of `__consumer_offsets`. Their names and fields are a format: see the golden files in the tests.

Partitions are written as `{topic: [numbers]}`. Bytes of Kafka's classic protocol are written in base64.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from raftlog.coordinator.runtime.codec import RecordCodec
from raftlog.model import LeaderEpoch, Offset, ProducerEpoch, ProducerId, TopicId

Partitions: TypeAlias = Mapping[str, tuple[int, ...]]
ClassicPhase: TypeAlias = Literal["Empty", "PreparingRebalance", "CompletingRebalance", "Stable"]
"""Kafka's names: no members; members join; members wait for the leader's assignments; all have theirs."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicGroupChanged:
    """A group of Kafka's classic protocol: its generation, and how far its rebalance is."""

    KEY: ClassVar[tuple[str, ...]] = ("group_id",)
    VERSION: ClassVar[int] = 1
    group_id: str
    phase: ClassicPhase
    generation: int
    """Grows each time that all members have joined, or that the last one has left."""
    protocol_type: str = ""
    protocol: str = ""
    """The protocol that the members chose in this generation."""
    leader: str = ""
    """The id of the member that assigns."""
    empty_since_ms: int = -1
    """Since 1970, when its last member left; -1 while it has members."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicProtocol:
    """A protocol that a member supports, with the member's metadata for it."""

    name: str
    metadata: str
    """Base64."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMemberChanged:
    """A member of a classic group, as it joined last."""

    KEY: ClassVar[tuple[str, ...]] = ("group_id", "member_id")
    VERSION: ClassVar[int] = 1
    group_id: str
    member_id: str
    instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[ClassicProtocol, ...]
    """In the member's order of preference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicAssigned:
    """What the leader of a classic group assigned to a member; it holds while the group is stable."""

    KEY: ClassVar[tuple[str, ...]] = ("group_id", "member_id")
    VERSION: ClassVar[int] = 1
    group_id: str
    member_id: str
    assignment: str
    """Base64."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMembership:
    """A member of a group of the consumer protocol uses the classic protocol, with these protocols."""

    KEY: ClassVar[tuple[str, ...]] = ("group_id", "member_id")
    VERSION: ClassVar[int] = 1
    group_id: str
    member_id: str
    protocols: tuple[ClassicProtocol, ...]
    """In the member's order of preference."""


CODEC = RecordCodec(
    (
        GroupChanged,
        MemberChanged,
        TargetChanged,
        TargetEpochChanged,
        CurrentChanged,
        OffsetCommitted,
        OffsetPending,
        ClassicGroupChanged,
        ClassicMemberChanged,
        ClassicAssigned,
        ClassicMembership,
    )
)
