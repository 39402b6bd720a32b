"""Heartbeats of group members (KIP-848): joining, staying, leaving, and the assignment in the response.

- A member acts in a member epoch. A heartbeat of another epoch is fenced, except of the previous one, whose response
  may have been lost: it gets the current assignment again.
- Heartbeats are numbered. A late one is rejected, because it would release partitions that were assigned after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from raftlog.config import GroupConfig
from raftlog.coordinator.group import patterns
from raftlog.coordinator.group.assignors import ASSIGNORS
from raftlog.coordinator.group.classic_protocols import MAX_OWNED, MAX_TOPICS
from raftlog.coordinator.group.conversion import expel, upgrade
from raftlog.coordinator.group.draft import Draft
from raftlog.coordinator.group.kinds import group_tombstones
from raftlog.coordinator.group.reconciliation import next_current
from raftlog.coordinator.group.records import ClassicMembership, MemberChanged
from raftlog.coordinator.group.state import Current, Group, GroupsState, Session
from raftlog.coordinator.group.subscriptions import changed_member, subscribe
from raftlog.coordinator.group.topics import Topics
from raftlog.coordinator.runtime.codec import Tombstone
from raftlog.coordinator.runtime.core import Decision, Now
from raftlog.errors import ErrorCode, FencedError, InvalidRequestError
from raftlog.model import TopicPartition
from raftlog.wire.groups import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    LEAVE_STATIC_EPOCH,
    GroupHeartbeatRequest,
    GroupHeartbeatResponse,
    by_topic,
    count_of,
    flat,
)

MAX_NAME = 256


def decide_heartbeat(
    state: GroupsState,
    now: Now,
    group_id: str,
    request: GroupHeartbeatRequest,
    *,
    topics: Topics,
    settings: GroupConfig,
    client_host: str = "",
    owned: frozenset[TopicPartition] | None = None,
) -> Decision[GroupHeartbeatResponse]:
    """Add, keep or remove a member; respond with its epoch and assignment.

    Args:
        owned: `flat(request.owned)`, of a caller that has computed it: many take longer than a decision may.

    Raises:
        FencedError: UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH: the member must give up all partitions and join again.
            FENCED_INSTANCE_ID: it must stop. STALE_MEMBER_EPOCH: a later heartbeat was handled; nothing was done.
        InvalidRequestError: GROUP_MAX_SIZE_REACHED, UNRELEASED_INSTANCE_ID, UNSUPPORTED_ASSIGNOR,
            INVALID_REGULAR_EXPRESSION, INVALID_GROUP_ID, INCONSISTENT_GROUP_PROTOCOL, MESSAGE_TOO_LARGE,
            INVALID_REQUEST.
    """
    _require_valid(group_id, request, settings)
    last_heartbeat = _require_newest(state, group_id, request)
    draft = Draft(state.groups.get(group_id) or Group(group_id))
    if request.member_epoch != JOIN_EPOCH and (classic := state.classic.get(group_id)) is not None:
        _require_own_instance(classic.static, group_id, request.member_id, request.instance_id)
    if request.member_epoch < 0:
        return _leave(state, draft, now, request, topics)
    if owned is None and request.owned is not None:
        owned = flat(request.owned)
    if request.member_epoch == JOIN_EPOCH:
        upgrade(state, draft, now, topics)
        _join(draft, request, settings)
        owned = frozenset()
        behind = False
    else:
        behind = _require_current(draft.group, request, owned)
    subscribe(draft, state, changed_member(draft.group, request, settings, client_host), topics)
    if draft.group.epoch > draft.group.assignment_epoch:
        draft.assign(topics)
    current = draft.current_of(request.member_id)
    if not behind:  # Otherwise the member has not received its last step yet; it takes one at a time.
        current = next_current(draft.group, request.member_id, current, owned)
        draft.set_current(request.member_id, current)
    member = draft.group.members[request.member_id]
    if group_id in state.classic:  # It becomes a group of this protocol.
        draft.records[:0] = group_tombstones(state, group_id)
    renew_session(state, now, member, current, last_heartbeat)
    interval_ms = min(settings.heartbeat_interval_ms, member.session_timeout_ms // 3)
    response = GroupHeartbeatResponse(
        member_id=request.member_id,
        member_epoch=current.epoch,
        heartbeat_interval_ms=interval_ms,
        assignment=by_topic(current.assigned),
    )
    return Decision(draft.records, response)


def has_changes(
    request: GroupHeartbeatRequest, owned: frozenset[TopicPartition] | None, response: GroupHeartbeatResponse
) -> bool:
    """Return whether a response changes the member's epoch or assignment, so that it must not be delayed.

    Args:
        owned: `flat(request.owned)`; None: the request does not say it.
    """
    return response.member_epoch != request.member_epoch or flat(response.assignment) != owned


def _require_newest(state: GroupsState, group_id: str, request: GroupHeartbeatRequest) -> int:
    """Raise if a later heartbeat was handled already; return the newest number.

    Within one epoch a member may receive partitions that others have released. A late heartbeat would release them.
    """
    session = state.sessions.get((group_id, request.member_id))
    last_heartbeat = 0 if session is None else session.last_heartbeat
    if 0 < request.number < last_heartbeat:
        raise FencedError(
            f"heartbeat {request.number} of member {request.member_id} of group {group_id!r} comes after heartbeat "
            f"{last_heartbeat}: nothing was done",
            code=ErrorCode.STALE_MEMBER_EPOCH,
        )
    return max(last_heartbeat, request.number)


def renew_session(state: GroupsState, now: Now, member: MemberChanged, current: Current, last_heartbeat: int) -> None:
    """Renew the session; start the revocation deadline when partitions are first to be revoked."""
    session = state.sessions.get((member.group_id, member.member_id))
    revoke_by_ms = None
    if current.state == "unrevoked":
        revoke_by_ms = session.revoke_by_ms if session else None
        revoke_by_ms = now.monotonic_ms + member.rebalance_timeout_ms if revoke_by_ms is None else revoke_by_ms
    ends_at_ms = now.monotonic_ms + member.session_timeout_ms
    state.begin_session(member.group_id, member.member_id, Session(ends_at_ms, revoke_by_ms, last_heartbeat))


def _join(draft: Draft, request: GroupHeartbeatRequest, settings: GroupConfig) -> None:
    group, member_id = draft.group, request.member_id
    is_member = member_id in group.members
    owner = group.static.get(request.instance_id) if request.instance_id is not None else None
    if owner is not None and owner != member_id:
        if draft.current_of(owner).epoch != LEAVE_STATIC_EPOCH and owner not in group.classic:
            raise InvalidRequestError(
                f"instance {request.instance_id!r} of group {group.group_id!r} is in use by another member; join again "
                "once that member has left or its session has timed out",
                code=ErrorCode.UNRELEASED_INSTANCE_ID,
            )
        replace_static(draft, owner, member_id)
        return
    if not is_member:
        require_room(group, settings)
    else:
        draft.set_current(member_id, Current())  # It joins again, so it owns nothing.
    if member_id in group.classic:
        draft.put(Tombstone(ClassicMembership, (group.group_id, member_id)))


def require_room(group: Group, settings: GroupConfig) -> None:
    """Raise if no member may be added.

    Raises:
        InvalidRequestError: GROUP_MAX_SIZE_REACHED.
    """
    if len(group.members) >= settings.max_size:
        raise InvalidRequestError(
            f"group {group.group_id!r} has {len(group.members)} members already, the most allowed by group.max_size",
            code=ErrorCode.GROUP_MAX_SIZE_REACHED,
        )


def replace_static(draft: Draft, before: str, member_id: str) -> None:
    """Replace a static member by a new process, with the same subscription and target: no rebalance."""
    member, target = draft.group.members[before], draft.group.target.get(before)
    draft.remove(before)
    draft.put(replace(member, member_id=member_id))
    if target is not None:
        draft.set_target(member_id, target)


def _require_current(group: Group, request: GroupHeartbeatRequest, owned: frozenset[TopicPartition] | None) -> bool:
    """Check a member's identity and epoch; return whether it has not received its newest epoch yet."""
    require_member(group, request.member_id, request.instance_id)
    _require_own_protocol(group, request.member_id)
    current, epoch = group.current[request.member_id], request.member_epoch
    if epoch == current.epoch:
        return False
    if epoch == current.previous_epoch and (owned is None or owned <= current.assigned):
        return True  # The response with the newest epoch was lost. This heartbeat must not advance the member.
    raise FencedError(
        f"member {request.member_id} of group {group.group_id!r} is in epoch {current.epoch}, received {epoch}: give "
        "up all partitions, and join again",
        code=ErrorCode.FENCED_MEMBER_EPOCH,
        details={"member_epoch": current.epoch},
    )


