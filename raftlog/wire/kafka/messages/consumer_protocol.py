"""Metadata of consumers in classic groups. Made by scripts/generate_kafka_messages.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from raftlog.wire.kafka.codec import Codec
from raftlog.wire.kafka.reader import Reader
from raftlog.wire.kafka.writer import Writer

_i = Struct(">i")


@dataclass(slots=True, kw_only=True)
class ConsumerProtocolSubscriptionTopicPartition:
    """Part of ConsumerProtocolSubscription."""

    topic: str = ""  # v1+
    partitions: list[int] = field(default_factory=list)  # v1+


@dataclass(slots=True, kw_only=True)
class ConsumerProtocolSubscription:
    """Versions 0 to 3."""

    topics: list[str] = field(default_factory=list)
    user_data: bytes | None = None
    owned_partitions: list[ConsumerProtocolSubscriptionTopicPartition] = field(default_factory=list)  # v1+
    generation_id: int = -1  # v2+
    rack_id: str | None = None  # v3+


def _read_consumer_protocol_subscription_topic_partition_v1(r: Reader) -> ConsumerProtocolSubscriptionTopicPartition:
    topic = r.string("TopicPartition.topic")
    partitions = r.numbers("i", r.count(4, "TopicPartition.partitions"))
    return ConsumerProtocolSubscriptionTopicPartition(topic=topic, partitions=partitions)


def _write_consumer_protocol_subscription_topic_partition_v1(
    w: Writer, o: ConsumerProtocolSubscriptionTopicPartition
) -> None:
    w.string(o.topic, "TopicPartition.topic")
    w.count(len(o.partitions))
    w.numbers("i", o.partitions)


def _read_consumer_protocol_subscription_v0(r: Reader) -> ConsumerProtocolSubscription:
    topics = [
        r.string("ConsumerProtocolSubscription.topics")
        for _ in range(r.count(2, "ConsumerProtocolSubscription.topics"))
    ]
    user_data = r.nullable_octets("ConsumerProtocolSubscription.user_data")
    return ConsumerProtocolSubscription(topics=topics, user_data=user_data)


def _read_consumer_protocol_subscription_v1(r: Reader) -> ConsumerProtocolSubscription:
    topics = [
        r.string("ConsumerProtocolSubscription.topics")
        for _ in range(r.count(2, "ConsumerProtocolSubscription.topics"))
    ]
    user_data = r.nullable_octets("ConsumerProtocolSubscription.user_data")
    owned_partitions = [
        _read_consumer_protocol_subscription_topic_partition_v1(r)
        for _ in range(r.count(6, "ConsumerProtocolSubscription.owned_partitions"))
    ]
    return ConsumerProtocolSubscription(topics=topics, user_data=user_data, owned_partitions=owned_partitions)


def _read_consumer_protocol_subscription_v2(r: Reader) -> ConsumerProtocolSubscription:
    topics = [
        r.string("ConsumerProtocolSubscription.topics")
        for _ in range(r.count(2, "ConsumerProtocolSubscription.topics"))
    ]
    user_data = r.nullable_octets("ConsumerProtocolSubscription.user_data")
    owned_partitions = [
        _read_consumer_protocol_subscription_topic_partition_v1(r)
        for _ in range(r.count(6, "ConsumerProtocolSubscription.owned_partitions"))
    ]
    (generation_id,) = r.take(_i, "ConsumerProtocolSubscription.generation_id")
    return ConsumerProtocolSubscription(
        topics=topics, user_data=user_data, owned_partitions=owned_partitions, generation_id=generation_id
    )


def _read_consumer_protocol_subscription_v3(r: Reader) -> ConsumerProtocolSubscription:
    topics = [
        r.string("ConsumerProtocolSubscription.topics")
        for _ in range(r.count(2, "ConsumerProtocolSubscription.topics"))
    ]
    user_data = r.nullable_octets("ConsumerProtocolSubscription.user_data")
    owned_partitions = [
        _read_consumer_protocol_subscription_topic_partition_v1(r)
        for _ in range(r.count(6, "ConsumerProtocolSubscription.owned_partitions"))
    ]
    (generation_id,) = r.take(_i, "ConsumerProtocolSubscription.generation_id")
    rack_id = r.nullable_string("ConsumerProtocolSubscription.rack_id")
    return ConsumerProtocolSubscription(
        topics=topics,
        user_data=user_data,
        owned_partitions=owned_partitions,
        generation_id=generation_id,
        rack_id=rack_id,
    )


def _write_consumer_protocol_subscription_v0(w: Writer, o: ConsumerProtocolSubscription) -> None:
    w.count(len(o.topics))
    for topics_item in o.topics:
        w.string(topics_item, "ConsumerProtocolSubscription.topics")
    w.nullable_octets(o.user_data, "ConsumerProtocolSubscription.user_data")


def _write_consumer_protocol_subscription_v1(w: Writer, o: ConsumerProtocolSubscription) -> None:
    w.count(len(o.topics))
    for topics_item in o.topics:
        w.string(topics_item, "ConsumerProtocolSubscription.topics")
    w.nullable_octets(o.user_data, "ConsumerProtocolSubscription.user_data")
    w.count(len(o.owned_partitions))
    for owned_partitions_item in o.owned_partitions:
        _write_consumer_protocol_subscription_topic_partition_v1(w, owned_partitions_item)


def _write_consumer_protocol_subscription_v2(w: Writer, o: ConsumerProtocolSubscription) -> None:
    w.count(len(o.topics))
    for topics_item in o.topics:
        w.string(topics_item, "ConsumerProtocolSubscription.topics")
    w.nullable_octets(o.user_data, "ConsumerProtocolSubscription.user_data")
    w.count(len(o.owned_partitions))
    for owned_partitions_item in o.owned_partitions:
        _write_consumer_protocol_subscription_topic_partition_v1(w, owned_partitions_item)
    w.add(_i.pack(o.generation_id))


def _write_consumer_protocol_subscription_v3(w: Writer, o: ConsumerProtocolSubscription) -> None:
    w.count(len(o.topics))
    for topics_item in o.topics:
        w.string(topics_item, "ConsumerProtocolSubscription.topics")
    w.nullable_octets(o.user_data, "ConsumerProtocolSubscription.user_data")
    w.count(len(o.owned_partitions))
    for owned_partitions_item in o.owned_partitions:
        _write_consumer_protocol_subscription_topic_partition_v1(w, owned_partitions_item)
    w.add(_i.pack(o.generation_id))
    w.nullable_string(o.rack_id, "ConsumerProtocolSubscription.rack_id")


@dataclass(slots=True, kw_only=True)
class ConsumerProtocolAssignmentTopicPartition:
    """Part of ConsumerProtocolAssignment."""

    topic: str = ""
    partitions: list[int] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class ConsumerProtocolAssignment:
    """Versions 0 to 3."""

    assigned_partitions: list[ConsumerProtocolAssignmentTopicPartition] = field(default_factory=list)
    user_data: bytes | None = None


def _read_consumer_protocol_assignment_topic_partition_v0(r: Reader) -> ConsumerProtocolAssignmentTopicPartition:
    topic = r.string("TopicPartition.topic")
    partitions = r.numbers("i", r.count(4, "TopicPartition.partitions"))
    return ConsumerProtocolAssignmentTopicPartition(topic=topic, partitions=partitions)


def _write_consumer_protocol_assignment_topic_partition_v0(
    w: Writer, o: ConsumerProtocolAssignmentTopicPartition
) -> None:
    w.string(o.topic, "TopicPartition.topic")
    w.count(len(o.partitions))
    w.numbers("i", o.partitions)


def _read_consumer_protocol_assignment_v0(r: Reader) -> ConsumerProtocolAssignment:
    assigned_partitions = [
        _read_consumer_protocol_assignment_topic_partition_v0(r)
        for _ in range(r.count(6, "ConsumerProtocolAssignment.assigned_partitions"))
    ]
    user_data = r.nullable_octets("ConsumerProtocolAssignment.user_data")
    return ConsumerProtocolAssignment(assigned_partitions=assigned_partitions, user_data=user_data)


def _write_consumer_protocol_assignment_v0(w: Writer, o: ConsumerProtocolAssignment) -> None:
    w.count(len(o.assigned_partitions))
    for assigned_partitions_item in o.assigned_partitions:
        _write_consumer_protocol_assignment_topic_partition_v0(w, assigned_partitions_item)
    w.nullable_octets(o.user_data, "ConsumerProtocolAssignment.user_data")


SUBSCRIPTION: Final = Codec(
    "ConsumerProtocolSubscription",
    0,
    (
        _read_consumer_protocol_subscription_v0,
        _read_consumer_protocol_subscription_v1,
        _read_consumer_protocol_subscription_v2,
        _read_consumer_protocol_subscription_v3,
    ),
    (
        _write_consumer_protocol_subscription_v0,
        _write_consumer_protocol_subscription_v1,
        _write_consumer_protocol_subscription_v2,
        _write_consumer_protocol_subscription_v3,
    ),
)

ASSIGNMENT: Final = Codec(
    "ConsumerProtocolAssignment",
    0,
    (
        _read_consumer_protocol_assignment_v0,
        _read_consumer_protocol_assignment_v0,
        _read_consumer_protocol_assignment_v0,
        _read_consumer_protocol_assignment_v0,
    ),
    (
        _write_consumer_protocol_assignment_v0,
        _write_consumer_protocol_assignment_v0,
        _write_consumer_protocol_assignment_v0,
        _write_consumer_protocol_assignment_v0,
    ),
)
