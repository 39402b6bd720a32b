"""A group is of the consumer protocol (KIP-848), or of Kafka's classic one.

An empty group changes its kind when a member of the other protocol joins; its committed offsets stay. `conversion`
changes groups that have members.
"""

from __future__ import annotations

from raftlog.coordinator.group.records import ClassicGroupChanged, GroupChanged, TargetEpochChanged
from raftlog.coordinator.group.state import GroupsState
from raftlog.coordinator.runtime.codec import LogRecord, Tombstone


def group_tombstones(state: GroupsState, group_id: str) -> list[LogRecord]:
    """Return the tombstones of a group without members, of either kind."""
    records: list[LogRecord] = []
    if group_id in state.groups:
        records += [Tombstone(TargetEpochChanged, (group_id,)), Tombstone(GroupChanged, (group_id,))]
    if group_id in state.classic:
        records.append(Tombstone(ClassicGroupChanged, (group_id,)))
    return records
