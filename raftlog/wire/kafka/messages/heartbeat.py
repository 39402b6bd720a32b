"""Heartbeat (API 12), versions 0 to 4. Made by scripts/generate_kafka_messages.py."""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Final

from raftlog.wire.kafka.codec import Codec
from raftlog.wire.kafka.reader import Reader
from raftlog.wire.kafka.writer import NO_TAGS, Writer

_h = Struct(">h")
_i = Struct(">i")
_ih = Struct(">ih")


@dataclass(slots=True, kw_only=True)
class HeartbeatRequest:
    """Versions 0 to 4."""

    group_id: str = ""
    generation_id: int = 0
    member_id: str = ""
    group_instance_id: str | None = None  # v3+


def _read_heartbeat_request_v0(r: Reader) -> HeartbeatRequest:
    group_id = r.string("HeartbeatRequest.group_id")
    (generation_id,) = r.take(_i, "HeartbeatRequest.generation_id")
    member_id = r.string("HeartbeatRequest.member_id")
    return HeartbeatRequest(group_id=group_id, generation_id=generation_id, member_id=member_id)


def _read_heartbeat_request_v3(r: Reader) -> HeartbeatRequest:
    group_id = r.string("HeartbeatRequest.group_id")
    (generation_id,) = r.take(_i, "HeartbeatRequest.generation_id")
    member_id = r.string("HeartbeatRequest.member_id")
    group_instance_id = r.nullable_string("HeartbeatRequest.group_instance_id")
    return HeartbeatRequest(
        group_id=group_id, generation_id=generation_id, member_id=member_id, group_instance_id=group_instance_id
    )


def _read_heartbeat_request_v4(r: Reader) -> HeartbeatRequest:
    group_id = r.compact_string("HeartbeatRequest.group_id")
    (generation_id,) = r.take(_i, "HeartbeatRequest.generation_id")
    member_id = r.compact_string("HeartbeatRequest.member_id")
    group_instance_id = r.compact_nullable_string("HeartbeatRequest.group_instance_id")
    r.skip_tags("HeartbeatRequest")
    return HeartbeatRequest(
        group_id=group_id, generation_id=generation_id, member_id=member_id, group_instance_id=group_instance_id
    )


def _write_heartbeat_request_v0(w: Writer, o: HeartbeatRequest) -> None:
    if o.group_instance_id is not None:
        raise w.unsupported("HeartbeatRequest.group_instance_id")
    w.string(o.group_id, "HeartbeatRequest.group_id")
    w.add(_i.pack(o.generation_id))
    w.string(o.member_id, "HeartbeatRequest.member_id")


def _write_heartbeat_request_v3(w: Writer, o: HeartbeatRequest) -> None:
    w.string(o.group_id, "HeartbeatRequest.group_id")
    w.add(_i.pack(o.generation_id))
    w.string(o.member_id, "HeartbeatRequest.member_id")
    w.nullable_string(o.group_instance_id, "HeartbeatRequest.group_instance_id")


def _write_heartbeat_request_v4(w: Writer, o: HeartbeatRequest) -> None:
    w.compact_string(o.group_id, "HeartbeatRequest.group_id")
    w.add(_i.pack(o.generation_id))
    w.compact_string(o.member_id, "HeartbeatRequest.member_id")
    w.compact_nullable_string(o.group_instance_id, "HeartbeatRequest.group_instance_id")
    w.add(NO_TAGS)


@dataclass(slots=True, kw_only=True)
class HeartbeatResponse:
    """Versions 0 to 4."""

    throttle_time_ms: int = 0  # v1+
    error_code: int = 0


def _read_heartbeat_response_v0(r: Reader) -> HeartbeatResponse:
    (error_code,) = r.take(_h, "HeartbeatResponse.error_code")
    return HeartbeatResponse(error_code=error_code)


def _read_heartbeat_response_v1(r: Reader) -> HeartbeatResponse:
    throttle_time_ms, error_code = r.take(_ih, "HeartbeatResponse.throttle_time_ms,error_code")
    return HeartbeatResponse(throttle_time_ms=throttle_time_ms, error_code=error_code)


def _read_heartbeat_response_v4(r: Reader) -> HeartbeatResponse:
    throttle_time_ms, error_code = r.take(_ih, "HeartbeatResponse.throttle_time_ms,error_code")
    r.skip_tags("HeartbeatResponse")
    return HeartbeatResponse(throttle_time_ms=throttle_time_ms, error_code=error_code)


def _write_heartbeat_response_v0(w: Writer, o: HeartbeatResponse) -> None:
    w.add(_h.pack(o.error_code))


def _write_heartbeat_response_v1(w: Writer, o: HeartbeatResponse) -> None:
    w.add(_ih.pack(o.throttle_time_ms, o.error_code))


def _write_heartbeat_response_v4(w: Writer, o: HeartbeatResponse) -> None:
    w.add(_ih.pack(o.throttle_time_ms, o.error_code))
    w.add(NO_TAGS)


REQUEST: Final = Codec(
    "HeartbeatRequest",
    0,
    (
        _read_heartbeat_request_v0,
        _read_heartbeat_request_v0,
        _read_heartbeat_request_v0,
        _read_heartbeat_request_v3,
        _read_heartbeat_request_v4,
    ),
    (
        _write_heartbeat_request_v0,
        _write_heartbeat_request_v0,
        _write_heartbeat_request_v0,
        _write_heartbeat_request_v3,
        _write_heartbeat_request_v4,
    ),
)

RESPONSE: Final = Codec(
    "HeartbeatResponse",
    0,
    (
        _read_heartbeat_response_v0,
        _read_heartbeat_response_v1,
        _read_heartbeat_response_v1,
        _read_heartbeat_response_v1,
        _read_heartbeat_response_v4,
    ),
    (
        _write_heartbeat_response_v0,
        _write_heartbeat_response_v1,
        _write_heartbeat_response_v1,
        _write_heartbeat_response_v1,
        _write_heartbeat_response_v4,
    ),
)
