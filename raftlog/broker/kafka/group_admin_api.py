"""DescribeGroups, ListGroups, DeleteGroups and ConsumerGroupDescribe: groups as administrators see them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from raftlog.broker.kafka.call import Handlers, KafkaCall, Served
from raftlog.broker.kafka.error_numbers import error_number
from raftlog.broker.kafka.groups_api import timeout_ms
from raftlog.broker.kafka.topics import authorized_operations, uuid_of
from raftlog.coordinator.group.classic_views import ClassicDescription
from raftlog.errors import ErrorCode, InvalidRequestError, NotFoundError, RaftlogError
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.runtime import in_slices
from raftlog.wire.groups import GroupDescription, MemberDescription, TopicPartitions
from raftlog.wire.kafka.messages import consumer_group_describe as consumer_groups
from raftlog.wire.kafka.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from raftlog.wire.kafka.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from raftlog.wire.kafka.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from raftlog.wire.kafka.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

_MAX_GROUPS = 1_000
"""In one request: each one waits until its state is replicated."""
_LARGE = 500
_MEMBER_BYTES, _TOPIC_BYTES, _PARTITION_BYTES = 300, 100, 4
"""About what a member, a topic and a partition take in an answer."""
_FIRST_WITH_ERRORS = 6
"""DescribeGroups: earlier versions describe a group that does not exist as a dead one (KIP-1043)."""
_CLASSIC_MEMBER, _CONSUMER_MEMBER = 0, 1
"""The member types: a group of the consumer protocol that is being converted has both."""


async def handle_describe_groups(call: KafkaCall, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    """Describe classic groups, with the bytes that their members sent."""
    require_few(request.groups)
    found = [
        await _classic(call, group_id, request.include_authorized_operations)
        async for group_id in in_slices(dict.fromkeys(request.groups), 1)  # Each may take 15 ms.
    ]
    return DescribeGroupsResponse(groups=found)


async def _classic(call: KafkaCall, group_id: str, with_operations: bool) -> DescribedGroup:
    try:
        call.context.access.require(call.sender, "describe", "group", group_id)
        seen = await call.context.groups.classic.describe(group_id, timeout_ms=timeout_ms(call))
        call.hold_answer(sum(_MEMBER_BYTES + len(one.metadata) + len(one.assignment) for one in seen.members))
    except NotFoundError as error:
        if call.api_version < _FIRST_WITH_ERRORS:
            return DescribedGroup(group_id=group_id, group_state="Dead")
        number = error_number(error, "group")
        return DescribedGroup(group_id=group_id, error_code=number, error_message=error.message, group_state="Dead")
    except RaftlogError as error:
        number = error_number(error, "group")
        text = error.message if call.api_version >= _FIRST_WITH_ERRORS else None
        return DescribedGroup(group_id=group_id, error_code=number, error_message=text)
    described = _described(seen)
    if with_operations:
        described.authorized_operations = authorized_operations(call, "group", group_id)
    return described


def _described(seen: ClassicDescription) -> DescribedGroup:
    members = [
        DescribedGroupMember(
            member_id=one.member.member_id,
            group_instance_id=one.member.instance_id,
            client_id=one.member.client_id,
            client_host=host(one.member.client_host),
            member_metadata=one.metadata,
            member_assignment=one.assignment,
        )
        for one in seen.members
    ]
    return DescribedGroup(
        group_id=seen.group_id,
        group_state=seen.phase,
        protocol_type=seen.protocol_type,
        protocol_data=seen.protocol,
        members=members,
    )


def host(address: str) -> str:
    """Return a member's address as Kafka's tools expect it."""
    return f"/{address}" if address else ""


async def handle_list_groups(call: KafkaCall, request: ListGroupsRequest) -> ListGroupsResponse:
    """List the groups that this broker coordinates; filters compare without case (KIP-518, KIP-848)."""
    states, kinds = ({text.lower() for text in some} for some in (request.states_filter, request.types_filter))
    listed, _ = await call.context.groups.listed(sees=lambda name: call.context.access.sees(call.sender, "group", name))
    found = [
        ListedGroup(group_id=one.group_id, protocol_type=one.protocol_type, group_state=one.phase, group_type=one.kind)
        async for one in in_slices(listed, 512)
        if (not states or one.phase.lower() in states) and (not kinds or one.kind in kinds)
    ]
    call.is_large = len(found) > _LARGE
    return ListGroupsResponse(groups=found)


async def handle_delete_groups(call: KafkaCall, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    """Delete groups without members, with their offsets."""
    require_few(request.groups_names)
    results = []
    async for group_id in in_slices(dict.fromkeys(request.groups_names)):
        number = 0
        try:
            call.context.access.require(call.sender, "delete", "group", group_id)
            call.acts = True
            await call.context.groups.delete(group_id, timeout_ms=timeout_ms(call))
        except RaftlogError as error:
            number = error_number(error, "group")
        results.append(DeletableGroupResult(group_id=group_id, error_code=number))
    return DeleteGroupsResponse(results=results)


async def handle_consumer_group_describe(
    call: KafkaCall, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse:
    """Describe groups of the consumer protocol (KIP-848)."""
    require_few(request.group_ids)
    found = [
        await _consumer(call, group_id, request.include_authorized_operations)
        async for group_id in in_slices(dict.fromkeys(request.group_ids))
    ]
    return ConsumerGroupDescribeResponse(groups=found)


async def _consumer(call: KafkaCall, group_id: str, with_operations: bool) -> consumer_groups.DescribedGroup:
    try:
        call.context.access.require(call.sender, "describe", "group", group_id)
        seen = await call.context.groups.describe(group_id, timeout_ms=timeout_ms(call))
        if seen.kind != "consumer":
            raise NotFoundError(f"group {group_id!r} is a classic group", code=ErrorCode.GROUP_ID_NOT_FOUND)
        call.hold_answer(sum(map(_member_bytes, seen.members)))
    except RaftlogError as error:
        return consumer_groups.DescribedGroup(
            group_id=group_id, error_code=error_number(error, "group"), error_message=error.message
        )
    described = _plainly(call, seen)
    if with_operations:
        described.authorized_operations = authorized_operations(call, "group", group_id)
    return described


def _member_bytes(member: MemberDescription) -> int:
    parts = (*member.assignment, *member.target)
    numbers = sum(len(part.partitions) for part in parts)
    return _MEMBER_BYTES + _TOPIC_BYTES * (len(member.topics) + len(parts)) + _PARTITION_BYTES * numbers


def _plainly(call: KafkaCall, seen: GroupDescription) -> consumer_groups.DescribedGroup:
    image = call.context.image
    members = [
        consumer_groups.Member(
            member_id=one.member_id,
            instance_id=one.instance_id,
            rack_id=one.rack or None,
            member_epoch=one.member_epoch,
            client_id=one.client_id,
            client_host=host(one.client_host),
            subscribed_topic_names=list(one.topics),
            subscribed_topic_regex=one.pattern or None,
            assignment=_assignment(call, image, one.assignment),
            target_assignment=_assignment(call, image, one.target),
            member_type=_CONSUMER_MEMBER if one.kind == "consumer" else _CLASSIC_MEMBER,
        )
        for one in seen.members
    ]
    return consumer_groups.DescribedGroup(
        group_id=seen.group_id,
        group_state=seen.phase,
        group_epoch=seen.epoch,
        assignment_epoch=seen.assignment_epoch,
        assignor_name=seen.assignor,
        members=members,
    )


def _assignment(call: KafkaCall, image: MetadataImage, parts: Iterable[TopicPartitions]) -> consumer_groups.Assignment:
    """Return partitions of topics that exist, and that the sender may describe."""
    known = [
        consumer_groups.TopicPartitions(
            topic_id=uuid_of(found.topic_id), topic_name=part.topic, partitions=list(part.partitions)
        )
        for part in parts
        if (found := image.topic(part.topic)) is not None and call.context.access.sees(call.sender, "topic", part.topic)
    ]
    return consumer_groups.Assignment(topic_partitions=known)


def require_few(groups: Iterable[Any]) -> None:
    """Raise if a request names too many groups.

    Raises:
        InvalidRequestError: it does.
    """
    if (count := len(list(groups))) > _MAX_GROUPS:
        raise InvalidRequestError(f"expected at most {_MAX_GROUPS} groups, received {count}")


def _failed_describe(_: KafkaCall, request: DescribeGroupsRequest, number: int) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(groups=[DescribedGroup(group_id=one, error_code=number) for one in request.groups])


def _failed_delete(_: KafkaCall, request: DeleteGroupsRequest, number: int) -> DeleteGroupsResponse:
    results = [DeletableGroupResult(group_id=one, error_code=number) for one in request.groups_names]
    return DeleteGroupsResponse(results=results)


def _failed_consumer(_: KafkaCall, request: ConsumerGroupDescribeRequest, number: int) -> ConsumerGroupDescribeResponse:
    groups = [consumer_groups.DescribedGroup(group_id=one, error_code=number) for one in request.group_ids]
    return ConsumerGroupDescribeResponse(groups=groups)


HANDLERS: Final[Handlers] = {
    15: Served(handle=handle_describe_groups, failed=_failed_describe),
    16: handle_list_groups,
    42: Served(handle=handle_delete_groups, failed=_failed_delete),
    69: Served(handle=handle_consumer_group_describe, failed=_failed_consumer),
}
