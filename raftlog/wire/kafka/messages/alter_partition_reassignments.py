"""AlterPartitionReassignments (API 45), versions 0 to 1. Made by scripts/generate_kafka_messages.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from raftlog.wire.kafka.codec import Codec
from raftlog.wire.kafka.reader import Reader
from raftlog.wire.kafka.writer import NO_TAGS, Writer

_i = Struct(">i")
_io = Struct(">i?")
_ioh = Struct(">i?h")
_ih = Struct(">ih")


@dataclass(slots=True, kw_only=True)
class ReassignablePartition:
    """Part of AlterPartitionReassignmentsRequest."""

    partition_index: int = 0
    replicas: list[int] | None = None


@dataclass(slots=True, kw_only=True)
class ReassignableTopic:
    """Part of AlterPartitionReassignmentsRequest."""

    name: str = ""
    partitions: list[ReassignablePartition] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class AlterPartitionReassignmentsRequest:
    """Versions 0 to 1."""

    timeout_ms: int = 60000
    allow_replication_factor_change: bool = True  # v1+
    topics: list[ReassignableTopic] = field(default_factory=list)


def _read_reassignable_partition_v0(r: Reader) -> ReassignablePartition:
    (partition_index,) = r.take(_i, "ReassignablePartition.partition_index")
    n = r.compact_nullable_count(4, "ReassignablePartition.replicas")
    replicas = None if n < 0 else r.numbers("i", n)
    r.skip_tags("ReassignablePartition")
    return ReassignablePartition(partition_index=partition_index, replicas=replicas)


def _write_reassignable_partition_v0(w: Writer, o: ReassignablePartition) -> None:
    w.add(_i.pack(o.partition_index))
    if o.replicas is None:
        w.compact_count(-1)
    else:
        w.compact_count(len(o.replicas))
        w.numbers("i", o.replicas)
    w.add(NO_TAGS)


def _read_reassignable_topic_v0(r: Reader) -> ReassignableTopic:
    name = r.compact_string("ReassignableTopic.name")
    partitions = [_read_reassignable_partition_v0(r) for _ in range(r.compact_count(6, "ReassignableTopic.partitions"))]
    r.skip_tags("ReassignableTopic")
    return ReassignableTopic(name=name, partitions=partitions)


def _write_reassignable_topic_v0(w: Writer, o: ReassignableTopic) -> None:
    w.compact_string(o.name, "ReassignableTopic.name")
    w.compact_count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_reassignable_partition_v0(w, partitions_item)
    w.add(NO_TAGS)


def _read_alter_partition_reassignments_request_v0(r: Reader) -> AlterPartitionReassignmentsRequest:
    (timeout_ms,) = r.take(_i, "AlterPartitionReassignmentsRequest.timeout_ms")
    topics = [
        _read_reassignable_topic_v0(r) for _ in range(r.compact_count(3, "AlterPartitionReassignmentsRequest.topics"))
    ]
    r.skip_tags("AlterPartitionReassignmentsRequest")
    return AlterPartitionReassignmentsRequest(timeout_ms=timeout_ms, topics=topics)


def _read_alter_partition_reassignments_request_v1(r: Reader) -> AlterPartitionReassignmentsRequest:
    timeout_ms, allow_replication_factor_change = r.take(
        _io, "AlterPartitionReassignmentsRequest.timeout_ms,allow_replication_factor_change"
    )
    topics = [
        _read_reassignable_topic_v0(r) for _ in range(r.compact_count(3, "AlterPartitionReassignmentsRequest.topics"))
    ]
    r.skip_tags("AlterPartitionReassignmentsRequest")
    return AlterPartitionReassignmentsRequest(
        timeout_ms=timeout_ms, allow_replication_factor_change=allow_replication_factor_change, topics=topics
    )


def _write_alter_partition_reassignments_request_v0(w: Writer, o: AlterPartitionReassignmentsRequest) -> None:
    if not o.allow_replication_factor_change:
        raise w.unsupported("AlterPartitionReassignmentsRequest.allow_replication_factor_change")
    w.add(_i.pack(o.timeout_ms))
    w.compact_count(len(o.topics))
    for topics_item in o.topics:
        _write_reassignable_topic_v0(w, topics_item)
    w.add(NO_TAGS)


def _write_alter_partition_reassignments_request_v1(w: Writer, o: AlterPartitionReassignmentsRequest) -> None:
    w.add(_io.pack(o.timeout_ms, o.allow_replication_factor_change))
    w.compact_count(len(o.topics))
    for topics_item in o.topics:
        _write_reassignable_topic_v0(w, topics_item)
    w.add(NO_TAGS)


@dataclass(slots=True, kw_only=True)
class ReassignablePartitionResponse:
    """Part of AlterPartitionReassignmentsResponse."""

    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = ""


@dataclass(slots=True, kw_only=True)
class ReassignableTopicResponse:
    """Part of AlterPartitionReassignmentsResponse."""

    name: str = ""
    partitions: list[ReassignablePartitionResponse] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class AlterPartitionReassignmentsResponse:
    """Versions 0 to 1."""

    throttle_time_ms: int = 0
    allow_replication_factor_change: bool = True  # v1+
    error_code: int = 0
    error_message: str | None = ""
    responses: list[ReassignableTopicResponse] = field(default_factory=list)


def _read_reassignable_partition_response_v0(r: Reader) -> ReassignablePartitionResponse:
    partition_index, error_code = r.take(_ih, "ReassignablePartitionResponse.partition_index,error_code")
    error_message = r.compact_nullable_string("ReassignablePartitionResponse.error_message")
    r.skip_tags("ReassignablePartitionResponse")
    return ReassignablePartitionResponse(
        partition_index=partition_index, error_code=error_code, error_message=error_message
    )


def _write_reassignable_partition_response_v0(w: Writer, o: ReassignablePartitionResponse) -> None:
    w.add(_ih.pack(o.partition_index, o.error_code))
    w.compact_nullable_string(o.error_message, "ReassignablePartitionResponse.error_message")
    w.add(NO_TAGS)


def _read_reassignable_topic_response_v0(r: Reader) -> ReassignableTopicResponse:
    name = r.compact_string("ReassignableTopicResponse.name")
    partitions = [
        _read_reassignable_partition_response_v0(r)
        for _ in range(r.compact_count(8, "ReassignableTopicResponse.partitions"))
    ]
    r.skip_tags("ReassignableTopicResponse")
    return ReassignableTopicResponse(name=name, partitions=partitions)


def _write_reassignable_topic_response_v0(w: Writer, o: ReassignableTopicResponse) -> None:
    w.compact_string(o.name, "ReassignableTopicResponse.name")
    w.compact_count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_reassignable_partition_response_v0(w, partitions_item)
    w.add(NO_TAGS)


def _read_alter_partition_reassignments_response_v0(r: Reader) -> AlterPartitionReassignmentsResponse:
    throttle_time_ms, error_code = r.take(_ih, "AlterPartitionReassignmentsResponse.throttle_time_ms,error_code")
    error_message = r.compact_nullable_string("AlterPartitionReassignmentsResponse.error_message")
    responses = [
        _read_reassignable_topic_response_v0(r)
        for _ in range(r.compact_count(3, "AlterPartitionReassignmentsResponse.responses"))
    ]
    r.skip_tags("AlterPartitionReassignmentsResponse")
    return AlterPartitionReassignmentsResponse(
        throttle_time_ms=throttle_time_ms, error_code=error_code, error_message=error_message, responses=responses
    )


def _read_alter_partition_reassignments_response_v1(r: Reader) -> AlterPartitionReassignmentsResponse:
    throttle_time_ms, allow_replication_factor_change, error_code = r.take(
        _ioh, "AlterPartitionReassignmentsResponse.throttle_time_ms,allow_replication_factor_change,error_code"
    )
    error_message = r.compact_nullable_string("AlterPartitionReassignmentsResponse.error_message")
    responses = [
        _read_reassignable_topic_response_v0(r)
        for _ in range(r.compact_count(3, "AlterPartitionReassignmentsResponse.responses"))
    ]
    r.skip_tags("AlterPartitionReassignmentsResponse")
    return AlterPartitionReassignmentsResponse(
        throttle_time_ms=throttle_time_ms,
        allow_replication_factor_change=allow_replication_factor_change,
        error_code=error_code,
        error_message=error_message,
        responses=responses,
    )


def _write_alter_partition_reassignments_response_v0(w: Writer, o: AlterPartitionReassignmentsResponse) -> None:
    w.add(_ih.pack(o.throttle_time_ms, o.error_code))
    w.compact_nullable_string(o.error_message, "AlterPartitionReassignmentsResponse.error_message")
    w.compact_count(len(o.responses))
    for responses_item in o.responses:
        _write_reassignable_topic_response_v0(w, responses_item)
    w.add(NO_TAGS)


def _write_alter_partition_reassignments_response_v1(w: Writer, o: AlterPartitionReassignmentsResponse) -> None:
    w.add(_ioh.pack(o.throttle_time_ms, o.allow_replication_factor_change, o.error_code))
    w.compact_nullable_string(o.error_message, "AlterPartitionReassignmentsResponse.error_message")
    w.compact_count(len(o.responses))
    for responses_item in o.responses:
        _write_reassignable_topic_response_v0(w, responses_item)
    w.add(NO_TAGS)


REQUEST: Final = Codec(
    "AlterPartitionReassignmentsRequest",
    0,
    (
        _read_alter_partition_reassignments_request_v0,
        _read_alter_partition_reassignments_request_v1,
    ),
    (
        _write_alter_partition_reassignments_request_v0,
        _write_alter_partition_reassignments_request_v1,
    ),
)

RESPONSE: Final = Codec(
    "AlterPartitionReassignmentsResponse",
    0,
    (
        _read_alter_partition_reassignments_response_v0,
        _read_alter_partition_reassignments_response_v1,
    ),
    (
        _write_alter_partition_reassignments_response_v0,
        _write_alter_partition_reassignments_response_v1,
    ),
)
