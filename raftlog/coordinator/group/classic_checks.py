"""Checks of requests to classic groups, and the limits of these groups."""

from __future__ import annotations

from raftlog.config import GroupConfig
from raftlog.coordinator.group.classic_protocols import candidates
from raftlog.coordinator.group.classic_requests import ClassicJoin
from raftlog.coordinator.group.classic_state import ClassicGroup
from raftlog.coordinator.group.membership import MAX_NAME, require_group_id
from raftlog.coordinator.group.state import GroupsState
from raftlog.coordinator.group.subscriptions import MAX_GROUP_BYTES
from raftlog.errors import ErrorCode, FencedError, InvalidRequestError, RetriableError

MAX_PROTOCOLS = 50
"""Of one member."""
MAX_GROUPS = 50_000
"""Classic groups of one shard."""


def require_valid_join(group_id: str, join: ClassicJoin, settings: GroupConfig) -> None:
    """Raise if a request to join is malformed.

    Raises:
        InvalidRequestError: INVALID_GROUP_ID, INVALID_SESSION_TIMEOUT, INCONSISTENT_GROUP_PROTOCOL, INVALID_REQUEST or
            MESSAGE_TOO_LARGE.
    """
    require_group_id(group_id)
    least, most = settings.min_session_timeout_ms, settings.max_session_timeout_ms
    if not least <= join.session_timeout_ms <= most:
        raise InvalidRequestError(
            f"session_timeout_ms: expected {least} to {most}, received {join.session_timeout_ms}",
            code=ErrorCode.INVALID_SESSION_TIMEOUT,
        )
    if not join.protocol_type or not join.protocols:
        raise InvalidRequestError(
            f"a member of group {group_id!r} needs a protocol type and a protocol, received "
            f"{join.protocol_type!r:.80} and {len(join.protocols)} protocols",
            code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        )
    names = [name for name, _ in join.protocols]
    _require(len(names) <= MAX_PROTOCOLS, "protocols", f"at most {MAX_PROTOCOLS}", len(names))
    _require(len(set(names)) == len(names), "protocols", "different names", names)
    for name in (*names, join.protocol_type, join.member_id, join.instance_id or "", join.client_id):
        _require(len(name) <= MAX_NAME, "names", f"at most {MAX_NAME} characters", name)
    _require(join.instance_id != "", "group_instance_id", "at least one character", "")


def _require(holds: bool, name: str, expected: str, received: object) -> None:
    if not holds:
        raise InvalidRequestError(f"{name}: expected {expected}, received {received!r:.300}")


def require_fitting(group: ClassicGroup, join: ClassicJoin, before: str) -> None:
    """Raise if a member has no protocol that all others have, too.

    Args:
        before: the id of the member that it replaces, which may be itself.

    Raises:
        InvalidRequestError: INCONSISTENT_GROUP_PROTOCOL.
    """
    others = [member for member in group.members.values() if member.member_id != before]
    common = {name for name, _ in join.protocols}.intersection(*(member.protocols for member in others))
    if others and (join.protocol_type != group.protocol_type or not common):
        raise InvalidRequestError(
            f"group {group.group_id!r} uses the protocols {sorted(candidates(others))} of type "
            f"{group.protocol_type!r}, received {[name for name, _ in join.protocols]} of {join.protocol_type!r}",
            code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        )


def require_room(state: GroupsState, group: ClassicGroup, settings: GroupConfig) -> None:
    """Raise if no member may be added.

    Raises:
        InvalidRequestError: GROUP_MAX_SIZE_REACHED.
        RetriableError: COORDINATOR_NOT_AVAILABLE, there are too many groups.
    """
    if len(group.members) >= settings.max_size:
        raise InvalidRequestError(
            f"group {group.group_id!r} has {len(group.members)} members already, the most allowed by group.max_size",
            code=ErrorCode.GROUP_MAX_SIZE_REACHED,
        )
    if not group.has_record and len(state.classic) >= MAX_GROUPS:
        raise RetriableError(
            f"group {group.group_id!r}: its coordinator has {len(state.classic)} groups, the most that it may have",
            code=ErrorCode.COORDINATOR_NOT_AVAILABLE,
        )


def require_small(group_id: str, size: int, most: int = MAX_GROUP_BYTES) -> None:
    """Raise if a group would have too many bytes of protocols and assignments: the leader gets them in one answer.

    Raises:
        InvalidRequestError: MESSAGE_TOO_LARGE.
    """
    if size > most:
        raise InvalidRequestError(
            f"group {group_id!r}: expected protocols and assignments of at most {most} bytes in all, "
            f"received what makes {size}",
            code=ErrorCode.MESSAGE_TOO_LARGE,
        )


def require_classic_member(group: ClassicGroup | None, group_id: str, member_id: str, instance_id: str | None) -> None:
    """Raise if the sender is not a member of the group.

    Raises:
        FencedError: UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID.
    """
    owner = group.static.get(instance_id) if group is not None and instance_id is not None else None
    if owner is not None and owner != member_id:
        raise FencedError(
            f"instance {instance_id!r} of group {group_id!r} was taken over by another process",
            code=ErrorCode.FENCED_INSTANCE_ID,
        )
    unknown_instance = instance_id is not None and owner is None
    if group is None or member_id not in group.members or unknown_instance:
        raise FencedError(
            f"group {group_id!r} has no member {member_id!r:.300}: it has left, or its session timed out",
            code=ErrorCode.UNKNOWN_MEMBER_ID,
        )


def require_generation(group: ClassicGroup, generation: int) -> None:
    """Raise if a member is in another generation than its group.

    Raises:
        FencedError: ILLEGAL_GENERATION.
    """
    if generation != group.generation:
        raise FencedError(
            f"group {group.group_id!r} is in generation {group.generation}, received {generation}: join again",
            code=ErrorCode.ILLEGAL_GENERATION,
        )


def rebalance_error(group_id: str) -> RetriableError:
    """Return the error for a member that has to join again."""
    return RetriableError(f"group {group_id!r} rebalances: join again", code=ErrorCode.REBALANCE_IN_PROGRESS)
