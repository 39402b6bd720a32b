"""Consumer groups: requests of members, administrators and tools to a group's coordinator (KIP-848, over HTTP)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from raftlog.model import LeaderEpoch, Offset, TopicId, TopicPartition, numbers_by_topic, topic_partitions
from raftlog.wire.errors import WireError
from raftlog.wire.metadata import COMMITS_BY_TOPIC_ID

if TYPE_CHECKING:
    from raftlog.wire.transactions import TransactionOffsetsBody

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
LEAVE_STATIC_EPOCH = -2
"""Member epoch of a static member that leaves temporarily: it keeps its partitions until its session ends."""
NO_MEMBER_EPOCH = -1
"""Member epoch of a client that commits or fetches offsets without being a member."""
Assignor: TypeAlias = Literal["uniform", "range", "sticky"]
GroupPhase: TypeAlias = Literal[
    "Empty", "Assigning", "Reconciling", "Stable", "PreparingRebalance", "CompletingRebalance"
]
"""Kafka's names: no members; a new target is due; members are moving to the target; all members have reached it.

In classic groups: members join; members wait for their leader's assignments.
"""
GroupKind: TypeAlias = Literal["consumer", "classic"]
"""Which protocol its members use: the one of KIP-848, which raftlog's clients use, or Kafka's classic one.

A group that only has offsets is a classic one, as in Kafka.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartitions:
    """Some partitions of one topic."""

    topic: str
    """The topic's name."""
    partitions: tuple[int, ...]
    """The partitions' numbers, in order."""


def by_topic(partitions: Iterable[TopicPartition]) -> tuple[TopicPartitions, ...]:
    """Return partitions grouped by topic, all in order."""
    grouped = numbers_by_topic(partitions)
    return tuple(TopicPartitions(topic=topic, partitions=numbers) for topic, numbers in grouped.items())


def count_of(listed: Iterable[TopicPartitions]) -> int:
    """Return how many partitions a request names, repeated ones included; a topic without any counts as one."""
    return sum(max(1, len(item.partitions)) for item in listed)