def require_member(group: Group, member_id: str, instance_id: str | None = None) -> None:
    """Raise if the sender is not a member of the group.

    Raises:
        FencedError: UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID.
    """
    _require_own_instance(group.static, group.group_id, member_id, instance_id)
    if member_id not in group.members or member_id not in group.current:
        raise FencedError(
            f"group {group.group_id!r} has no member {member_id!r}: it has left, or its session timed out",
            code=ErrorCode.UNKNOWN_MEMBER_ID,
        )


def _require_own_instance(static: Mapping[str, str], group_id: str, member_id: str, instance_id: str | None) -> None:
    owner = static.get(instance_id) if instance_id is not None else None
    if owner is not None and owner != member_id:
        raise FencedError(
            f"instance {instance_id!r} of group {group_id!r} was taken over by another process",
            code=ErrorCode.FENCED_INSTANCE_ID,
        )


def _require_own_protocol(group: Group, member_id: str) -> None:
    if member_id in group.classic:
        raise FencedError(
            f"member {member_id} of group {group.group_id!r} uses Kafka's classic protocol: join with epoch 0 first",
            code=ErrorCode.UNKNOWN_MEMBER_ID,
        )


def _leave(
    state: GroupsState, draft: Draft, now: Now, request: GroupHeartbeatRequest, topics: Topics
) -> Decision[GroupHeartbeatResponse]:
    group, member_id = draft.group, request.member_id
    require_member(group, member_id, request.instance_id)
    _require_own_protocol(group, member_id)
    static = group.members[member_id].instance_id is not None
    if request.member_epoch == LEAVE_STATIC_EPOCH and static:
        # Its revoking partitions are free now; the others are kept for it until its session times out.
        draft.set_current(member_id, Current(LEAVE_STATIC_EPOCH, assigned=group.current[member_id].assigned))
        if (session := state.sessions.get((group.group_id, member_id))) is not None:
            session.revoke_by_ms = None
    else:
        expel(state, draft, [member_id], topics, now)  # `on_tick` removes the session: the append may still fail.
    answer = GroupHeartbeatResponse(member_id=member_id, member_epoch=request.member_epoch, heartbeat_interval_ms=0)
    return Decision(draft.records, answer)


