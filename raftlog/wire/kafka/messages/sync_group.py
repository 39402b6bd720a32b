"""SyncGroup (API 14), versions 0 to 5. Made by scripts/generate_kafka_messages.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from raftlog.wire.kafka.codec import Codec
from raftlog.wire.kafka.reader import Reader
from raftlog.wire.kafka.writer import NO_TAGS, Writer

_h = Struct(">h")
_i = Struct(">i")
_ih = Struct(">ih")


@dataclass(slots=True, kw_only=True)
class SyncGroupRequestAssignment:
    """Part of SyncGroupRequest."""

    member_id: str = ""
    assignment: bytes = b""


@dataclass(slots=True, kw_only=True)
class SyncGroupRequest:
    """Versions 0 to 5."""

    group_id: str = ""
    generation_id: int = 0
    member_id: str = ""
    group_instance_id: str | None = None  # v3+
    protocol_type: str | None = None  # v5+
    protocol_name: str | None = None  # v5+
    assignments: list[SyncGroupRequestAssignment] = field(default_factory=list)


def _read_sync_group_request_assignment_v0(r: Reader) -> SyncGroupRequestAssignment:
    member_id = r.string("SyncGroupRequestAssignment.member_id")
    assignment = r.octets("SyncGroupRequestAssignment.assignment")
    return SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)


def _read_sync_group_request_assignment_v4(r: Reader) -> SyncGroupRequestAssignment:
    member_id = r.compact_string("SyncGroupRequestAssignment.member_id")
    assignment = r.compact_octets("SyncGroupRequestAssignment.assignment")
    r.skip_tags("SyncGroupRequestAssignment")
    return SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)


def _write_sync_group_request_assignment_v0(w: Writer, o: SyncGroupRequestAssignment) -> None:
    w.string(o.member_id, "SyncGroupRequestAssignment.member_id")
    w.octets(o.assignment, "SyncGroupRequestAssignment.assignment")


def _write_sync_group_request_assignment_v4(w: Writer, o: SyncGroupRequestAssignment) -> None:
    w.compact_string(o.member_id, "SyncGroupRequestAssignment.member_id")
    w.compact_octets(o.assignment, "SyncGroupRequestAssignment.assignment")
    w.add(NO_TAGS)


def _read_sync_group_request_v0(r: Reader) -> SyncGroupRequest:
    group_id = r.string("SyncGroupRequest.group_id")
    (generation_id,) = r.take(_i, "SyncGroupRequest.generation_id")
    member_id = r.string("SyncGroupRequest.member_id")
    assignments = [_read_sync_group_request_assignment_v0(r) for _ in range(r.count(6, "SyncGroupRequest.assignments"))]
    return SyncGroupRequest(
        group_id=group_id, generation_id=generation_id, member_id=member_id, assignments=assignments
    )


def _read_sync_group_request_v3(r: Reader) -> SyncGroupRequest:
    group_id = r.string("SyncGroupRequest.group_id")
    (generation_id,) = r.take(_i, "SyncGroupRequest.generation_id")
    member_id = r.string("SyncGroupRequest.member_id")
    group_instance_id = r.nullable_string("SyncGroupRequest.group_instance_id")
    assignments = [_read_sync_group_request_assignment_v0(r) for _ in range(r.count(6, "SyncGroupRequest.assignments"))]
    return SyncGroupRequest(
        group_id=group_id,
        generation_id=generation_id,
        member_id=member_id,
        group_instance_id=group_instance_id,
        assignments=assignments,
    )


def _read_sync_group_request_v4(r: Reader) -> SyncGroupRequest:
    group_id = r.compact_string("SyncGroupRequest.group_id")
    (generation_id,) = r.take(_i, "SyncGroupRequest.generation_id")
    member_id = r.compact_string("SyncGroupRequest.member_id")
    group_instance_id = r.compact_nullable_string("SyncGroupRequest.group_instance_id")
    assignments = [
        _read_sync_group_request_assignment_v4(r) for _ in range(r.compact_count(3, "SyncGroupRequest.assignments"))
    ]
    r.skip_tags("SyncGroupRequest")
    return SyncGroupRequest(
        group_id=group_id,
        generation_id=generation_id,
        member_id=member_id,
        group_instance_id=group_instance_id,
        assignments=assignments,
    )


def _read_sync_group_request_v5(r: Reader) -> SyncGroupRequest:
    group_id = r.compact_string("SyncGroupRequest.group_id")
    (generation_id,) = r.take(_i, "SyncGroupRequest.generation_id")
    member_id = r.compact_string("SyncGroupRequest.member_id")
    group_instance_id = r.compact_nullable_string("SyncGroupRequest.group_instance_id")
    protocol_type = r.compact_nullable_string("SyncGroupRequest.protocol_type")
    protocol_name = r.compact_nullable_string("SyncGroupRequest.protocol_name")
    assignments = [
        _read_sync_group_request_assignment_v4(r) for _ in range(r.compact_count(3, "SyncGroupRequest.assignments"))
    ]
    r.skip_tags("SyncGroupRequest")
    return SyncGroupRequest(
        group_id=group_id,
        generation_id=generation_id,
        member_id=member_id,
        group_instance_id=group_instance_id,
        protocol_type=protocol_type,
        protocol_name=protocol_name,
        assignments=assignments,
    )


def _write_sync_group_request_v0(w: Writer, o: SyncGroupRequest) -> None:
    if o.group_instance_id is not None:
        raise w.unsupported("SyncGroupRequest.group_instance_id")
    w.string(o.group_id, "SyncGroupRequest.group_id")
    w.add(_i.pack(o.generation_id))
    w.string(o.member_id, "SyncGroupRequest.member_id")
    w.count(len(o.assignments))
    for assignments_item in o.assignments:
        _write_sync_group_request_assignment_v0(w, assignments_item)


def _write_sync_group_request_v3(w: Writer, o: SyncGroupRequest) -> None:
    w.string(o.group_id, "SyncGroupRequest.group_id")
    w.add(_i.pack(o.generation_id))
    w.string(o.member_id, "SyncGroupRequest.member_id")
    w.nullable_string(o.group_instance_id, "SyncGroupRequest.group_instance_id")
    w.count(len(o.assignments))
    for assignments_item in o.assignments:
        _write_sync_group_request_assignment_v0(w, assignments_item)


def _write_sync_group_request_v4(w: Writer, o: SyncGroupRequest) -> None:
    w.compact_string(o.group_id, "SyncGroupRequest.group_id")
    w.add(_i.pack(o.generation_id))
    w.compact_string(o.member_id, "SyncGroupRequest.member_id")
    w.compact_nullable_string(o.group_instance_id, "SyncGroupRequest.group_instance_id")
    w.compact_count(len(o.assignments))
    for assignments_item in o.assignments:
        _write_sync_group_request_assignment_v4(w, assignments_item)
    w.add(NO_TAGS)


def _write_sync_group_request_v5(w: Writer, o: SyncGroupRequest) -> None:
    w.compact_string(o.group_id, "SyncGroupRequest.group_id")
    w.add(_i.pack(o.generation_id))
    w.compact_string(o.member_id, "SyncGroupRequest.member_id")
    w.compact_nullable_string(o.group_instance_id, "SyncGroupRequest.group_instance_id")
    w.compact_nullable_string(o.protocol_type, "SyncGroupRequest.protocol_type")
    w.compact_nullable_string(o.protocol_name, "SyncGroupRequest.protocol_name")
    w.compact_count(len(o.assignments))
    for assignments_item in o.assignments:
        _write_sync_group_request_assignment_v4(w, assignments_item)
    w.add(NO_TAGS)


@dataclass(slots=True, kw_only=True)
class SyncGroupResponse:
    """Versions 0 to 5."""

    throttle_time_ms: int = 0  # v1+
    error_code: int = 0
    protocol_type: str | None = None  # v5+
    protocol_name: str | None = None  # v5+
    assignment: bytes = b""


def _read_sync_group_response_v0(r: Reader) -> SyncGroupResponse:
    (error_code,) = r.take(_h, "SyncGroupResponse.error_code")
    assignment = r.octets("SyncGroupResponse.assignment")
    return SyncGroupResponse(error_code=error_code, assignment=assignment)


def _read_sync_group_response_v1(r: Reader) -> SyncGroupResponse:
    throttle_time_ms, error_code = r.take(_ih, "SyncGroupResponse.throttle_time_ms,error_code")
    assignment = r.octets("SyncGroupResponse.assignment")
    return SyncGroupResponse(throttle_time_ms=throttle_time_ms, error_code=error_code, assignment=assignment)


def _read_sync_group_response_v4(r: Reader) -> SyncGroupResponse:
    throttle_time_ms, error_code = r.take(_ih, "SyncGroupResponse.throttle_time_ms,error_code")
    assignment = r.compact_octets("SyncGroupResponse.assignment")
    r.skip_tags("SyncGroupResponse")
    return SyncGroupResponse(throttle_time_ms=throttle_time_ms, error_code=error_code, assignment=assignment)


def _read_sync_group_response_v5(r: Reader) -> SyncGroupResponse:
    throttle_time_ms, error_code = r.take(_ih, "SyncGroupResponse.throttle_time_ms,error_code")
    protocol_type = r.compact_nullable_string("SyncGroupResponse.protocol_type")
    protocol_name = r.compact_nullable_string("SyncGroupResponse.protocol_name")
    assignment = r.compact_octets("SyncGroupResponse.assignment")
    r.skip_tags("SyncGroupResponse")
    return SyncGroupResponse(
        throttle_time_ms=throttle_time_ms,
        error_code=error_code,
        protocol_type=protocol_type,
        protocol_name=protocol_name,
        assignment=assignment,
    )


def _write_sync_group_response_v0(w: Writer, o: SyncGroupResponse) -> None:
    w.add(_h.pack(o.error_code))
    w.octets(o.assignment, "SyncGroupResponse.assignment")


def _write_sync_group_response_v1(w: Writer, o: SyncGroupResponse) -> None:
    w.add(_ih.pack(o.throttle_time_ms, o.error_code))
    w.octets(o.assignment, "SyncGroupResponse.assignment")


def _write_sync_group_response_v4(w: Writer, o: SyncGroupResponse) -> None:
    w.add(_ih.pack(o.throttle_time_ms, o.error_code))
    w.compact_octets(o.assignment, "SyncGroupResponse.assignment")
    w.add(NO_TAGS)


def _write_sync_group_response_v5(w: Writer, o: SyncGroupResponse) -> None:
    w.add(_ih.pack(o.throttle_time_ms, o.error_code))
    w.compact_nullable_string(o.protocol_type, "SyncGroupResponse.protocol_type")
    w.compact_nullable_string(o.protocol_name, "SyncGroupResponse.protocol_name")
    w.compact_octets(o.assignment, "SyncGroupResponse.assignment")
    w.add(NO_TAGS)


REQUEST: Final = Codec(
    "SyncGroupRequest",
    0,
    (
        _read_sync_group_request_v0,
        _read_sync_group_request_v0,
        _read_sync_group_request_v0,
        _read_sync_group_request_v3,
        _read_sync_group_request_v4,
        _read_sync_group_request_v5,
    ),
    (
        _write_sync_group_request_v0,
        _write_sync_group_request_v0,
        _write_sync_group_request_v0,
        _write_sync_group_request_v3,
        _write_sync_group_request_v4,
        _write_sync_group_request_v5,
    ),
)

RESPONSE: Final = Codec(
    "SyncGroupResponse",
    0,
    (
        _read_sync_group_response_v0,
        _read_sync_group_response_v1,
        _read_sync_group_response_v1,
        _read_sync_group_response_v1,
        _read_sync_group_response_v4,
        _read_sync_group_response_v5,
    ),
    (
        _write_sync_group_response_v0,
        _write_sync_group_response_v1,
        _write_sync_group_response_v1,
        _write_sync_group_response_v1,
        _write_sync_group_response_v4,
        _write_sync_group_response_v5,
    ),
)
