"""The state of a group of Kafka's classic protocol: what its records say, and the deadlines that no record holds."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from raftlog.coordinator.group.records import (
    ClassicAssigned,
    ClassicGroupChanged,
    ClassicMemberChanged,
    ClassicPhase,
    ClassicProtocol,
)
from raftlog.coordinator.runtime.codec import LogRecord, Tombstone

MAX_PROMISES = 10_000
CLASSIC_KINDS = (ClassicGroupChanged, ClassicMemberChanged, ClassicAssigned)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMember:
    """A member as it joined last."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Mapping[str, bytes]
    """The metadata of each protocol, in the member's order of preference."""

    @property
    def size(self) -> int:
        """The bytes of its protocols."""
        return sum(len(name) + len(metadata) for name, metadata in self.protocols.items())

    def vote(self, candidates: Iterable[str]) -> str:
        """Return the first of its protocols that is a candidate."""
        return next((name for name in self.protocols if name in candidates), "")

    def has_protocols_of(self, other: ClassicMember) -> bool:
        """Return whether both have the same protocols with the same metadata in the same order."""
        return list(self.protocols.items()) == list(other.protocols.items())

    def record(self, group_id: str) -> ClassicMemberChanged:
        """Return the record of this member."""
        protocols = tuple(
            ClassicProtocol(name=name, metadata=b64encode(metadata).decode())
            for name, metadata in self.protocols.items()
        )
        return ClassicMemberChanged(
            group_id=group_id,
            member_id=self.member_id,
            instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            protocols=protocols,
        )


def _member(record: ClassicMemberChanged) -> ClassicMember:
    return ClassicMember(
        member_id=record.member_id,
        instance_id=record.instance_id,
        client_id=record.client_id,
        client_host=record.client_host,
        session_timeout_ms=record.session_timeout_ms,
        rebalance_timeout_ms=record.rebalance_timeout_ms,
        protocols=decoded_protocols(record.protocols),
    )


def decoded_protocols(protocols: Iterable[ClassicProtocol]) -> dict[str, bytes]:
    """Return the protocols of a record, with their bytes."""
    return {protocol.name: _decoded(protocol.metadata) for protocol in protocols}


def _decoded(text: str) -> bytes:
    """Return the bytes of base64. Replay is total: what is not base64 is no bytes."""
    try:
        return b64decode(text)
    except ValueError:
        return b""


def _length(text: str) -> int:
    """Return the number of bytes of base64."""
    return len(text) // 4 * 3 - text.count("=", -2)


@dataclass(slots=True)
class ClassicGroup:
    """One classic group with its members."""

    group_id: str
    phase: ClassicPhase = "Empty"
    generation: int = 0
    protocol_type: str = ""
    protocol: str = ""
    leader: str = ""
    empty_since_ms: int = -1
    members: dict[str, ClassicMember] = field(default_factory=dict)
    static: dict[str, str] = field(default_factory=dict)
    """From instance id to member id."""
    assignments: dict[str, str] = field(default_factory=dict)
    """By member, in base64 as in their records: decoding a thousand at once takes 15 ms. Valid in the phase Stable."""
    has_record: bool = False
    """Whether its own record exists, and not only records of members."""

    def copy(self) -> ClassicGroup:
        """Return a copy that can be changed independently."""
        return ClassicGroup(
            self.group_id,
            self.phase,
            self.generation,
            self.protocol_type,
            self.protocol,
            self.leader,
            self.empty_since_ms,
            dict(self.members),
            dict(self.static),
            dict(self.assignments),
            self.has_record,
        )

    @property
    def size(self) -> int:
        """The bytes of its members' protocols and assignments."""
        return sum(member.size for member in self.members.values()) + sum(map(_length, self.assignments.values()))

    def assignment_of(self, member_id: str) -> bytes:
        """Return the assignment of a member; of a member without one, no bytes."""
        return _decoded(self.assignments.get(member_id, ""))

    @property
    def round(self) -> tuple[int, ClassicPhase]:
        """Names the phase of one rebalance. It never comes again: each rebalance ends in another generation."""
        return self.generation, self.phase

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest time-out of its members."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def record(self, *, phase: ClassicPhase, generation: int, protocol: str, leader: str) -> ClassicGroupChanged:
        """Return the record of another phase of a group with members."""
        return ClassicGroupChanged(
            group_id=self.group_id,
            phase=phase,
            generation=generation,
            protocol_type=self.protocol_type,
            protocol=protocol,
            leader=leader,
        )

    def replay(self, record: LogRecord) -> None:
        """Apply a record of this group."""
        match record:
            case ClassicGroupChanged():
                self.phase, self.generation = record.phase, record.generation
                self.protocol_type, self.protocol, self.leader = record.protocol_type, record.protocol, record.leader
                self.empty_since_ms, self.has_record = record.empty_since_ms, True
            case ClassicMemberChanged():
                self._forget_instance(record.member_id)
                self.members[record.member_id] = _member(record)
                if record.instance_id is not None:
                    self.static[record.instance_id] = record.member_id
            case ClassicAssigned():
                self.assignments[record.member_id] = record.assignment
            case Tombstone():
                self._delete(record)

    def _delete(self, record: Tombstone) -> None:
        if record.kind is ClassicGroupChanged:
            self.phase, self.generation, self.empty_since_ms, self.has_record = "Empty", 0, -1, False
            self.protocol_type = self.protocol = self.leader = ""
        elif record.kind is ClassicMemberChanged:
            self._forget_instance(record.key[1])
            self.members.pop(record.key[1], None)
        elif record.kind is ClassicAssigned:
            self.assignments.pop(record.key[1], None)

    def _forget_instance(self, member_id: str) -> None:
        member = self.members.get(member_id)
        if member and member.instance_id is not None and self.static.get(member.instance_id) == member_id:
            del self.static[member.instance_id]

    @property
    def has_no_records(self) -> bool:
        """Whether tombstones have deleted all its records."""
        return not (self.has_record or self.members or self.assignments)


