"""Metadata, DescribeTopicPartitions and DescribeCluster, from this broker's metadata image.

Brokers are advertised with the host and port of their public listeners. Asking for a topic creates it only if
`broker.auto_create_topics_enable` is set (ADR 0041).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from raftlog.broker.kafka.audit import audited
from raftlog.broker.kafka.call import MANY_ELEMENTS, Handlers, KafkaCall, Served
from raftlog.broker.kafka.topics import authorized_operations, live_brokers, topic_id_of, uuid_of
from raftlog.broker.kafka.topics_api import DEFAULT, create_topics
from raftlog.errors import InvalidRequestError
from raftlog.metadata_quorum.image import MetadataImage, TopicImage
from raftlog.model import CLUSTER_RESOURCE, INTERNAL_TOPICS, PartitionState
from raftlog.runtime import in_slices
from raftlog.serving.workers import in_worker
from raftlog.wire.kafka.error_codes import KafkaError
from raftlog.wire.kafka.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from raftlog.wire.kafka.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from raftlog.wire.kafka.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

_SLICE = 256
_FEW_PARTITIONS = 500
"""An answer with more partitions is made and encoded in a worker thread."""
_BY_ID = 12
"""The first version in which topics may be asked for by id, without a name."""
_MAX_CREATED = 100
"""Of the topics of one request, so many are created; a client asks again for those that are not known."""
_CREATION_TIMEOUT_MS = 5_000
_BROKERS, _CONTROLLERS = 1, 2
"""Types of endpoints (KIP-919)."""


async def handle_metadata(call: KafkaCall, request: MetadataRequest) -> MetadataResponse:
    """Return the live brokers, and topics with their partitions."""
    context = call.context
    if call.api_version < _BY_ID and any(topic.name is None for topic in request.topics or ()):
        raise InvalidRequestError(f"a topic without a name needs version {_BY_ID} of Metadata")
    creates = context.config.broker.auto_create_topics_enable and request.allow_auto_topic_creation
    refused = await _create_missing(call, request) if creates else {}
    image = context.image
    brokers = live_brokers(image)
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(
                node_id=broker.broker_id, host=broker.public.host, port=broker.public.port, rack=broker.rack or None
            )
            for broker in brokers
        ],
        cluster_id=context.config.cluster_id,
        controller_id=controller_for_clients(call, image),
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = authorized_operations(call, "cluster", CLUSTER_RESOURCE)
    found, response.topics = await _chosen(call, request, image)
    for topic in response.topics:
        topic.error_code = refused.get(topic.name or "", topic.error_code)
    alive = {broker.broker_id for broker in brokers}
    if sum(len(topic.partitions) for topic in found) > _FEW_PARTITIONS:
        call.is_large = True
        response.topics += await in_worker(_described, found, alive)
    else:
        response.topics += _described(found, alive)
    if request.include_topic_authorized_operations:
        async for topic in in_slices(response.topics, _SLICE):
            if not topic.error_code:
                topic.topic_authorized_operations = authorized_operations(call, "topic", topic.name or "")
    return response


async def _create_missing(call: KafkaCall, request: MetadataRequest) -> dict[str, int]:
    """Create topics that do not exist; return the errors of those that could not be created."""
    image, access = call.context.image, call.context.access
    missing = [
        topic.name
        async for topic in in_slices(request.topics or [], _SLICE)
        if topic.name is not None
        and topic.name not in INTERNAL_TOPICS
        and image.topic(topic.name) is None
        and access.may(call.sender, "describe", "topic", topic.name)
    ]
    if not missing:
        return {}
    names = list(dict.fromkeys(missing))[:_MAX_CREATED]
    topics = [CreatableTopic(name=name, num_partitions=DEFAULT, replication_factor=DEFAULT) for name in names]
    creation = CreateTopicsRequest(topics=topics, timeout_ms=_CREATION_TIMEOUT_MS)
    answer: CreateTopicsResponse = await audited(call, create_topics(call, creation), creation, is_change=True)
    # One that another client has created meanwhile is found, or is known to this broker soon.
    return {
        topic.name: topic.error_code
        for topic in answer.topics
        if topic.error_code not in (KafkaError.NONE, KafkaError.TOPIC_ALREADY_EXISTS)
    }


def controller_for_clients(call: KafkaCall, image: MetadataImage) -> int:
    """Return the broker that clients send administrative requests to: this one, because each forwards them."""
    own = image.brokers.get(call.context.config.node_id)
    return -1 if own is None or own.fenced else own.broker_id


async def _chosen(
    call: KafkaCall, request: MetadataRequest, image: MetadataImage
) -> tuple[list[TopicImage], list[MetadataResponseTopic]]:
    """Return the topics that a request asks for, and errors for those that do not exist or may not be seen."""
    wants_all = request.topics is None or (not request.topics and call.api_version == 0)
    if wants_all:
        access = call.context.access
        every = in_slices(image.topics.values(), _SLICE)
        return [topic async for topic in every if access.sees(call.sender, "topic", topic.topic)], []
    found, errors = dict[str, TopicImage](), list[MetadataResponseTopic]()
    async for wanted in in_slices(request.topics or [], _SLICE):
        topic, error = _one(call, wanted, image)
        if error is not None:
            errors.append(error)
        elif topic is not None:
            found[topic.topic] = topic
    return list(found.values()), errors


def _one(
    call: KafkaCall, wanted: MetadataRequestTopic, image: MetadataImage
) -> tuple[TopicImage | None, MetadataResponseTopic | None]:
    """Return a topic that is asked for by name, or by id if it has no name."""
    access = call.context.access
    if wanted.name is None:
        topic = image.topics.get(topic_id_of(wanted.topic_id))
        if topic is None or not access.may(call.sender, "describe", "topic", topic.topic):
            return None, MetadataResponseTopic(
                error_code=KafkaError.UNKNOWN_TOPIC_ID, name=None, topic_id=wanted.topic_id
            )
        return topic, None
    if not access.may(call.sender, "describe", "topic", wanted.name):
        return None, MetadataResponseTopic(error_code=KafkaError.TOPIC_AUTHORIZATION_FAILED, name=wanted.name)
    topic = image.topic(wanted.name)
    if topic is None:
        return None, MetadataResponseTopic(error_code=KafkaError.UNKNOWN_TOPIC_OR_PARTITION, name=wanted.name)
    return topic, None


def _described(topics: Iterable[TopicImage], alive: set[int]) -> list[MetadataResponseTopic]:
    return [
        MetadataResponseTopic(
            name=topic.topic,
            topic_id=uuid_of(topic.topic_id),
            is_internal=topic.topic in INTERNAL_TOPICS,
            partitions=[_partition(number, state, alive) for number, state in sorted(topic.partitions.items())],
        )
        for topic in topics
    ]


def _partition(number: int, state: PartitionState, alive: set[int]) -> MetadataResponsePartition:
    has_leader = state.leader in alive
    return MetadataResponsePartition(
        error_code=KafkaError.NONE if has_leader else KafkaError.LEADER_NOT_AVAILABLE,
        partition_index=number,
        leader_id=state.leader if has_leader else -1,
        leader_epoch=state.leader_epoch,
        replica_nodes=list(state.replicas),
        isr_nodes=list(state.isr),
        offline_replicas=offline(state, alive),
    )


def offline(state: PartitionState, alive: set[int]) -> list[int]:
    """Return the replicas of a partition whose brokers are not live."""
    return [replica for replica in state.replicas if replica not in alive]


def _metadata_failed(_: KafkaCall, request: MetadataRequest, number: int) -> MetadataResponse:
    """Return an answer without brokers: this one has no metadata yet, and clients ask another, or again."""
    topics: Sequence[MetadataRequestTopic] = request.topics or ()
    return MetadataResponse(
        error_code=number,
        topics=[
            MetadataResponseTopic(error_code=KafkaError.LEADER_NOT_AVAILABLE, name=topic.name, topic_id=topic.topic_id)
            for topic in topics
            if topic.name is not None
        ],
    )


async def handle_describe_cluster(call: KafkaCall, request: DescribeClusterRequest) -> DescribeClusterResponse:
    """Return the brokers. Clients do not reach the controllers."""
    if request.endpoint_type != _BROKERS:
        known = request.endpoint_type == _CONTROLLERS
        return DescribeClusterResponse(
            error_code=KafkaError.MISMATCHED_ENDPOINT_TYPE if known else KafkaError.UNSUPPORTED_ENDPOINT_TYPE,
            error_message="this is a broker's listener: ask for endpoints of brokers",
            endpoint_type=request.endpoint_type,
        )
    image = call.context.image
    shown = (
        sorted(image.brokers.items())
        if request.include_fenced_brokers
        else [(broker.broker_id, broker) for broker in live_brokers(image)]
    )
    response = DescribeClusterResponse(
        cluster_id=call.context.config.cluster_id,
        controller_id=controller_for_clients(call, image),
        brokers=[
            DescribeClusterBroker(
                broker_id=broker.broker_id,
                host=broker.public.host,
                port=broker.public.port,
                rack=broker.rack or None,
                is_fenced=broker.fenced,
            )
            for _, broker in shown
        ],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = authorized_operations(call, "cluster", CLUSTER_RESOURCE)
    return response


HANDLERS: Final[Handlers] = {
    3: Served(handle=handle_metadata, failed=_metadata_failed, most_elements=MANY_ELEMENTS),
    60: handle_describe_cluster,
}
