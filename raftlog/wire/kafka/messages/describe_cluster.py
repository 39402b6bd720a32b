"""DescribeCluster (API 60), versions 0 to 2. Made by scripts/generate_kafka_messages.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from raftlog.wire.kafka.codec import Codec
from raftlog.wire.kafka.reader import Reader
from raftlog.wire.kafka.writer import NO_TAGS, Writer

_o = Struct(">?")
_ob = Struct(">?b")
_obo = Struct(">?b?")
_b = Struct(">b")
_i = Struct(">i")
_ih = Struct(">ih")


@dataclass(slots=True, kw_only=True)
class DescribeClusterRequest:
    """Versions 0 to 2."""

    include_cluster_authorized_operations: bool = False
    endpoint_type: int = 1  # v1+
    include_fenced_brokers: bool = False  # v2+


def _read_describe_cluster_request_v0(r: Reader) -> DescribeClusterRequest:
    (include_cluster_authorized_operations,) = r.take(
        _o, "DescribeClusterRequest.include_cluster_authorized_operations"
    )
    r.skip_tags("DescribeClusterRequest")
    return DescribeClusterRequest(include_cluster_authorized_operations=include_cluster_authorized_operations)


def _read_describe_cluster_request_v1(r: Reader) -> DescribeClusterRequest:
    include_cluster_authorized_operations, endpoint_type = r.take(
        _ob, "DescribeClusterRequest.include_cluster_authorized_operations,endpoint_type"
    )
    r.skip_tags("DescribeClusterRequest")
    return DescribeClusterRequest(
        include_cluster_authorized_operations=include_cluster_authorized_operations, endpoint_type=endpoint_type
    )


def _read_describe_cluster_request_v2(r: Reader) -> DescribeClusterRequest:
    include_cluster_authorized_operations, endpoint_type, include_fenced_brokers = r.take(
        _obo, "DescribeClusterRequest.include_cluster_authorized_operations,endpoint_type,include_fenced_brokers"
    )
    r.skip_tags("DescribeClusterRequest")
    return DescribeClusterRequest(
        include_cluster_authorized_operations=include_cluster_authorized_operations,
        endpoint_type=endpoint_type,
        include_fenced_brokers=include_fenced_brokers,
    )


def _write_describe_cluster_request_v0(w: Writer, o: DescribeClusterRequest) -> None:
    if o.endpoint_type != 1:
        raise w.unsupported("DescribeClusterRequest.endpoint_type")
    if o.include_fenced_brokers:
        raise w.unsupported("DescribeClusterRequest.include_fenced_brokers")
    w.add(_o.pack(o.include_cluster_authorized_operations))
    w.add(NO_TAGS)


def _write_describe_cluster_request_v1(w: Writer, o: DescribeClusterRequest) -> None:
    if o.include_fenced_brokers:
        raise w.unsupported("DescribeClusterRequest.include_fenced_brokers")
    w.add(_ob.pack(o.include_cluster_authorized_operations, o.endpoint_type))
    w.add(NO_TAGS)


def _write_describe_cluster_request_v2(w: Writer, o: DescribeClusterRequest) -> None:
    w.add(_obo.pack(o.include_cluster_authorized_operations, o.endpoint_type, o.include_fenced_brokers))
    w.add(NO_TAGS)


@dataclass(slots=True, kw_only=True)
class DescribeClusterBroker:
    """Part of DescribeClusterResponse."""

    broker_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None
    is_fenced: bool = False  # v2+


@dataclass(slots=True, kw_only=True)
class DescribeClusterResponse:
    """Versions 0 to 2."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    endpoint_type: int = 1  # v1+
    cluster_id: str = ""
    controller_id: int = -1
    brokers: list[DescribeClusterBroker] = field(default_factory=list)
    cluster_authorized_operations: int = -2147483648


def _read_describe_cluster_broker_v0(r: Reader) -> DescribeClusterBroker:
    (broker_id,) = r.take(_i, "DescribeClusterBroker.broker_id")
    host = r.compact_string("DescribeClusterBroker.host")
    (port,) = r.take(_i, "DescribeClusterBroker.port")
    rack = r.compact_nullable_string("DescribeClusterBroker.rack")
    r.skip_tags("DescribeClusterBroker")
    return DescribeClusterBroker(broker_id=broker_id, host=host, port=port, rack=rack)


