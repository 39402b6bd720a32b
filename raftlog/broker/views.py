"""Conversion of metadata to the types that clients receive."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from raftlog.metadata_quorum.image import MetadataImage, TopicImage
from raftlog.model import INTERNAL_TOPICS, BrokerRegistration
from raftlog.serving.workers import in_worker
from raftlog.wire.codec import encode_listing
from raftlog.wire.metadata import BrokerInfo, PartitionInfo, TopicInfo

_INLINE_PARTITIONS = 500
"""Topics with up to this many partitions are rendered on the event loop, in a few milliseconds."""


def broker_infos(image: MetadataImage) -> tuple[BrokerInfo, ...]:
    """Return every registered broker, sorted by id."""
    return tuple(_broker_info(image.brokers[broker_id]) for broker_id in sorted(image.brokers))


def _broker_info(broker: BrokerRegistration) -> BrokerInfo:
    return BrokerInfo(
        broker_id=broker.broker_id,
        url=broker.public.url,
        internal_url=broker.internal.url,
        rack=broker.rack,
        version=broker.version,
        broker_epoch=broker.broker_epoch,
        fenced=broker.fenced,
    )


def topic_info(topic: TopicImage) -> TopicInfo:
    """Return a topic, its partitions in order."""
    partitions = tuple(
        PartitionInfo(
            partition=number,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            replicas=state.replicas,
            isr=state.isr,
            elr=state.elr,
        )
        for number, state in sorted(topic.partitions.items())
    )
    return TopicInfo(
        topic=topic.topic,
        topic_id=topic.topic_id,
        partitions=partitions,
        configs=topic.configs,
        internal=topic.topic in INTERNAL_TOPICS,
    )


async def topics_as_json(topics: Iterable[TopicImage], response: Callable[[tuple[TopicInfo, ...]], object]) -> bytes:
    """Return `response(infos)` as JSON; in a worker thread if the topics have many partitions. Images never change."""
    listed = tuple(topics)

    def render() -> bytes:
        return encode_listing(response(tuple(map(topic_info, listed))))

    many = sum(len(topic.partitions) for topic in listed) > _INLINE_PARTITIONS
    return await in_worker(render) if many else render()
