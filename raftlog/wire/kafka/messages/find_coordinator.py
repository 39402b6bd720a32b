"""FindCoordinator (API 10), versions 0 to 6. Made by scripts/generate_kafka_messages.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from raftlog.wire.kafka.codec import Codec
from raftlog.wire.kafka.reader import Reader
from raftlog.wire.kafka.writer import NO_TAGS, Writer

_b = Struct(">b")
_hi = Struct(">hi")
_i = Struct(">i")
_ih = Struct(">ih")


@dataclass(slots=True, kw_only=True)
class FindCoordinatorRequest:
    """Versions 0 to 6."""

    key: str = ""  # v0-3
    key_type: int = 0  # v1+
    coordinator_keys: list[str] = field(default_factory=list)  # v4+


def _read_find_coordinator_request_v0(r: Reader) -> FindCoordinatorRequest:
    key = r.string("FindCoordinatorRequest.key")
    return FindCoordinatorRequest(key=key)


def _read_find_coordinator_request_v1(r: Reader) -> FindCoordinatorRequest:
    key = r.string("FindCoordinatorRequest.key")
    (key_type,) = r.take(_b, "FindCoordinatorRequest.key_type")
    return FindCoordinatorRequest(key=key, key_type=key_type)


def _read_find_coordinator_request_v3(r: Reader) -> FindCoordinatorRequest:
    key = r.compact_string("FindCoordinatorRequest.key")
    (key_type,) = r.take(_b, "FindCoordinatorRequest.key_type")
    r.skip_tags("FindCoordinatorRequest")
    return FindCoordinatorRequest(key=key, key_type=key_type)


def _read_find_coordinator_request_v4(r: Reader) -> FindCoordinatorRequest:
    (key_type,) = r.take(_b, "FindCoordinatorRequest.key_type")
    coordinator_keys = [
        r.compact_string("FindCoordinatorRequest.coordinator_keys")
        for _ in range(r.compact_count(1, "FindCoordinatorRequest.coordinator_keys"))
    ]
    r.skip_tags("FindCoordinatorRequest")
    return FindCoordinatorRequest(key_type=key_type, coordinator_keys=coordinator_keys)


def _write_find_coordinator_request_v0(w: Writer, o: FindCoordinatorRequest) -> None:
    if o.key_type != 0:
        raise w.unsupported("FindCoordinatorRequest.key_type")
    if o.coordinator_keys:
        raise w.unsupported("FindCoordinatorRequest.coordinator_keys")
    w.string(o.key, "FindCoordinatorRequest.key")


def _write_find_coordinator_request_v1(w: Writer, o: FindCoordinatorRequest) -> None:
    if o.coordinator_keys:
        raise w.unsupported("FindCoordinatorRequest.coordinator_keys")
    w.string(o.key, "FindCoordinatorRequest.key")
    w.add(_b.pack(o.key_type))


def _write_find_coordinator_request_v3(w: Writer, o: FindCoordinatorRequest) -> None:
    if o.coordinator_keys:
        raise w.unsupported("FindCoordinatorRequest.coordinator_keys")
    w.compact_string(o.key, "FindCoordinatorRequest.key")
    w.add(_b.pack(o.key_type))
    w.add(NO_TAGS)


def _write_find_coordinator_request_v4(w: Writer, o: FindCoordinatorRequest) -> None:
    if o.key != "":
        raise w.unsupported("FindCoordinatorRequest.key")
    w.add(_b.pack(o.key_type))
    w.compact_count(len(o.coordinator_keys))
    for coordinator_keys_item in o.coordinator_keys:
        w.compact_string(coordinator_keys_item, "FindCoordinatorRequest.coordinator_keys")
    w.add(NO_TAGS)


@dataclass(slots=True, kw_only=True)
class Coordinator:
    """Part of FindCoordinatorResponse."""

    key: str = ""  # v4+
    node_id: int = 0  # v4+
    host: str = ""  # v4+
    port: int = 0  # v4+
    error_code: int = 0  # v4+
    error_message: str | None = ""  # v4+


@dataclass(slots=True, kw_only=True)
class FindCoordinatorResponse:
    """Versions 0 to 6."""

    throttle_time_ms: int = 0  # v1+
    error_code: int = 0  # v0-3
    error_message: str | None = ""  # v1-3
    node_id: int = 0  # v0-3
    host: str = ""  # v0-3
    port: int = 0  # v0-3
    coordinators: list[Coordinator] = field(default_factory=list)  # v4+


def _read_coordinator_v4(r: Reader) -> Coordinator:
    key = r.compact_string("Coordinator.key")
    (node_id,) = r.take(_i, "Coordinator.node_id")
    host = r.compact_string("Coordinator.host")
    port, error_code = r.take(_ih, "Coordinator.port,error_code")
    error_message = r.compact_nullable_string("Coordinator.error_message")
    r.skip_tags("Coordinator")
    return Coordinator(
        key=key, node_id=node_id, host=host, port=port, error_code=error_code, error_message=error_message
    )


def _write_coordinator_v4(w: Writer, o: Coordinator) -> None:
    w.compact_string(o.key, "Coordinator.key")
    w.add(_i.pack(o.node_id))
    w.compact_string(o.host, "Coordinator.host")
    w.add(_ih.pack(o.port, o.error_code))
    w.compact_nullable_string(o.error_message, "Coordinator.error_message")
    w.add(NO_TAGS)


def _read_find_coordinator_response_v0(r: Reader) -> FindCoordinatorResponse:
    error_code, node_id = r.take(_hi, "FindCoordinatorResponse.error_code,node_id")
    host = r.string("FindCoordinatorResponse.host")
    (port,) = r.take(_i, "FindCoordinatorResponse.port")
    return FindCoordinatorResponse(error_code=error_code, node_id=node_id, host=host, port=port)


def _read_find_coordinator_response_v1(r: Reader) -> FindCoordinatorResponse:
    throttle_time_ms, error_code = r.take(_ih, "FindCoordinatorResponse.throttle_time_ms,error_code")
    error_message = r.nullable_string("FindCoordinatorResponse.error_message")
    (node_id,) = r.take(_i, "FindCoordinatorResponse.node_id")
    host = r.string("FindCoordinatorResponse.host")
    (port,) = r.take(_i, "FindCoordinatorResponse.port")
    return FindCoordinatorResponse(
        throttle_time_ms=throttle_time_ms,
        error_code=error_code,
        error_message=error_message,
        node_id=node_id,
        host=host,
        port=port,
    )


def _read_find_coordinator_response_v3(r: Reader) -> FindCoordinatorResponse:
    throttle_time_ms, error_code = r.take(_ih, "FindCoordinatorResponse.throttle_time_ms,error_code")
    error_message = r.compact_nullable_string("FindCoordinatorResponse.error_message")
    (node_id,) = r.take(_i, "FindCoordinatorResponse.node_id")
    host = r.compact_string("FindCoordinatorResponse.host")
    (port,) = r.take(_i, "FindCoordinatorResponse.port")
    r.skip_tags("FindCoordinatorResponse")
    return FindCoordinatorResponse(
        throttle_time_ms=throttle_time_ms,
        error_code=error_code,
        error_message=error_message,
        node_id=node_id,
        host=host,
        port=port,
    )


def _read_find_coordinator_response_v4(r: Reader) -> FindCoordinatorResponse:
    (throttle_time_ms,) = r.take(_i, "FindCoordinatorResponse.throttle_time_ms")
    coordinators = [_read_coordinator_v4(r) for _ in range(r.compact_count(14, "FindCoordinatorResponse.coordinators"))]
    r.skip_tags("FindCoordinatorResponse")
    return FindCoordinatorResponse(throttle_time_ms=throttle_time_ms, coordinators=coordinators)


def _write_find_coordinator_response_v0(w: Writer, o: FindCoordinatorResponse) -> None:
    if o.coordinators:
        raise w.unsupported("FindCoordinatorResponse.coordinators")
    w.add(_hi.pack(o.error_code, o.node_id))
    w.string(o.host, "FindCoordinatorResponse.host")
    w.add(_i.pack(o.port))


def _write_find_coordinator_response_v1(w: Writer, o: FindCoordinatorResponse) -> None:
    if o.coordinators:
        raise w.unsupported("FindCoordinatorResponse.coordinators")
    w.add(_ih.pack(o.throttle_time_ms, o.error_code))
    w.nullable_string(o.error_message, "FindCoordinatorResponse.error_message")
    w.add(_i.pack(o.node_id))
    w.string(o.host, "FindCoordinatorResponse.host")
    w.add(_i.pack(o.port))


def _write_find_coordinator_response_v3(w: Writer, o: FindCoordinatorResponse) -> None:
    if o.coordinators:
        raise w.unsupported("FindCoordinatorResponse.coordinators")
    w.add(_ih.pack(o.throttle_time_ms, o.error_code))
    w.compact_nullable_string(o.error_message, "FindCoordinatorResponse.error_message")
    w.add(_i.pack(o.node_id))
    w.compact_string(o.host, "FindCoordinatorResponse.host")
    w.add(_i.pack(o.port))
    w.add(NO_TAGS)


def _write_find_coordinator_response_v4(w: Writer, o: FindCoordinatorResponse) -> None:
    if o.error_code != 0:
        raise w.unsupported("FindCoordinatorResponse.error_code")
    if o.node_id != 0:
        raise w.unsupported("FindCoordinatorResponse.node_id")
    if o.host != "":
        raise w.unsupported("FindCoordinatorResponse.host")
    if o.port != 0:
        raise w.unsupported("FindCoordinatorResponse.port")
    w.add(_i.pack(o.throttle_time_ms))
    w.compact_count(len(o.coordinators))
    for coordinators_item in o.coordinators:
        _write_coordinator_v4(w, coordinators_item)
    w.add(NO_TAGS)


REQUEST: Final = Codec(
    "FindCoordinatorRequest",
    0,
    (
        _read_find_coordinator_request_v0,
        _read_find_coordinator_request_v1,
        _read_find_coordinator_request_v1,
        _read_find_coordinator_request_v3,
        _read_find_coordinator_request_v4,
        _read_find_coordinator_request_v4,
        _read_find_coordinator_request_v4,
    ),
    (
        _write_find_coordinator_request_v0,
        _write_find_coordinator_request_v1,
        _write_find_coordinator_request_v1,
        _write_find_coordinator_request_v3,
        _write_find_coordinator_request_v4,
        _write_find_coordinator_request_v4,
        _write_find_coordinator_request_v4,
    ),
)

RESPONSE: Final = Codec(
    "FindCoordinatorResponse",
    0,
    (
        _read_find_coordinator_response_v0,
        _read_find_coordinator_response_v1,
        _read_find_coordinator_response_v1,
        _read_find_coordinator_response_v3,
        _read_find_coordinator_response_v4,
        _read_find_coordinator_response_v4,
        _read_find_coordinator_response_v4,
    ),
    (
        _write_find_coordinator_response_v0,
        _write_find_coordinator_response_v1,
        _write_find_coordinator_response_v1,
        _write_find_coordinator_response_v3,
        _write_find_coordinator_response_v4,
        _write_find_coordinator_response_v4,
        _write_find_coordinator_response_v4,
    ),
)
