"""Metadata (API 3), versions 0 to 13. Made by scripts/generate_kafka_messages.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from raftlog.wire.kafka.codec import Codec
from raftlog.wire.kafka.reader import Reader
from raftlog.wire.kafka.writer import NO_TAGS, ZERO_UUID, Writer, uuid

_s = Struct(">16s")
_so = Struct(">16s?")
_o = Struct(">?")
_oo = Struct(">??")
_ooo = Struct(">???")
_h = Struct(">h")
_hii = Struct(">hii")
_hiii = Struct(">hiii")
_i = Struct(">i")


@dataclass(slots=True, kw_only=True)
class MetadataRequestTopic:
    """Part of MetadataRequest."""

    topic_id: bytes = ZERO_UUID  # v10+
    name: str | None = ""


@dataclass(slots=True, kw_only=True)
class MetadataRequest:
    """Versions 0 to 13."""

    topics: list[MetadataRequestTopic] | None = field(default_factory=list)
    allow_auto_topic_creation: bool = True  # v4+
    include_cluster_authorized_operations: bool = False  # v8-10
    include_topic_authorized_operations: bool = False  # v8+


def _read_metadata_request_topic_v0(r: Reader) -> MetadataRequestTopic:
    name = r.string("MetadataRequestTopic.name")
    return MetadataRequestTopic(name=name)


def _read_metadata_request_topic_v9(r: Reader) -> MetadataRequestTopic:
    name = r.compact_string("MetadataRequestTopic.name")
    r.skip_tags("MetadataRequestTopic")
    return MetadataRequestTopic(name=name)


def _read_metadata_request_topic_v10(r: Reader) -> MetadataRequestTopic:
    (topic_id,) = r.take(_s, "MetadataRequestTopic.topic_id")
    name = r.compact_nullable_string("MetadataRequestTopic.name")
    r.skip_tags("MetadataRequestTopic")
    return MetadataRequestTopic(topic_id=topic_id, name=name)


def _write_metadata_request_topic_v0(w: Writer, o: MetadataRequestTopic) -> None:
    w.string(o.name, "MetadataRequestTopic.name")


def _write_metadata_request_topic_v9(w: Writer, o: MetadataRequestTopic) -> None:
    w.compact_string(o.name, "MetadataRequestTopic.name")
    w.add(NO_TAGS)


def _write_metadata_request_topic_v10(w: Writer, o: MetadataRequestTopic) -> None:
    w.add(_s.pack(uuid(o.topic_id)))
    w.compact_nullable_string(o.name, "MetadataRequestTopic.name")
    w.add(NO_TAGS)


def _read_metadata_request_v0(r: Reader) -> MetadataRequest:
    topics = [_read_metadata_request_topic_v0(r) for _ in range(r.count(2, "MetadataRequest.topics"))]
    return MetadataRequest(topics=topics)


def _read_metadata_request_v1(r: Reader) -> MetadataRequest:
    n = r.nullable_count(2, "MetadataRequest.topics")
    topics = None if n < 0 else [_read_metadata_request_topic_v0(r) for _ in range(n)]
    return MetadataRequest(topics=topics)


def _read_metadata_request_v4(r: Reader) -> MetadataRequest:
    n = r.nullable_count(2, "MetadataRequest.topics")
    topics = None if n < 0 else [_read_metadata_request_topic_v0(r) for _ in range(n)]
    (allow_auto_topic_creation,) = r.take(_o, "MetadataRequest.allow_auto_topic_creation")
    return MetadataRequest(topics=topics, allow_auto_topic_creation=allow_auto_topic_creation)


def _read_metadata_request_v8(r: Reader) -> MetadataRequest:
    n = r.nullable_count(2, "MetadataRequest.topics")
    topics = None if n < 0 else [_read_metadata_request_topic_v0(r) for _ in range(n)]
    allow_auto_topic_creation, include_cluster_authorized_operations, include_topic_authorized_operations = r.take(
        _ooo,
        "MetadataRequest.allow_auto_topic_creation,include_cluster_authorized_operations,include_topic_authorized_operations",
    )
    return MetadataRequest(
        topics=topics,
        allow_auto_topic_creation=allow_auto_topic_creation,
        include_cluster_authorized_operations=include_cluster_authorized_operations,
        include_topic_authorized_operations=include_topic_authorized_operations,
    )


def _read_metadata_request_v9(r: Reader) -> MetadataRequest:
    n = r.compact_nullable_count(2, "MetadataRequest.topics")
    topics = None if n < 0 else [_read_metadata_request_topic_v9(r) for _ in range(n)]
    allow_auto_topic_creation, include_cluster_authorized_operations, include_topic_authorized_operations = r.take(
        _ooo,
        "MetadataRequest.allow_auto_topic_creation,include_cluster_authorized_operations,include_topic_authorized_operations",
    )
    r.skip_tags("MetadataRequest")
    return MetadataRequest(
        topics=topics,
        allow_auto_topic_creation=allow_auto_topic_creation,
        include_cluster_authorized_operations=include_cluster_authorized_operations,
        include_topic_authorized_operations=include_topic_authorized_operations,
    )


def _read_metadata_request_v10(r: Reader) -> MetadataRequest:
    n = r.compact_nullable_count(18, "MetadataRequest.topics")
    topics = None if n < 0 else [_read_metadata_request_topic_v10(r) for _ in range(n)]
    allow_auto_topic_creation, include_cluster_authorized_operations, include_topic_authorized_operations = r.take(
        _ooo,
        "MetadataRequest.allow_auto_topic_creation,include_cluster_authorized_operations,include_topic_authorized_operations",
    )
    r.skip_tags("MetadataRequest")
    return MetadataRequest(
        topics=topics,
        allow_auto_topic_creation=allow_auto_topic_creation,
        include_cluster_authorized_operations=include_cluster_authorized_operations,
        include_topic_authorized_operations=include_topic_authorized_operations,
    )


def _read_metadata_request_v11(r: Reader) -> MetadataRequest:
    n = r.compact_nullable_count(18, "MetadataRequest.topics")
    topics = None if n < 0 else [_read_metadata_request_topic_v10(r) for _ in range(n)]
    allow_auto_topic_creation, include_topic_authorized_operations = r.take(
        _oo, "MetadataRequest.allow_auto_topic_creation,include_topic_authorized_operations"
    )
    r.skip_tags("MetadataRequest")
    return MetadataRequest(
        topics=topics,
        allow_auto_topic_creation=allow_auto_topic_creation,
        include_topic_authorized_operations=include_topic_authorized_operations,
    )


def _write_metadata_request_v0(w: Writer, o: MetadataRequest) -> None:
    if not o.allow_auto_topic_creation:
        raise w.unsupported("MetadataRequest.allow_auto_topic_creation")
    if o.include_cluster_authorized_operations:
        raise w.unsupported("MetadataRequest.include_cluster_authorized_operations")
    if o.include_topic_authorized_operations:
        raise w.unsupported("MetadataRequest.include_topic_authorized_operations")
    topics = w.not_null(o.topics, "MetadataRequest.topics")
    w.count(len(topics))
    for topics_item in topics:
        _write_metadata_request_topic_v0(w, topics_item)


def _write_metadata_request_v1(w: Writer, o: MetadataRequest) -> None:
    if not o.allow_auto_topic_creation:
        raise w.unsupported("MetadataRequest.allow_auto_topic_creation")
    if o.include_cluster_authorized_operations:
        raise w.unsupported("MetadataRequest.include_cluster_authorized_operations")
    if o.include_topic_authorized_operations:
        raise w.unsupported("MetadataRequest.include_topic_authorized_operations")
    if o.topics is None:
        w.count(-1)
    else:
        w.count(len(o.topics))
        for topics_item in o.topics:
            _write_metadata_request_topic_v0(w, topics_item)


def _write_metadata_request_v4(w: Writer, o: MetadataRequest) -> None:
    if o.include_cluster_authorized_operations:
        raise w.unsupported("MetadataRequest.include_cluster_authorized_operations")
    if o.include_topic_authorized_operations:
        raise w.unsupported("MetadataRequest.include_topic_authorized_operations")
    if o.topics is None:
        w.count(-1)
    else:
        w.count(len(o.topics))
        for topics_item in o.topics:
            _write_metadata_request_topic_v0(w, topics_item)
    w.add(_o.pack(o.allow_auto_topic_creation))


def _write_metadata_request_v8(w: Writer, o: MetadataRequest) -> None:
    if o.topics is None:
        w.count(-1)
    else:
        w.count(len(o.topics))
        for topics_item in o.topics:
            _write_metadata_request_topic_v0(w, topics_item)
    w.add(
        _ooo.pack(
            o.allow_auto_topic_creation, o.include_cluster_authorized_operations, o.include_topic_authorized_operations
        )
    )


def _write_metadata_request_v9(w: Writer, o: MetadataRequest) -> None:
    if o.topics is None:
        w.compact_count(-1)
    else:
        w.compact_count(len(o.topics))
        for topics_item in o.topics:
            _write_metadata_request_topic_v9(w, topics_item)
    w.add(
        _ooo.pack(
            o.allow_auto_topic_creation, o.include_cluster_authorized_operations, o.include_topic_authorized_operations
        )
    )
    w.add(NO_TAGS)


def _write_metadata_request_v10(w: Writer, o: MetadataRequest) -> None:
    if o.topics is None:
        w.compact_count(-1)
    else:
        w.compact_count(len(o.topics))
        for topics_item in o.topics:
            _write_metadata_request_topic_v10(w, topics_item)
    w.add(
        _ooo.pack(
            o.allow_auto_topic_creation, o.include_cluster_authorized_operations, o.include_topic_authorized_operations
        )
    )
    w.add(NO_TAGS)


def _write_metadata_request_v11(w: Writer, o: MetadataRequest) -> None:
    if o.include_cluster_authorized_operations:
        raise w.unsupported("MetadataRequest.include_cluster_authorized_operations")
    if o.topics is None:
        w.compact_count(-1)
    else:
        w.compact_count(len(o.topics))
        for topics_item in o.topics:
            _write_metadata_request_topic_v10(w, topics_item)
    w.add(_oo.pack(o.allow_auto_topic_creation, o.include_topic_authorized_operations))
    w.add(NO_TAGS)


@dataclass(slots=True, kw_only=True)
class MetadataResponseBroker:
    """Part of MetadataResponse."""

    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None  # v1+


@dataclass(slots=True, kw_only=True)
class MetadataResponsePartition:
    """Part of MetadataResponse."""

    error_code: int = 0
    partition_index: int = 0
    leader_id: int = 0
    leader_epoch: int = -1  # v7+
    replica_nodes: list[int] = field(default_factory=list)
    isr_nodes: list[int] = field(default_factory=list)
    offline_replicas: list[int] = field(default_factory=list)  # v5+


@dataclass(slots=True, kw_only=True)
class MetadataResponseTopic:
    """Part of MetadataResponse."""

    error_code: int = 0
    name: str | None = ""
    topic_id: bytes = ZERO_UUID  # v10+
    is_internal: bool = False  # v1+
    partitions: list[MetadataResponsePartition] = field(default_factory=list)
    topic_authorized_operations: int = -2147483648  # v8+


@dataclass(slots=True, kw_only=True)
class MetadataResponse:
    """Versions 0 to 13."""

    throttle_time_ms: int = 0  # v3+
    brokers: list[MetadataResponseBroker] = field(default_factory=list)
    cluster_id: str | None = None  # v2+
    controller_id: int = -1  # v1+
    topics: list[MetadataResponseTopic] = field(default_factory=list)
    cluster_authorized_operations: int = -2147483648  # v8-10
    error_code: int = 0  # v13+


def _read_metadata_response_broker_v0(r: Reader) -> MetadataResponseBroker:
    (node_id,) = r.take(_i, "MetadataResponseBroker.node_id")
    host = r.string("MetadataResponseBroker.host")
    (port,) = r.take(_i, "MetadataResponseBroker.port")
    return MetadataResponseBroker(node_id=node_id, host=host, port=port)


def _read_metadata_response_broker_v1(r: Reader) -> MetadataResponseBroker:
    (node_id,) = r.take(_i, "MetadataResponseBroker.node_id")
    host = r.string("MetadataResponseBroker.host")
    (port,) = r.take(_i, "MetadataResponseBroker.port")
    rack = r.nullable_string("MetadataResponseBroker.rack")
    return MetadataResponseBroker(node_id=node_id, host=host, port=port, rack=rack)


def _read_metadata_response_broker_v9(r: Reader) -> MetadataResponseBroker:
    (node_id,) = r.take(_i, "MetadataResponseBroker.node_id")
    host = r.compact_string("MetadataResponseBroker.host")
    (port,) = r.take(_i, "MetadataResponseBroker.port")
    rack = r.compact_nullable_string("MetadataResponseBroker.rack")
    r.skip_tags("MetadataResponseBroker")
    return MetadataResponseBroker(node_id=node_id, host=host, port=port, rack=rack)


def _write_metadata_response_broker_v0(w: Writer, o: MetadataResponseBroker) -> None:
    w.add(_i.pack(o.node_id))
    w.string(o.host, "MetadataResponseBroker.host")
    w.add(_i.pack(o.port))


def _write_metadata_response_broker_v1(w: Writer, o: MetadataResponseBroker) -> None:
    w.add(_i.pack(o.node_id))
    w.string(o.host, "MetadataResponseBroker.host")
    w.add(_i.pack(o.port))
    w.nullable_string(o.rack, "MetadataResponseBroker.rack")


def _write_metadata_response_broker_v9(w: Writer, o: MetadataResponseBroker) -> None:
    w.add(_i.pack(o.node_id))
    w.compact_string(o.host, "MetadataResponseBroker.host")
    w.add(_i.pack(o.port))
    w.compact_nullable_string(o.rack, "MetadataResponseBroker.rack")
    w.add(NO_TAGS)


def _read_metadata_response_partition_v0(r: Reader) -> MetadataResponsePartition:
    error_code, partition_index, leader_id = r.take(
        _hii, "MetadataResponsePartition.error_code,partition_index,leader_id"
    )
    replica_nodes = r.numbers("i", r.count(4, "MetadataResponsePartition.replica_nodes"))
    isr_nodes = r.numbers("i", r.count(4, "MetadataResponsePartition.isr_nodes"))
    return MetadataResponsePartition(
        error_code=error_code,
        partition_index=partition_index,
        leader_id=leader_id,
        replica_nodes=replica_nodes,
        isr_nodes=isr_nodes,
    )


def _read_metadata_response_partition_v5(r: Reader) -> MetadataResponsePartition:
    error_code, partition_index, leader_id = r.take(
        _hii, "MetadataResponsePartition.error_code,partition_index,leader_id"
    )
    replica_nodes = r.numbers("i", r.count(4, "MetadataResponsePartition.replica_nodes"))
    isr_nodes = r.numbers("i", r.count(4, "MetadataResponsePartition.isr_nodes"))
    offline_replicas = r.numbers("i", r.count(4, "MetadataResponsePartition.offline_replicas"))
    return MetadataResponsePartition(
        error_code=error_code,
        partition_index=partition_index,
        leader_id=leader_id,
        replica_nodes=replica_nodes,
        isr_nodes=isr_nodes,
        offline_replicas=offline_replicas,
    )


def _read_metadata_response_partition_v7(r: Reader) -> MetadataResponsePartition:
    error_code, partition_index, leader_id, leader_epoch = r.take(
        _hiii, "MetadataResponsePartition.error_code,partition_index,leader_id,leader_epoch"
    )
    replica_nodes = r.numbers("i", r.count(4, "MetadataResponsePartition.replica_nodes"))
    isr_nodes = r.numbers("i", r.count(4, "MetadataResponsePartition.isr_nodes"))
    offline_replicas = r.numbers("i", r.count(4, "MetadataResponsePartition.offline_replicas"))
    return MetadataResponsePartition(
        error_code=error_code,
        partition_index=partition_index,
        leader_id=leader_id,
        leader_epoch=leader_epoch,
        replica_nodes=replica_nodes,
        isr_nodes=isr_nodes,
        offline_replicas=offline_replicas,
    )


def _read_metadata_response_partition_v9(r: Reader) -> MetadataResponsePartition:
    error_code, partition_index, leader_id, leader_epoch = r.take(
        _hiii, "MetadataResponsePartition.error_code,partition_index,leader_id,leader_epoch"
    )
    replica_nodes = r.numbers("i", r.compact_count(4, "MetadataResponsePartition.replica_nodes"))
    isr_nodes = r.numbers("i", r.compact_count(4, "MetadataResponsePartition.isr_nodes"))
    offline_replicas = r.numbers("i", r.compact_count(4, "MetadataResponsePartition.offline_replicas"))
    r.skip_tags("MetadataResponsePartition")
    return MetadataResponsePartition(
        error_code=error_code,
        partition_index=partition_index,
        leader_id=leader_id,
        leader_epoch=leader_epoch,
        replica_nodes=replica_nodes,
        isr_nodes=isr_nodes,
        offline_replicas=offline_replicas,
    )


def _write_metadata_response_partition_v0(w: Writer, o: MetadataResponsePartition) -> None:
    w.add(_hii.pack(o.error_code, o.partition_index, o.leader_id))
    w.count(len(o.replica_nodes))
    w.numbers("i", o.replica_nodes)
    w.count(len(o.isr_nodes))
    w.numbers("i", o.isr_nodes)


def _write_metadata_response_partition_v5(w: Writer, o: MetadataResponsePartition) -> None:
    w.add(_hii.pack(o.error_code, o.partition_index, o.leader_id))
    w.count(len(o.replica_nodes))
    w.numbers("i", o.replica_nodes)
    w.count(len(o.isr_nodes))
    w.numbers("i", o.isr_nodes)
    w.count(len(o.offline_replicas))
    w.numbers("i", o.offline_replicas)


def _write_metadata_response_partition_v7(w: Writer, o: MetadataResponsePartition) -> None:
    w.add(_hiii.pack(o.error_code, o.partition_index, o.leader_id, o.leader_epoch))
    w.count(len(o.replica_nodes))
    w.numbers("i", o.replica_nodes)
    w.count(len(o.isr_nodes))
    w.numbers("i", o.isr_nodes)
    w.count(len(o.offline_replicas))
    w.numbers("i", o.offline_replicas)


def _write_metadata_response_partition_v9(w: Writer, o: MetadataResponsePartition) -> None:
    w.add(_hiii.pack(o.error_code, o.partition_index, o.leader_id, o.leader_epoch))
    w.compact_count(len(o.replica_nodes))
    w.numbers("i", o.replica_nodes)
    w.compact_count(len(o.isr_nodes))
    w.numbers("i", o.isr_nodes)
    w.compact_count(len(o.offline_replicas))
    w.numbers("i", o.offline_replicas)
    w.add(NO_TAGS)


def _read_metadata_response_topic_v0(r: Reader) -> MetadataResponseTopic:
    (error_code,) = r.take(_h, "MetadataResponseTopic.error_code")
    name = r.string("MetadataResponseTopic.name")
    partitions = [
        _read_metadata_response_partition_v0(r) for _ in range(r.count(18, "MetadataResponseTopic.partitions"))
    ]
    return MetadataResponseTopic(error_code=error_code, name=name, partitions=partitions)


def _read_metadata_response_topic_v1(r: Reader) -> MetadataResponseTopic:
    (error_code,) = r.take(_h, "MetadataResponseTopic.error_code")
    name = r.string("MetadataResponseTopic.name")
    (is_internal,) = r.take(_o, "MetadataResponseTopic.is_internal")
    partitions = [
        _read_metadata_response_partition_v0(r) for _ in range(r.count(18, "MetadataResponseTopic.partitions"))
    ]
    return MetadataResponseTopic(error_code=error_code, name=name, is_internal=is_internal, partitions=partitions)


def _read_metadata_response_topic_v5(r: Reader) -> MetadataResponseTopic:
    (error_code,) = r.take(_h, "MetadataResponseTopic.error_code")
    name = r.string("MetadataResponseTopic.name")
    (is_internal,) = r.take(_o, "MetadataResponseTopic.is_internal")
    partitions = [
        _read_metadata_response_partition_v5(r) for _ in range(r.count(22, "MetadataResponseTopic.partitions"))
    ]
    return MetadataResponseTopic(error_code=error_code, name=name, is_internal=is_internal, partitions=partitions)


def _read_metadata_response_topic_v7(r: Reader) -> MetadataResponseTopic:
    (error_code,) = r.take(_h, "MetadataResponseTopic.error_code")
    name = r.string("MetadataResponseTopic.name")
    (is_internal,) = r.take(_o, "MetadataResponseTopic.is_internal")
    partitions = [
        _read_metadata_response_partition_v7(r) for _ in range(r.count(26, "MetadataResponseTopic.partitions"))
    ]
    return MetadataResponseTopic(error_code=error_code, name=name, is_internal=is_internal, partitions=partitions)


def _read_metadata_response_topic_v8(r: Reader) -> MetadataResponseTopic:
    (error_code,) = r.take(_h, "MetadataResponseTopic.error_code")
    name = r.string("MetadataResponseTopic.name")
    (is_internal,) = r.take(_o, "MetadataResponseTopic.is_internal")
    partitions = [
        _read_metadata_response_partition_v7(r) for _ in range(r.count(26, "MetadataResponseTopic.partitions"))
    ]
    (topic_authorized_operations,) = r.take(_i, "MetadataResponseTopic.topic_authorized_operations")
    return MetadataResponseTopic(
        error_code=error_code,
        name=name,
        is_internal=is_internal,
        partitions=partitions,
        topic_authorized_operations=topic_authorized_operations,
    )


def _read_metadata_response_topic_v9(r: Reader) -> MetadataResponseTopic:
    (error_code,) = r.take(_h, "MetadataResponseTopic.error_code")
    name = r.compact_string("MetadataResponseTopic.name")
    (is_internal,) = r.take(_o, "MetadataResponseTopic.is_internal")
    partitions = [
        _read_metadata_response_partition_v9(r) for _ in range(r.compact_count(18, "MetadataResponseTopic.partitions"))
    ]
    (topic_authorized_operations,) = r.take(_i, "MetadataResponseTopic.topic_authorized_operations")
    r.skip_tags("MetadataResponseTopic")
    return MetadataResponseTopic(
        error_code=error_code,
        name=name,
        is_internal=is_internal,
        partitions=partitions,
        topic_authorized_operations=topic_authorized_operations,
    )


def _read_metadata_response_topic_v10(r: Reader) -> MetadataResponseTopic:
    (error_code,) = r.take(_h, "MetadataResponseTopic.error_code")
    name = r.compact_string("MetadataResponseTopic.name")
    topic_id, is_internal = r.take(_so, "MetadataResponseTopic.topic_id,is_internal")
    partitions = [
        _read_metadata_response_partition_v9(r) for _ in range(r.compact_count(18, "MetadataResponseTopic.partitions"))
    ]
    (topic_authorized_operations,) = r.take(_i, "MetadataResponseTopic.topic_authorized_operations")
    r.skip_tags("MetadataResponseTopic")
    return MetadataResponseTopic(
        error_code=error_code,
        name=name,
        topic_id=topic_id,
        is_internal=is_internal,
        partitions=partitions,
        topic_authorized_operations=topic_authorized_operations,
    )


def _read_metadata_response_topic_v12(r: Reader) -> MetadataResponseTopic:
    (error_code,) = r.take(_h, "MetadataResponseTopic.error_code")
    name = r.compact_nullable_string("MetadataResponseTopic.name")
    topic_id, is_internal = r.take(_so, "MetadataResponseTopic.topic_id,is_internal")
    partitions = [
        _read_metadata_response_partition_v9(r) for _ in range(r.compact_count(18, "MetadataResponseTopic.partitions"))
    ]
    (topic_authorized_operations,) = r.take(_i, "MetadataResponseTopic.topic_authorized_operations")
    r.skip_tags("MetadataResponseTopic")
    return MetadataResponseTopic(
        error_code=error_code,
        name=name,
        topic_id=topic_id,
        is_internal=is_internal,
        partitions=partitions,
        topic_authorized_operations=topic_authorized_operations,
    )


def _write_metadata_response_topic_v0(w: Writer, o: MetadataResponseTopic) -> None:
    if o.topic_authorized_operations != -2147483648:
        raise w.unsupported("MetadataResponseTopic.topic_authorized_operations")
    w.add(_h.pack(o.error_code))
    w.string(o.name, "MetadataResponseTopic.name")
    w.count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_metadata_response_partition_v0(w, partitions_item)


def _write_metadata_response_topic_v1(w: Writer, o: MetadataResponseTopic) -> None:
    if o.topic_authorized_operations != -2147483648:
        raise w.unsupported("MetadataResponseTopic.topic_authorized_operations")
    w.add(_h.pack(o.error_code))
    w.string(o.name, "MetadataResponseTopic.name")
    w.add(_o.pack(o.is_internal))
    w.count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_metadata_response_partition_v0(w, partitions_item)


def _write_metadata_response_topic_v5(w: Writer, o: MetadataResponseTopic) -> None:
    if o.topic_authorized_operations != -2147483648:
        raise w.unsupported("MetadataResponseTopic.topic_authorized_operations")
    w.add(_h.pack(o.error_code))
    w.string(o.name, "MetadataResponseTopic.name")
    w.add(_o.pack(o.is_internal))
    w.count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_metadata_response_partition_v5(w, partitions_item)


def _write_metadata_response_topic_v7(w: Writer, o: MetadataResponseTopic) -> None:
    if o.topic_authorized_operations != -2147483648:
        raise w.unsupported("MetadataResponseTopic.topic_authorized_operations")
    w.add(_h.pack(o.error_code))
    w.string(o.name, "MetadataResponseTopic.name")
    w.add(_o.pack(o.is_internal))
    w.count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_metadata_response_partition_v7(w, partitions_item)


def _write_metadata_response_topic_v8(w: Writer, o: MetadataResponseTopic) -> None:
    w.add(_h.pack(o.error_code))
    w.string(o.name, "MetadataResponseTopic.name")
    w.add(_o.pack(o.is_internal))
    w.count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_metadata_response_partition_v7(w, partitions_item)
    w.add(_i.pack(o.topic_authorized_operations))


def _write_metadata_response_topic_v9(w: Writer, o: MetadataResponseTopic) -> None:
    w.add(_h.pack(o.error_code))
    w.compact_string(o.name, "MetadataResponseTopic.name")
    w.add(_o.pack(o.is_internal))
    w.compact_count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_metadata_response_partition_v9(w, partitions_item)
    w.add(_i.pack(o.topic_authorized_operations))
    w.add(NO_TAGS)


def _write_metadata_response_topic_v10(w: Writer, o: MetadataResponseTopic) -> None:
    w.add(_h.pack(o.error_code))
    w.compact_string(o.name, "MetadataResponseTopic.name")
    w.add(_so.pack(uuid(o.topic_id), o.is_internal))
    w.compact_count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_metadata_response_partition_v9(w, partitions_item)
    w.add(_i.pack(o.topic_authorized_operations))
    w.add(NO_TAGS)


def _write_metadata_response_topic_v12(w: Writer, o: MetadataResponseTopic) -> None:
    w.add(_h.pack(o.error_code))
    w.compact_nullable_string(o.name, "MetadataResponseTopic.name")
    w.add(_so.pack(uuid(o.topic_id), o.is_internal))
    w.compact_count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_metadata_response_partition_v9(w, partitions_item)
    w.add(_i.pack(o.topic_authorized_operations))
    w.add(NO_TAGS)


def _read_metadata_response_v0(r: Reader) -> MetadataResponse:
    brokers = [_read_metadata_response_broker_v0(r) for _ in range(r.count(10, "MetadataResponse.brokers"))]
    topics = [_read_metadata_response_topic_v0(r) for _ in range(r.count(8, "MetadataResponse.topics"))]
    return MetadataResponse(brokers=brokers, topics=topics)


def _read_metadata_response_v1(r: Reader) -> MetadataResponse:
    brokers = [_read_metadata_response_broker_v1(r) for _ in range(r.count(12, "MetadataResponse.brokers"))]
    (controller_id,) = r.take(_i, "MetadataResponse.controller_id")
    topics = [_read_metadata_response_topic_v1(r) for _ in range(r.count(9, "MetadataResponse.topics"))]
    return MetadataResponse(brokers=brokers, controller_id=controller_id, topics=topics)


def _read_metadata_response_v2(r: Reader) -> MetadataResponse:
    brokers = [_read_metadata_response_broker_v1(r) for _ in range(r.count(12, "MetadataResponse.brokers"))]
    cluster_id = r.nullable_string("MetadataResponse.cluster_id")
    (controller_id,) = r.take(_i, "MetadataResponse.controller_id")
    topics = [_read_metadata_response_topic_v1(r) for _ in range(r.count(9, "MetadataResponse.topics"))]
    return MetadataResponse(brokers=brokers, cluster_id=cluster_id, controller_id=controller_id, topics=topics)


def _read_metadata_response_v3(r: Reader) -> MetadataResponse:
    (throttle_time_ms,) = r.take(_i, "MetadataResponse.throttle_time_ms")
    brokers = [_read_metadata_response_broker_v1(r) for _ in range(r.count(12, "MetadataResponse.brokers"))]
    cluster_id = r.nullable_string("MetadataResponse.cluster_id")
    (controller_id,) = r.take(_i, "MetadataResponse.controller_id")
    topics = [_read_metadata_response_topic_v1(r) for _ in range(r.count(9, "MetadataResponse.topics"))]
    return MetadataResponse(
        throttle_time_ms=throttle_time_ms,
        brokers=brokers,
        cluster_id=cluster_id,
        controller_id=controller_id,
        topics=topics,
    )


def _read_metadata_response_v5(r: Reader) -> MetadataResponse:
    (throttle_time_ms,) = r.take(_i, "MetadataResponse.throttle_time_ms")
    brokers = [_read_metadata_response_broker_v1(r) for _ in range(r.count(12, "MetadataResponse.brokers"))]
    cluster_id = r.nullable_string("MetadataResponse.cluster_id")
    (controller_id,) = r.take(_i, "MetadataResponse.controller_id")
    topics = [_read_metadata_response_topic_v5(r) for _ in range(r.count(9, "MetadataResponse.topics"))]
    return MetadataResponse(
        throttle_time_ms=throttle_time_ms,
        brokers=brokers,
        cluster_id=cluster_id,
        controller_id=controller_id,
        topics=topics,
    )


def _read_metadata_response_v7(r: Reader) -> MetadataResponse:
    (throttle_time_ms,) = r.take(_i, "MetadataResponse.throttle_time_ms")
    brokers = [_read_metadata_response_broker_v1(r) for _ in range(r.count(12, "MetadataResponse.brokers"))]
    cluster_id = r.nullable_string("MetadataResponse.cluster_id")
    (controller_id,) = r.take(_i, "MetadataResponse.controller_id")
    topics = [_read_metadata_response_topic_v7(r) for _ in range(r.count(9, "MetadataResponse.topics"))]
    return MetadataResponse(
        throttle_time_ms=throttle_time_ms,
        brokers=brokers,
        cluster_id=cluster_id,
        controller_id=controller_id,
        topics=topics,
    )


def _read_metadata_response_v8(r: Reader) -> MetadataResponse:
    (throttle_time_ms,) = r.take(_i, "MetadataResponse.throttle_time_ms")
    brokers = [_read_metadata_response_broker_v1(r) for _ in range(r.count(12, "MetadataResponse.brokers"))]
    cluster_id = r.nullable_string("MetadataResponse.cluster_id")
    (controller_id,) = r.take(_i, "MetadataResponse.controller_id")
    topics = [_read_metadata_response_topic_v8(r) for _ in range(r.count(13, "MetadataResponse.topics"))]
    (cluster_authorized_operations,) = r.take(_i, "MetadataResponse.cluster_authorized_operations")
    return MetadataResponse(
        throttle_time_ms=throttle_time_ms,
        brokers=brokers,
        cluster_id=cluster_id,
        controller_id=controller_id,
        topics=topics,
        cluster_authorized_operations=cluster_authorized_operations,
    )


def _read_metadata_response_v9(r: Reader) -> MetadataResponse:
    (throttle_time_ms,) = r.take(_i, "MetadataResponse.throttle_time_ms")
    brokers = [_read_metadata_response_broker_v9(r) for _ in range(r.compact_count(11, "MetadataResponse.brokers"))]
    cluster_id = r.compact_nullable_string("MetadataResponse.cluster_id")
    (controller_id,) = r.take(_i, "MetadataResponse.controller_id")
    topics = [_read_metadata_response_topic_v9(r) for _ in range(r.compact_count(10, "MetadataResponse.topics"))]
    (cluster_authorized_operations,) = r.take(_i, "MetadataResponse.cluster_authorized_operations")
    r.skip_tags("MetadataResponse")
    return MetadataResponse(
        throttle_time_ms=throttle_time_ms,
        brokers=brokers,
        cluster_id=cluster_id,
        controller_id=controller_id,
        topics=topics,
        cluster_authorized_operations=cluster_authorized_operations,
    )


def _read_metadata_response_v10(r: Reader) -> MetadataResponse:
    (throttle_time_ms,) = r.take(_i, "MetadataResponse.throttle_time_ms")
    brokers = [_read_metadata_response_broker_v9(r) for _ in range(r.compact_count(11, "MetadataResponse.brokers"))]
    cluster_id = r.compact_nullable_string("MetadataResponse.cluster_id")
    (controller_id,) = r.take(_i, "MetadataResponse.controller_id")
    topics = [_read_metadata_response_topic_v10(r) for _ in range(r.compact_count(26, "MetadataResponse.topics"))]
    (cluster_authorized_operations,) = r.take(_i, "MetadataResponse.cluster_authorized_operations")
    r.skip_tags("MetadataResponse")
    return MetadataResponse(
        throttle_time_ms=throttle_time_ms,
        brokers=brokers,
        cluster_id=cluster_id,
        controller_id=controller_id,
        topics=topics,
        cluster_authorized_operations=cluster_authorized_operations,
    )


def _read_metadata_response_v11(r: Reader) -> MetadataResponse:
    (throttle_time_ms,) = r.take(_i, "MetadataResponse.throttle_time_ms")
    brokers = [_read_metadata_response_broker_v9(r) for _ in range(r.compact_count(11, "MetadataResponse.brokers"))]
    cluster_id = r.compact_nullable_string("MetadataResponse.cluster_id")
    (controller_id,) = r.take(_i, "MetadataResponse.controller_id")
    topics = [_read_metadata_response_topic_v10(r) for _ in range(r.compact_count(26, "MetadataResponse.topics"))]
    r.skip_tags("MetadataResponse")
    return MetadataResponse(
        throttle_time_ms=throttle_time_ms,
        brokers=brokers,
        cluster_id=cluster_id,
        controller_id=controller_id,
        topics=topics,
    )


def _read_metadata_response_v12(r: Reader) -> MetadataResponse:
    (throttle_time_ms,) = r.take(_i, "MetadataResponse.throttle_time_ms")
    brokers = [_read_metadata_response_broker_v9(r) for _ in range(r.compact_count(11, "MetadataResponse.brokers"))]
    cluster_id = r.compact_nullable_string("MetadataResponse.cluster_id")
    (controller_id,) = r.take(_i, "MetadataResponse.controller_id")
    topics = [_read_metadata_response_topic_v12(r) for _ in range(r.compact_count(26, "MetadataResponse.topics"))]
    r.skip_tags("MetadataResponse")
    return MetadataResponse(
        throttle_time_ms=throttle_time_ms,
        brokers=brokers,
        cluster_id=cluster_id,
        controller_id=controller_id,
        topics=topics,
    )


def _read_metadata_response_v13(r: Reader) -> MetadataResponse:
    (throttle_time_ms,) = r.take(_i, "MetadataResponse.throttle_time_ms")
    brokers = [_read_metadata_response_broker_v9(r) for _ in range(r.compact_count(11, "MetadataResponse.brokers"))]
    cluster_id = r.compact_nullable_string("MetadataResponse.cluster_id")
    (controller_id,) = r.take(_i, "MetadataResponse.controller_id")
    topics = [_read_metadata_response_topic_v12(r) for _ in range(r.compact_count(26, "MetadataResponse.topics"))]
    (error_code,) = r.take(_h, "MetadataResponse.error_code")
    r.skip_tags("MetadataResponse")
    return MetadataResponse(
        throttle_time_ms=throttle_time_ms,
        brokers=brokers,
        cluster_id=cluster_id,
        controller_id=controller_id,
        topics=topics,
        error_code=error_code,
    )


def _write_metadata_response_v0(w: Writer, o: MetadataResponse) -> None:
    if o.cluster_authorized_operations != -2147483648:
        raise w.unsupported("MetadataResponse.cluster_authorized_operations")
    w.count(len(o.brokers))
    for brokers_item in o.brokers:
        _write_metadata_response_broker_v0(w, brokers_item)
    w.count(len(o.topics))
    for topics_item in o.topics:
        _write_metadata_response_topic_v0(w, topics_item)


def _write_metadata_response_v1(w: Writer, o: MetadataResponse) -> None:
    if o.cluster_authorized_operations != -2147483648:
        raise w.unsupported("MetadataResponse.cluster_authorized_operations")
    w.count(len(o.brokers))
    for brokers_item in o.brokers:
        _write_metadata_response_broker_v1(w, brokers_item)
    w.add(_i.pack(o.controller_id))
    w.count(len(o.topics))
    for topics_item in o.topics:
        _write_metadata_response_topic_v1(w, topics_item)


def _write_metadata_response_v2(w: Writer, o: MetadataResponse) -> None:
    if o.cluster_authorized_operations != -2147483648:
        raise w.unsupported("MetadataResponse.cluster_authorized_operations")
    w.count(len(o.brokers))
    for brokers_item in o.brokers:
        _write_metadata_response_broker_v1(w, brokers_item)
    w.nullable_string(o.cluster_id, "MetadataResponse.cluster_id")
    w.add(_i.pack(o.controller_id))
    w.count(len(o.topics))
    for topics_item in o.topics:
        _write_metadata_response_topic_v1(w, topics_item)


def _write_metadata_response_v3(w: Writer, o: MetadataResponse) -> None:
    if o.cluster_authorized_operations != -2147483648:
        raise w.unsupported("MetadataResponse.cluster_authorized_operations")
    w.add(_i.pack(o.throttle_time_ms))
    w.count(len(o.brokers))
    for brokers_item in o.brokers:
        _write_metadata_response_broker_v1(w, brokers_item)
    w.nullable_string(o.cluster_id, "MetadataResponse.cluster_id")
    w.add(_i.pack(o.controller_id))
    w.count(len(o.topics))
    for topics_item in o.topics:
        _write_metadata_response_topic_v1(w, topics_item)


def _write_metadata_response_v5(w: Writer, o: MetadataResponse) -> None:
    if o.cluster_authorized_operations != -2147483648:
        raise w.unsupported("MetadataResponse.cluster_authorized_operations")
    w.add(_i.pack(o.throttle_time_ms))
    w.count(len(o.brokers))
    for brokers_item in o.brokers:
        _write_metadata_response_broker_v1(w, brokers_item)
    w.nullable_string(o.cluster_id, "MetadataResponse.cluster_id")
    w.add(_i.pack(o.controller_id))
    w.count(len(o.topics))
    for topics_item in o.topics:
        _write_metadata_response_topic_v5(w, topics_item)


def _write_metadata_response_v7(w: Writer, o: MetadataResponse) -> None:
    if o.cluster_authorized_operations != -2147483648:
        raise w.unsupported("MetadataResponse.cluster_authorized_operations")
    w.add(_i.pack(o.throttle_time_ms))
    w.count(len(o.brokers))
    for brokers_item in o.brokers:
        _write_metadata_response_broker_v1(w, brokers_item)
    w.nullable_string(o.cluster_id, "MetadataResponse.cluster_id")
    w.add(_i.pack(o.controller_id))
    w.count(len(o.topics))
    for topics_item in o.topics:
        _write_metadata_response_topic_v7(w, topics_item)


def _write_metadata_response_v8(w: Writer, o: MetadataResponse) -> None:
    w.add(_i.pack(o.throttle_time_ms))
    w.count(len(o.brokers))
    for brokers_item in o.brokers:
        _write_metadata_response_broker_v1(w, brokers_item)
    w.nullable_string(o.cluster_id, "MetadataResponse.cluster_id")
    w.add(_i.pack(o.controller_id))
    w.count(len(o.topics))
    for topics_item in o.topics:
        _write_metadata_response_topic_v8(w, topics_item)
    w.add(_i.pack(o.cluster_authorized_operations))


def _write_metadata_response_v9(w: Writer, o: MetadataResponse) -> None:
    w.add(_i.pack(o.throttle_time_ms))
    w.compact_count(len(o.brokers))
    for brokers_item in o.brokers:
        _write_metadata_response_broker_v9(w, brokers_item)
    w.compact_nullable_string(o.cluster_id, "MetadataResponse.cluster_id")
    w.add(_i.pack(o.controller_id))
    w.compact_count(len(o.topics))
    for topics_item in o.topics:
        _write_metadata_response_topic_v9(w, topics_item)
    w.add(_i.pack(o.cluster_authorized_operations))
    w.add(NO_TAGS)


def _write_metadata_response_v10(w: Writer, o: MetadataResponse) -> None:
    w.add(_i.pack(o.throttle_time_ms))
    w.compact_count(len(o.brokers))
    for brokers_item in o.brokers:
        _write_metadata_response_broker_v9(w, brokers_item)
    w.compact_nullable_string(o.cluster_id, "MetadataResponse.cluster_id")
    w.add(_i.pack(o.controller_id))
    w.compact_count(len(o.topics))
    for topics_item in o.topics:
        _write_metadata_response_topic_v10(w, topics_item)
    w.add(_i.pack(o.cluster_authorized_operations))
    w.add(NO_TAGS)


def _write_metadata_response_v11(w: Writer, o: MetadataResponse) -> None:
    if o.cluster_authorized_operations != -2147483648:
        raise w.unsupported("MetadataResponse.cluster_authorized_operations")
    w.add(_i.pack(o.throttle_time_ms))
    w.compact_count(len(o.brokers))
    for brokers_item in o.brokers:
        _write_metadata_response_broker_v9(w, brokers_item)
    w.compact_nullable_string(o.cluster_id, "MetadataResponse.cluster_id")
    w.add(_i.pack(o.controller_id))
    w.compact_count(len(o.topics))
    for topics_item in o.topics:
        _write_metadata_response_topic_v10(w, topics_item)
    w.add(NO_TAGS)


def _write_metadata_response_v12(w: Writer, o: MetadataResponse) -> None:
    if o.cluster_authorized_operations != -2147483648:
        raise w.unsupported("MetadataResponse.cluster_authorized_operations")
    w.add(_i.pack(o.throttle_time_ms))
    w.compact_count(len(o.brokers))
    for brokers_item in o.brokers:
        _write_metadata_response_broker_v9(w, brokers_item)
    w.compact_nullable_string(o.cluster_id, "MetadataResponse.cluster_id")
    w.add(_i.pack(o.controller_id))
    w.compact_count(len(o.topics))
    for topics_item in o.topics:
        _write_metadata_response_topic_v12(w, topics_item)
    w.add(NO_TAGS)


def _write_metadata_response_v13(w: Writer, o: MetadataResponse) -> None:
    if o.cluster_authorized_operations != -2147483648:
        raise w.unsupported("MetadataResponse.cluster_authorized_operations")
    w.add(_i.pack(o.throttle_time_ms))
    w.compact_count(len(o.brokers))
    for brokers_item in o.brokers:
        _write_metadata_response_broker_v9(w, brokers_item)
    w.compact_nullable_string(o.cluster_id, "MetadataResponse.cluster_id")
    w.add(_i.pack(o.controller_id))
    w.compact_count(len(o.topics))
    for topics_item in o.topics:
        _write_metadata_response_topic_v12(w, topics_item)
    w.add(_h.pack(o.error_code))
    w.add(NO_TAGS)


REQUEST: Final = Codec(
    "MetadataRequest",
    0,
    (
        _read_metadata_request_v0,
        _read_metadata_request_v1,
        _read_metadata_request_v1,
        _read_metadata_request_v1,
        _read_metadata_request_v4,
        _read_metadata_request_v4,
        _read_metadata_request_v4,
        _read_metadata_request_v4,
        _read_metadata_request_v8,
        _read_metadata_request_v9,
        _read_metadata_request_v10,
        _read_metadata_request_v11,
        _read_metadata_request_v11,
        _read_metadata_request_v11,
    ),
    (
        _write_metadata_request_v0,
        _write_metadata_request_v1,
        _write_metadata_request_v1,
        _write_metadata_request_v1,
        _write_metadata_request_v4,
        _write_metadata_request_v4,
        _write_metadata_request_v4,
        _write_metadata_request_v4,
        _write_metadata_request_v8,
        _write_metadata_request_v9,
        _write_metadata_request_v10,
        _write_metadata_request_v11,
        _write_metadata_request_v11,
        _write_metadata_request_v11,
    ),
)

RESPONSE: Final = Codec(
    "MetadataResponse",
    0,
    (
        _read_metadata_response_v0,
        _read_metadata_response_v1,
        _read_metadata_response_v2,
        _read_metadata_response_v3,
        _read_metadata_response_v3,
        _read_metadata_response_v5,
        _read_metadata_response_v5,
        _read_metadata_response_v7,
        _read_metadata_response_v8,
        _read_metadata_response_v9,
        _read_metadata_response_v10,
        _read_metadata_response_v11,
        _read_metadata_response_v12,
        _read_metadata_response_v13,
    ),
    (
        _write_metadata_response_v0,
        _write_metadata_response_v1,
        _write_metadata_response_v2,
        _write_metadata_response_v3,
        _write_metadata_response_v3,
        _write_metadata_response_v5,
        _write_metadata_response_v5,
        _write_metadata_response_v7,
        _write_metadata_response_v8,
        _write_metadata_response_v9,
        _write_metadata_response_v10,
        _write_metadata_response_v11,
        _write_metadata_response_v12,
        _write_metadata_response_v13,
    ),
)