@dataclass(slots=True)
class ClassicTimes:
    """The deadlines of one group, by the monotonic clock, and which members wait. Soft state, in no record.

    What belongs to a round (see `ClassicGroup.round`) is forgotten when another round begins.
    """

    sessions: dict[str, int] = field(default_factory=dict)
    """By member: when its session ends."""
    round: tuple[int, ClassicPhase] = (0, "Empty")
    joined: dict[str, int] = field(default_factory=dict)
    """By member that has joined in this round: the number of its newest request, in order of joining."""
    synced: set[str] = field(default_factory=set)
    """The members that have sent SyncGroup in this round."""
    deadline_ms: int = 0
    """When the round ends without the members that did not join, or did not sync."""
    delayed_until_ms: int | None = None
    """An empty group waits so long for more members (KIP-134); None: it does not wait."""

    def enter(self, group: ClassicGroup, now_ms: int) -> None:
        """Begin the group's round if it is another one."""
        if self.round != group.round:
            self.round = group.round
            self.joined, self.synced, self.delayed_until_ms = {}, set(), None
            self.deadline_ms = now_ms + group.rebalance_timeout_ms

    def due_ms(self, group: ClassicGroup, *, waits: bool) -> int:
        """Return when time changes a group with members; 0: at once.

        Args:
            waits: whether the group has promised ids that no member uses yet.
        """
        members = group.members.keys()
        if self.round != group.round or not members <= self.sessions.keys():
            return 0
        due_ms = min(self.sessions[member_id] for member_id in members)
        if group.phase == "CompletingRebalance" and not members <= self.synced:
            return min(due_ms, self.deadline_ms)
        if group.phase != "PreparingRebalance":
            return due_ms
        if self.delayed_until_ms is not None:
            return min(due_ms, self.delayed_until_ms)
        return 0 if not waits and members <= self.joined.keys() else min(due_ms, self.deadline_ms)

    def renew(self, member: ClassicMember, now_ms: int) -> None:
        """Begin a member's session again."""
        self.sessions[member.member_id] = now_ms + member.session_timeout_ms


class Promises:
    """Member ids that were given out, and not used yet (KIP-394), of all groups of a shard.

    A rebalance waits for their owners. Beyond `MAX_PROMISES` the oldest one is forgotten: its owner has to begin again.
    """

    def __init__(self) -> None:
        self._ends_at_ms: dict[tuple[str, str], int] = {}
        self._counts: dict[str, int] = {}
        self._freed: set[str] = set()

    def __contains__(self, key: tuple[str, str]) -> bool:
        """Return whether a group has promised a member id."""
        return key in self._ends_at_ms

    def __len__(self) -> int:
        return len(self._ends_at_ms)

    def waits(self, group_id: str) -> bool:
        """Return whether a group has promised an id that no member uses yet."""
        return group_id in self._counts

    def add(self, group_id: str, member_id: str, ends_at_ms: int) -> None:
        """Promise an id."""
        while len(self._ends_at_ms) >= MAX_PROMISES:
            self.discard(*next(iter(self._ends_at_ms)))
        self._ends_at_ms[group_id, member_id] = ends_at_ms
        self._counts[group_id] = self._counts.get(group_id, 0) + 1

    def discard(self, group_id: str, member_id: str) -> bool:
        """Forget an id; return whether it was promised."""
        if self._ends_at_ms.pop((group_id, member_id), None) is None:
            return False
        self._counts[group_id] -= 1
        if not self._counts[group_id]:
            del self._counts[group_id]
            self._freed.add(group_id)
        return True

    def freed(self) -> set[str]:
        """Return the groups that need not wait any longer, since the last call."""
        freed, self._freed = self._freed, set()
        return freed

    def expire(self, now_ms: int) -> None:
        """Forget the ids whose owners did not come."""
        for key in [key for key, ends_at_ms in self._ends_at_ms.items() if now_ms >= ends_at_ms]:
            self.discard(*key)
