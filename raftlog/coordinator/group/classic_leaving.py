"""How members leave classic groups: by request, by silence, and by missing a rebalance."""

from __future__ import annotations

from collections.abc import Sequence

from raftlog.config import GroupConfig
from raftlog.coordinator.group.classic_checks import require_classic_member
from raftlog.coordinator.group.classic_draft import ClassicDraft
from raftlog.coordinator.group.classic_requests import Leaver
from raftlog.coordinator.group.classic_state import ClassicGroup, ClassicTimes
from raftlog.coordinator.group.conversion import expel
from raftlog.coordinator.group.draft import Draft
from raftlog.coordinator.group.membership import require_member
from raftlog.coordinator.group.state import GroupsState
from raftlog.coordinator.group.topics import Topics
from raftlog.coordinator.runtime.codec import LogRecord
from raftlog.coordinator.runtime.core import Decision, Now
from raftlog.errors import ErrorCode, FencedError, RaftlogError


def decide_leave(
    state: GroupsState,
    now: Now,
    group_id: str,
    leavers: Sequence[Leaver],
    *,
    topics: Topics,
    settings: GroupConfig,
) -> Decision[list[RaftlogError | None]]:
    """Remove members; return the error of each, in order (KIP-345).

    Classic members of a group of the consumer protocol leave it so, and an administrator may name others of it, too.
    """
    if (group := state.groups.get(group_id)) is not None and group.members:
        return _leave_consumer(state, Draft(group), now, leavers, topics)
    draft = ClassicDraft(state, group_id, now, settings)
    errors: list[RaftlogError | None] = []
    had_promise = False
    for leaver in leavers:
        if state.promises.discard(group_id, leaver.member_id):
            had_promise = True
            errors.append(None)
            continue
        member_id = leaver.member_id or _member_of(draft.group.static, leaver)
        errors.append(error := _error_of(draft.group, member_id, leaver))
        if error is None:
            draft.remove(member_id)
    if draft.records:
        draft.settle()
    elif had_promise:
        draft.try_complete()
    if not draft.group.has_record:
        state.classic_times.pop(group_id, None)
    return Decision(draft.records, errors)


def _error_of(group: ClassicGroup, member_id: str, leaver: Leaver) -> RaftlogError | None:
    try:
        require_classic_member(group, group.group_id, member_id, leaver.instance_id)
    except RaftlogError as error:
        return error
    return None


def _leave_consumer(
    state: GroupsState, draft: Draft, now: Now, leavers: Sequence[Leaver], topics: Topics
) -> Decision[list[RaftlogError | None]]:
    errors: list[RaftlogError | None] = []
    leaving: dict[str, None] = {}
    for leaver in leavers:
        if state.promises.discard(draft.group.group_id, leaver.member_id):
            errors.append(None)
            continue
        member_id = leaver.member_id or _member_of(draft.group.static, leaver)
        try:
            require_member(draft.group, member_id, leaver.instance_id)
            if member_id in leaving:
                raise FencedError(f"member {member_id!r} is named twice", code=ErrorCode.UNKNOWN_MEMBER_ID)
            leaving[member_id] = None
            errors.append(None)
        except RaftlogError as error:
            errors.append(error)
    if leaving:
        expel(state, draft, list(leaving), topics, now)
    return Decision(draft.records, errors)


def _member_of(static: dict[str, str], leaver: Leaver) -> str:
    return "" if leaver.instance_id is None else static.get(leaver.instance_id, "")


def restart_sessions(state: GroupsState, now: Now) -> None:
    """Give every member a full session, and every rebalance its full time: the previous clock is not known."""
    state.classic_times = {group_id: ClassicTimes() for group_id in state.classic}
    for group_id, times in state.classic_times.items():
        group = state.classic[group_id]
        times.enter(group, now.monotonic_ms)
        for member in group.members.values():
            times.renew(member, now.monotonic_ms)


def examine_classic(
    state: GroupsState, now: Now, group_id: str, *, settings: GroupConfig
) -> tuple[list[LogRecord], int | None]:
    """Return the records for silent members, and for a rebalance that need not wait any longer.

    Without records: the time of the next check, or None if the group needs none.
    """
    group = state.classic.get(group_id)
    if group is None:
        state.classic_times.pop(group_id, None)
        return [], None
    if not group.members:
        return [], None
    times, waits = state.classic_times.get(group_id), state.promises.waits(group_id)
    if times is not None and times.sessions.keys() == group.members.keys():  # None has to be forgotten.
        due_ms = times.due_ms(group, waits=waits)
        if due_ms > now.monotonic_ms:
            return [], due_ms
    draft = ClassicDraft(state, group_id, now, settings)
    if records := _advance(draft, now.monotonic_ms):
        return records, None
    return [], max(draft.times.due_ms(group, waits=waits), now.monotonic_ms + 1)


def _advance(draft: ClassicDraft, now_ms: int) -> list[LogRecord]:
    times, members = draft.times, draft.group.members
    for member_id in times.sessions.keys() - members.keys():
        del times.sessions[member_id]
    late = {
        member_id
        for member_id, member in members.items()
        if now_ms >= times.sessions.setdefault(member_id, now_ms + member.session_timeout_ms)
    }
    if draft.group.phase == "CompletingRebalance" and now_ms >= times.deadline_ms:
        late |= members.keys() - times.synced
    for member_id in sorted(late):
        draft.remove(member_id)
    if late:
        draft.settle()
    else:
        draft.try_complete()
    return draft.records
