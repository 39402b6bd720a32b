"""JoinGroup (API 11), versions 0 to 9. Made by scripts/generate_kafka_messages.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from raftlog.wire.kafka.codec import Codec
from raftlog.wire.kafka.reader import Reader
from raftlog.wire.kafka.writer import NO_TAGS, Writer

_o = Struct(">?")
_hi = Struct(">hi")
_i = Struct(">i")
_ihi = Struct(">ihi")
_ii = Struct(">ii")


@dataclass(slots=True, kw_only=True)
class JoinGroupRequestProtocol:
    """Part of JoinGroupRequest."""

    name: str = ""
    metadata: bytes = b""


@dataclass(slots=True, kw_only=True)
class JoinGroupRequest:
    """Versions 0 to 9."""

    group_id: str = ""
    session_timeout_ms: int = 0
    rebalance_timeout_ms: int = -1  # v1+
    member_id: str = ""
    group_instance_id: str | None = None  # v5+
    protocol_type: str = ""
    protocols: list[JoinGroupRequestProtocol] = field(default_factory=list)
    reason: str | None = None  # v8+


def _read_join_group_request_protocol_v0(r: Reader) -> JoinGroupRequestProtocol:
    name = r.string("JoinGroupRequestProtocol.name")
    metadata = r.octets("JoinGroupRequestProtocol.metadata")
    return JoinGroupRequestProtocol(name=name, metadata=metadata)


def _read_join_group_request_protocol_v6(r: Reader) -> JoinGroupRequestProtocol:
    name = r.compact_string("JoinGroupRequestProtocol.name")
    metadata = r.compact_octets("JoinGroupRequestProtocol.metadata")
    r.skip_tags("JoinGroupRequestProtocol")
    return JoinGroupRequestProtocol(name=name, metadata=metadata)


def _write_join_group_request_protocol_v0(w: Writer, o: JoinGroupRequestProtocol) -> None:
    w.string(o.name, "JoinGroupRequestProtocol.name")
    w.octets(o.metadata, "JoinGroupRequestProtocol.metadata")


def _write_join_group_request_protocol_v6(w: Writer, o: JoinGroupRequestProtocol) -> None:
    w.compact_string(o.name, "JoinGroupRequestProtocol.name")
    w.compact_octets(o.metadata, "JoinGroupRequestProtocol.metadata")
    w.add(NO_TAGS)


def _read_join_group_request_v0(r: Reader) -> JoinGroupRequest:
    group_id = r.string("JoinGroupRequest.group_id")
    (session_timeout_ms,) = r.take(_i, "JoinGroupRequest.session_timeout_ms")
    member_id = r.string("JoinGroupRequest.member_id")
    protocol_type = r.string("JoinGroupRequest.protocol_type")
    protocols = [_read_join_group_request_protocol_v0(r) for _ in range(r.count(6, "JoinGroupRequest.protocols"))]
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=session_timeout_ms,
        member_id=member_id,
        protocol_type=protocol_type,
        protocols=protocols,
    )


def _read_join_group_request_v1(r: Reader) -> JoinGroupRequest:
    group_id = r.string("JoinGroupRequest.group_id")
    session_timeout_ms, rebalance_timeout_ms = r.take(_ii, "JoinGroupRequest.session_timeout_ms,rebalance_timeout_ms")
    member_id = r.string("JoinGroupRequest.member_id")
    protocol_type = r.string("JoinGroupRequest.protocol_type")
    protocols = [_read_join_group_request_protocol_v0(r) for _ in range(r.count(6, "JoinGroupRequest.protocols"))]
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=rebalance_timeout_ms,
        member_id=member_id,
        protocol_type=protocol_type,
        protocols=protocols,
    )


def _read_join_group_request_v5(r: Reader) -> JoinGroupRequest:
    group_id = r.string("JoinGroupRequest.group_id")
    session_timeout_ms, rebalance_timeout_ms = r.take(_ii, "JoinGroupRequest.session_timeout_ms,rebalance_timeout_ms")
    member_id = r.string("JoinGroupRequest.member_id")
    group_instance_id = r.nullable_string("JoinGroupRequest.group_instance_id")
    protocol_type = r.string("JoinGroupRequest.protocol_type")
    protocols = [_read_join_group_request_protocol_v0(r) for _ in range(r.count(6, "JoinGroupRequest.protocols"))]
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=rebalance_timeout_ms,
        member_id=member_id,
        group_instance_id=group_instance_id,
        protocol_type=protocol_type,
        protocols=protocols,
    )


def _read_join_group_request_v6(r: Reader) -> JoinGroupRequest:
    group_id = r.compact_string("JoinGroupRequest.group_id")
    session_timeout_ms, rebalance_timeout_ms = r.take(_ii, "JoinGroupRequest.session_timeout_ms,rebalance_timeout_ms")
    member_id = r.compact_string("JoinGroupRequest.member_id")
    group_instance_id = r.compact_nullable_string("JoinGroupRequest.group_instance_id")
    protocol_type = r.compact_string("JoinGroupRequest.protocol_type")
    protocols = [
        _read_join_group_request_protocol_v6(r) for _ in range(r.compact_count(3, "JoinGroupRequest.protocols"))
    ]
    r.skip_tags("JoinGroupRequest")
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=rebalance_timeout_ms,
        member_id=member_id,
        group_instance_id=group_instance_id,
        protocol_type=protocol_type,
        protocols=protocols,
    )


def _read_join_group_request_v8(r: Reader) -> JoinGroupRequest:
    group_id = r.compact_string("JoinGroupRequest.group_id")
    session_timeout_ms, rebalance_timeout_ms = r.take(_ii, "JoinGroupRequest.session_timeout_ms,rebalance_timeout_ms")
    member_id = r.compact_string("JoinGroupRequest.member_id")
    group_instance_id = r.compact_nullable_string("JoinGroupRequest.group_instance_id")
    protocol_type = r.compact_string("JoinGroupRequest.protocol_type")
    protocols = [
        _read_join_group_request_protocol_v6(r) for _ in range(r.compact_count(3, "JoinGroupRequest.protocols"))
    ]
    reason = r.compact_nullable_string("JoinGroupRequest.reason")
    r.skip_tags("JoinGroupRequest")
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=rebalance_timeout_ms,
        member_id=member_id,
        group_instance_id=group_instance_id,
        protocol_type=protocol_type,
        protocols=protocols,
        reason=reason,
    )


def _write_join_group_request_v0(w: Writer, o: JoinGroupRequest) -> None:
    if o.group_instance_id is not None:
        raise w.unsupported("JoinGroupRequest.group_instance_id")
    w.string(o.group_id, "JoinGroupRequest.group_id")
    w.add(_i.pack(o.session_timeout_ms))
    w.string(o.member_id, "JoinGroupRequest.member_id")
    w.string(o.protocol_type, "JoinGroupRequest.protocol_type")
    w.count(len(o.protocols))
    for protocols_item in o.protocols:
        _write_join_group_request_protocol_v0(w, protocols_item)


def _write_join_group_request_v1(w: Writer, o: JoinGroupRequest) -> None:
    if o.group_instance_id is not None:
        raise w.unsupported("JoinGroupRequest.group_instance_id")
    w.string(o.group_id, "JoinGroupRequest.group_id")
    w.add(_ii.pack(o.session_timeout_ms, o.rebalance_timeout_ms))
    w.string(o.member_id, "JoinGroupRequest.member_id")
    w.string(o.protocol_type, "JoinGroupRequest.protocol_type")
    w.count(len(o.protocols))
    for protocols_item in o.protocols:
        _write_join_group_request_protocol_v0(w, protocols_item)


def _write_join_group_request_v5(w: Writer, o: JoinGroupRequest) -> None:
    w.string(o.group_id, "JoinGroupRequest.group_id")
    w.add(_ii.pack(o.session_timeout_ms, o.rebalance_timeout_ms))
    w.string(o.member_id, "JoinGroupRequest.member_id")
    w.nullable_string(o.group_instance_id, "JoinGroupRequest.group_instance_id")
    w.string(o.protocol_type, "JoinGroupRequest.protocol_type")
    w.count(len(o.protocols))
    for protocols_item in o.protocols:
        _write_join_group_request_protocol_v0(w, protocols_item)


def _write_join_group_request_v6(w: Writer, o: JoinGroupRequest) -> None:
    w.compact_string(o.group_id, "JoinGroupRequest.group_id")
    w.add(_ii.pack(o.session_timeout_ms, o.rebalance_timeout_ms))
    w.compact_string(o.member_id, "JoinGroupRequest.member_id")
    w.compact_nullable_string(o.group_instance_id, "JoinGroupRequest.group_instance_id")
    w.compact_string(o.protocol_type, "JoinGroupRequest.protocol_type")
    w.compact_count(len(o.protocols))
    for protocols_item in o.protocols:
        _write_join_group_request_protocol_v6(w, protocols_item)
    w.add(NO_TAGS)


def _write_join_group_request_v8(w: Writer, o: JoinGroupRequest) -> None:
    w.compact_string(o.group_id, "JoinGroupRequest.group_id")
    w.add(_ii.pack(o.session_timeout_ms, o.rebalance_timeout_ms))
    w.compact_string(o.member_id, "JoinGroupRequest.member_id")
    w.compact_nullable_string(o.group_instance_id, "JoinGroupRequest.group_instance_id")
    w.compact_string(o.protocol_type, "JoinGroupRequest.protocol_type")
    w.compact_count(len(o.protocols))
    for protocols_item in o.protocols:
        _write_join_group_request_protocol_v6(w, protocols_item)
    w.compact_nullable_string(o.reason, "JoinGroupRequest.reason")
    w.add(NO_TAGS)


@dataclass(slots=True, kw_only=True)
class JoinGroupResponseMember:
    """Part of JoinGroupResponse."""

    member_id: str = ""
    group_instance_id: str | None = None  # v5+
    metadata: bytes = b""


@dataclass(slots=True, kw_only=True)
class JoinGroupResponse:
    """Versions 0 to 9."""

    throttle_time_ms: int = 0  # v2+
    error_code: int = 0
    generation_id: int = -1
    protocol_type: str | None = None  # v7+
    protocol_name: str | None = ""
    leader: str = ""
    skip_assignment: bool = False  # v9+
    member_id: str = ""
    members: list[JoinGroupResponseMember] = field(default_factory=list)


def _read_join_group_response_member_v0(r: Reader) -> JoinGroupResponseMember:
    member_id = r.string("JoinGroupResponseMember.member_id")
    metadata = r.octets("JoinGroupResponseMember.metadata")
    return JoinGroupResponseMember(member_id=member_id, metadata=metadata)


def _read_join_group_response_member_v5(r: Reader) -> JoinGroupResponseMember:
    member_id = r.string("JoinGroupResponseMember.member_id")
    group_instance_id = r.nullable_string("JoinGroupResponseMember.group_instance_id")
    metadata = r.octets("JoinGroupResponseMember.metadata")
    return JoinGroupResponseMember(member_id=member_id, group_instance_id=group_instance_id, metadata=metadata)


def _read_join_group_response_member_v6(r: Reader) -> JoinGroupResponseMember:
    member_id = r.compact_string("JoinGroupResponseMember.member_id")
    group_instance_id = r.compact_nullable_string("JoinGroupResponseMember.group_instance_id")
    metadata = r.compact_octets("JoinGroupResponseMember.metadata")
    r.skip_tags("JoinGroupResponseMember")
    return JoinGroupResponseMember(member_id=member_id, group_instance_id=group_instance_id, metadata=metadata)


def _write_join_group_response_member_v0(w: Writer, o: JoinGroupResponseMember) -> None:
    w.string(o.member_id, "JoinGroupResponseMember.member_id")
    w.octets(o.metadata, "JoinGroupResponseMember.metadata")


def _write_join_group_response_member_v5(w: Writer, o: JoinGroupResponseMember) -> None:
    w.string(o.member_id, "JoinGroupResponseMember.member_id")
    w.nullable_string(o.group_instance_id, "JoinGroupResponseMember.group_instance_id")
    w.octets(o.metadata, "JoinGroupResponseMember.metadata")


def _write_join_group_response_member_v6(w: Writer, o: JoinGroupResponseMember) -> None:
    w.compact_string(o.member_id, "JoinGroupResponseMember.member_id")
    w.compact_nullable_string(o.group_instance_id, "JoinGroupResponseMember.group_instance_id")
    w.compact_octets(o.metadata, "JoinGroupResponseMember.metadata")
    w.add(NO_TAGS)


def _read_join_group_response_v0(r: Reader) -> JoinGroupResponse:
    error_code, generation_id = r.take(_hi, "JoinGroupResponse.error_code,generation_id")
    protocol_name = r.string("JoinGroupResponse.protocol_name")
    leader = r.string("JoinGroupResponse.leader")
    member_id = r.string("JoinGroupResponse.member_id")
    members = [_read_join_group_response_member_v0(r) for _ in range(r.count(6, "JoinGroupResponse.members"))]
    return JoinGroupResponse(
        error_code=error_code,
        generation_id=generation_id,
        protocol_name=protocol_name,
        leader=leader,
        member_id=member_id,
        members=members,
    )


def _read_join_group_response_v2(r: Reader) -> JoinGroupResponse:
    throttle_time_ms, error_code, generation_id = r.take(
        _ihi, "JoinGroupResponse.throttle_time_ms,error_code,generation_id"
    )
    protocol_name = r.string("JoinGroupResponse.protocol_name")
    leader = r.string("JoinGroupResponse.leader")
    member_id = r.string("JoinGroupResponse.member_id")
    members = [_read_join_group_response_member_v0(r) for _ in range(r.count(6, "JoinGroupResponse.members"))]
    return JoinGroupResponse(
        throttle_time_ms=throttle_time_ms,
        error_code=error_code,
        generation_id=generation_id,
        protocol_name=protocol_name,
        leader=leader,
        member_id=member_id,
        members=members,
    )


def _read_join_group_response_v5(r: Reader) -> JoinGroupResponse:
    throttle_time_ms, error_code, generation_id = r.take(
        _ihi, "JoinGroupResponse.throttle_time_ms,error_code,generation_id"
    )
    protocol_name = r.string("JoinGroupResponse.protocol_name")
    leader = r.string("JoinGroupResponse.leader")
    member_id = r.string("JoinGroupResponse.member_id")
    members = [_read_join_group_response_member_v5(r) for _ in range(r.count(8, "JoinGroupResponse.members"))]
    return JoinGroupResponse(
        throttle_time_ms=throttle_time_ms,
        error_code=error_code,
        generation_id=generation_id,
        protocol_name=protocol_name,
        leader=leader,
        member_id=member_id,
        members=members,
    )


def _read_join_group_response_v6(r: Reader) -> JoinGroupResponse:
    throttle_time_ms, error_code, generation_id = r.take(
        _ihi, "JoinGroupResponse.throttle_time_ms,error_code,generation_id"
    )
    protocol_name = r.compact_string("JoinGroupResponse.protocol_name")
    leader = r.compact_string("JoinGroupResponse.leader")
    member_id = r.compact_string("JoinGroupResponse.member_id")
    members = [_read_join_group_response_member_v6(r) for _ in range(r.compact_count(4, "JoinGroupResponse.members"))]
    r.skip_tags("JoinGroupResponse")
    return JoinGroupResponse(
        throttle_time_ms=throttle_time_ms,
        error_code=error_code,
        generation_id=generation_id,
        protocol_name=protocol_name,
        leader=leader,
        member_id=member_id,
        members=members,
    )


def _read_join_group_response_v7(r: Reader) -> JoinGroupResponse:
    throttle_time_ms, error_code, generation_id = r.take(
        _ihi, "JoinGroupResponse.throttle_time_ms,error_code,generation_id"
    )
    protocol_type = r.compact_nullable_string("JoinGroupResponse.protocol_type")
    protocol_name = r.compact_nullable_string("JoinGroupResponse.protocol_name")
    leader = r.compact_string("JoinGroupResponse.leader")
    member_id = r.compact_string("JoinGroupResponse.member_id")
    members = [_read_join_group_response_member_v6(r) for _ in range(r.compact_count(4, "JoinGroupResponse.members"))]
    r.skip_tags("JoinGroupResponse")
    return JoinGroupResponse(
        throttle_time_ms=throttle_time_ms,
        error_code=error_code,
        generation_id=generation_id,
        protocol_type=protocol_type,
        protocol_name=protocol_name,
        leader=leader,
        member_id=member_id,
        members=members,
    )


def _read_join_group_response_v9(r: Reader) -> JoinGroupResponse:
    throttle_time_ms, error_code, generation_id = r.take(
        _ihi, "JoinGroupResponse.throttle_time_ms,error_code,generation_id"
    )
    protocol_type = r.compact_nullable_string("JoinGroupResponse.protocol_type")
    protocol_name = r.compact_nullable_string("JoinGroupResponse.protocol_name")
    leader = r.compact_string("JoinGroupResponse.leader")
    (skip_assignment,) = r.take(_o, "JoinGroupResponse.skip_assignment")
    member_id = r.compact_string("JoinGroupResponse.member_id")
    members = [_read_join_group_response_member_v6(r) for _ in range(r.compact_count(4, "JoinGroupResponse.members"))]
    r.skip_tags("JoinGroupResponse")
    return JoinGroupResponse(
        throttle_time_ms=throttle_time_ms,
        error_code=error_code,
        generation_id=generation_id,
        protocol_type=protocol_type,
        protocol_name=protocol_name,
        leader=leader,
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=members,
    )


def _write_join_group_response_v0(w: Writer, o: JoinGroupResponse) -> None:
    if o.skip_assignment:
        raise w.unsupported("JoinGroupResponse.skip_assignment")
    w.add(_hi.pack(o.error_code, o.generation_id))
    w.string(o.protocol_name, "JoinGroupResponse.protocol_name")
    w.string(o.leader, "JoinGroupResponse.leader")
    w.string(o.member_id, "JoinGroupResponse.member_id")
    w.count(len(o.members))
    for members_item in o.members:
        _write_join_group_response_member_v0(w, members_item)


def _write_join_group_response_v2(w: Writer, o: JoinGroupResponse) -> None:
    if o.skip_assignment:
        raise w.unsupported("JoinGroupResponse.skip_assignment")
    w.add(_ihi.pack(o.throttle_time_ms, o.error_code, o.generation_id))
    w.string(o.protocol_name, "JoinGroupResponse.protocol_name")
    w.string(o.leader, "JoinGroupResponse.leader")
    w.string(o.member_id, "JoinGroupResponse.member_id")
    w.count(len(o.members))
    for members_item in o.members:
        _write_join_group_response_member_v0(w, members_item)


def _write_join_group_response_v5(w: Writer, o: JoinGroupResponse) -> None:
    if o.skip_assignment:
        raise w.unsupported("JoinGroupResponse.skip_assignment")
    w.add(_ihi.pack(o.throttle_time_ms, o.error_code, o.generation_id))
    w.string(o.protocol_name, "JoinGroupResponse.protocol_name")
    w.string(o.leader, "JoinGroupResponse.leader")
    w.string(o.member_id, "JoinGroupResponse.member_id")
    w.count(len(o.members))
    for members_item in o.members:
        _write_join_group_response_member_v5(w, members_item)


def _write_join_group_response_v6(w: Writer, o: JoinGroupResponse) -> None:
    if o.skip_assignment:
        raise w.unsupported("JoinGroupResponse.skip_assignment")
    w.add(_ihi.pack(o.throttle_time_ms, o.error_code, o.generation_id))
    w.compact_string(o.protocol_name, "JoinGroupResponse.protocol_name")
    w.compact_string(o.leader, "JoinGroupResponse.leader")
    w.compact_string(o.member_id, "JoinGroupResponse.member_id")
    w.compact_count(len(o.members))
    for members_item in o.members:
        _write_join_group_response_member_v6(w, members_item)
    w.add(NO_TAGS)


def _write_join_group_response_v7(w: Writer, o: JoinGroupResponse) -> None:
    if o.skip_assignment:
        raise w.unsupported("JoinGroupResponse.skip_assignment")
    w.add(_ihi.pack(o.throttle_time_ms, o.error_code, o.generation_id))
    w.compact_nullable_string(o.protocol_type, "JoinGroupResponse.protocol_type")
    w.compact_nullable_string(o.protocol_name, "JoinGroupResponse.protocol_name")
    w.compact_string(o.leader, "JoinGroupResponse.leader")
    w.compact_string(o.member_id, "JoinGroupResponse.member_id")
    w.compact_count(len(o.members))
    for members_item in o.members:
        _write_join_group_response_member_v6(w, members_item)
    w.add(NO_TAGS)


def _write_join_group_response_v9(w: Writer, o: JoinGroupResponse) -> None:
    w.add(_ihi.pack(o.throttle_time_ms, o.error_code, o.generation_id))
    w.compact_nullable_string(o.protocol_type, "JoinGroupResponse.protocol_type")
    w.compact_nullable_string(o.protocol_name, "JoinGroupResponse.protocol_name")
    w.compact_string(o.leader, "JoinGroupResponse.leader")
    w.add(_o.pack(o.skip_assignment))
    w.compact_string(o.member_id, "JoinGroupResponse.member_id")
    w.compact_count(len(o.members))
    for members_item in o.members:
        _write_join_group_response_member_v6(w, members_item)
    w.add(NO_TAGS)


REQUEST: Final = Codec(
    "JoinGroupRequest",
    0,
    (
        _read_join_group_request_v0,
        _read_join_group_request_v1,
        _read_join_group_request_v1,
        _read_join_group_request_v1,
        _read_join_group_request_v1,
        _read_join_group_request_v5,
        _read_join_group_request_v6,
        _read_join_group_request_v6,
        _read_join_group_request_v8,
        _read_join_group_request_v8,
    ),
    (
        _write_join_group_request_v0,
        _write_join_group_request_v1,
        _write_join_group_request_v1,
        _write_join_group_request_v1,
        _write_join_group_request_v1,
        _write_join_group_request_v5,
        _write_join_group_request_v6,
        _write_join_group_request_v6,
        _write_join_group_request_v8,
        _write_join_group_request_v8,
    ),
)

RESPONSE: Final = Codec(
    "JoinGroupResponse",
    0,
    (
        _read_join_group_response_v0,
        _read_join_group_response_v0,
        _read_join_group_response_v2,
        _read_join_group_response_v2,
        _read_join_group_response_v2,
        _read_join_group_response_v5,
        _read_join_group_response_v6,
        _read_join_group_response_v7,
        _read_join_group_response_v7,
        _read_join_group_response_v9,
    ),
    (
        _write_join_group_response_v0,
        _write_join_group_response_v0,
        _write_join_group_response_v2,
        _write_join_group_response_v2,
        _write_join_group_response_v2,
        _write_join_group_response_v5,
        _write_join_group_response_v6,
        _write_join_group_response_v7,
        _write_join_group_response_v7,
        _write_join_group_response_v9,
    ),
)
