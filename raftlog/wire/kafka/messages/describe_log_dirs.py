"""DescribeLogDirs (API 35), versions 1 to 4. Made by scripts/generate_kafka_messages.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from raftlog.wire.kafka.codec import Codec
from raftlog.wire.kafka.reader import Reader
from raftlog.wire.kafka.writer import NO_TAGS, Writer

_h = Struct(">h")
_i = Struct(">i")
_ih = Struct(">ih")
_iqqo = Struct(">iqq?")
_qq = Struct(">qq")


@dataclass(slots=True, kw_only=True)
class DescribableLogDirTopic:
    """Part of DescribeLogDirsRequest."""

    topic: str = ""
    partitions: list[int] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class DescribeLogDirsRequest:
    """Versions 1 to 4."""

    topics: list[DescribableLogDirTopic] | None = field(default_factory=list)


def _read_describable_log_dir_topic_v1(r: Reader) -> DescribableLogDirTopic:
    topic = r.string("DescribableLogDirTopic.topic")
    partitions = r.numbers("i", r.count(4, "DescribableLogDirTopic.partitions"))
    return DescribableLogDirTopic(topic=topic, partitions=partitions)


def _read_describable_log_dir_topic_v2(r: Reader) -> DescribableLogDirTopic:
    topic = r.compact_string("DescribableLogDirTopic.topic")
    partitions = r.numbers("i", r.compact_count(4, "DescribableLogDirTopic.partitions"))
    r.skip_tags("DescribableLogDirTopic")
    return DescribableLogDirTopic(topic=topic, partitions=partitions)


def _write_describable_log_dir_topic_v1(w: Writer, o: DescribableLogDirTopic) -> None:
    w.string(o.topic, "DescribableLogDirTopic.topic")
    w.count(len(o.partitions))
    w.numbers("i", o.partitions)


def _write_describable_log_dir_topic_v2(w: Writer, o: DescribableLogDirTopic) -> None:
    w.compact_string(o.topic, "DescribableLogDirTopic.topic")
    w.compact_count(len(o.partitions))
    w.numbers("i", o.partitions)
    w.add(NO_TAGS)


def _read_describe_log_dirs_request_v1(r: Reader) -> DescribeLogDirsRequest:
    n = r.nullable_count(6, "DescribeLogDirsRequest.topics")
    topics = None if n < 0 else [_read_describable_log_dir_topic_v1(r) for _ in range(n)]
    return DescribeLogDirsRequest(topics=topics)


def _read_describe_log_dirs_request_v2(r: Reader) -> DescribeLogDirsRequest:
    n = r.compact_nullable_count(3, "DescribeLogDirsRequest.topics")
    topics = None if n < 0 else [_read_describable_log_dir_topic_v2(r) for _ in range(n)]
    r.skip_tags("DescribeLogDirsRequest")
    return DescribeLogDirsRequest(topics=topics)


def _write_describe_log_dirs_request_v1(w: Writer, o: DescribeLogDirsRequest) -> None:
    if o.topics is None:
        w.count(-1)
    else:
        w.count(len(o.topics))
        for topics_item in o.topics:
            _write_describable_log_dir_topic_v1(w, topics_item)


def _write_describe_log_dirs_request_v2(w: Writer, o: DescribeLogDirsRequest) -> None:
    if o.topics is None:
        w.compact_count(-1)
    else:
        w.compact_count(len(o.topics))
        for topics_item in o.topics:
            _write_describable_log_dir_topic_v2(w, topics_item)
    w.add(NO_TAGS)


@dataclass(slots=True, kw_only=True)
class DescribeLogDirsPartition:
    """Part of DescribeLogDirsResponse."""

    partition_index: int = 0
    partition_size: int = 0
    offset_lag: int = 0
    is_future_key: bool = False


@dataclass(slots=True, kw_only=True)
class DescribeLogDirsTopic:
    """Part of DescribeLogDirsResponse."""

    name: str = ""
    partitions: list[DescribeLogDirsPartition] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class DescribeLogDirsResult:
    """Part of DescribeLogDirsResponse."""

    error_code: int = 0
    log_dir: str = ""
    topics: list[DescribeLogDirsTopic] = field(default_factory=list)
    total_bytes: int = -1  # v4+
    usable_bytes: int = -1  # v4+


@dataclass(slots=True, kw_only=True)
class DescribeLogDirsResponse:
    """Versions 1 to 4."""

    throttle_time_ms: int = 0
    error_code: int = 0  # v3+
    results: list[DescribeLogDirsResult] = field(default_factory=list)


def _read_describe_log_dirs_partition_v1(r: Reader) -> DescribeLogDirsPartition:
    partition_index, partition_size, offset_lag, is_future_key = r.take(
        _iqqo, "DescribeLogDirsPartition.partition_index,partition_size,offset_lag,is_future_key"
    )
    return DescribeLogDirsPartition(
        partition_index=partition_index,
        partition_size=partition_size,
        offset_lag=offset_lag,
        is_future_key=is_future_key,
    )


def _read_describe_log_dirs_partition_v2(r: Reader) -> DescribeLogDirsPartition:
    partition_index, partition_size, offset_lag, is_future_key = r.take(
        _iqqo, "DescribeLogDirsPartition.partition_index,partition_size,offset_lag,is_future_key"
    )
    r.skip_tags("DescribeLogDirsPartition")
    return DescribeLogDirsPartition(
        partition_index=partition_index,
        partition_size=partition_size,
        offset_lag=offset_lag,
        is_future_key=is_future_key,
    )


def _write_describe_log_dirs_partition_v1(w: Writer, o: DescribeLogDirsPartition) -> None:
    w.add(_iqqo.pack(o.partition_index, o.partition_size, o.offset_lag, o.is_future_key))


def _write_describe_log_dirs_partition_v2(w: Writer, o: DescribeLogDirsPartition) -> None:
    w.add(_iqqo.pack(o.partition_index, o.partition_size, o.offset_lag, o.is_future_key))
    w.add(NO_TAGS)


def _read_describe_log_dirs_topic_v1(r: Reader) -> DescribeLogDirsTopic:
    name = r.string("DescribeLogDirsTopic.name")
    partitions = [
        _read_describe_log_dirs_partition_v1(r) for _ in range(r.count(21, "DescribeLogDirsTopic.partitions"))
    ]
    return DescribeLogDirsTopic(name=name, partitions=partitions)


def _read_describe_log_dirs_topic_v2(r: Reader) -> DescribeLogDirsTopic:
    name = r.compact_string("DescribeLogDirsTopic.name")
    partitions = [
        _read_describe_log_dirs_partition_v2(r) for _ in range(r.compact_count(22, "DescribeLogDirsTopic.partitions"))
    ]
    r.skip_tags("DescribeLogDirsTopic")
    return DescribeLogDirsTopic(name=name, partitions=partitions)


def _write_describe_log_dirs_topic_v1(w: Writer, o: DescribeLogDirsTopic) -> None:
    w.string(o.name, "DescribeLogDirsTopic.name")
    w.count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_describe_log_dirs_partition_v1(w, partitions_item)


def _write_describe_log_dirs_topic_v2(w: Writer, o: DescribeLogDirsTopic) -> None:
    w.compact_string(o.name, "DescribeLogDirsTopic.name")
    w.compact_count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_describe_log_dirs_partition_v2(w, partitions_item)
    w.add(NO_TAGS)


def _read_describe_log_dirs_result_v1(r: Reader) -> DescribeLogDirsResult:
    (error_code,) = r.take(_h, "DescribeLogDirsResult.error_code")
    log_dir = r.string("DescribeLogDirsResult.log_dir")
    topics = [_read_describe_log_dirs_topic_v1(r) for _ in range(r.count(6, "DescribeLogDirsResult.topics"))]
    return DescribeLogDirsResult(error_code=error_code, log_dir=log_dir, topics=topics)


def _read_describe_log_dirs_result_v2(r: Reader) -> DescribeLogDirsResult:
    (error_code,) = r.take(_h, "DescribeLogDirsResult.error_code")
    log_dir = r.compact_string("DescribeLogDirsResult.log_dir")
    topics = [_read_describe_log_dirs_topic_v2(r) for _ in range(r.compact_count(3, "DescribeLogDirsResult.topics"))]
    r.skip_tags("DescribeLogDirsResult")
    return DescribeLogDirsResult(error_code=error_code, log_dir=log_dir, topics=topics)


def _read_describe_log_dirs_result_v4(r: Reader) -> DescribeLogDirsResult:
    (error_code,) = r.take(_h, "DescribeLogDirsResult.error_code")
    log_dir = r.compact_string("DescribeLogDirsResult.log_dir")
    topics = [_read_describe_log_dirs_topic_v2(r) for _ in range(r.compact_count(3, "DescribeLogDirsResult.topics"))]
    total_bytes, usable_bytes = r.take(_qq, "DescribeLogDirsResult.total_bytes,usable_bytes")
    r.skip_tags("DescribeLogDirsResult")
    return DescribeLogDirsResult(
        error_code=error_code, log_dir=log_dir, topics=topics, total_bytes=total_bytes, usable_bytes=usable_bytes
    )


def _write_describe_log_dirs_result_v1(w: Writer, o: DescribeLogDirsResult) -> None:
    w.add(_h.pack(o.error_code))
    w.string(o.log_dir, "DescribeLogDirsResult.log_dir")
    w.count(len(o.topics))
    for topics_item in o.topics:
        _write_describe_log_dirs_topic_v1(w, topics_item)


def _write_describe_log_dirs_result_v2(w: Writer, o: DescribeLogDirsResult) -> None:
    w.add(_h.pack(o.error_code))
    w.compact_string(o.log_dir, "DescribeLogDirsResult.log_dir")
    w.compact_count(len(o.topics))
    for topics_item in o.topics:
        _write_describe_log_dirs_topic_v2(w, topics_item)
    w.add(NO_TAGS)


def _write_describe_log_dirs_result_v4(w: Writer, o: DescribeLogDirsResult) -> None:
    w.add(_h.pack(o.error_code))
    w.compact_string(o.log_dir, "DescribeLogDirsResult.log_dir")
    w.compact_count(len(o.topics))
    for topics_item in o.topics:
        _write_describe_log_dirs_topic_v2(w, topics_item)
    w.add(_qq.pack(o.total_bytes, o.usable_bytes))
    w.add(NO_TAGS)


def _read_describe_log_dirs_response_v1(r: Reader) -> DescribeLogDirsResponse:
    (throttle_time_ms,) = r.take(_i, "DescribeLogDirsResponse.throttle_time_ms")
    results = [_read_describe_log_dirs_result_v1(r) for _ in range(r.count(8, "DescribeLogDirsResponse.results"))]
    return DescribeLogDirsResponse(throttle_time_ms=throttle_time_ms, results=results)


def _read_describe_log_dirs_response_v2(r: Reader) -> DescribeLogDirsResponse:
    (throttle_time_ms,) = r.take(_i, "DescribeLogDirsResponse.throttle_time_ms")
    results = [
        _read_describe_log_dirs_result_v2(r) for _ in range(r.compact_count(5, "DescribeLogDirsResponse.results"))
    ]
    r.skip_tags("DescribeLogDirsResponse")
    return DescribeLogDirsResponse(throttle_time_ms=throttle_time_ms, results=results)


def _read_describe_log_dirs_response_v3(r: Reader) -> DescribeLogDirsResponse:
    throttle_time_ms, error_code = r.take(_ih, "DescribeLogDirsResponse.throttle_time_ms,error_code")
    results = [
        _read_describe_log_dirs_result_v2(r) for _ in range(r.compact_count(5, "DescribeLogDirsResponse.results"))
    ]
    r.skip_tags("DescribeLogDirsResponse")
    return DescribeLogDirsResponse(throttle_time_ms=throttle_time_ms, error_code=error_code, results=results)


def _read_describe_log_dirs_response_v4(r: Reader) -> DescribeLogDirsResponse:
    throttle_time_ms, error_code = r.take(_ih, "DescribeLogDirsResponse.throttle_time_ms,error_code")
    results = [
        _read_describe_log_dirs_result_v4(r) for _ in range(r.compact_count(21, "DescribeLogDirsResponse.results"))
    ]
    r.skip_tags("DescribeLogDirsResponse")
    return DescribeLogDirsResponse(throttle_time_ms=throttle_time_ms, error_code=error_code, results=results)


def _write_describe_log_dirs_response_v1(w: Writer, o: DescribeLogDirsResponse) -> None:
    w.add(_i.pack(o.throttle_time_ms))
    w.count(len(o.results))
    for results_item in o.results:
        _write_describe_log_dirs_result_v1(w, results_item)


def _write_describe_log_dirs_response_v2(w: Writer, o: DescribeLogDirsResponse) -> None:
    w.add(_i.pack(o.throttle_time_ms))
    w.compact_count(len(o.results))
    for results_item in o.results:
        _write_describe_log_dirs_result_v2(w, results_item)
    w.add(NO_TAGS)


def _write_describe_log_dirs_response_v3(w: Writer, o: DescribeLogDirsResponse) -> None:
    w.add(_ih.pack(o.throttle_time_ms, o.error_code))
    w.compact_count(len(o.results))
    for results_item in o.results:
        _write_describe_log_dirs_result_v2(w, results_item)
    w.add(NO_TAGS)


def _write_describe_log_dirs_response_v4(w: Writer, o: DescribeLogDirsResponse) -> None:
    w.add(_ih.pack(o.throttle_time_ms, o.error_code))
    w.compact_count(len(o.results))
    for results_item in o.results:
        _write_describe_log_dirs_result_v4(w, results_item)
    w.add(NO_TAGS)


REQUEST: Final = Codec(
    "DescribeLogDirsRequest",
    1,
    (
        _read_describe_log_dirs_request_v1,
        _read_describe_log_dirs_request_v2,
        _read_describe_log_dirs_request_v2,
        _read_describe_log_dirs_request_v2,
    ),
    (
        _write_describe_log_dirs_request_v1,
        _write_describe_log_dirs_request_v2,
        _write_describe_log_dirs_request_v2,
        _write_describe_log_dirs_request_v2,
    ),
)

RESPONSE: Final = Codec(
    "DescribeLogDirsResponse",
    1,
    (
        _read_describe_log_dirs_response_v1,
        _read_describe_log_dirs_response_v2,
        _read_describe_log_dirs_response_v3,
        _read_describe_log_dirs_response_v4,
    ),
    (
        _write_describe_log_dirs_response_v1,
        _write_describe_log_dirs_response_v2,
        _write_describe_log_dirs_response_v3,
        _write_describe_log_dirs_response_v4,
    ),
)
