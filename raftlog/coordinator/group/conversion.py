"""Groups change their protocol while they have members (KIP-848's migration, docs/adr/0044).

- Upgrade: the first member of the consumer protocol joins a classic group of consumers. All members stay, and keep what
  they may be reading. `classic_in_consumer` answers their requests from then on.
- Downgrade: the last member of the consumer protocol leaves. The others go on as a classic group that rebalances.

Both are one decision, so a coordinator that fails leaves a group of the one kind or of the other.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from raftlog.coordinator.group.classic_protocols import (
    CONSUMER,
    MAX_CONVERTED_BYTES,
    Subscription,
    assignment_of,
    chosen_protocol,
    partitions_of,
    subscription_of,
)
from raftlog.coordinator.group.classic_state import ClassicGroup, ClassicMember, ClassicTimes
from raftlog.coordinator.group.draft import Draft, subscribed_topics
from raftlog.coordinator.group.records import (
    ClassicAssigned,
    ClassicGroupChanged,
    ClassicMemberChanged,
    ClassicMembership,
    GroupChanged,
    MemberChanged,
    TargetEpochChanged,
)
from raftlog.coordinator.group.state import NO_ASSIGNMENT, Current, Group, GroupsState, Session
from raftlog.coordinator.group.topics import Topics
from raftlog.coordinator.runtime.codec import LogRecord, Tombstone
from raftlog.coordinator.runtime.core import Now
from raftlog.errors import ErrorCode, InvalidRequestError
from raftlog.model import TopicPartition


class _Holding(NamedTuple):
    """What a member of a classic group may be reading."""

    assigned: frozenset[TopicPartition]
    revoking: frozenset[TopicPartition]
    """What it had before, and may not have given up yet."""


def upgrade(state: GroupsState, draft: Draft, now: Now, topics: Topics) -> None:
    """Make a group with classic members one of the consumer protocol; others stay as they are.

    Raises:
        InvalidRequestError: INCONSISTENT_GROUP_PROTOCOL: it cannot be converted.
    """
    group_id = draft.group.group_id
    classic = state.classic.get(group_id)
    if classic is None or not classic.members:
        return
    if classic.size > MAX_CONVERTED_BYTES:
        raise cannot_convert(classic, f"expected at most {MAX_CONVERTED_BYTES} bytes of them, it has {classic.size}")
    subscriptions = _subscriptions(classic, topics)
    holdings = _holdings(classic, subscriptions)
    draft.records += _classic_tombstones(classic)
    for member_id, member in classic.members.items():
        said, has = subscriptions[member_id], holdings[member_id]
        draft.put(member_record(group_id, member, said))
        draft.put(membership_record(group_id, member))
        draft.set_target(member_id, has.assigned)
        draft.set_current(
            member_id,
            Current(
                classic.generation,
                classic.generation,
                "unrevoked" if has.revoking else "stable",
                has.assigned,
                has.revoking,
            ),
        )
        _start_session(state, now, classic, member, is_revoking=bool(has.revoking))
    draft.put(TargetEpochChanged(group_id=group_id, assignment_epoch=classic.generation))
    # The coordinator has not assigned yet: topics may have changed since the members' leader did.
    known = subscribed_topics(draft.group, topics)
    draft.put(GroupChanged(group_id=group_id, epoch=classic.generation + 1, topics=known))


def _start_session(
    state: GroupsState, now: Now, classic: ClassicGroup, member: ClassicMember, *, is_revoking: bool
) -> None:
    """Go on with a member's session, which is soft state; a member that must give up partitions has its full time."""
    full_ms = now.monotonic_ms + member.session_timeout_ms
    times = state.classic_times.get(classic.group_id)
    ends_at_ms = full_ms if times is None else times.sessions.get(member.member_id, full_ms)
    revoke_by_ms = now.monotonic_ms + member.rebalance_timeout_ms if is_revoking else None
    state.begin_session(classic.group_id, member.member_id, Session(ends_at_ms, revoke_by_ms))


def _subscriptions(classic: ClassicGroup, topics: Topics) -> dict[str, Subscription]:
    if classic.protocol_type != CONSUMER or not topics.have_both_protocols:
        raise cannot_convert(classic, "members of the consumer protocol (KIP-848) may join when it is empty")
    protocol = chosen_protocol(classic.members.values())
    found: dict[str, Subscription] = {}
    for member_id, member in classic.members.items():
        said = subscription_of(member.protocols[protocol])
        if said is None or said.is_too_large:
            raise cannot_convert(classic, f"the metadata of member {member_id!r:.300} is not a subscription")
        found[member_id] = said
    return found


