"""What members of classic groups request, and the answers.

Source: Kafka's JoinGroup and SyncGroup; KIP-62, KIP-345, KIP-394, KIP-559, KIP-814.
"""

from __future__ import annotations

from dataclasses import dataclass

from raftlog.coordinator.group.classic_state import ClassicGroup

MAX_REBALANCE_MS = 24 * 3_600_000
"""The longest time that a rebalance waits for a member. Kafka has no limit; Kafka Streams requested 25 days once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicJoin:
    """A JoinGroup request."""

    member_id: str = ""
    """Empty: the coordinator chooses one."""
    instance_id: str | None = None
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    """Names and metadata, the preferred one first."""
    session_timeout_ms: int
    rebalance_timeout_ms: int
    client_id: str = ""
    client_host: str = ""
    requires_known_id: bool = False
    """A dynamic member without an id is given one, and joins with a second request (KIP-394)."""
    may_skip_assignment: bool = False
    """A static leader that restarts can be a leader that does not assign (KIP-814)."""

    @property
    def rebalance_ms(self) -> int:
        """How long a rebalance waits for the member: what was requested, within bounds."""
        return max(1, min(self.rebalance_timeout_ms, MAX_REBALANCE_MS))


@dataclass(frozen=True, slots=True)
class JoinedMember:
    """A member in the leader's answer."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinAnswer:
    """The generation that a member is in."""

    generation: int
    protocol_type: str
    protocol: str
    leader: str
    members: tuple[JoinedMember, ...] = ()
    """All members, for the leader; none for others."""
    skip_assignment: bool = False
    """The leader must not assign: the members have assignments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinOutcome:
    """What became of a JoinGroup request."""

    member_id: str
    generation: int
    """Of the group when the member joined; it waits for a later one."""
    is_promised: bool = False
    """The member has to join again with this id: MEMBER_ID_REQUIRED."""
    answer: JoinAnswer | None = None
    """None: the request waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicSync:
    """A SyncGroup request."""

    member_id: str
    generation: int
    instance_id: str | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    """None, for both: not checked."""
    assignments: tuple[tuple[str, bytes], ...] = ()
    """By member; of the leader only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncAnswer:
    """A member's assignment."""

    protocol_type: str
    protocol: str
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaver:
    """A member in a LeaveGroup request. Without a member id, the instance id names it (KIP-345)."""

    member_id: str = ""
    instance_id: str | None = None


def answer_to_join(group: ClassicGroup, member_id: str) -> JoinAnswer:
    """Return a member's answer once its group has a generation."""
    members: tuple[JoinedMember, ...] = ()
    if member_id == group.leader:
        members = tuple(
            JoinedMember(member.member_id, member.instance_id, member.protocols.get(group.protocol, b""))
            for member in group.members.values()
        )
    return JoinAnswer(
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        leader=group.leader,
        members=members,
    )
