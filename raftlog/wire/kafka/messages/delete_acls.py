"""DeleteAcls (API 31), versions 1 to 3. Made by scripts/generate_kafka_messages.py."""

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
class DeleteAclsFilter:
    """Part of DeleteAclsRequest."""

    resource_type_filter: int = 0
    resource_name_filter: str | None = ""
    pattern_type_filter: int = 3
    principal_filter: str | None = ""
    host_filter: str | None = ""
    operation: int = 0
    permission_type: int = 0


@dataclass(slots=True, kw_only=True)
class DeleteAclsRequest:
    """Versions 1 to 3."""

    filters: list[DeleteAclsFilter] = field(default_factory=list)


def _read_delete_acls_filter_v1(r: Reader) -> DeleteAclsFilter:
    (resource_type_filter,) = r.take(_b, "DeleteAclsFilter.resource_type_filter")
    resource_name_filter = r.nullable_string("DeleteAclsFilter.resource_name_filter")
    (pattern_type_filter,) = r.take(_b, "DeleteAclsFilter.pattern_type_filter")
    principal_filter = r.nullable_string("DeleteAclsFilter.principal_filter")
    host_filter = r.nullable_string("DeleteAclsFilter.host_filter")
    operation, permission_type = r.take(_bb, "DeleteAclsFilter.operation,permission_type")
    return DeleteAclsFilter(
        resource_type_filter=resource_type_filter,
        resource_name_filter=resource_name_filter,
        pattern_type_filter=pattern_type_filter,
        principal_filter=principal_filter,
        host_filter=host_filter,
        operation=operation,
        permission_type=permission_type,
    )


def _read_delete_acls_filter_v2(r: Reader) -> DeleteAclsFilter:
    (resource_type_filter,) = r.take(_b, "DeleteAclsFilter.resource_type_filter")
    resource_name_filter = r.compact_nullable_string("DeleteAclsFilter.resource_name_filter")
    (pattern_type_filter,) = r.take(_b, "DeleteAclsFilter.pattern_type_filter")
    principal_filter = r.compact_nullable_string("DeleteAclsFilter.principal_filter")
    host_filter = r.compact_nullable_string("DeleteAclsFilter.host_filter")
    operation, permission_type = r.take(_bb, "DeleteAclsFilter.operation,permission_type")
    r.skip_tags("DeleteAclsFilter")
    return DeleteAclsFilter(
        resource_type_filter=resource_type_filter,
        resource_name_filter=resource_name_filter,
        pattern_type_filter=pattern_type_filter,
        principal_filter=principal_filter,
        host_filter=host_filter,
        operation=operation,
        permission_type=permission_type,
    )


def _write_delete_acls_filter_v1(w: Writer, o: DeleteAclsFilter) -> None:
    w.add(_b.pack(o.resource_type_filter))
    w.nullable_string(o.resource_name_filter, "DeleteAclsFilter.resource_name_filter")
    w.add(_b.pack(o.pattern_type_filter))
    w.nullable_string(o.principal_filter, "DeleteAclsFilter.principal_filter")
    w.nullable_string(o.host_filter, "DeleteAclsFilter.host_filter")
    w.add(_bb.pack(o.operation, o.permission_type))


def _write_delete_acls_filter_v2(w: Writer, o: DeleteAclsFilter) -> None:
    w.add(_b.pack(o.resource_type_filter))
    w.compact_nullable_string(o.resource_name_filter, "DeleteAclsFilter.resource_name_filter")
    w.add(_b.pack(o.pattern_type_filter))
    w.compact_nullable_string(o.principal_filter, "DeleteAclsFilter.principal_filter")
    w.compact_nullable_string(o.host_filter, "DeleteAclsFilter.host_filter")
    w.add(_bb.pack(o.operation, o.permission_type))
    w.add(NO_TAGS)


def _read_delete_acls_request_v1(r: Reader) -> DeleteAclsRequest:
    filters = [_read_delete_acls_filter_v1(r) for _ in range(r.count(10, "DeleteAclsRequest.filters"))]
    return DeleteAclsRequest(filters=filters)


def _read_delete_acls_request_v2(r: Reader) -> DeleteAclsRequest:
    filters = [_read_delete_acls_filter_v2(r) for _ in range(r.compact_count(8, "DeleteAclsRequest.filters"))]
    r.skip_tags("DeleteAclsRequest")
    return DeleteAclsRequest(filters=filters)


