"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup: members of groups of the classic protocol."""

from __future__ import annotations

from typing import Final

from raftlog.broker.kafka.call import SOME_ELEMENTS, Handlers, KafkaCall, Served
from raftlog.broker.kafka.error_numbers import coordinator_number
from raftlog.coordinator.group.classic_requests import ClassicJoin, ClassicSync, JoinAnswer, Leaver
from raftlog.errors import RaftlogError
from raftlog.wire.kafka.error_codes import KafkaError
from raftlog.wire.kafka.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from raftlog.wire.kafka.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from raftlog.wire.kafka.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from raftlog.wire.kafka.messages.sync_group import SyncGroupRequest, SyncGroupResponse

_REBALANCE_TIMEOUT = 1
_KNOWN_IDS = 4
"""JoinGroup: dynamic members need an id that the coordinator gave them (KIP-394)."""
_SKIPS = 9
_MANY_LEAVERS = 3
_NAMED_PROTOCOL = 5
"""SyncGroup: the request names the protocol (KIP-559)."""
_LARGE = 500
"""Members in an answer."""


async def handle_join_group(call: KafkaCall, request: JoinGroupRequest) -> JoinGroupResponse:
    """Answer when all members have joined."""
    join = ClassicJoin(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        protocol_type=request.protocol_type,
        protocols=tuple((one.name, one.metadata) for one in request.protocols),
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=(
            request.rebalance_timeout_ms if call.api_version >= _REBALANCE_TIMEOUT else request.session_timeout_ms
        ),
        client_id=call.client_id,
        client_host=call.sender.host or call.connection.peer.address,
        requires_known_id=call.api_version >= _KNOWN_IDS,
        may_skip_assignment=call.api_version >= _SKIPS,
    )
    try:
        call.context.access.require(call.sender, "read", "group", request.group_id)
        outcome = await call.context.groups.classic.join(
            request.group_id,
            join,
            timeout_ms=timeout_ms(call),
            sees=lambda topic: call.context.access.sees(call.sender, "topic", topic),
            on_wait=call.on_wait,
        )
    except RaftlogError as error:
        return JoinGroupResponse(error_code=coordinator_number(error), member_id=request.member_id)
    if outcome.answer is None:
        return JoinGroupResponse(error_code=KafkaError.MEMBER_ID_REQUIRED, member_id=outcome.member_id)
    call.is_large = len(outcome.answer.members) > _LARGE
    return _joined(outcome.member_id, outcome.answer)


def _joined(member_id: str, answer: JoinAnswer) -> JoinGroupResponse:
    members = [
        JoinGroupResponseMember(member_id=one.member_id, group_instance_id=one.instance_id, metadata=one.metadata)
        for one in answer.members
    ]
    return JoinGroupResponse(
        generation_id=answer.generation,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol,
        leader=answer.leader,
        skip_assignment=answer.skip_assignment,
        member_id=member_id,
        members=members,
    )


async def handle_sync_group(call: KafkaCall, request: SyncGroupRequest) -> SyncGroupResponse:
    """Answer when the leader has assigned."""
    names = (request.protocol_type, request.protocol_name)
    if call.api_version >= _NAMED_PROTOCOL and None in names:
        return SyncGroupResponse(error_code=KafkaError.INCONSISTENT_GROUP_PROTOCOL)
    try:
        call.context.access.require(call.sender, "read", "group", request.group_id)
        answer = await call.context.groups.classic.sync(
            request.group_id, _sync_of(request), timeout_ms=timeout_ms(call), on_wait=call.on_wait
        )
    except RaftlogError as error:
        number = coordinator_number(error)
        # As in Kafka: no client expects that a group is loaded here, and each joins again after a rebalance.
        is_loading = number == KafkaError.COORDINATOR_LOAD_IN_PROGRESS
        return SyncGroupResponse(error_code=KafkaError.REBALANCE_IN_PROGRESS if is_loading else number)
    return SyncGroupResponse(
        protocol_type=answer.protocol_type, protocol_name=answer.protocol, assignment=answer.assignment
    )


def _sync_of(request: SyncGroupRequest) -> ClassicSync:
    """Return what a member requests, and take the assignments from its message: they may be large."""
    assignments = tuple((one.member_id, one.assignment) for one in request.assignments)
    request.assignments = []
    return ClassicSync(
        member_id=request.member_id,
        generation=request.generation_id,
        instance_id=request.group_instance_id,
        protocol_type=request.protocol_type,
        protocol=request.protocol_name,
        assignments=assignments,
    )


async def handle_heartbeat(call: KafkaCall, request: HeartbeatRequest) -> HeartbeatResponse:
    """Keep a member's session."""
    try:
        call.context.access.require(call.sender, "read", "group", request.group_id)
        await call.context.groups.classic.heartbeat(
            request.group_id,
            request.member_id,
            request.generation_id,
            request.group_instance_id,
            timeout_ms=timeout_ms(call),
        )
    except RaftlogError as error:
        number = coordinator_number(error)
        # As in Kafka: all sessions begin again once the group is loaded, and aiokafka ends at this error.
        is_loading = number == KafkaError.COORDINATOR_LOAD_IN_PROGRESS
        return HeartbeatResponse(error_code=KafkaError.NONE if is_loading else number)
    return HeartbeatResponse()


async def handle_leave_group(call: KafkaCall, request: LeaveGroupRequest) -> LeaveGroupResponse:
    """Remove members."""
    several = call.api_version >= _MANY_LEAVERS
    leavers = (
        [Leaver(member_id=one.member_id, instance_id=one.group_instance_id) for one in request.members]
        if several
        else [Leaver(member_id=request.member_id)]
    )
    try:
        call.context.access.require(call.sender, "read", "group", request.group_id)
        errors = await call.context.groups.classic.leave(request.group_id, leavers, timeout_ms=timeout_ms(call))
    except RaftlogError as error:
        return LeaveGroupResponse(error_code=coordinator_number(error))
    numbers = [coordinator_number(error) for error in errors]
    if not several:
        return LeaveGroupResponse(error_code=numbers[0])
    members = [
        MemberResponse(member_id=one.member_id, group_instance_id=one.instance_id, error_code=number)
        for one, number in zip(leavers, numbers, strict=True)
    ]
    return LeaveGroupResponse(members=members)


def timeout_ms(call: KafkaCall) -> int:
    """Return how long a decision of a coordinator may take."""
    return call.context.config.broker.request_timeout_ms


HANDLERS: Final[Handlers] = {
    11: handle_join_group,
    12: handle_heartbeat,
    13: handle_leave_group,
    14: Served(handle=handle_sync_group, most_elements=SOME_ELEMENTS),
}
