"""CreateAcls (API 30), versions 1 to 3. Made by scripts/generate_kafka_messages.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from raftlog.wire.kafka.codec import Codec
from raftlog.wire.kafka.reader import Reader
from raftlog.wire.kafka.writer import NO_TAGS, Writer

_b = Struct(">b")
_bb = Struct(">bb")
_h = Struct(">h")
_i = Struct(">i")


@dataclass(slots=True, kw_only=True)
class AclCreation:
    """Part of CreateAclsRequest."""

    resource_type: int = 0
    resource_name: str = ""
    resource_pattern_type: int = 3
    principal: str = ""
    host: str = ""
    operation: int = 0
    permission_type: int = 0


@dataclass(slots=True, kw_only=True)
class CreateAclsRequest:
    """Versions 1 to 3."""

    creations: list[AclCreation] = field(default_factory=list)


def _read_acl_creation_v1(r: Reader) -> AclCreation:
    (resource_type,) = r.take(_b, "AclCreation.resource_type")
    resource_name = r.string("AclCreation.resource_name")
    (resource_pattern_type,) = r.take(_b, "AclCreation.resource_pattern_type")
    principal = r.string("AclCreation.principal")
    host = r.string("AclCreation.host")
    operation, permission_type = r.take(_bb, "AclCreation.operation,permission_type")
    return AclCreation(
        resource_type=resource_type,
        resource_name=resource_name,
        resource_pattern_type=resource_pattern_type,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=permission_type,
    )


def _read_acl_creation_v2(r: Reader) -> AclCreation:
    (resource_type,) = r.take(_b, "AclCreation.resource_type")
    resource_name = r.compact_string("AclCreation.resource_name")
    (resource_pattern_type,) = r.take(_b, "AclCreation.resource_pattern_type")
    principal = r.compact_string("AclCreation.principal")
    host = r.compact_string("AclCreation.host")
    operation, permission_type = r.take(_bb, "AclCreation.operation,permission_type")
    r.skip_tags("AclCreation")
    return AclCreation(
        resource_type=resource_type,
        resource_name=resource_name,
        resource_pattern_type=resource_pattern_type,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=permission_type,
    )


def _write_acl_creation_v1(w: Writer, o: AclCreation) -> None:
    w.add(_b.pack(o.resource_type))
    w.string(o.resource_name, "AclCreation.resource_name")
    w.add(_b.pack(o.resource_pattern_type))
    w.string(o.principal, "AclCreation.principal")
    w.string(o.host, "AclCreation.host")
    w.add(_bb.pack(o.operation, o.permission_type))


def _write_acl_creation_v2(w: Writer, o: AclCreation) -> None:
    w.add(_b.pack(o.resource_type))
    w.compact_string(o.resource_name, "AclCreation.resource_name")
    w.add(_b.pack(o.resource_pattern_type))
    w.compact_string(o.principal, "AclCreation.principal")
    w.compact_string(o.host, "AclCreation.host")
    w.add(_bb.pack(o.operation, o.permission_type))
    w.add(NO_TAGS)


def _read_create_acls_request_v1(r: Reader) -> CreateAclsRequest:
    creations = [_read_acl_creation_v1(r) for _ in range(r.count(10, "CreateAclsRequest.creations"))]
    return CreateAclsRequest(creations=creations)


def _read_create_acls_request_v2(r: Reader) -> CreateAclsRequest:
    creations = [_read_acl_creation_v2(r) for _ in range(r.compact_count(8, "CreateAclsRequest.creations"))]
    r.skip_tags("CreateAclsRequest")
    return CreateAclsRequest(creations=creations)


def _write_create_acls_request_v1(w: Writer, o: CreateAclsRequest) -> None:
    w.count(len(o.creations))
    for creations_item in o.creations:
        _write_acl_creation_v1(w, creations_item)


def _write_create_acls_request_v2(w: Writer, o: CreateAclsRequest) -> None:
    w.compact_count(len(o.creations))
    for creations_item in o.creations:
        _write_acl_creation_v2(w, creations_item)
    w.add(NO_TAGS)


@dataclass(slots=True, kw_only=True)
class AclCreationResult:
    """Part of CreateAclsResponse."""

    error_code: int = 0
    error_message: str | None = ""


@dataclass(slots=True, kw_only=True)
class CreateAclsResponse:
    """Versions 1 to 3."""

    throttle_time_ms: int = 0
    results: list[AclCreationResult] = field(default_factory=list)


def _read_acl_creation_result_v1(r: Reader) -> AclCreationResult:
    (error_code,) = r.take(_h, "AclCreationResult.error_code")
    error_message = r.nullable_string("AclCreationResult.error_message")
    return AclCreationResult(error_code=error_code, error_message=error_message)


def _read_acl_creation_result_v2(r: Reader) -> AclCreationResult:
    (error_code,) = r.take(_h, "AclCreationResult.error_code")
    error_message = r.compact_nullable_string("AclCreationResult.error_message")
    r.skip_tags("AclCreationResult")
    return AclCreationResult(error_code=error_code, error_message=error_message)


def _write_acl_creation_result_v1(w: Writer, o: AclCreationResult) -> None:
    w.add(_h.pack(o.error_code))
    w.nullable_string(o.error_message, "AclCreationResult.error_message")


def _write_acl_creation_result_v2(w: Writer, o: AclCreationResult) -> None:
    w.add(_h.pack(o.error_code))
    w.compact_nullable_string(o.error_message, "AclCreationResult.error_message")
    w.add(NO_TAGS)


def _read_create_acls_response_v1(r: Reader) -> CreateAclsResponse:
    (throttle_time_ms,) = r.take(_i, "CreateAclsResponse.throttle_time_ms")
    results = [_read_acl_creation_result_v1(r) for _ in range(r.count(4, "CreateAclsResponse.results"))]
    return CreateAclsResponse(throttle_time_ms=throttle_time_ms, results=results)


def _read_create_acls_response_v2(r: Reader) -> CreateAclsResponse:
    (throttle_time_ms,) = r.take(_i, "CreateAclsResponse.throttle_time_ms")
    results = [_read_acl_creation_result_v2(r) for _ in range(r.compact_count(4, "CreateAclsResponse.results"))]
    r.skip_tags("CreateAclsResponse")
    return CreateAclsResponse(throttle_time_ms=throttle_time_ms, results=results)


def _write_create_acls_response_v1(w: Writer, o: CreateAclsResponse) -> None:
    w.add(_i.pack(o.throttle_time_ms))
    w.count(len(o.results))
    for results_item in o.results:
        _write_acl_creation_result_v1(w, results_item)


def _write_create_acls_response_v2(w: Writer, o: CreateAclsResponse) -> None:
    w.add(_i.pack(o.throttle_time_ms))
    w.compact_count(len(o.results))
    for results_item in o.results:
        _write_acl_creation_result_v2(w, results_item)
    w.add(NO_TAGS)


REQUEST: Final = Codec(
    "CreateAclsRequest",
    1,
    (
        _read_create_acls_request_v1,
        _read_create_acls_request_v2,
        _read_create_acls_request_v2,
    ),
    (
        _write_create_acls_request_v1,
        _write_create_acls_request_v2,
        _write_create_acls_request_v2,
    ),
)

RESPONSE: Final = Codec(
    "CreateAclsResponse",
    1,
    (
        _read_create_acls_response_v1,
        _read_create_acls_response_v2,
        _read_create_acls_response_v2,
    ),
    (
        _write_create_acls_response_v1,
        _write_create_acls_response_v2,
        _write_create_acls_response_v2,
    ),
)
