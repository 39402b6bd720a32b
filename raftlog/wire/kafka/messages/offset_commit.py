"""OffsetCommit (API 8), versions 2 to 10. Made by scripts/generate_kafka_messages.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from raftlog.wire.kafka.codec import Codec
from raftlog.wire.kafka.reader import Reader
from raftlog.wire.kafka.writer import NO_TAGS, ZERO_UUID, Writer, uuid

_s = Struct(">16s")
_i = Struct(">i")
_ih = Struct(">ih")
_iq = Struct(">iq")
_iqi = Struct(">iqi")
_q = Struct(">q")


@dataclass(slots=True, kw_only=True)
class OffsetCommitRequestPartition:
    """Part of OffsetCommitRequest."""

    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1  # v6+
    committed_metadata: str | None = ""


@dataclass(slots=True, kw_only=True)
class OffsetCommitRequestTopic:
    """Part of OffsetCommitRequest."""

    name: str = ""  # v0-9
    topic_id: bytes = ZERO_UUID  # v10+
    partitions: list[OffsetCommitRequestPartition] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class OffsetCommitRequest:
    """Versions 2 to 10."""

    group_id: str = ""
    generation_id_or_member_epoch: int = -1
    member_id: str = ""
    group_instance_id: str | None = None  # v7+
    retention_time_ms: int = -1  # v2-4
    topics: list[OffsetCommitRequestTopic] = field(default_factory=list)


def _read_offset_commit_request_partition_v2(r: Reader) -> OffsetCommitRequestPartition:
    partition_index, committed_offset = r.take(_iq, "OffsetCommitRequestPartition.partition_index,committed_offset")
    committed_metadata = r.nullable_string("OffsetCommitRequestPartition.committed_metadata")
    return OffsetCommitRequestPartition(
        partition_index=partition_index, committed_offset=committed_offset, committed_metadata=committed_metadata
    )


def _read_offset_commit_request_partition_v6(r: Reader) -> OffsetCommitRequestPartition:
    partition_index, committed_offset, committed_leader_epoch = r.take(
        _iqi, "OffsetCommitRequestPartition.partition_index,committed_offset,committed_leader_epoch"
    )
    committed_metadata = r.nullable_string("OffsetCommitRequestPartition.committed_metadata")
    return OffsetCommitRequestPartition(
        partition_index=partition_index,
        committed_offset=committed_offset,
        committed_leader_epoch=committed_leader_epoch,
        committed_metadata=committed_metadata,
    )


def _read_offset_commit_request_partition_v8(r: Reader) -> OffsetCommitRequestPartition:
    partition_index, committed_offset, committed_leader_epoch = r.take(
        _iqi, "OffsetCommitRequestPartition.partition_index,committed_offset,committed_leader_epoch"
    )
    committed_metadata = r.compact_nullable_string("OffsetCommitRequestPartition.committed_metadata")
    r.skip_tags("OffsetCommitRequestPartition")
    return OffsetCommitRequestPartition(
        partition_index=partition_index,
        committed_offset=committed_offset,
        committed_leader_epoch=committed_leader_epoch,
        committed_metadata=committed_metadata,
    )


def _write_offset_commit_request_partition_v2(w: Writer, o: OffsetCommitRequestPartition) -> None:
    w.add(_iq.pack(o.partition_index, o.committed_offset))
    w.nullable_string(o.committed_metadata, "OffsetCommitRequestPartition.committed_metadata")


def _write_offset_commit_request_partition_v6(w: Writer, o: OffsetCommitRequestPartition) -> None:
    w.add(_iqi.pack(o.partition_index, o.committed_offset, o.committed_leader_epoch))
    w.nullable_string(o.committed_metadata, "OffsetCommitRequestPartition.committed_metadata")


def _write_offset_commit_request_partition_v8(w: Writer, o: OffsetCommitRequestPartition) -> None:
    w.add(_iqi.pack(o.partition_index, o.committed_offset, o.committed_leader_epoch))
    w.compact_nullable_string(o.committed_metadata, "OffsetCommitRequestPartition.committed_metadata")
    w.add(NO_TAGS)


def _read_offset_commit_request_topic_v2(r: Reader) -> OffsetCommitRequestTopic:
    name = r.string("OffsetCommitRequestTopic.name")
    partitions = [
        _read_offset_commit_request_partition_v2(r) for _ in range(r.count(14, "OffsetCommitRequestTopic.partitions"))
    ]
    return OffsetCommitRequestTopic(name=name, partitions=partitions)


def _read_offset_commit_request_topic_v6(r: Reader) -> OffsetCommitRequestTopic:
    name = r.string("OffsetCommitRequestTopic.name")
    partitions = [
        _read_offset_commit_request_partition_v6(r) for _ in range(r.count(18, "OffsetCommitRequestTopic.partitions"))
    ]
    return OffsetCommitRequestTopic(name=name, partitions=partitions)


def _read_offset_commit_request_topic_v8(r: Reader) -> OffsetCommitRequestTopic:
    name = r.compact_string("OffsetCommitRequestTopic.name")
    partitions = [
        _read_offset_commit_request_partition_v8(r)
        for _ in range(r.compact_count(18, "OffsetCommitRequestTopic.partitions"))
    ]
    r.skip_tags("OffsetCommitRequestTopic")
    return OffsetCommitRequestTopic(name=name, partitions=partitions)


def _read_offset_commit_request_topic_v10(r: Reader) -> OffsetCommitRequestTopic:
    (topic_id,) = r.take(_s, "OffsetCommitRequestTopic.topic_id")
    partitions = [
        _read_offset_commit_request_partition_v8(r)
        for _ in range(r.compact_count(18, "OffsetCommitRequestTopic.partitions"))
    ]
    r.skip_tags("OffsetCommitRequestTopic")
    return OffsetCommitRequestTopic(topic_id=topic_id, partitions=partitions)


def _write_offset_commit_request_topic_v2(w: Writer, o: OffsetCommitRequestTopic) -> None:
    w.string(o.name, "OffsetCommitRequestTopic.name")
    w.count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_offset_commit_request_partition_v2(w, partitions_item)


def _write_offset_commit_request_topic_v6(w: Writer, o: OffsetCommitRequestTopic) -> None:
    w.string(o.name, "OffsetCommitRequestTopic.name")
    w.count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_offset_commit_request_partition_v6(w, partitions_item)


def _write_offset_commit_request_topic_v8(w: Writer, o: OffsetCommitRequestTopic) -> None:
    w.compact_string(o.name, "OffsetCommitRequestTopic.name")
    w.compact_count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_offset_commit_request_partition_v8(w, partitions_item)
    w.add(NO_TAGS)


def _write_offset_commit_request_topic_v10(w: Writer, o: OffsetCommitRequestTopic) -> None:
    w.add(_s.pack(uuid(o.topic_id)))
    w.compact_count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_offset_commit_request_partition_v8(w, partitions_item)
    w.add(NO_TAGS)


def _read_offset_commit_request_v2(r: Reader) -> OffsetCommitRequest:
    group_id = r.string("OffsetCommitRequest.group_id")
    (generation_id_or_member_epoch,) = r.take(_i, "OffsetCommitRequest.generation_id_or_member_epoch")
    member_id = r.string("OffsetCommitRequest.member_id")
    (retention_time_ms,) = r.take(_q, "OffsetCommitRequest.retention_time_ms")
    topics = [_read_offset_commit_request_topic_v2(r) for _ in range(r.count(6, "OffsetCommitRequest.topics"))]
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation_id_or_member_epoch,
        member_id=member_id,
        retention_time_ms=retention_time_ms,
        topics=topics,
    )


def _read_offset_commit_request_v5(r: Reader) -> OffsetCommitRequest:
    group_id = r.string("OffsetCommitRequest.group_id")
    (generation_id_or_member_epoch,) = r.take(_i, "OffsetCommitRequest.generation_id_or_member_epoch")
    member_id = r.string("OffsetCommitRequest.member_id")
    topics = [_read_offset_commit_request_topic_v2(r) for _ in range(r.count(6, "OffsetCommitRequest.topics"))]
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation_id_or_member_epoch,
        member_id=member_id,
        topics=topics,
    )


def _read_offset_commit_request_v6(r: Reader) -> OffsetCommitRequest:
    group_id = r.string("OffsetCommitRequest.group_id")
    (generation_id_or_member_epoch,) = r.take(_i, "OffsetCommitRequest.generation_id_or_member_epoch")
    member_id = r.string("OffsetCommitRequest.member_id")
    topics = [_read_offset_commit_request_topic_v6(r) for _ in range(r.count(6, "OffsetCommitRequest.topics"))]
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation_id_or_member_epoch,
        member_id=member_id,
        topics=topics,
    )


def _read_offset_commit_request_v7(r: Reader) -> OffsetCommitRequest:
    group_id = r.string("OffsetCommitRequest.group_id")
    (generation_id_or_member_epoch,) = r.take(_i, "OffsetCommitRequest.generation_id_or_member_epoch")
    member_id = r.string("OffsetCommitRequest.member_id")
    group_instance_id = r.nullable_string("OffsetCommitRequest.group_instance_id")
    topics = [_read_offset_commit_request_topic_v6(r) for _ in range(r.count(6, "OffsetCommitRequest.topics"))]
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation_id_or_member_epoch,
        member_id=member_id,
        group_instance_id=group_instance_id,
        topics=topics,
    )


def _read_offset_commit_request_v8(r: Reader) -> OffsetCommitRequest:
    group_id = r.compact_string("OffsetCommitRequest.group_id")
    (generation_id_or_member_epoch,) = r.take(_i, "OffsetCommitRequest.generation_id_or_member_epoch")
    member_id = r.compact_string("OffsetCommitRequest.member_id")
    group_instance_id = r.compact_nullable_string("OffsetCommitRequest.group_instance_id")
    topics = [_read_offset_commit_request_topic_v8(r) for _ in range(r.compact_count(3, "OffsetCommitRequest.topics"))]
    r.skip_tags("OffsetCommitRequest")
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation_id_or_member_epoch,
        member_id=member_id,
        group_instance_id=group_instance_id,
        topics=topics,
    )


def _read_offset_commit_request_v10(r: Reader) -> OffsetCommitRequest:
    group_id = r.compact_string("OffsetCommitRequest.group_id")
    (generation_id_or_member_epoch,) = r.take(_i, "OffsetCommitRequest.generation_id_or_member_epoch")
    member_id = r.compact_string("OffsetCommitRequest.member_id")
    group_instance_id = r.compact_nullable_string("OffsetCommitRequest.group_instance_id")
    topics = [
        _read_offset_commit_request_topic_v10(r) for _ in range(r.compact_count(18, "OffsetCommitRequest.topics"))
    ]
    r.skip_tags("OffsetCommitRequest")
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation_id_or_member_epoch,
        member_id=member_id,
        group_instance_id=group_instance_id,
        topics=topics,
    )


def _write_offset_commit_request_v2(w: Writer, o: OffsetCommitRequest) -> None:
    if o.group_instance_id is not None:
        raise w.unsupported("OffsetCommitRequest.group_instance_id")
    w.string(o.group_id, "OffsetCommitRequest.group_id")
    w.add(_i.pack(o.generation_id_or_member_epoch))
    w.string(o.member_id, "OffsetCommitRequest.member_id")
    w.add(_q.pack(o.retention_time_ms))
    w.count(len(o.topics))
    for topics_item in o.topics:
        _write_offset_commit_request_topic_v2(w, topics_item)


def _write_offset_commit_request_v5(w: Writer, o: OffsetCommitRequest) -> None:
    if o.group_instance_id is not None:
        raise w.unsupported("OffsetCommitRequest.group_instance_id")
    w.string(o.group_id, "OffsetCommitRequest.group_id")
    w.add(_i.pack(o.generation_id_or_member_epoch))
    w.string(o.member_id, "OffsetCommitRequest.member_id")
    w.count(len(o.topics))
    for topics_item in o.topics:
        _write_offset_commit_request_topic_v2(w, topics_item)


def _write_offset_commit_request_v6(w: Writer, o: OffsetCommitRequest) -> None:
    if o.group_instance_id is not None:
        raise w.unsupported("OffsetCommitRequest.group_instance_id")
    w.string(o.group_id, "OffsetCommitRequest.group_id")
    w.add(_i.pack(o.generation_id_or_member_epoch))
    w.string(o.member_id, "OffsetCommitRequest.member_id")
    w.count(len(o.topics))
    for topics_item in o.topics:
        _write_offset_commit_request_topic_v6(w, topics_item)


def _write_offset_commit_request_v7(w: Writer, o: OffsetCommitRequest) -> None:
    w.string(o.group_id, "OffsetCommitRequest.group_id")
    w.add(_i.pack(o.generation_id_or_member_epoch))
    w.string(o.member_id, "OffsetCommitRequest.member_id")
    w.nullable_string(o.group_instance_id, "OffsetCommitRequest.group_instance_id")
    w.count(len(o.topics))
    for topics_item in o.topics:
        _write_offset_commit_request_topic_v6(w, topics_item)


def _write_offset_commit_request_v8(w: Writer, o: OffsetCommitRequest) -> None:
    w.compact_string(o.group_id, "OffsetCommitRequest.group_id")
    w.add(_i.pack(o.generation_id_or_member_epoch))
    w.compact_string(o.member_id, "OffsetCommitRequest.member_id")
    w.compact_nullable_string(o.group_instance_id, "OffsetCommitRequest.group_instance_id")
    w.compact_count(len(o.topics))
    for topics_item in o.topics:
        _write_offset_commit_request_topic_v8(w, topics_item)
    w.add(NO_TAGS)


def _write_offset_commit_request_v10(w: Writer, o: OffsetCommitRequest) -> None:
    w.compact_string(o.group_id, "OffsetCommitRequest.group_id")
    w.add(_i.pack(o.generation_id_or_member_epoch))
    w.compact_string(o.member_id, "OffsetCommitRequest.member_id")
    w.compact_nullable_string(o.group_instance_id, "OffsetCommitRequest.group_instance_id")
    w.compact_count(len(o.topics))
    for topics_item in o.topics:
        _write_offset_commit_request_topic_v10(w, topics_item)
    w.add(NO_TAGS)


@dataclass(slots=True, kw_only=True)
class OffsetCommitResponsePartition:
    """Part of OffsetCommitResponse."""

    partition_index: int = 0
    error_code: int = 0


@dataclass(slots=True, kw_only=True)
class OffsetCommitResponseTopic:
    """Part of OffsetCommitResponse."""

    name: str = ""  # v0-9
    topic_id: bytes = ZERO_UUID  # v10+
    partitions: list[OffsetCommitResponsePartition] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class OffsetCommitResponse:
    """Versions 2 to 10."""

    throttle_time_ms: int = 0  # v3+
    topics: list[OffsetCommitResponseTopic] = field(default_factory=list)


def _read_offset_commit_response_partition_v2(r: Reader) -> OffsetCommitResponsePartition:
    partition_index, error_code = r.take(_ih, "OffsetCommitResponsePartition.partition_index,error_code")
    return OffsetCommitResponsePartition(partition_index=partition_index, error_code=error_code)


def _read_offset_commit_response_partition_v8(r: Reader) -> OffsetCommitResponsePartition:
    partition_index, error_code = r.take(_ih, "OffsetCommitResponsePartition.partition_index,error_code")
    r.skip_tags("OffsetCommitResponsePartition")
    return OffsetCommitResponsePartition(partition_index=partition_index, error_code=error_code)


def _write_offset_commit_response_partition_v2(w: Writer, o: OffsetCommitResponsePartition) -> None:
    w.add(_ih.pack(o.partition_index, o.error_code))


def _write_offset_commit_response_partition_v8(w: Writer, o: OffsetCommitResponsePartition) -> None:
    w.add(_ih.pack(o.partition_index, o.error_code))
    w.add(NO_TAGS)


def _read_offset_commit_response_topic_v2(r: Reader) -> OffsetCommitResponseTopic:
    name = r.string("OffsetCommitResponseTopic.name")
    partitions = [
        _read_offset_commit_response_partition_v2(r) for _ in range(r.count(6, "OffsetCommitResponseTopic.partitions"))
    ]
    return OffsetCommitResponseTopic(name=name, partitions=partitions)


def _read_offset_commit_response_topic_v8(r: Reader) -> OffsetCommitResponseTopic:
    name = r.compact_string("OffsetCommitResponseTopic.name")
    partitions = [
        _read_offset_commit_response_partition_v8(r)
        for _ in range(r.compact_count(7, "OffsetCommitResponseTopic.partitions"))
    ]
    r.skip_tags("OffsetCommitResponseTopic")
    return OffsetCommitResponseTopic(name=name, partitions=partitions)


def _read_offset_commit_response_topic_v10(r: Reader) -> OffsetCommitResponseTopic:
    (topic_id,) = r.take(_s, "OffsetCommitResponseTopic.topic_id")
    partitions = [
        _read_offset_commit_response_partition_v8(r)
        for _ in range(r.compact_count(7, "OffsetCommitResponseTopic.partitions"))
    ]
    r.skip_tags("OffsetCommitResponseTopic")
    return OffsetCommitResponseTopic(topic_id=topic_id, partitions=partitions)


def _write_offset_commit_response_topic_v2(w: Writer, o: OffsetCommitResponseTopic) -> None:
    w.string(o.name, "OffsetCommitResponseTopic.name")
    w.count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_offset_commit_response_partition_v2(w, partitions_item)


def _write_offset_commit_response_topic_v8(w: Writer, o: OffsetCommitResponseTopic) -> None:
    w.compact_string(o.name, "OffsetCommitResponseTopic.name")
    w.compact_count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_offset_commit_response_partition_v8(w, partitions_item)
    w.add(NO_TAGS)


def _write_offset_commit_response_topic_v10(w: Writer, o: OffsetCommitResponseTopic) -> None:
    w.add(_s.pack(uuid(o.topic_id)))
    w.compact_count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_offset_commit_response_partition_v8(w, partitions_item)
    w.add(NO_TAGS)


def _read_offset_commit_response_v2(r: Reader) -> OffsetCommitResponse:
    topics = [_read_offset_commit_response_topic_v2(r) for _ in range(r.count(6, "OffsetCommitResponse.topics"))]
    return OffsetCommitResponse(topics=topics)


def _read_offset_commit_response_v3(r: Reader) -> OffsetCommitResponse:
    (throttle_time_ms,) = r.take(_i, "OffsetCommitResponse.throttle_time_ms")
    topics = [_read_offset_commit_response_topic_v2(r) for _ in range(r.count(6, "OffsetCommitResponse.topics"))]
    return OffsetCommitResponse(throttle_time_ms=throttle_time_ms, topics=topics)


def _read_offset_commit_response_v8(r: Reader) -> OffsetCommitResponse:
    (throttle_time_ms,) = r.take(_i, "OffsetCommitResponse.throttle_time_ms")
    topics = [
        _read_offset_commit_response_topic_v8(r) for _ in range(r.compact_count(3, "OffsetCommitResponse.topics"))
    ]
    r.skip_tags("OffsetCommitResponse")
    return OffsetCommitResponse(throttle_time_ms=throttle_time_ms, topics=topics)


def _read_offset_commit_response_v10(r: Reader) -> OffsetCommitResponse:
    (throttle_time_ms,) = r.take(_i, "OffsetCommitResponse.throttle_time_ms")
    topics = [
        _read_offset_commit_response_topic_v10(r) for _ in range(r.compact_count(18, "OffsetCommitResponse.topics"))
    ]
    r.skip_tags("OffsetCommitResponse")
    return OffsetCommitResponse(throttle_time_ms=throttle_time_ms, topics=topics)


def _write_offset_commit_response_v2(w: Writer, o: OffsetCommitResponse) -> None:
    w.count(len(o.topics))
    for topics_item in o.topics:
        _write_offset_commit_response_topic_v2(w, topics_item)


def _write_offset_commit_response_v3(w: Writer, o: OffsetCommitResponse) -> None:
    w.add(_i.pack(o.throttle_time_ms))
    w.count(len(o.topics))
    for topics_item in o.topics:
        _write_offset_commit_response_topic_v2(w, topics_item)


def _write_offset_commit_response_v8(w: Writer, o: OffsetCommitResponse) -> None:
    w.add(_i.pack(o.throttle_time_ms))
    w.compact_count(len(o.topics))
    for topics_item in o.topics:
        _write_offset_commit_response_topic_v8(w, topics_item)
    w.add(NO_TAGS)


def _write_offset_commit_response_v10(w: Writer, o: OffsetCommitResponse) -> None:
    w.add(_i.pack(o.throttle_time_ms))
    w.compact_count(len(o.topics))
    for topics_item in o.topics:
        _write_offset_commit_response_topic_v10(w, topics_item)
    w.add(NO_TAGS)


REQUEST: Final = Codec(
    "OffsetCommitRequest",
    2,
    (
        _read_offset_commit_request_v2,
        _read_offset_commit_request_v2,
        _read_offset_commit_request_v2,
        _read_offset_commit_request_v5,
        _read_offset_commit_request_v6,
        _read_offset_commit_request_v7,
        _read_offset_commit_request_v8,
        _read_offset_commit_request_v8,
        _read_offset_commit_request_v10,
    ),
    (
        _write_offset_commit_request_v2,
        _write_offset_commit_request_v2,
        _write_offset_commit_request_v2,
        _write_offset_commit_request_v5,
        _write_offset_commit_request_v6,
        _write_offset_commit_request_v7,
        _write_offset_commit_request_v8,
        _write_offset_commit_request_v8,
        _write_offset_commit_request_v10,
    ),
)

RESPONSE: Final = Codec(
    "OffsetCommitResponse",
    2,
    (
        _read_offset_commit_response_v2,
        _read_offset_commit_response_v3,
        _read_offset_commit_response_v3,
        _read_offset_commit_response_v3,
        _read_offset_commit_response_v3,
        _read_offset_commit_response_v3,
        _read_offset_commit_response_v8,
        _read_offset_commit_response_v8,
        _read_offset_commit_response_v10,
    ),
    (
        _write_offset_commit_response_v2,
        _write_offset_commit_response_v3,
        _write_offset_commit_response_v3,
        _write_offset_commit_response_v3,
        _write_offset_commit_response_v3,
        _write_offset_commit_response_v3,
        _write_offset_commit_response_v8,
        _write_offset_commit_response_v8,
        _write_offset_commit_response_v10,
    ),
)
