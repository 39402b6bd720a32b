"""A draft of a decision about a classic group: its records so far, the group after them, and the rounds of a rebalance.

- Preparing: a rebalance waits until all members have joined, at most the longest rebalance time-out. Members that did
  not join are removed then, apart from static ones. A new group waits a little for more members (KIP-134).
- Completing: the members wait for the leader's assignments, at most the same time. Members that did not send SyncGroup
  are removed then, so a leader that never assigns loses its place.
"""

from __future__ import annotations

from raftlog.config import GroupConfig
from raftlog.coordinator.group.classic_protocols import chosen_protocol
from raftlog.coordinator.group.classic_state import ClassicGroup, ClassicMember, ClassicTimes
from raftlog.coordinator.group.kinds import group_tombstones
from raftlog.coordinator.group.records import ClassicAssigned, ClassicGroupChanged, ClassicMemberChanged
from raftlog.coordinator.group.state import GroupsState
from raftlog.coordinator.runtime.codec import LogRecord, Tombstone
from raftlog.coordinator.runtime.core import Now


class ClassicDraft:
    """Collects records for one group, and applies them to a copy.

    Soft state changes at once, also if the records cannot be appended: then members send their requests again.
    """

    def __init__(self, state: GroupsState, group_id: str, now: Now, settings: GroupConfig) -> None:
        self.group = state.classic.get(group_id) or ClassicGroup(group_id)
        self.records: list[LogRecord] = []
        self._state, self._now, self._settings = state, now, settings
        if group_id not in state.classic_times:  # If no record of the group is appended, the next tick removes them.
            state.classic_times[group_id] = ClassicTimes()
            self._check_soon()
        self.times = state.classic_times[group_id]
        self._enter()

    def put(self, record: LogRecord) -> None:
        """Add a record, and apply it to the copy."""
        if not self.records:
            self.group = self.group.copy()
            if not self.group.has_record:  # It may be a group without members of the other kind.
                self.records += group_tombstones(self._state, self.group.group_id)
        self.records.append(record)
        self.group.replay(record)

    def set_member(self, member: ClassicMember) -> None:
        """Add a member, or change it."""
        if self.group.members.get(member.member_id) != member:
            self.put(member.record(self.group.group_id))

    def set_assignment(self, member_id: str, assignment: str) -> None:
        """Give a member another assignment, in base64."""
        if self.group.assignments.get(member_id) != assignment:
            self.put(ClassicAssigned(group_id=self.group.group_id, member_id=member_id, assignment=assignment))

    def remove(self, member_id: str) -> None:
        """Remove a member. The caller settles the group afterwards."""
        key = (self.group.group_id, member_id)
        self.put(Tombstone(ClassicMemberChanged, key))
        if member_id in self.group.assignments:
            self.put(Tombstone(ClassicAssigned, key))

    def settle(self) -> None:
        """Rebalance after members were removed."""
        if not self.group.members:
            self.empty()
        elif self.group.phase == "PreparingRebalance":
            self.try_complete()
        else:
            self.prepare(self.group.protocol_type)

    def empty(self) -> None:
        """Note that the last member has left. It is another generation: requests of former members are late."""
        self.put(
            ClassicGroupChanged(
                group_id=self.group.group_id,
                phase="Empty",
                generation=self.group.generation + 1,
                protocol_type=self.group.protocol_type,
                empty_since_ms=self._now.wall_ms,
            )
        )

    def prepare(self, protocol_type: str) -> None:
        """Begin a rebalance, if none has begun."""
        group = self.group
        if group.phase == "PreparingRebalance":
            return
        was_empty = group.phase == "Empty"
        self.put(
            ClassicGroupChanged(
                group_id=group.group_id,
                phase="PreparingRebalance",
                generation=group.generation,
                protocol_type=protocol_type,
                protocol=group.protocol,
                leader=group.leader,
            )
        )
        self._enter()
        if was_empty:
            self.times.delayed_until_ms = self._now.monotonic_ms

    def join(self, member_id: str, ticket: int, *, is_new: bool = False) -> None:
        """Note that a member has joined the rebalance.

        Args:
            ticket: the number of its request.
        """
        times, now_ms = self.times, self._now.monotonic_ms
        times.joined[member_id] = ticket
        times.renew(self.group.members[member_id], now_ms)
        self._check_soon()
        if is_new and times.delayed_until_ms is not None:
            delayed_ms = now_ms + self._settings.initial_rebalance_delay_ms
            times.delayed_until_ms = min(max(times.delayed_until_ms, delayed_ms), times.deadline_ms)

    def renew(self, member_id: str) -> None:
        """Begin a member's session again."""
        self.times.renew(self.group.members[member_id], self._now.monotonic_ms)
        self._state.checks.by((self.group.group_id, None), self.times.sessions[member_id])

    def _enter(self) -> None:
        """Begin the group's round if it is another one."""
        if self.times.round != self.group.round:
            self.times.enter(self.group, self._now.monotonic_ms)
            self._check_soon()

    def _check_soon(self) -> None:
        """Let the next tick examine the group: it may be due earlier than before."""
        self._state.checks.soon((self.group.group_id, None))

    def try_complete(self) -> None:
        """Begin the next generation if the rebalance need not wait any longer."""
        times, now_ms = self.times, self._now.monotonic_ms
        if self.group.phase != "PreparingRebalance":
            return
        if times.delayed_until_ms is not None:
            is_due = now_ms >= times.delayed_until_ms
        else:
            has_all = all(member_id in times.joined for member_id in self.group.members)
            is_due = now_ms >= times.deadline_ms or (has_all and not self._state.promises.waits(self.group.group_id))
        if is_due:
            self._complete()

    def _complete(self) -> None:
        times, now_ms = self.times, self._now.monotonic_ms
        members = self.group.members
        for member in [one for one in members.values() if one.member_id not in times.joined]:
            if member.instance_id is None:
                self.remove(member.member_id)
        group = self.group
        joined = [member_id for member_id in times.joined if member_id in group.members]
        if not group.members:
            self.empty()
            return
        if not joined:  # Static members only, and all are away: their sessions decide.
            times.deadline_ms = now_ms + group.rebalance_timeout_ms
            self._check_soon()
            return
        leader = group.leader if group.leader in joined else joined[0]
        self.put(
            group.record(
                phase="CompletingRebalance",
                generation=group.generation + 1,
                protocol=chosen_protocol(group.members.values()),
                leader=leader,
            )
        )
        # Sessions go on: those of members whose requests wait begin again when these are answered.
