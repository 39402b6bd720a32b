"""DeleteRecords (API 21), versions 0 to 2. Made by scripts/generate_kafka_messages.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from raftlog.wire.kafka.codec import Codec
from raftlog.wire.kafka.reader import Reader
from raftlog.wire.kafka.writer import NO_TAGS, Writer

_i = Struct(">i")
_iq = Struct(">iq")
_iqh = Struct(">iqh")


@dataclass(slots=True, kw_only=True)
class DeleteRecordsPartition:
    """Part of DeleteRecordsRequest."""

    partition_index: int = 0
    offset: int = 0


@dataclass(slots=True, kw_only=True)
class DeleteRecordsTopic:
    """Part of DeleteRecordsRequest."""

    name: str = ""
    partitions: list[DeleteRecordsPartition] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class DeleteRecordsRequest:
    """Versions 0 to 2."""

    topics: list[DeleteRecordsTopic] = field(default_factory=list)
    timeout_ms: int = 0


def _read_delete_records_partition_v0(r: Reader) -> DeleteRecordsPartition:
    partition_index, offset = r.take(_iq, "DeleteRecordsPartition.partition_index,offset")
    return DeleteRecordsPartition(partition_index=partition_index, offset=offset)


def _read_delete_records_partition_v2(r: Reader) -> DeleteRecordsPartition:
    partition_index, offset = r.take(_iq, "DeleteRecordsPartition.partition_index,offset")
    r.skip_tags("DeleteRecordsPartition")
    return DeleteRecordsPartition(partition_index=partition_index, offset=offset)


def _write_delete_records_partition_v0(w: Writer, o: DeleteRecordsPartition) -> None:
    w.add(_iq.pack(o.partition_index, o.offset))


def _write_delete_records_partition_v2(w: Writer, o: DeleteRecordsPartition) -> None:
    w.add(_iq.pack(o.partition_index, o.offset))
    w.add(NO_TAGS)


def _read_delete_records_topic_v0(r: Reader) -> DeleteRecordsTopic:
    name = r.string("DeleteRecordsTopic.name")
    partitions = [_read_delete_records_partition_v0(r) for _ in range(r.count(12, "DeleteRecordsTopic.partitions"))]
    return DeleteRecordsTopic(name=name, partitions=partitions)


def _read_delete_records_topic_v2(r: Reader) -> DeleteRecordsTopic:
    name = r.compact_string("DeleteRecordsTopic.name")
    partitions = [
        _read_delete_records_partition_v2(r) for _ in range(r.compact_count(13, "DeleteRecordsTopic.partitions"))
    ]
    r.skip_tags("DeleteRecordsTopic")
    return DeleteRecordsTopic(name=name, partitions=partitions)


def _write_delete_records_topic_v0(w: Writer, o: DeleteRecordsTopic) -> None:
    w.string(o.name, "DeleteRecordsTopic.name")
    w.count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_delete_records_partition_v0(w, partitions_item)


def _write_delete_records_topic_v2(w: Writer, o: DeleteRecordsTopic) -> None:
    w.compact_string(o.name, "DeleteRecordsTopic.name")
    w.compact_count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_delete_records_partition_v2(w, partitions_item)
    w.add(NO_TAGS)


def _read_delete_records_request_v0(r: Reader) -> DeleteRecordsRequest:
    topics = [_read_delete_records_topic_v0(r) for _ in range(r.count(6, "DeleteRecordsRequest.topics"))]
    (timeout_ms,) = r.take(_i, "DeleteRecordsRequest.timeout_ms")
    return DeleteRecordsRequest(topics=topics, timeout_ms=timeout_ms)


def _read_delete_records_request_v2(r: Reader) -> DeleteRecordsRequest:
    topics = [_read_delete_records_topic_v2(r) for _ in range(r.compact_count(3, "DeleteRecordsRequest.topics"))]
    (timeout_ms,) = r.take(_i, "DeleteRecordsRequest.timeout_ms")
    r.skip_tags("DeleteRecordsRequest")
    return DeleteRecordsRequest(topics=topics, timeout_ms=timeout_ms)


def _write_delete_records_request_v0(w: Writer, o: DeleteRecordsRequest) -> None:
    w.count(len(o.topics))
    for topics_item in o.topics:
        _write_delete_records_topic_v0(w, topics_item)
    w.add(_i.pack(o.timeout_ms))


def _write_delete_records_request_v2(w: Writer, o: DeleteRecordsRequest) -> None:
    w.compact_count(len(o.topics))
    for topics_item in o.topics:
        _write_delete_records_topic_v2(w, topics_item)
    w.add(_i.pack(o.timeout_ms))
    w.add(NO_TAGS)


@dataclass(slots=True, kw_only=True)
class DeleteRecordsPartitionResult:
    """Part of DeleteRecordsResponse."""

    partition_index: int = 0
    low_watermark: int = 0
    error_code: int = 0


@dataclass(slots=True, kw_only=True)
class DeleteRecordsTopicResult:
    """Part of DeleteRecordsResponse."""

    name: str = ""
    partitions: list[DeleteRecordsPartitionResult] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class DeleteRecordsResponse:
    """Versions 0 to 2."""

    throttle_time_ms: int = 0
    topics: list[DeleteRecordsTopicResult] = field(default_factory=list)


def _read_delete_records_partition_result_v0(r: Reader) -> DeleteRecordsPartitionResult:
    partition_index, low_watermark, error_code = r.take(
        _iqh, "DeleteRecordsPartitionResult.partition_index,low_watermark,error_code"
    )
    return DeleteRecordsPartitionResult(
        partition_index=partition_index, low_watermark=low_watermark, error_code=error_code
    )


def _read_delete_records_partition_result_v2(r: Reader) -> DeleteRecordsPartitionResult:
    partition_index, low_watermark, error_code = r.take(
        _iqh, "DeleteRecordsPartitionResult.partition_index,low_watermark,error_code"
    )
    r.skip_tags("DeleteRecordsPartitionResult")
    return DeleteRecordsPartitionResult(
        partition_index=partition_index, low_watermark=low_watermark, error_code=error_code
    )


def _write_delete_records_partition_result_v0(w: Writer, o: DeleteRecordsPartitionResult) -> None:
    w.add(_iqh.pack(o.partition_index, o.low_watermark, o.error_code))


def _write_delete_records_partition_result_v2(w: Writer, o: DeleteRecordsPartitionResult) -> None:
    w.add(_iqh.pack(o.partition_index, o.low_watermark, o.error_code))
    w.add(NO_TAGS)


def _read_delete_records_topic_result_v0(r: Reader) -> DeleteRecordsTopicResult:
    name = r.string("DeleteRecordsTopicResult.name")
    partitions = [
        _read_delete_records_partition_result_v0(r) for _ in range(r.count(14, "DeleteRecordsTopicResult.partitions"))
    ]
    return DeleteRecordsTopicResult(name=name, partitions=partitions)


def _read_delete_records_topic_result_v2(r: Reader) -> DeleteRecordsTopicResult:
    name = r.compact_string("DeleteRecordsTopicResult.name")
    partitions = [
        _read_delete_records_partition_result_v2(r)
        for _ in range(r.compact_count(15, "DeleteRecordsTopicResult.partitions"))
    ]
    r.skip_tags("DeleteRecordsTopicResult")
    return DeleteRecordsTopicResult(name=name, partitions=partitions)


def _write_delete_records_topic_result_v0(w: Writer, o: DeleteRecordsTopicResult) -> None:
    w.string(o.name, "DeleteRecordsTopicResult.name")
    w.count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_delete_records_partition_result_v0(w, partitions_item)


def _write_delete_records_topic_result_v2(w: Writer, o: DeleteRecordsTopicResult) -> None:
    w.compact_string(o.name, "DeleteRecordsTopicResult.name")
    w.compact_count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_delete_records_partition_result_v2(w, partitions_item)
    w.add(NO_TAGS)


def _read_delete_records_response_v0(r: Reader) -> DeleteRecordsResponse:
    (throttle_time_ms,) = r.take(_i, "DeleteRecordsResponse.throttle_time_ms")
    topics = [_read_delete_records_topic_result_v0(r) for _ in range(r.count(6, "DeleteRecordsResponse.topics"))]
    return DeleteRecordsResponse(throttle_time_ms=throttle_time_ms, topics=topics)


def _read_delete_records_response_v2(r: Reader) -> DeleteRecordsResponse:
    (throttle_time_ms,) = r.take(_i, "DeleteRecordsResponse.throttle_time_ms")
    topics = [
        _read_delete_records_topic_result_v2(r) for _ in range(r.compact_count(3, "DeleteRecordsResponse.topics"))
    ]
    r.skip_tags("DeleteRecordsResponse")
    return DeleteRecordsResponse(throttle_time_ms=throttle_time_ms, topics=topics)


def _write_delete_records_response_v0(w: Writer, o: DeleteRecordsResponse) -> None:
    w.add(_i.pack(o.throttle_time_ms))
    w.count(len(o.topics))
    for topics_item in o.topics:
        _write_delete_records_topic_result_v0(w, topics_item)


def _write_delete_records_response_v2(w: Writer, o: DeleteRecordsResponse) -> None:
    w.add(_i.pack(o.throttle_time_ms))
    w.compact_count(len(o.topics))
    for topics_item in o.topics:
        _write_delete_records_topic_result_v2(w, topics_item)
    w.add(NO_TAGS)


REQUEST: Final = Codec(
    "DeleteRecordsRequest",
    0,
    (
        _read_delete_records_request_v0,
        _read_delete_records_request_v0,
        _read_delete_records_request_v2,
    ),
    (
        _write_delete_records_request_v0,
        _write_delete_records_request_v0,
        _write_delete_records_request_v2,
    ),
)

RESPONSE: Final = Codec(
    "DeleteRecordsResponse",
    0,
    (
        _read_delete_records_response_v0,
        _read_delete_records_response_v0,
        _read_delete_records_response_v2,
    ),
    (
        _write_delete_records_response_v0,
        _write_delete_records_response_v0,
        _write_delete_records_response_v2,
    ),
)
