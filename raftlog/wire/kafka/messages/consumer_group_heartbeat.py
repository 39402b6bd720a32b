"""ConsumerGroupHeartbeat (API 68), versions 0 to 1. Made by scripts/generate_kafka_messages.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from raftlog.wire.kafka.codec import Codec
from raftlog.wire.kafka.reader import Reader
from raftlog.wire.kafka.writer import NO_TAGS, NULL_STRUCT, STRUCT_FOLLOWS, ZERO_UUID, Writer, uuid

_s = Struct(">16s")
_i = Struct(">i")
_ih = Struct(">ih")
_ii = Struct(">ii")


@dataclass(slots=True, kw_only=True)
class ConsumerGroupHeartbeatRequestTopicPartitions:
    """Part of ConsumerGroupHeartbeatRequest."""

    topic_id: bytes = ZERO_UUID
    partitions: list[int] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class ConsumerGroupHeartbeatRequest:
    """Versions 0 to 1."""

    group_id: str = ""
    member_id: str = ""
    member_epoch: int = 0
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    subscribed_topic_names: list[str] | None = None
    subscribed_topic_regex: str | None = None  # v1+
    server_assignor: str | None = None
    topic_partitions: list[ConsumerGroupHeartbeatRequestTopicPartitions] | None = None


def _read_consumer_group_heartbeat_request_topic_partitions_v0(
    r: Reader,
) -> ConsumerGroupHeartbeatRequestTopicPartitions:
    (topic_id,) = r.take(_s, "TopicPartitions.topic_id")
    partitions = r.numbers("i", r.compact_count(4, "TopicPartitions.partitions"))
    r.skip_tags("TopicPartitions")
    return ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic_id, partitions=partitions)


def _write_consumer_group_heartbeat_request_topic_partitions_v0(
    w: Writer, o: ConsumerGroupHeartbeatRequestTopicPartitions
) -> None:
    w.add(_s.pack(uuid(o.topic_id)))
    w.compact_count(len(o.partitions))
    w.numbers("i", o.partitions)
    w.add(NO_TAGS)


def _read_consumer_group_heartbeat_request_v0(r: Reader) -> ConsumerGroupHeartbeatRequest:
    group_id = r.compact_string("ConsumerGroupHeartbeatRequest.group_id")
    member_id = r.compact_string("ConsumerGroupHeartbeatRequest.member_id")
    (member_epoch,) = r.take(_i, "ConsumerGroupHeartbeatRequest.member_epoch")
    instance_id = r.compact_nullable_string("ConsumerGroupHeartbeatRequest.instance_id")
    rack_id = r.compact_nullable_string("ConsumerGroupHeartbeatRequest.rack_id")
    (rebalance_timeout_ms,) = r.take(_i, "ConsumerGroupHeartbeatRequest.rebalance_timeout_ms")
    n = r.compact_nullable_count(1, "ConsumerGroupHeartbeatRequest.subscribed_topic_names")
    subscribed_topic_names = (
        None if n < 0 else [r.compact_string("ConsumerGroupHeartbeatRequest.subscribed_topic_names") for _ in range(n)]
    )
    server_assignor = r.compact_nullable_string("ConsumerGroupHeartbeatRequest.server_assignor")
    n = r.compact_nullable_count(18, "ConsumerGroupHeartbeatRequest.topic_partitions")
    topic_partitions = (
        None if n < 0 else [_read_consumer_group_heartbeat_request_topic_partitions_v0(r) for _ in range(n)]
    )
    r.skip_tags("ConsumerGroupHeartbeatRequest")
    return ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id=member_id,
        member_epoch=member_epoch,
        instance_id=instance_id,
        rack_id=rack_id,
        rebalance_timeout_ms=rebalance_timeout_ms,
        subscribed_topic_names=subscribed_topic_names,
        server_assignor=server_assignor,
        topic_partitions=topic_partitions,
    )


def _read_consumer_group_heartbeat_request_v1(r: Reader) -> ConsumerGroupHeartbeatRequest:
    group_id = r.compact_string("ConsumerGroupHeartbeatRequest.group_id")
    member_id = r.compact_string("ConsumerGroupHeartbeatRequest.member_id")
    (member_epoch,) = r.take(_i, "ConsumerGroupHeartbeatRequest.member_epoch")
    instance_id = r.compact_nullable_string("ConsumerGroupHeartbeatRequest.instance_id")
    rack_id = r.compact_nullable_string("ConsumerGroupHeartbeatRequest.rack_id")
    (rebalance_timeout_ms,) = r.take(_i, "ConsumerGroupHeartbeatRequest.rebalance_timeout_ms")
    n = r.compact_nullable_count(1, "ConsumerGroupHeartbeatRequest.subscribed_topic_names")
    subscribed_topic_names = (
        None if n < 0 else [r.compact_string("ConsumerGroupHeartbeatRequest.subscribed_topic_names") for _ in range(n)]
    )
    subscribed_topic_regex = r.compact_nullable_string("ConsumerGroupHeartbeatRequest.subscribed_topic_regex")
    server_assignor = r.compact_nullable_string("ConsumerGroupHeartbeatRequest.server_assignor")
    n = r.compact_nullable_count(18, "ConsumerGroupHeartbeatRequest.topic_partitions")
    topic_partitions = (
        None if n < 0 else [_read_consumer_group_heartbeat_request_topic_partitions_v0(r) for _ in range(n)]
    )
    r.skip_tags("ConsumerGroupHeartbeatRequest")
    return ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id=member_id,
        member_epoch=member_epoch,
        instance_id=instance_id,
        rack_id=rack_id,
        rebalance_timeout_ms=rebalance_timeout_ms,
        subscribed_topic_names=subscribed_topic_names,
        subscribed_topic_regex=subscribed_topic_regex,
        server_assignor=server_assignor,
        topic_partitions=topic_partitions,
    )


def _write_consumer_group_heartbeat_request_v0(w: Writer, o: ConsumerGroupHeartbeatRequest) -> None:
    if o.subscribed_topic_regex is not None:
        raise w.unsupported("ConsumerGroupHeartbeatRequest.subscribed_topic_regex")
    w.compact_string(o.group_id, "ConsumerGroupHeartbeatRequest.group_id")
    w.compact_string(o.member_id, "ConsumerGroupHeartbeatRequest.member_id")
    w.add(_i.pack(o.member_epoch))
    w.compact_nullable_string(o.instance_id, "ConsumerGroupHeartbeatRequest.instance_id")
    w.compact_nullable_string(o.rack_id, "ConsumerGroupHeartbeatRequest.rack_id")
    w.add(_i.pack(o.rebalance_timeout_ms))
    if o.subscribed_topic_names is None:
        w.compact_count(-1)
    else:
        w.compact_count(len(o.subscribed_topic_names))
        for subscribed_topic_names_item in o.subscribed_topic_names:
            w.compact_string(subscribed_topic_names_item, "ConsumerGroupHeartbeatRequest.subscribed_topic_names")
    w.compact_nullable_string(o.server_assignor, "ConsumerGroupHeartbeatRequest.server_assignor")
    if o.topic_partitions is None:
        w.compact_count(-1)
    else:
        w.compact_count(len(o.topic_partitions))
        for topic_partitions_item in o.topic_partitions:
            _write_consumer_group_heartbeat_request_topic_partitions_v0(w, topic_partitions_item)
    w.add(NO_TAGS)


def _write_consumer_group_heartbeat_request_v1(w: Writer, o: ConsumerGroupHeartbeatRequest) -> None:
    w.compact_string(o.group_id, "ConsumerGroupHeartbeatRequest.group_id")
    w.compact_string(o.member_id, "ConsumerGroupHeartbeatRequest.member_id")
    w.add(_i.pack(o.member_epoch))
    w.compact_nullable_string(o.instance_id, "ConsumerGroupHeartbeatRequest.instance_id")
    w.compact_nullable_string(o.rack_id, "ConsumerGroupHeartbeatRequest.rack_id")
    w.add(_i.pack(o.rebalance_timeout_ms))
    if o.subscribed_topic_names is None:
        w.compact_count(-1)
    else:
        w.compact_count(len(o.subscribed_topic_names))
        for subscribed_topic_names_item in o.subscribed_topic_names:
            w.compact_string(subscribed_topic_names_item, "ConsumerGroupHeartbeatRequest.subscribed_topic_names")
    w.compact_nullable_string(o.subscribed_topic_regex, "ConsumerGroupHeartbeatRequest.subscribed_topic_regex")
    w.compact_nullable_string(o.server_assignor, "ConsumerGroupHeartbeatRequest.server_assignor")
    if o.topic_partitions is None:
        w.compact_count(-1)
    else:
        w.compact_count(len(o.topic_partitions))
        for topic_partitions_item in o.topic_partitions:
            _write_consumer_group_heartbeat_request_topic_partitions_v0(w, topic_partitions_item)
    w.add(NO_TAGS)


@dataclass(slots=True, kw_only=True)
class ConsumerGroupHeartbeatResponseTopicPartitions:
    """Part of ConsumerGroupHeartbeatResponse."""

    topic_id: bytes = ZERO_UUID
    partitions: list[int] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Assignment:
    """Part of ConsumerGroupHeartbeatResponse."""

    topic_partitions: list[ConsumerGroupHeartbeatResponseTopicPartitions] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class ConsumerGroupHeartbeatResponse:
    """Versions 0 to 1."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None


