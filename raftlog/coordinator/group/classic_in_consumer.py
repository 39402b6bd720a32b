"""Members of Kafka's classic protocol in a group of the consumer protocol (KIP-848's migration, docs/adr/0044).

- The coordinator assigns. A join is what a heartbeat is for others: it says what the member reads, and takes the next
  step towards its target. So no request waits, and no member leads.
- The generation is the member's epoch. SyncGroup has the present assignment, Heartbeat says when to join again.
- A member that gives up all partitions before it joins (eager) is told to join again like others: until then they are
  its own.
"""

from __future__ import annotations

from collections.abc import Callable

from raftlog.config import GroupConfig
from raftlog.coordinator.group.classic_checks import rebalance_error, require_small
from raftlog.coordinator.group.classic_protocols import (
    CONSUMER,
    MAX_CONVERTED_BYTES,
    Subscription,
    assignment_of,
    candidates,
    chosen_protocol,
    subscription_of,
)
from raftlog.coordinator.group.classic_requests import ClassicJoin, ClassicSync, JoinAnswer, JoinOutcome, SyncAnswer
from raftlog.coordinator.group.classic_state import ClassicMember
from raftlog.coordinator.group.conversion import (
    classic_members_of,
    downgrade,
    has_classic_members_only,
    member_record,
    membership_record,
)
from raftlog.coordinator.group.draft import Draft
from raftlog.coordinator.group.membership import (
    renew_session,
    replace_static,
    require_member,
    require_room,
)
from raftlog.coordinator.group.reconciliation import next_current
from raftlog.coordinator.group.records import MemberChanged
from raftlog.coordinator.group.state import Current, Group, GroupsState
from raftlog.coordinator.group.subscriptions import subscribe
from raftlog.coordinator.group.topics import Topics
from raftlog.coordinator.runtime.core import Decision, Now
from raftlog.errors import ErrorCode, FencedError, InvalidRequestError
from raftlog.model import TopicPartition


def consumer_group(state: GroupsState, group_id: str) -> Group | None:
    """Return a group of the consumer protocol that has members; None: requests are those of a classic group."""
    group = state.groups.get(group_id)
    return group if group is not None and group.members else None


def require_classic_member_of(group: Group, member_id: str, instance_id: str | None) -> None:
    """Raise if the sender is not a classic member of the group.

    Raises:
        FencedError: UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID.
    """
    require_member(group, member_id, instance_id)
    if member_id not in group.classic or (instance_id is not None and instance_id not in group.static):
        raise FencedError(
            f"group {group.group_id!r} has no member {member_id!r:.300} of Kafka's classic protocol",
            code=ErrorCode.UNKNOWN_MEMBER_ID,
        )


def decide_join_of_consumer(
    state: GroupsState,
    now: Now,
    group: Group,
    join: ClassicJoin,
    *,
    new_member_id: str,
    topics: Topics,
    settings: GroupConfig,
    sees: Callable[[str], bool] = lambda _: True,
) -> Decision[JoinOutcome]:
    """Add a classic member, or let it join again; it is answered at once.

    Args:
        new_member_id: the id of a member that has none.
        sees: whether the sender may describe a topic; others do not exist for it.

    Raises:
        FencedError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
        InvalidRequestError: INCONSISTENT_GROUP_PROTOCOL, GROUP_MAX_SIZE_REACHED, MESSAGE_TOO_LARGE.
    """
    replaced = _replaced_by(state, group, join)
    said = _fitting(group, join, replaced, topics)
    if replaced not in group.members:
        require_room(group, settings)
        if not join.member_id and join.requires_known_id and join.instance_id is None:
            state.promises.add(group.group_id, new_member_id, now.monotonic_ms + join.session_timeout_ms)
            outcome = JoinOutcome(member_id=new_member_id, generation=group.epoch, is_promised=True)
            return Decision((), outcome)
    before = group.members.get(replaced)
    member = _member(join, join.member_id or new_member_id, join.instance_id if before is None else before.instance_id)
    state.promises.discard(group.group_id, member.member_id)
    draft = Draft(group)
    owned: frozenset[TopicPartition] | None = frozenset()
    if before is not None and replaced == member.member_id:
        owned = _reported(said, draft.current_of(replaced))
    elif before is not None:
        replace_static(draft, replaced, member.member_id)
    if list(draft.group.classic.get(member.member_id, {}).items()) != list(member.protocols.items()):
        draft.put(membership_record(group.group_id, member))
    visible = said._replace(topics=frozenset(filter(sees, said.topics)))
    record = member_record(group.group_id, member, visible)
    if has_classic_members_only(draft.group):  # It has replaced the last one of the consumer protocol.
        draft.put(record)
        generation = downgrade(state, draft, now)
        return Decision(draft.records, JoinOutcome(member_id=member.member_id, generation=generation))
    return _take_a_step(state, now, draft, record, owned, topics)


def _replaced_by(state: GroupsState, group: Group, join: ClassicJoin) -> str:
    """Return the id of the member that a join is of, or takes the place of; empty, or unknown: it is a new one.

    Raises:
        FencedError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
    """
    if not join.member_id:
        return "" if join.instance_id is None else group.static.get(join.instance_id, "")
    is_promised = join.member_id not in group.members and (group.group_id, join.member_id) in state.promises
    if not is_promised or join.instance_id is not None:
        require_classic_member_of(group, join.member_id, join.instance_id)
    return join.member_id


