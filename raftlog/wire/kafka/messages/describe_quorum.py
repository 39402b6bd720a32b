"""DescribeQuorum (API 55), versions 0 to 2. Made by scripts/generate_kafka_messages.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from raftlog.wire.kafka.codec import Codec
from raftlog.wire.kafka.reader import Reader
from raftlog.wire.kafka.writer import NO_TAGS, ZERO_UUID, Writer, uuid

_H = Struct(">H")
_h = Struct(">h")
_i = Struct(">i")
_isqqq = Struct(">i16sqqq")
_ih = Struct(">ih")
_ihiiq = Struct(">ihiiq")
_iiq = Struct(">iiq")
_iq = Struct(">iq")
_iqqq = Struct(">iqqq")


@dataclass(slots=True, kw_only=True)
class DescribeQuorumRequestPartitionData:
    """Part of DescribeQuorumRequest."""

    partition_index: int = 0


@dataclass(slots=True, kw_only=True)
class DescribeQuorumRequestTopicData:
    """Part of DescribeQuorumRequest."""

    topic_name: str = ""
    partitions: list[DescribeQuorumRequestPartitionData] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class DescribeQuorumRequest:
    """Versions 0 to 2."""

    topics: list[DescribeQuorumRequestTopicData] = field(default_factory=list)


def _read_describe_quorum_request_partition_data_v0(r: Reader) -> DescribeQuorumRequestPartitionData:
    (partition_index,) = r.take(_i, "PartitionData.partition_index")
    r.skip_tags("PartitionData")
    return DescribeQuorumRequestPartitionData(partition_index=partition_index)


def _write_describe_quorum_request_partition_data_v0(w: Writer, o: DescribeQuorumRequestPartitionData) -> None:
    w.add(_i.pack(o.partition_index))
    w.add(NO_TAGS)


def _read_describe_quorum_request_topic_data_v0(r: Reader) -> DescribeQuorumRequestTopicData:
    topic_name = r.compact_string("TopicData.topic_name")
    partitions = [
        _read_describe_quorum_request_partition_data_v0(r) for _ in range(r.compact_count(5, "TopicData.partitions"))
    ]
    r.skip_tags("TopicData")
    return DescribeQuorumRequestTopicData(topic_name=topic_name, partitions=partitions)


def _write_describe_quorum_request_topic_data_v0(w: Writer, o: DescribeQuorumRequestTopicData) -> None:
    w.compact_string(o.topic_name, "TopicData.topic_name")
    w.compact_count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_describe_quorum_request_partition_data_v0(w, partitions_item)
    w.add(NO_TAGS)


def _read_describe_quorum_request_v0(r: Reader) -> DescribeQuorumRequest:
    topics = [
        _read_describe_quorum_request_topic_data_v0(r)
        for _ in range(r.compact_count(3, "DescribeQuorumRequest.topics"))
    ]
    r.skip_tags("DescribeQuorumRequest")
    return DescribeQuorumRequest(topics=topics)


def _write_describe_quorum_request_v0(w: Writer, o: DescribeQuorumRequest) -> None:
    w.compact_count(len(o.topics))
    for topics_item in o.topics:
        _write_describe_quorum_request_topic_data_v0(w, topics_item)
    w.add(NO_TAGS)


@dataclass(slots=True, kw_only=True)
class ReplicaState:
    """Part of DescribeQuorumResponse."""

    replica_id: int = 0
    replica_directory_id: bytes = ZERO_UUID  # v2+
    log_end_offset: int = 0
    last_fetch_timestamp: int = -1  # v1+
    last_caught_up_timestamp: int = -1  # v1+


@dataclass(slots=True, kw_only=True)
class DescribeQuorumResponsePartitionData:
    """Part of DescribeQuorumResponse."""

    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = ""  # v2+
    leader_id: int = 0
    leader_epoch: int = 0
    high_watermark: int = 0
    current_voters: list[ReplicaState] = field(default_factory=list)
    observers: list[ReplicaState] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class DescribeQuorumResponseTopicData:
    """Part of DescribeQuorumResponse."""

    topic_name: str = ""
    partitions: list[DescribeQuorumResponsePartitionData] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Listener:
    """Part of DescribeQuorumResponse."""

    name: str = ""  # v2+
    host: str = ""  # v2+
    port: int = 0  # v2+


@dataclass(slots=True, kw_only=True)
class Node:
    """Part of DescribeQuorumResponse."""

    node_id: int = 0  # v2+
    listeners: list[Listener] = field(default_factory=list)  # v2+


@dataclass(slots=True, kw_only=True)
class DescribeQuorumResponse:
    """Versions 0 to 2."""

    error_code: int = 0
    error_message: str | None = ""  # v2+
    topics: list[DescribeQuorumResponseTopicData] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)  # v2+


def _read_replica_state_v0(r: Reader) -> ReplicaState:
    replica_id, log_end_offset = r.take(_iq, "ReplicaState.replica_id,log_end_offset")
    r.skip_tags("ReplicaState")
    return ReplicaState(replica_id=replica_id, log_end_offset=log_end_offset)


def _read_replica_state_v1(r: Reader) -> ReplicaState:
    replica_id, log_end_offset, last_fetch_timestamp, last_caught_up_timestamp = r.take(
        _iqqq, "ReplicaState.replica_id,log_end_offset,last_fetch_timestamp,last_caught_up_timestamp"
    )
    r.skip_tags("ReplicaState")
    return ReplicaState(
        replica_id=replica_id,
        log_end_offset=log_end_offset,
        last_fetch_timestamp=last_fetch_timestamp,
        last_caught_up_timestamp=last_caught_up_timestamp,
    )


def _read_replica_state_v2(r: Reader) -> ReplicaState:
    replica_id, replica_directory_id, log_end_offset, last_fetch_timestamp, last_caught_up_timestamp = r.take(
        _isqqq,
        "ReplicaState.replica_id,replica_directory_id,log_end_offset,last_fetch_timestamp,last_caught_up_timestamp",
    )
    r.skip_tags("ReplicaState")
    return ReplicaState(
        replica_id=replica_id,
        replica_directory_id=replica_directory_id,
        log_end_offset=log_end_offset,
        last_fetch_timestamp=last_fetch_timestamp,
        last_caught_up_timestamp=last_caught_up_timestamp,
    )


def _write_replica_state_v0(w: Writer, o: ReplicaState) -> None:
    if o.replica_directory_id != ZERO_UUID:
        raise w.unsupported("ReplicaState.replica_directory_id")
    w.add(_iq.pack(o.replica_id, o.log_end_offset))
    w.add(NO_TAGS)


def _write_replica_state_v1(w: Writer, o: ReplicaState) -> None:
    if o.replica_directory_id != ZERO_UUID:
        raise w.unsupported("ReplicaState.replica_directory_id")
    w.add(_iqqq.pack(o.replica_id, o.log_end_offset, o.last_fetch_timestamp, o.last_caught_up_timestamp))
    w.add(NO_TAGS)


def _write_replica_state_v2(w: Writer, o: ReplicaState) -> None:
    w.add(
        _isqqq.pack(
            o.replica_id,
            uuid(o.replica_directory_id),
            o.log_end_offset,
            o.last_fetch_timestamp,
            o.last_caught_up_timestamp,
        )
    )
    w.add(NO_TAGS)


def _read_describe_quorum_response_partition_data_v0(r: Reader) -> DescribeQuorumResponsePartitionData:
    partition_index, error_code, leader_id, leader_epoch, high_watermark = r.take(
        _ihiiq, "PartitionData.partition_index,error_code,leader_id,leader_epoch,high_watermark"
    )
    current_voters = [_read_replica_state_v0(r) for _ in range(r.compact_count(13, "PartitionData.current_voters"))]
    observers = [_read_replica_state_v0(r) for _ in range(r.compact_count(13, "PartitionData.observers"))]
    r.skip_tags("PartitionData")
    return DescribeQuorumResponsePartitionData(
        partition_index=partition_index,
        error_code=error_code,
        leader_id=leader_id,
        leader_epoch=leader_epoch,
        high_watermark=high_watermark,
        current_voters=current_voters,
        observers=observers,
    )


def _read_describe_quorum_response_partition_data_v1(r: Reader) -> DescribeQuorumResponsePartitionData:
    partition_index, error_code, leader_id, leader_epoch, high_watermark = r.take(
        _ihiiq, "PartitionData.partition_index,error_code,leader_id,leader_epoch,high_watermark"
    )
    current_voters = [_read_replica_state_v1(r) for _ in range(r.compact_count(29, "PartitionData.current_voters"))]
    observers = [_read_replica_state_v1(r) for _ in range(r.compact_count(29, "PartitionData.observers"))]
    r.skip_tags("PartitionData")
    return DescribeQuorumResponsePartitionData(
        partition_index=partition_index,
        error_code=error_code,
        leader_id=leader_id,
        leader_epoch=leader_epoch,
        high_watermark=high_watermark,
        current_voters=current_voters,
        observers=observers,
    )


def _read_describe_quorum_response_partition_data_v2(r: Reader) -> DescribeQuorumResponsePartitionData:
    partition_index, error_code = r.take(_ih, "PartitionData.partition_index,error_code")
    error_message = r.compact_nullable_string("PartitionData.error_message")
    leader_id, leader_epoch, high_watermark = r.take(_iiq, "PartitionData.leader_id,leader_epoch,high_watermark")
    current_voters = [_read_replica_state_v2(r) for _ in range(r.compact_count(45, "PartitionData.current_voters"))]
    observers = [_read_replica_state_v2(r) for _ in range(r.compact_count(45, "PartitionData.observers"))]
    r.skip_tags("PartitionData")
    return DescribeQuorumResponsePartitionData(
        partition_index=partition_index,
        error_code=error_code,
        error_message=error_message,
        leader_id=leader_id,
        leader_epoch=leader_epoch,
        high_watermark=high_watermark,
        current_voters=current_voters,
        observers=observers,
    )


def _write_describe_quorum_response_partition_data_v0(w: Writer, o: DescribeQuorumResponsePartitionData) -> None:
    w.add(_ihiiq.pack(o.partition_index, o.error_code, o.leader_id, o.leader_epoch, o.high_watermark))
    w.compact_count(len(o.current_voters))
    for current_voters_item in o.current_voters:
        _write_replica_state_v0(w, current_voters_item)
    w.compact_count(len(o.observers))
    for observers_item in o.observers:
        _write_replica_state_v0(w, observers_item)
    w.add(NO_TAGS)


def _write_describe_quorum_response_partition_data_v1(w: Writer, o: DescribeQuorumResponsePartitionData) -> None:
    w.add(_ihiiq.pack(o.partition_index, o.error_code, o.leader_id, o.leader_epoch, o.high_watermark))
    w.compact_count(len(o.current_voters))
    for current_voters_item in o.current_voters:
        _write_replica_state_v1(w, current_voters_item)
    w.compact_count(len(o.observers))
    for observers_item in o.observers:
        _write_replica_state_v1(w, observers_item)
    w.add(NO_TAGS)


def _write_describe_quorum_response_partition_data_v2(w: Writer, o: DescribeQuorumResponsePartitionData) -> None:
    w.add(_ih.pack(o.partition_index, o.error_code))
    w.compact_nullable_string(o.error_message, "PartitionData.error_message")
    w.add(_iiq.pack(o.leader_id, o.leader_epoch, o.high_watermark))
    w.compact_count(len(o.current_voters))
    for current_voters_item in o.current_voters:
        _write_replica_state_v2(w, current_voters_item)
    w.compact_count(len(o.observers))
    for observers_item in o.observers:
        _write_replica_state_v2(w, observers_item)
    w.add(NO_TAGS)


def _read_describe_quorum_response_topic_data_v0(r: Reader) -> DescribeQuorumResponseTopicData:
    topic_name = r.compact_string("TopicData.topic_name")
    partitions = [
        _read_describe_quorum_response_partition_data_v0(r) for _ in range(r.compact_count(25, "TopicData.partitions"))
    ]
    r.skip_tags("TopicData")
    return DescribeQuorumResponseTopicData(topic_name=topic_name, partitions=partitions)


def _read_describe_quorum_response_topic_data_v1(r: Reader) -> DescribeQuorumResponseTopicData:
    topic_name = r.compact_string("TopicData.topic_name")
    partitions = [
        _read_describe_quorum_response_partition_data_v1(r) for _ in range(r.compact_count(25, "TopicData.partitions"))
    ]
    r.skip_tags("TopicData")
    return DescribeQuorumResponseTopicData(topic_name=topic_name, partitions=partitions)


def _read_describe_quorum_response_topic_data_v2(r: Reader) -> DescribeQuorumResponseTopicData:
    topic_name = r.compact_string("TopicData.topic_name")
    partitions = [
        _read_describe_quorum_response_partition_data_v2(r) for _ in range(r.compact_count(26, "TopicData.partitions"))
    ]
    r.skip_tags("TopicData")
    return DescribeQuorumResponseTopicData(topic_name=topic_name, partitions=partitions)


def _write_describe_quorum_response_topic_data_v0(w: Writer, o: DescribeQuorumResponseTopicData) -> None:
    w.compact_string(o.topic_name, "TopicData.topic_name")
    w.compact_count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_describe_quorum_response_partition_data_v0(w, partitions_item)
    w.add(NO_TAGS)


def _write_describe_quorum_response_topic_data_v1(w: Writer, o: DescribeQuorumResponseTopicData) -> None:
    w.compact_string(o.topic_name, "TopicData.topic_name")
    w.compact_count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_describe_quorum_response_partition_data_v1(w, partitions_item)
    w.add(NO_TAGS)


def _write_describe_quorum_response_topic_data_v2(w: Writer, o: DescribeQuorumResponseTopicData) -> None:
    w.compact_string(o.topic_name, "TopicData.topic_name")
    w.compact_count(len(o.partitions))
    for partitions_item in o.partitions:
        _write_describe_quorum_response_partition_data_v2(w, partitions_item)
    w.add(NO_TAGS)


def _read_listener_v2(r: Reader) -> Listener:
    name = r.compact_string("Listener.name")
    host = r.compact_string("Listener.host")
    (port,) = r.take(_H, "Listener.port")
    r.skip_tags("Listener")
    return Listener(name=name, host=host, port=port)


def _write_listener_v2(w: Writer, o: Listener) -> None:
    w.compact_string(o.name, "Listener.name")
    w.compact_string(o.host, "Listener.host")
    w.add(_H.pack(o.port))
    w.add(NO_TAGS)


def _read_node_v2(r: Reader) -> Node:
    (node_id,) = r.take(_i, "Node.node_id")
    listeners = [_read_listener_v2(r) for _ in range(r.compact_count(5, "Node.listeners"))]
    r.skip_tags("Node")
    return Node(node_id=node_id, listeners=listeners)


def _write_node_v2(w: Writer, o: Node) -> None:
    w.add(_i.pack(o.node_id))
    w.compact_count(len(o.listeners))
    for listeners_item in o.listeners:
        _write_listener_v2(w, listeners_item)
    w.add(NO_TAGS)


def _read_describe_quorum_response_v0(r: Reader) -> DescribeQuorumResponse:
    (error_code,) = r.take(_h, "DescribeQuorumResponse.error_code")
    topics = [
        _read_describe_quorum_response_topic_data_v0(r)
        for _ in range(r.compact_count(3, "DescribeQuorumResponse.topics"))
    ]
    r.skip_tags("DescribeQuorumResponse")
    return DescribeQuorumResponse(error_code=error_code, topics=topics)


def _read_describe_quorum_response_v1(r: Reader) -> DescribeQuorumResponse:
    (error_code,) = r.take(_h, "DescribeQuorumResponse.error_code")
    topics = [
        _read_describe_quorum_response_topic_data_v1(r)
        for _ in range(r.compact_count(3, "DescribeQuorumResponse.topics"))
    ]
    r.skip_tags("DescribeQuorumResponse")
    return DescribeQuorumResponse(error_code=error_code, topics=topics)


def _read_describe_quorum_response_v2(r: Reader) -> DescribeQuorumResponse:
    (error_code,) = r.take(_h, "DescribeQuorumResponse.error_code")
    error_message = r.compact_nullable_string("DescribeQuorumResponse.error_message")
    topics = [
        _read_describe_quorum_response_topic_data_v2(r)
        for _ in range(r.compact_count(3, "DescribeQuorumResponse.topics"))
    ]
    nodes = [_read_node_v2(r) for _ in range(r.compact_count(6, "DescribeQuorumResponse.nodes"))]
    r.skip_tags("DescribeQuorumResponse")
    return DescribeQuorumResponse(error_code=error_code, error_message=error_message, topics=topics, nodes=nodes)


def _write_describe_quorum_response_v0(w: Writer, o: DescribeQuorumResponse) -> None:
    if o.nodes:
        raise w.unsupported("DescribeQuorumResponse.nodes")
    w.add(_h.pack(o.error_code))
    w.compact_count(len(o.topics))
    for topics_item in o.topics:
        _write_describe_quorum_response_topic_data_v0(w, topics_item)
    w.add(NO_TAGS)


def _write_describe_quorum_response_v1(w: Writer, o: DescribeQuorumResponse) -> None:
    if o.nodes:
        raise w.unsupported("DescribeQuorumResponse.nodes")
    w.add(_h.pack(o.error_code))
    w.compact_count(len(o.topics))
    for topics_item in o.topics:
        _write_describe_quorum_response_topic_data_v1(w, topics_item)
    w.add(NO_TAGS)


def _write_describe_quorum_response_v2(w: Writer, o: DescribeQuorumResponse) -> None:
    w.add(_h.pack(o.error_code))
    w.compact_nullable_string(o.error_message, "DescribeQuorumResponse.error_message")
    w.compact_count(len(o.topics))
    for topics_item in o.topics:
        _write_describe_quorum_response_topic_data_v2(w, topics_item)
    w.compact_count(len(o.nodes))
    for nodes_item in o.nodes:
        _write_node_v2(w, nodes_item)
    w.add(NO_TAGS)


REQUEST: Final = Codec(
    "DescribeQuorumRequest",
    0,
    (
        _read_describe_quorum_request_v0,
        _read_describe_quorum_request_v0,
        _read_describe_quorum_request_v0,
    ),
    (
        _write_describe_quorum_request_v0,
        _write_describe_quorum_request_v0,
        _write_describe_quorum_request_v0,
    ),
)

RESPONSE: Final = Codec(
    "DescribeQuorumResponse",
    0,
    (
        _read_describe_quorum_response_v0,
        _read_describe_quorum_response_v1,
        _read_describe_quorum_response_v2,
    ),
    (
        _write_describe_quorum_response_v0,
        _write_describe_quorum_response_v1,
        _write_describe_quorum_response_v2,
    ),
)
