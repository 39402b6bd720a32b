"""DescribeAcls (API 29), versions 1 to 3. Made by scripts/generate_kafka_messages.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from raftlog.wire.kafka.codec import Codec
from raftlog.wire.kafka.reader import Reader
from raftlog.wire.kafka.writer import NO_TAGS, Writer

_b = Struct(">b")
_bb = Struct(">bb")
_ih = Struct(">ih")


@dataclass(slots=True, kw_only=True)
class DescribeAclsRequest:
    """Versions 1 to 3."""

    resource_type_filter: int = 0
    resource_name_filter: str | None = ""
    pattern_type_filter: int = 3
    principal_filter: str | None = ""
    host_filter: str | None = ""
    operation: int = 0
    permission_type: int = 0


def _read_describe_acls_request_v1(r: Reader) -> DescribeAclsRequest:
    (resource_type_filter,) = r.take(_b, "DescribeAclsRequest.resource_type_filter")
    resource_name_filter = r.nullable_string("DescribeAclsRequest.resource_name_filter")
    (pattern_type_filter,) = r.take(_b, "DescribeAclsRequest.pattern_type_filter")
    principal_filter = r.nullable_string("DescribeAclsRequest.principal_filter")
    host_filter = r.nullable_string("DescribeAclsRequest.host_filter")
    operation, permission_type = r.take(_bb, "DescribeAclsRequest.operation,permission_type")
    return DescribeAclsRequest(
        resource_type_filter=resource_type_filter,
        resource_name_filter=resource_name_filter,
        pattern_type_filter=pattern_type_filter,
        principal_filter=principal_filter,
        host_filter=host_filter,
        operation=operation,
        permission_type=permission_type,
    )


def _read_describe_acls_request_v2(r: Reader) -> DescribeAclsRequest:
    (resource_type_filter,) = r.take(_b, "DescribeAclsRequest.resource_type_filter")
    resource_name_filter = r.compact_nullable_string("DescribeAclsRequest.resource_name_filter")
    (pattern_type_filter,) = r.take(_b, "DescribeAclsRequest.pattern_type_filter")
    principal_filter = r.compact_nullable_string("DescribeAclsRequest.principal_filter")
    host_filter = r.compact_nullable_string("DescribeAclsRequest.host_filter")
    operation, permission_type = r.take(_bb, "DescribeAclsRequest.operation,permission_type")
    r.skip_tags("DescribeAclsRequest")
    return DescribeAclsRequest(
        resource_type_filter=resource_type_filter,
        resource_name_filter=resource_name_filter,
        pattern_type_filter=pattern_type_filter,
        principal_filter=principal_filter,
        host_filter=host_filter,
        operation=operation,
        permission_type=permission_type,
    )


def _write_describe_acls_request_v1(w: Writer, o: DescribeAclsRequest) -> None:
    w.add(_b.pack(o.resource_type_filter))
    w.nullable_string(o.resource_name_filter, "DescribeAclsRequest.resource_name_filter")
    w.add(_b.pack(o.pattern_type_filter))
    w.nullable_string(o.principal_filter, "DescribeAclsRequest.principal_filter")
    w.nullable_string(o.host_filter, "DescribeAclsRequest.host_filter")
    w.add(_bb.pack(o.operation, o.permission_type))


def _write_describe_acls_request_v2(w: Writer, o: DescribeAclsRequest) -> None:
    w.add(_b.pack(o.resource_type_filter))
    w.compact_nullable_string(o.resource_name_filter, "DescribeAclsRequest.resource_name_filter")
    w.add(_b.pack(o.pattern_type_filter))
    w.compact_nullable_string(o.principal_filter, "DescribeAclsRequest.principal_filter")
    w.compact_nullable_string(o.host_filter, "DescribeAclsRequest.host_filter")
    w.add(_bb.pack(o.operation, o.permission_type))
    w.add(NO_TAGS)


@dataclass(slots=True, kw_only=True)
class AclDescription:
    """Part of DescribeAclsResponse."""

    principal: str = ""
    host: str = ""
    operation: int = 0
    permission_type: int = 0


@dataclass(slots=True, kw_only=True)
class DescribeAclsResource:
    """Part of DescribeAclsResponse."""

    resource_type: int = 0
    resource_name: str = ""
    pattern_type: int = 3
    acls: list[AclDescription] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class DescribeAclsResponse:
    """Versions 1 to 3."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    resources: list[DescribeAclsResource] = field(default_factory=list)


def _read_acl_description_v1(r: Reader) -> AclDescription:
    principal = r.string("AclDescription.principal")
    host = r.string("AclDescription.host")
    operation, permission_type = r.take(_bb, "AclDescription.operation,permission_type")
    return AclDescription(principal=principal, host=host, operation=operation, permission_type=permission_type)


def _read_acl_description_v2(r: Reader) -> AclDescription:
    principal = r.compact_string("AclDescription.principal")
    host = r.compact_string("AclDescription.host")
    operation, permission_type = r.take(_bb, "AclDescription.operation,permission_type")
    r.skip_tags("AclDescription")
    return AclDescription(principal=principal, host=host, operation=operation, permission_type=permission_type)


