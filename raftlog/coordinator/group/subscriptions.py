"""What the members of a group subscribe to, and the limits of that."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from raftlog.config import GroupConfig
from raftlog.coordinator.group.draft import Draft, subscribed_topics
from raftlog.coordinator.group.records import MemberChanged
from raftlog.coordinator.group.state import Group, GroupsState
from raftlog.coordinator.group.topics import Topics
from raftlog.errors import ErrorCode, InvalidRequestError
from raftlog.wire.groups import GroupHeartbeatRequest

DEFAULT_REBALANCE_TIMEOUT_MS = 300_000
MAX_GROUP_PATTERNS = 50
"""The most different patterns of a group's members."""
MAX_GROUP_BYTES = 4 << 20
"""The most bytes of the topics that a group's members name. A classic group has at most as many in its protocols."""
BYTES_PER_TOPIC = 20
"""How many bytes a topic of a subscription counts beside its name."""


def subscribe(draft: Draft, state: GroupsState, member: MemberChanged, topics: Topics) -> None:
    """Record a member's subscription; begin an epoch if it, or the topics that it matches, have changed."""
    group_id, before = draft.group.group_id, draft.group.members.get(member.member_id)
    if member != before:
        draft.put(member)
    changed = before is None or (member.topics, member.pattern, member.assignor) != (
        before.topics,
        before.pattern,
        before.assignor,
    )
    if not changed and state.topics_version.get(group_id) == topics.version:
        return
    if changed:
        _require_bounded(draft.group)
    subscribed = subscribed_topics(draft.group, topics)
    if changed or subscribed != draft.group.topics:
        draft.begin_epoch(subscribed)
    else:
        state.topics_version[group_id] = topics.version


def _require_bounded(group: Group) -> None:
    """Raise if the members' subscriptions are too large: each change of one looks at all.

    Raises:
        InvalidRequestError: MESSAGE_TOO_LARGE, INVALID_REQUEST.
    """
    members = group.members.values()
    size = sum(sum(map(len, member.topics)) + BYTES_PER_TOPIC * len(member.topics) for member in members)
    if size > MAX_GROUP_BYTES:
        raise InvalidRequestError(
            f"group {group.group_id!r}: expected subscriptions of at most {MAX_GROUP_BYTES} bytes in all (each topic "
            f"counts {BYTES_PER_TOPIC} and its name), received what makes {size}: use a pattern, or several groups",
            code=ErrorCode.MESSAGE_TOO_LARGE,
        )
    patterns = len({member.pattern for member in members if member.pattern})
    if patterns > MAX_GROUP_PATTERNS:
        raise InvalidRequestError(
            f"pattern: expected at most {MAX_GROUP_PATTERNS} different ones in group {group.group_id!r}, received what "
            f"makes {patterns}"
        )


def changed_member(
    group: Group, request: GroupHeartbeatRequest, settings: GroupConfig, client_host: str
) -> MemberChanged:
    """Return a member's record after a heartbeat, in which fields that are not given keep their values."""
    before = group.members.get(request.member_id)
    if before is None:
        before = MemberChanged(
            group_id=group.group_id,
            member_id=request.member_id,
            instance_id=request.instance_id,
            session_timeout_ms=settings.session_timeout_ms,
            rebalance_timeout_ms=DEFAULT_REBALANCE_TIMEOUT_MS,
        )
    changes: dict[str, Any] = {
        "topics": None if request.topics is None else tuple(sorted(set(request.topics))),
        "pattern": request.pattern,
        "assignor": request.assignor,
        "session_timeout_ms": request.session_timeout_ms,
        "rebalance_timeout_ms": request.rebalance_timeout_ms,
        "rack": request.rack or None,
        "client_id": request.client_id or None,
        "client_host": client_host or None,
    }
    return replace(before, **{name: value for name, value in changes.items() if value is not None})
