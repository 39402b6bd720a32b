"""DescribeProducers (API 61), version 0. Made by scripts/generate_kafka_messages.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from raftlog.wire.kafka.codec import Codec
from raftlog.wire.kafka.reader import Reader
from raftlog.wire.kafka.writer import NO_TAGS, Writer

_i = Struct(">i")
_ih = Struct(">ih")
_qiiqiq = Struct(">qiiqiq")


@dataclass(slots=True, kw_only=True)
class TopicRequest:
    """Part of DescribeProducersRequest."""

    name: str = ""
    partition_indexes: list[int] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class DescribeProducersRequest:
    """Version 0."""

    topics: list[TopicRequest] = field(default_factory=list)


def _read_topic_request_v0(r: Reader) -> TopicRequest:
    name = r.compact_string("TopicRequest.name")
    partition_indexes = r.numbers("i", r.compact_count(4, "TopicRequest.partition_indexes"))
    r.skip_tags("TopicRequest")
    return TopicRequest(name=name, partition_indexes=partition_indexes)


def _write_topic_request_v0(w: Writer, o: TopicRequest) -> None:
    w.compact_string(o.name, "TopicRequest.name")
    w.compact_count(len(o.partition_indexes))
    w.numbers("i", o.partition_indexes)
    w.add(NO_TAGS)


def _read_describe_producers_request_v0(r: Reader) -> DescribeProducersRequest:
    topics = [_read_topic_request_v0(r) for _ in range(r.compact_count(3, "DescribeProducersRequest.topics"))]
    r.skip_tags("DescribeProducersRequest")
    return DescribeProducersRequest(topics=topics)


def _write_describe_producers_request_v0(w: Writer, o: DescribeProducersRequest) -> None:
    w.compact_count(len(o.topics))
    for topics_item in o.topics:
        _write_topic_request_v0(w, topics_item)
    w.add(NO_TAGS)


@dataclass(slots=True, kw_only=True)
class ProducerState:
    """Part of DescribeProducersResponse."""

    producer_id: int = 0
    producer_epoch: int = 0
    last_sequence: int = -1
    last_timestamp: int = -1
    coordinator_epoch: int = 0
    current_txn_start_offset: int = -1


@dataclass(slots=True, kw_only=True)
class PartitionResponse:
    """Part of DescribeProducersResponse."""

    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None
    active_producers: list[ProducerState] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class TopicResponse:
    """Part of DescribeProducersResponse."""

    name: str = ""
    partitions: list[PartitionResponse] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class DescribeProducersResponse:
    """Version 0."""

    throttle_time_ms: int = 0
    topics: list[TopicResponse] = field(default_factory=list)


def _read_producer_state_v0(r: Reader) -> ProducerState:
    producer_id, producer_epoch, last_sequence, last_timestamp, coordinator_epoch, current_txn_start_offset = r.take(
        _qiiqiq,
        "ProducerState.producer_id,producer_epoch,last_sequence,last_timestamp,coordinator_epoch,current_txn_start_offset",
    )
    r.skip_tags("ProducerState")
    return ProducerState(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        last_sequence=last_sequence,
        last_timestamp=last_timestamp,
        coordinator_epoch=coordinator_epoch,
        current_txn_start_offset=current_txn_start_offset,
    )


def _write_producer_state_v0(w: Writer, o: ProducerState) -> None:
    w.add(
        _qiiqiq.pack(
            o.producer_id,
            o.producer_epoch,
            o.last_sequence,
            o.last_timestamp,
            o.coordinator_epoch,
            o.current_txn_start_offset,
        )
    )
    w.add(NO_TAGS)


def _read_partition_response_v0(r: Reader) -> PartitionResponse:
    partition_index, error_code = r.take(_ih, "PartitionResponse.partition_index,error_code")
    error_message = r.compact_nullable_string("PartitionResponse.error_message")
    active_producers = [
        _read_producer_state_v0(r) for _ in range(r.compact_count(37, "PartitionResponse.active_producers"))
    ]
    r.skip_tags("PartitionResponse")
    return PartitionResponse(
        partition_index=partition_index,
        error_code=error_code,
        error_message=error_message,
        active_producers=active_producers,
    )


def _write_partition_response_v0(w: Writer, o: PartitionResponse) -> None:
    w.add(_ih.pack(o.partition_index, o.error_code))
    w.compact_nullable_string(o.error_message, "PartitionResponse.error_message")
    w.compact_count(len(o.active_producers))
    for active_producers_item in o.active_producers:
        _write_producer_state_v0(w, active_producers_item)
    w.add(NO_TAGS)


def _read_topic_response_v0(r: Reader) -> TopicResponse:
    name = r.compact_string("TopicResponse.name")
    partitions = [_read_partition_response_v0(r) for _ in range(r.compact_count(9, "TopicResponse.partitions"))]
    r.skip_tags("TopicResponse")
    return TopicResponse(name=name, partitions=partitions)


def _write_topic_response_v0(w: Writer, o: TopicResponse) -> None:
    w.compact_string(o.name, "TopicResponse.name")
    w.compact_count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_partition_response_v0(w, partitions_item)
    w.add(NO_TAGS)


def _read_describe_producers_response_v0(r: Reader) -> DescribeProducersResponse:
    (throttle_time_ms,) = r.take(_i, "DescribeProducersResponse.throttle_time_ms")
    topics = [_read_topic_response_v0(r) for _ in range(r.compact_count(3, "DescribeProducersResponse.topics"))]
    r.skip_tags("DescribeProducersResponse")
    return DescribeProducersResponse(throttle_time_ms=throttle_time_ms, topics=topics)


def _write_describe_producers_response_v0(w: Writer, o: DescribeProducersResponse) -> None:
    w.add(_i.pack(o.throttle_time_ms))
    w.compact_count(len(o.topics))
    for topics_item in o.topics:
        _write_topic_response_v0(w, topics_item)
    w.add(NO_TAGS)


REQUEST: Final = Codec(
    "DescribeProducersRequest", 0, (_read_describe_producers_request_v0,), (_write_describe_producers_request_v0,)
)

RESPONSE: Final = Codec(
    "DescribeProducersResponse", 0, (_read_describe_producers_response_v0,), (_write_describe_producers_response_v0,)
)