def _write_acl_description_v1(w: Writer, o: AclDescription) -> None:
    w.string(o.principal, "AclDescription.principal")
    w.string(o.host, "AclDescription.host")
    w.add(_bb.pack(o.operation, o.permission_type))


def _write_acl_description_v2(w: Writer, o: AclDescription) -> None:
    w.compact_string(o.principal, "AclDescription.principal")
    w.compact_string(o.host, "AclDescription.host")
    w.add(_bb.pack(o.operation, o.permission_type))
    w.add(NO_TAGS)


def _read_describe_acls_resource_v1(r: Reader) -> DescribeAclsResource:
    (resource_type,) = r.take(_b, "DescribeAclsResource.resource_type")
    resource_name = r.string("DescribeAclsResource.resource_name")
    (pattern_type,) = r.take(_b, "DescribeAclsResource.pattern_type")
    acls = [_read_acl_description_v1(r) for _ in range(r.count(6, "DescribeAclsResource.acls"))]
    return DescribeAclsResource(
        resource_type=resource_type, resource_name=resource_name, pattern_type=pattern_type, acls=acls
    )


def _read_describe_acls_resource_v2(r: Reader) -> DescribeAclsResource:
    (resource_type,) = r.take(_b, "DescribeAclsResource.resource_type")
    resource_name = r.compact_string("DescribeAclsResource.resource_name")
    (pattern_type,) = r.take(_b, "DescribeAclsResource.pattern_type")
    acls = [_read_acl_description_v2(r) for _ in range(r.compact_count(5, "DescribeAclsResource.acls"))]
    r.skip_tags("DescribeAclsResource")
    return DescribeAclsResource(
        resource_type=resource_type, resource_name=resource_name, pattern_type=pattern_type, acls=acls
    )


def _write_describe_acls_resource_v1(w: Writer, o: DescribeAclsResource) -> None:
    w.add(_b.pack(o.resource_type))
    w.string(o.resource_name, "DescribeAclsResource.resource_name")
    w.add(_b.pack(o.pattern_type))
    w.count(len(o.acls))
    for acls_item in o.acls:
        _write_acl_description_v1(w, acls_item)


def _write_describe_acls_resource_v2(w: Writer, o: DescribeAclsResource) -> None:
    w.add(_b.pack(o.resource_type))
    w.compact_string(o.resource_name, "DescribeAclsResource.resource_name")
    w.add(_b.pack(o.pattern_type))
    w.compact_count(len(o.acls))
    for acls_item in o.acls:
        _write_acl_description_v2(w, acls_item)
    w.add(NO_TAGS)


def _read_describe_acls_response_v1(r: Reader) -> DescribeAclsResponse:
    throttle_time_ms, error_code = r.take(_ih, "DescribeAclsResponse.throttle_time_ms,error_code")
    error_message = r.nullable_string("DescribeAclsResponse.error_message")
    resources = [_read_describe_acls_resource_v1(r) for _ in range(r.count(8, "DescribeAclsResponse.resources"))]
    return DescribeAclsResponse(
        throttle_time_ms=throttle_time_ms, error_code=error_code, error_message=error_message, resources=resources
    )


def _read_describe_acls_response_v2(r: Reader) -> DescribeAclsResponse:
    throttle_time_ms, error_code = r.take(_ih, "DescribeAclsResponse.throttle_time_ms,error_code")
    error_message = r.compact_nullable_string("DescribeAclsResponse.error_message")
    resources = [
        _read_describe_acls_resource_v2(r) for _ in range(r.compact_count(5, "DescribeAclsResponse.resources"))
    ]
    r.skip_tags("DescribeAclsResponse")
    return DescribeAclsResponse(
        throttle_time_ms=throttle_time_ms, error_code=error_code, error_message=error_message, resources=resources
    )


def _write_describe_acls_response_v1(w: Writer, o: DescribeAclsResponse) -> None:
    w.add(_ih.pack(o.throttle_time_ms, o.error_code))
    w.nullable_string(o.error_message, "DescribeAclsResponse.error_message")
    w.count(len(o.resources))
    for resources_item in o.resources:
        _write_describe_acls_resource_v1(w, resources_item)


def _write_describe_acls_response_v2(w: Writer, o: DescribeAclsResponse) -> None:
    w.add(_ih.pack(o.throttle_time_ms, o.error_code))
    w.compact_nullable_string(o.error_message, "DescribeAclsResponse.error_message")
    w.compact_count(len(o.resources))
    for resources_item in o.resources:
        _write_describe_acls_resource_v2(w, resources_item)
    w.add(NO_TAGS)


REQUEST: Final = Codec(
    "DescribeAclsRequest",
    1,
    (
        _read_describe_acls_request_v1,
        _read_describe_acls_request_v2,
        _read_describe_acls_request_v2,
    ),
    (
        _write_describe_acls_request_v1,
        _write_describe_acls_request_v2,
        _write_describe_acls_request_v2,
    ),
)

RESPONSE: Final = Codec(
    "DescribeAclsResponse",
    1,
    (
        _read_describe_acls_response_v1,
        _read_describe_acls_response_v2,
        _read_describe_acls_response_v2,
    ),
    (
        _write_describe_acls_response_v1,
        _write_describe_acls_response_v2,
        _write_describe_acls_response_v2,
    ),
)
