"""DescribeTopicPartitions: topics by name, a page at a time, with their eligible leader replicas (KIP-966)."""

from __future__ import annotations

from typing import Final

from raftlog.broker.kafka.call import MANY_ELEMENTS, Handlers, KafkaCall, Served
from raftlog.broker.kafka.metadata_api import offline
from raftlog.broker.kafka.topics import authorized_operations, live_brokers, uuid_of
from raftlog.errors import InvalidRequestError
from raftlog.metadata_quorum.image import MetadataImage, TopicImage
from raftlog.model import INTERNAL_TOPICS, PartitionState
from raftlog.runtime import in_slices
from raftlog.wire.kafka.error_codes import KafkaError
from raftlog.wire.kafka.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseCursor,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

MOST_PARTITIONS = 2_000
"""The most partitions of one page, as in Kafka (`max.request.partition.size.limit`)."""
_SLICE = 256
_LARGE = 500


async def handle_describe_topic_partitions(
    call: KafkaCall, request: DescribeTopicPartitionsRequest
) -> DescribeTopicPartitionsResponse:
    """Return topics in the order of their names, from the cursor on, up to the limit of partitions."""
    if request.response_partition_limit < 1:
        raise InvalidRequestError(
            f"response_partition_limit: expected 1 or more, received {request.response_partition_limit}"
        )
    image, left = call.context.image, min(request.response_partition_limit, MOST_PARTITIONS)
    alive = {broker.broker_id for broker in live_brokers(image)}
    cursor = request.cursor
    response = DescribeTopicPartitionsResponse()
    async for name in in_slices(await _names(call, request, image), _SLICE):
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        if left <= 0:
            response.next_cursor = DescribeTopicPartitionsResponseCursor(topic_name=name, partition_index=first)
            break
        shown, following = _topic(call, name, image.topic(name), alive, first, left)
        left -= len(shown.partitions)
        response.topics.append(shown)
        if following is not None:
            response.next_cursor = DescribeTopicPartitionsResponseCursor(topic_name=name, partition_index=following)
            break
    call.is_large = len(response.topics) + min(request.response_partition_limit, MOST_PARTITIONS) - left > _LARGE
    return response


async def _names(call: KafkaCall, request: DescribeTopicPartitionsRequest, image: MetadataImage) -> list[str]:
    """Return the names that are asked for and not below the cursor; without names, all that the sender may see."""
    begins = "" if request.cursor is None else request.cursor.topic_name
    if request.topics:
        return sorted({topic.name for topic in request.topics if topic.name >= begins})
    access = call.context.access
    names = in_slices(image.names, _SLICE)
    return sorted([name async for name in names if name >= begins and access.sees(call.sender, "topic", name)])


def _topic(
    call: KafkaCall, name: str, topic: TopicImage | None, alive: set[int], first: int, most: int
) -> tuple[DescribeTopicPartitionsResponseTopic, int | None]:
    """Return a topic's partitions from `first` on, and the first one that there is no space for."""
    if not call.context.access.may(call.sender, "describe", "topic", name):
        return DescribeTopicPartitionsResponseTopic(error_code=KafkaError.TOPIC_AUTHORIZATION_FAILED, name=name), None
    if topic is None:
        return DescribeTopicPartitionsResponseTopic(error_code=KafkaError.UNKNOWN_TOPIC_OR_PARTITION, name=name), None
    numbers = sorted(number for number in topic.partitions if number >= first)
    shown = DescribeTopicPartitionsResponseTopic(
        name=name,
        topic_id=uuid_of(topic.topic_id),
        is_internal=name in INTERNAL_TOPICS,
        partitions=[_partition(number, topic.partitions[number], alive) for number in numbers[:most]],
        topic_authorized_operations=authorized_operations(call, "topic", name),
    )
    return shown, numbers[most] if len(numbers) > most else None


def _partition(number: int, state: PartitionState, alive: set[int]) -> DescribeTopicPartitionsResponsePartition:
    has_leader = state.leader in alive
    return DescribeTopicPartitionsResponsePartition(
        error_code=KafkaError.NONE if has_leader else KafkaError.LEADER_NOT_AVAILABLE,
        partition_index=number,
        leader_id=state.leader if has_leader else -1,
        leader_epoch=state.leader_epoch,
        replica_nodes=list(state.replicas),
        isr_nodes=list(state.isr),
        eligible_leader_replicas=list(state.elr),
        last_known_elr=[],
        offline_replicas=offline(state, alive),
    )


HANDLERS: Final[Handlers] = {75: Served(handle=handle_describe_topic_partitions, most_elements=MANY_ELEMENTS)}
