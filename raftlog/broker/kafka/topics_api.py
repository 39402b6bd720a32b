"""CreateTopics, DeleteTopics and CreatePartitions (KIP-4, KIP-195, KIP-516, KIP-525)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from raftlog.broker.internal_topics import require_ordinary
from raftlog.broker.kafka.admin_calls import (
    AdminRequest,
    Result,
    each,
    repeated,
    require_few,
    require_once,
    special_number,
)
from raftlog.broker.kafka.call import MANY_ELEMENTS, Handlers, KafkaCall, Served
from raftlog.broker.kafka.config_sources import topic_levels
from raftlog.broker.kafka.error_numbers import error_number
from raftlog.broker.kafka.topic_configs import described, new_topic_configs
from raftlog.errors import (
    ErrorCode,
    InvalidRequestError,
    NotFoundError,
    RaftlogError,
    StaleRouteError,
    UnknownOutcomeError,
)
from raftlog.metadata_quorum.controller.assignments import MAX_PARTITIONS
from raftlog.metadata_quorum.controller.topics import decide_alteration
from raftlog.metadata_quorum.image import TopicImage
from raftlog.model import CLUSTER_RESOURCE, BrokerId
from raftlog.runtime import in_slices
from raftlog.schema import from_plain
from raftlog.serving.workers import in_worker
from raftlog.wire import paths
from raftlog.wire.admin import AlterTopicRequest
from raftlog.wire.kafka.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from raftlog.wire.kafka.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from raftlog.wire.kafka.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from raftlog.wire.kafka.reader import MAX_ELEMENTS
from raftlog.wire.kafka.writer import ZERO_UUID
from raftlog.wire.metadata import CreateTopicRequest, DeleteTopicRequest, TopicInfo

MAX_NEW_PARTITIONS: Final = 10_000
"""The most partitions that one request creates, as in Kafka."""
DEFAULT: Final = -1
"""A number of partitions or replicas that the cluster chooses."""


def number_of(error: RaftlogError) -> int:
    """Return Kafka's number of an error of one topic."""
    return special_number(error) or error_number(error, "topic")


# CreateTopics.


async def create_topics(call: KafkaCall, request: CreateTopicsRequest) -> CreateTopicsResponse:
    """Create topics, or only check whether they could be created; each has its own answer."""
    refusal = require_few(call, request.topics, "topics") or _require_few_partitions(request.topics)
    if refusal is not None:
        return await _all_refused(request, refusal)
    admin = AdminRequest.begin(call, request.timeout_ms)
    twice = repeated(topic.name for topic in request.topics)
    results = await each(request.topics, partial(_create, admin, twice, request.validate_only))
    if not request.validate_only:
        await admin.known_everywhere()
    answers = zip(request.topics, results, strict=True)
    return CreateTopicsResponse(topics=[_created(call, *one) async for one in in_slices(answers, 16)])


def _require_few_partitions(topics: Sequence[CreatableTopic]) -> RaftlogError | None:
    return _too_many(sum(max(topic.num_partitions, len(topic.assignments), 1) for topic in topics))


def _too_many(partitions: int) -> RaftlogError | None:
    """Return the error of a request that adds so many partitions; None: it may."""
    if partitions <= MAX_NEW_PARTITIONS:
        return None
    return InvalidRequestError(
        f"expected at most {MAX_NEW_PARTITIONS:,} partitions in one request, received {partitions:,}",
        code=ErrorCode.INVALID_PARTITIONS,
    )


async def _all_refused(request: CreateTopicsRequest, error: RaftlogError) -> CreateTopicsResponse:
    return CreateTopicsResponse(topics=[_refused(topic.name, error) async for topic in in_slices(request.topics, 512)])


def _failed_creation(_: KafkaCall, request: CreateTopicsRequest, number: int) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(name=topic.name, error_code=number, error_message=None) for topic in request.topics
        ]
    )


async def _create(
    admin: AdminRequest, twice: set[object], validate_only: bool, topic: CreatableTopic
) -> TopicInfo | TopicImage:
    """Create one topic, or plan it; return it."""
    require_once(topic.name, twice)
    admin.context.access.require_one_of(
        admin.call.sender, ("create", "topic", topic.name), ("create", "cluster", CLUSTER_RESOURCE)
    )
    require_ordinary(topic.name)
    command = _creation(topic, validate_only)
    answer = await admin.send(paths.CREATE_TOPIC, command)
    if not isinstance(answer.result, str):
        return from_plain(TopicInfo, answer.result, ignore_unknown=True)
    created = admin.context.image.topics.get(answer.result)
    if created is None:
        raise UnknownOutcomeError(f"created at offset {answer.metadata_offset}, and deleted since")
    return created