def _write_delete_acls_request_v1(w: Writer, o: DeleteAclsRequest) -> None:
    w.count(len(o.filters))
    for filters_item in o.filters:
        _write_delete_acls_filter_v1(w, filters_item)


def _write_delete_acls_request_v2(w: Writer, o: DeleteAclsRequest) -> None:
    w.compact_count(len(o.filters))
    for filters_item in o.filters:
        _write_delete_acls_filter_v2(w, filters_item)
    w.add(NO_TAGS)


@dataclass(slots=True, kw_only=True)
class DeleteAclsMatchingAcl:
    """Part of DeleteAclsResponse."""

    error_code: int = 0
    error_message: str | None = ""
    resource_type: int = 0
    resource_name: str = ""
    pattern_type: int = 3
    principal: str = ""
    host: str = ""
    operation: int = 0
    permission_type: int = 0


@dataclass(slots=True, kw_only=True)
class DeleteAclsFilterResult:
    """Part of DeleteAclsResponse."""

    error_code: int = 0
    error_message: str | None = ""
    matching_acls: list[DeleteAclsMatchingAcl] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class DeleteAclsResponse:
    """Versions 1 to 3."""

    throttle_time_ms: int = 0
    filter_results: list[DeleteAclsFilterResult] = field(default_factory=list)


def _read_delete_acls_matching_acl_v1(r: Reader) -> DeleteAclsMatchingAcl:
    (error_code,) = r.take(_h, "DeleteAclsMatchingAcl.error_code")
    error_message = r.nullable_string("DeleteAclsMatchingAcl.error_message")
    (resource_type,) = r.take(_b, "DeleteAclsMatchingAcl.resource_type")
    resource_name = r.string("DeleteAclsMatchingAcl.resource_name")
    (pattern_type,) = r.take(_b, "DeleteAclsMatchingAcl.pattern_type")
    principal = r.string("DeleteAclsMatchingAcl.principal")
    host = r.string("DeleteAclsMatchingAcl.host")
    operation, permission_type = r.take(_bb, "DeleteAclsMatchingAcl.operation,permission_type")
    return DeleteAclsMatchingAcl(
        error_code=error_code,
        error_message=error_message,
        resource_type=resource_type,
        resource_name=resource_name,
        pattern_type=pattern_type,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=permission_type,
    )


def _read_delete_acls_matching_acl_v2(r: Reader) -> DeleteAclsMatchingAcl:
    (error_code,) = r.take(_h, "DeleteAclsMatchingAcl.error_code")
    error_message = r.compact_nullable_string("DeleteAclsMatchingAcl.error_message")
    (resource_type,) = r.take(_b, "DeleteAclsMatchingAcl.resource_type")
    resource_name = r.compact_string("DeleteAclsMatchingAcl.resource_name")
    (pattern_type,) = r.take(_b, "DeleteAclsMatchingAcl.pattern_type")
    principal = r.compact_string("DeleteAclsMatchingAcl.principal")
    host = r.compact_string("DeleteAclsMatchingAcl.host")
    operation, permission_type = r.take(_bb, "DeleteAclsMatchingAcl.operation,permission_type")
    r.skip_tags("DeleteAclsMatchingAcl")
    return DeleteAclsMatchingAcl(
        error_code=error_code,
        error_message=error_message,
        resource_type=resource_type,
        resource_name=resource_name,
        pattern_type=pattern_type,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=permission_type,
    )


def _write_delete_acls_matching_acl_v1(w: Writer, o: DeleteAclsMatchingAcl) -> None:
    w.add(_h.pack(o.error_code))
    w.nullable_string(o.error_message, "DeleteAclsMatchingAcl.error_message")
    w.add(_b.pack(o.resource_type))
    w.string(o.resource_name, "DeleteAclsMatchingAcl.resource_name")
    w.add(_b.pack(o.pattern_type))
    w.string(o.principal, "DeleteAclsMatchingAcl.principal")
    w.string(o.host, "DeleteAclsMatchingAcl.host")
    w.add(_bb.pack(o.operation, o.permission_type))


def _write_delete_acls_matching_acl_v2(w: Writer, o: DeleteAclsMatchingAcl) -> None:
    w.add(_h.pack(o.error_code))
    w.compact_nullable_string(o.error_message, "DeleteAclsMatchingAcl.error_message")
    w.add(_b.pack(o.resource_type))
    w.compact_string(o.resource_name, "DeleteAclsMatchingAcl.resource_name")
    w.add(_b.pack(o.pattern_type))
    w.compact_string(o.principal, "DeleteAclsMatchingAcl.principal")
    w.compact_string(o.host, "DeleteAclsMatchingAcl.host")
    w.add(_bb.pack(o.operation, o.permission_type))
    w.add(NO_TAGS)


