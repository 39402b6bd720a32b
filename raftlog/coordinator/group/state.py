"""The state of one shard of the group coordinator, and how records change it.

`Group` only applies records, in any order and with any gaps that compaction leaves. The rules are in the decisions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain

from raftlog.coordinator.group.checks import Checks
from raftlog.coordinator.group.classic_state import (
    CLASSIC_KINDS,
    ClassicGroup,
    ClassicTimes,
    Promises,
    decoded_protocols,
)
from raftlog.coordinator.group.records import (
    ClassicMembership,
    CurrentChanged,
    GroupChanged,
    MemberChanged,
    MemberState,
    OffsetCommitted,
    OffsetPending,
    Partitions,
    TargetChanged,
    TargetEpochChanged,
    TopicMetadata,
)
from raftlog.coordinator.runtime.codec import LogRecord, Tombstone
from raftlog.model import ProducerId, TopicPartition, topic_partitions
from raftlog.wire.groups import GroupPhase


def to_set(partitions: Partitions) -> frozenset[TopicPartition]:
    """Return the partitions of a record."""
    return frozenset(chain.from_iterable(topic_partitions(topic, numbers) for topic, numbers in partitions.items()))


@dataclass(frozen=True, slots=True)
class Current:
    """A member's current assignment, on its way to the target (KIP-848)."""

    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = "stable"
    assigned: frozenset[TopicPartition] = frozenset()
    revoking: frozenset[TopicPartition] = frozenset()

    @property
    def reserved(self) -> frozenset[TopicPartition]:
        """The partitions that no other member may have: assigned, or not yet revoked."""
        return self.assigned | self.revoking


NO_ASSIGNMENT = Current()


@dataclass(slots=True)
class Group:
    """One consumer group with its members."""

    group_id: str
    epoch: int = 0
    assignment_epoch: int = 0
    empty_since_ms: int = -1
    topics: Mapping[str, TopicMetadata] = field(default_factory=dict)
    members: dict[str, MemberChanged] = field(default_factory=dict)
    static: dict[str, str] = field(default_factory=dict)
    """From instance id to member id."""
    target: dict[str, frozenset[TopicPartition]] = field(default_factory=dict)
    current: dict[str, Current] = field(default_factory=dict)
    owners: dict[TopicPartition, str] = field(default_factory=dict)
    """By partition: the member that has it, or has not given it up yet."""
    classic: dict[str, Mapping[str, bytes]] = field(default_factory=dict)
    """By member that uses the classic protocol (docs/adr/0044): its protocols with their metadata."""

    def copy(self) -> Group:
        """Return a copy that can be changed independently."""
        return Group(
            self.group_id,
            self.epoch,
            self.assignment_epoch,
            self.empty_since_ms,
            self.topics,
            dict(self.members),
            dict(self.static),
            dict(self.target),
            dict(self.current),
            dict(self.owners),
            dict(self.classic),
        )

    @property
    def phase(self) -> GroupPhase:
        if not self.members:
            return "Empty"
        if self.epoch > self.assignment_epoch:
            return "Assigning"
        reconciled = all(self._is_reconciled(member) for member in self.members)
        return "Stable" if reconciled else "Reconciling"

    def _is_reconciled(self, member: str) -> bool:
        current = self.current.get(member, NO_ASSIGNMENT)
        return current.epoch in (self.assignment_epoch, -2) and current.state == "stable"

    def replay(self, record: LogRecord) -> None:
        """Apply a record of this group."""
        match record:
            case GroupChanged():
                self.epoch, self.topics = record.epoch, record.topics
                self.empty_since_ms = record.empty_since_ms
            case MemberChanged():
                self._forget_instance(record.member_id)
                self.members[record.member_id] = record
                if record.instance_id is not None:
                    self.static[record.instance_id] = record.member_id
            case TargetChanged():
                self.target[record.member_id] = to_set(record.partitions)
            case TargetEpochChanged():
                self.assignment_epoch = record.assignment_epoch
            case CurrentChanged():
                self._set_current(
                    record.member_id,
                    Current(
                        record.member_epoch,
                        record.previous_epoch,
                        record.state,
                        to_set(record.assigned),
                        to_set(record.revoking),
                    ),
                )
            case ClassicMembership():
                self.classic[record.member_id] = decoded_protocols(record.protocols)
            case Tombstone():
                self._delete(record)

    def _delete(self, record: Tombstone) -> None:
        if record.kind is GroupChanged:
            self.epoch, self.topics, self.empty_since_ms = 0, {}, -1
        elif record.kind is TargetEpochChanged:
            self.assignment_epoch = 0
        elif record.kind is MemberChanged:
            self._forget_instance(record.key[1])
            self.members.pop(record.key[1], None)
        elif record.kind is TargetChanged:
            self.target.pop(record.key[1], None)
        elif record.kind is CurrentChanged:
            self._set_current(record.key[1], NO_ASSIGNMENT)
            del self.current[record.key[1]]
        elif record.kind is ClassicMembership:
            self.classic.pop(record.key[1], None)

    def _forget_instance(self, member_id: str) -> None:
        member = self.members.get(member_id)
        if member and member.instance_id is not None and self.static.get(member.instance_id) == member_id:
            del self.static[member.instance_id]

    def _set_current(self, member_id: str, current: Current) -> None:
        for partition in self.current.get(member_id, NO_ASSIGNMENT).reserved:
            if self.owners.get(partition) == member_id:
                del self.owners[partition]
        self.current[member_id] = current
        self.owners |= dict.fromkeys(current.reserved, member_id)

    @property
    def has_no_records(self) -> bool:
        """Whether tombstones have deleted all its records."""
        numbers = self.epoch or self.assignment_epoch
        return not (numbers or self.members or self.target or self.current or self.classic)


