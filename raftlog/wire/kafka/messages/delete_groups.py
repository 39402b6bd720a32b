"""DeleteGroups (API 42), versions 0 to 2. Made by scripts/generate_kafka_messages.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from raftlog.wire.kafka.codec import Codec
from raftlog.wire.kafka.reader import Reader
from raftlog.wire.kafka.writer import NO_TAGS, Writer

_h = Struct(">h")
_i = Struct(">i")


@dataclass(slots=True, kw_only=True)
class DeleteGroupsRequest:
    """Versions 0 to 2."""

    groups_names: list[str] = field(default_factory=list)


def _read_delete_groups_request_v0(r: Reader) -> DeleteGroupsRequest:
    groups_names = [
        r.string("DeleteGroupsRequest.groups_names") for _ in range(r.count(2, "DeleteGroupsRequest.groups_names"))
    ]
    return DeleteGroupsRequest(groups_names=groups_names)


def _read_delete_groups_request_v2(r: Reader) -> DeleteGroupsRequest:
    groups_names = [
        r.compact_string("DeleteGroupsRequest.groups_names")
        for _ in range(r.compact_count(1, "DeleteGroupsRequest.groups_names"))
    ]
    r.skip_tags("DeleteGroupsRequest")
    return DeleteGroupsRequest(groups_names=groups_names)


def _write_delete_groups_request_v0(w: Writer, o: DeleteGroupsRequest) -> None:
    w.count(len(o.groups_names))
    for groups_names_item in o.groups_names:
        w.string(groups_names_item, "DeleteGroupsRequest.groups_names")


def _write_delete_groups_request_v2(w: Writer, o: DeleteGroupsRequest) -> None:
    w.compact_count(len(o.groups_names))
    for groups_names_item in o.groups_names:
        w.compact_string(groups_names_item, "DeleteGroupsRequest.groups_names")
    w.add(NO_TAGS)


@dataclass(slots=True, kw_only=True)
class DeletableGroupResult:
    """Part of DeleteGroupsResponse."""

    group_id: str = ""
    error_code: int = 0


@dataclass(slots=True, kw_only=True)
class DeleteGroupsResponse:
    """Versions 0 to 2."""

    throttle_time_ms: int = 0
    results: list[DeletableGroupResult] = field(default_factory=list)


def _read_deletable_group_result_v0(r: Reader) -> DeletableGroupResult:
    group_id = r.string("DeletableGroupResult.group_id")
    (error_code,) = r.take(_h, "DeletableGroupResult.error_code")
    return DeletableGroupResult(group_id=group_id, error_code=error_code)


def _read_deletable_group_result_v2(r: Reader) -> DeletableGroupResult:
    group_id = r.compact_string("DeletableGroupResult.group_id")
    (error_code,) = r.take(_h, "DeletableGroupResult.error_code")
    r.skip_tags("DeletableGroupResult")
    return DeletableGroupResult(group_id=group_id, error_code=error_code)


def _write_deletable_group_result_v0(w: Writer, o: DeletableGroupResult) -> None:
    w.string(o.group_id, "DeletableGroupResult.group_id")
    w.add(_h.pack(o.error_code))


def _write_deletable_group_result_v2(w: Writer, o: DeletableGroupResult) -> None:
    w.compact_string(o.group_id, "DeletableGroupResult.group_id")
    w.add(_h.pack(o.error_code))
    w.add(NO_TAGS)


def _read_delete_groups_response_v0(r: Reader) -> DeleteGroupsResponse:
    (throttle_time_ms,) = r.take(_i, "DeleteGroupsResponse.throttle_time_ms")
    results = [_read_deletable_group_result_v0(r) for _ in range(r.count(4, "DeleteGroupsResponse.results"))]
    return DeleteGroupsResponse(throttle_time_ms=throttle_time_ms, results=results)


def _read_delete_groups_response_v2(r: Reader) -> DeleteGroupsResponse:
    (throttle_time_ms,) = r.take(_i, "DeleteGroupsResponse.throttle_time_ms")
    results = [_read_deletable_group_result_v2(r) for _ in range(r.compact_count(4, "DeleteGroupsResponse.results"))]
    r.skip_tags("DeleteGroupsResponse")
    return DeleteGroupsResponse(throttle_time_ms=throttle_time_ms, results=results)


def _write_delete_groups_response_v0(w: Writer, o: DeleteGroupsResponse) -> None:
    w.add(_i.pack(o.throttle_time_ms))
    w.count(len(o.results))
    for results_item in o.results:
        _write_deletable_group_result_v0(w, results_item)


def _write_delete_groups_response_v2(w: Writer, o: DeleteGroupsResponse) -> None:
    w.add(_i.pack(o.throttle_time_ms))
    w.compact_count(len(o.results))
    for results_item in o.results:
        _write_deletable_group_result_v2(w, results_item)
    w.add(NO_TAGS)


REQUEST: Final = Codec(
    "DeleteGroupsRequest",
    0,
    (
        _read_delete_groups_request_v0,
        _read_delete_groups_request_v0,
        _read_delete_groups_request_v2,
    ),
    (
        _write_delete_groups_request_v0,
        _write_delete_groups_request_v0,
        _write_delete_groups_request_v2,
    ),
)

RESPONSE: Final = Codec(
    "DeleteGroupsResponse",
    0,
    (
        _read_delete_groups_response_v0,
        _read_delete_groups_response_v0,
        _read_delete_groups_response_v2,
    ),
    (
        _write_delete_groups_response_v0,
        _write_delete_groups_response_v0,
        _write_delete_groups_response_v2,
    ),
)