def _read_delete_acls_filter_result_v1(r: Reader) -> DeleteAclsFilterResult:
    (error_code,) = r.take(_h, "DeleteAclsFilterResult.error_code")
    error_message = r.nullable_string("DeleteAclsFilterResult.error_message")
    matching_acls = [
        _read_delete_acls_matching_acl_v1(r) for _ in range(r.count(14, "DeleteAclsFilterResult.matching_acls"))
    ]
    return DeleteAclsFilterResult(error_code=error_code, error_message=error_message, matching_acls=matching_acls)


def _read_delete_acls_filter_result_v2(r: Reader) -> DeleteAclsFilterResult:
    (error_code,) = r.take(_h, "DeleteAclsFilterResult.error_code")
    error_message = r.compact_nullable_string("DeleteAclsFilterResult.error_message")
    matching_acls = [
        _read_delete_acls_matching_acl_v2(r) for _ in range(r.compact_count(11, "DeleteAclsFilterResult.matching_acls"))
    ]
    r.skip_tags("DeleteAclsFilterResult")
    return DeleteAclsFilterResult(error_code=error_code, error_message=error_message, matching_acls=matching_acls)


def _write_delete_acls_filter_result_v1(w: Writer, o: DeleteAclsFilterResult) -> None:
    w.add(_h.pack(o.error_code))
    w.nullable_string(o.error_message, "DeleteAclsFilterResult.error_message")
    w.count(len(o.matching_acls))
    for matching_acls_item in o.matching_acls:
        _write_delete_acls_matching_acl_v1(w, matching_acls_item)


def _write_delete_acls_filter_result_v2(w: Writer, o: DeleteAclsFilterResult) -> None:
    w.add(_h.pack(o.error_code))
    w.compact_nullable_string(o.error_message, "DeleteAclsFilterResult.error_message")
    w.compact_count(len(o.matching_acls))
    for matching_acls_item in o.matching_acls:
        _write_delete_acls_matching_acl_v2(w, matching_acls_item)
    w.add(NO_TAGS)


def _read_delete_acls_response_v1(r: Reader) -> DeleteAclsResponse:
    (throttle_time_ms,) = r.take(_i, "DeleteAclsResponse.throttle_time_ms")
    filter_results = [
        _read_delete_acls_filter_result_v1(r) for _ in range(r.count(8, "DeleteAclsResponse.filter_results"))
    ]
    return DeleteAclsResponse(throttle_time_ms=throttle_time_ms, filter_results=filter_results)


def _read_delete_acls_response_v2(r: Reader) -> DeleteAclsResponse:
    (throttle_time_ms,) = r.take(_i, "DeleteAclsResponse.throttle_time_ms")
    filter_results = [
        _read_delete_acls_filter_result_v2(r) for _ in range(r.compact_count(5, "DeleteAclsResponse.filter_results"))
    ]
    r.skip_tags("DeleteAclsResponse")
    return DeleteAclsResponse(throttle_time_ms=throttle_time_ms, filter_results=filter_results)


def _write_delete_acls_response_v1(w: Writer, o: DeleteAclsResponse) -> None:
    w.add(_i.pack(o.throttle_time_ms))
    w.count(len(o.filter_results))
    for filter_results_item in o.filter_results:
        _write_delete_acls_filter_result_v1(w, filter_results_item)


def _write_delete_acls_response_v2(w: Writer, o: DeleteAclsResponse) -> None:
    w.add(_i.pack(o.throttle_time_ms))
    w.compact_count(len(o.filter_results))
    for filter_results_item in o.filter_results:
        _write_delete_acls_filter_result_v2(w, filter_results_item)
    w.add(NO_TAGS)


REQUEST: Final = Codec(
    "DeleteAclsRequest",
    1,
    (
        _read_delete_acls_request_v1,
        _read_delete_acls_request_v2,
        _read_delete_acls_request_v2,
    ),
    (
        _write_delete_acls_request_v1,
        _write_delete_acls_request_v2,
        _write_delete_acls_request_v2,
    ),
)

RESPONSE: Final = Codec(
    "DeleteAclsResponse",
    1,
    (
        _read_delete_acls_response_v1,
        _read_delete_acls_response_v2,
        _read_delete_acls_response_v2,
    ),
    (
        _write_delete_acls_response_v1,
        _write_delete_acls_response_v2,
        _write_delete_acls_response_v2,
    ),
)