def _creation(topic: CreatableTopic, validate_only: bool) -> CreateTopicRequest:
    configs = new_topic_configs((config.name, config.value) for config in topic.configs)
    if not topic.assignments:
        return CreateTopicRequest(
            topic=topic.name,
            partitions=None if topic.num_partitions == DEFAULT else topic.num_partitions,
            replication_factor=None if topic.replication_factor == DEFAULT else topic.replication_factor,
            configs=configs,
            validate_only=validate_only,
        )
    if (topic.num_partitions, topic.replication_factor) != (DEFAULT, DEFAULT):
        raise InvalidRequestError(
            "assignments: num_partitions and replication_factor must be -1 beside them, received "
            f"{topic.num_partitions} and {topic.replication_factor}"
        )
    return CreateTopicRequest(
        topic=topic.name,
        configs=configs,
        validate_only=validate_only,
        assignments=_assigned(topic.assignments),
    )


def _assigned(assignments: Sequence[CreatableReplicaAssignment]) -> tuple[tuple[BrokerId, ...], ...]:
    """Return the brokers of each partition, in the order of the partitions.

    Raises:
        InvalidRequestError: INVALID_REPLICA_ASSIGNMENT: the partitions are not 0, 1, 2, and so on.
    """
    ordered = sorted(assignments, key=lambda one: one.partition_index)
    if [one.partition_index for one in ordered] != list(range(len(ordered))):
        raise InvalidRequestError(
            f"assignments: expected the partitions 0 to {len(ordered) - 1}, each once",
            code=ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        )
    return tuple(tuple(one.broker_ids) for one in ordered)


def _created(call: KafkaCall, topic: CreatableTopic, result: Result[TopicInfo | TopicImage]) -> CreatableTopicResult:
    if isinstance(result, RaftlogError):
        return _refused(topic.name, result)
    first = result.partitions[0]
    return CreatableTopicResult(
        name=topic.name,
        topic_id=bytes.fromhex(result.topic_id) if result.topic_id else ZERO_UUID,
        error_message=None,
        num_partitions=len(result.partitions),
        replication_factor=len(first.replicas),
        configs=[
            CreatableTopicConfigs(
                name=one.name, value=one.value, read_only=one.read_only, config_source=one.source, is_sensitive=False
            )
            for one in described(topic_levels(call.context, result.configs))
        ],
    )


def _refused(name: str, error: RaftlogError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=number_of(error), error_message=error.message)


# DeleteTopics.


