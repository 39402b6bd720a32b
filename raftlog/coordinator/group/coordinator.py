"""The group coordinator, run by the shard runtime: replay, session time-outs, expiry."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from raftlog.config import GroupConfig
from raftlog.coordinator.group.classic_leaving import restart_sessions
from raftlog.coordinator.group.kinds import group_tombstones
from raftlog.coordinator.group.offsets import expired_offsets
from raftlog.coordinator.group.records import (
    CODEC,
    ClassicAssigned,
    ClassicMemberChanged,
    OffsetCommitted,
    OffsetPending,
)
from raftlog.coordinator.group.state import NO_ASSIGNMENT, GroupsState, Session
from raftlog.coordinator.group.time_outs import begin_checks, time_outs
from raftlog.coordinator.group.topics import Topics
from raftlog.coordinator.runtime.codec import LogRecord, Tombstone
from raftlog.coordinator.runtime.core import Now

MAX_EXPIRED = 500
"""The most records of one tick that delete what has expired."""
MAX_EXAMINED = 2_000
"""The most groups of one tick that are examined for being unused."""
_SILENT = (OffsetCommitted, OffsetPending)
_OF_MEMBERS = (ClassicMemberChanged, ClassicAssigned)
"""Other members need not know of them before the group's own record, unless they are removed."""


class GroupCoordinator:
    """Implements `coordinator.runtime.Coordinator`.

    Args:
        topics: returns the newest metadata.
        on_changed: called with the id of a group that has changed, except in its offsets: assignments may differ. Not
            called for a member of a classic group that joins.
    """

    codec = CODEC

    def __init__(
        self, settings: GroupConfig, *, topics: Callable[[], Topics], on_changed: Callable[[str], None]
    ) -> None:
        self._settings = settings
        self._topics = topics
        self._on_changed = on_changed

    def new_state(self) -> GroupsState:
        return GroupsState()

    def replay(self, state: GroupsState, record: LogRecord) -> None:
        group_id = state.replay(record)
        kind = record.kind if isinstance(record, Tombstone) else type(record)
        if kind not in _SILENT and (kind not in _OF_MEMBERS or isinstance(record, Tombstone)):
            self._on_changed(group_id)

    def on_loaded(self, state: GroupsState, now: Now) -> None:
        """Give every member a full session, and a full rebalance time-out to members that are revoking partitions."""
        for group in state.groups.values():
            for member in group.members.values():
                session = Session(now.monotonic_ms + member.session_timeout_ms)
                if group.current.get(member.member_id, NO_ASSIGNMENT).state == "unrevoked":
                    session.revoke_by_ms = now.monotonic_ms + member.rebalance_timeout_ms
                state.sessions[group.group_id, member.member_id] = session
        restart_sessions(state, now)
        begin_checks(state, now)
        state.expiry_due_ms = now.monotonic_ms + self._settings.offsets_retention_check_interval_ms

    def on_tick(self, state: GroupsState, now: Now) -> Sequence[LogRecord]:
        """Expel members whose session or revocation timed out, end rounds of classic groups; else expire offsets."""
        records = time_outs(state, now, topics=self._topics(), settings=self._settings)
        if not records:
            records = self._expired(state, now)
            state.finds_expired = len(records) >= MAX_EXPIRED
        return records

    def is_behind(self, state: GroupsState, now: Now) -> bool:
        return state.finds_expired or state.checks.is_due(now.monotonic_ms)

    def _expired(self, state: GroupsState, now: Now) -> list[LogRecord]:
        if state.perhaps_unused:
            return _deletion_of_unused(state, now, self._settings)
        if now.monotonic_ms < state.expiry_due_ms:
            return []
        topics, settings = self._topics(), self._settings
        if not state.unchecked:
            state.unchecked = list(state.offsets)
        records = expired_offsets(state, now, topics=topics, settings=settings, limit=MAX_EXPIRED)
        if state.unchecked or len(records) >= MAX_EXPIRED:
            return records  # The next tick continues.
        state.expiry_due_ms = now.monotonic_ms + settings.offsets_retention_check_interval_ms
        if not records:
            state.perhaps_unused = [*state.groups, *state.classic]
        return records or _deletion_of_unused(state, now, settings)


def _is_unused(state: GroupsState, group_id: str, now: Now, settings: GroupConfig) -> bool:
    """Return whether a group has no members and offsets; one of the consumer protocol, for its retention time."""
    if group_id in state.offsets:
        return False
    if (group := state.groups.get(group_id)) is not None:
        return not group.members and now.wall_ms - group.empty_since_ms > settings.offsets_retention_ms
    return (classic := state.classic.get(group_id)) is not None and not classic.members


def _deletion_of_unused(state: GroupsState, now: Now, settings: GroupConfig) -> list[LogRecord]:
    """Return the tombstones of unused groups; one call examines some groups, the next one continues."""
    records: list[LogRecord] = []
    examined = 0
    while state.perhaps_unused and len(records) < MAX_EXPIRED and examined < MAX_EXAMINED:
        examined += 1
        if _is_unused(state, group_id := state.perhaps_unused.pop(), now, settings):
            records += group_tombstones(state, group_id)
    return records