def _read_consumer_group_heartbeat_response_topic_partitions_v0(
    r: Reader,
) -> ConsumerGroupHeartbeatResponseTopicPartitions:
    (topic_id,) = r.take(_s, "TopicPartitions.topic_id")
    partitions = r.numbers("i", r.compact_count(4, "TopicPartitions.partitions"))
    r.skip_tags("TopicPartitions")
    return ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=topic_id, partitions=partitions)


def _write_consumer_group_heartbeat_response_topic_partitions_v0(
    w: Writer, o: ConsumerGroupHeartbeatResponseTopicPartitions
) -> None:
    w.add(_s.pack(uuid(o.topic_id)))
    w.compact_count(len(o.partitions))
    w.numbers("i", o.partitions)
    w.add(NO_TAGS)


def _read_assignment_v0(r: Reader) -> Assignment:
    topic_partitions = [
        _read_consumer_group_heartbeat_response_topic_partitions_v0(r)
        for _ in range(r.compact_count(18, "Assignment.topic_partitions"))
    ]
    r.skip_tags("Assignment")
    return Assignment(topic_partitions=topic_partitions)


def _write_assignment_v0(w: Writer, o: Assignment) -> None:
    w.compact_count(len(o.topic_partitions))
    for topic_partitions_item in o.topic_partitions:
        _write_consumer_group_heartbeat_response_topic_partitions_v0(w, topic_partitions_item)
    w.add(NO_TAGS)


