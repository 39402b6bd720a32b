"""CreatePartitions (API 37), versions 0 to 3. Made by scripts/generate_kafka_messages.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from raftlog.wire.kafka.codec import Codec
from raftlog.wire.kafka.reader import Reader
from raftlog.wire.kafka.writer import NO_TAGS, Writer

_h = Struct(">h")
_i = Struct(">i")
_io = Struct(">i?")


@dataclass(slots=True, kw_only=True)
class CreatePartitionsAssignment:
    """Part of CreatePartitionsRequest."""

    broker_ids: list[int] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class CreatePartitionsTopic:
    """Part of CreatePartitionsRequest."""

    name: str = ""
    count: int = 0
    assignments: list[CreatePartitionsAssignment] | None = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class CreatePartitionsRequest:
    """Versions 0 to 3."""

    topics: list[CreatePartitionsTopic] = field(default_factory=list)
    timeout_ms: int = 0
    validate_only: bool = False


def _read_create_partitions_assignment_v0(r: Reader) -> CreatePartitionsAssignment:
    broker_ids = r.numbers("i", r.count(4, "CreatePartitionsAssignment.broker_ids"))
    return CreatePartitionsAssignment(broker_ids=broker_ids)


def _read_create_partitions_assignment_v2(r: Reader) -> CreatePartitionsAssignment:
    broker_ids = r.numbers("i", r.compact_count(4, "CreatePartitionsAssignment.broker_ids"))
    r.skip_tags("CreatePartitionsAssignment")
    return CreatePartitionsAssignment(broker_ids=broker_ids)


def _write_create_partitions_assignment_v0(w: Writer, o: CreatePartitionsAssignment) -> None:
    w.count(len(o.broker_ids))
    w.numbers("i", o.broker_ids)


def _write_create_partitions_assignment_v2(w: Writer, o: CreatePartitionsAssignment) -> None:
    w.compact_count(len(o.broker_ids))
    w.numbers("i", o.broker_ids)
    w.add(NO_TAGS)


def _read_create_partitions_topic_v0(r: Reader) -> CreatePartitionsTopic:
    name = r.string("CreatePartitionsTopic.name")
    (count,) = r.take(_i, "CreatePartitionsTopic.count")
    n = r.nullable_count(4, "CreatePartitionsTopic.assignments")
    assignments = None if n < 0 else [_read_create_partitions_assignment_v0(r) for _ in range(n)]
    return CreatePartitionsTopic(name=name, count=count, assignments=assignments)


def _read_create_partitions_topic_v2(r: Reader) -> CreatePartitionsTopic:
    name = r.compact_string("CreatePartitionsTopic.name")
    (count,) = r.take(_i, "CreatePartitionsTopic.count")
    n = r.compact_nullable_count(2, "CreatePartitionsTopic.assignments")
    assignments = None if n < 0 else [_read_create_partitions_assignment_v2(r) for _ in range(n)]
    r.skip_tags("CreatePartitionsTopic")
    return CreatePartitionsTopic(name=name, count=count, assignments=assignments)


def _write_create_partitions_topic_v0(w: Writer, o: CreatePartitionsTopic) -> None:
    w.string(o.name, "CreatePartitionsTopic.name")
    w.add(_i.pack(o.count))
    if o.assignments is None:
        w.count(-1)
    else:
        w.count(len(o.assignments))
        for assignments_item in o.assignments:
            _write_create_partitions_assignment_v0(w, assignments_item)


def _write_create_partitions_topic_v2(w: Writer, o: CreatePartitionsTopic) -> None:
    w.compact_string(o.name, "CreatePartitionsTopic.name")
    w.add(_i.pack(o.count))
    if o.assignments is None:
        w.compact_count(-1)
    else:
        w.compact_count(len(o.assignments))
        for assignments_item in o.assignments:
            _write_create_partitions_assignment_v2(w, assignments_item)
    w.add(NO_TAGS)


def _read_create_partitions_request_v0(r: Reader) -> CreatePartitionsRequest:
    topics = [_read_create_partitions_topic_v0(r) for _ in range(r.count(10, "CreatePartitionsRequest.topics"))]
    timeout_ms, validate_only = r.take(_io, "CreatePartitionsRequest.timeout_ms,validate_only")
    return CreatePartitionsRequest(topics=topics, timeout_ms=timeout_ms, validate_only=validate_only)


def _read_create_partitions_request_v2(r: Reader) -> CreatePartitionsRequest:
    topics = [_read_create_partitions_topic_v2(r) for _ in range(r.compact_count(7, "CreatePartitionsRequest.topics"))]
    timeout_ms, validate_only = r.take(_io, "CreatePartitionsRequest.timeout_ms,validate_only")
    r.skip_tags("CreatePartitionsRequest")
    return CreatePartitionsRequest(topics=topics, timeout_ms=timeout_ms, validate_only=validate_only)


def _write_create_partitions_request_v0(w: Writer, o: CreatePartitionsRequest) -> None:
    w.count(len(o.topics))
    for topics_item in o.topics:
        _write_create_partitions_topic_v0(w, topics_item)
    w.add(_io.pack(o.timeout_ms, o.validate_only))


def _write_create_partitions_request_v2(w: Writer, o: CreatePartitionsRequest) -> None:
    w.compact_count(len(o.topics))
    for topics_item in o.topics:
        _write_create_partitions_topic_v2(w, topics_item)
    w.add(_io.pack(o.timeout_ms, o.validate_only))
    w.add(NO_TAGS)


@dataclass(slots=True, kw_only=True)
class CreatePartitionsTopicResult:
    """Part of CreatePartitionsResponse."""

    name: str = ""
    error_code: int = 0
    error_message: str | None = None


@dataclass(slots=True, kw_only=True)
class CreatePartitionsResponse:
    """Versions 0 to 3."""

    throttle_time_ms: int = 0
    results: list[CreatePartitionsTopicResult] = field(default_factory=list)


def _read_create_partitions_topic_result_v0(r: Reader) -> CreatePartitionsTopicResult:
    name = r.string("CreatePartitionsTopicResult.name")
    (error_code,) = r.take(_h, "CreatePartitionsTopicResult.error_code")
    error_message = r.nullable_string("CreatePartitionsTopicResult.error_message")
    return CreatePartitionsTopicResult(name=name, error_code=error_code, error_message=error_message)


def _read_create_partitions_topic_result_v2(r: Reader) -> CreatePartitionsTopicResult:
    name = r.compact_string("CreatePartitionsTopicResult.name")
    (error_code,) = r.take(_h, "CreatePartitionsTopicResult.error_code")
    error_message = r.compact_nullable_string("CreatePartitionsTopicResult.error_message")
    r.skip_tags("CreatePartitionsTopicResult")
    return CreatePartitionsTopicResult(name=name, error_code=error_code, error_message=error_message)


def _write_create_partitions_topic_result_v0(w: Writer, o: CreatePartitionsTopicResult) -> None:
    w.string(o.name, "CreatePartitionsTopicResult.name")
    w.add(_h.pack(o.error_code))
    w.nullable_string(o.error_message, "CreatePartitionsTopicResult.error_message")


def _write_create_partitions_topic_result_v2(w: Writer, o: CreatePartitionsTopicResult) -> None:
    w.compact_string(o.name, "CreatePartitionsTopicResult.name")
    w.add(_h.pack(o.error_code))
    w.compact_nullable_string(o.error_message, "CreatePartitionsTopicResult.error_message")
    w.add(NO_TAGS)


def _read_create_partitions_response_v0(r: Reader) -> CreatePartitionsResponse:
    (throttle_time_ms,) = r.take(_i, "CreatePartitionsResponse.throttle_time_ms")
    results = [
        _read_create_partitions_topic_result_v0(r) for _ in range(r.count(6, "CreatePartitionsResponse.results"))
    ]
    return CreatePartitionsResponse(throttle_time_ms=throttle_time_ms, results=results)


def _read_create_partitions_response_v2(r: Reader) -> CreatePartitionsResponse:
    (throttle_time_ms,) = r.take(_i, "CreatePartitionsResponse.throttle_time_ms")
    results = [
        _read_create_partitions_topic_result_v2(r)
        for _ in range(r.compact_count(5, "CreatePartitionsResponse.results"))
    ]
    r.skip_tags("CreatePartitionsResponse")
    return CreatePartitionsResponse(throttle_time_ms=throttle_time_ms, results=results)


def _write_create_partitions_response_v0(w: Writer, o: CreatePartitionsResponse) -> None:
    w.add(_i.pack(o.throttle_time_ms))
    w.count(len(o.results))
    for results_item in o.results:
        _write_create_partitions_topic_result_v0(w, results_item)


def _write_create_partitions_response_v2(w: Writer, o: CreatePartitionsResponse) -> None:
    w.add(_i.pack(o.throttle_time_ms))
    w.compact_count(len(o.results))
    for results_item in o.results:
        _write_create_partitions_topic_result_v2(w, results_item)
    w.add(NO_TAGS)


REQUEST: Final = Codec(
    "CreatePartitionsRequest",
    0,
    (
        _read_create_partitions_request_v0,
        _read_create_partitions_request_v0,
        _read_create_partitions_request_v2,
        _read_create_partitions_request_v2,
    ),
    (
        _write_create_partitions_request_v0,
        _write_create_partitions_request_v0,
        _write_create_partitions_request_v2,
        _write_create_partitions_request_v2,
    ),
)

RESPONSE: Final = Codec(
    "CreatePartitionsResponse",
    0,
    (
        _read_create_partitions_response_v0,
        _read_create_partitions_response_v0,
        _read_create_partitions_response_v2,
        _read_create_partitions_response_v2,
    ),
    (
        _write_create_partitions_response_v0,
        _write_create_partitions_response_v0,
        _write_create_partitions_response_v2,
        _write_create_partitions_response_v2,
    ),
)
