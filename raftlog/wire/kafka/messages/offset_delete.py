"""OffsetDelete (API 47), version 0. Made by scripts/generate_kafka_messages.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from raftlog.wire.kafka.codec import Codec
from raftlog.wire.kafka.reader import Reader
from raftlog.wire.kafka.writer import Writer

_hi = Struct(">hi")
_i = Struct(">i")
_ih = Struct(">ih")


@dataclass(slots=True, kw_only=True)
class OffsetDeleteRequestPartition:
    """Part of OffsetDeleteRequest."""

    partition_index: int = 0


@dataclass(slots=True, kw_only=True)
class OffsetDeleteRequestTopic:
    """Part of OffsetDeleteRequest."""

    name: str = ""
    partitions: list[OffsetDeleteRequestPartition] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class OffsetDeleteRequest:
    """Version 0."""

    group_id: str = ""
    topics: list[OffsetDeleteRequestTopic] = field(default_factory=list)


def _read_offset_delete_request_partition_v0(r: Reader) -> OffsetDeleteRequestPartition:
    (partition_index,) = r.take(_i, "OffsetDeleteRequestPartition.partition_index")
    return OffsetDeleteRequestPartition(partition_index=partition_index)


def _write_offset_delete_request_partition_v0(w: Writer, o: OffsetDeleteRequestPartition) -> None:
    w.add(_i.pack(o.partition_index))


def _read_offset_delete_request_topic_v0(r: Reader) -> OffsetDeleteRequestTopic:
    name = r.string("OffsetDeleteRequestTopic.name")
    partitions = [
        _read_offset_delete_request_partition_v0(r) for _ in range(r.count(4, "OffsetDeleteRequestTopic.partitions"))
    ]
    return OffsetDeleteRequestTopic(name=name, partitions=partitions)


def _write_offset_delete_request_topic_v0(w: Writer, o: OffsetDeleteRequestTopic) -> None:
    w.string(o.name, "OffsetDeleteRequestTopic.name")
    w.count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_offset_delete_request_partition_v0(w, partitions_item)


def _read_offset_delete_request_v0(r: Reader) -> OffsetDeleteRequest:
    group_id = r.string("OffsetDeleteRequest.group_id")
    topics = [_read_offset_delete_request_topic_v0(r) for _ in range(r.count(6, "OffsetDeleteRequest.topics"))]
    return OffsetDeleteRequest(group_id=group_id, topics=topics)


def _write_offset_delete_request_v0(w: Writer, o: OffsetDeleteRequest) -> None:
    w.string(o.group_id, "OffsetDeleteRequest.group_id")
    w.count(len(o.topics))
    for topics_item in o.topics:
        _write_offset_delete_request_topic_v0(w, topics_item)


@dataclass(slots=True, kw_only=True)
class OffsetDeleteResponsePartition:
    """Part of OffsetDeleteResponse."""

    partition_index: int = 0
    error_code: int = 0


@dataclass(slots=True, kw_only=True)
class OffsetDeleteResponseTopic:
    """Part of OffsetDeleteResponse."""

    name: str = ""
    partitions: list[OffsetDeleteResponsePartition] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class OffsetDeleteResponse:
    """Version 0."""

    error_code: int = 0
    throttle_time_ms: int = 0
    topics: list[OffsetDeleteResponseTopic] = field(default_factory=list)


def _read_offset_delete_response_partition_v0(r: Reader) -> OffsetDeleteResponsePartition:
    partition_index, error_code = r.take(_ih, "OffsetDeleteResponsePartition.partition_index,error_code")
    return OffsetDeleteResponsePartition(partition_index=partition_index, error_code=error_code)


def _write_offset_delete_response_partition_v0(w: Writer, o: OffsetDeleteResponsePartition) -> None:
    w.add(_ih.pack(o.partition_index, o.error_code))


def _read_offset_delete_response_topic_v0(r: Reader) -> OffsetDeleteResponseTopic:
    name = r.string("OffsetDeleteResponseTopic.name")
    partitions = [
        _read_offset_delete_response_partition_v0(r) for _ in range(r.count(6, "OffsetDeleteResponseTopic.partitions"))
    ]
    return OffsetDeleteResponseTopic(name=name, partitions=partitions)


def _write_offset_delete_response_topic_v0(w: Writer, o: OffsetDeleteResponseTopic) -> None:
    w.string(o.name, "OffsetDeleteResponseTopic.name")
    w.count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_offset_delete_response_partition_v0(w, partitions_item)


def _read_offset_delete_response_v0(r: Reader) -> OffsetDeleteResponse:
    error_code, throttle_time_ms = r.take(_hi, "OffsetDeleteResponse.error_code,throttle_time_ms")
    topics = [_read_offset_delete_response_topic_v0(r) for _ in range(r.count(6, "OffsetDeleteResponse.topics"))]
    return OffsetDeleteResponse(error_code=error_code, throttle_time_ms=throttle_time_ms, topics=topics)


def _write_offset_delete_response_v0(w: Writer, o: OffsetDeleteResponse) -> None:
    w.add(_hi.pack(o.error_code, o.throttle_time_ms))
    w.count(len(o.topics))
    for topics_item in o.topics:
        _write_offset_delete_response_topic_v0(w, topics_item)


REQUEST: Final = Codec("OffsetDeleteRequest", 0, (_read_offset_delete_request_v0,), (_write_offset_delete_request_v0,))

RESPONSE: Final = Codec(
    "OffsetDeleteResponse", 0, (_read_offset_delete_response_v0,), (_write_offset_delete_response_v0,)
)
