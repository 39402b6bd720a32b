"""What others see of classic groups: topics, listings, descriptions, and the right to commit.

The bytes of members are opaque, apart from those of consumers: their protocol type says that they name topics.
"""

from __future__ import annotations

from dataclasses import dataclass

from raftlog.coordinator.group.classic_checks import rebalance_error, require_classic_member, require_generation
from raftlog.coordinator.group.classic_protocols import CONSUMER, partitions_of, subscription_of
from raftlog.coordinator.group.classic_state import ClassicGroup, ClassicMember
from raftlog.errors import ErrorCode, FencedError
from raftlog.model import BrokerId, TopicPartition
from raftlog.wire.groups import GroupDescription, MemberDescription, by_topic


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMemberDescription:
    """A member as its coordinator sees it."""

    member: ClassicMember
    metadata: bytes
    """For the chosen protocol; empty while members join."""
    assignment: bytes
    """Empty unless the group is stable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicDescription:
    """A classic group, with bytes as members sent them."""

    group_id: str
    phase: str
    protocol_type: str
    protocol: str
    members: tuple[ClassicMemberDescription, ...]


def described(group: ClassicGroup) -> ClassicDescription:
    """Describe a group in the terms of its protocol."""
    is_stable = group.phase == "Stable"
    protocol = group.protocol if group.phase in ("Stable", "CompletingRebalance") else ""
    members = tuple(
        ClassicMemberDescription(
            member=member,
            metadata=member.protocols.get(protocol, b""),
            assignment=group.assignment_of(member.member_id) if is_stable else b"",
        )
        for _, member in sorted(group.members.items())
    )
    return ClassicDescription(
        group_id=group.group_id,
        phase=group.phase,
        protocol_type=group.protocol_type,
        protocol=protocol,
        members=members,
    )


def described_plainly(group: ClassicGroup, broker_id: BrokerId) -> GroupDescription:
    """Describe a group in the terms of the consumer protocol: the generation is its epoch."""
    seen = described(group)
    members = []
    for one in seen.members:
        partitions = by_topic(assigned_partitions_of(group.protocol_type, one.assignment))
        members.append(
            MemberDescription(
                member_id=one.member.member_id,
                instance_id=one.member.instance_id,
                client_id=one.member.client_id,
                client_host=one.member.client_host,
                member_epoch=group.generation,
                topics=tuple(sorted(subscribed_topics_of(group.protocol_type, one.metadata))),
                pattern="",
                assignment=partitions,
                target=partitions,
                kind="classic",
            )
        )
    return GroupDescription(
        group_id=group.group_id,
        phase=group.phase,
        epoch=group.generation,
        assignment_epoch=group.generation,
        assignor=seen.protocol,
        coordinator=broker_id,
        topics={},
        members=tuple(members),
        kind="classic",
    )


def subscribed_topics(group: ClassicGroup | None) -> frozenset[str] | None:
    """Return the topics that members read; None if their protocol does not say."""
    if group is None or not group.members:
        return frozenset()
    if group.protocol_type != CONSUMER:
        return None
    found = [
        subscribed_topics_of(CONSUMER, metadata)
        for member in group.members.values()
        for metadata in member.protocols.values()
    ]
    return frozenset().union(*found)


def subscribed_topics_of(protocol_type: str, metadata: bytes | None) -> frozenset[str]:
    """Return the topics in a member's metadata; none if it is not a consumer's, or malformed."""
    if protocol_type != CONSUMER or not metadata:
        return frozenset()
    said = subscription_of(metadata)
    return frozenset() if said is None else said.topics


def assigned_partitions_of(protocol_type: str, assignment: bytes) -> frozenset[TopicPartition]:
    """Return the partitions in a member's assignment; none if it is not a consumer's, or malformed."""
    return (partitions_of(assignment) or frozenset()) if protocol_type == CONSUMER else frozenset()


def require_classic_committer(
    group: ClassicGroup, member_id: str, generation: int, instance_id: str | None, *, in_transaction: bool = False
) -> None:
    """Raise if the sender may not commit for the group now.

    A member commits in its generation, also while members join the next one. A client without a generation commits for
    a group without members, with whatever id.

    Raises:
        FencedError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION.
        RetriableError: REBALANCE_IN_PROGRESS, the member has a new generation, and no assignment in it yet. Not in a
            transaction, which this would end, as in Kafka.
    """
    if generation < 0 and not group.members:
        return
    if not member_id and generation < 0 and instance_id is None:
        raise FencedError(
            f"group {group.group_id!r} has {len(group.members)} members: only members may commit",
            code=ErrorCode.UNKNOWN_MEMBER_ID,
        )
    require_classic_member(group, group.group_id, member_id, instance_id)
    require_generation(group, generation)
    if group.phase == "CompletingRebalance" and not in_transaction:
        raise rebalance_error(group.group_id)
