"""What a tick has to do, found by looking at each group of the shard."""

from __future__ import annotations

from copy import deepcopy

from group_support import Shard

from raftlog.config import GroupConfig
from raftlog.coordinator.group.classic_draft import ClassicDraft
from raftlog.coordinator.group.classic_leaving import _advance
from raftlog.coordinator.group.conversion import expel
from raftlog.coordinator.group.draft import Draft
from raftlog.coordinator.group.records import ClassicMemberChanged, MemberChanged
from raftlog.coordinator.group.state import GroupsState
from raftlog.coordinator.group.topics import Topics
from raftlog.coordinator.runtime import LogRecord, Now, Tombstone


def group_of(record: LogRecord) -> str:
    return record.key[0] if isinstance(record, Tombstone) else record.group_id  # type: ignore[attr-defined]


def time_outs_of_all(state: GroupsState, now: Now, topics: Topics, settings: GroupConfig) -> list[LogRecord]:
    """Return the records of all time-outs, without the checks of the state, which stays as it is."""
    state = deepcopy(state)
    state.promises.expire(now.monotonic_ms)
    found: list[LogRecord] = []
    for group_id, classic in list(state.classic.items()):
        if classic.members:
            found += _advance(ClassicDraft(state, group_id, now, settings), now.monotonic_ms)
    for group_id, group in list(state.groups.items()):
        late = []
        for member_id in group.members:
            session = state.sessions.get((group_id, member_id))
            ends = [] if session is None else [session.ends_at_ms, session.revoke_by_ms or session.ends_at_ms]
            if session is not None and now.monotonic_ms >= min(ends):
                late.append(member_id)
        if late:
            draft = Draft(group)
            expel(state, draft, late, topics, now)
            found += draft.records
    return found


def _is_of_time(record: LogRecord) -> bool:
    """Return whether a record cannot be one of expiry, which writes tombstones of groups and of offsets."""
    return not isinstance(record, Tombstone) or record.kind in (ClassicMemberChanged, MemberChanged)


def compared_tick(shard: Shard) -> list[LogRecord]:
    """Return the records of a tick; they are those that all time-outs have, whatever the checks say."""
    state = shard.state
    expected = time_outs_of_all(state, shard.now, shard.topics, shard.settings)
    records = list(shard.coordinator.on_tick(state, shard.now))
    if expected or any(map(_is_of_time, records)):  # Otherwise the tick deletes what has expired.
        assert sorted(map(repr, records)) == sorted(map(repr, expected))
    for group_id, member_id in state.sessions:
        assert group_id in state.groups
        assert member_id in state.groups[group_id].members
    assert state.classic_times.keys() - state.classic.keys() <= {group_of(record) for record in records}
    return records
