"""DescribeTopicPartitions (API 75), version 0. Made by scripts/generate_kafka_messages.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from raftlog.wire.kafka.codec import Codec
from raftlog.wire.kafka.reader import Reader
from raftlog.wire.kafka.writer import NO_TAGS, NULL_STRUCT, STRUCT_FOLLOWS, ZERO_UUID, Writer, uuid

_so = Struct(">16s?")
_h = Struct(">h")
_hiii = Struct(">hiii")
_i = Struct(">i")


@dataclass(slots=True, kw_only=True)
class TopicRequest:
    """Part of DescribeTopicPartitionsRequest."""

    name: str = ""


@dataclass(slots=True, kw_only=True)
class DescribeTopicPartitionsRequestCursor:
    """Part of DescribeTopicPartitionsRequest."""

    topic_name: str = ""
    partition_index: int = 0


@dataclass(slots=True, kw_only=True)
class DescribeTopicPartitionsRequest:
    """Version 0."""

    topics: list[TopicRequest] = field(default_factory=list)
    response_partition_limit: int = 2000
    cursor: DescribeTopicPartitionsRequestCursor | None = None


def _read_topic_request_v0(r: Reader) -> TopicRequest:
    name = r.compact_string("TopicRequest.name")
    r.skip_tags("TopicRequest")
    return TopicRequest(name=name)


def _write_topic_request_v0(w: Writer, o: TopicRequest) -> None:
    w.compact_string(o.name, "TopicRequest.name")
    w.add(NO_TAGS)


def _read_describe_topic_partitions_request_cursor_v0(r: Reader) -> DescribeTopicPartitionsRequestCursor:
    topic_name = r.compact_string("Cursor.topic_name")
    (partition_index,) = r.take(_i, "Cursor.partition_index")
    r.skip_tags("Cursor")
    return DescribeTopicPartitionsRequestCursor(topic_name=topic_name, partition_index=partition_index)


def _write_describe_topic_partitions_request_cursor_v0(w: Writer, o: DescribeTopicPartitionsRequestCursor) -> None:
    w.compact_string(o.topic_name, "Cursor.topic_name")
    w.add(_i.pack(o.partition_index))
    w.add(NO_TAGS)


def _read_describe_topic_partitions_request_v0(r: Reader) -> DescribeTopicPartitionsRequest:
    topics = [_read_topic_request_v0(r) for _ in range(r.compact_count(2, "DescribeTopicPartitionsRequest.topics"))]
    (response_partition_limit,) = r.take(_i, "DescribeTopicPartitionsRequest.response_partition_limit")
    cursor = (
        None
        if r.is_null("DescribeTopicPartitionsRequest.cursor")
        else _read_describe_topic_partitions_request_cursor_v0(r)
    )
    r.skip_tags("DescribeTopicPartitionsRequest")
    return DescribeTopicPartitionsRequest(
        topics=topics, response_partition_limit=response_partition_limit, cursor=cursor
    )


def _write_describe_topic_partitions_request_v0(w: Writer, o: DescribeTopicPartitionsRequest) -> None:
    w.compact_count(len(o.topics))
    for topics_item in o.topics:
        _write_topic_request_v0(w, topics_item)
    w.add(_i.pack(o.response_partition_limit))
    if o.cursor is None:
        w.add(NULL_STRUCT)
    else:
        w.add(STRUCT_FOLLOWS)
        _write_describe_topic_partitions_request_cursor_v0(w, o.cursor)
    w.add(NO_TAGS)


@dataclass(slots=True, kw_only=True)
class DescribeTopicPartitionsResponsePartition:
    """Part of DescribeTopicPartitionsResponse."""

    error_code: int = 0
    partition_index: int = 0
    leader_id: int = 0
    leader_epoch: int = -1
    replica_nodes: list[int] = field(default_factory=list)
    isr_nodes: list[int] = field(default_factory=list)
    eligible_leader_replicas: list[int] | None = None
    last_known_elr: list[int] | None = None
    offline_replicas: list[int] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class DescribeTopicPartitionsResponseTopic:
    """Part of DescribeTopicPartitionsResponse."""

    error_code: int = 0
    name: str | None = ""
    topic_id: bytes = ZERO_UUID
    is_internal: bool = False
    partitions: list[DescribeTopicPartitionsResponsePartition] = field(default_factory=list)
    topic_authorized_operations: int = -2147483648


@dataclass(slots=True, kw_only=True)
class DescribeTopicPartitionsResponseCursor:
    """Part of DescribeTopicPartitionsResponse."""

    topic_name: str = ""
    partition_index: int = 0


@dataclass(slots=True, kw_only=True)
class DescribeTopicPartitionsResponse:
    """Version 0."""

    throttle_time_ms: int = 0
    topics: list[DescribeTopicPartitionsResponseTopic] = field(default_factory=list)
    next_cursor: DescribeTopicPartitionsResponseCursor | None = None


def _read_describe_topic_partitions_response_partition_v0(r: Reader) -> DescribeTopicPartitionsResponsePartition:
    error_code, partition_index, leader_id, leader_epoch = r.take(
        _hiii, "DescribeTopicPartitionsResponsePartition.error_code,partition_index,leader_id,leader_epoch"
    )
    replica_nodes = r.numbers("i", r.compact_count(4, "DescribeTopicPartitionsResponsePartition.replica_nodes"))
    isr_nodes = r.numbers("i", r.compact_count(4, "DescribeTopicPartitionsResponsePartition.isr_nodes"))
    n = r.compact_nullable_count(4, "DescribeTopicPartitionsResponsePartition.eligible_leader_replicas")
    eligible_leader_replicas = None if n < 0 else r.numbers("i", n)
    n = r.compact_nullable_count(4, "DescribeTopicPartitionsResponsePartition.last_known_elr")
    last_known_elr = None if n < 0 else r.numbers("i", n)
    offline_replicas = r.numbers("i", r.compact_count(4, "DescribeTopicPartitionsResponsePartition.offline_replicas"))
    r.skip_tags("DescribeTopicPartitionsResponsePartition")
    return DescribeTopicPartitionsResponsePartition(
        error_code=error_code,
        partition_index=partition_index,
        leader_id=leader_id,
        leader_epoch=leader_epoch,
        replica_nodes=replica_nodes,
        isr_nodes=isr_nodes,
        eligible_leader_replicas=eligible_leader_replicas,
        last_known_elr=last_known_elr,
        offline_replicas=offline_replicas,
    )


def _write_describe_topic_partitions_response_partition_v0(
    w: Writer, o: DescribeTopicPartitionsResponsePartition
) -> None:
    w.add(_hiii.pack(o.error_code, o.partition_index, o.leader_id, o.leader_epoch))
    w.compact_count(len(o.replica_nodes))
    w.numbers("i", o.replica_nodes)
    w.compact_count(len(o.isr_nodes))
    w.numbers("i", o.isr_nodes)
    if o.eligible_leader_replicas is None:
        w.compact_count(-1)
    else:
        w.compact_count(len(o.eligible_leader_replicas))
        w.numbers("i", o.eligible_leader_replicas)
    if o.last_known_elr is None:
        w.compact_count(-1)
    else:
        w.compact_count(len(o.last_known_elr))
        w.numbers("i", o.last_known_elr)
    w.compact_count(len(o.offline_replicas))
    w.numbers("i", o.offline_replicas)
    w.add(NO_TAGS)


def _read_describe_topic_partitions_response_topic_v0(r: Reader) -> DescribeTopicPartitionsResponseTopic:
    (error_code,) = r.take(_h, "DescribeTopicPartitionsResponseTopic.error_code")
    name = r.compact_nullable_string("DescribeTopicPartitionsResponseTopic.name")
    topic_id, is_internal = r.take(_so, "DescribeTopicPartitionsResponseTopic.topic_id,is_internal")
    partitions = [
        _read_describe_topic_partitions_response_partition_v0(r)
        for _ in range(r.compact_count(20, "DescribeTopicPartitionsResponseTopic.partitions"))
    ]
    (topic_authorized_operations,) = r.take(_i, "DescribeTopicPartitionsResponseTopic.topic_authorized_operations")
    r.skip_tags("DescribeTopicPartitionsResponseTopic")
    return DescribeTopicPartitionsResponseTopic(
        error_code=error_code,
        name=name,
        topic_id=topic_id,
        is_internal=is_internal,
        partitions=partitions,
        topic_authorized_operations=topic_authorized_operations,
    )


def _write_describe_topic_partitions_response_topic_v0(w: Writer, o: DescribeTopicPartitionsResponseTopic) -> None:
    w.add(_h.pack(o.error_code))
    w.compact_nullable_string(o.name, "DescribeTopicPartitionsResponseTopic.name")
    w.add(_so.pack(uuid(o.topic_id), o.is_internal))
    w.compact_count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_describe_topic_partitions_response_partition_v0(w, partitions_item)
    w.add(_i.pack(o.topic_authorized_operations))
    w.add(NO_TAGS)


def _read_describe_topic_partitions_response_cursor_v0(r: Reader) -> DescribeTopicPartitionsResponseCursor:
    topic_name = r.compact_string("Cursor.topic_name")
    (partition_index,) = r.take(_i, "Cursor.partition_index")
    r.skip_tags("Cursor")
    return DescribeTopicPartitionsResponseCursor(topic_name=topic_name, partition_index=partition_index)


def _write_describe_topic_partitions_response_cursor_v0(w: Writer, o: DescribeTopicPartitionsResponseCursor) -> None:
    w.compact_string(o.topic_name, "Cursor.topic_name")
    w.add(_i.pack(o.partition_index))
    w.add(NO_TAGS)


def _read_describe_topic_partitions_response_v0(r: Reader) -> DescribeTopicPartitionsResponse:
    (throttle_time_ms,) = r.take(_i, "DescribeTopicPartitionsResponse.throttle_time_ms")
    topics = [
        _read_describe_topic_partitions_response_topic_v0(r)
        for _ in range(r.compact_count(26, "DescribeTopicPartitionsResponse.topics"))
    ]
    next_cursor = (
        None
        if r.is_null("DescribeTopicPartitionsResponse.next_cursor")
        else _read_describe_topic_partitions_response_cursor_v0(r)
    )
    r.skip_tags("DescribeTopicPartitionsResponse")
    return DescribeTopicPartitionsResponse(throttle_time_ms=throttle_time_ms, topics=topics, next_cursor=next_cursor)


def _write_describe_topic_partitions_response_v0(w: Writer, o: DescribeTopicPartitionsResponse) -> None:
    w.add(_i.pack(o.throttle_time_ms))
    w.compact_count(len(o.topics))
    for topics_item in o.topics:
        _write_describe_topic_partitions_response_topic_v0(w, topics_item)
    if o.next_cursor is None:
        w.add(NULL_STRUCT)
    else:
        w.add(STRUCT_FOLLOWS)
        _write_describe_topic_partitions_response_cursor_v0(w, o.next_cursor)
    w.add(NO_TAGS)


REQUEST: Final = Codec(
    "DescribeTopicPartitionsRequest",
    0,
    (_read_describe_topic_partitions_request_v0,),
    (_write_describe_topic_partitions_request_v0,),
)

RESPONSE: Final = Codec(
    "DescribeTopicPartitionsResponse",
    0,
    (_read_describe_topic_partitions_response_v0,),
    (_write_describe_topic_partitions_response_v0,),
)