def _read_consumer_group_heartbeat_response_v0(r: Reader) -> ConsumerGroupHeartbeatResponse:
    throttle_time_ms, error_code = r.take(_ih, "ConsumerGroupHeartbeatResponse.throttle_time_ms,error_code")
    error_message = r.compact_nullable_string("ConsumerGroupHeartbeatResponse.error_message")
    member_id = r.compact_nullable_string("ConsumerGroupHeartbeatResponse.member_id")
    member_epoch, heartbeat_interval_ms = r.take(
        _ii, "ConsumerGroupHeartbeatResponse.member_epoch,heartbeat_interval_ms"
    )
    assignment = None if r.is_null("ConsumerGroupHeartbeatResponse.assignment") else _read_assignment_v0(r)
    r.skip_tags("ConsumerGroupHeartbeatResponse")
    return ConsumerGroupHeartbeatResponse(
        throttle_time_ms=throttle_time_ms,
        error_code=error_code,
        error_message=error_message,
        member_id=member_id,
        member_epoch=member_epoch,
        heartbeat_interval_ms=heartbeat_interval_ms,
        assignment=assignment,
    )


def _write_consumer_group_heartbeat_response_v0(w: Writer, o: ConsumerGroupHeartbeatResponse) -> None:
    w.add(_ih.pack(o.throttle_time_ms, o.error_code))
    w.compact_nullable_string(o.error_message, "ConsumerGroupHeartbeatResponse.error_message")
    w.compact_nullable_string(o.member_id, "ConsumerGroupHeartbeatResponse.member_id")
    w.add(_ii.pack(o.member_epoch, o.heartbeat_interval_ms))
    if o.assignment is None:
        w.add(NULL_STRUCT)
    else:
        w.add(STRUCT_FOLLOWS)
        _write_assignment_v0(w, o.assignment)
    w.add(NO_TAGS)


REQUEST: Final = Codec(
    "ConsumerGroupHeartbeatRequest",
    0,
    (
        _read_consumer_group_heartbeat_request_v0,
        _read_consumer_group_heartbeat_request_v1,
    ),
    (
        _write_consumer_group_heartbeat_request_v0,
        _write_consumer_group_heartbeat_request_v1,
    ),
)

RESPONSE: Final = Codec(
    "ConsumerGroupHeartbeatResponse",
    0,
    (
        _read_consumer_group_heartbeat_response_v0,
        _read_consumer_group_heartbeat_response_v0,
    ),
    (
        _write_consumer_group_heartbeat_response_v0,
        _write_consumer_group_heartbeat_response_v0,
    ),
)
