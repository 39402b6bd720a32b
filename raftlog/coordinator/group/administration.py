"""Listing, describing and deleting groups."""

from __future__ import annotations

from typing import cast

from raftlog.coordinator.group.draft import assignor_of
from raftlog.coordinator.group.records import GroupChanged, OffsetCommitted, TargetEpochChanged
from raftlog.coordinator.group.state import NO_ASSIGNMENT, Group, GroupsState
from raftlog.coordinator.runtime.codec import LogRecord, Tombstone
from raftlog.coordinator.runtime.core import Decision, Now
from raftlog.errors import ErrorCode, InvalidRequestError, NotFoundError
from raftlog.model import BrokerId
from raftlog.wire.groups import Assignor, GroupDescription, GroupListing, MemberDescription, by_topic


def list_groups(state: GroupsState, broker_id: BrokerId) -> list[GroupListing]:
    """Return every group of a shard, including groups that only have offsets."""
    ids = sorted({*state.groups, *state.offsets})
    groups = [state.groups.get(group_id) or Group(group_id) for group_id in ids]
    return [
        GroupListing(group_id=group.group_id, phase=group.phase, members=len(group.members), coordinator=broker_id)
        for group in groups
    ]


def decide_description(state: GroupsState, _: Now, group_id: str, broker_id: BrokerId) -> Decision[GroupDescription]:
    """Describe one group.

    Raises:
        NotFoundError: GROUP_ID_NOT_FOUND.
    """
    group = _require_group(state, group_id)
    members = tuple(
        MemberDescription(
            member_id=member.member_id,
            instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            member_epoch=group.current.get(member.member_id, NO_ASSIGNMENT).epoch,
            topics=member.topics,
            pattern=member.pattern,
            assignment=by_topic(group.current.get(member.member_id, NO_ASSIGNMENT).assigned),
            target=by_topic(group.target.get(member.member_id, frozenset())),
        )
        for _, member in sorted(group.members.items())
    )
    described = GroupDescription(
        group_id=group_id,
        phase=group.phase,
        epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor=cast("Assignor", assignor_of(group)),
        coordinator=broker_id,
        topics={topic: known.partitions for topic, known in group.topics.items()},
        members=members,
    )
    return Decision((), described)


def decide_deletion(state: GroupsState, _: Now, group_id: str) -> Decision[None]:
    """Delete a group without members, with its offsets.

    Raises:
        NotFoundError: GROUP_ID_NOT_FOUND.
        InvalidRequestError: NON_EMPTY_GROUP.
    """
    group = _require_group(state, group_id)
    if group.members:
        raise InvalidRequestError(
            f"group {group_id!r} has {len(group.members)} members; stop them first", code=ErrorCode.NON_EMPTY_GROUP
        )
    if any(key[0] == group_id for pending in state.pending.values() for key in pending):
        raise InvalidRequestError(
            f"an open transaction may commit offsets of group {group_id!r}; send the request again when it has ended",
            code=ErrorCode.NON_EMPTY_GROUP,
        )
    records: list[LogRecord] = [
        Tombstone(OffsetCommitted, (group_id, *partition)) for partition in state.offsets.get(group_id, {})
    ]
    return Decision((*records, *group_tombstones(state, group_id)), None)


def group_tombstones(state: GroupsState, group_id: str) -> list[LogRecord]:
    """Return the tombstones of a group without members."""
    if group_id not in state.groups:
        return []
    return [Tombstone(TargetEpochChanged, (group_id,)), Tombstone(GroupChanged, (group_id,))]


def _require_group(state: GroupsState, group_id: str) -> Group:
    group = state.groups.get(group_id)
    if group is not None:
        return group
    if group_id in state.offsets:
        return Group(group_id)
    raise NotFoundError(f"there is no group {group_id!r}", code=ErrorCode.GROUP_ID_NOT_FOUND)
