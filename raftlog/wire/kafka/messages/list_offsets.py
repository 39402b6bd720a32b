"""ListOffsets (API 2), versions 1 to 10. Made by scripts/generate_kafka_messages.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from raftlog.wire.kafka.codec import Codec
from raftlog.wire.kafka.reader import Reader
from raftlog.wire.kafka.writer import NO_TAGS, Writer

_i = Struct(">i")
_ib = Struct(">ib")
_ihqq = Struct(">ihqq")
_ihqqi = Struct(">ihqqi")
_iiq = Struct(">iiq")
_iq = Struct(">iq")


@dataclass(slots=True, kw_only=True)
class ListOffsetsPartition:
    """Part of ListOffsetsRequest."""

    partition_index: int = 0
    current_leader_epoch: int = -1  # v4+
    timestamp: int = 0


@dataclass(slots=True, kw_only=True)
class ListOffsetsTopic:
    """Part of ListOffsetsRequest."""

    name: str = ""
    partitions: list[ListOffsetsPartition] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class ListOffsetsRequest:
    """Versions 1 to 10."""

    replica_id: int = 0
    isolation_level: int = 0  # v2+
    topics: list[ListOffsetsTopic] = field(default_factory=list)
    timeout_ms: int = 0  # v10+


def _read_list_offsets_partition_v1(r: Reader) -> ListOffsetsPartition:
    partition_index, timestamp = r.take(_iq, "ListOffsetsPartition.partition_index,timestamp")
    return ListOffsetsPartition(partition_index=partition_index, timestamp=timestamp)


def _read_list_offsets_partition_v4(r: Reader) -> ListOffsetsPartition:
    partition_index, current_leader_epoch, timestamp = r.take(
        _iiq, "ListOffsetsPartition.partition_index,current_leader_epoch,timestamp"
    )
    return ListOffsetsPartition(
        partition_index=partition_index, current_leader_epoch=current_leader_epoch, timestamp=timestamp
    )


def _read_list_offsets_partition_v6(r: Reader) -> ListOffsetsPartition:
    partition_index, current_leader_epoch, timestamp = r.take(
        _iiq, "ListOffsetsPartition.partition_index,current_leader_epoch,timestamp"
    )
    r.skip_tags("ListOffsetsPartition")
    return ListOffsetsPartition(
        partition_index=partition_index, current_leader_epoch=current_leader_epoch, timestamp=timestamp
    )


def _write_list_offsets_partition_v1(w: Writer, o: ListOffsetsPartition) -> None:
    w.add(_iq.pack(o.partition_index, o.timestamp))


def _write_list_offsets_partition_v4(w: Writer, o: ListOffsetsPartition) -> None:
    w.add(_iiq.pack(o.partition_index, o.current_leader_epoch, o.timestamp))


def _write_list_offsets_partition_v6(w: Writer, o: ListOffsetsPartition) -> None:
    w.add(_iiq.pack(o.partition_index, o.current_leader_epoch, o.timestamp))
    w.add(NO_TAGS)


def _read_list_offsets_topic_v1(r: Reader) -> ListOffsetsTopic:
    name = r.string("ListOffsetsTopic.name")
    partitions = [_read_list_offsets_partition_v1(r) for _ in range(r.count(12, "ListOffsetsTopic.partitions"))]
    return ListOffsetsTopic(name=name, partitions=partitions)


def _read_list_offsets_topic_v4(r: Reader) -> ListOffsetsTopic:
    name = r.string("ListOffsetsTopic.name")
    partitions = [_read_list_offsets_partition_v4(r) for _ in range(r.count(16, "ListOffsetsTopic.partitions"))]
    return ListOffsetsTopic(name=name, partitions=partitions)


def _read_list_offsets_topic_v6(r: Reader) -> ListOffsetsTopic:
    name = r.compact_string("ListOffsetsTopic.name")
    partitions = [_read_list_offsets_partition_v6(r) for _ in range(r.compact_count(17, "ListOffsetsTopic.partitions"))]
    r.skip_tags("ListOffsetsTopic")
    return ListOffsetsTopic(name=name, partitions=partitions)


def _write_list_offsets_topic_v1(w: Writer, o: ListOffsetsTopic) -> None:
    w.string(o.name, "ListOffsetsTopic.name")
    w.count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_list_offsets_partition_v1(w, partitions_item)


def _write_list_offsets_topic_v4(w: Writer, o: ListOffsetsTopic) -> None:
    w.string(o.name, "ListOffsetsTopic.name")
    w.count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_list_offsets_partition_v4(w, partitions_item)


def _write_list_offsets_topic_v6(w: Writer, o: ListOffsetsTopic) -> None:
    w.compact_string(o.name, "ListOffsetsTopic.name")
    w.compact_count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_list_offsets_partition_v6(w, partitions_item)
    w.add(NO_TAGS)


def _read_list_offsets_request_v1(r: Reader) -> ListOffsetsRequest:
    (replica_id,) = r.take(_i, "ListOffsetsRequest.replica_id")
    topics = [_read_list_offsets_topic_v1(r) for _ in range(r.count(6, "ListOffsetsRequest.topics"))]
    return ListOffsetsRequest(replica_id=replica_id, topics=topics)


def _read_list_offsets_request_v2(r: Reader) -> ListOffsetsRequest:
    replica_id, isolation_level = r.take(_ib, "ListOffsetsRequest.replica_id,isolation_level")
    topics = [_read_list_offsets_topic_v1(r) for _ in range(r.count(6, "ListOffsetsRequest.topics"))]
    return ListOffsetsRequest(replica_id=replica_id, isolation_level=isolation_level, topics=topics)


def _read_list_offsets_request_v4(r: Reader) -> ListOffsetsRequest:
    replica_id, isolation_level = r.take(_ib, "ListOffsetsRequest.replica_id,isolation_level")
    topics = [_read_list_offsets_topic_v4(r) for _ in range(r.count(6, "ListOffsetsRequest.topics"))]
    return ListOffsetsRequest(replica_id=replica_id, isolation_level=isolation_level, topics=topics)


def _read_list_offsets_request_v6(r: Reader) -> ListOffsetsRequest:
    replica_id, isolation_level = r.take(_ib, "ListOffsetsRequest.replica_id,isolation_level")
    topics = [_read_list_offsets_topic_v6(r) for _ in range(r.compact_count(3, "ListOffsetsRequest.topics"))]
    r.skip_tags("ListOffsetsRequest")
    return ListOffsetsRequest(replica_id=replica_id, isolation_level=isolation_level, topics=topics)


def _read_list_offsets_request_v10(r: Reader) -> ListOffsetsRequest:
    replica_id, isolation_level = r.take(_ib, "ListOffsetsRequest.replica_id,isolation_level")
    topics = [_read_list_offsets_topic_v6(r) for _ in range(r.compact_count(3, "ListOffsetsRequest.topics"))]
    (timeout_ms,) = r.take(_i, "ListOffsetsRequest.timeout_ms")
    r.skip_tags("ListOffsetsRequest")
    return ListOffsetsRequest(
        replica_id=replica_id, isolation_level=isolation_level, topics=topics, timeout_ms=timeout_ms
    )


def _write_list_offsets_request_v1(w: Writer, o: ListOffsetsRequest) -> None:
    if o.isolation_level != 0:
        raise w.unsupported("ListOffsetsRequest.isolation_level")
    w.add(_i.pack(o.replica_id))
    w.count(len(o.topics))
    for topics_item in o.topics:
        _write_list_offsets_topic_v1(w, topics_item)


def _write_list_offsets_request_v2(w: Writer, o: ListOffsetsRequest) -> None:
    w.add(_ib.pack(o.replica_id, o.isolation_level))
    w.count(len(o.topics))
    for topics_item in o.topics:
        _write_list_offsets_topic_v1(w, topics_item)


def _write_list_offsets_request_v4(w: Writer, o: ListOffsetsRequest) -> None:
    w.add(_ib.pack(o.replica_id, o.isolation_level))
    w.count(len(o.topics))
    for topics_item in o.topics:
        _write_list_offsets_topic_v4(w, topics_item)


def _write_list_offsets_request_v6(w: Writer, o: ListOffsetsRequest) -> None:
    w.add(_ib.pack(o.replica_id, o.isolation_level))
    w.compact_count(len(o.topics))
    for topics_item in o.topics:
        _write_list_offsets_topic_v6(w, topics_item)
    w.add(NO_TAGS)


def _write_list_offsets_request_v10(w: Writer, o: ListOffsetsRequest) -> None:
    w.add(_ib.pack(o.replica_id, o.isolation_level))
    w.compact_count(len(o.topics))
    for topics_item in o.topics:
        _write_list_offsets_topic_v6(w, topics_item)
    w.add(_i.pack(o.timeout_ms))
    w.add(NO_TAGS)


@dataclass(slots=True, kw_only=True)
class ListOffsetsPartitionResponse:
    """Part of ListOffsetsResponse."""

    partition_index: int = 0
    error_code: int = 0
    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1  # v4+


@dataclass(slots=True, kw_only=True)
class ListOffsetsTopicResponse:
    """Part of ListOffsetsResponse."""

    name: str = ""
    partitions: list[ListOffsetsPartitionResponse] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class ListOffsetsResponse:
    """Versions 1 to 10."""

    throttle_time_ms: int = 0  # v2+
    topics: list[ListOffsetsTopicResponse] = field(default_factory=list)


def _read_list_offsets_partition_response_v1(r: Reader) -> ListOffsetsPartitionResponse:
    partition_index, error_code, timestamp, offset = r.take(
        _ihqq, "ListOffsetsPartitionResponse.partition_index,error_code,timestamp,offset"
    )
    return ListOffsetsPartitionResponse(
        partition_index=partition_index, error_code=error_code, timestamp=timestamp, offset=offset
    )


def _read_list_offsets_partition_response_v4(r: Reader) -> ListOffsetsPartitionResponse:
    partition_index, error_code, timestamp, offset, leader_epoch = r.take(
        _ihqqi, "ListOffsetsPartitionResponse.partition_index,error_code,timestamp,offset,leader_epoch"
    )
    return ListOffsetsPartitionResponse(
        partition_index=partition_index,
        error_code=error_code,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=leader_epoch,
    )


def _read_list_offsets_partition_response_v6(r: Reader) -> ListOffsetsPartitionResponse:
    partition_index, error_code, timestamp, offset, leader_epoch = r.take(
        _ihqqi, "ListOffsetsPartitionResponse.partition_index,error_code,timestamp,offset,leader_epoch"
    )
    r.skip_tags("ListOffsetsPartitionResponse")
    return ListOffsetsPartitionResponse(
        partition_index=partition_index,
        error_code=error_code,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=leader_epoch,
    )


def _write_list_offsets_partition_response_v1(w: Writer, o: ListOffsetsPartitionResponse) -> None:
    if o.leader_epoch != -1:
        raise w.unsupported("ListOffsetsPartitionResponse.leader_epoch")
    w.add(_ihqq.pack(o.partition_index, o.error_code, o.timestamp, o.offset))


def _write_list_offsets_partition_response_v4(w: Writer, o: ListOffsetsPartitionResponse) -> None:
    w.add(_ihqqi.pack(o.partition_index, o.error_code, o.timestamp, o.offset, o.leader_epoch))


def _write_list_offsets_partition_response_v6(w: Writer, o: ListOffsetsPartitionResponse) -> None:
    w.add(_ihqqi.pack(o.partition_index, o.error_code, o.timestamp, o.offset, o.leader_epoch))
    w.add(NO_TAGS)


def _read_list_offsets_topic_response_v1(r: Reader) -> ListOffsetsTopicResponse:
    name = r.string("ListOffsetsTopicResponse.name")
    partitions = [
        _read_list_offsets_partition_response_v1(r) for _ in range(r.count(22, "ListOffsetsTopicResponse.partitions"))
    ]
    return ListOffsetsTopicResponse(name=name, partitions=partitions)


def _read_list_offsets_topic_response_v4(r: Reader) -> ListOffsetsTopicResponse:
    name = r.string("ListOffsetsTopicResponse.name")
    partitions = [
        _read_list_offsets_partition_response_v4(r) for _ in range(r.count(26, "ListOffsetsTopicResponse.partitions"))
    ]
    return ListOffsetsTopicResponse(name=name, partitions=partitions)


def _read_list_offsets_topic_response_v6(r: Reader) -> ListOffsetsTopicResponse:
    name = r.compact_string("ListOffsetsTopicResponse.name")
    partitions = [
        _read_list_offsets_partition_response_v6(r)
        for _ in range(r.compact_count(27, "ListOffsetsTopicResponse.partitions"))
    ]
    r.skip_tags("ListOffsetsTopicResponse")
    return ListOffsetsTopicResponse(name=name, partitions=partitions)


def _write_list_offsets_topic_response_v1(w: Writer, o: ListOffsetsTopicResponse) -> None:
    w.string(o.name, "ListOffsetsTopicResponse.name")
    w.count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_list_offsets_partition_response_v1(w, partitions_item)


def _write_list_offsets_topic_response_v4(w: Writer, o: ListOffsetsTopicResponse) -> None:
    w.string(o.name, "ListOffsetsTopicResponse.name")
    w.count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_list_offsets_partition_response_v4(w, partitions_item)


def _write_list_offsets_topic_response_v6(w: Writer, o: ListOffsetsTopicResponse) -> None:
    w.compact_string(o.name, "ListOffsetsTopicResponse.name")
    w.compact_count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_list_offsets_partition_response_v6(w, partitions_item)
    w.add(NO_TAGS)


def _read_list_offsets_response_v1(r: Reader) -> ListOffsetsResponse:
    topics = [_read_list_offsets_topic_response_v1(r) for _ in range(r.count(6, "ListOffsetsResponse.topics"))]
    return ListOffsetsResponse(topics=topics)


def _read_list_offsets_response_v2(r: Reader) -> ListOffsetsResponse:
    (throttle_time_ms,) = r.take(_i, "ListOffsetsResponse.throttle_time_ms")
    topics = [_read_list_offsets_topic_response_v1(r) for _ in range(r.count(6, "ListOffsetsResponse.topics"))]
    return ListOffsetsResponse(throttle_time_ms=throttle_time_ms, topics=topics)


def _read_list_offsets_response_v4(r: Reader) -> ListOffsetsResponse:
    (throttle_time_ms,) = r.take(_i, "ListOffsetsResponse.throttle_time_ms")
    topics = [_read_list_offsets_topic_response_v4(r) for _ in range(r.count(6, "ListOffsetsResponse.topics"))]
    return ListOffsetsResponse(throttle_time_ms=throttle_time_ms, topics=topics)


def _read_list_offsets_response_v6(r: Reader) -> ListOffsetsResponse:
    (throttle_time_ms,) = r.take(_i, "ListOffsetsResponse.throttle_time_ms")
    topics = [_read_list_offsets_topic_response_v6(r) for _ in range(r.compact_count(3, "ListOffsetsResponse.topics"))]
    r.skip_tags("ListOffsetsResponse")
    return ListOffsetsResponse(throttle_time_ms=throttle_time_ms, topics=topics)


def _write_list_offsets_response_v1(w: Writer, o: ListOffsetsResponse) -> None:
    w.count(len(o.topics))
    for topics_item in o.topics:
        _write_list_offsets_topic_response_v1(w, topics_item)


def _write_list_offsets_response_v2(w: Writer, o: ListOffsetsResponse) -> None:
    w.add(_i.pack(o.throttle_time_ms))
    w.count(len(o.topics))
    for topics_item in o.topics:
        _write_list_offsets_topic_response_v1(w, topics_item)


def _write_list_offsets_response_v4(w: Writer, o: ListOffsetsResponse) -> None:
    w.add(_i.pack(o.throttle_time_ms))
    w.count(len(o.topics))
    for topics_item in o.topics:
        _write_list_offsets_topic_response_v4(w, topics_item)


def _write_list_offsets_response_v6(w: Writer, o: ListOffsetsResponse) -> None:
    w.add(_i.pack(o.throttle_time_ms))
    w.compact_count(len(o.topics))
    for topics_item in o.topics:
        _write_list_offsets_topic_response_v6(w, topics_item)
    w.add(NO_TAGS)


REQUEST: Final = Codec(
    "ListOffsetsRequest",
    1,
    (
        _read_list_offsets_request_v1,
        _read_list_offsets_request_v2,
        _read_list_offsets_request_v2,
        _read_list_offsets_request_v4,
        _read_list_offsets_request_v4,
        _read_list_offsets_request_v6,
        _read_list_offsets_request_v6,
        _read_list_offsets_request_v6,
        _read_list_offsets_request_v6,
        _read_list_offsets_request_v10,
    ),
    (
        _write_list_offsets_request_v1,
        _write_list_offsets_request_v2,
        _write_list_offsets_request_v2,
        _write_list_offsets_request_v4,
        _write_list_offsets_request_v4,
        _write_list_offsets_request_v6,
        _write_list_offsets_request_v6,
        _write_list_offsets_request_v6,
        _write_list_offsets_request_v6,
        _write_list_offsets_request_v10,
    ),
)

RESPONSE: Final = Codec(
    "ListOffsetsResponse",
    1,
    (
        _read_list_offsets_response_v1,
        _read_list_offsets_response_v2,
        _read_list_offsets_response_v2,
        _read_list_offsets_response_v4,
        _read_list_offsets_response_v4,
        _read_list_offsets_response_v6,
        _read_list_offsets_response_v6,
        _read_list_offsets_response_v6,
        _read_list_offsets_response_v6,
        _read_list_offsets_response_v6,
    ),
    (
        _write_list_offsets_response_v1,
        _write_list_offsets_response_v2,
        _write_list_offsets_response_v2,
        _write_list_offsets_response_v4,
        _write_list_offsets_response_v4,
        _write_list_offsets_response_v6,
        _write_list_offsets_response_v6,
        _write_list_offsets_response_v6,
        _write_list_offsets_response_v6,
        _write_list_offsets_response_v6,
    ),
)