def _read_describe_cluster_broker_v2(r: Reader) -> DescribeClusterBroker:
    (broker_id,) = r.take(_i, "DescribeClusterBroker.broker_id")
    host = r.compact_string("DescribeClusterBroker.host")
    (port,) = r.take(_i, "DescribeClusterBroker.port")
    rack = r.compact_nullable_string("DescribeClusterBroker.rack")
    (is_fenced,) = r.take(_o, "DescribeClusterBroker.is_fenced")
    r.skip_tags("DescribeClusterBroker")
    return DescribeClusterBroker(broker_id=broker_id, host=host, port=port, rack=rack, is_fenced=is_fenced)


def _write_describe_cluster_broker_v0(w: Writer, o: DescribeClusterBroker) -> None:
    if o.is_fenced:
        raise w.unsupported("DescribeClusterBroker.is_fenced")
    w.add(_i.pack(o.broker_id))
    w.compact_string(o.host, "DescribeClusterBroker.host")
    w.add(_i.pack(o.port))
    w.compact_nullable_string(o.rack, "DescribeClusterBroker.rack")
    w.add(NO_TAGS)


def _write_describe_cluster_broker_v2(w: Writer, o: DescribeClusterBroker) -> None:
    w.add(_i.pack(o.broker_id))
    w.compact_string(o.host, "DescribeClusterBroker.host")
    w.add(_i.pack(o.port))
    w.compact_nullable_string(o.rack, "DescribeClusterBroker.rack")
    w.add(_o.pack(o.is_fenced))
    w.add(NO_TAGS)


def _read_describe_cluster_response_v0(r: Reader) -> DescribeClusterResponse:
    throttle_time_ms, error_code = r.take(_ih, "DescribeClusterResponse.throttle_time_ms,error_code")
    error_message = r.compact_nullable_string("DescribeClusterResponse.error_message")
    cluster_id = r.compact_string("DescribeClusterResponse.cluster_id")
    (controller_id,) = r.take(_i, "DescribeClusterResponse.controller_id")
    brokers = [
        _read_describe_cluster_broker_v0(r) for _ in range(r.compact_count(11, "DescribeClusterResponse.brokers"))
    ]
    (cluster_authorized_operations,) = r.take(_i, "DescribeClusterResponse.cluster_authorized_operations")
    r.skip_tags("DescribeClusterResponse")
    return DescribeClusterResponse(
        throttle_time_ms=throttle_time_ms,
        error_code=error_code,
        error_message=error_message,
        cluster_id=cluster_id,
        controller_id=controller_id,
        brokers=brokers,
        cluster_authorized_operations=cluster_authorized_operations,
    )


def _read_describe_cluster_response_v1(r: Reader) -> DescribeClusterResponse:
    throttle_time_ms, error_code = r.take(_ih, "DescribeClusterResponse.throttle_time_ms,error_code")
    error_message = r.compact_nullable_string("DescribeClusterResponse.error_message")
    (endpoint_type,) = r.take(_b, "DescribeClusterResponse.endpoint_type")
    cluster_id = r.compact_string("DescribeClusterResponse.cluster_id")
    (controller_id,) = r.take(_i, "DescribeClusterResponse.controller_id")
    brokers = [
        _read_describe_cluster_broker_v0(r) for _ in range(r.compact_count(11, "DescribeClusterResponse.brokers"))
    ]
    (cluster_authorized_operations,) = r.take(_i, "DescribeClusterResponse.cluster_authorized_operations")
    r.skip_tags("DescribeClusterResponse")
    return DescribeClusterResponse(
        throttle_time_ms=throttle_time_ms,
        error_code=error_code,
        error_message=error_message,
        endpoint_type=endpoint_type,
        cluster_id=cluster_id,
        controller_id=controller_id,
        brokers=brokers,
        cluster_authorized_operations=cluster_authorized_operations,
    )