def flat(listed: Iterable[TopicPartitions]) -> frozenset[TopicPartition]:
    """Return the partitions that `by_topic` grouped."""
    return frozenset(chain.from_iterable(topic_partitions(item.topic, item.partitions) for item in listed))


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupHeartbeatRequest:
    """JSON sent to `POST paths.GROUP_HEARTBEAT`: the member's identity, subscription and owned partitions.

    Epoch 0 joins, -1 leaves, -2 leaves temporarily (static members). A field of None has not changed since the last
    heartbeat; a joining member sends every field.
    """

    member_id: str
    """Random id, chosen by the member (KIP-1082)."""
    member_epoch: int
    instance_id: str | None = None
    """Makes it a static member: a member that rejoins with this id within the session gets the same partitions."""
    rack: str = ""
    client_id: str = ""
    topics: tuple[str, ...] | None = None
    pattern: str | None = None
    """A regular expression (see `coordinator.group.patterns`) that whole topic names match; empty for none."""
    assignor: Assignor | None = None
    session_timeout_ms: int | None = None
    """Time without a heartbeat after which the member is removed; None: the broker's setting."""
    rebalance_timeout_ms: int | None = None
    """The longest time that revoking partitions may take."""
    owned: tuple[TopicPartitions, ...] | None = None
    """The partitions that it reads, or may start to read before the response arrives."""
    max_wait_ms: int = 0
    """How long the response may wait for a change; a member that is revoking partitions sends 0."""
    number: int = 0
    """Increases with each heartbeat that has `owned`, so that a delayed one is refused. 0: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupHeartbeatResponse:
    """The member's epoch and assignment. It must revoke owned partitions that are not assigned, and report it."""

    member_id: str
    member_epoch: int
    heartbeat_interval_ms: int
    assignment: tuple[TopicPartitions, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOffset:
    """The offset of the next record to read from a partition."""

    topic: str
    partition: int
    offset: Offset
    leader_epoch: LeaderEpoch = -1
    """Leader epoch of the last record that was read; -1: unknown."""
    metadata: str = ""
    topic_id: TopicId = ""
    """Fences a topic that was deleted and recreated since it was read; empty: unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitRequest:
    """JSON sent to `POST paths.GROUP_OFFSETS`. Without a member id: allowed while the group has no members."""

    offsets: tuple[CommitOffset, ...]
    member_id: str = ""
    member_epoch: int = NO_MEMBER_EPOCH


def commit_message(request: OffsetCommitRequest | TransactionOffsetsBody, feature_level: int) -> object:
    """Return the JSON of a request: below `COMMITS_BY_TOPIC_ID` without topic ids, which older brokers refuse."""
    if feature_level >= COMMITS_BY_TOPIC_ID:
        return request
    plain: dict[str, Any] = {field.name: getattr(request, field.name) for field in fields(request)}
    known = [field.name for field in fields(CommitOffset) if field.name != "topic_id"]
    return plain | {"offsets": [{name: getattr(one, name) for name in known} for one in request.offsets]}


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetResult:
    """The result for one partition's offset."""

    topic: str
    partition: int
    error: WireError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetResults:
    """Answer of a commit or a deletion of offsets, in the order of the request."""

    offsets: tuple[OffsetResult, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchRequest:
    """JSON sent to `POST paths.GROUP_OFFSETS_FETCH`. No partitions: all that have an offset."""

    partitions: tuple[TopicPartitions, ...] | None = None
    member_id: str = ""
    member_epoch: int = NO_MEMBER_EPOCH
    require_stable: bool = False
    """Refuse partitions whose offset an open transaction is about to change (UNSTABLE_OFFSET_COMMIT)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    """One partition's committed offset; -1 if there is none."""

    topic: str
    partition: int
    offset: Offset = -1
    leader_epoch: LeaderEpoch = -1
    metadata: str = ""
    committed_at_ms: int = -1
    topic_id: TopicId = ""
    """The id of the topic that the offset is of; empty: there is no offset, or an older broker answers."""
    error: WireError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetFetchResponse:
    """Answer of a fetch of offsets."""

    offsets: tuple[CommittedOffset, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeleteRequest:
    """JSON sent to `POST paths.GROUP_OFFSETS_DELETE`."""

    partitions: tuple[TopicPartitions, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupListing:
    """One group in a listing."""

    group_id: str
    """The group's id."""
    phase: GroupPhase
    """The group's state, such as Stable or Empty."""
    members: int
    """How many members the group has."""
    coordinator: int
    """The broker that coordinates the group."""
    kind: GroupKind = "consumer"
    """Which protocol its members use."""
    protocol_type: str = "consumer"
    """`consumer`; members of classic groups may have others, such as `connect`. Empty: the group only has offsets."""
    lag_records: int = -1
    """Records after the committed offsets, in pages (`limit`).

    -1: no page was asked for, or the coordinator does not know the end of a partition: it has no replica of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsResponse:
    """Answer of `GET paths.GROUPS`, sorted by id."""

    groups: tuple[GroupListing, ...]
    """The groups of the page."""
    matching: int = 0
    """How many groups fit, on all pages."""
    next: str = ""
    """The `after` of the next page; empty: this is the last one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberDescription:
    """One member as its coordinator sees it."""

    member_id: str
    """The member's id, random for each consumer."""
    instance_id: str | None
    """The member's `group_instance_id`; None: it is no static member."""
    client_id: str
    """The client id that the application gave its consumer."""
    client_host: str
    """The host that the member's heartbeats come from."""
    member_epoch: int
    """The epoch of the assignment that the member has reached."""
    topics: tuple[str, ...]
    """The topics that the member subscribes to."""
    pattern: str
    """The pattern of topics that the member subscribes to; empty: none."""
    assignment: tuple[TopicPartitions, ...]
    """The partitions that the member reads."""
    target: tuple[TopicPartitions, ...]
    """The partitions of the target assignment."""
    rack: str = ""
    """Where the member runs; empty: it did not say."""
    kind: GroupKind = "consumer"
    """The member's protocol; in a group of the consumer protocol, members of the classic one may be left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """Answer of `GET paths.GROUP`."""

    group_id: str
    """The group's id."""
    phase: GroupPhase
    """The group's state, such as Stable or Empty."""
    epoch: int
    """The group epoch, which grows with each change of members or subscriptions; of a classic group, its generation."""
    assignment_epoch: int
    """The group epoch that the present assignment was made for."""
    assignor: str
    """The assignor in use; in a classic group, the protocol that its members chose."""
    coordinator: int
    """The broker that coordinates the group."""
    topics: Mapping[str, int]
    """The existing topics to which members subscribe, with their number of partitions."""
    members: tuple[MemberDescription, ...]
    """The group's members."""
    kind: GroupKind = "consumer"
    """Which protocol its members use."""
