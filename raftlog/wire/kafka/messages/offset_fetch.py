"""OffsetFetch (API 9), versions 1 to 10. Made by scripts/generate_kafka_messages.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from raftlog.wire.kafka.codec import Codec
from raftlog.wire.kafka.reader import Reader
from raftlog.wire.kafka.writer import NO_TAGS, ZERO_UUID, Writer, uuid

_s = Struct(">16s")
_o = Struct(">?")
_h = Struct(">h")
_i = Struct(">i")
_iq = Struct(">iq")
_iqi = Struct(">iqi")


@dataclass(slots=True, kw_only=True)
class OffsetFetchRequestTopic:
    """Part of OffsetFetchRequest."""

    name: str = ""  # v0-7
    partition_indexes: list[int] = field(default_factory=list)  # v0-7


@dataclass(slots=True, kw_only=True)
class OffsetFetchRequestTopics:
    """Part of OffsetFetchRequest."""

    name: str = ""  # v8-9
    topic_id: bytes = ZERO_UUID  # v10+
    partition_indexes: list[int] = field(default_factory=list)  # v8+


@dataclass(slots=True, kw_only=True)
class OffsetFetchRequestGroup:
    """Part of OffsetFetchRequest."""

    group_id: str = ""  # v8+
    member_id: str | None = None  # v9+
    member_epoch: int = -1  # v9+
    topics: list[OffsetFetchRequestTopics] | None = field(default_factory=list)  # v8+


@dataclass(slots=True, kw_only=True)
class OffsetFetchRequest:
    """Versions 1 to 10."""

    group_id: str = ""  # v0-7
    topics: list[OffsetFetchRequestTopic] | None = field(default_factory=list)  # v0-7
    groups: list[OffsetFetchRequestGroup] = field(default_factory=list)  # v8+
    require_stable: bool = False  # v7+


def _read_offset_fetch_request_topic_v1(r: Reader) -> OffsetFetchRequestTopic:
    name = r.string("OffsetFetchRequestTopic.name")
    partition_indexes = r.numbers("i", r.count(4, "OffsetFetchRequestTopic.partition_indexes"))
    return OffsetFetchRequestTopic(name=name, partition_indexes=partition_indexes)


def _read_offset_fetch_request_topic_v6(r: Reader) -> OffsetFetchRequestTopic:
    name = r.compact_string("OffsetFetchRequestTopic.name")
    partition_indexes = r.numbers("i", r.compact_count(4, "OffsetFetchRequestTopic.partition_indexes"))
    r.skip_tags("OffsetFetchRequestTopic")
    return OffsetFetchRequestTopic(name=name, partition_indexes=partition_indexes)


def _write_offset_fetch_request_topic_v1(w: Writer, o: OffsetFetchRequestTopic) -> None:
    w.string(o.name, "OffsetFetchRequestTopic.name")
    w.count(len(o.partition_indexes))
    w.numbers("i", o.partition_indexes)


def _write_offset_fetch_request_topic_v6(w: Writer, o: OffsetFetchRequestTopic) -> None:
    w.compact_string(o.name, "OffsetFetchRequestTopic.name")
    w.compact_count(len(o.partition_indexes))
    w.numbers("i", o.partition_indexes)
    w.add(NO_TAGS)


def _read_offset_fetch_request_topics_v8(r: Reader) -> OffsetFetchRequestTopics:
    name = r.compact_string("OffsetFetchRequestTopics.name")
    partition_indexes = r.numbers("i", r.compact_count(4, "OffsetFetchRequestTopics.partition_indexes"))
    r.skip_tags("OffsetFetchRequestTopics")
    return OffsetFetchRequestTopics(name=name, partition_indexes=partition_indexes)


def _read_offset_fetch_request_topics_v10(r: Reader) -> OffsetFetchRequestTopics:
    (topic_id,) = r.take(_s, "OffsetFetchRequestTopics.topic_id")
    partition_indexes = r.numbers("i", r.compact_count(4, "OffsetFetchRequestTopics.partition_indexes"))
    r.skip_tags("OffsetFetchRequestTopics")
    return OffsetFetchRequestTopics(topic_id=topic_id, partition_indexes=partition_indexes)


def _write_offset_fetch_request_topics_v8(w: Writer, o: OffsetFetchRequestTopics) -> None:
    w.compact_string(o.name, "OffsetFetchRequestTopics.name")
    w.compact_count(len(o.partition_indexes))
    w.numbers("i", o.partition_indexes)
    w.add(NO_TAGS)


def _write_offset_fetch_request_topics_v10(w: Writer, o: OffsetFetchRequestTopics) -> None:
    w.add(_s.pack(uuid(o.topic_id)))
    w.compact_count(len(o.partition_indexes))
    w.numbers("i", o.partition_indexes)
    w.add(NO_TAGS)


def _read_offset_fetch_request_group_v8(r: Reader) -> OffsetFetchRequestGroup:
    group_id = r.compact_string("OffsetFetchRequestGroup.group_id")
    n = r.compact_nullable_count(3, "OffsetFetchRequestGroup.topics")
    topics = None if n < 0 else [_read_offset_fetch_request_topics_v8(r) for _ in range(n)]
    r.skip_tags("OffsetFetchRequestGroup")
    return OffsetFetchRequestGroup(group_id=group_id, topics=topics)


def _read_offset_fetch_request_group_v9(r: Reader) -> OffsetFetchRequestGroup:
    group_id = r.compact_string("OffsetFetchRequestGroup.group_id")
    member_id = r.compact_nullable_string("OffsetFetchRequestGroup.member_id")
    (member_epoch,) = r.take(_i, "OffsetFetchRequestGroup.member_epoch")
    n = r.compact_nullable_count(3, "OffsetFetchRequestGroup.topics")
    topics = None if n < 0 else [_read_offset_fetch_request_topics_v8(r) for _ in range(n)]
    r.skip_tags("OffsetFetchRequestGroup")
    return OffsetFetchRequestGroup(group_id=group_id, member_id=member_id, member_epoch=member_epoch, topics=topics)


def _read_offset_fetch_request_group_v10(r: Reader) -> OffsetFetchRequestGroup:
    group_id = r.compact_string("OffsetFetchRequestGroup.group_id")
    member_id = r.compact_nullable_string("OffsetFetchRequestGroup.member_id")
    (member_epoch,) = r.take(_i, "OffsetFetchRequestGroup.member_epoch")
    n = r.compact_nullable_count(18, "OffsetFetchRequestGroup.topics")
    topics = None if n < 0 else [_read_offset_fetch_request_topics_v10(r) for _ in range(n)]
    r.skip_tags("OffsetFetchRequestGroup")
    return OffsetFetchRequestGroup(group_id=group_id, member_id=member_id, member_epoch=member_epoch, topics=topics)


def _write_offset_fetch_request_group_v8(w: Writer, o: OffsetFetchRequestGroup) -> None:
    w.compact_string(o.group_id, "OffsetFetchRequestGroup.group_id")
    if o.topics is None:
        w.compact_count(-1)
    else:
        w.compact_count(len(o.topics))
        for topics_item in o.topics:
            _write_offset_fetch_request_topics_v8(w, topics_item)
    w.add(NO_TAGS)


def _write_offset_fetch_request_group_v9(w: Writer, o: OffsetFetchRequestGroup) -> None:
    w.compact_string(o.group_id, "OffsetFetchRequestGroup.group_id")
    w.compact_nullable_string(o.member_id, "OffsetFetchRequestGroup.member_id")
    w.add(_i.pack(o.member_epoch))
    if o.topics is None:
        w.compact_count(-1)
    else:
        w.compact_count(len(o.topics))
        for topics_item in o.topics:
            _write_offset_fetch_request_topics_v8(w, topics_item)
    w.add(NO_TAGS)


def _write_offset_fetch_request_group_v10(w: Writer, o: OffsetFetchRequestGroup) -> None:
    w.compact_string(o.group_id, "OffsetFetchRequestGroup.group_id")
    w.compact_nullable_string(o.member_id, "OffsetFetchRequestGroup.member_id")
    w.add(_i.pack(o.member_epoch))
    if o.topics is None:
        w.compact_count(-1)
    else:
        w.compact_count(len(o.topics))
        for topics_item in o.topics:
            _write_offset_fetch_request_topics_v10(w, topics_item)
    w.add(NO_TAGS)


def _read_offset_fetch_request_v1(r: Reader) -> OffsetFetchRequest:
    group_id = r.string("OffsetFetchRequest.group_id")
    topics = [_read_offset_fetch_request_topic_v1(r) for _ in range(r.count(6, "OffsetFetchRequest.topics"))]
    return OffsetFetchRequest(group_id=group_id, topics=topics)


def _read_offset_fetch_request_v2(r: Reader) -> OffsetFetchRequest:
    group_id = r.string("OffsetFetchRequest.group_id")
    n = r.nullable_count(6, "OffsetFetchRequest.topics")
    topics = None if n < 0 else [_read_offset_fetch_request_topic_v1(r) for _ in range(n)]
    return OffsetFetchRequest(group_id=group_id, topics=topics)


def _read_offset_fetch_request_v6(r: Reader) -> OffsetFetchRequest:
    group_id = r.compact_string("OffsetFetchRequest.group_id")
    n = r.compact_nullable_count(3, "OffsetFetchRequest.topics")
    topics = None if n < 0 else [_read_offset_fetch_request_topic_v6(r) for _ in range(n)]
    r.skip_tags("OffsetFetchRequest")
    return OffsetFetchRequest(group_id=group_id, topics=topics)


def _read_offset_fetch_request_v7(r: Reader) -> OffsetFetchRequest:
    group_id = r.compact_string("OffsetFetchRequest.group_id")
    n = r.compact_nullable_count(3, "OffsetFetchRequest.topics")
    topics = None if n < 0 else [_read_offset_fetch_request_topic_v6(r) for _ in range(n)]
    (require_stable,) = r.take(_o, "OffsetFetchRequest.require_stable")
    r.skip_tags("OffsetFetchRequest")
    return OffsetFetchRequest(group_id=group_id, topics=topics, require_stable=require_stable)


def _read_offset_fetch_request_v8(r: Reader) -> OffsetFetchRequest:
    groups = [_read_offset_fetch_request_group_v8(r) for _ in range(r.compact_count(3, "OffsetFetchRequest.groups"))]
    (require_stable,) = r.take(_o, "OffsetFetchRequest.require_stable")
    r.skip_tags("OffsetFetchRequest")
    return OffsetFetchRequest(groups=groups, require_stable=require_stable)


def _read_offset_fetch_request_v9(r: Reader) -> OffsetFetchRequest:
    groups = [_read_offset_fetch_request_group_v9(r) for _ in range(r.compact_count(8, "OffsetFetchRequest.groups"))]
    (require_stable,) = r.take(_o, "OffsetFetchRequest.require_stable")
    r.skip_tags("OffsetFetchRequest")
    return OffsetFetchRequest(groups=groups, require_stable=require_stable)


def _read_offset_fetch_request_v10(r: Reader) -> OffsetFetchRequest:
    groups = [_read_offset_fetch_request_group_v10(r) for _ in range(r.compact_count(8, "OffsetFetchRequest.groups"))]
    (require_stable,) = r.take(_o, "OffsetFetchRequest.require_stable")
    r.skip_tags("OffsetFetchRequest")
    return OffsetFetchRequest(groups=groups, require_stable=require_stable)


def _write_offset_fetch_request_v1(w: Writer, o: OffsetFetchRequest) -> None:
    if o.groups:
        raise w.unsupported("OffsetFetchRequest.groups")
    if o.require_stable:
        raise w.unsupported("OffsetFetchRequest.require_stable")
    w.string(o.group_id, "OffsetFetchRequest.group_id")
    topics = w.not_null(o.topics, "OffsetFetchRequest.topics")
    w.count(len(topics))
    for topics_item in topics:
        _write_offset_fetch_request_topic_v1(w, topics_item)


def _write_offset_fetch_request_v2(w: Writer, o: OffsetFetchRequest) -> None:
    if o.groups:
        raise w.unsupported("OffsetFetchRequest.groups")
    if o.require_stable:
        raise w.unsupported("OffsetFetchRequest.require_stable")
    w.string(o.group_id, "OffsetFetchRequest.group_id")
    if o.topics is None:
        w.count(-1)
    else:
        w.count(len(o.topics))
        for topics_item in o.topics:
            _write_offset_fetch_request_topic_v1(w, topics_item)


def _write_offset_fetch_request_v6(w: Writer, o: OffsetFetchRequest) -> None:
    if o.groups:
        raise w.unsupported("OffsetFetchRequest.groups")
    if o.require_stable:
        raise w.unsupported("OffsetFetchRequest.require_stable")
    w.compact_string(o.group_id, "OffsetFetchRequest.group_id")
    if o.topics is None:
        w.compact_count(-1)
    else:
        w.compact_count(len(o.topics))
        for topics_item in o.topics:
            _write_offset_fetch_request_topic_v6(w, topics_item)
    w.add(NO_TAGS)


def _write_offset_fetch_request_v7(w: Writer, o: OffsetFetchRequest) -> None:
    if o.groups:
        raise w.unsupported("OffsetFetchRequest.groups")
    w.compact_string(o.group_id, "OffsetFetchRequest.group_id")
    if o.topics is None:
        w.compact_count(-1)
    else:
        w.compact_count(len(o.topics))
        for topics_item in o.topics:
            _write_offset_fetch_request_topic_v6(w, topics_item)
    w.add(_o.pack(o.require_stable))
    w.add(NO_TAGS)


def _write_offset_fetch_request_v8(w: Writer, o: OffsetFetchRequest) -> None:
    if o.group_id != "":
        raise w.unsupported("OffsetFetchRequest.group_id")
    if o.topics != []:
        raise w.unsupported("OffsetFetchRequest.topics")
    w.compact_count(len(o.groups))
    for groups_item in o.groups:
        _write_offset_fetch_request_group_v8(w, groups_item)
    w.add(_o.pack(o.require_stable))
    w.add(NO_TAGS)


def _write_offset_fetch_request_v9(w: Writer, o: OffsetFetchRequest) -> None:
    if o.group_id != "":
        raise w.unsupported("OffsetFetchRequest.group_id")
    if o.topics != []:
        raise w.unsupported("OffsetFetchRequest.topics")
    w.compact_count(len(o.groups))
    for groups_item in o.groups:
        _write_offset_fetch_request_group_v9(w, groups_item)
    w.add(_o.pack(o.require_stable))
    w.add(NO_TAGS)


def _write_offset_fetch_request_v10(w: Writer, o: OffsetFetchRequest) -> None:
    if o.group_id != "":
        raise w.unsupported("OffsetFetchRequest.group_id")
    if o.topics != []:
        raise w.unsupported("OffsetFetchRequest.topics")
    w.compact_count(len(o.groups))
    for groups_item in o.groups:
        _write_offset_fetch_request_group_v10(w, groups_item)
    w.add(_o.pack(o.require_stable))
    w.add(NO_TAGS)


@dataclass(slots=True, kw_only=True)
class OffsetFetchResponsePartition:
    """Part of OffsetFetchResponse."""

    partition_index: int = 0  # v0-7
    committed_offset: int = 0  # v0-7
    committed_leader_epoch: int = -1  # v5-7
    metadata: str | None = ""  # v0-7
    error_code: int = 0  # v0-7


@dataclass(slots=True, kw_only=True)
class OffsetFetchResponseTopic:
    """Part of OffsetFetchResponse."""

    name: str = ""  # v0-7
    partitions: list[OffsetFetchResponsePartition] = field(default_factory=list)  # v0-7


@dataclass(slots=True, kw_only=True)
class OffsetFetchResponsePartitions:
    """Part of OffsetFetchResponse."""

    partition_index: int = 0  # v8+
    committed_offset: int = 0  # v8+
    committed_leader_epoch: int = -1  # v8+
    metadata: str | None = ""  # v8+
    error_code: int = 0  # v8+


@dataclass(slots=True, kw_only=True)
class OffsetFetchResponseTopics:
    """Part of OffsetFetchResponse."""

    name: str = ""  # v8-9
    topic_id: bytes = ZERO_UUID  # v10+
    partitions: list[OffsetFetchResponsePartitions] = field(default_factory=list)  # v8+


@dataclass(slots=True, kw_only=True)
class OffsetFetchResponseGroup:
    """Part of OffsetFetchResponse."""

    group_id: str = ""  # v8+
    topics: list[OffsetFetchResponseTopics] = field(default_factory=list)  # v8+
    error_code: int = 0  # v8+


@dataclass(slots=True, kw_only=True)
class OffsetFetchResponse:
    """Versions 1 to 10."""

    throttle_time_ms: int = 0  # v3+
    topics: list[OffsetFetchResponseTopic] = field(default_factory=list)  # v0-7
    error_code: int = 0  # v2-7
    groups: list[OffsetFetchResponseGroup] = field(default_factory=list)  # v8+


def _read_offset_fetch_response_partition_v1(r: Reader) -> OffsetFetchResponsePartition:
    partition_index, committed_offset = r.take(_iq, "OffsetFetchResponsePartition.partition_index,committed_offset")
    metadata = r.nullable_string("OffsetFetchResponsePartition.metadata")
    (error_code,) = r.take(_h, "OffsetFetchResponsePartition.error_code")
    return OffsetFetchResponsePartition(
        partition_index=partition_index, committed_offset=committed_offset, metadata=metadata, error_code=error_code
    )


def _read_offset_fetch_response_partition_v5(r: Reader) -> OffsetFetchResponsePartition:
    partition_index, committed_offset, committed_leader_epoch = r.take(
        _iqi, "OffsetFetchResponsePartition.partition_index,committed_offset,committed_leader_epoch"
    )
    metadata = r.nullable_string("OffsetFetchResponsePartition.metadata")
    (error_code,) = r.take(_h, "OffsetFetchResponsePartition.error_code")
    return OffsetFetchResponsePartition(
        partition_index=partition_index,
        committed_offset=committed_offset,
        committed_leader_epoch=committed_leader_epoch,
        metadata=metadata,
        error_code=error_code,
    )


def _read_offset_fetch_response_partition_v6(r: Reader) -> OffsetFetchResponsePartition:
    partition_index, committed_offset, committed_leader_epoch = r.take(
        _iqi, "OffsetFetchResponsePartition.partition_index,committed_offset,committed_leader_epoch"
    )
    metadata = r.compact_nullable_string("OffsetFetchResponsePartition.metadata")
    (error_code,) = r.take(_h, "OffsetFetchResponsePartition.error_code")
    r.skip_tags("OffsetFetchResponsePartition")
    return OffsetFetchResponsePartition(
        partition_index=partition_index,
        committed_offset=committed_offset,
        committed_leader_epoch=committed_leader_epoch,
        metadata=metadata,
        error_code=error_code,
    )


def _write_offset_fetch_response_partition_v1(w: Writer, o: OffsetFetchResponsePartition) -> None:
    w.add(_iq.pack(o.partition_index, o.committed_offset))
    w.nullable_string(o.metadata, "OffsetFetchResponsePartition.metadata")
    w.add(_h.pack(o.error_code))


def _write_offset_fetch_response_partition_v5(w: Writer, o: OffsetFetchResponsePartition) -> None:
    w.add(_iqi.pack(o.partition_index, o.committed_offset, o.committed_leader_epoch))
    w.nullable_string(o.metadata, "OffsetFetchResponsePartition.metadata")
    w.add(_h.pack(o.error_code))


def _write_offset_fetch_response_partition_v6(w: Writer, o: OffsetFetchResponsePartition) -> None:
    w.add(_iqi.pack(o.partition_index, o.committed_offset, o.committed_leader_epoch))
    w.compact_nullable_string(o.metadata, "OffsetFetchResponsePartition.metadata")
    w.add(_h.pack(o.error_code))
    w.add(NO_TAGS)


def _read_offset_fetch_response_topic_v1(r: Reader) -> OffsetFetchResponseTopic:
    name = r.string("OffsetFetchResponseTopic.name")
    partitions = [
        _read_offset_fetch_response_partition_v1(r) for _ in range(r.count(16, "OffsetFetchResponseTopic.partitions"))
    ]
    return OffsetFetchResponseTopic(name=name, partitions=partitions)


def _read_offset_fetch_response_topic_v5(r: Reader) -> OffsetFetchResponseTopic:
    name = r.string("OffsetFetchResponseTopic.name")
    partitions = [
        _read_offset_fetch_response_partition_v5(r) for _ in range(r.count(20, "OffsetFetchResponseTopic.partitions"))
    ]
    return OffsetFetchResponseTopic(name=name, partitions=partitions)


def _read_offset_fetch_response_topic_v6(r: Reader) -> OffsetFetchResponseTopic:
    name = r.compact_string("OffsetFetchResponseTopic.name")
    partitions = [
        _read_offset_fetch_response_partition_v6(r)
        for _ in range(r.compact_count(20, "OffsetFetchResponseTopic.partitions"))
    ]
    r.skip_tags("OffsetFetchResponseTopic")
    return OffsetFetchResponseTopic(name=name, partitions=partitions)


def _write_offset_fetch_response_topic_v1(w: Writer, o: OffsetFetchResponseTopic) -> None:
    w.string(o.name, "OffsetFetchResponseTopic.name")
    w.count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_offset_fetch_response_partition_v1(w, partitions_item)


def _write_offset_fetch_response_topic_v5(w: Writer, o: OffsetFetchResponseTopic) -> None:
    w.string(o.name, "OffsetFetchResponseTopic.name")
    w.count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_offset_fetch_response_partition_v5(w, partitions_item)


def _write_offset_fetch_response_topic_v6(w: Writer, o: OffsetFetchResponseTopic) -> None:
    w.compact_string(o.name, "OffsetFetchResponseTopic.name")
    w.compact_count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_offset_fetch_response_partition_v6(w, partitions_item)
    w.add(NO_TAGS)


def _read_offset_fetch_response_partitions_v8(r: Reader) -> OffsetFetchResponsePartitions:
    partition_index, committed_offset, committed_leader_epoch = r.take(
        _iqi, "OffsetFetchResponsePartitions.partition_index,committed_offset,committed_leader_epoch"
    )
    metadata = r.compact_nullable_string("OffsetFetchResponsePartitions.metadata")
    (error_code,) = r.take(_h, "OffsetFetchResponsePartitions.error_code")
    r.skip_tags("OffsetFetchResponsePartitions")
    return OffsetFetchResponsePartitions(
        partition_index=partition_index,
        committed_offset=committed_offset,
        committed_leader_epoch=committed_leader_epoch,
        metadata=metadata,
        error_code=error_code,
    )


def _write_offset_fetch_response_partitions_v8(w: Writer, o: OffsetFetchResponsePartitions) -> None:
    w.add(_iqi.pack(o.partition_index, o.committed_offset, o.committed_leader_epoch))
    w.compact_nullable_string(o.metadata, "OffsetFetchResponsePartitions.metadata")
    w.add(_h.pack(o.error_code))
    w.add(NO_TAGS)


def _read_offset_fetch_response_topics_v8(r: Reader) -> OffsetFetchResponseTopics:
    name = r.compact_string("OffsetFetchResponseTopics.name")
    partitions = [
        _read_offset_fetch_response_partitions_v8(r)
        for _ in range(r.compact_count(20, "OffsetFetchResponseTopics.partitions"))
    ]
    r.skip_tags("OffsetFetchResponseTopics")
    return OffsetFetchResponseTopics(name=name, partitions=partitions)


def _read_offset_fetch_response_topics_v10(r: Reader) -> OffsetFetchResponseTopics:
    (topic_id,) = r.take(_s, "OffsetFetchResponseTopics.topic_id")
    partitions = [
        _read_offset_fetch_response_partitions_v8(r)
        for _ in range(r.compact_count(20, "OffsetFetchResponseTopics.partitions"))
    ]
    r.skip_tags("OffsetFetchResponseTopics")
    return OffsetFetchResponseTopics(topic_id=topic_id, partitions=partitions)


def _write_offset_fetch_response_topics_v8(w: Writer, o: OffsetFetchResponseTopics) -> None:
    w.compact_string(o.name, "OffsetFetchResponseTopics.name")
    w.compact_count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_offset_fetch_response_partitions_v8(w, partitions_item)
    w.add(NO_TAGS)


def _write_offset_fetch_response_topics_v10(w: Writer, o: OffsetFetchResponseTopics) -> None:
    w.add(_s.pack(uuid(o.topic_id)))
    w.compact_count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_offset_fetch_response_partitions_v8(w, partitions_item)
    w.add(NO_TAGS)


def _read_offset_fetch_response_group_v8(r: Reader) -> OffsetFetchResponseGroup:
    group_id = r.compact_string("OffsetFetchResponseGroup.group_id")
    topics = [
        _read_offset_fetch_response_topics_v8(r) for _ in range(r.compact_count(3, "OffsetFetchResponseGroup.topics"))
    ]
    (error_code,) = r.take(_h, "OffsetFetchResponseGroup.error_code")
    r.skip_tags("OffsetFetchResponseGroup")
    return OffsetFetchResponseGroup(group_id=group_id, topics=topics, error_code=error_code)


def _read_offset_fetch_response_group_v10(r: Reader) -> OffsetFetchResponseGroup:
    group_id = r.compact_string("OffsetFetchResponseGroup.group_id")
    topics = [
        _read_offset_fetch_response_topics_v10(r) for _ in range(r.compact_count(18, "OffsetFetchResponseGroup.topics"))
    ]
    (error_code,) = r.take(_h, "OffsetFetchResponseGroup.error_code")
    r.skip_tags("OffsetFetchResponseGroup")
    return OffsetFetchResponseGroup(group_id=group_id, topics=topics, error_code=error_code)


def _write_offset_fetch_response_group_v8(w: Writer, o: OffsetFetchResponseGroup) -> None:
    w.compact_string(o.group_id, "OffsetFetchResponseGroup.group_id")
    w.compact_count(len(o.topics))
    for topics_item in o.topics:
        _write_offset_fetch_response_topics_v8(w, topics_item)
    w.add(_h.pack(o.error_code))
    w.add(NO_TAGS)


def _write_offset_fetch_response_group_v10(w: Writer, o: OffsetFetchResponseGroup) -> None:
    w.compact_string(o.group_id, "OffsetFetchResponseGroup.group_id")
    w.compact_count(len(o.topics))
    for topics_item in o.topics:
        _write_offset_fetch_response_topics_v10(w, topics_item)
    w.add(_h.pack(o.error_code))
    w.add(NO_TAGS)


def _read_offset_fetch_response_v1(r: Reader) -> OffsetFetchResponse:
    topics = [_read_offset_fetch_response_topic_v1(r) for _ in range(r.count(6, "OffsetFetchResponse.topics"))]
    return OffsetFetchResponse(topics=topics)


def _read_offset_fetch_response_v2(r: Reader) -> OffsetFetchResponse:
    topics = [_read_offset_fetch_response_topic_v1(r) for _ in range(r.count(6, "OffsetFetchResponse.topics"))]
    (error_code,) = r.take(_h, "OffsetFetchResponse.error_code")
    return OffsetFetchResponse(topics=topics, error_code=error_code)


def _read_offset_fetch_response_v3(r: Reader) -> OffsetFetchResponse:
    (throttle_time_ms,) = r.take(_i, "OffsetFetchResponse.throttle_time_ms")
    topics = [_read_offset_fetch_response_topic_v1(r) for _ in range(r.count(6, "OffsetFetchResponse.topics"))]
    (error_code,) = r.take(_h, "OffsetFetchResponse.error_code")
    return OffsetFetchResponse(throttle_time_ms=throttle_time_ms, topics=topics, error_code=error_code)


def _read_offset_fetch_response_v5(r: Reader) -> OffsetFetchResponse:
    (throttle_time_ms,) = r.take(_i, "OffsetFetchResponse.throttle_time_ms")
    topics = [_read_offset_fetch_response_topic_v5(r) for _ in range(r.count(6, "OffsetFetchResponse.topics"))]
    (error_code,) = r.take(_h, "OffsetFetchResponse.error_code")
    return OffsetFetchResponse(throttle_time_ms=throttle_time_ms, topics=topics, error_code=error_code)


def _read_offset_fetch_response_v6(r: Reader) -> OffsetFetchResponse:
    (throttle_time_ms,) = r.take(_i, "OffsetFetchResponse.throttle_time_ms")
    topics = [_read_offset_fetch_response_topic_v6(r) for _ in range(r.compact_count(3, "OffsetFetchResponse.topics"))]
    (error_code,) = r.take(_h, "OffsetFetchResponse.error_code")
    r.skip_tags("OffsetFetchResponse")
    return OffsetFetchResponse(throttle_time_ms=throttle_time_ms, topics=topics, error_code=error_code)


def _read_offset_fetch_response_v8(r: Reader) -> OffsetFetchResponse:
    (throttle_time_ms,) = r.take(_i, "OffsetFetchResponse.throttle_time_ms")
    groups = [_read_offset_fetch_response_group_v8(r) for _ in range(r.compact_count(5, "OffsetFetchResponse.groups"))]
    r.skip_tags("OffsetFetchResponse")
    return OffsetFetchResponse(throttle_time_ms=throttle_time_ms, groups=groups)


def _read_offset_fetch_response_v10(r: Reader) -> OffsetFetchResponse:
    (throttle_time_ms,) = r.take(_i, "OffsetFetchResponse.throttle_time_ms")
    groups = [_read_offset_fetch_response_group_v10(r) for _ in range(r.compact_count(5, "OffsetFetchResponse.groups"))]
    r.skip_tags("OffsetFetchResponse")
    return OffsetFetchResponse(throttle_time_ms=throttle_time_ms, groups=groups)


def _write_offset_fetch_response_v1(w: Writer, o: OffsetFetchResponse) -> None:
    if o.groups:
        raise w.unsupported("OffsetFetchResponse.groups")
    w.count(len(o.topics))
    for topics_item in o.topics:
        _write_offset_fetch_response_topic_v1(w, topics_item)


def _write_offset_fetch_response_v2(w: Writer, o: OffsetFetchResponse) -> None:
    if o.groups:
        raise w.unsupported("OffsetFetchResponse.groups")
    w.count(len(o.topics))
    for topics_item in o.topics:
        _write_offset_fetch_response_topic_v1(w, topics_item)
    w.add(_h.pack(o.error_code))


def _write_offset_fetch_response_v3(w: Writer, o: OffsetFetchResponse) -> None:
    if o.groups:
        raise w.unsupported("OffsetFetchResponse.groups")
    w.add(_i.pack(o.throttle_time_ms))
    w.count(len(o.topics))
    for topics_item in o.topics:
        _write_offset_fetch_response_topic_v1(w, topics_item)
    w.add(_h.pack(o.error_code))


def _write_offset_fetch_response_v5(w: Writer, o: OffsetFetchResponse) -> None:
    if o.groups:
        raise w.unsupported("OffsetFetchResponse.groups")
    w.add(_i.pack(o.throttle_time_ms))
    w.count(len(o.topics))
    for topics_item in o.topics:
        _write_offset_fetch_response_topic_v5(w, topics_item)
    w.add(_h.pack(o.error_code))


def _write_offset_fetch_response_v6(w: Writer, o: OffsetFetchResponse) -> None:
    if o.groups:
        raise w.unsupported("OffsetFetchResponse.groups")
    w.add(_i.pack(o.throttle_time_ms))
    w.compact_count(len(o.topics))
    for topics_item in o.topics:
        _write_offset_fetch_response_topic_v6(w, topics_item)
    w.add(_h.pack(o.error_code))
    w.add(NO_TAGS)


def _write_offset_fetch_response_v8(w: Writer, o: OffsetFetchResponse) -> None:
    if o.topics:
        raise w.unsupported("OffsetFetchResponse.topics")
    w.add(_i.pack(o.throttle_time_ms))
    w.compact_count(len(o.groups))
    for groups_item in o.groups:
        _write_offset_fetch_response_group_v8(w, groups_item)
    w.add(NO_TAGS)


def _write_offset_fetch_response_v10(w: Writer, o: OffsetFetchResponse) -> None:
    if o.topics:
        raise w.unsupported("OffsetFetchResponse.topics")
    w.add(_i.pack(o.throttle_time_ms))
    w.compact_count(len(o.groups))
    for groups_item in o.groups:
        _write_offset_fetch_response_group_v10(w, groups_item)
    w.add(NO_TAGS)


REQUEST: Final = Codec(
    "OffsetFetchRequest",
    1,
    (
        _read_offset_fetch_request_v1,
        _read_offset_fetch_request_v2,
        _read_offset_fetch_request_v2,
        _read_offset_fetch_request_v2,
        _read_offset_fetch_request_v2,
        _read_offset_fetch_request_v6,
        _read_offset_fetch_request_v7,
        _read_offset_fetch_request_v8,
        _read_offset_fetch_request_v9,
        _read_offset_fetch_request_v10,
    ),
    (
        _write_offset_fetch_request_v1,
        _write_offset_fetch_request_v2,
        _write_offset_fetch_request_v2,
        _write_offset_fetch_request_v2,
        _write_offset_fetch_request_v2,
        _write_offset_fetch_request_v6,
        _write_offset_fetch_request_v7,
        _write_offset_fetch_request_v8,
        _write_offset_fetch_request_v9,
        _write_offset_fetch_request_v10,
    ),
)

RESPONSE: Final = Codec(
    "OffsetFetchResponse",
    1,
    (
        _read_offset_fetch_response_v1,
        _read_offset_fetch_response_v2,
        _read_offset_fetch_response_v3,
        _read_offset_fetch_response_v3,
        _read_offset_fetch_response_v5,
        _read_offset_fetch_response_v6,
        _read_offset_fetch_response_v6,
        _read_offset_fetch_response_v8,
        _read_offset_fetch_response_v8,
        _read_offset_fetch_response_v10,
    ),
    (
        _write_offset_fetch_response_v1,
        _write_offset_fetch_response_v2,
        _write_offset_fetch_response_v3,
        _write_offset_fetch_response_v3,
        _write_offset_fetch_response_v5,
        _write_offset_fetch_response_v6,
        _write_offset_fetch_response_v6,
        _write_offset_fetch_response_v8,
        _write_offset_fetch_response_v8,
        _write_offset_fetch_response_v10,
    ),
)
