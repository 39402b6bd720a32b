"""TxnOffsetCommit (API 28), versions 0 to 5. Made by scripts/generate_kafka_messages.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from raftlog.wire.kafka.codec import Codec
from raftlog.wire.kafka.reader import Reader
from raftlog.wire.kafka.writer import NO_TAGS, Writer

_i = Struct(">i")
_ih = Struct(">ih")
_iq = Struct(">iq")
_iqi = Struct(">iqi")
_qh = Struct(">qh")
_qhi = Struct(">qhi")


@dataclass(slots=True, kw_only=True)
class TxnOffsetCommitRequestPartition:
    """Part of TxnOffsetCommitRequest."""

    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1  # v2+
    committed_metadata: str | None = ""


@dataclass(slots=True, kw_only=True)
class TxnOffsetCommitRequestTopic:
    """Part of TxnOffsetCommitRequest."""

    name: str = ""
    partitions: list[TxnOffsetCommitRequestPartition] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class TxnOffsetCommitRequest:
    """Versions 0 to 5."""

    transactional_id: str = ""
    group_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    generation_id: int = -1  # v3+
    member_id: str = ""  # v3+
    group_instance_id: str | None = None  # v3+
    topics: list[TxnOffsetCommitRequestTopic] = field(default_factory=list)


def _read_txn_offset_commit_request_partition_v0(r: Reader) -> TxnOffsetCommitRequestPartition:
    partition_index, committed_offset = r.take(_iq, "TxnOffsetCommitRequestPartition.partition_index,committed_offset")
    committed_metadata = r.nullable_string("TxnOffsetCommitRequestPartition.committed_metadata")
    return TxnOffsetCommitRequestPartition(
        partition_index=partition_index, committed_offset=committed_offset, committed_metadata=committed_metadata
    )


def _read_txn_offset_commit_request_partition_v2(r: Reader) -> TxnOffsetCommitRequestPartition:
    partition_index, committed_offset, committed_leader_epoch = r.take(
        _iqi, "TxnOffsetCommitRequestPartition.partition_index,committed_offset,committed_leader_epoch"
    )
    committed_metadata = r.nullable_string("TxnOffsetCommitRequestPartition.committed_metadata")
    return TxnOffsetCommitRequestPartition(
        partition_index=partition_index,
        committed_offset=committed_offset,
        committed_leader_epoch=committed_leader_epoch,
        committed_metadata=committed_metadata,
    )


def _read_txn_offset_commit_request_partition_v3(r: Reader) -> TxnOffsetCommitRequestPartition:
    partition_index, committed_offset, committed_leader_epoch = r.take(
        _iqi, "TxnOffsetCommitRequestPartition.partition_index,committed_offset,committed_leader_epoch"
    )
    committed_metadata = r.compact_nullable_string("TxnOffsetCommitRequestPartition.committed_metadata")
    r.skip_tags("TxnOffsetCommitRequestPartition")
    return TxnOffsetCommitRequestPartition(
        partition_index=partition_index,
        committed_offset=committed_offset,
        committed_leader_epoch=committed_leader_epoch,
        committed_metadata=committed_metadata,
    )


def _write_txn_offset_commit_request_partition_v0(w: Writer, o: TxnOffsetCommitRequestPartition) -> None:
    w.add(_iq.pack(o.partition_index, o.committed_offset))
    w.nullable_string(o.committed_metadata, "TxnOffsetCommitRequestPartition.committed_metadata")


def _write_txn_offset_commit_request_partition_v2(w: Writer, o: TxnOffsetCommitRequestPartition) -> None:
    w.add(_iqi.pack(o.partition_index, o.committed_offset, o.committed_leader_epoch))
    w.nullable_string(o.committed_metadata, "TxnOffsetCommitRequestPartition.committed_metadata")


def _write_txn_offset_commit_request_partition_v3(w: Writer, o: TxnOffsetCommitRequestPartition) -> None:
    w.add(_iqi.pack(o.partition_index, o.committed_offset, o.committed_leader_epoch))
    w.compact_nullable_string(o.committed_metadata, "TxnOffsetCommitRequestPartition.committed_metadata")
    w.add(NO_TAGS)


def _read_txn_offset_commit_request_topic_v0(r: Reader) -> TxnOffsetCommitRequestTopic:
    name = r.string("TxnOffsetCommitRequestTopic.name")
    partitions = [
        _read_txn_offset_commit_request_partition_v0(r)
        for _ in range(r.count(14, "TxnOffsetCommitRequestTopic.partitions"))
    ]
    return TxnOffsetCommitRequestTopic(name=name, partitions=partitions)


def _read_txn_offset_commit_request_topic_v2(r: Reader) -> TxnOffsetCommitRequestTopic:
    name = r.string("TxnOffsetCommitRequestTopic.name")
    partitions = [
        _read_txn_offset_commit_request_partition_v2(r)
        for _ in range(r.count(18, "TxnOffsetCommitRequestTopic.partitions"))
    ]
    return TxnOffsetCommitRequestTopic(name=name, partitions=partitions)


def _read_txn_offset_commit_request_topic_v3(r: Reader) -> TxnOffsetCommitRequestTopic:
    name = r.compact_string("TxnOffsetCommitRequestTopic.name")
    partitions = [
        _read_txn_offset_commit_request_partition_v3(r)
        for _ in range(r.compact_count(18, "TxnOffsetCommitRequestTopic.partitions"))
    ]
    r.skip_tags("TxnOffsetCommitRequestTopic")
    return TxnOffsetCommitRequestTopic(name=name, partitions=partitions)


def _write_txn_offset_commit_request_topic_v0(w: Writer, o: TxnOffsetCommitRequestTopic) -> None:
    w.string(o.name, "TxnOffsetCommitRequestTopic.name")
    w.count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_txn_offset_commit_request_partition_v0(w, partitions_item)


def _write_txn_offset_commit_request_topic_v2(w: Writer, o: TxnOffsetCommitRequestTopic) -> None:
    w.string(o.name, "TxnOffsetCommitRequestTopic.name")
    w.count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_txn_offset_commit_request_partition_v2(w, partitions_item)


def _write_txn_offset_commit_request_topic_v3(w: Writer, o: TxnOffsetCommitRequestTopic) -> None:
    w.compact_string(o.name, "TxnOffsetCommitRequestTopic.name")
    w.compact_count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_txn_offset_commit_request_partition_v3(w, partitions_item)
    w.add(NO_TAGS)


def _read_txn_offset_commit_request_v0(r: Reader) -> TxnOffsetCommitRequest:
    transactional_id = r.string("TxnOffsetCommitRequest.transactional_id")
    group_id = r.string("TxnOffsetCommitRequest.group_id")
    producer_id, producer_epoch = r.take(_qh, "TxnOffsetCommitRequest.producer_id,producer_epoch")
    topics = [_read_txn_offset_commit_request_topic_v0(r) for _ in range(r.count(6, "TxnOffsetCommitRequest.topics"))]
    return TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=group_id,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        topics=topics,
    )


def _read_txn_offset_commit_request_v2(r: Reader) -> TxnOffsetCommitRequest:
    transactional_id = r.string("TxnOffsetCommitRequest.transactional_id")
    group_id = r.string("TxnOffsetCommitRequest.group_id")
    producer_id, producer_epoch = r.take(_qh, "TxnOffsetCommitRequest.producer_id,producer_epoch")
    topics = [_read_txn_offset_commit_request_topic_v2(r) for _ in range(r.count(6, "TxnOffsetCommitRequest.topics"))]
    return TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=group_id,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        topics=topics,
    )


def _read_txn_offset_commit_request_v3(r: Reader) -> TxnOffsetCommitRequest:
    transactional_id = r.compact_string("TxnOffsetCommitRequest.transactional_id")
    group_id = r.compact_string("TxnOffsetCommitRequest.group_id")
    producer_id, producer_epoch, generation_id = r.take(
        _qhi, "TxnOffsetCommitRequest.producer_id,producer_epoch,generation_id"
    )
    member_id = r.compact_string("TxnOffsetCommitRequest.member_id")
    group_instance_id = r.compact_nullable_string("TxnOffsetCommitRequest.group_instance_id")
    topics = [
        _read_txn_offset_commit_request_topic_v3(r) for _ in range(r.compact_count(3, "TxnOffsetCommitRequest.topics"))
    ]
    r.skip_tags("TxnOffsetCommitRequest")
    return TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=group_id,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        generation_id=generation_id,
        member_id=member_id,
        group_instance_id=group_instance_id,
        topics=topics,
    )


def _write_txn_offset_commit_request_v0(w: Writer, o: TxnOffsetCommitRequest) -> None:
    if o.generation_id != -1:
        raise w.unsupported("TxnOffsetCommitRequest.generation_id")
    if o.member_id != "":
        raise w.unsupported("TxnOffsetCommitRequest.member_id")
    if o.group_instance_id is not None:
        raise w.unsupported("TxnOffsetCommitRequest.group_instance_id")
    w.string(o.transactional_id, "TxnOffsetCommitRequest.transactional_id")
    w.string(o.group_id, "TxnOffsetCommitRequest.group_id")
    w.add(_qh.pack(o.producer_id, o.producer_epoch))
    w.count(len(o.topics))
    for topics_item in o.topics:
        _write_txn_offset_commit_request_topic_v0(w, topics_item)


def _write_txn_offset_commit_request_v2(w: Writer, o: TxnOffsetCommitRequest) -> None:
    if o.generation_id != -1:
        raise w.unsupported("TxnOffsetCommitRequest.generation_id")
    if o.member_id != "":
        raise w.unsupported("TxnOffsetCommitRequest.member_id")
    if o.group_instance_id is not None:
        raise w.unsupported("TxnOffsetCommitRequest.group_instance_id")
    w.string(o.transactional_id, "TxnOffsetCommitRequest.transactional_id")
    w.string(o.group_id, "TxnOffsetCommitRequest.group_id")
    w.add(_qh.pack(o.producer_id, o.producer_epoch))
    w.count(len(o.topics))
    for topics_item in o.topics:
        _write_txn_offset_commit_request_topic_v2(w, topics_item)


def _write_txn_offset_commit_request_v3(w: Writer, o: TxnOffsetCommitRequest) -> None:
    w.compact_string(o.transactional_id, "TxnOffsetCommitRequest.transactional_id")
    w.compact_string(o.group_id, "TxnOffsetCommitRequest.group_id")
    w.add(_qhi.pack(o.producer_id, o.producer_epoch, o.generation_id))
    w.compact_string(o.member_id, "TxnOffsetCommitRequest.member_id")
    w.compact_nullable_string(o.group_instance_id, "TxnOffsetCommitRequest.group_instance_id")
    w.compact_count(len(o.topics))
    for topics_item in o.topics:
        _write_txn_offset_commit_request_topic_v3(w, topics_item)
    w.add(NO_TAGS)


@dataclass(slots=True, kw_only=True)
class TxnOffsetCommitResponsePartition:
    """Part of TxnOffsetCommitResponse."""

    partition_index: int = 0
    error_code: int = 0


@dataclass(slots=True, kw_only=True)
class TxnOffsetCommitResponseTopic:
    """Part of TxnOffsetCommitResponse."""

    name: str = ""
    partitions: list[TxnOffsetCommitResponsePartition] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class TxnOffsetCommitResponse:
    """Versions 0 to 5."""

    throttle_time_ms: int = 0
    topics: list[TxnOffsetCommitResponseTopic] = field(default_factory=list)


def _read_txn_offset_commit_response_partition_v0(r: Reader) -> TxnOffsetCommitResponsePartition:
    partition_index, error_code = r.take(_ih, "TxnOffsetCommitResponsePartition.partition_index,error_code")
    return TxnOffsetCommitResponsePartition(partition_index=partition_index, error_code=error_code)


def _read_txn_offset_commit_response_partition_v3(r: Reader) -> TxnOffsetCommitResponsePartition:
    partition_index, error_code = r.take(_ih, "TxnOffsetCommitResponsePartition.partition_index,error_code")
    r.skip_tags("TxnOffsetCommitResponsePartition")
    return TxnOffsetCommitResponsePartition(partition_index=partition_index, error_code=error_code)


def _write_txn_offset_commit_response_partition_v0(w: Writer, o: TxnOffsetCommitResponsePartition) -> None:
    w.add(_ih.pack(o.partition_index, o.error_code))


def _write_txn_offset_commit_response_partition_v3(w: Writer, o: TxnOffsetCommitResponsePartition) -> None:
    w.add(_ih.pack(o.partition_index, o.error_code))
    w.add(NO_TAGS)


def _read_txn_offset_commit_response_topic_v0(r: Reader) -> TxnOffsetCommitResponseTopic:
    name = r.string("TxnOffsetCommitResponseTopic.name")
    partitions = [
        _read_txn_offset_commit_response_partition_v0(r)
        for _ in range(r.count(6, "TxnOffsetCommitResponseTopic.partitions"))
    ]
    return TxnOffsetCommitResponseTopic(name=name, partitions=partitions)


def _read_txn_offset_commit_response_topic_v3(r: Reader) -> TxnOffsetCommitResponseTopic:
    name = r.compact_string("TxnOffsetCommitResponseTopic.name")
    partitions = [
        _read_txn_offset_commit_response_partition_v3(r)
        for _ in range(r.compact_count(7, "TxnOffsetCommitResponseTopic.partitions"))
    ]
    r.skip_tags("TxnOffsetCommitResponseTopic")
    return TxnOffsetCommitResponseTopic(name=name, partitions=partitions)


def _write_txn_offset_commit_response_topic_v0(w: Writer, o: TxnOffsetCommitResponseTopic) -> None:
    w.string(o.name, "TxnOffsetCommitResponseTopic.name")
    w.count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_txn_offset_commit_response_partition_v0(w, partitions_item)


def _write_txn_offset_commit_response_topic_v3(w: Writer, o: TxnOffsetCommitResponseTopic) -> None:
    w.compact_string(o.name, "TxnOffsetCommitResponseTopic.name")
    w.compact_count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_txn_offset_commit_response_partition_v3(w, partitions_item)
    w.add(NO_TAGS)


def _read_txn_offset_commit_response_v0(r: Reader) -> TxnOffsetCommitResponse:
    (throttle_time_ms,) = r.take(_i, "TxnOffsetCommitResponse.throttle_time_ms")
    topics = [_read_txn_offset_commit_response_topic_v0(r) for _ in range(r.count(6, "TxnOffsetCommitResponse.topics"))]
    return TxnOffsetCommitResponse(throttle_time_ms=throttle_time_ms, topics=topics)


def _read_txn_offset_commit_response_v3(r: Reader) -> TxnOffsetCommitResponse:
    (throttle_time_ms,) = r.take(_i, "TxnOffsetCommitResponse.throttle_time_ms")
    topics = [
        _read_txn_offset_commit_response_topic_v3(r)
        for _ in range(r.compact_count(3, "TxnOffsetCommitResponse.topics"))
    ]
    r.skip_tags("TxnOffsetCommitResponse")
    return TxnOffsetCommitResponse(throttle_time_ms=throttle_time_ms, topics=topics)


def _write_txn_offset_commit_response_v0(w: Writer, o: TxnOffsetCommitResponse) -> None:
    w.add(_i.pack(o.throttle_time_ms))
    w.count(len(o.topics))
    for topics_item in o.topics:
        _write_txn_offset_commit_response_topic_v0(w, topics_item)


def _write_txn_offset_commit_response_v3(w: Writer, o: TxnOffsetCommitResponse) -> None:
    w.add(_i.pack(o.throttle_time_ms))
    w.compact_count(len(o.topics))
    for topics_item in o.topics:
        _write_txn_offset_commit_response_topic_v3(w, topics_item)
    w.add(NO_TAGS)


REQUEST: Final = Codec(
    "TxnOffsetCommitRequest",
    0,
    (
        _read_txn_offset_commit_request_v0,
        _read_txn_offset_commit_request_v0,
        _read_txn_offset_commit_request_v2,
        _read_txn_offset_commit_request_v3,
        _read_txn_offset_commit_request_v3,
        _read_txn_offset_commit_request_v3,
    ),
    (
        _write_txn_offset_commit_request_v0,
        _write_txn_offset_commit_request_v0,
        _write_txn_offset_commit_request_v2,
        _write_txn_offset_commit_request_v3,
        _write_txn_offset_commit_request_v3,
        _write_txn_offset_commit_request_v3,
    ),
)

RESPONSE: Final = Codec(
    "TxnOffsetCommitResponse",
    0,
    (
        _read_txn_offset_commit_response_v0,
        _read_txn_offset_commit_response_v0,
        _read_txn_offset_commit_response_v0,
        _read_txn_offset_commit_response_v3,
        _read_txn_offset_commit_response_v3,
        _read_txn_offset_commit_response_v3,
    ),
    (
        _write_txn_offset_commit_response_v0,
        _write_txn_offset_commit_response_v0,
        _write_txn_offset_commit_response_v0,
        _write_txn_offset_commit_response_v3,
        _write_txn_offset_commit_response_v3,
        _write_txn_offset_commit_response_v3,
    ),
)
