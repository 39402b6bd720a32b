"""Conversion of metadata to the types that clients receive."""

from __future__ import annotations

from raftlog.metadata_quorum.image import MetadataImage, TopicImage
from raftlog.model import INTERNAL_TOPICS, BrokerRegistration
from raftlog.wire.metadata import BrokerInfo, PartitionInfo, TopicInfo


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
