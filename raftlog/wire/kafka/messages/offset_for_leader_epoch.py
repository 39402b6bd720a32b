"""OffsetForLeaderEpoch (API 23), versions 2 to 4. Made by scripts/generate_kafka_messages.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from raftlog.wire.kafka.codec import Codec
from raftlog.wire.kafka.reader import Reader
from raftlog.wire.kafka.writer import NO_TAGS, Writer

_hiiq = Struct(">hiiq")
_i = Struct(">i")
_iii = Struct(">iii")


@dataclass(slots=True, kw_only=True)
class OffsetForLeaderPartition:
    """Part of OffsetForLeaderEpochRequest."""

    partition: int = 0
    current_leader_epoch: int = -1
    leader_epoch: int = 0


@dataclass(slots=True, kw_only=True)
class OffsetForLeaderTopic:
    """Part of OffsetForLeaderEpochRequest."""

    topic: str = ""
    partitions: list[OffsetForLeaderPartition] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class OffsetForLeaderEpochRequest:
    """Versions 2 to 4."""

    replica_id: int = -2  # v3+
    topics: list[OffsetForLeaderTopic] = field(default_factory=list)


def _read_offset_for_leader_partition_v2(r: Reader) -> OffsetForLeaderPartition:
    partition, current_leader_epoch, leader_epoch = r.take(
        _iii, "OffsetForLeaderPartition.partition,current_leader_epoch,leader_epoch"
    )
    return OffsetForLeaderPartition(
        partition=partition, current_leader_epoch=current_leader_epoch, leader_epoch=leader_epoch
    )


def _read_offset_for_leader_partition_v4(r: Reader) -> OffsetForLeaderPartition:
    partition, current_leader_epoch, leader_epoch = r.take(
        _iii, "OffsetForLeaderPartition.partition,current_leader_epoch,leader_epoch"
    )
    r.skip_tags("OffsetForLeaderPartition")
    return OffsetForLeaderPartition(
        partition=partition, current_leader_epoch=current_leader_epoch, leader_epoch=leader_epoch
    )


def _write_offset_for_leader_partition_v2(w: Writer, o: OffsetForLeaderPartition) -> None:
    w.add(_iii.pack(o.partition, o.current_leader_epoch, o.leader_epoch))


def _write_offset_for_leader_partition_v4(w: Writer, o: OffsetForLeaderPartition) -> None:
    w.add(_iii.pack(o.partition, o.current_leader_epoch, o.leader_epoch))
    w.add(NO_TAGS)


def _read_offset_for_leader_topic_v2(r: Reader) -> OffsetForLeaderTopic:
    topic = r.string("OffsetForLeaderTopic.topic")
    partitions = [
        _read_offset_for_leader_partition_v2(r) for _ in range(r.count(12, "OffsetForLeaderTopic.partitions"))
    ]
    return OffsetForLeaderTopic(topic=topic, partitions=partitions)


def _read_offset_for_leader_topic_v4(r: Reader) -> OffsetForLeaderTopic:
    topic = r.compact_string("OffsetForLeaderTopic.topic")
    partitions = [
        _read_offset_for_leader_partition_v4(r) for _ in range(r.compact_count(13, "OffsetForLeaderTopic.partitions"))
    ]
    r.skip_tags("OffsetForLeaderTopic")
    return OffsetForLeaderTopic(topic=topic, partitions=partitions)


def _write_offset_for_leader_topic_v2(w: Writer, o: OffsetForLeaderTopic) -> None:
    w.string(o.topic, "OffsetForLeaderTopic.topic")
    w.count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_offset_for_leader_partition_v2(w, partitions_item)


def _write_offset_for_leader_topic_v4(w: Writer, o: OffsetForLeaderTopic) -> None:
    w.compact_string(o.topic, "OffsetForLeaderTopic.topic")
    w.compact_count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_offset_for_leader_partition_v4(w, partitions_item)
    w.add(NO_TAGS)


def _read_offset_for_leader_epoch_request_v2(r: Reader) -> OffsetForLeaderEpochRequest:
    topics = [_read_offset_for_leader_topic_v2(r) for _ in range(r.count(6, "OffsetForLeaderEpochRequest.topics"))]
    return OffsetForLeaderEpochRequest(topics=topics)


def _read_offset_for_leader_epoch_request_v3(r: Reader) -> OffsetForLeaderEpochRequest:
    (replica_id,) = r.take(_i, "OffsetForLeaderEpochRequest.replica_id")
    topics = [_read_offset_for_leader_topic_v2(r) for _ in range(r.count(6, "OffsetForLeaderEpochRequest.topics"))]
    return OffsetForLeaderEpochRequest(replica_id=replica_id, topics=topics)


def _read_offset_for_leader_epoch_request_v4(r: Reader) -> OffsetForLeaderEpochRequest:
    (replica_id,) = r.take(_i, "OffsetForLeaderEpochRequest.replica_id")
    topics = [
        _read_offset_for_leader_topic_v4(r) for _ in range(r.compact_count(3, "OffsetForLeaderEpochRequest.topics"))
    ]
    r.skip_tags("OffsetForLeaderEpochRequest")
    return OffsetForLeaderEpochRequest(replica_id=replica_id, topics=topics)


def _write_offset_for_leader_epoch_request_v2(w: Writer, o: OffsetForLeaderEpochRequest) -> None:
    w.count(len(o.topics))
    for topics_item in o.topics:
        _write_offset_for_leader_topic_v2(w, topics_item)


def _write_offset_for_leader_epoch_request_v3(w: Writer, o: OffsetForLeaderEpochRequest) -> None:
    w.add(_i.pack(o.replica_id))
    w.count(len(o.topics))
    for topics_item in o.topics:
        _write_offset_for_leader_topic_v2(w, topics_item)


def _write_offset_for_leader_epoch_request_v4(w: Writer, o: OffsetForLeaderEpochRequest) -> None:
    w.add(_i.pack(o.replica_id))
    w.compact_count(len(o.topics))
    for topics_item in o.topics:
        _write_offset_for_leader_topic_v4(w, topics_item)
    w.add(NO_TAGS)


@dataclass(slots=True, kw_only=True)
class EpochEndOffset:
    """Part of OffsetForLeaderEpochResponse."""

    error_code: int = 0
    partition: int = 0
    leader_epoch: int = -1
    end_offset: int = -1


@dataclass(slots=True, kw_only=True)
class OffsetForLeaderTopicResult:
    """Part of OffsetForLeaderEpochResponse."""

    topic: str = ""
    partitions: list[EpochEndOffset] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class OffsetForLeaderEpochResponse:
    """Versions 2 to 4."""

    throttle_time_ms: int = 0
    topics: list[OffsetForLeaderTopicResult] = field(default_factory=list)


def _read_epoch_end_offset_v2(r: Reader) -> EpochEndOffset:
    error_code, partition, leader_epoch, end_offset = r.take(
        _hiiq, "EpochEndOffset.error_code,partition,leader_epoch,end_offset"
    )
    return EpochEndOffset(error_code=error_code, partition=partition, leader_epoch=leader_epoch, end_offset=end_offset)


def _read_epoch_end_offset_v4(r: Reader) -> EpochEndOffset:
    error_code, partition, leader_epoch, end_offset = r.take(
        _hiiq, "EpochEndOffset.error_code,partition,leader_epoch,end_offset"
    )
    r.skip_tags("EpochEndOffset")
    return EpochEndOffset(error_code=error_code, partition=partition, leader_epoch=leader_epoch, end_offset=end_offset)


def _write_epoch_end_offset_v2(w: Writer, o: EpochEndOffset) -> None:
    w.add(_hiiq.pack(o.error_code, o.partition, o.leader_epoch, o.end_offset))


def _write_epoch_end_offset_v4(w: Writer, o: EpochEndOffset) -> None:
    w.add(_hiiq.pack(o.error_code, o.partition, o.leader_epoch, o.end_offset))
    w.add(NO_TAGS)


def _read_offset_for_leader_topic_result_v2(r: Reader) -> OffsetForLeaderTopicResult:
    topic = r.string("OffsetForLeaderTopicResult.topic")
    partitions = [_read_epoch_end_offset_v2(r) for _ in range(r.count(18, "OffsetForLeaderTopicResult.partitions"))]
    return OffsetForLeaderTopicResult(topic=topic, partitions=partitions)


def _read_offset_for_leader_topic_result_v4(r: Reader) -> OffsetForLeaderTopicResult:
    topic = r.compact_string("OffsetForLeaderTopicResult.topic")
    partitions = [
        _read_epoch_end_offset_v4(r) for _ in range(r.compact_count(19, "OffsetForLeaderTopicResult.partitions"))
    ]
    r.skip_tags("OffsetForLeaderTopicResult")
    return OffsetForLeaderTopicResult(topic=topic, partitions=partitions)


def _write_offset_for_leader_topic_result_v2(w: Writer, o: OffsetForLeaderTopicResult) -> None:
    w.string(o.topic, "OffsetForLeaderTopicResult.topic")
    w.count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_epoch_end_offset_v2(w, partitions_item)


def _write_offset_for_leader_topic_result_v4(w: Writer, o: OffsetForLeaderTopicResult) -> None:
    w.compact_string(o.topic, "OffsetForLeaderTopicResult.topic")
    w.compact_count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_epoch_end_offset_v4(w, partitions_item)
    w.add(NO_TAGS)


def _read_offset_for_leader_epoch_response_v2(r: Reader) -> OffsetForLeaderEpochResponse:
    (throttle_time_ms,) = r.take(_i, "OffsetForLeaderEpochResponse.throttle_time_ms")
    topics = [
        _read_offset_for_leader_topic_result_v2(r) for _ in range(r.count(6, "OffsetForLeaderEpochResponse.topics"))
    ]
    return OffsetForLeaderEpochResponse(throttle_time_ms=throttle_time_ms, topics=topics)


def _read_offset_for_leader_epoch_response_v4(r: Reader) -> OffsetForLeaderEpochResponse:
    (throttle_time_ms,) = r.take(_i, "OffsetForLeaderEpochResponse.throttle_time_ms")
    topics = [
        _read_offset_for_leader_topic_result_v4(r)
        for _ in range(r.compact_count(3, "OffsetForLeaderEpochResponse.topics"))
    ]
    r.skip_tags("OffsetForLeaderEpochResponse")
    return OffsetForLeaderEpochResponse(throttle_time_ms=throttle_time_ms, topics=topics)


def _write_offset_for_leader_epoch_response_v2(w: Writer, o: OffsetForLeaderEpochResponse) -> None:
    w.add(_i.pack(o.throttle_time_ms))
    w.count(len(o.topics))
    for topics_item in o.topics:
        _write_offset_for_leader_topic_result_v2(w, topics_item)


def _write_offset_for_leader_epoch_response_v4(w: Writer, o: OffsetForLeaderEpochResponse) -> None:
    w.add(_i.pack(o.throttle_time_ms))
    w.compact_count(len(o.topics))
    for topics_item in o.topics:
        _write_offset_for_leader_topic_result_v4(w, topics_item)
    w.add(NO_TAGS)


REQUEST: Final = Codec(
    "OffsetForLeaderEpochRequest",
    2,
    (
        _read_offset_for_leader_epoch_request_v2,
        _read_offset_for_leader_epoch_request_v3,
        _read_offset_for_leader_epoch_request_v4,
    ),
    (
        _write_offset_for_leader_epoch_request_v2,
        _write_offset_for_leader_epoch_request_v3,
        _write_offset_for_leader_epoch_request_v4,
    ),
)

RESPONSE: Final = Codec(
    "OffsetForLeaderEpochResponse",
    2,
    (
        _read_offset_for_leader_epoch_response_v2,
        _read_offset_for_leader_epoch_response_v2,
        _read_offset_for_leader_epoch_response_v4,
    ),
    (
        _write_offset_for_leader_epoch_response_v2,
        _write_offset_for_leader_epoch_response_v2,
        _write_offset_for_leader_epoch_response_v4,
    ),
)
