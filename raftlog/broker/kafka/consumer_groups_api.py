"""ConsumerGroupHeartbeat: members of groups of the consumer protocol (KIP-848), which raftlog's own clients use.

What differs from Kafka: an answer has the assignment each time, and not only when it has changed.
"""

from __future__ import annotations

from typing import Final, cast
from uuid import uuid4

from raftlog.broker.kafka.call import SOME_ELEMENTS, Handlers, KafkaCall, Served
from raftlog.broker.kafka.error_numbers import error_number
from raftlog.broker.kafka.groups_api import timeout_ms
from raftlog.broker.kafka.topics import topic_id_of, uuid_of
from raftlog.coordinator.group.assignors import ASSIGNORS
from raftlog.errors import ErrorCode, InvalidRequestError, RaftlogError
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.runtime import in_slices
from raftlog.wire.groups import (
    JOIN_EPOCH,
    Assignor,
    GroupHeartbeatRequest,
    GroupHeartbeatResponse,
    TopicPartitions,
)
from raftlog.wire.kafka.error_codes import KafkaError
from raftlog.wire.kafka.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)

_LARGE = 500
_SLICE = 256
_OF_COORDINATORS: Final = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
)
"""The retriable errors after which a member goes on."""


async def handle_consumer_group_heartbeat(
    call: KafkaCall, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse:
    """Join, stay or leave."""
    access = call.context.access
    try:
        access.require(call.sender, "read", "group", request.group_id)
        async for topic in in_slices(request.subscribed_topic_names or (), _SLICE):
            if not access.may(call.sender, "describe", "topic", topic):
                return _failed(
                    request, KafkaError.TOPIC_AUTHORIZATION_FAILED, f"the sender may not describe {topic!r:.300}"
                )
        response = await call.context.groups.heartbeat(
            request.group_id,
            _plain(call, request, await _owned(call.context.image, request)),
            client_host=call.sender.host or call.connection.peer.address,
            timeout_ms=timeout_ms(call),
        )
    except RaftlogError as error:
        return _failed(request, _number(error), error.message)
    answer = ConsumerGroupHeartbeatResponse(
        member_id=response.member_id,
        member_epoch=response.member_epoch,
        heartbeat_interval_ms=response.heartbeat_interval_ms,
    )
    if request.member_epoch >= JOIN_EPOCH:
        answer.assignment = await _assignment(call, response)
    return answer


def _plain(
    call: KafkaCall, request: ConsumerGroupHeartbeatRequest, owned: tuple[TopicPartitions, ...] | None
) -> GroupHeartbeatRequest:
    assignor = request.server_assignor
    if assignor is not None and assignor not in ASSIGNORS:
        raise InvalidRequestError(
            f"server_assignor: expected {', '.join(ASSIGNORS)}, received {assignor!r:.80}",
            code=ErrorCode.UNSUPPORTED_ASSIGNOR,
        )
    is_first = request.member_epoch == JOIN_EPOCH and call.api_version == 0
    names = request.subscribed_topic_names
    return GroupHeartbeatRequest(
        member_id=request.member_id or (str(uuid4()) if is_first else ""),
        member_epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack=request.rack_id or "",
        client_id=call.client_id,
        topics=None if names is None else tuple(names),
        pattern=request.subscribed_topic_regex,
        assignor=cast("Assignor | None", assignor),
        rebalance_timeout_ms=request.rebalance_timeout_ms if request.rebalance_timeout_ms >= 0 else None,
        owned=owned,
    )


async def _owned(image: MetadataImage, request: ConsumerGroupHeartbeatRequest) -> tuple[TopicPartitions, ...] | None:
    """Return the partitions that a member reports; it cannot read those of topics that no longer exist."""
    if request.topic_partitions is None:
        return None
    found = []
    async for part in in_slices(request.topic_partitions, _SLICE):
        topic = image.topics.get(topic_id_of(part.topic_id))
        if topic is not None:
            found.append(TopicPartitions(topic=topic.topic, partitions=tuple(part.partitions)))
    return tuple(found)


async def _assignment(call: KafkaCall, response: GroupHeartbeatResponse) -> Assignment:
    image, access = call.context.image, call.context.access
    parts = [
        ConsumerGroupHeartbeatResponseTopicPartitions(
            topic_id=uuid_of(topic.topic_id), partitions=list(part.partitions)
        )
        async for part in in_slices(response.assignment, _SLICE)
        if (topic := image.topic(part.topic)) is not None and access.sees(call.sender, "topic", part.topic)
    ]
    call.is_large = sum(len(part.partitions) for part in parts) > _LARGE
    return Assignment(topic_partitions=parts)


def _number(error: RaftlogError) -> int:
    """Return the number of an error. Kafka has no group of this protocol while its members use the other one.

    Members end at retriable errors that Kafka's coordinators do not have; they look for the coordinator at these.
    """
    if error.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
        return KafkaError.GROUP_ID_NOT_FOUND
    number = error_number(error, "group")
    return KafkaError.COORDINATOR_NOT_AVAILABLE if error.retriable and number not in _OF_COORDINATORS else number


def _failed(request: ConsumerGroupHeartbeatRequest, number: int, text: str) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        error_code=number, error_message=text, member_id=request.member_id, member_epoch=request.member_epoch
    )


HANDLERS: Final[Handlers] = {68: Served(handle=handle_consumer_group_heartbeat, most_elements=SOME_ELEMENTS)}