@dataclass(slots=True)
class Session:
    """A member's deadlines, by the monotonic clock. Soft state, in no record."""

    ends_at_ms: int
    revoke_by_ms: int | None = None
    last_heartbeat: int = 0
    """The number of its newest heartbeat; 0 if heartbeats have no number."""

    @property
    def due_ms(self) -> int:
        """When the member is removed."""
        return self.ends_at_ms if self.revoke_by_ms is None else min(self.ends_at_ms, self.revoke_by_ms)


@dataclass(slots=True)
class GroupsState:
    """All groups of one shard."""

    groups: dict[str, Group] = field(default_factory=dict)
    classic: dict[str, ClassicGroup] = field(default_factory=dict)
    """The groups of Kafka's classic protocol. An id is in one of `groups` and `classic` only."""
    classic_times: dict[str, ClassicTimes] = field(default_factory=dict)
    """By group. Soft state."""
    promises: Promises = field(default_factory=Promises)
    """Member ids of classic groups. Soft state."""
    offsets: dict[str, dict[TopicPartition, OffsetCommitted]] = field(default_factory=dict)
    """By group. A group with offsets need not have members, nor a `Group`."""
    pending: dict[ProducerId, dict[tuple[str, TopicPartition], OffsetPending]] = field(default_factory=dict)
    """The offsets that open transactions will commit."""
    unstable: dict[str, dict[TopicPartition, dict[ProducerId, None]]] = field(default_factory=dict)
    """By group and partition: the producers in `pending`, that of the newest record last."""
    sessions: dict[tuple[str, str], Session] = field(default_factory=dict)
    """By group and member. `begin_session` and `hurry_session` keep `checks` in step."""
    checks: Checks = field(default_factory=Checks)
    """When a tick examines which sessions and which classic groups. Soft state."""
    topics_version: dict[str, int] = field(default_factory=dict)
    """By group: the metadata version that its topics were last compared with. Soft state."""
    expiry_due_ms: int = 0
    """When the next check of all groups for expired offsets begins. Soft state."""
    unchecked: list[str] = field(default_factory=list)
    """The groups that the current check for expired offsets has yet to look at. Soft state."""
    perhaps_unused: list[str] = field(default_factory=list)
    """The groups that the check for unused groups, which follows, has yet to look at. Soft state."""
    finds_expired: bool = False
    """Whether the newest tick found as much expired as it may delete. Soft state."""

    def begin_session(self, group_id: str, member_id: str, session: Session) -> None:
        """Begin a member's session, or replace it."""
        key = (group_id, member_id)
        if key not in self.sessions:  # If the member's record cannot be appended, the next tick removes the session.
            self.checks.soon(key)
        self.sessions[key] = session
        self.hurry_session(group_id, member_id, session)

    def hurry_session(self, group_id: str, member_id: str, session: Session) -> None:
        """Note that a session may end earlier than before."""
        self.checks.by((group_id, member_id), session.due_ms)

    def replay(self, record: LogRecord) -> str:
        """Apply a record; return the id of its group."""
        kind = record.kind if isinstance(record, Tombstone) else type(record)
        if kind is OffsetCommitted:
            return self._replay_offset(record)
        if kind is OffsetPending:
            return self._replay_pending(record)
        group_id: str = record.key[0] if isinstance(record, Tombstone) else record.group_id  # type: ignore[attr-defined]
        if kind in CLASSIC_KINDS:
            return self._replay_classic(group_id, record)
        group = self.groups.setdefault(group_id, Group(group_id))
        group.replay(record)
        if kind is MemberChanged and isinstance(record, Tombstone):
            self.checks.soon((group_id, record.key[1]))
        if group.has_no_records:
            del self.groups[group_id]
            self.topics_version.pop(group_id, None)
        return group_id

    def _replay_classic(self, group_id: str, record: LogRecord) -> str:
        group = self.classic.setdefault(group_id, ClassicGroup(group_id))
        group.replay(record)
        self.checks.soon((group_id, None))
        if group.has_no_records:
            del self.classic[group_id]
            self.classic_times.pop(group_id, None)
        return group_id

    def _replay_offset(self, record: LogRecord) -> str:
        if isinstance(record, OffsetCommitted):
            partition = TopicPartition(record.topic, record.partition)
            self.offsets.setdefault(record.group_id, {})[partition] = record
            return record.group_id
        assert isinstance(record, Tombstone)
        group_id, topic, number = record.key
        offsets = self.offsets.get(group_id, {})
        offsets.pop(TopicPartition(topic, number), None)
        if not offsets:
            self.offsets.pop(group_id, None)
        return str(group_id)

    def _replay_pending(self, record: LogRecord) -> str:
        if isinstance(record, OffsetPending):
            partition = TopicPartition(record.topic, record.partition)
            self.pending.setdefault(record.producer_id, {})[record.group_id, partition] = record
            producers = self.unstable.setdefault(record.group_id, {}).setdefault(partition, {})
            producers.pop(record.producer_id, None)
            producers[record.producer_id] = None
            return record.group_id
        assert isinstance(record, Tombstone)
        producer_id, group_id, topic, number = record.key
        partition, pending = TopicPartition(topic, number), self.pending.get(producer_id, {})
        if pending.pop((group_id, partition), None) is not None:
            self._end_pending(producer_id, group_id, partition)
        if not pending:
            self.pending.pop(producer_id, None)
        return str(group_id)

    def _end_pending(self, producer_id: ProducerId, group_id: str, partition: TopicPartition) -> None:
        unstable = self.unstable[group_id]
        del unstable[partition][producer_id]
        if not unstable[partition]:
            del unstable[partition]
        if not unstable:
            del self.unstable[group_id]
