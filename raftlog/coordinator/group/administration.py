"""Listing, describing and deleting groups."""

from __future__ import annotations

from itertools import islice

from raftlog.coordinator.group.classic_state import ClassicGroup
from raftlog.coordinator.group.classic_views import ClassicDescription, described, described_plainly
from raftlog.coordinator.group.draft import assignor_of
from raftlog.coordinator.group.kinds import group_tombstones
from raftlog.coordinator.group.offsets import OFFSETS_AT_ONCE
from raftlog.coordinator.group.records import OffsetCommitted
from raftlog.coordinator.group.state import NO_ASSIGNMENT, Group, GroupsState
from raftlog.coordinator.runtime.codec import Tombstone
from raftlog.coordinator.runtime.core import Decision, Now
from raftlog.errors import ErrorCode, InvalidRequestError, NotFoundError
from raftlog.model import BrokerId
from raftlog.wire.groups import GroupDescription, GroupListing, MemberDescription, by_topic


def group_ids(state: GroupsState) -> list[str]:
    """Return the id of every group of a shard, including groups that only have offsets; in no order."""
    return list({*state.groups, *state.classic, *state.offsets})


def list_groups(state: GroupsState, broker_id: BrokerId) -> list[GroupListing]:
    """Return every group of a shard."""
    return [listing_of(state, group_id, broker_id) for group_id in sorted(group_ids(state))]


def listing_of(state: GroupsState, group_id: str, broker_id: BrokerId) -> GroupListing:
    """Return a group's entry in a listing."""
    group = state.groups.get(group_id) or _classic(state, group_id)
    return GroupListing(
        group_id=group.group_id,
        phase=group.phase,
        members=len(group.members),
        coordinator=broker_id,
        kind="classic" if isinstance(group, ClassicGroup) else "consumer",
        protocol_type=group.protocol_type if isinstance(group, ClassicGroup) else "consumer",
    )


def _classic(state: GroupsState, group_id: str) -> ClassicGroup:
    """Return a classic group. A group that only has offsets is one, as in Kafka."""
    return state.classic.get(group_id) or ClassicGroup(group_id)


def decide_description(state: GroupsState, _: Now, group_id: str, broker_id: BrokerId) -> Decision[GroupDescription]:
    """Describe one group.

    Raises:
        NotFoundError: GROUP_ID_NOT_FOUND.
    """
    group = _require_group(state, group_id)
    if isinstance(group, ClassicGroup):
        return Decision((), described_plainly(group, broker_id))
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
            rack=member.rack,
            kind="classic" if member.member_id in group.classic else "consumer",
        )
        for _, member in sorted(group.members.items())
    )
    described = GroupDescription(
        group_id=group_id,
        phase=group.phase,
        epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor=assignor_of(group),
        coordinator=broker_id,
        topics={topic: known.partitions for topic, known in group.topics.items()},
        members=members,
    )
    return Decision((), described)


def decide_classic_description(state: GroupsState, _: Now, group_id: str) -> Decision[ClassicDescription]:
    """Describe a classic group in the terms of its protocol.

    Raises:
        NotFoundError: GROUP_ID_NOT_FOUND, also for a group of the consumer protocol.
    """
    group = _require_group(state, group_id)
    if not isinstance(group, ClassicGroup):
        raise NotFoundError(f"group {group_id!r} is not a classic group", code=ErrorCode.GROUP_ID_NOT_FOUND)
    return Decision((), described(group))


def decide_deletion(state: GroupsState, _: Now, group_id: str) -> Decision[int]:
    """Delete a group without members, with its offsets; the response is 0 once none is left.

    One decision deletes at most `OFFSETS_AT_ONCE`, the last one the group itself.

    Raises:
        NotFoundError: GROUP_ID_NOT_FOUND.
        InvalidRequestError: NON_EMPTY_GROUP.
    """
    group = _require_group(state, group_id)
    if group.members:
        raise InvalidRequestError(
            f"group {group_id!r} has {len(group.members)} members; stop them first", code=ErrorCode.NON_EMPTY_GROUP
        )
    if group_id in state.unstable:
        raise InvalidRequestError(
            f"an open transaction may commit offsets of group {group_id!r}; send the request again when it has ended",
            code=ErrorCode.NON_EMPTY_GROUP,
        )
    known = state.offsets.get(group_id, {})
    deleted = [Tombstone(OffsetCommitted, (group_id, *each)) for each in islice(known, OFFSETS_AT_ONCE)]
    left = len(known) - len(deleted)
    return Decision((*deleted, *(() if left else group_tombstones(state, group_id))), left)


def _require_group(state: GroupsState, group_id: str) -> Group | ClassicGroup:
    group = state.groups.get(group_id)
    if group is not None:
        return group
    if group_id in state.offsets or group_id in state.classic:
        return _classic(state, group_id)
    raise NotFoundError(f"there is no group {group_id!r}", code=ErrorCode.GROUP_ID_NOT_FOUND)