def _holdings(classic: ClassicGroup, subscriptions: Mapping[str, Subscription]) -> dict[str, _Holding]:
    """Return what each member may be reading: its last assignment, and what it had when it joined.

    In a rebalance, and until members have sent SyncGroup, both are possible. A partition that two members were assigned
    cannot be told from one that moves, so such a group is not converted.
    """
    assigned: dict[str, frozenset[TopicPartition]] = {}
    taken: set[TopicPartition] = set()
    for member_id in classic.members:
        partitions = partitions_of(classic.assignment_of(member_id))
        if partitions is None:
            raise cannot_convert(classic, f"the assignment of member {member_id!r:.300} is malformed")
        if not taken.isdisjoint(partitions):
            raise cannot_convert(classic, "its leader assigned one partition to several members")
        taken |= partitions
        assigned[member_id] = partitions
    found: dict[str, _Holding] = {}
    for member_id in classic.members:
        had = subscriptions[member_id].owned - taken
        taken |= had
        found[member_id] = _Holding(assigned[member_id], had)
    return found


def cannot_convert(classic: ClassicGroup, why: str) -> InvalidRequestError:
    """Return the error for a member of the consumer protocol that cannot join a classic group."""
    return InvalidRequestError(
        f"group {classic.group_id!r} has {len(classic.members)} members of Kafka's classic protocol, and cannot be "
        f"converted: {why}",
        code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    )


def member_record(group_id: str, member: ClassicMember, said: Subscription) -> MemberChanged:
    """Return a classic member's record in a group of the consumer protocol."""
    return MemberChanged(
        group_id=group_id,
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack=said.rack,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=tuple(sorted(said.topics)),
        session_timeout_ms=member.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
    )


def membership_record(group_id: str, member: ClassicMember) -> ClassicMembership:
    """Return what makes a member of a group of the consumer protocol a classic one."""
    protocols = member.record(group_id).protocols
    return ClassicMembership(group_id=group_id, member_id=member.member_id, protocols=protocols)


def classic_members_of(group: Group) -> dict[str, ClassicMember]:
    """Return the classic members of a group, as they joined last."""
    found: dict[str, ClassicMember] = {}
    for member_id, protocols in group.classic.items():
        if (member := group.members.get(member_id)) is not None:
            found[member_id] = ClassicMember(
                member_id=member_id,
                instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                session_timeout_ms=member.session_timeout_ms,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                protocols=protocols,
            )
    return found


def has_classic_members_only(group: Group) -> bool:
    """Return whether the last member of the consumer protocol has left, and others have not."""
    return bool(group.members) and group.members.keys() <= group.classic.keys()


def expel(state: GroupsState, draft: Draft, members: Sequence[str], topics: Topics, now: Now) -> None:
    """Remove members; begin an epoch for the others, or downgrade the group."""
    for member_id in members:
        draft.remove(member_id)
    if has_classic_members_only(draft.group):
        downgrade(state, draft, now)
        return
    known = subscribed_topics(draft.group, topics)
    draft.begin_epoch(known, empty_since_ms=-1 if draft.group.members else now.wall_ms)


def downgrade(state: GroupsState, draft: Draft, now: Now) -> int:
    """Make a group of classic members a classic one that rebalances; return its generation.

    It is the newest that a member has, so the next one is new for all. Members that have it learn by
    REBALANCE_IN_PROGRESS that they must join, others by ILLEGAL_GENERATION. The draft's group is of no use afterwards.
    """
    group = draft.group
    members = classic_members_of(group)
    generation = max(draft.current_of(member_id).epoch for member_id in members)
    times = state.classic_times[group.group_id] = ClassicTimes()
    state.checks.soon((group.group_id, None))
    for member_id, member in members.items():
        session = state.sessions.get((group.group_id, member_id))
        full_ms = now.monotonic_ms + member.session_timeout_ms
        times.sessions[member_id] = full_ms if session is None else session.ends_at_ms
    draft.records += _consumer_tombstones(group)
    for member_id, member in members.items():
        held = b64encode(assignment_of(group.current.get(member_id, NO_ASSIGNMENT).reserved)).decode()
        draft.records.append(member.record(group.group_id))
        draft.records.append(ClassicAssigned(group_id=group.group_id, member_id=member_id, assignment=held))
    draft.records.append(
        ClassicGroupChanged(
            group_id=group.group_id,
            phase="PreparingRebalance",
            generation=generation,
            protocol_type=CONSUMER,
            protocol=chosen_protocol(members.values()),
            leader=next(iter(members)),
        )
    )
    return generation


def _classic_tombstones(classic: ClassicGroup) -> list[LogRecord]:
    """Return the tombstones of a classic group's members. Its own one follows from `group_tombstones`."""
    members = [Tombstone(ClassicMemberChanged, (classic.group_id, member_id)) for member_id in classic.members]
    assigned = [Tombstone(ClassicAssigned, (classic.group_id, member_id)) for member_id in classic.assignments]
    return [*members, *assigned]


def _consumer_tombstones(group: Group) -> list[LogRecord]:
    draft = Draft(group)
    for member_id in list(group.members):
        draft.remove(member_id)
    own = [Tombstone(kind, (group.group_id,)) for kind in (TargetEpochChanged, GroupChanged)]
    return [*draft.records, *own]
