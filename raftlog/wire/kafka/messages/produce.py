"""Produce (API 0), versions 3 to 13. Made by scripts/generate_kafka_messages.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from raftlog.wire.kafka.codec import Codec
from raftlog.wire.kafka.reader import Reader
from raftlog.wire.kafka.writer import NO_TAGS, ONE_TAG, ZERO_UUID, Records, Writer, uuid

_s = Struct(">16s")
_hi = Struct(">hi")
_i = Struct(">i")
_ihqq = Struct(">ihqq")
_ihqqq = Struct(">ihqqq")
_ii = Struct(">ii")


@dataclass(slots=True, kw_only=True)
class PartitionProduceData:
    """Part of ProduceRequest."""

    index: int = 0
    records: Records = None


@dataclass(slots=True, kw_only=True)
class TopicProduceData:
    """Part of ProduceRequest."""

    name: str = ""  # v0-12
    topic_id: bytes = ZERO_UUID  # v13+
    partition_data: list[PartitionProduceData] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class ProduceRequest:
    """Versions 3 to 13."""

    transactional_id: str | None = None
    acks: int = 0
    timeout_ms: int = 0
    topic_data: list[TopicProduceData] = field(default_factory=list)


def _read_partition_produce_data_v3(r: Reader) -> PartitionProduceData:
    (index,) = r.take(_i, "PartitionProduceData.index")
    records = r.nullable_records("PartitionProduceData.records")
    return PartitionProduceData(index=index, records=records)


def _read_partition_produce_data_v9(r: Reader) -> PartitionProduceData:
    (index,) = r.take(_i, "PartitionProduceData.index")
    records = r.compact_nullable_records("PartitionProduceData.records")
    r.skip_tags("PartitionProduceData")
    return PartitionProduceData(index=index, records=records)


def _write_partition_produce_data_v3(w: Writer, o: PartitionProduceData) -> None:
    w.add(_i.pack(o.index))
    w.nullable_records(o.records, "PartitionProduceData.records")


def _write_partition_produce_data_v9(w: Writer, o: PartitionProduceData) -> None:
    w.add(_i.pack(o.index))
    w.compact_nullable_records(o.records, "PartitionProduceData.records")
    w.add(NO_TAGS)


def _read_topic_produce_data_v3(r: Reader) -> TopicProduceData:
    name = r.string("TopicProduceData.name")
    partition_data = [_read_partition_produce_data_v3(r) for _ in range(r.count(8, "TopicProduceData.partition_data"))]
    return TopicProduceData(name=name, partition_data=partition_data)


def _read_topic_produce_data_v9(r: Reader) -> TopicProduceData:
    name = r.compact_string("TopicProduceData.name")
    partition_data = [
        _read_partition_produce_data_v9(r) for _ in range(r.compact_count(6, "TopicProduceData.partition_data"))
    ]
    r.skip_tags("TopicProduceData")
    return TopicProduceData(name=name, partition_data=partition_data)


def _read_topic_produce_data_v13(r: Reader) -> TopicProduceData:
    (topic_id,) = r.take(_s, "TopicProduceData.topic_id")
    partition_data = [
        _read_partition_produce_data_v9(r) for _ in range(r.compact_count(6, "TopicProduceData.partition_data"))
    ]
    r.skip_tags("TopicProduceData")
    return TopicProduceData(topic_id=topic_id, partition_data=partition_data)


def _write_topic_produce_data_v3(w: Writer, o: TopicProduceData) -> None:
    w.string(o.name, "TopicProduceData.name")
    w.count(len(o.partition_data))
    for partition_data_item in o.partition_data:
        _write_partition_produce_data_v3(w, partition_data_item)


def _write_topic_produce_data_v9(w: Writer, o: TopicProduceData) -> None:
    w.compact_string(o.name, "TopicProduceData.name")
    w.compact_count(len(o.partition_data))
    for partition_data_item in o.partition_data:
        _write_partition_produce_data_v9(w, partition_data_item)
    w.add(NO_TAGS)


def _write_topic_produce_data_v13(w: Writer, o: TopicProduceData) -> None:
    w.add(_s.pack(uuid(o.topic_id)))
    w.compact_count(len(o.partition_data))
    for partition_data_item in o.partition_data:
        _write_partition_produce_data_v9(w, partition_data_item)
    w.add(NO_TAGS)


def _read_produce_request_v3(r: Reader) -> ProduceRequest:
    transactional_id = r.nullable_string("ProduceRequest.transactional_id")
    acks, timeout_ms = r.take(_hi, "ProduceRequest.acks,timeout_ms")
    topic_data = [_read_topic_produce_data_v3(r) for _ in range(r.count(6, "ProduceRequest.topic_data"))]
    return ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=timeout_ms, topic_data=topic_data)


def _read_produce_request_v9(r: Reader) -> ProduceRequest:
    transactional_id = r.compact_nullable_string("ProduceRequest.transactional_id")
    acks, timeout_ms = r.take(_hi, "ProduceRequest.acks,timeout_ms")
    topic_data = [_read_topic_produce_data_v9(r) for _ in range(r.compact_count(3, "ProduceRequest.topic_data"))]
    r.skip_tags("ProduceRequest")
    return ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=timeout_ms, topic_data=topic_data)


def _read_produce_request_v13(r: Reader) -> ProduceRequest:
    transactional_id = r.compact_nullable_string("ProduceRequest.transactional_id")
    acks, timeout_ms = r.take(_hi, "ProduceRequest.acks,timeout_ms")
    topic_data = [_read_topic_produce_data_v13(r) for _ in range(r.compact_count(18, "ProduceRequest.topic_data"))]
    r.skip_tags("ProduceRequest")
    return ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=timeout_ms, topic_data=topic_data)


def _write_produce_request_v3(w: Writer, o: ProduceRequest) -> None:
    w.nullable_string(o.transactional_id, "ProduceRequest.transactional_id")
    w.add(_hi.pack(o.acks, o.timeout_ms))
    w.count(len(o.topic_data))
    for topic_data_item in o.topic_data:
        _write_topic_produce_data_v3(w, topic_data_item)


def _write_produce_request_v9(w: Writer, o: ProduceRequest) -> None:
    w.compact_nullable_string(o.transactional_id, "ProduceRequest.transactional_id")
    w.add(_hi.pack(o.acks, o.timeout_ms))
    w.compact_count(len(o.topic_data))
    for topic_data_item in o.topic_data:
        _write_topic_produce_data_v9(w, topic_data_item)
    w.add(NO_TAGS)


def _write_produce_request_v13(w: Writer, o: ProduceRequest) -> None:
    w.compact_nullable_string(o.transactional_id, "ProduceRequest.transactional_id")
    w.add(_hi.pack(o.acks, o.timeout_ms))
    w.compact_count(len(o.topic_data))
    for topic_data_item in o.topic_data:
        _write_topic_produce_data_v13(w, topic_data_item)
    w.add(NO_TAGS)


@dataclass(slots=True, kw_only=True)
class BatchIndexAndErrorMessage:
    """Part of ProduceResponse."""

    batch_index: int = 0  # v8+
    batch_index_error_message: str | None = None  # v8+


@dataclass(slots=True, kw_only=True)
class LeaderIdAndEpoch:
    """Part of ProduceResponse."""

    leader_id: int = -1  # v10+
    leader_epoch: int = -1  # v10+


@dataclass(slots=True, kw_only=True)
class PartitionProduceResponse:
    """Part of ProduceResponse."""

    index: int = 0
    error_code: int = 0
    base_offset: int = 0
    log_append_time_ms: int = -1
    log_start_offset: int = -1  # v5+
    record_errors: list[BatchIndexAndErrorMessage] = field(default_factory=list)  # v8+
    error_message: str | None = None  # v8+
    current_leader: LeaderIdAndEpoch | None = None  # v10+, tag 0


@dataclass(slots=True, kw_only=True)
class TopicProduceResponse:
    """Part of ProduceResponse."""

    name: str = ""  # v0-12
    topic_id: bytes = ZERO_UUID  # v13+
    partition_responses: list[PartitionProduceResponse] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class NodeEndpoint:
    """Part of ProduceResponse."""

    node_id: int = 0  # v10+
    host: str = ""  # v10+
    port: int = 0  # v10+
    rack: str | None = None  # v10+


@dataclass(slots=True, kw_only=True)
class ProduceResponse:
    """Versions 3 to 13."""

    responses: list[TopicProduceResponse] = field(default_factory=list)
    throttle_time_ms: int = 0
    node_endpoints: list[NodeEndpoint] = field(default_factory=list)  # v10+, tag 0


def _read_batch_index_and_error_message_v8(r: Reader) -> BatchIndexAndErrorMessage:
    (batch_index,) = r.take(_i, "BatchIndexAndErrorMessage.batch_index")
    batch_index_error_message = r.nullable_string("BatchIndexAndErrorMessage.batch_index_error_message")
    return BatchIndexAndErrorMessage(batch_index=batch_index, batch_index_error_message=batch_index_error_message)


def _read_batch_index_and_error_message_v9(r: Reader) -> BatchIndexAndErrorMessage:
    (batch_index,) = r.take(_i, "BatchIndexAndErrorMessage.batch_index")
    batch_index_error_message = r.compact_nullable_string("BatchIndexAndErrorMessage.batch_index_error_message")
    r.skip_tags("BatchIndexAndErrorMessage")
    return BatchIndexAndErrorMessage(batch_index=batch_index, batch_index_error_message=batch_index_error_message)


def _write_batch_index_and_error_message_v8(w: Writer, o: BatchIndexAndErrorMessage) -> None:
    w.add(_i.pack(o.batch_index))
    w.nullable_string(o.batch_index_error_message, "BatchIndexAndErrorMessage.batch_index_error_message")


def _write_batch_index_and_error_message_v9(w: Writer, o: BatchIndexAndErrorMessage) -> None:
    w.add(_i.pack(o.batch_index))
    w.compact_nullable_string(o.batch_index_error_message, "BatchIndexAndErrorMessage.batch_index_error_message")
    w.add(NO_TAGS)


def _read_leader_id_and_epoch_v10(r: Reader) -> LeaderIdAndEpoch:
    leader_id, leader_epoch = r.take(_ii, "LeaderIdAndEpoch.leader_id,leader_epoch")
    r.skip_tags("LeaderIdAndEpoch")
    return LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)


def _write_leader_id_and_epoch_v10(w: Writer, o: LeaderIdAndEpoch) -> None:
    w.add(_ii.pack(o.leader_id, o.leader_epoch))
    w.add(NO_TAGS)


def _read_partition_produce_response_v3(r: Reader) -> PartitionProduceResponse:
    index, error_code, base_offset, log_append_time_ms = r.take(
        _ihqq, "PartitionProduceResponse.index,error_code,base_offset,log_append_time_ms"
    )
    return PartitionProduceResponse(
        index=index, error_code=error_code, base_offset=base_offset, log_append_time_ms=log_append_time_ms
    )


def _read_partition_produce_response_v5(r: Reader) -> PartitionProduceResponse:
    index, error_code, base_offset, log_append_time_ms, log_start_offset = r.take(
        _ihqqq, "PartitionProduceResponse.index,error_code,base_offset,log_append_time_ms,log_start_offset"
    )
    return PartitionProduceResponse(
        index=index,
        error_code=error_code,
        base_offset=base_offset,
        log_append_time_ms=log_append_time_ms,
        log_start_offset=log_start_offset,
    )


def _read_partition_produce_response_v8(r: Reader) -> PartitionProduceResponse:
    index, error_code, base_offset, log_append_time_ms, log_start_offset = r.take(
        _ihqqq, "PartitionProduceResponse.index,error_code,base_offset,log_append_time_ms,log_start_offset"
    )
    record_errors = [
        _read_batch_index_and_error_message_v8(r) for _ in range(r.count(6, "PartitionProduceResponse.record_errors"))
    ]
    error_message = r.nullable_string("PartitionProduceResponse.error_message")
    return PartitionProduceResponse(
        index=index,
        error_code=error_code,
        base_offset=base_offset,
        log_append_time_ms=log_append_time_ms,
        log_start_offset=log_start_offset,
        record_errors=record_errors,
        error_message=error_message,
    )


def _read_partition_produce_response_v9(r: Reader) -> PartitionProduceResponse:
    index, error_code, base_offset, log_append_time_ms, log_start_offset = r.take(
        _ihqqq, "PartitionProduceResponse.index,error_code,base_offset,log_append_time_ms,log_start_offset"
    )
    record_errors = [
        _read_batch_index_and_error_message_v9(r)
        for _ in range(r.compact_count(6, "PartitionProduceResponse.record_errors"))
    ]
    error_message = r.compact_nullable_string("PartitionProduceResponse.error_message")
    r.skip_tags("PartitionProduceResponse")
    return PartitionProduceResponse(
        index=index,
        error_code=error_code,
        base_offset=base_offset,
        log_append_time_ms=log_append_time_ms,
        log_start_offset=log_start_offset,
        record_errors=record_errors,
        error_message=error_message,
    )


def _read_partition_produce_response_v10(r: Reader) -> PartitionProduceResponse:
    index, error_code, base_offset, log_append_time_ms, log_start_offset = r.take(
        _ihqqq, "PartitionProduceResponse.index,error_code,base_offset,log_append_time_ms,log_start_offset"
    )
    record_errors = [
        _read_batch_index_and_error_message_v9(r)
        for _ in range(r.compact_count(6, "PartitionProduceResponse.record_errors"))
    ]
    error_message = r.compact_nullable_string("PartitionProduceResponse.error_message")
    o = PartitionProduceResponse(
        index=index,
        error_code=error_code,
        base_offset=base_offset,
        log_append_time_ms=log_append_time_ms,
        log_start_offset=log_start_offset,
        record_errors=record_errors,
        error_message=error_message,
    )
    for _ in range(r.tag_count("PartitionProduceResponse")):
        tag, end = r.tag("PartitionProduceResponse")
        if tag == 0:
            o.current_leader = _read_leader_id_and_epoch_v10(r)
            r.end_tag(end, "PartitionProduceResponse.current_leader")
        else:
            r.at = end
    return o


def _write_partition_produce_response_v3(w: Writer, o: PartitionProduceResponse) -> None:
    if o.current_leader is not None:
        raise w.unsupported("PartitionProduceResponse.current_leader")
    w.add(_ihqq.pack(o.index, o.error_code, o.base_offset, o.log_append_time_ms))


def _write_partition_produce_response_v5(w: Writer, o: PartitionProduceResponse) -> None:
    if o.current_leader is not None:
        raise w.unsupported("PartitionProduceResponse.current_leader")
    w.add(_ihqqq.pack(o.index, o.error_code, o.base_offset, o.log_append_time_ms, o.log_start_offset))


def _write_partition_produce_response_v8(w: Writer, o: PartitionProduceResponse) -> None:
    if o.current_leader is not None:
        raise w.unsupported("PartitionProduceResponse.current_leader")
    w.add(_ihqqq.pack(o.index, o.error_code, o.base_offset, o.log_append_time_ms, o.log_start_offset))
    w.count(len(o.record_errors))
    for record_errors_item in o.record_errors:
        _write_batch_index_and_error_message_v8(w, record_errors_item)
    w.nullable_string(o.error_message, "PartitionProduceResponse.error_message")


def _write_partition_produce_response_v9(w: Writer, o: PartitionProduceResponse) -> None:
    if o.current_leader is not None:
        raise w.unsupported("PartitionProduceResponse.current_leader")
    w.add(_ihqqq.pack(o.index, o.error_code, o.base_offset, o.log_append_time_ms, o.log_start_offset))
    w.compact_count(len(o.record_errors))
    for record_errors_item in o.record_errors:
        _write_batch_index_and_error_message_v9(w, record_errors_item)
    w.compact_nullable_string(o.error_message, "PartitionProduceResponse.error_message")
    w.add(NO_TAGS)


def _write_partition_produce_response_v10(w: Writer, o: PartitionProduceResponse) -> None:
    w.add(_ihqqq.pack(o.index, o.error_code, o.base_offset, o.log_append_time_ms, o.log_start_offset))
    w.compact_count(len(o.record_errors))
    for record_errors_item in o.record_errors:
        _write_batch_index_and_error_message_v9(w, record_errors_item)
    w.compact_nullable_string(o.error_message, "PartitionProduceResponse.error_message")
    if o.current_leader is not None:
        w.add(ONE_TAG)
        mark = w.begin_tag(0)
        _write_leader_id_and_epoch_v10(w, o.current_leader)
        w.end_tag(mark)
    else:
        w.add(NO_TAGS)


def _read_topic_produce_response_v3(r: Reader) -> TopicProduceResponse:
    name = r.string("TopicProduceResponse.name")
    partition_responses = [
        _read_partition_produce_response_v3(r) for _ in range(r.count(22, "TopicProduceResponse.partition_responses"))
    ]
    return TopicProduceResponse(name=name, partition_responses=partition_responses)


def _read_topic_produce_response_v5(r: Reader) -> TopicProduceResponse:
    name = r.string("TopicProduceResponse.name")
    partition_responses = [
        _read_partition_produce_response_v5(r) for _ in range(r.count(30, "TopicProduceResponse.partition_responses"))
    ]
    return TopicProduceResponse(name=name, partition_responses=partition_responses)


def _read_topic_produce_response_v8(r: Reader) -> TopicProduceResponse:
    name = r.string("TopicProduceResponse.name")
    partition_responses = [
        _read_partition_produce_response_v8(r) for _ in range(r.count(36, "TopicProduceResponse.partition_responses"))
    ]
    return TopicProduceResponse(name=name, partition_responses=partition_responses)


def _read_topic_produce_response_v9(r: Reader) -> TopicProduceResponse:
    name = r.compact_string("TopicProduceResponse.name")
    partition_responses = [
        _read_partition_produce_response_v9(r)
        for _ in range(r.compact_count(33, "TopicProduceResponse.partition_responses"))
    ]
    r.skip_tags("TopicProduceResponse")
    return TopicProduceResponse(name=name, partition_responses=partition_responses)


def _read_topic_produce_response_v10(r: Reader) -> TopicProduceResponse:
    name = r.compact_string("TopicProduceResponse.name")
    partition_responses = [
        _read_partition_produce_response_v10(r)
        for _ in range(r.compact_count(33, "TopicProduceResponse.partition_responses"))
    ]
    r.skip_tags("TopicProduceResponse")
    return TopicProduceResponse(name=name, partition_responses=partition_responses)


def _read_topic_produce_response_v13(r: Reader) -> TopicProduceResponse:
    (topic_id,) = r.take(_s, "TopicProduceResponse.topic_id")
    partition_responses = [
        _read_partition_produce_response_v10(r)
        for _ in range(r.compact_count(33, "TopicProduceResponse.partition_responses"))
    ]
    r.skip_tags("TopicProduceResponse")
    return TopicProduceResponse(topic_id=topic_id, partition_responses=partition_responses)


def _write_topic_produce_response_v3(w: Writer, o: TopicProduceResponse) -> None:
    w.string(o.name, "TopicProduceResponse.name")
    w.count(len(o.partition_responses))
    for partition_responses_item in o.partition_responses:
        _write_partition_produce_response_v3(w, partition_responses_item)


def _write_topic_produce_response_v5(w: Writer, o: TopicProduceResponse) -> None:
    w.string(o.name, "TopicProduceResponse.name")
    w.count(len(o.partition_responses))
    for partition_responses_item in o.partition_responses:
        _write_partition_produce_response_v5(w, partition_responses_item)


def _write_topic_produce_response_v8(w: Writer, o: TopicProduceResponse) -> None:
    w.string(o.name, "TopicProduceResponse.name")
    w.count(len(o.partition_responses))
    for partition_responses_item in o.partition_responses:
        _write_partition_produce_response_v8(w, partition_responses_item)


def _write_topic_produce_response_v9(w: Writer, o: TopicProduceResponse) -> None:
    w.compact_string(o.name, "TopicProduceResponse.name")
    w.compact_count(len(o.partition_responses))
    for partition_responses_item in o.partition_responses:
        _write_partition_produce_response_v9(w, partition_responses_item)
    w.add(NO_TAGS)


def _write_topic_produce_response_v10(w: Writer, o: TopicProduceResponse) -> None:
    w.compact_string(o.name, "TopicProduceResponse.name")
    w.compact_count(len(o.partition_responses))
    for partition_responses_item in o.partition_responses:
        _write_partition_produce_response_v10(w, partition_responses_item)
    w.add(NO_TAGS)


def _write_topic_produce_response_v13(w: Writer, o: TopicProduceResponse) -> None:
    w.add(_s.pack(uuid(o.topic_id)))
    w.compact_count(len(o.partition_responses))
    for partition_responses_item in o.partition_responses:
        _write_partition_produce_response_v10(w, partition_responses_item)
    w.add(NO_TAGS)


def _read_node_endpoint_v10(r: Reader) -> NodeEndpoint:
    (node_id,) = r.take(_i, "NodeEndpoint.node_id")
    host = r.compact_string("NodeEndpoint.host")
    (port,) = r.take(_i, "NodeEndpoint.port")
    rack = r.compact_nullable_string("NodeEndpoint.rack")
    r.skip_tags("NodeEndpoint")
    return NodeEndpoint(node_id=node_id, host=host, port=port, rack=rack)


def _write_node_endpoint_v10(w: Writer, o: NodeEndpoint) -> None:
    w.add(_i.pack(o.node_id))
    w.compact_string(o.host, "NodeEndpoint.host")
    w.add(_i.pack(o.port))
    w.compact_nullable_string(o.rack, "NodeEndpoint.rack")
    w.add(NO_TAGS)


def _read_produce_response_v3(r: Reader) -> ProduceResponse:
    responses = [_read_topic_produce_response_v3(r) for _ in range(r.count(6, "ProduceResponse.responses"))]
    (throttle_time_ms,) = r.take(_i, "ProduceResponse.throttle_time_ms")
    return ProduceResponse(responses=responses, throttle_time_ms=throttle_time_ms)


def _read_produce_response_v5(r: Reader) -> ProduceResponse:
    responses = [_read_topic_produce_response_v5(r) for _ in range(r.count(6, "ProduceResponse.responses"))]
    (throttle_time_ms,) = r.take(_i, "ProduceResponse.throttle_time_ms")
    return ProduceResponse(responses=responses, throttle_time_ms=throttle_time_ms)


def _read_produce_response_v8(r: Reader) -> ProduceResponse:
    responses = [_read_topic_produce_response_v8(r) for _ in range(r.count(6, "ProduceResponse.responses"))]
    (throttle_time_ms,) = r.take(_i, "ProduceResponse.throttle_time_ms")
    return ProduceResponse(responses=responses, throttle_time_ms=throttle_time_ms)


def _read_produce_response_v9(r: Reader) -> ProduceResponse:
    responses = [_read_topic_produce_response_v9(r) for _ in range(r.compact_count(3, "ProduceResponse.responses"))]
    (throttle_time_ms,) = r.take(_i, "ProduceResponse.throttle_time_ms")
    r.skip_tags("ProduceResponse")
    return ProduceResponse(responses=responses, throttle_time_ms=throttle_time_ms)


def _read_produce_response_v10(r: Reader) -> ProduceResponse:
    responses = [_read_topic_produce_response_v10(r) for _ in range(r.compact_count(3, "ProduceResponse.responses"))]
    (throttle_time_ms,) = r.take(_i, "ProduceResponse.throttle_time_ms")
    o = ProduceResponse(responses=responses, throttle_time_ms=throttle_time_ms)
    for _ in range(r.tag_count("ProduceResponse")):
        tag, end = r.tag("ProduceResponse")
        if tag == 0:
            o.node_endpoints = [
                _read_node_endpoint_v10(r) for _ in range(r.compact_count(11, "ProduceResponse.node_endpoints"))
            ]
            r.end_tag(end, "ProduceResponse.node_endpoints")
        else:
            r.at = end
    return o


def _read_produce_response_v13(r: Reader) -> ProduceResponse:
    responses = [_read_topic_produce_response_v13(r) for _ in range(r.compact_count(18, "ProduceResponse.responses"))]
    (throttle_time_ms,) = r.take(_i, "ProduceResponse.throttle_time_ms")
    o = ProduceResponse(responses=responses, throttle_time_ms=throttle_time_ms)
    for _ in range(r.tag_count("ProduceResponse")):
        tag, end = r.tag("ProduceResponse")
        if tag == 0:
            o.node_endpoints = [
                _read_node_endpoint_v10(r) for _ in range(r.compact_count(11, "ProduceResponse.node_endpoints"))
            ]
            r.end_tag(end, "ProduceResponse.node_endpoints")
        else:
            r.at = end
    return o


def _write_produce_response_v3(w: Writer, o: ProduceResponse) -> None:
    if o.node_endpoints:
        raise w.unsupported("ProduceResponse.node_endpoints")
    w.count(len(o.responses))
    for responses_item in o.responses:
        _write_topic_produce_response_v3(w, responses_item)
    w.add(_i.pack(o.throttle_time_ms))


def _write_produce_response_v5(w: Writer, o: ProduceResponse) -> None:
    if o.node_endpoints:
        raise w.unsupported("ProduceResponse.node_endpoints")
    w.count(len(o.responses))
    for responses_item in o.responses:
        _write_topic_produce_response_v5(w, responses_item)
    w.add(_i.pack(o.throttle_time_ms))


def _write_produce_response_v8(w: Writer, o: ProduceResponse) -> None:
    if o.node_endpoints:
        raise w.unsupported("ProduceResponse.node_endpoints")
    w.count(len(o.responses))
    for responses_item in o.responses:
        _write_topic_produce_response_v8(w, responses_item)
    w.add(_i.pack(o.throttle_time_ms))


def _write_produce_response_v9(w: Writer, o: ProduceResponse) -> None:
    if o.node_endpoints:
        raise w.unsupported("ProduceResponse.node_endpoints")
    w.compact_count(len(o.responses))
    for responses_item in o.responses:
        _write_topic_produce_response_v9(w, responses_item)
    w.add(_i.pack(o.throttle_time_ms))
    w.add(NO_TAGS)


def _write_produce_response_v10(w: Writer, o: ProduceResponse) -> None:
    w.compact_count(len(o.responses))
    for responses_item in o.responses:
        _write_topic_produce_response_v10(w, responses_item)
    w.add(_i.pack(o.throttle_time_ms))
    if o.node_endpoints:
        w.add(ONE_TAG)
        mark = w.begin_tag(0)
        w.compact_count(len(o.node_endpoints))
        for node_endpoints_item in o.node_endpoints:
            _write_node_endpoint_v10(w, node_endpoints_item)
        w.end_tag(mark)
    else:
        w.add(NO_TAGS)


def _write_produce_response_v13(w: Writer, o: ProduceResponse) -> None:
    w.compact_count(len(o.responses))
    for responses_item in o.responses:
        _write_topic_produce_response_v13(w, responses_item)
    w.add(_i.pack(o.throttle_time_ms))
    if o.node_endpoints:
        w.add(ONE_TAG)
        mark = w.begin_tag(0)
        w.compact_count(len(o.node_endpoints))
        for node_endpoints_item in o.node_endpoints:
            _write_node_endpoint_v10(w, node_endpoints_item)
        w.end_tag(mark)
    else:
        w.add(NO_TAGS)


REQUEST: Final = Codec(
    "ProduceRequest",
    3,
    (
        _read_produce_request_v3,
        _read_produce_request_v3,
        _read_produce_request_v3,
        _read_produce_request_v3,
        _read_produce_request_v3,
        _read_produce_request_v3,
        _read_produce_request_v9,
        _read_produce_request_v9,
        _read_produce_request_v9,
        _read_produce_request_v9,
        _read_produce_request_v13,
    ),
    (
        _write_produce_request_v3,
        _write_produce_request_v3,
        _write_produce_request_v3,
        _write_produce_request_v3,
        _write_produce_request_v3,
        _write_produce_request_v3,
        _write_produce_request_v9,
        _write_produce_request_v9,
        _write_produce_request_v9,
        _write_produce_request_v9,
        _write_produce_request_v13,
    ),
)

RESPONSE: Final = Codec(
    "ProduceResponse",
    3,
    (
        _read_produce_response_v3,
        _read_produce_response_v3,
        _read_produce_response_v5,
        _read_produce_response_v5,
        _read_produce_response_v5,
        _read_produce_response_v8,
        _read_produce_response_v9,
        _read_produce_response_v10,
        _read_produce_response_v10,
        _read_produce_response_v10,
        _read_produce_response_v13,
    ),
    (
        _write_produce_response_v3,
        _write_produce_response_v3,
        _write_produce_response_v5,
        _write_produce_response_v5,
        _write_produce_response_v5,
        _write_produce_response_v8,
        _write_produce_response_v9,
        _write_produce_response_v10,
        _write_produce_response_v10,
        _write_produce_response_v10,
        _write_produce_response_v13,
    ),
)