def _read_describe_cluster_response_v2(r: Reader) -> DescribeClusterResponse:
    throttle_time_ms, error_code = r.take(_ih, "DescribeClusterResponse.throttle_time_ms,error_code")
    error_message = r.compact_nullable_string("DescribeClusterResponse.error_message")
    (endpoint_type,) = r.take(_b, "DescribeClusterResponse.endpoint_type")
    cluster_id = r.compact_string("DescribeClusterResponse.cluster_id")
    (controller_id,) = r.take(_i, "DescribeClusterResponse.controller_id")
    brokers = [
        _read_describe_cluster_broker_v2(r) for _ in range(r.compact_count(12, "DescribeClusterResponse.brokers"))
    ]
    (cluster_authorized_operations,) = r.take(_i, "DescribeClusterResponse.cluster_authorized_operations")
    r.skip_tags("DescribeClusterResponse")
    return DescribeClusterResponse(
        throttle_time_ms=throttle_time_ms,
        error_code=error_code,
        error_message=error_message,
        endpoint_type=endpoint_type,
        cluster_id=cluster_id,
        controller_id=controller_id,
        brokers=brokers,
        cluster_authorized_operations=cluster_authorized_operations,
    )


def _write_describe_cluster_response_v0(w: Writer, o: DescribeClusterResponse) -> None:
    if o.endpoint_type != 1:
        raise w.unsupported("DescribeClusterResponse.endpoint_type")
    w.add(_ih.pack(o.throttle_time_ms, o.error_code))
    w.compact_nullable_string(o.error_message, "DescribeClusterResponse.error_message")
    w.compact_string(o.cluster_id, "DescribeClusterResponse.cluster_id")
    w.add(_i.pack(o.controller_id))
    w.compact_count(len(o.brokers))
    for brokers_item in o.brokers:
        _write_describe_cluster_broker_v0(w, brokers_item)
    w.add(_i.pack(o.cluster_authorized_operations))
    w.add(NO_TAGS)


def _write_describe_cluster_response_v1(w: Writer, o: DescribeClusterResponse) -> None:
    w.add(_ih.pack(o.throttle_time_ms, o.error_code))
    w.compact_nullable_string(o.error_message, "DescribeClusterResponse.error_message")
    w.add(_b.pack(o.endpoint_type))
    w.compact_string(o.cluster_id, "DescribeClusterResponse.cluster_id")
    w.add(_i.pack(o.controller_id))
    w.compact_count(len(o.brokers))
    for brokers_item in o.brokers:
        _write_describe_cluster_broker_v0(w, brokers_item)
    w.add(_i.pack(o.cluster_authorized_operations))
    w.add(NO_TAGS)


def _write_describe_cluster_response_v2(w: Writer, o: DescribeClusterResponse) -> None:
    w.add(_ih.pack(o.throttle_time_ms, o.error_code))
    w.compact_nullable_string(o.error_message, "DescribeClusterResponse.error_message")
    w.add(_b.pack(o.endpoint_type))
    w.compact_string(o.cluster_id, "DescribeClusterResponse.cluster_id")
    w.add(_i.pack(o.controller_id))
    w.compact_count(len(o.brokers))
    for brokers_item in o.brokers:
        _write_describe_cluster_broker_v2(w, brokers_item)
    w.add(_i.pack(o.cluster_authorized_operations))
    w.add(NO_TAGS)


REQUEST: Final = Codec(
    "DescribeClusterRequest",
    0,
    (
        _read_describe_cluster_request_v0,
        _read_describe_cluster_request_v1,
        _read_describe_cluster_request_v2,
    ),
    (
        _write_describe_cluster_request_v0,
        _write_describe_cluster_request_v1,
        _write_describe_cluster_request_v2,
    ),
)

RESPONSE: Final = Codec(
    "DescribeClusterResponse",
    0,
    (
        _read_describe_cluster_response_v0,
        _read_describe_cluster_response_v1,
        _read_describe_cluster_response_v2,
    ),
    (
        _write_describe_cluster_response_v0,
        _write_describe_cluster_response_v1,
        _write_describe_cluster_response_v2,
    ),
)
