"""Fetch (API 1), versions 4 to 18. Made by scripts/generate_kafka_messages.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from raftlog.wire.kafka.codec import Codec
from raftlog.wire.kafka.reader import Reader
from raftlog.wire.kafka.writer import NO_TAGS, ONE_TAG, ZERO_UUID, Records, Writer, uuid, uvarint

_s = Struct(">16s")
_i = Struct(">i")
_ihi = Struct(">ihi")
_ihqq = Struct(">ihqq")
_ihqqq = Struct(">ihqqq")
_ii = Struct(">ii")
_iiibii = Struct(">iiibii")
_iiiib = Struct(">iiiib")
_iiiibii = Struct(">iiiibii")
_iiqiqi = Struct(">iiqiqi")
_iiqqi = Struct(">iiqqi")
_iq = Struct(">iq")
_iqi = Struct(">iqi")
_iqqi = Struct(">iqqi")
_q = Struct(">q")
_qi = Struct(">qi")
_qq = Struct(">qq")


@dataclass(slots=True, kw_only=True)
class ReplicaState:
    """Part of FetchRequest."""

    replica_id: int = -1  # v15+
    replica_epoch: int = -1  # v15+


@dataclass(slots=True, kw_only=True)
class FetchPartition:
    """Part of FetchRequest."""

    partition: int = 0
    current_leader_epoch: int = -1  # v9+
    fetch_offset: int = 0
    last_fetched_epoch: int = -1  # v12+
    log_start_offset: int = -1  # v5+
    partition_max_bytes: int = 0
    replica_directory_id: bytes = ZERO_UUID  # v17+, tag 0
    high_watermark: int = 9223372036854775807  # v18+, tag 1


@dataclass(slots=True, kw_only=True)
class FetchTopic:
    """Part of FetchRequest."""

    topic: str = ""  # v0-12
    topic_id: bytes = ZERO_UUID  # v13+
    partitions: list[FetchPartition] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class ForgottenTopic:
    """Part of FetchRequest."""

    topic: str = ""  # v7-12
    topic_id: bytes = ZERO_UUID  # v13+
    partitions: list[int] = field(default_factory=list)  # v7+


@dataclass(slots=True, kw_only=True)
class FetchRequest:
    """Versions 4 to 18."""

    cluster_id: str | None = None  # v12+, tag 0
    replica_id: int = -1  # v0-14
    replica_state: ReplicaState | None = None  # v15+, tag 1
    max_wait_ms: int = 0
    min_bytes: int = 0
    max_bytes: int = 2147483647
    isolation_level: int = 0
    session_id: int = 0  # v7+
    session_epoch: int = -1  # v7+
    topics: list[FetchTopic] = field(default_factory=list)
    forgotten_topics_data: list[ForgottenTopic] = field(default_factory=list)  # v7+
    rack_id: str = ""  # v11+


def _read_replica_state_v15(r: Reader) -> ReplicaState:
    replica_id, replica_epoch = r.take(_iq, "ReplicaState.replica_id,replica_epoch")
    r.skip_tags("ReplicaState")
    return ReplicaState(replica_id=replica_id, replica_epoch=replica_epoch)


def _write_replica_state_v15(w: Writer, o: ReplicaState) -> None:
    w.add(_iq.pack(o.replica_id, o.replica_epoch))
    w.add(NO_TAGS)


def _read_fetch_partition_v4(r: Reader) -> FetchPartition:
    partition, fetch_offset, partition_max_bytes = r.take(
        _iqi, "FetchPartition.partition,fetch_offset,partition_max_bytes"
    )
    return FetchPartition(partition=partition, fetch_offset=fetch_offset, partition_max_bytes=partition_max_bytes)


def _read_fetch_partition_v5(r: Reader) -> FetchPartition:
    partition, fetch_offset, log_start_offset, partition_max_bytes = r.take(
        _iqqi, "FetchPartition.partition,fetch_offset,log_start_offset,partition_max_bytes"
    )
    return FetchPartition(
        partition=partition,
        fetch_offset=fetch_offset,
        log_start_offset=log_start_offset,
        partition_max_bytes=partition_max_bytes,
    )


def _read_fetch_partition_v9(r: Reader) -> FetchPartition:
    partition, current_leader_epoch, fetch_offset, log_start_offset, partition_max_bytes = r.take(
        _iiqqi, "FetchPartition.partition,current_leader_epoch,fetch_offset,log_start_offset,partition_max_bytes"
    )
    return FetchPartition(
        partition=partition,
        current_leader_epoch=current_leader_epoch,
        fetch_offset=fetch_offset,
        log_start_offset=log_start_offset,
        partition_max_bytes=partition_max_bytes,
    )


def _read_fetch_partition_v12(r: Reader) -> FetchPartition:
    partition, current_leader_epoch, fetch_offset, last_fetched_epoch, log_start_offset, partition_max_bytes = r.take(
        _iiqiqi,
        "FetchPartition.partition,current_leader_epoch,fetch_offset,last_fetched_epoch,log_start_offset,partition_max_bytes",
    )
    r.skip_tags("FetchPartition")
    return FetchPartition(
        partition=partition,
        current_leader_epoch=current_leader_epoch,
        fetch_offset=fetch_offset,
        last_fetched_epoch=last_fetched_epoch,
        log_start_offset=log_start_offset,
        partition_max_bytes=partition_max_bytes,
    )


def _read_fetch_partition_v17(r: Reader) -> FetchPartition:
    partition, current_leader_epoch, fetch_offset, last_fetched_epoch, log_start_offset, partition_max_bytes = r.take(
        _iiqiqi,
        "FetchPartition.partition,current_leader_epoch,fetch_offset,last_fetched_epoch,log_start_offset,partition_max_bytes",
    )
    o = FetchPartition(
        partition=partition,
        current_leader_epoch=current_leader_epoch,
        fetch_offset=fetch_offset,
        last_fetched_epoch=last_fetched_epoch,
        log_start_offset=log_start_offset,
        partition_max_bytes=partition_max_bytes,
    )
    for _ in range(r.tag_count("FetchPartition")):
        tag, end = r.tag("FetchPartition")
        if tag == 0:
            (o.replica_directory_id,) = r.take(_s, "FetchPartition.replica_directory_id")
            r.end_tag(end, "FetchPartition.replica_directory_id")
        else:
            r.at = end
    return o


def _read_fetch_partition_v18(r: Reader) -> FetchPartition:
    partition, current_leader_epoch, fetch_offset, last_fetched_epoch, log_start_offset, partition_max_bytes = r.take(
        _iiqiqi,
        "FetchPartition.partition,current_leader_epoch,fetch_offset,last_fetched_epoch,log_start_offset,partition_max_bytes",
    )
    o = FetchPartition(
        partition=partition,
        current_leader_epoch=current_leader_epoch,
        fetch_offset=fetch_offset,
        last_fetched_epoch=last_fetched_epoch,
        log_start_offset=log_start_offset,
        partition_max_bytes=partition_max_bytes,
    )
    for _ in range(r.tag_count("FetchPartition")):
        tag, end = r.tag("FetchPartition")
        if tag == 0:
            (o.replica_directory_id,) = r.take(_s, "FetchPartition.replica_directory_id")
            r.end_tag(end, "FetchPartition.replica_directory_id")
        elif tag == 1:
            (o.high_watermark,) = r.take(_q, "FetchPartition.high_watermark")
            r.end_tag(end, "FetchPartition.high_watermark")
        else:
            r.at = end
    return o


def _write_fetch_partition_v4(w: Writer, o: FetchPartition) -> None:
    if o.last_fetched_epoch != -1:
        raise w.unsupported("FetchPartition.last_fetched_epoch")
    w.add(_iqi.pack(o.partition, o.fetch_offset, o.partition_max_bytes))


def _write_fetch_partition_v5(w: Writer, o: FetchPartition) -> None:
    if o.last_fetched_epoch != -1:
        raise w.unsupported("FetchPartition.last_fetched_epoch")
    w.add(_iqqi.pack(o.partition, o.fetch_offset, o.log_start_offset, o.partition_max_bytes))


def _write_fetch_partition_v9(w: Writer, o: FetchPartition) -> None:
    if o.last_fetched_epoch != -1:
        raise w.unsupported("FetchPartition.last_fetched_epoch")
    w.add(_iiqqi.pack(o.partition, o.current_leader_epoch, o.fetch_offset, o.log_start_offset, o.partition_max_bytes))


def _write_fetch_partition_v12(w: Writer, o: FetchPartition) -> None:
    w.add(
        _iiqiqi.pack(
            o.partition,
            o.current_leader_epoch,
            o.fetch_offset,
            o.last_fetched_epoch,
            o.log_start_offset,
            o.partition_max_bytes,
        )
    )
    w.add(NO_TAGS)


def _write_fetch_partition_v17(w: Writer, o: FetchPartition) -> None:
    w.add(
        _iiqiqi.pack(
            o.partition,
            o.current_leader_epoch,
            o.fetch_offset,
            o.last_fetched_epoch,
            o.log_start_offset,
            o.partition_max_bytes,
        )
    )
    if o.replica_directory_id != ZERO_UUID:
        w.add(ONE_TAG)
        mark = w.begin_tag(0)
        w.add(_s.pack(uuid(o.replica_directory_id)))
        w.end_tag(mark)
    else:
        w.add(NO_TAGS)


def _write_fetch_partition_v18(w: Writer, o: FetchPartition) -> None:
    w.add(
        _iiqiqi.pack(
            o.partition,
            o.current_leader_epoch,
            o.fetch_offset,
            o.last_fetched_epoch,
            o.log_start_offset,
            o.partition_max_bytes,
        )
    )
    w.add(uvarint((o.replica_directory_id != ZERO_UUID) + (o.high_watermark != 9223372036854775807)))
    if o.replica_directory_id != ZERO_UUID:
        mark = w.begin_tag(0)
        w.add(_s.pack(uuid(o.replica_directory_id)))
        w.end_tag(mark)
    if o.high_watermark != 9223372036854775807:
        mark = w.begin_tag(1)
        w.add(_q.pack(o.high_watermark))
        w.end_tag(mark)


def _read_fetch_topic_v4(r: Reader) -> FetchTopic:
    topic = r.string("FetchTopic.topic")
    partitions = [_read_fetch_partition_v4(r) for _ in range(r.count(16, "FetchTopic.partitions"))]
    return FetchTopic(topic=topic, partitions=partitions)


def _read_fetch_topic_v5(r: Reader) -> FetchTopic:
    topic = r.string("FetchTopic.topic")
    partitions = [_read_fetch_partition_v5(r) for _ in range(r.count(24, "FetchTopic.partitions"))]
    return FetchTopic(topic=topic, partitions=partitions)


def _read_fetch_topic_v9(r: Reader) -> FetchTopic:
    topic = r.string("FetchTopic.topic")
    partitions = [_read_fetch_partition_v9(r) for _ in range(r.count(28, "FetchTopic.partitions"))]
    return FetchTopic(topic=topic, partitions=partitions)


def _read_fetch_topic_v12(r: Reader) -> FetchTopic:
    topic = r.compact_string("FetchTopic.topic")
    partitions = [_read_fetch_partition_v12(r) for _ in range(r.compact_count(33, "FetchTopic.partitions"))]
    r.skip_tags("FetchTopic")
    return FetchTopic(topic=topic, partitions=partitions)


def _read_fetch_topic_v13(r: Reader) -> FetchTopic:
    (topic_id,) = r.take(_s, "FetchTopic.topic_id")
    partitions = [_read_fetch_partition_v12(r) for _ in range(r.compact_count(33, "FetchTopic.partitions"))]
    r.skip_tags("FetchTopic")
    return FetchTopic(topic_id=topic_id, partitions=partitions)


def _read_fetch_topic_v17(r: Reader) -> FetchTopic:
    (topic_id,) = r.take(_s, "FetchTopic.topic_id")
    partitions = [_read_fetch_partition_v17(r) for _ in range(r.compact_count(33, "FetchTopic.partitions"))]
    r.skip_tags("FetchTopic")
    return FetchTopic(topic_id=topic_id, partitions=partitions)


def _read_fetch_topic_v18(r: Reader) -> FetchTopic:
    (topic_id,) = r.take(_s, "FetchTopic.topic_id")
    partitions = [_read_fetch_partition_v18(r) for _ in range(r.compact_count(33, "FetchTopic.partitions"))]
    r.skip_tags("FetchTopic")
    return FetchTopic(topic_id=topic_id, partitions=partitions)


def _write_fetch_topic_v4(w: Writer, o: FetchTopic) -> None:
    w.string(o.topic, "FetchTopic.topic")
    w.count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_fetch_partition_v4(w, partitions_item)


def _write_fetch_topic_v5(w: Writer, o: FetchTopic) -> None:
    w.string(o.topic, "FetchTopic.topic")
    w.count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_fetch_partition_v5(w, partitions_item)


def _write_fetch_topic_v9(w: Writer, o: FetchTopic) -> None:
    w.string(o.topic, "FetchTopic.topic")
    w.count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_fetch_partition_v9(w, partitions_item)


def _write_fetch_topic_v12(w: Writer, o: FetchTopic) -> None:
    w.compact_string(o.topic, "FetchTopic.topic")
    w.compact_count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_fetch_partition_v12(w, partitions_item)
    w.add(NO_TAGS)


def _write_fetch_topic_v13(w: Writer, o: FetchTopic) -> None:
    w.add(_s.pack(uuid(o.topic_id)))
    w.compact_count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_fetch_partition_v12(w, partitions_item)
    w.add(NO_TAGS)


def _write_fetch_topic_v17(w: Writer, o: FetchTopic) -> None:
    w.add(_s.pack(uuid(o.topic_id)))
    w.compact_count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_fetch_partition_v17(w, partitions_item)
    w.add(NO_TAGS)


def _write_fetch_topic_v18(w: Writer, o: FetchTopic) -> None:
    w.add(_s.pack(uuid(o.topic_id)))
    w.compact_count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_fetch_partition_v18(w, partitions_item)
    w.add(NO_TAGS)


def _read_forgotten_topic_v7(r: Reader) -> ForgottenTopic:
    topic = r.string("ForgottenTopic.topic")
    partitions = r.numbers("i", r.count(4, "ForgottenTopic.partitions"))
    return ForgottenTopic(topic=topic, partitions=partitions)


def _read_forgotten_topic_v12(r: Reader) -> ForgottenTopic:
    topic = r.compact_string("ForgottenTopic.topic")
    partitions = r.numbers("i", r.compact_count(4, "ForgottenTopic.partitions"))
    r.skip_tags("ForgottenTopic")
    return ForgottenTopic(topic=topic, partitions=partitions)


def _read_forgotten_topic_v13(r: Reader) -> ForgottenTopic:
    (topic_id,) = r.take(_s, "ForgottenTopic.topic_id")
    partitions = r.numbers("i", r.compact_count(4, "ForgottenTopic.partitions"))
    r.skip_tags("ForgottenTopic")
    return ForgottenTopic(topic_id=topic_id, partitions=partitions)


def _write_forgotten_topic_v7(w: Writer, o: ForgottenTopic) -> None:
    w.string(o.topic, "ForgottenTopic.topic")
    w.count(len(o.partitions))
    w.numbers("i", o.partitions)


def _write_forgotten_topic_v12(w: Writer, o: ForgottenTopic) -> None:
    w.compact_string(o.topic, "ForgottenTopic.topic")
    w.compact_count(len(o.partitions))
    w.numbers("i", o.partitions)
    w.add(NO_TAGS)


def _write_forgotten_topic_v13(w: Writer, o: ForgottenTopic) -> None:
    w.add(_s.pack(uuid(o.topic_id)))
    w.compact_count(len(o.partitions))
    w.numbers("i", o.partitions)
    w.add(NO_TAGS)


def _read_fetch_request_v4(r: Reader) -> FetchRequest:
    replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level = r.take(
        _iiiib, "FetchRequest.replica_id,max_wait_ms,min_bytes,max_bytes,isolation_level"
    )
    topics = [_read_fetch_topic_v4(r) for _ in range(r.count(6, "FetchRequest.topics"))]
    return FetchRequest(
        replica_id=replica_id,
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        topics=topics,
    )


def _read_fetch_request_v5(r: Reader) -> FetchRequest:
    replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level = r.take(
        _iiiib, "FetchRequest.replica_id,max_wait_ms,min_bytes,max_bytes,isolation_level"
    )
    topics = [_read_fetch_topic_v5(r) for _ in range(r.count(6, "FetchRequest.topics"))]
    return FetchRequest(
        replica_id=replica_id,
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        topics=topics,
    )


def _read_fetch_request_v7(r: Reader) -> FetchRequest:
    replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch = r.take(
        _iiiibii, "FetchRequest.replica_id,max_wait_ms,min_bytes,max_bytes,isolation_level,session_id,session_epoch"
    )
    topics = [_read_fetch_topic_v5(r) for _ in range(r.count(6, "FetchRequest.topics"))]
    forgotten_topics_data = [
        _read_forgotten_topic_v7(r) for _ in range(r.count(6, "FetchRequest.forgotten_topics_data"))
    ]
    return FetchRequest(
        replica_id=replica_id,
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=topics,
        forgotten_topics_data=forgotten_topics_data,
    )


def _read_fetch_request_v9(r: Reader) -> FetchRequest:
    replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch = r.take(
        _iiiibii, "FetchRequest.replica_id,max_wait_ms,min_bytes,max_bytes,isolation_level,session_id,session_epoch"
    )
    topics = [_read_fetch_topic_v9(r) for _ in range(r.count(6, "FetchRequest.topics"))]
    forgotten_topics_data = [
        _read_forgotten_topic_v7(r) for _ in range(r.count(6, "FetchRequest.forgotten_topics_data"))
    ]
    return FetchRequest(
        replica_id=replica_id,
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=topics,
        forgotten_topics_data=forgotten_topics_data,
    )


def _read_fetch_request_v11(r: Reader) -> FetchRequest:
    replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch = r.take(
        _iiiibii, "FetchRequest.replica_id,max_wait_ms,min_bytes,max_bytes,isolation_level,session_id,session_epoch"
    )
    topics = [_read_fetch_topic_v9(r) for _ in range(r.count(6, "FetchRequest.topics"))]
    forgotten_topics_data = [
        _read_forgotten_topic_v7(r) for _ in range(r.count(6, "FetchRequest.forgotten_topics_data"))
    ]
    rack_id = r.string("FetchRequest.rack_id")
    return FetchRequest(
        replica_id=replica_id,
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=topics,
        forgotten_topics_data=forgotten_topics_data,
        rack_id=rack_id,
    )


def _read_fetch_request_v12(r: Reader) -> FetchRequest:
    replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch = r.take(
        _iiiibii, "FetchRequest.replica_id,max_wait_ms,min_bytes,max_bytes,isolation_level,session_id,session_epoch"
    )
    topics = [_read_fetch_topic_v12(r) for _ in range(r.compact_count(3, "FetchRequest.topics"))]
    forgotten_topics_data = [
        _read_forgotten_topic_v12(r) for _ in range(r.compact_count(3, "FetchRequest.forgotten_topics_data"))
    ]
    rack_id = r.compact_string("FetchRequest.rack_id")
    o = FetchRequest(
        replica_id=replica_id,
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=topics,
        forgotten_topics_data=forgotten_topics_data,
        rack_id=rack_id,
    )
    for _ in range(r.tag_count("FetchRequest")):
        tag, end = r.tag("FetchRequest")
        if tag == 0:
            o.cluster_id = r.compact_nullable_string("FetchRequest.cluster_id")
            r.end_tag(end, "FetchRequest.cluster_id")
        else:
            r.at = end
    return o


def _read_fetch_request_v13(r: Reader) -> FetchRequest:
    replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch = r.take(
        _iiiibii, "FetchRequest.replica_id,max_wait_ms,min_bytes,max_bytes,isolation_level,session_id,session_epoch"
    )
    topics = [_read_fetch_topic_v13(r) for _ in range(r.compact_count(18, "FetchRequest.topics"))]
    forgotten_topics_data = [
        _read_forgotten_topic_v13(r) for _ in range(r.compact_count(18, "FetchRequest.forgotten_topics_data"))
    ]
    rack_id = r.compact_string("FetchRequest.rack_id")
    o = FetchRequest(
        replica_id=replica_id,
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=topics,
        forgotten_topics_data=forgotten_topics_data,
        rack_id=rack_id,
    )
    for _ in range(r.tag_count("FetchRequest")):
        tag, end = r.tag("FetchRequest")
        if tag == 0:
            o.cluster_id = r.compact_nullable_string("FetchRequest.cluster_id")
            r.end_tag(end, "FetchRequest.cluster_id")
        else:
            r.at = end
    return o


def _read_fetch_request_v15(r: Reader) -> FetchRequest:
    max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch = r.take(
        _iiibii, "FetchRequest.max_wait_ms,min_bytes,max_bytes,isolation_level,session_id,session_epoch"
    )
    topics = [_read_fetch_topic_v13(r) for _ in range(r.compact_count(18, "FetchRequest.topics"))]
    forgotten_topics_data = [
        _read_forgotten_topic_v13(r) for _ in range(r.compact_count(18, "FetchRequest.forgotten_topics_data"))
    ]
    rack_id = r.compact_string("FetchRequest.rack_id")
    o = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=topics,
        forgotten_topics_data=forgotten_topics_data,
        rack_id=rack_id,
    )
    for _ in range(r.tag_count("FetchRequest")):
        tag, end = r.tag("FetchRequest")
        if tag == 0:
            o.cluster_id = r.compact_nullable_string("FetchRequest.cluster_id")
            r.end_tag(end, "FetchRequest.cluster_id")
        elif tag == 1:
            o.replica_state = _read_replica_state_v15(r)
            r.end_tag(end, "FetchRequest.replica_state")
        else:
            r.at = end
    return o


def _read_fetch_request_v17(r: Reader) -> FetchRequest:
    max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch = r.take(
        _iiibii, "FetchRequest.max_wait_ms,min_bytes,max_bytes,isolation_level,session_id,session_epoch"
    )
    topics = [_read_fetch_topic_v17(r) for _ in range(r.compact_count(18, "FetchRequest.topics"))]
    forgotten_topics_data = [
        _read_forgotten_topic_v13(r) for _ in range(r.compact_count(18, "FetchRequest.forgotten_topics_data"))
    ]
    rack_id = r.compact_string("FetchRequest.rack_id")
    o = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=topics,
        forgotten_topics_data=forgotten_topics_data,
        rack_id=rack_id,
    )
    for _ in range(r.tag_count("FetchRequest")):
        tag, end = r.tag("FetchRequest")
        if tag == 0:
            o.cluster_id = r.compact_nullable_string("FetchRequest.cluster_id")
            r.end_tag(end, "FetchRequest.cluster_id")
        elif tag == 1:
            o.replica_state = _read_replica_state_v15(r)
            r.end_tag(end, "FetchRequest.replica_state")
        else:
            r.at = end
    return o


def _read_fetch_request_v18(r: Reader) -> FetchRequest:
    max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch = r.take(
        _iiibii, "FetchRequest.max_wait_ms,min_bytes,max_bytes,isolation_level,session_id,session_epoch"
    )
    topics = [_read_fetch_topic_v18(r) for _ in range(r.compact_count(18, "FetchRequest.topics"))]
    forgotten_topics_data = [
        _read_forgotten_topic_v13(r) for _ in range(r.compact_count(18, "FetchRequest.forgotten_topics_data"))
    ]
    rack_id = r.compact_string("FetchRequest.rack_id")
    o = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=topics,
        forgotten_topics_data=forgotten_topics_data,
        rack_id=rack_id,
    )
    for _ in range(r.tag_count("FetchRequest")):
        tag, end = r.tag("FetchRequest")
        if tag == 0:
            o.cluster_id = r.compact_nullable_string("FetchRequest.cluster_id")
            r.end_tag(end, "FetchRequest.cluster_id")
        elif tag == 1:
            o.replica_state = _read_replica_state_v15(r)
            r.end_tag(end, "FetchRequest.replica_state")
        else:
            r.at = end
    return o


def _write_fetch_request_v4(w: Writer, o: FetchRequest) -> None:
    if o.replica_state is not None:
        raise w.unsupported("FetchRequest.replica_state")
    if o.forgotten_topics_data:
        raise w.unsupported("FetchRequest.forgotten_topics_data")
    w.add(_iiiib.pack(o.replica_id, o.max_wait_ms, o.min_bytes, o.max_bytes, o.isolation_level))
    w.count(len(o.topics))
    for topics_item in o.topics:
        _write_fetch_topic_v4(w, topics_item)


def _write_fetch_request_v5(w: Writer, o: FetchRequest) -> None:
    if o.replica_state is not None:
        raise w.unsupported("FetchRequest.replica_state")
    if o.forgotten_topics_data:
        raise w.unsupported("FetchRequest.forgotten_topics_data")
    w.add(_iiiib.pack(o.replica_id, o.max_wait_ms, o.min_bytes, o.max_bytes, o.isolation_level))
    w.count(len(o.topics))
    for topics_item in o.topics:
        _write_fetch_topic_v5(w, topics_item)


def _write_fetch_request_v7(w: Writer, o: FetchRequest) -> None:
    if o.replica_state is not None:
        raise w.unsupported("FetchRequest.replica_state")
    w.add(
        _iiiibii.pack(
            o.replica_id, o.max_wait_ms, o.min_bytes, o.max_bytes, o.isolation_level, o.session_id, o.session_epoch
        )
    )
    w.count(len(o.topics))
    for topics_item in o.topics:
        _write_fetch_topic_v5(w, topics_item)
    w.count(len(o.forgotten_topics_data))
    for forgotten_topics_data_item in o.forgotten_topics_data:
        _write_forgotten_topic_v7(w, forgotten_topics_data_item)


def _write_fetch_request_v9(w: Writer, o: FetchRequest) -> None:
    if o.replica_state is not None:
        raise w.unsupported("FetchRequest.replica_state")
    w.add(
        _iiiibii.pack(
            o.replica_id, o.max_wait_ms, o.min_bytes, o.max_bytes, o.isolation_level, o.session_id, o.session_epoch
        )
    )
    w.count(len(o.topics))
    for topics_item in o.topics:
        _write_fetch_topic_v9(w, topics_item)
    w.count(len(o.forgotten_topics_data))
    for forgotten_topics_data_item in o.forgotten_topics_data:
        _write_forgotten_topic_v7(w, forgotten_topics_data_item)


def _write_fetch_request_v11(w: Writer, o: FetchRequest) -> None:
    if o.replica_state is not None:
        raise w.unsupported("FetchRequest.replica_state")
    w.add(
        _iiiibii.pack(
            o.replica_id, o.max_wait_ms, o.min_bytes, o.max_bytes, o.isolation_level, o.session_id, o.session_epoch
        )
    )
    w.count(len(o.topics))
    for topics_item in o.topics:
        _write_fetch_topic_v9(w, topics_item)
    w.count(len(o.forgotten_topics_data))
    for forgotten_topics_data_item in o.forgotten_topics_data:
        _write_forgotten_topic_v7(w, forgotten_topics_data_item)
    w.string(o.rack_id, "FetchRequest.rack_id")


def _write_fetch_request_v12(w: Writer, o: FetchRequest) -> None:
    if o.replica_state is not None:
        raise w.unsupported("FetchRequest.replica_state")
    w.add(
        _iiiibii.pack(
            o.replica_id, o.max_wait_ms, o.min_bytes, o.max_bytes, o.isolation_level, o.session_id, o.session_epoch
        )
    )
    w.compact_count(len(o.topics))
    for topics_item in o.topics:
        _write_fetch_topic_v12(w, topics_item)
    w.compact_count(len(o.forgotten_topics_data))
    for forgotten_topics_data_item in o.forgotten_topics_data:
        _write_forgotten_topic_v12(w, forgotten_topics_data_item)
    w.compact_string(o.rack_id, "FetchRequest.rack_id")
    if o.cluster_id is not None:
        w.add(ONE_TAG)
        mark = w.begin_tag(0)
        w.compact_nullable_string(o.cluster_id, "FetchRequest.cluster_id")
        w.end_tag(mark)
    else:
        w.add(NO_TAGS)


def _write_fetch_request_v13(w: Writer, o: FetchRequest) -> None:
    if o.replica_state is not None:
        raise w.unsupported("FetchRequest.replica_state")
    w.add(
        _iiiibii.pack(
            o.replica_id, o.max_wait_ms, o.min_bytes, o.max_bytes, o.isolation_level, o.session_id, o.session_epoch
        )
    )
    w.compact_count(len(o.topics))
    for topics_item in o.topics:
        _write_fetch_topic_v13(w, topics_item)
    w.compact_count(len(o.forgotten_topics_data))
    for forgotten_topics_data_item in o.forgotten_topics_data:
        _write_forgotten_topic_v13(w, forgotten_topics_data_item)
    w.compact_string(o.rack_id, "FetchRequest.rack_id")
    if o.cluster_id is not None:
        w.add(ONE_TAG)
        mark = w.begin_tag(0)
        w.compact_nullable_string(o.cluster_id, "FetchRequest.cluster_id")
        w.end_tag(mark)
    else:
        w.add(NO_TAGS)


def _write_fetch_request_v15(w: Writer, o: FetchRequest) -> None:
    if o.replica_id != -1:
        raise w.unsupported("FetchRequest.replica_id")
    w.add(_iiibii.pack(o.max_wait_ms, o.min_bytes, o.max_bytes, o.isolation_level, o.session_id, o.session_epoch))
    w.compact_count(len(o.topics))
    for topics_item in o.topics:
        _write_fetch_topic_v13(w, topics_item)
    w.compact_count(len(o.forgotten_topics_data))
    for forgotten_topics_data_item in o.forgotten_topics_data:
        _write_forgotten_topic_v13(w, forgotten_topics_data_item)
    w.compact_string(o.rack_id, "FetchRequest.rack_id")
    w.add(uvarint((o.cluster_id is not None) + (o.replica_state is not None)))
    if o.cluster_id is not None:
        mark = w.begin_tag(0)
        w.compact_nullable_string(o.cluster_id, "FetchRequest.cluster_id")
        w.end_tag(mark)
    if o.replica_state is not None:
        mark = w.begin_tag(1)
        _write_replica_state_v15(w, o.replica_state)
        w.end_tag(mark)


def _write_fetch_request_v17(w: Writer, o: FetchRequest) -> None:
    if o.replica_id != -1:
        raise w.unsupported("FetchRequest.replica_id")
    w.add(_iiibii.pack(o.max_wait_ms, o.min_bytes, o.max_bytes, o.isolation_level, o.session_id, o.session_epoch))
    w.compact_count(len(o.topics))
    for topics_item in o.topics:
        _write_fetch_topic_v17(w, topics_item)
    w.compact_count(len(o.forgotten_topics_data))
    for forgotten_topics_data_item in o.forgotten_topics_data:
        _write_forgotten_topic_v13(w, forgotten_topics_data_item)
    w.compact_string(o.rack_id, "FetchRequest.rack_id")
    w.add(uvarint((o.cluster_id is not None) + (o.replica_state is not None)))
    if o.cluster_id is not None:
        mark = w.begin_tag(0)
        w.compact_nullable_string(o.cluster_id, "FetchRequest.cluster_id")
        w.end_tag(mark)
    if o.replica_state is not None:
        mark = w.begin_tag(1)
        _write_replica_state_v15(w, o.replica_state)
        w.end_tag(mark)


def _write_fetch_request_v18(w: Writer, o: FetchRequest) -> None:
    if o.replica_id != -1:
        raise w.unsupported("FetchRequest.replica_id")
    w.add(_iiibii.pack(o.max_wait_ms, o.min_bytes, o.max_bytes, o.isolation_level, o.session_id, o.session_epoch))
    w.compact_count(len(o.topics))
    for topics_item in o.topics:
        _write_fetch_topic_v18(w, topics_item)
    w.compact_count(len(o.forgotten_topics_data))
    for forgotten_topics_data_item in o.forgotten_topics_data:
        _write_forgotten_topic_v13(w, forgotten_topics_data_item)
    w.compact_string(o.rack_id, "FetchRequest.rack_id")
    w.add(uvarint((o.cluster_id is not None) + (o.replica_state is not None)))
    if o.cluster_id is not None:
        mark = w.begin_tag(0)
        w.compact_nullable_string(o.cluster_id, "FetchRequest.cluster_id")
        w.end_tag(mark)
    if o.replica_state is not None:
        mark = w.begin_tag(1)
        _write_replica_state_v15(w, o.replica_state)
        w.end_tag(mark)


@dataclass(slots=True, kw_only=True)
class EpochEndOffset:
    """Part of FetchResponse."""

    epoch: int = -1  # v12+
    end_offset: int = -1  # v12+


@dataclass(slots=True, kw_only=True)
class LeaderIdAndEpoch:
    """Part of FetchResponse."""

    leader_id: int = -1  # v12+
    leader_epoch: int = -1  # v12+


@dataclass(slots=True, kw_only=True)
class SnapshotId:
    """Part of FetchResponse."""

    end_offset: int = -1
    epoch: int = -1


@dataclass(slots=True, kw_only=True)
class AbortedTransaction:
    """Part of FetchResponse."""

    producer_id: int = 0
    first_offset: int = 0


@dataclass(slots=True, kw_only=True)
class PartitionData:
    """Part of FetchResponse."""

    partition_index: int = 0
    error_code: int = 0
    high_watermark: int = 0
    last_stable_offset: int = -1
    log_start_offset: int = -1  # v5+
    diverging_epoch: EpochEndOffset | None = None  # v12+, tag 0
    current_leader: LeaderIdAndEpoch | None = None  # v12+, tag 1
    snapshot_id: SnapshotId | None = None  # v12+, tag 2
    aborted_transactions: list[AbortedTransaction] | None = field(default_factory=list)
    preferred_read_replica: int = -1  # v11+
    records: Records = None


@dataclass(slots=True, kw_only=True)
class FetchableTopicResponse:
    """Part of FetchResponse."""

    topic: str = ""  # v0-12
    topic_id: bytes = ZERO_UUID  # v13+
    partitions: list[PartitionData] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class NodeEndpoint:
    """Part of FetchResponse."""

    node_id: int = 0  # v16+
    host: str = ""  # v16+
    port: int = 0  # v16+
    rack: str | None = None  # v16+


@dataclass(slots=True, kw_only=True)
class FetchResponse:
    """Versions 4 to 18."""

    throttle_time_ms: int = 0
    error_code: int = 0  # v7+
    session_id: int = 0  # v7+
    responses: list[FetchableTopicResponse] = field(default_factory=list)
    node_endpoints: list[NodeEndpoint] = field(default_factory=list)  # v16+, tag 0


def _read_epoch_end_offset_v12(r: Reader) -> EpochEndOffset:
    epoch, end_offset = r.take(_iq, "EpochEndOffset.epoch,end_offset")
    r.skip_tags("EpochEndOffset")
    return EpochEndOffset(epoch=epoch, end_offset=end_offset)


def _write_epoch_end_offset_v12(w: Writer, o: EpochEndOffset) -> None:
    w.add(_iq.pack(o.epoch, o.end_offset))
    w.add(NO_TAGS)


def _read_leader_id_and_epoch_v12(r: Reader) -> LeaderIdAndEpoch:
    leader_id, leader_epoch = r.take(_ii, "LeaderIdAndEpoch.leader_id,leader_epoch")
    r.skip_tags("LeaderIdAndEpoch")
    return LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)


def _write_leader_id_and_epoch_v12(w: Writer, o: LeaderIdAndEpoch) -> None:
    w.add(_ii.pack(o.leader_id, o.leader_epoch))
    w.add(NO_TAGS)


def _read_snapshot_id_v12(r: Reader) -> SnapshotId:
    end_offset, epoch = r.take(_qi, "SnapshotId.end_offset,epoch")
    r.skip_tags("SnapshotId")
    return SnapshotId(end_offset=end_offset, epoch=epoch)


def _write_snapshot_id_v12(w: Writer, o: SnapshotId) -> None:
    w.add(_qi.pack(o.end_offset, o.epoch))
    w.add(NO_TAGS)


def _read_aborted_transaction_v4(r: Reader) -> AbortedTransaction:
    producer_id, first_offset = r.take(_qq, "AbortedTransaction.producer_id,first_offset")
    return AbortedTransaction(producer_id=producer_id, first_offset=first_offset)


def _read_aborted_transaction_v12(r: Reader) -> AbortedTransaction:
    producer_id, first_offset = r.take(_qq, "AbortedTransaction.producer_id,first_offset")
    r.skip_tags("AbortedTransaction")
    return AbortedTransaction(producer_id=producer_id, first_offset=first_offset)


def _write_aborted_transaction_v4(w: Writer, o: AbortedTransaction) -> None:
    w.add(_qq.pack(o.producer_id, o.first_offset))


def _write_aborted_transaction_v12(w: Writer, o: AbortedTransaction) -> None:
    w.add(_qq.pack(o.producer_id, o.first_offset))
    w.add(NO_TAGS)


def _read_partition_data_v4(r: Reader) -> PartitionData:
    partition_index, error_code, high_watermark, last_stable_offset = r.take(
        _ihqq, "PartitionData.partition_index,error_code,high_watermark,last_stable_offset"
    )
    n = r.nullable_count(16, "PartitionData.aborted_transactions")
    aborted_transactions = None if n < 0 else [_read_aborted_transaction_v4(r) for _ in range(n)]
    records = r.nullable_records("PartitionData.records")
    return PartitionData(
        partition_index=partition_index,
        error_code=error_code,
        high_watermark=high_watermark,
        last_stable_offset=last_stable_offset,
        aborted_transactions=aborted_transactions,
        records=records,
    )


def _read_partition_data_v5(r: Reader) -> PartitionData:
    partition_index, error_code, high_watermark, last_stable_offset, log_start_offset = r.take(
        _ihqqq, "PartitionData.partition_index,error_code,high_watermark,last_stable_offset,log_start_offset"
    )
    n = r.nullable_count(16, "PartitionData.aborted_transactions")
    aborted_transactions = None if n < 0 else [_read_aborted_transaction_v4(r) for _ in range(n)]
    records = r.nullable_records("PartitionData.records")
    return PartitionData(
        partition_index=partition_index,
        error_code=error_code,
        high_watermark=high_watermark,
        last_stable_offset=last_stable_offset,
        log_start_offset=log_start_offset,
        aborted_transactions=aborted_transactions,
        records=records,
    )


def _read_partition_data_v11(r: Reader) -> PartitionData:
    partition_index, error_code, high_watermark, last_stable_offset, log_start_offset = r.take(
        _ihqqq, "PartitionData.partition_index,error_code,high_watermark,last_stable_offset,log_start_offset"
    )
    n = r.nullable_count(16, "PartitionData.aborted_transactions")
    aborted_transactions = None if n < 0 else [_read_aborted_transaction_v4(r) for _ in range(n)]
    (preferred_read_replica,) = r.take(_i, "PartitionData.preferred_read_replica")
    records = r.nullable_records("PartitionData.records")
    return PartitionData(
        partition_index=partition_index,
        error_code=error_code,
        high_watermark=high_watermark,
        last_stable_offset=last_stable_offset,
        log_start_offset=log_start_offset,
        aborted_transactions=aborted_transactions,
        preferred_read_replica=preferred_read_replica,
        records=records,
    )


def _read_partition_data_v12(r: Reader) -> PartitionData:
    partition_index, error_code, high_watermark, last_stable_offset, log_start_offset = r.take(
        _ihqqq, "PartitionData.partition_index,error_code,high_watermark,last_stable_offset,log_start_offset"
    )
    n = r.compact_nullable_count(17, "PartitionData.aborted_transactions")
    aborted_transactions = None if n < 0 else [_read_aborted_transaction_v12(r) for _ in range(n)]
    (preferred_read_replica,) = r.take(_i, "PartitionData.preferred_read_replica")
    records = r.compact_nullable_records("PartitionData.records")
    o = PartitionData(
        partition_index=partition_index,
        error_code=error_code,
        high_watermark=high_watermark,
        last_stable_offset=last_stable_offset,
        log_start_offset=log_start_offset,
        aborted_transactions=aborted_transactions,
        preferred_read_replica=preferred_read_replica,
        records=records,
    )
    for _ in range(r.tag_count("PartitionData")):
        tag, end = r.tag("PartitionData")
        if tag == 0:
            o.diverging_epoch = _read_epoch_end_offset_v12(r)
            r.end_tag(end, "PartitionData.diverging_epoch")
        elif tag == 1:
            o.current_leader = _read_leader_id_and_epoch_v12(r)
            r.end_tag(end, "PartitionData.current_leader")
        elif tag == 2:
            o.snapshot_id = _read_snapshot_id_v12(r)
            r.end_tag(end, "PartitionData.snapshot_id")
        else:
            r.at = end
    return o


def _write_partition_data_v4(w: Writer, o: PartitionData) -> None:
    if o.diverging_epoch is not None:
        raise w.unsupported("PartitionData.diverging_epoch")
    if o.current_leader is not None:
        raise w.unsupported("PartitionData.current_leader")
    if o.snapshot_id is not None:
        raise w.unsupported("PartitionData.snapshot_id")
    if o.preferred_read_replica != -1:
        raise w.unsupported("PartitionData.preferred_read_replica")
    w.add(_ihqq.pack(o.partition_index, o.error_code, o.high_watermark, o.last_stable_offset))
    if o.aborted_transactions is None:
        w.count(-1)
    else:
        w.count(len(o.aborted_transactions))
        for aborted_transactions_item in o.aborted_transactions:
            _write_aborted_transaction_v4(w, aborted_transactions_item)
    w.nullable_records(o.records, "PartitionData.records")


def _write_partition_data_v5(w: Writer, o: PartitionData) -> None:
    if o.diverging_epoch is not None:
        raise w.unsupported("PartitionData.diverging_epoch")
    if o.current_leader is not None:
        raise w.unsupported("PartitionData.current_leader")
    if o.snapshot_id is not None:
        raise w.unsupported("PartitionData.snapshot_id")
    if o.preferred_read_replica != -1:
        raise w.unsupported("PartitionData.preferred_read_replica")
    w.add(_ihqqq.pack(o.partition_index, o.error_code, o.high_watermark, o.last_stable_offset, o.log_start_offset))
    if o.aborted_transactions is None:
        w.count(-1)
    else:
        w.count(len(o.aborted_transactions))
        for aborted_transactions_item in o.aborted_transactions:
            _write_aborted_transaction_v4(w, aborted_transactions_item)
    w.nullable_records(o.records, "PartitionData.records")


def _write_partition_data_v11(w: Writer, o: PartitionData) -> None:
    if o.diverging_epoch is not None:
        raise w.unsupported("PartitionData.diverging_epoch")
    if o.current_leader is not None:
        raise w.unsupported("PartitionData.current_leader")
    if o.snapshot_id is not None:
        raise w.unsupported("PartitionData.snapshot_id")
    w.add(_ihqqq.pack(o.partition_index, o.error_code, o.high_watermark, o.last_stable_offset, o.log_start_offset))
    if o.aborted_transactions is None:
        w.count(-1)
    else:
        w.count(len(o.aborted_transactions))
        for aborted_transactions_item in o.aborted_transactions:
            _write_aborted_transaction_v4(w, aborted_transactions_item)
    w.add(_i.pack(o.preferred_read_replica))
    w.nullable_records(o.records, "PartitionData.records")


def _write_partition_data_v12(w: Writer, o: PartitionData) -> None:
    w.add(_ihqqq.pack(o.partition_index, o.error_code, o.high_watermark, o.last_stable_offset, o.log_start_offset))
    if o.aborted_transactions is None:
        w.compact_count(-1)
    else:
        w.compact_count(len(o.aborted_transactions))
        for aborted_transactions_item in o.aborted_transactions:
            _write_aborted_transaction_v12(w, aborted_transactions_item)
    w.add(_i.pack(o.preferred_read_replica))
    w.compact_nullable_records(o.records, "PartitionData.records")
    w.add(uvarint((o.diverging_epoch is not None) + (o.current_leader is not None) + (o.snapshot_id is not None)))
    if o.diverging_epoch is not None:
        mark = w.begin_tag(0)
        _write_epoch_end_offset_v12(w, o.diverging_epoch)
        w.end_tag(mark)
    if o.current_leader is not None:
        mark = w.begin_tag(1)
        _write_leader_id_and_epoch_v12(w, o.current_leader)
        w.end_tag(mark)
    if o.snapshot_id is not None:
        mark = w.begin_tag(2)
        _write_snapshot_id_v12(w, o.snapshot_id)
        w.end_tag(mark)


def _read_fetchable_topic_response_v4(r: Reader) -> FetchableTopicResponse:
    topic = r.string("FetchableTopicResponse.topic")
    partitions = [_read_partition_data_v4(r) for _ in range(r.count(30, "FetchableTopicResponse.partitions"))]
    return FetchableTopicResponse(topic=topic, partitions=partitions)


def _read_fetchable_topic_response_v5(r: Reader) -> FetchableTopicResponse:
    topic = r.string("FetchableTopicResponse.topic")
    partitions = [_read_partition_data_v5(r) for _ in range(r.count(38, "FetchableTopicResponse.partitions"))]
    return FetchableTopicResponse(topic=topic, partitions=partitions)


def _read_fetchable_topic_response_v11(r: Reader) -> FetchableTopicResponse:
    topic = r.string("FetchableTopicResponse.topic")
    partitions = [_read_partition_data_v11(r) for _ in range(r.count(42, "FetchableTopicResponse.partitions"))]
    return FetchableTopicResponse(topic=topic, partitions=partitions)


def _read_fetchable_topic_response_v12(r: Reader) -> FetchableTopicResponse:
    topic = r.compact_string("FetchableTopicResponse.topic")
    partitions = [_read_partition_data_v12(r) for _ in range(r.compact_count(37, "FetchableTopicResponse.partitions"))]
    r.skip_tags("FetchableTopicResponse")
    return FetchableTopicResponse(topic=topic, partitions=partitions)


def _read_fetchable_topic_response_v13(r: Reader) -> FetchableTopicResponse:
    (topic_id,) = r.take(_s, "FetchableTopicResponse.topic_id")
    partitions = [_read_partition_data_v12(r) for _ in range(r.compact_count(37, "FetchableTopicResponse.partitions"))]
    r.skip_tags("FetchableTopicResponse")
    return FetchableTopicResponse(topic_id=topic_id, partitions=partitions)


def _write_fetchable_topic_response_v4(w: Writer, o: FetchableTopicResponse) -> None:
    w.string(o.topic, "FetchableTopicResponse.topic")
    w.count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_partition_data_v4(w, partitions_item)


def _write_fetchable_topic_response_v5(w: Writer, o: FetchableTopicResponse) -> None:
    w.string(o.topic, "FetchableTopicResponse.topic")
    w.count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_partition_data_v5(w, partitions_item)


def _write_fetchable_topic_response_v11(w: Writer, o: FetchableTopicResponse) -> None:
    w.string(o.topic, "FetchableTopicResponse.topic")
    w.count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_partition_data_v11(w, partitions_item)


def _write_fetchable_topic_response_v12(w: Writer, o: FetchableTopicResponse) -> None:
    w.compact_string(o.topic, "FetchableTopicResponse.topic")
    w.compact_count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_partition_data_v12(w, partitions_item)
    w.add(NO_TAGS)


def _write_fetchable_topic_response_v13(w: Writer, o: FetchableTopicResponse) -> None:
    w.add(_s.pack(uuid(o.topic_id)))
    w.compact_count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_partition_data_v12(w, partitions_item)
    w.add(NO_TAGS)


def _read_node_endpoint_v16(r: Reader) -> NodeEndpoint:
    (node_id,) = r.take(_i, "NodeEndpoint.node_id")
    host = r.compact_string("NodeEndpoint.host")
    (port,) = r.take(_i, "NodeEndpoint.port")
    rack = r.compact_nullable_string("NodeEndpoint.rack")
    r.skip_tags("NodeEndpoint")
    return NodeEndpoint(node_id=node_id, host=host, port=port, rack=rack)


def _write_node_endpoint_v16(w: Writer, o: NodeEndpoint) -> None:
    w.add(_i.pack(o.node_id))
    w.compact_string(o.host, "NodeEndpoint.host")
    w.add(_i.pack(o.port))
    w.compact_nullable_string(o.rack, "NodeEndpoint.rack")
    w.add(NO_TAGS)


def _read_fetch_response_v4(r: Reader) -> FetchResponse:
    (throttle_time_ms,) = r.take(_i, "FetchResponse.throttle_time_ms")
    responses = [_read_fetchable_topic_response_v4(r) for _ in range(r.count(6, "FetchResponse.responses"))]
    return FetchResponse(throttle_time_ms=throttle_time_ms, responses=responses)


def _read_fetch_response_v5(r: Reader) -> FetchResponse:
    (throttle_time_ms,) = r.take(_i, "FetchResponse.throttle_time_ms")
    responses = [_read_fetchable_topic_response_v5(r) for _ in range(r.count(6, "FetchResponse.responses"))]
    return FetchResponse(throttle_time_ms=throttle_time_ms, responses=responses)


def _read_fetch_response_v7(r: Reader) -> FetchResponse:
    throttle_time_ms, error_code, session_id = r.take(_ihi, "FetchResponse.throttle_time_ms,error_code,session_id")
    responses = [_read_fetchable_topic_response_v5(r) for _ in range(r.count(6, "FetchResponse.responses"))]
    return FetchResponse(
        throttle_time_ms=throttle_time_ms, error_code=error_code, session_id=session_id, responses=responses
    )


def _read_fetch_response_v11(r: Reader) -> FetchResponse:
    throttle_time_ms, error_code, session_id = r.take(_ihi, "FetchResponse.throttle_time_ms,error_code,session_id")
    responses = [_read_fetchable_topic_response_v11(r) for _ in range(r.count(6, "FetchResponse.responses"))]
    return FetchResponse(
        throttle_time_ms=throttle_time_ms, error_code=error_code, session_id=session_id, responses=responses
    )


def _read_fetch_response_v12(r: Reader) -> FetchResponse:
    throttle_time_ms, error_code, session_id = r.take(_ihi, "FetchResponse.throttle_time_ms,error_code,session_id")
    responses = [_read_fetchable_topic_response_v12(r) for _ in range(r.compact_count(3, "FetchResponse.responses"))]
    r.skip_tags("FetchResponse")
    return FetchResponse(
        throttle_time_ms=throttle_time_ms, error_code=error_code, session_id=session_id, responses=responses
    )


def _read_fetch_response_v13(r: Reader) -> FetchResponse:
    throttle_time_ms, error_code, session_id = r.take(_ihi, "FetchResponse.throttle_time_ms,error_code,session_id")
    responses = [_read_fetchable_topic_response_v13(r) for _ in range(r.compact_count(18, "FetchResponse.responses"))]
    r.skip_tags("FetchResponse")
    return FetchResponse(
        throttle_time_ms=throttle_time_ms, error_code=error_code, session_id=session_id, responses=responses
    )


def _read_fetch_response_v16(r: Reader) -> FetchResponse:
    throttle_time_ms, error_code, session_id = r.take(_ihi, "FetchResponse.throttle_time_ms,error_code,session_id")
    responses = [_read_fetchable_topic_response_v13(r) for _ in range(r.compact_count(18, "FetchResponse.responses"))]
    o = FetchResponse(
        throttle_time_ms=throttle_time_ms, error_code=error_code, session_id=session_id, responses=responses
    )
    for _ in range(r.tag_count("FetchResponse")):
        tag, end = r.tag("FetchResponse")
        if tag == 0:
            o.node_endpoints = [
                _read_node_endpoint_v16(r) for _ in range(r.compact_count(11, "FetchResponse.node_endpoints"))
            ]
            r.end_tag(end, "FetchResponse.node_endpoints")
        else:
            r.at = end
    return o


def _write_fetch_response_v4(w: Writer, o: FetchResponse) -> None:
    if o.session_id != 0:
        raise w.unsupported("FetchResponse.session_id")
    if o.node_endpoints:
        raise w.unsupported("FetchResponse.node_endpoints")
    w.add(_i.pack(o.throttle_time_ms))
    w.count(len(o.responses))
    for responses_item in o.responses:
        _write_fetchable_topic_response_v4(w, responses_item)


def _write_fetch_response_v5(w: Writer, o: FetchResponse) -> None:
    if o.session_id != 0:
        raise w.unsupported("FetchResponse.session_id")
    if o.node_endpoints:
        raise w.unsupported("FetchResponse.node_endpoints")
    w.add(_i.pack(o.throttle_time_ms))
    w.count(len(o.responses))
    for responses_item in o.responses:
        _write_fetchable_topic_response_v5(w, responses_item)


def _write_fetch_response_v7(w: Writer, o: FetchResponse) -> None:
    if o.node_endpoints:
        raise w.unsupported("FetchResponse.node_endpoints")
    w.add(_ihi.pack(o.throttle_time_ms, o.error_code, o.session_id))
    w.count(len(o.responses))
    for responses_item in o.responses:
        _write_fetchable_topic_response_v5(w, responses_item)


def _write_fetch_response_v11(w: Writer, o: FetchResponse) -> None:
    if o.node_endpoints:
        raise w.unsupported("FetchResponse.node_endpoints")
    w.add(_ihi.pack(o.throttle_time_ms, o.error_code, o.session_id))
    w.count(len(o.responses))
    for responses_item in o.responses:
        _write_fetchable_topic_response_v11(w, responses_item)


def _write_fetch_response_v12(w: Writer, o: FetchResponse) -> None:
    if o.node_endpoints:
        raise w.unsupported("FetchResponse.node_endpoints")
    w.add(_ihi.pack(o.throttle_time_ms, o.error_code, o.session_id))
    w.compact_count(len(o.responses))
    for responses_item in o.responses:
        _write_fetchable_topic_response_v12(w, responses_item)
    w.add(NO_TAGS)


def _write_fetch_response_v13(w: Writer, o: FetchResponse) -> None:
    if o.node_endpoints:
        raise w.unsupported("FetchResponse.node_endpoints")
    w.add(_ihi.pack(o.throttle_time_ms, o.error_code, o.session_id))
    w.compact_count(len(o.responses))
    for responses_item in o.responses:
        _write_fetchable_topic_response_v13(w, responses_item)
    w.add(NO_TAGS)


def _write_fetch_response_v16(w: Writer, o: FetchResponse) -> None:
    w.add(_ihi.pack(o.throttle_time_ms, o.error_code, o.session_id))
    w.compact_count(len(o.responses))
    for responses_item in o.responses:
        _write_fetchable_topic_response_v13(w, responses_item)
    if o.node_endpoints:
        w.add(ONE_TAG)
        mark = w.begin_tag(0)
        w.compact_count(len(o.node_endpoints))
        for node_endpoints_item in o.node_endpoints:
            _write_node_endpoint_v16(w, node_endpoints_item)
        w.end_tag(mark)
    else:
        w.add(NO_TAGS)


REQUEST: Final = Codec(
    "FetchRequest",
    4,
    (
        _read_fetch_request_v4,
        _read_fetch_request_v5,
        _read_fetch_request_v5,
        _read_fetch_request_v7,
        _read_fetch_request_v7,
        _read_fetch_request_v9,
        _read_fetch_request_v9,
        _read_fetch_request_v11,
        _read_fetch_request_v12,
        _read_fetch_request_v13,
        _read_fetch_request_v13,
        _read_fetch_request_v15,
        _read_fetch_request_v15,
        _read_fetch_request_v17,
        _read_fetch_request_v18,
    ),
    (
        _write_fetch_request_v4,
        _write_fetch_request_v5,
        _write_fetch_request_v5,
        _write_fetch_request_v7,
        _write_fetch_request_v7,
        _write_fetch_request_v9,
        _write_fetch_request_v9,
        _write_fetch_request_v11,
        _write_fetch_request_v12,
        _write_fetch_request_v13,
        _write_fetch_request_v13,
        _write_fetch_request_v15,
        _write_fetch_request_v15,
        _write_fetch_request_v17,
        _write_fetch_request_v18,
    ),
)

RESPONSE: Final = Codec(
    "FetchResponse",
    4,
    (
        _read_fetch_response_v4,
        _read_fetch_response_v5,
        _read_fetch_response_v5,
        _read_fetch_response_v7,
        _read_fetch_response_v7,
        _read_fetch_response_v7,
        _read_fetch_response_v7,
        _read_fetch_response_v11,
        _read_fetch_response_v12,
        _read_fetch_response_v13,
        _read_fetch_response_v13,
        _read_fetch_response_v13,
        _read_fetch_response_v16,
        _read_fetch_response_v16,
        _read_fetch_response_v16,
    ),
    (
        _write_fetch_response_v4,
        _write_fetch_response_v5,
        _write_fetch_response_v5,
        _write_fetch_response_v7,
        _write_fetch_response_v7,
        _write_fetch_response_v7,
        _write_fetch_response_v7,
        _write_fetch_response_v11,
        _write_fetch_response_v12,
        _write_fetch_response_v13,
        _write_fetch_response_v13,
        _write_fetch_response_v13,
        _write_fetch_response_v16,
        _write_fetch_response_v16,
        _write_fetch_response_v16,
    ),
)
