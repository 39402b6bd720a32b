"""Kafka's classic group protocol: a member of the group assigns, and the coordinator keeps the members in step.

- A rebalance gathers all members (JoinGroup), begins a generation with one leader, and hands the leader's assignments
  out (SyncGroup). Their bytes are opaque here. Both requests wait: the caller asks again with `decide_join_wait` and
  with `decide_sync` when the group has changed, and now and then, which keeps the member's session.
- Every step is in the log, so a new coordinator goes on in the same round. Only sessions and deadlines begin again.
- A member of another generation is refused, and so is an earlier process of a static member (KIP-345).

Source: KIP-62, KIP-134, KIP-345, KIP-394, KIP-559, KIP-814.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from dataclasses import replace

from raftlog.config import GroupConfig
from raftlog.coordinator.group.classic_checks import (
    rebalance_error,
    require_classic_member,
    require_fitting,
    require_generation,
    require_room,
    require_small,
    require_valid_join,
)
from raftlog.coordinator.group.classic_draft import ClassicDraft
from raftlog.coordinator.group.classic_in_consumer import (
    consumer_group,
    decide_heartbeat_of_consumer,
    decide_join_of_consumer,
    decide_sync_of_consumer,
)
from raftlog.coordinator.group.classic_protocols import chosen_protocol
from raftlog.coordinator.group.classic_requests import (
    ClassicJoin,
    ClassicSync,
    JoinAnswer,
    JoinOutcome,
    SyncAnswer,
    answer_to_join,
)
from raftlog.coordinator.group.classic_state import ClassicGroup, ClassicMember
from raftlog.coordinator.group.classic_views import subscribed_topics_of
from raftlog.coordinator.group.state import Group, GroupsState
from raftlog.coordinator.group.topics import Topics
from raftlog.coordinator.runtime.core import Decision, Now
from raftlog.errors import ErrorCode, InvalidRequestError


def decide_join(
    state: GroupsState,
    now: Now,
    group_id: str,
    join: ClassicJoin,
    *,
    new_member_id: str,
    ticket: int,
    topics: Topics,
    settings: GroupConfig,
    sees: Callable[[str], bool] = lambda _: True,
) -> Decision[JoinOutcome]:
    """Add a member, or let it join again.

    Args:
        new_member_id: the id of a member that has none.
        ticket: the number of the request; it grows.
        sees: whether the sender may describe a topic; a coordinator that assigns does not assign others.

    Raises:
        FencedError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
        InvalidRequestError: see `classic_checks`.
        RetriableError: COORDINATOR_NOT_AVAILABLE.
    """
    require_valid_join(group_id, join, settings)
    if (other := consumer_group(state, group_id)) is not None:
        return decide_join_of_consumer(
            state, now, other, join, new_member_id=new_member_id, topics=topics, settings=settings, sees=sees
        )
    group = state.classic.get(group_id) or ClassicGroup(group_id)
    if join.member_id and not _is_promised(state, group, join):
        require_classic_member(state.classic.get(group_id), group_id, join.member_id, join.instance_id)
    replaces = join.member_id or _owner_of(group, join)
    require_fitting(group, join, replaces)
    before = group.members.get(replaces)
    if before is None:
        require_room(state, group, settings)
        if not join.member_id and join.requires_known_id and join.instance_id is None:
            state.promises.add(group_id, new_member_id, now.monotonic_ms + join.session_timeout_ms)
            outcome = JoinOutcome(member_id=new_member_id, generation=group.generation, is_promised=True)
            return Decision((), outcome)
    member = _member(join, join.member_id or new_member_id, before)
    require_small(group_id, group.size + member.size - (before.size if before else 0))
    draft = ClassicDraft(state, group_id, now, settings)
    state.promises.discard(group_id, member.member_id)
    if before is not None and before.member_id != member.member_id:
        return _replace(draft, before, member, join, ticket)
    return _join(draft, before, member, join, ticket)


def _join(
    draft: ClassicDraft, before: ClassicMember | None, member: ClassicMember, join: ClassicJoin, ticket: int
) -> Decision[JoinOutcome]:
    group, member_id = draft.group, member.member_id
    stays = before is not None and member.has_protocols_of(before)
    is_answered = group.phase == "CompletingRebalance" or (group.phase == "Stable" and member_id != group.leader)
    draft.set_member(member)
    if stays and is_answered:  # Its answer was lost, or it joins again without a reason.
        draft.renew(member_id)
        return _outcome(draft, member_id, answer_to_join(draft.group, member_id))
    draft.prepare(join.protocol_type)
    draft.join(member_id, ticket, is_new=before is None)
    return _waits(draft, member_id)


def _replace(
    draft: ClassicDraft, before: ClassicMember, member: ClassicMember, join: ClassicJoin, ticket: int
) -> Decision[JoinOutcome]:
    """Replace a static member by a new process: without a rebalance if the group is stable and may stay so."""
    group, member_id = draft.group, member.member_id
    was_leader, assignment = group.leader == before.member_id, group.assignments.get(before.member_id)
    draft.remove(before.member_id)
    draft.set_member(member)
    if assignment is not None:
        draft.set_assignment(member_id, assignment)
    if was_leader:
        record = group.record(phase=group.phase, generation=group.generation, protocol=group.protocol, leader=member_id)
        draft.put(record)
    if group.phase == "Stable" and _has_use_of(draft.group, before, member):
        draft.renew(member_id)
        answer = answer_to_join(draft.group, member_id)
        if was_leader and join.may_skip_assignment:
            answer = replace(answer, skip_assignment=True)
        elif was_leader:  # It takes itself for a follower, and does not assign.
            answer = replace(answer, leader=before.member_id, members=())
        return _outcome(draft, member_id, answer)
    draft.prepare(join.protocol_type)
    draft.join(member_id, ticket)
    return _waits(draft, member_id)


def _has_use_of(group: ClassicGroup, before: ClassicMember, member: ClassicMember) -> bool:
    """Return whether a restarted static member can go on with its assignment.

    Its metadata may differ: that of a consumer has the partitions that it owns, which a new process does not.
    """
    topics = [subscribed_topics_of(group.protocol_type, one.protocols.get(group.protocol)) for one in (before, member)]
    return chosen_protocol(group.members.values()) == group.protocol and topics[0] == topics[1]


def decide_join_wait(
    state: GroupsState,
    now: Now,
    group_id: str,
    member_id: str,
    *,
    instance_id: str | None,
    generation: int,
    ticket: int,
    settings: GroupConfig,
    again: Callable[[Group], Decision[JoinOutcome]] | None = None,
) -> Decision[JoinOutcome]:
    """Return the outcome of a join that waited.

    Args:
        again: decides the join in a group that became one of the consumer protocol meanwhile.
        generation: the one of `JoinOutcome`.
        ticket: the number of the request.

    Raises:
        FencedError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID: the member was removed meanwhile.
        RetriableError: REBALANCE_IN_PROGRESS, a later request of the same member waits.
    """
    if again is not None and (other := consumer_group(state, group_id)) is not None:
        return again(other)
    require_classic_member(state.classic.get(group_id), group_id, member_id, instance_id)
    draft = ClassicDraft(state, group_id, now, settings)
    group = draft.group
    if group.phase == "PreparingRebalance":
        newest = draft.times.joined.get(member_id)
        if newest is not None and newest > ticket:
            raise rebalance_error(group_id)
        if newest == ticket:  # Whether the others have joined is looked at when one joins, and at each tick.
            draft.renew(member_id)
            return Decision((), JoinOutcome(member_id=member_id, generation=generation))
        draft.join(member_id, ticket)  # Also of a later round: it began before the member had its answer.
        return _waits(draft, member_id)
    if group.generation <= generation:
        raise rebalance_error(group_id)
    draft.renew(member_id)
    return _outcome(draft, member_id, answer_to_join(group, member_id))


def _waits(draft: ClassicDraft, member_id: str) -> Decision[JoinOutcome]:
    """Return the answer if the rebalance is complete now, or none."""
    generation = draft.group.generation
    draft.try_complete()
    is_complete = draft.group.phase == "CompletingRebalance"
    answer = answer_to_join(draft.group, member_id) if is_complete else None
    return Decision(draft.records, JoinOutcome(member_id=member_id, generation=generation, answer=answer))


def _outcome(draft: ClassicDraft, member_id: str, answer: JoinAnswer) -> Decision[JoinOutcome]:
    return Decision(draft.records, JoinOutcome(member_id=member_id, generation=draft.group.generation, answer=answer))


def _is_promised(state: GroupsState, group: ClassicGroup, join: ClassicJoin) -> bool:
    is_member = join.member_id in group.members
    return not is_member and join.instance_id is None and (group.group_id, join.member_id) in state.promises


def _owner_of(group: ClassicGroup, join: ClassicJoin) -> str:
    """Return the member with the instance id of a process that begins; empty if there is none."""
    return "" if join.instance_id is None else group.static.get(join.instance_id, "")


def _member(join: ClassicJoin, member_id: str, before: ClassicMember | None) -> ClassicMember:
    return ClassicMember(
        member_id=member_id,
        instance_id=before.instance_id if before is not None else join.instance_id,
        client_id=join.client_id,
        client_host=join.client_host,
        session_timeout_ms=join.session_timeout_ms,
        rebalance_timeout_ms=join.rebalance_ms,
        protocols=dict(join.protocols),
    )


def decide_sync(
    state: GroupsState, now: Now, group_id: str, sync: ClassicSync, *, settings: GroupConfig, waited: bool = False
) -> Decision[SyncAnswer | None]:
    """Return a member's assignment, or None: it waits for the leader's request, which brings all assignments.

    Args:
        waited: the request waited; it is decided again.

    Raises:
        FencedError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION.
        InvalidRequestError: INCONSISTENT_GROUP_PROTOCOL; MESSAGE_TOO_LARGE.
        RetriableError: REBALANCE_IN_PROGRESS.
    """
    if (other := consumer_group(state, group_id)) is not None:
        return decide_sync_of_consumer(state, now, other, sync)
    group = state.classic.get(group_id)
    require_classic_member(group, group_id, sync.member_id, sync.instance_id)
    assert group is not None
    if waited and group.generation != sync.generation:
        raise rebalance_error(group_id)
    require_generation(group, sync.generation)
    _require_same_protocol(group, sync)
    draft = ClassicDraft(state, group_id, now, settings)
    draft.renew(sync.member_id)
    if group.phase == "CompletingRebalance":
        draft.times.synced.add(sync.member_id)
        if sync.member_id == group.leader:
            _assign(draft, dict(sync.assignments))
    if draft.group.phase == "CompletingRebalance":
        return Decision((), None)
    if draft.group.phase != "Stable":
        raise rebalance_error(group_id)
    answer = SyncAnswer(
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        assignment=draft.group.assignment_of(sync.member_id),
    )
    return Decision(draft.records, answer)


def _assign(draft: ClassicDraft, given: dict[str, bytes]) -> None:
    """Store the leader's assignments; a member that it forgot has an empty one, and others do not count."""
    group = draft.group
    given = {member_id: given.get(member_id, b"") for member_id in group.members}
    size = sum(member.size for member in group.members.values()) + sum(map(len, given.values()))
    require_small(group.group_id, size)
    for member_id, assignment in given.items():
        draft.set_assignment(member_id, b64encode(assignment).decode())
    draft.put(group.record(phase="Stable", generation=group.generation, protocol=group.protocol, leader=group.leader))


def _require_same_protocol(group: ClassicGroup, sync: ClassicSync) -> None:
    for name, expected, received in (
        ("protocol_type", group.protocol_type, sync.protocol_type),
        ("protocol_name", group.protocol, sync.protocol),
    ):
        if received is not None and received != expected:
            raise InvalidRequestError(
                f"{name}: group {group.group_id!r} has {expected!r}, received {received!r:.300}",
                code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            )


def decide_classic_heartbeat(
    state: GroupsState,
    now: Now,
    group_id: str,
    member_id: str,
    generation: int,
    instance_id: str | None,
    *,
    settings: GroupConfig,
) -> Decision[None]:
    """Keep a member's session.

    Raises:
        FencedError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION.
        RetriableError: REBALANCE_IN_PROGRESS, the member must join again.
    """
    if (other := consumer_group(state, group_id)) is not None:
        return decide_heartbeat_of_consumer(state, now, other, member_id, generation, instance_id)
    group = state.classic.get(group_id)
    require_classic_member(group, group_id, member_id, instance_id)
    assert group is not None
    require_generation(group, generation)
    ClassicDraft(state, group_id, now, settings).renew(member_id)
    if group.phase == "PreparingRebalance":
        raise rebalance_error(group_id)
    return Decision((), None)
