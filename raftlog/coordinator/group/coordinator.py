"""The group coordinator, run by the shard runtime: replay, session time-outs, expiry."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from raftlog.config import GroupConfig
from raftlog.coordinator.group.classic_leaving import advance_rounds, restart_sessions
from raftlog.coordinator.group.conversion import expel
from raftlog.coordinator.group.draft import Draft
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
from raftlog.coordinator.group.topics import Topics
from raftlog.coordinator.runtime.codec import LogRecord, Tombstone
from raftlog.coordinator.runtime.core import Now

MAX_EXPIRED = 5_000
"""The most records of one tick."""
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
        state.expiry_due_ms = now.monotonic_ms + self._settings.offsets_retention_check_interval_ms

    def on_tick(self, state: GroupsState, now: Now) -> Sequence[LogRecord]:
        """Expel members whose session or revocation timed out, end rounds of classic groups; else expire offsets."""
        late: dict[str, list[str]] = defaultdict(list)
        for (group_id, member_id), session in list(state.sessions.items()):
            group = state.groups.get(group_id)
            if group is None or member_id not in group.members:
                del state.sessions[group_id, member_id]
            elif now.monotonic_ms >= min(session.ends_at_ms, session.revoke_by_ms or session.ends_at_ms):
                late[group_id].append(member_id)
        # First: it forgets the times of groups that are not classic ones, and a downgrade begins such times.
        records = advance_rounds(state, now, settings=self._settings, limit=MAX_EXPIRED)
        for group_id, members in late.items():
            draft = Draft(state.groups[group_id])
            expel(state, draft, members, self._topics(), now)
            records += draft.records
        return records or self._expired(state, now)

    def _expired(self, state: GroupsState, now: Now) -> list[LogRecord]:
        if now.monotonic_ms < state.expiry_due_ms:
            return []
        topics, settings = self._topics(), self._settings
        if not state.unchecked:
            state.unchecked = list(state.offsets)
        records = expired_offsets(state, now, topics=topics, settings=settings, limit=MAX_EXPIRED)
        if state.unchecked or len(records) >= MAX_EXPIRED:
            return records  # The next tick continues.
        state.expiry_due_ms = now.monotonic_ms + settings.offsets_retention_check_interval_ms
        return records or self._unused_groups(state, now)

    def _unused_groups(self, state: GroupsState, now: Now) -> list[LogRecord]:
        """Return the tombstones of groups without members and offsets, once their retention time has passed."""
        records: list[LogRecord] = []
        for group_id, group in state.groups.items():
            since = group.empty_since_ms if not group.members else now.wall_ms
            if group_id not in state.offsets and now.wall_ms - since > self._settings.offsets_retention_ms:
                records += group_tombstones(state, group_id)
        for group_id, classic in state.classic.items():
            if not classic.members and group_id not in state.offsets:
                records += group_tombstones(state, group_id)
        return records[:MAX_EXPIRED]
