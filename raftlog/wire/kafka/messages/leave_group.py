"""LeaveGroup (API 13), versions 0 to 5. Made by scripts/generate_kafka_messages.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from raftlog.wire.kafka.codec import Codec
from raftlog.wire.kafka.reader import Reader
from raftlog.wire.kafka.writer import NO_TAGS, Writer

_h = Struct(">h")
_ih = Struct(">ih")


@dataclass(slots=True, kw_only=True)
class MemberIdentity:
    """Part of LeaveGroupRequest."""

    member_id: str = ""  # v3+
    group_instance_id: str | None = None  # v3+
    reason: str | None = None  # v5+


@dataclass(slots=True, kw_only=True)
class LeaveGroupRequest:
    """Versions 0 to 5."""

    group_id: str = ""
    member_id: str = ""  # v0-2
    members: list[MemberIdentity] = field(default_factory=list)  # v3+


def _read_member_identity_v3(r: Reader) -> MemberIdentity:
    member_id = r.string("MemberIdentity.member_id")
    group_instance_id = r.nullable_string("MemberIdentity.group_instance_id")
    return MemberIdentity(member_id=member_id, group_instance_id=group_instance_id)


def _read_member_identity_v4(r: Reader) -> MemberIdentity:
    member_id = r.compact_string("MemberIdentity.member_id")
    group_instance_id = r.compact_nullable_string("MemberIdentity.group_instance_id")
    r.skip_tags("MemberIdentity")
    return MemberIdentity(member_id=member_id, group_instance_id=group_instance_id)


def _read_member_identity_v5(r: Reader) -> MemberIdentity:
    member_id = r.compact_string("MemberIdentity.member_id")
    group_instance_id = r.compact_nullable_string("MemberIdentity.group_instance_id")
    reason = r.compact_nullable_string("MemberIdentity.reason")
    r.skip_tags("MemberIdentity")
    return MemberIdentity(member_id=member_id, group_instance_id=group_instance_id, reason=reason)


def _write_member_identity_v3(w: Writer, o: MemberIdentity) -> None:
    w.string(o.member_id, "MemberIdentity.member_id")
    w.nullable_string(o.group_instance_id, "MemberIdentity.group_instance_id")


def _write_member_identity_v4(w: Writer, o: MemberIdentity) -> None:
    w.compact_string(o.member_id, "MemberIdentity.member_id")
    w.compact_nullable_string(o.group_instance_id, "MemberIdentity.group_instance_id")
    w.add(NO_TAGS)


def _write_member_identity_v5(w: Writer, o: MemberIdentity) -> None:
    w.compact_string(o.member_id, "MemberIdentity.member_id")
    w.compact_nullable_string(o.group_instance_id, "MemberIdentity.group_instance_id")
    w.compact_nullable_string(o.reason, "MemberIdentity.reason")
    w.add(NO_TAGS)


def _read_leave_group_request_v0(r: Reader) -> LeaveGroupRequest:
    group_id = r.string("LeaveGroupRequest.group_id")
    member_id = r.string("LeaveGroupRequest.member_id")
    return LeaveGroupRequest(group_id=group_id, member_id=member_id)


def _read_leave_group_request_v3(r: Reader) -> LeaveGroupRequest:
    group_id = r.string("LeaveGroupRequest.group_id")
    members = [_read_member_identity_v3(r) for _ in range(r.count(4, "LeaveGroupRequest.members"))]
    return LeaveGroupRequest(group_id=group_id, members=members)


def _read_leave_group_request_v4(r: Reader) -> LeaveGroupRequest:
    group_id = r.compact_string("LeaveGroupRequest.group_id")
    members = [_read_member_identity_v4(r) for _ in range(r.compact_count(3, "LeaveGroupRequest.members"))]
    r.skip_tags("LeaveGroupRequest")
    return LeaveGroupRequest(group_id=group_id, members=members)


def _read_leave_group_request_v5(r: Reader) -> LeaveGroupRequest:
    group_id = r.compact_string("LeaveGroupRequest.group_id")
    members = [_read_member_identity_v5(r) for _ in range(r.compact_count(4, "LeaveGroupRequest.members"))]
    r.skip_tags("LeaveGroupRequest")
    return LeaveGroupRequest(group_id=group_id, members=members)


def _write_leave_group_request_v0(w: Writer, o: LeaveGroupRequest) -> None:
    if o.members:
        raise w.unsupported("LeaveGroupRequest.members")
    w.string(o.group_id, "LeaveGroupRequest.group_id")
    w.string(o.member_id, "LeaveGroupRequest.member_id")


def _write_leave_group_request_v3(w: Writer, o: LeaveGroupRequest) -> None:
    if o.member_id != "":
        raise w.unsupported("LeaveGroupRequest.member_id")
    w.string(o.group_id, "LeaveGroupRequest.group_id")
    w.count(len(o.members))
    for members_item in o.members:
        _write_member_identity_v3(w, members_item)


def _write_leave_group_request_v4(w: Writer, o: LeaveGroupRequest) -> None:
    if o.member_id != "":
        raise w.unsupported("LeaveGroupRequest.member_id")
    w.compact_string(o.group_id, "LeaveGroupRequest.group_id")
    w.compact_count(len(o.members))
    for members_item in o.members:
        _write_member_identity_v4(w, members_item)
    w.add(NO_TAGS)


def _write_leave_group_request_v5(w: Writer, o: LeaveGroupRequest) -> None:
    if o.member_id != "":
        raise w.unsupported("LeaveGroupRequest.member_id")
    w.compact_string(o.group_id, "LeaveGroupRequest.group_id")
    w.compact_count(len(o.members))
    for members_item in o.members:
        _write_member_identity_v5(w, members_item)
    w.add(NO_TAGS)


@dataclass(slots=True, kw_only=True)
class MemberResponse:
    """Part of LeaveGroupResponse."""

    member_id: str = ""  # v3+
    group_instance_id: str | None = ""  # v3+
    error_code: int = 0  # v3+


@dataclass(slots=True, kw_only=True)
class LeaveGroupResponse:
    """Versions 0 to 5."""

    throttle_time_ms: int = 0  # v1+
    error_code: int = 0
    members: list[MemberResponse] = field(default_factory=list)  # v3+


def _read_member_response_v3(r: Reader) -> MemberResponse:
    member_id = r.string("MemberResponse.member_id")
    group_instance_id = r.nullable_string("MemberResponse.group_instance_id")
    (error_code,) = r.take(_h, "MemberResponse.error_code")
    return MemberResponse(member_id=member_id, group_instance_id=group_instance_id, error_code=error_code)


def _read_member_response_v4(r: Reader) -> MemberResponse:
    member_id = r.compact_string("MemberResponse.member_id")
    group_instance_id = r.compact_nullable_string("MemberResponse.group_instance_id")
    (error_code,) = r.take(_h, "MemberResponse.error_code")
    r.skip_tags("MemberResponse")
    return MemberResponse(member_id=member_id, group_instance_id=group_instance_id, error_code=error_code)


def _write_member_response_v3(w: Writer, o: MemberResponse) -> None:
    w.string(o.member_id, "MemberResponse.member_id")
    w.nullable_string(o.group_instance_id, "MemberResponse.group_instance_id")
    w.add(_h.pack(o.error_code))


def _write_member_response_v4(w: Writer, o: MemberResponse) -> None:
    w.compact_string(o.member_id, "MemberResponse.member_id")
    w.compact_nullable_string(o.group_instance_id, "MemberResponse.group_instance_id")
    w.add(_h.pack(o.error_code))
    w.add(NO_TAGS)


def _read_leave_group_response_v0(r: Reader) -> LeaveGroupResponse:
    (error_code,) = r.take(_h, "LeaveGroupResponse.error_code")
    return LeaveGroupResponse(error_code=error_code)


def _read_leave_group_response_v1(r: Reader) -> LeaveGroupResponse:
    throttle_time_ms, error_code = r.take(_ih, "LeaveGroupResponse.throttle_time_ms,error_code")
    return LeaveGroupResponse(throttle_time_ms=throttle_time_ms, error_code=error_code)


def _read_leave_group_response_v3(r: Reader) -> LeaveGroupResponse:
    throttle_time_ms, error_code = r.take(_ih, "LeaveGroupResponse.throttle_time_ms,error_code")
    members = [_read_member_response_v3(r) for _ in range(r.count(6, "LeaveGroupResponse.members"))]
    return LeaveGroupResponse(throttle_time_ms=throttle_time_ms, error_code=error_code, members=members)


def _read_leave_group_response_v4(r: Reader) -> LeaveGroupResponse:
    throttle_time_ms, error_code = r.take(_ih, "LeaveGroupResponse.throttle_time_ms,error_code")
    members = [_read_member_response_v4(r) for _ in range(r.compact_count(5, "LeaveGroupResponse.members"))]
    r.skip_tags("LeaveGroupResponse")
    return LeaveGroupResponse(throttle_time_ms=throttle_time_ms, error_code=error_code, members=members)


def _write_leave_group_response_v0(w: Writer, o: LeaveGroupResponse) -> None:
    if o.members:
        raise w.unsupported("LeaveGroupResponse.members")
    w.add(_h.pack(o.error_code))


def _write_leave_group_response_v1(w: Writer, o: LeaveGroupResponse) -> None:
    if o.members:
        raise w.unsupported("LeaveGroupResponse.members")
    w.add(_ih.pack(o.throttle_time_ms, o.error_code))


def _write_leave_group_response_v3(w: Writer, o: LeaveGroupResponse) -> None:
    w.add(_ih.pack(o.throttle_time_ms, o.error_code))
    w.count(len(o.members))
    for members_item in o.members:
        _write_member_response_v3(w, members_item)


def _write_leave_group_response_v4(w: Writer, o: LeaveGroupResponse) -> None:
    w.add(_ih.pack(o.throttle_time_ms, o.error_code))
    w.compact_count(len(o.members))
    for members_item in o.members:
        _write_member_response_v4(w, members_item)
    w.add(NO_TAGS)


REQUEST: Final = Codec(
    "LeaveGroupRequest",
    0,
    (
        _read_leave_group_request_v0,
        _read_leave_group_request_v0,
        _read_leave_group_request_v0,
        _read_leave_group_request_v3,
        _read_leave_group_request_v4,
        _read_leave_group_request_v5,
    ),
    (
        _write_leave_group_request_v0,
        _write_leave_group_request_v0,
        _write_leave_group_request_v0,
        _write_leave_group_request_v3,
        _write_leave_group_request_v4,
        _write_leave_group_request_v5,
    ),
)

RESPONSE: Final = Codec(
    "LeaveGroupResponse",
    0,
    (
        _read_leave_group_response_v0,
        _read_leave_group_response_v1,
        _read_leave_group_response_v1,
        _read_leave_group_response_v3,
        _read_leave_group_response_v4,
        _read_leave_group_response_v4,
    ),
    (
        _write_leave_group_response_v0,
        _write_leave_group_response_v1,
        _write_leave_group_response_v1,
        _write_leave_group_response_v3,
        _write_leave_group_response_v4,
        _write_leave_group_response_v4,
    ),
)