def _require_valid(group_id: str, request: GroupHeartbeatRequest, settings: GroupConfig) -> None:
    require_group_id(group_id)
    _require(1 <= len(request.member_id) <= MAX_NAME, "member_id", f"1 to {MAX_NAME} characters", request.member_id)
    for name in ("instance_id", "rack", "client_id"):
        value = getattr(request, name)
        _require(value is None or len(value) <= MAX_NAME, name, f"at most {MAX_NAME} characters", value)
    _require(request.instance_id != "", "instance_id", "at least one character", "")
    _require(request.member_epoch >= LEAVE_STATIC_EPOCH, "member_epoch", "-2 or more", request.member_epoch)
    require_counts(request)
    if request.pattern:
        patterns.compiled(request.pattern)
    if request.assignor is not None and request.assignor not in ASSIGNORS:
        raise InvalidRequestError(
            f"assignor: expected {', '.join(ASSIGNORS)}, received {request.assignor!r}",
            code=ErrorCode.UNSUPPORTED_ASSIGNOR,
        )
    _require_times(request, settings)
    if request.member_epoch == JOIN_EPOCH:
        _require(bool(request.topics or request.pattern), "topics", "topics or a pattern in a join", "neither")


def require_counts(request: GroupHeartbeatRequest) -> None:
    """Raise if a heartbeat names too many topics or partitions; call it before any work with them.

    Raises:
        InvalidRequestError: it does.
    """
    topics, owned = len(request.topics or ()), count_of(request.owned or ())
    _require(topics <= MAX_TOPICS, "topics", f"at most {MAX_TOPICS}", topics)
    _require(owned <= MAX_OWNED, "owned", f"at most {MAX_OWNED} partitions", owned)


def _require_times(request: GroupHeartbeatRequest, settings: GroupConfig) -> None:
    if (session_ms := request.session_timeout_ms) is not None:
        least, most = settings.min_session_timeout_ms, settings.max_session_timeout_ms
        _require(least <= session_ms <= most, "session_timeout_ms", f"{least} to {most}", session_ms)
    if (rebalance_ms := request.rebalance_timeout_ms) is not None:
        _require(1 <= rebalance_ms <= 2**31 - 1, "rebalance_timeout_ms", f"1 to {2**31 - 1}", rebalance_ms)
    _require(
        request.member_epoch >= LEAVE_EPOCH or request.instance_id is not None,
        "instance_id",
        "one with member_epoch -2",
        None,
    )


def require_group_id(group_id: str) -> None:
    """Raise if a group id is empty or too long.

    Raises:
        InvalidRequestError: INVALID_GROUP_ID.
    """
    if not 1 <= len(group_id) <= MAX_NAME:
        raise InvalidRequestError(
            f"group_id: expected 1 to {MAX_NAME} characters, received {group_id[: MAX_NAME + 50]!r}",
            code=ErrorCode.INVALID_GROUP_ID,
        )


def _require(holds: bool, name: str, expected: str, received: object) -> None:
    if not holds:
        raise InvalidRequestError(f"{name}: expected {expected}, received {received!r:.300}")