async def delete_topics(call: KafkaCall, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    """Delete topics by name or by id; each has its own answer."""
    topics = request.topics or [DeleteTopicState(name=name) for name in request.topic_names]
    refusal = require_few(call, topics, "topics")
    if refusal is not None:
        return DeleteTopicsResponse(
            responses=[_deleted(topic, refusal, topic.name) async for topic in in_slices(topics, 512)]
        )
    admin = AdminRequest.begin(call, request.timeout_ms)
    names = await _names_by_id(admin, topics)
    twice = repeated(topic.name or names.get(topic.topic_id) for topic in topics)
    results = await each(topics, partial(_delete, admin, names, twice))
    await admin.known_everywhere()
    return DeleteTopicsResponse(
        responses=[
            _deleted(topic, result, _name_seen(call, names, topic))
            for topic, result in zip(topics, results, strict=True)
        ]
    )


async def _names_by_id(admin: AdminRequest, topics: Sequence[DeleteTopicState]) -> dict[bytes, str]:
    """Return the names of the topics that are named by their ids. This broker's metadata may be older than an id."""
    wanted = [topic.topic_id for topic in topics if topic.topic_id != ZERO_UUID]
    image = admin.context.image
    if any(one.hex() not in image.topics for one in wanted):
        try:
            image = await admin.image()
        except RaftlogError:
            image = admin.context.image
    return {one: image.topics[one.hex()].topic for one in wanted if one.hex() in image.topics}


async def _delete(admin: AdminRequest, names: dict[bytes, str], twice: set[object], topic: DeleteTopicState) -> None:
    by_id = topic.topic_id != ZERO_UUID
    if (topic.name is not None) == by_id:
        raise InvalidRequestError("expected either a topic's name or its id")
    name = names.get(topic.topic_id) if by_id else topic.name
    if name is None:
        raise StaleRouteError(f"there is no topic with the id {topic.topic_id.hex()}", code=ErrorCode.UNKNOWN_TOPIC_ID)
    admin.context.access.require(admin.call.sender, "delete", "topic", name)
    require_once(name, twice)
    require_ordinary(name)
    command = DeleteTopicRequest(topic=name, topic_id=topic.topic_id.hex() if by_id else "")
    await admin.send(paths.DELETE_TOPIC, command)


def _name_seen(call: KafkaCall, names: dict[bytes, str], topic: DeleteTopicState) -> str | None:
    """Return a topic's name, unless the sender gave the id of one that it may not describe."""
    if topic.topic_id == ZERO_UUID:
        return topic.name
    name = names.get(topic.topic_id)
    return name if name is not None and call.context.access.sees(call.sender, "topic", name) else None


def _deleted(topic: DeleteTopicState, result: Result[None], name: str | None) -> DeletableTopicResult:
    if not isinstance(result, RaftlogError):
        return DeletableTopicResult(name=name, topic_id=topic.topic_id)
    hidden = name is None and topic.topic_id != ZERO_UUID and result.code is ErrorCode.AUTHORIZATION_FAILED
    message = "the access rules do not allow it" if hidden else result.message
    return DeletableTopicResult(name=name, topic_id=topic.topic_id, error_code=number_of(result), error_message=message)


def _failed_deletion(_: KafkaCall, request: DeleteTopicsRequest, number: int) -> DeleteTopicsResponse:
    topics = request.topics or [DeleteTopicState(name=name) for name in request.topic_names]
    return DeleteTopicsResponse(
        responses=[DeletableTopicResult(name=one.name, topic_id=one.topic_id, error_code=number) for one in topics]
    )


# CreatePartitions.


async def create_partitions(call: KafkaCall, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    """Add partitions to topics, or only check whether they could be added; each topic has its own answer."""
    refusal = require_few(call, request.topics, "topics") or _require_few_added(call, request.topics)
    if refusal is not None:
        return CreatePartitionsResponse(
            results=[_grown(topic, refusal) async for topic in in_slices(request.topics, 512)]
        )
    admin = AdminRequest.begin(call, request.timeout_ms)
    twice = repeated(topic.name for topic in request.topics)
    results = await each(request.topics, partial(_grow, admin, twice, request.validate_only))
    await admin.known_everywhere()
    return CreatePartitionsResponse(
        results=[_grown(topic, result) for topic, result in zip(request.topics, results, strict=True)]
    )


def _require_few_added(call: KafkaCall, topics: Sequence[CreatePartitionsTopic]) -> RaftlogError | None:
    """Return the error of a request that adds too many partitions; what is refused anyway does not count."""
    image, access, added = call.context.image, call.context.access, 0
    for topic in topics:
        known = image.topic(topic.name)
        if known is None or topic.count > MAX_PARTITIONS:
            continue
        if access.would_allow(call.sender, "alter", "topic", topic.name):
            added += max(0, topic.count - len(known.partitions))
    return _too_many(added)


async def _grow(admin: AdminRequest, twice: set[object], validate_only: bool, topic: CreatePartitionsTopic) -> None:
    require_once(topic.name, twice)
    admin.context.access.require(admin.call.sender, "alter", "topic", topic.name)
    require_ordinary(topic.name)
    image = await admin.image()
    present = image.topic(topic.name)
    if present is None:
        raise NotFoundError(f"there is no topic {topic.name!r:.300}")
    if topic.count <= len(present.partitions):
        raise InvalidRequestError(
            f"count: expected more than the {len(present.partitions)} partitions that the topic has, received "
            f"{topic.count}",
            code=ErrorCode.INVALID_PARTITIONS,
        )
    assigned = None if topic.assignments is None else tuple(tuple(one.broker_ids) for one in topic.assignments)
    command = AlterTopicRequest(topic=topic.name, partitions=topic.count, assignments=assigned)
    if validate_only:
        await in_worker(decide_alteration, image, command)
    else:
        await admin.send(paths.ALTER_TOPIC, command)


def _grown(topic: CreatePartitionsTopic, result: Result[None]) -> CreatePartitionsTopicResult:
    if not isinstance(result, RaftlogError):
        return CreatePartitionsTopicResult(name=topic.name)
    return CreatePartitionsTopicResult(name=topic.name, error_code=number_of(result), error_message=result.message)


def _failed_growth(_: KafkaCall, request: CreatePartitionsRequest, number: int) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(
        results=[CreatePartitionsTopicResult(name=topic.name, error_code=number) for topic in request.topics]
    )


HANDLERS: Final[Handlers] = {
    19: Served(handle=create_topics, failed=_failed_creation, most_elements=MAX_ELEMENTS),
    20: Served(handle=delete_topics, failed=_failed_deletion, most_elements=MAX_ELEMENTS),
    37: Served(handle=create_partitions, failed=_failed_growth, most_elements=MANY_ELEMENTS),
}