def _take_a_step(
    state: GroupsState,
    now: Now,
    draft: Draft,
    record: MemberChanged,
    owned: frozenset[TopicPartition] | None,
    topics: Topics,
) -> Decision[JoinOutcome]:
    """Take a member's next step towards its target, as a heartbeat does."""
    member_id = record.member_id
    subscribe(draft, state, record, topics)
    if draft.group.epoch > draft.group.assignment_epoch:
        draft.assign(topics)
    current = next_current(draft.group, member_id, draft.current_of(member_id), owned)
    draft.set_current(member_id, current)
    renew_session(state, now, record, current, 0)
    answer = JoinAnswer(
        generation=current.epoch,
        protocol_type=CONSUMER,
        protocol=chosen_protocol(classic_members_of(draft.group).values()),
        leader="",
    )
    return Decision(draft.records, JoinOutcome(member_id=member_id, generation=current.epoch, answer=answer))


def _reported(said: Subscription, current: Current) -> frozenset[TopicPartition] | None:
    """Return what a member reads, by its join; None if the join is of another generation: it may be a late one."""
    return said.owned if said.generation in (-1, current.epoch) else None


def _fitting(group: Group, join: ClassicJoin, replaced: str, topics: Topics) -> Subscription:
    """Return what a member subscribes to; raise if it does not fit to the classic members."""
    others = [one for member_id, one in classic_members_of(group).items() if member_id != replaced]
    names = [name for name, _ in join.protocols]
    common = set(names).intersection(*(other.protocols for other in others))
    said = next((subscription_of(metadata) for name, metadata in join.protocols if name in common), None)
    if not topics.have_both_protocols or join.protocol_type != CONSUMER or said is None or said.is_too_large:
        expected = f"a subscription by one of {sorted(candidates(others))}" if others else "a subscription"
        raise InvalidRequestError(
            f"group {group.group_id!r} has members of the consumer protocol (KIP-848): expected {expected} of type "
            f"{CONSUMER!r}, received {names} of {join.protocol_type!r}",
            code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        )
    size = sum(len(name) + len(metadata) for name, metadata in join.protocols)
    require_small(group.group_id, size + sum(other.size for other in others), MAX_CONVERTED_BYTES)
    return said


def _member(join: ClassicJoin, member_id: str, instance_id: str | None) -> ClassicMember:
    return ClassicMember(
        member_id=member_id,
        instance_id=instance_id,
        client_id=join.client_id,
        client_host=join.client_host,
        session_timeout_ms=join.session_timeout_ms,
        rebalance_timeout_ms=join.rebalance_ms,
        protocols=dict(join.protocols),
    )


def decide_sync_of_consumer(
    state: GroupsState, now: Now, group: Group, sync: ClassicSync
) -> Decision[SyncAnswer | None]:
    """Return a member's present assignment; the request's assignments do not count.

    Raises:
        FencedError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION.
        InvalidRequestError: INCONSISTENT_GROUP_PROTOCOL.
        RetriableError: REBALANCE_IN_PROGRESS.
    """
    current = require_generation_of(group, sync.member_id, sync.generation, sync.instance_id)
    members = classic_members_of(group)
    protocol = chosen_protocol(members.values())
    for received, expected in ((sync.protocol_type, CONSUMER), (sync.protocol, protocol)):
        if received is not None and received != expected:
            raise InvalidRequestError(
                f"group {group.group_id!r} has {expected!r}, received {received!r:.300}",
                code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            )
    keep_session(state, now, group, sync.member_id)
    if group.epoch > current.epoch and current.state != "unrevoked":
        raise rebalance_error(group.group_id)
    said = subscription_of(members[sync.member_id].protocols[protocol])
    encoded = assignment_of(current.assigned, 0 if said is None else said.version)
    return Decision((), SyncAnswer(protocol_type=CONSUMER, protocol=protocol, assignment=encoded))


def decide_heartbeat_of_consumer(
    state: GroupsState, now: Now, group: Group, member_id: str, generation: int, instance_id: str | None
) -> Decision[None]:
    """Keep a member's session.

    Raises:
        FencedError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION.
        RetriableError: REBALANCE_IN_PROGRESS, the member must join again, within its rebalance time-out.
    """
    current = require_generation_of(group, member_id, generation, instance_id)
    keep_session(state, now, group, member_id)
    if not _must_join(group, member_id, current):
        return Decision((), None)
    session = state.sessions[group.group_id, member_id]
    if session.revoke_by_ms is None:
        session.revoke_by_ms = now.monotonic_ms + group.members[member_id].rebalance_timeout_ms
        state.hurry_session(group.group_id, member_id, session)
    raise rebalance_error(group.group_id)


def _must_join(group: Group, member_id: str, current: Current) -> bool:
    """Return whether a join would bring a member forward: others have to release what it misses otherwise."""
    if current.epoch < group.epoch or current.state == "unrevoked":
        return True
    missing = group.target.get(member_id, frozenset()) - current.assigned
    return current.state == "unreleased" and all(group.owners.get(one, member_id) == member_id for one in missing)


def require_generation_of(group: Group, member_id: str, generation: int, instance_id: str | None) -> Current:
    """Return a classic member's current assignment; raise if it is in another generation.

    Raises:
        FencedError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION.
    """
    require_classic_member_of(group, member_id, instance_id)
    current = group.current[member_id]
    if generation != current.epoch:
        raise FencedError(
            f"member {member_id} of group {group.group_id!r} is in generation {current.epoch}, received {generation}: "
            "join again",
            code=ErrorCode.ILLEGAL_GENERATION,
        )
    return current


def keep_session(state: GroupsState, now: Now, group: Group, member_id: str) -> None:
    """Begin a classic member's session again; the time to join, or to give up partitions, goes on."""
    member = group.members[member_id]
    session = state.sessions.get((group.group_id, member_id))
    if session is None:
        renew_session(state, now, member, group.current[member_id], 0)
    else:
        session.ends_at_ms = now.monotonic_ms + member.session_timeout_ms
        state.hurry_session(group.group_id, member_id, session)
