"""What a tick does for groups whose time has come: sessions, revocations, and the rounds of classic groups.

A tick does a part, so that it neither keeps the event loop nor fills a batch that the log refuses. The rest stays due,
and the next tick comes soon. Groups are served in the order in which they became due. One whose records the log refuses
goes behind all others, so no group waits for another one for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from raftlog.config import GroupConfig
from raftlog.coordinator.group.checks import CheckKey
from raftlog.coordinator.group.classic_leaving import examine_classic
from raftlog.coordinator.group.conversion import expel
from raftlog.coordinator.group.draft import Draft
from raftlog.coordinator.group.records import ClassicAssigned, ClassicMemberChanged, GroupChanged
from raftlog.coordinator.group.state import GroupsState
from raftlog.coordinator.group.topics import Topics
from raftlog.coordinator.runtime.codec import LogRecord
from raftlog.coordinator.runtime.core import Now

ENOUGH_RECORDS = 400
ENOUGH_BYTES = 128 << 10
"""A tick with so many records or bytes begins no other group."""
MAX_BYTES = 1 << 20
"""A group that would make a batch larger is left for the next tick, which begins with it."""
MAX_EXPELLED = 100
"""The most members that leave one group at once; the next tick removes more."""
MAX_EXAMINED = 1_000


def begin_checks(state: GroupsState, now: Now) -> None:
    """Begin all checks, after the log was loaded and all sessions have begun."""
    deadlines: dict[CheckKey, int] = {key: session.due_ms for key, session in state.sessions.items()}
    for group_id, group in state.classic.items():
        if group.members:
            waits = state.promises.waits(group_id)
            deadlines[group_id, None] = state.classic_times[group_id].due_ms(group, waits=waits)
    state.checks.begin(deadlines, now.monotonic_ms)


def time_outs(state: GroupsState, now: Now, *, topics: Topics, settings: GroupConfig) -> list[LogRecord]:
    """Return the records of some groups that are due: all of a group's decision, or none."""
    checks, now_ms = state.checks, now.monotonic_ms
    checks.ticked_ms = now_ms
    state.promises.expire(now_ms)
    for group_id in state.promises.freed():
        checks.soon((group_id, None))
    batch, size, decided = list[LogRecord](), 0, set[str]()
    later: list[tuple[CheckKey, int]] = []
    for _ in range(MAX_EXAMINED):
        if len(batch) >= ENOUGH_RECORDS or size >= ENOUGH_BYTES or (check := checks.take(now_ms)) is None:
            break
        key = check[2]
        if key[0] in decided:  # What was decided about it is not applied yet.
            later.append((key, now_ms))
            continue
        records, due_ms = _examine(state, now, key, topics, settings)
        size += sum(map(_size, records))
        if batch and key[1] is not None and size > MAX_BYTES:  # Rounds of classic groups write little.
            checks.restore(check)
            break
        if records:
            batch += records
            decided.add(key[0])
            due_ms = now_ms  # If the log refuses the records, the group is decided again.
        if due_ms is not None:
            later.append((key, due_ms))
    for key, due_ms in later:
        checks.by(key, due_ms)
    return batch


def _examine(
    state: GroupsState, now: Now, key: CheckKey, topics: Topics, settings: GroupConfig
) -> tuple[Sequence[LogRecord], int | None]:
    """Return the records for a key; without records: the time of its next check, or None if it needs none."""
    group_id, member_id = key
    if member_id is None:
        return examine_classic(state, now, group_id, settings=settings)
    session, group = state.sessions.get((group_id, member_id)), state.groups.get(group_id)
    if session is None:
        return (), None
    if group is None or member_id not in group.members:
        del state.sessions[group_id, member_id]
        return (), None
    if now.monotonic_ms < session.due_ms:
        return (), session.due_ms
    draft = Draft(group)
    silent = (one for one in group.members if _is_late(state, group_id, one, now))
    expel(state, draft, list(islice(silent, MAX_EXPELLED)), topics, now)
    return draft.records, None


def _is_late(state: GroupsState, group_id: str, member_id: str, now: Now) -> bool:
    session = state.sessions.get((group_id, member_id))
    return session is not None and now.monotonic_ms >= session.due_ms


def _size(record: LogRecord) -> int:
    """Estimate the bytes of a record. `MAX_BYTES` is far below what the log takes."""
    match record:
        case GroupChanged():
            return 200 + sum(80 + len(topic) for topic in record.topics)
        case ClassicMemberChanged():
            return 500 + sum(len(one.name) + len(one.metadata) for one in record.protocols)
        case ClassicAssigned():
            return 300 + len(record.assignment)
    return 300
