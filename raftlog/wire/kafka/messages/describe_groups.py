"""DescribeGroups (API 15), versions 0 to 6. Made by scripts/generate_kafka_messages.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from raftlog.wire.kafka.codec import Codec
from raftlog.wire.kafka.reader import Reader
from raftlog.wire.kafka.writer import NO_TAGS, Writer

_o = Struct(">?")
_h = Struct(">h")
_i = Struct(">i")


@dataclass(slots=True, kw_only=True)
class DescribeGroupsRequest:
    """Versions 0 to 6."""

    groups: list[str] = field(default_factory=list)
    include_authorized_operations: bool = False  # v3+


def _read_describe_groups_request_v0(r: Reader) -> DescribeGroupsRequest:
    groups = [r.string("DescribeGroupsRequest.groups") for _ in range(r.count(2, "DescribeGroupsRequest.groups"))]
    return DescribeGroupsRequest(groups=groups)


def _read_describe_groups_request_v3(r: Reader) -> DescribeGroupsRequest:
    groups = [r.string("DescribeGroupsRequest.groups") for _ in range(r.count(2, "DescribeGroupsRequest.groups"))]
    (include_authorized_operations,) = r.take(_o, "DescribeGroupsRequest.include_authorized_operations")
    return DescribeGroupsRequest(groups=groups, include_authorized_operations=include_authorized_operations)


def _read_describe_groups_request_v5(r: Reader) -> DescribeGroupsRequest:
    groups = [
        r.compact_string("DescribeGroupsRequest.groups")
        for _ in range(r.compact_count(1, "DescribeGroupsRequest.groups"))
    ]
    (include_authorized_operations,) = r.take(_o, "DescribeGroupsRequest.include_authorized_operations")
    r.skip_tags("DescribeGroupsRequest")
    return DescribeGroupsRequest(groups=groups, include_authorized_operations=include_authorized_operations)


def _write_describe_groups_request_v0(w: Writer, o: DescribeGroupsRequest) -> None:
    if o.include_authorized_operations:
        raise w.unsupported("DescribeGroupsRequest.include_authorized_operations")
    w.count(len(o.groups))
    for groups_item in o.groups:
        w.string(groups_item, "DescribeGroupsRequest.groups")


def _write_describe_groups_request_v3(w: Writer, o: DescribeGroupsRequest) -> None:
    w.count(len(o.groups))
    for groups_item in o.groups:
        w.string(groups_item, "DescribeGroupsRequest.groups")
    w.add(_o.pack(o.include_authorized_operations))


def _write_describe_groups_request_v5(w: Writer, o: DescribeGroupsRequest) -> None:
    w.compact_count(len(o.groups))
    for groups_item in o.groups:
        w.compact_string(groups_item, "DescribeGroupsRequest.groups")
    w.add(_o.pack(o.include_authorized_operations))
    w.add(NO_TAGS)


@dataclass(slots=True, kw_only=True)
class DescribedGroupMember:
    """Part of DescribeGroupsResponse."""

    member_id: str = ""
    group_instance_id: str | None = None  # v4+
    client_id: str = ""
    client_host: str = ""
    member_metadata: bytes = b""
    member_assignment: bytes = b""


@dataclass(slots=True, kw_only=True)
class DescribedGroup:
    """Part of DescribeGroupsResponse."""

    error_code: int = 0
    error_message: str | None = None  # v6+
    group_id: str = ""
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: list[DescribedGroupMember] = field(default_factory=list)
    authorized_operations: int = -2147483648  # v3+


@dataclass(slots=True, kw_only=True)
class DescribeGroupsResponse:
    """Versions 0 to 6."""

    throttle_time_ms: int = 0  # v1+
    groups: list[DescribedGroup] = field(default_factory=list)


def _read_described_group_member_v0(r: Reader) -> DescribedGroupMember:
    member_id = r.string("DescribedGroupMember.member_id")
    client_id = r.string("DescribedGroupMember.client_id")
    client_host = r.string("DescribedGroupMember.client_host")
    member_metadata = r.octets("DescribedGroupMember.member_metadata")
    member_assignment = r.octets("DescribedGroupMember.member_assignment")
    return DescribedGroupMember(
        member_id=member_id,
        client_id=client_id,
        client_host=client_host,
        member_metadata=member_metadata,
        member_assignment=member_assignment,
    )


def _read_described_group_member_v4(r: Reader) -> DescribedGroupMember:
    member_id = r.string("DescribedGroupMember.member_id")
    group_instance_id = r.nullable_string("DescribedGroupMember.group_instance_id")
    client_id = r.string("DescribedGroupMember.client_id")
    client_host = r.string("DescribedGroupMember.client_host")
    member_metadata = r.octets("DescribedGroupMember.member_metadata")
    member_assignment = r.octets("DescribedGroupMember.member_assignment")
    return DescribedGroupMember(
        member_id=member_id,
        group_instance_id=group_instance_id,
        client_id=client_id,
        client_host=client_host,
        member_metadata=member_metadata,
        member_assignment=member_assignment,
    )


def _read_described_group_member_v5(r: Reader) -> DescribedGroupMember:
    member_id = r.compact_string("DescribedGroupMember.member_id")
    group_instance_id = r.compact_nullable_string("DescribedGroupMember.group_instance_id")
    client_id = r.compact_string("DescribedGroupMember.client_id")
    client_host = r.compact_string("DescribedGroupMember.client_host")
    member_metadata = r.compact_octets("DescribedGroupMember.member_metadata")
    member_assignment = r.compact_octets("DescribedGroupMember.member_assignment")
    r.skip_tags("DescribedGroupMember")
    return DescribedGroupMember(
        member_id=member_id,
        group_instance_id=group_instance_id,
        client_id=client_id,
        client_host=client_host,
        member_metadata=member_metadata,
        member_assignment=member_assignment,
    )


def _write_described_group_member_v0(w: Writer, o: DescribedGroupMember) -> None:
    w.string(o.member_id, "DescribedGroupMember.member_id")
    w.string(o.client_id, "DescribedGroupMember.client_id")
    w.string(o.client_host, "DescribedGroupMember.client_host")
    w.octets(o.member_metadata, "DescribedGroupMember.member_metadata")
    w.octets(o.member_assignment, "DescribedGroupMember.member_assignment")


def _write_described_group_member_v4(w: Writer, o: DescribedGroupMember) -> None:
    w.string(o.member_id, "DescribedGroupMember.member_id")
    w.nullable_string(o.group_instance_id, "DescribedGroupMember.group_instance_id")
    w.string(o.client_id, "DescribedGroupMember.client_id")
    w.string(o.client_host, "DescribedGroupMember.client_host")
    w.octets(o.member_metadata, "DescribedGroupMember.member_metadata")
    w.octets(o.member_assignment, "DescribedGroupMember.member_assignment")


def _write_described_group_member_v5(w: Writer, o: DescribedGroupMember) -> None:
    w.compact_string(o.member_id, "DescribedGroupMember.member_id")
    w.compact_nullable_string(o.group_instance_id, "DescribedGroupMember.group_instance_id")
    w.compact_string(o.client_id, "DescribedGroupMember.client_id")
    w.compact_string(o.client_host, "DescribedGroupMember.client_host")
    w.compact_octets(o.member_metadata, "DescribedGroupMember.member_metadata")
    w.compact_octets(o.member_assignment, "DescribedGroupMember.member_assignment")
    w.add(NO_TAGS)


def _read_described_group_v0(r: Reader) -> DescribedGroup:
    (error_code,) = r.take(_h, "DescribedGroup.error_code")
    group_id = r.string("DescribedGroup.group_id")
    group_state = r.string("DescribedGroup.group_state")
    protocol_type = r.string("DescribedGroup.protocol_type")
    protocol_data = r.string("DescribedGroup.protocol_data")
    members = [_read_described_group_member_v0(r) for _ in range(r.count(14, "DescribedGroup.members"))]
    return DescribedGroup(
        error_code=error_code,
        group_id=group_id,
        group_state=group_state,
        protocol_type=protocol_type,
        protocol_data=protocol_data,
        members=members,
    )


def _read_described_group_v3(r: Reader) -> DescribedGroup:
    (error_code,) = r.take(_h, "DescribedGroup.error_code")
    group_id = r.string("DescribedGroup.group_id")
    group_state = r.string("DescribedGroup.group_state")
    protocol_type = r.string("DescribedGroup.protocol_type")
    protocol_data = r.string("DescribedGroup.protocol_data")
    members = [_read_described_group_member_v0(r) for _ in range(r.count(14, "DescribedGroup.members"))]
    (authorized_operations,) = r.take(_i, "DescribedGroup.authorized_operations")
    return DescribedGroup(
        error_code=error_code,
        group_id=group_id,
        group_state=group_state,
        protocol_type=protocol_type,
        protocol_data=protocol_data,
        members=members,
        authorized_operations=authorized_operations,
    )


def _read_described_group_v4(r: Reader) -> DescribedGroup:
    (error_code,) = r.take(_h, "DescribedGroup.error_code")
    group_id = r.string("DescribedGroup.group_id")
    group_state = r.string("DescribedGroup.group_state")
    protocol_type = r.string("DescribedGroup.protocol_type")
    protocol_data = r.string("DescribedGroup.protocol_data")
    members = [_read_described_group_member_v4(r) for _ in range(r.count(16, "DescribedGroup.members"))]
    (authorized_operations,) = r.take(_i, "DescribedGroup.authorized_operations")
    return DescribedGroup(
        error_code=error_code,
        group_id=group_id,
        group_state=group_state,
        protocol_type=protocol_type,
        protocol_data=protocol_data,
        members=members,
        authorized_operations=authorized_operations,
    )


def _read_described_group_v5(r: Reader) -> DescribedGroup:
    (error_code,) = r.take(_h, "DescribedGroup.error_code")
    group_id = r.compact_string("DescribedGroup.group_id")
    group_state = r.compact_string("DescribedGroup.group_state")
    protocol_type = r.compact_string("DescribedGroup.protocol_type")
    protocol_data = r.compact_string("DescribedGroup.protocol_data")
    members = [_read_described_group_member_v5(r) for _ in range(r.compact_count(7, "DescribedGroup.members"))]
    (authorized_operations,) = r.take(_i, "DescribedGroup.authorized_operations")
    r.skip_tags("DescribedGroup")
    return DescribedGroup(
        error_code=error_code,
        group_id=group_id,
        group_state=group_state,
        protocol_type=protocol_type,
        protocol_data=protocol_data,
        members=members,
        authorized_operations=authorized_operations,
    )


def _read_described_group_v6(r: Reader) -> DescribedGroup:
    (error_code,) = r.take(_h, "DescribedGroup.error_code")
    error_message = r.compact_nullable_string("DescribedGroup.error_message")
    group_id = r.compact_string("DescribedGroup.group_id")
    group_state = r.compact_string("DescribedGroup.group_state")
    protocol_type = r.compact_string("DescribedGroup.protocol_type")
    protocol_data = r.compact_string("DescribedGroup.protocol_data")
    members = [_read_described_group_member_v5(r) for _ in range(r.compact_count(7, "DescribedGroup.members"))]
    (authorized_operations,) = r.take(_i, "DescribedGroup.authorized_operations")
    r.skip_tags("DescribedGroup")
    return DescribedGroup(
        error_code=error_code,
        error_message=error_message,
        group_id=group_id,
        group_state=group_state,
        protocol_type=protocol_type,
        protocol_data=protocol_data,
        members=members,
        authorized_operations=authorized_operations,
    )


def _write_described_group_v0(w: Writer, o: DescribedGroup) -> None:
    if o.error_message is not None:
        raise w.unsupported("DescribedGroup.error_message")
    if o.authorized_operations != -2147483648:
        raise w.unsupported("DescribedGroup.authorized_operations")
    w.add(_h.pack(o.error_code))
    w.string(o.group_id, "DescribedGroup.group_id")
    w.string(o.group_state, "DescribedGroup.group_state")
    w.string(o.protocol_type, "DescribedGroup.protocol_type")
    w.string(o.protocol_data, "DescribedGroup.protocol_data")
    w.count(len(o.members))
    for members_item in o.members:
        _write_described_group_member_v0(w, members_item)


def _write_described_group_v3(w: Writer, o: DescribedGroup) -> None:
    if o.error_message is not None:
        raise w.unsupported("DescribedGroup.error_message")
    w.add(_h.pack(o.error_code))
    w.string(o.group_id, "DescribedGroup.group_id")
    w.string(o.group_state, "DescribedGroup.group_state")
    w.string(o.protocol_type, "DescribedGroup.protocol_type")
    w.string(o.protocol_data, "DescribedGroup.protocol_data")
    w.count(len(o.members))
    for members_item in o.members:
        _write_described_group_member_v0(w, members_item)
    w.add(_i.pack(o.authorized_operations))


def _write_described_group_v4(w: Writer, o: DescribedGroup) -> None:
    if o.error_message is not None:
        raise w.unsupported("DescribedGroup.error_message")
    w.add(_h.pack(o.error_code))
    w.string(o.group_id, "DescribedGroup.group_id")
    w.string(o.group_state, "DescribedGroup.group_state")
    w.string(o.protocol_type, "DescribedGroup.protocol_type")
    w.string(o.protocol_data, "DescribedGroup.protocol_data")
    w.count(len(o.members))
    for members_item in o.members:
        _write_described_group_member_v4(w, members_item)
    w.add(_i.pack(o.authorized_operations))


def _write_described_group_v5(w: Writer, o: DescribedGroup) -> None:
    if o.error_message is not None:
        raise w.unsupported("DescribedGroup.error_message")
    w.add(_h.pack(o.error_code))
    w.compact_string(o.group_id, "DescribedGroup.group_id")
    w.compact_string(o.group_state, "DescribedGroup.group_state")
    w.compact_string(o.protocol_type, "DescribedGroup.protocol_type")
    w.compact_string(o.protocol_data, "DescribedGroup.protocol_data")
    w.compact_count(len(o.members))
    for members_item in o.members:
        _write_described_group_member_v5(w, members_item)
    w.add(_i.pack(o.authorized_operations))
    w.add(NO_TAGS)


def _write_described_group_v6(w: Writer, o: DescribedGroup) -> None:
    w.add(_h.pack(o.error_code))
    w.compact_nullable_string(o.error_message, "DescribedGroup.error_message")
    w.compact_string(o.group_id, "DescribedGroup.group_id")
    w.compact_string(o.group_state, "DescribedGroup.group_state")
    w.compact_string(o.protocol_type, "DescribedGroup.protocol_type")
    w.compact_string(o.protocol_data, "DescribedGroup.protocol_data")
    w.compact_count(len(o.members))
    for members_item in o.members:
        _write_described_group_member_v5(w, members_item)
    w.add(_i.pack(o.authorized_operations))
    w.add(NO_TAGS)


def _read_describe_groups_response_v0(r: Reader) -> DescribeGroupsResponse:
    groups = [_read_described_group_v0(r) for _ in range(r.count(14, "DescribeGroupsResponse.groups"))]
    return DescribeGroupsResponse(groups=groups)


def _read_describe_groups_response_v1(r: Reader) -> DescribeGroupsResponse:
    (throttle_time_ms,) = r.take(_i, "DescribeGroupsResponse.throttle_time_ms")
    groups = [_read_described_group_v0(r) for _ in range(r.count(14, "DescribeGroupsResponse.groups"))]
    return DescribeGroupsResponse(throttle_time_ms=throttle_time_ms, groups=groups)


def _read_describe_groups_response_v3(r: Reader) -> DescribeGroupsResponse:
    (throttle_time_ms,) = r.take(_i, "DescribeGroupsResponse.throttle_time_ms")
    groups = [_read_described_group_v3(r) for _ in range(r.count(18, "DescribeGroupsResponse.groups"))]
    return DescribeGroupsResponse(throttle_time_ms=throttle_time_ms, groups=groups)


def _read_describe_groups_response_v4(r: Reader) -> DescribeGroupsResponse:
    (throttle_time_ms,) = r.take(_i, "DescribeGroupsResponse.throttle_time_ms")
    groups = [_read_described_group_v4(r) for _ in range(r.count(18, "DescribeGroupsResponse.groups"))]
    return DescribeGroupsResponse(throttle_time_ms=throttle_time_ms, groups=groups)


def _read_describe_groups_response_v5(r: Reader) -> DescribeGroupsResponse:
    (throttle_time_ms,) = r.take(_i, "DescribeGroupsResponse.throttle_time_ms")
    groups = [_read_described_group_v5(r) for _ in range(r.compact_count(12, "DescribeGroupsResponse.groups"))]
    r.skip_tags("DescribeGroupsResponse")
    return DescribeGroupsResponse(throttle_time_ms=throttle_time_ms, groups=groups)


def _read_describe_groups_response_v6(r: Reader) -> DescribeGroupsResponse:
    (throttle_time_ms,) = r.take(_i, "DescribeGroupsResponse.throttle_time_ms")
    groups = [_read_described_group_v6(r) for _ in range(r.compact_count(13, "DescribeGroupsResponse.groups"))]
    r.skip_tags("DescribeGroupsResponse")
    return DescribeGroupsResponse(throttle_time_ms=throttle_time_ms, groups=groups)


def _write_describe_groups_response_v0(w: Writer, o: DescribeGroupsResponse) -> None:
    w.count(len(o.groups))
    for groups_item in o.groups:
        _write_described_group_v0(w, groups_item)


def _write_describe_groups_response_v1(w: Writer, o: DescribeGroupsResponse) -> None:
    w.add(_i.pack(o.throttle_time_ms))
    w.count(len(o.groups))
    for groups_item in o.groups:
        _write_described_group_v0(w, groups_item)


def _write_describe_groups_response_v3(w: Writer, o: DescribeGroupsResponse) -> None:
    w.add(_i.pack(o.throttle_time_ms))
    w.count(len(o.groups))
    for groups_item in o.groups:
        _write_described_group_v3(w, groups_item)


def _write_describe_groups_response_v4(w: Writer, o: DescribeGroupsResponse) -> None:
    w.add(_i.pack(o.throttle_time_ms))
    w.count(len(o.groups))
    for groups_item in o.groups:
        _write_described_group_v4(w, groups_item)


def _write_describe_groups_response_v5(w: Writer, o: DescribeGroupsResponse) -> None:
    w.add(_i.pack(o.throttle_time_ms))
    w.compact_count(len(o.groups))
    for groups_item in o.groups:
        _write_described_group_v5(w, groups_item)
    w.add(NO_TAGS)


def _write_describe_groups_response_v6(w: Writer, o: DescribeGroupsResponse) -> None:
    w.add(_i.pack(o.throttle_time_ms))
    w.compact_count(len(o.groups))
    for groups_item in o.groups:
        _write_described_group_v6(w, groups_item)
    w.add(NO_TAGS)


REQUEST: Final = Codec(
    "DescribeGroupsRequest",
    0,
    (
        _read_describe_groups_request_v0,
        _read_describe_groups_request_v0,
        _read_describe_groups_request_v0,
        _read_describe_groups_request_v3,
        _read_describe_groups_request_v3,
        _read_describe_groups_request_v5,
        _read_describe_groups_request_v5,
    ),
    (
        _write_describe_groups_request_v0,
        _write_describe_groups_request_v0,
        _write_describe_groups_request_v0,
        _write_describe_groups_request_v3,
        _write_describe_groups_request_v3,
        _write_describe_groups_request_v5,
        _write_describe_groups_request_v5,
    ),
)

RESPONSE: Final = Codec(
    "DescribeGroupsResponse",
    0,
    (
        _read_describe_groups_response_v0,
        _read_describe_groups_response_v1,
        _read_describe_groups_response_v1,
        _read_describe_groups_response_v3,
        _read_describe_groups_response_v4,
        _read_describe_groups_response_v5,
        _read_describe_groups_response_v6,
    ),
    (
        _write_describe_groups_response_v0,
        _write_describe_groups_response_v1,
        _write_describe_groups_response_v1,
        _write_describe_groups_response_v3,
        _write_describe_groups_response_v4,
        _write_describe_groups_response_v5,
        _write_describe_groups_response_v6,
    ),
)
