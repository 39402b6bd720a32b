"""ListGroups (API 16), versions 0 to 5. Made by scripts/generate_kafka_messages.py."""

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
class ListGroupsRequest:
    """Versions 0 to 5."""

    states_filter: list[str] = field(default_factory=list)  # v4+
    types_filter: list[str] = field(default_factory=list)  # v5+


def _read_list_groups_request_v0(r: Reader) -> ListGroupsRequest:
    return ListGroupsRequest()


def _read_list_groups_request_v3(r: Reader) -> ListGroupsRequest:
    r.skip_tags("ListGroupsRequest")
    return ListGroupsRequest()


def _read_list_groups_request_v4(r: Reader) -> ListGroupsRequest:
    states_filter = [
        r.compact_string("ListGroupsRequest.states_filter")
        for _ in range(r.compact_count(1, "ListGroupsRequest.states_filter"))
    ]
    r.skip_tags("ListGroupsRequest")
    return ListGroupsRequest(states_filter=states_filter)


def _read_list_groups_request_v5(r: Reader) -> ListGroupsRequest:
    states_filter = [
        r.compact_string("ListGroupsRequest.states_filter")
        for _ in range(r.compact_count(1, "ListGroupsRequest.states_filter"))
    ]
    types_filter = [
        r.compact_string("ListGroupsRequest.types_filter")
        for _ in range(r.compact_count(1, "ListGroupsRequest.types_filter"))
    ]
    r.skip_tags("ListGroupsRequest")
    return ListGroupsRequest(states_filter=states_filter, types_filter=types_filter)


def _write_list_groups_request_v0(w: Writer, o: ListGroupsRequest) -> None:
    if o.states_filter:
        raise w.unsupported("ListGroupsRequest.states_filter")
    if o.types_filter:
        raise w.unsupported("ListGroupsRequest.types_filter")


def _write_list_groups_request_v3(w: Writer, o: ListGroupsRequest) -> None:
    if o.states_filter:
        raise w.unsupported("ListGroupsRequest.states_filter")
    if o.types_filter:
        raise w.unsupported("ListGroupsRequest.types_filter")
    w.add(NO_TAGS)


def _write_list_groups_request_v4(w: Writer, o: ListGroupsRequest) -> None:
    if o.types_filter:
        raise w.unsupported("ListGroupsRequest.types_filter")
    w.compact_count(len(o.states_filter))
    for states_filter_item in o.states_filter:
        w.compact_string(states_filter_item, "ListGroupsRequest.states_filter")
    w.add(NO_TAGS)


def _write_list_groups_request_v5(w: Writer, o: ListGroupsRequest) -> None:
    w.compact_count(len(o.states_filter))
    for states_filter_item in o.states_filter:
        w.compact_string(states_filter_item, "ListGroupsRequest.states_filter")
    w.compact_count(len(o.types_filter))
    for types_filter_item in o.types_filter:
        w.compact_string(types_filter_item, "ListGroupsRequest.types_filter")
    w.add(NO_TAGS)


@dataclass(slots=True, kw_only=True)
class ListedGroup:
    """Part of ListGroupsResponse."""

    group_id: str = ""
    protocol_type: str = ""
    group_state: str = ""  # v4+
    group_type: str = ""  # v5+


@dataclass(slots=True, kw_only=True)
class ListGroupsResponse:
    """Versions 0 to 5."""

    throttle_time_ms: int = 0  # v1+
    error_code: int = 0
    groups: list[ListedGroup] = field(default_factory=list)


def _read_listed_group_v0(r: Reader) -> ListedGroup:
    group_id = r.string("ListedGroup.group_id")
    protocol_type = r.string("ListedGroup.protocol_type")
    return ListedGroup(group_id=group_id, protocol_type=protocol_type)


def _read_listed_group_v3(r: Reader) -> ListedGroup:
    group_id = r.compact_string("ListedGroup.group_id")
    protocol_type = r.compact_string("ListedGroup.protocol_type")
    r.skip_tags("ListedGroup")
    return ListedGroup(group_id=group_id, protocol_type=protocol_type)


def _read_listed_group_v4(r: Reader) -> ListedGroup:
    group_id = r.compact_string("ListedGroup.group_id")
    protocol_type = r.compact_string("ListedGroup.protocol_type")
    group_state = r.compact_string("ListedGroup.group_state")
    r.skip_tags("ListedGroup")
    return ListedGroup(group_id=group_id, protocol_type=protocol_type, group_state=group_state)


def _read_listed_group_v5(r: Reader) -> ListedGroup:
    group_id = r.compact_string("ListedGroup.group_id")
    protocol_type = r.compact_string("ListedGroup.protocol_type")
    group_state = r.compact_string("ListedGroup.group_state")
    group_type = r.compact_string("ListedGroup.group_type")
    r.skip_tags("ListedGroup")
    return ListedGroup(group_id=group_id, protocol_type=protocol_type, group_state=group_state, group_type=group_type)


def _write_listed_group_v0(w: Writer, o: ListedGroup) -> None:
    w.string(o.group_id, "ListedGroup.group_id")
    w.string(o.protocol_type, "ListedGroup.protocol_type")


def _write_listed_group_v3(w: Writer, o: ListedGroup) -> None:
    w.compact_string(o.group_id, "ListedGroup.group_id")
    w.compact_string(o.protocol_type, "ListedGroup.protocol_type")
    w.add(NO_TAGS)


def _write_listed_group_v4(w: Writer, o: ListedGroup) -> None:
    w.compact_string(o.group_id, "ListedGroup.group_id")
    w.compact_string(o.protocol_type, "ListedGroup.protocol_type")
    w.compact_string(o.group_state, "ListedGroup.group_state")
    w.add(NO_TAGS)


def _write_listed_group_v5(w: Writer, o: ListedGroup) -> None:
    w.compact_string(o.group_id, "ListedGroup.group_id")
    w.compact_string(o.protocol_type, "ListedGroup.protocol_type")
    w.compact_string(o.group_state, "ListedGroup.group_state")
    w.compact_string(o.group_type, "ListedGroup.group_type")
    w.add(NO_TAGS)


def _read_list_groups_response_v0(r: Reader) -> ListGroupsResponse:
    (error_code,) = r.take(_h, "ListGroupsResponse.error_code")
    groups = [_read_listed_group_v0(r) for _ in range(r.count(4, "ListGroupsResponse.groups"))]
    return ListGroupsResponse(error_code=error_code, groups=groups)


def _read_list_groups_response_v1(r: Reader) -> ListGroupsResponse:
    throttle_time_ms, error_code = r.take(_ih, "ListGroupsResponse.throttle_time_ms,error_code")
    groups = [_read_listed_group_v0(r) for _ in range(r.count(4, "ListGroupsResponse.groups"))]
    return ListGroupsResponse(throttle_time_ms=throttle_time_ms, error_code=error_code, groups=groups)


def _read_list_groups_response_v3(r: Reader) -> ListGroupsResponse:
    throttle_time_ms, error_code = r.take(_ih, "ListGroupsResponse.throttle_time_ms,error_code")
    groups = [_read_listed_group_v3(r) for _ in range(r.compact_count(3, "ListGroupsResponse.groups"))]
    r.skip_tags("ListGroupsResponse")
    return ListGroupsResponse(throttle_time_ms=throttle_time_ms, error_code=error_code, groups=groups)


def _read_list_groups_response_v4(r: Reader) -> ListGroupsResponse:
    throttle_time_ms, error_code = r.take(_ih, "ListGroupsResponse.throttle_time_ms,error_code")
    groups = [_read_listed_group_v4(r) for _ in range(r.compact_count(4, "ListGroupsResponse.groups"))]
    r.skip_tags("ListGroupsResponse")
    return ListGroupsResponse(throttle_time_ms=throttle_time_ms, error_code=error_code, groups=groups)


def _read_list_groups_response_v5(r: Reader) -> ListGroupsResponse:
    throttle_time_ms, error_code = r.take(_ih, "ListGroupsResponse.throttle_time_ms,error_code")
    groups = [_read_listed_group_v5(r) for _ in range(r.compact_count(5, "ListGroupsResponse.groups"))]
    r.skip_tags("ListGroupsResponse")
    return ListGroupsResponse(throttle_time_ms=throttle_time_ms, error_code=error_code, groups=groups)


def _write_list_groups_response_v0(w: Writer, o: ListGroupsResponse) -> None:
    w.add(_h.pack(o.error_code))
    w.count(len(o.groups))
    for groups_item in o.groups:
        _write_listed_group_v0(w, groups_item)


def _write_list_groups_response_v1(w: Writer, o: ListGroupsResponse) -> None:
    w.add(_ih.pack(o.throttle_time_ms, o.error_code))
    w.count(len(o.groups))
    for groups_item in o.groups:
        _write_listed_group_v0(w, groups_item)


def _write_list_groups_response_v3(w: Writer, o: ListGroupsResponse) -> None:
    w.add(_ih.pack(o.throttle_time_ms, o.error_code))
    w.compact_count(len(o.groups))
    for groups_item in o.groups:
        _write_listed_group_v3(w, groups_item)
    w.add(NO_TAGS)


def _write_list_groups_response_v4(w: Writer, o: ListGroupsResponse) -> None:
    w.add(_ih.pack(o.throttle_time_ms, o.error_code))
    w.compact_count(len(o.groups))
    for groups_item in o.groups:
        _write_listed_group_v4(w, groups_item)
    w.add(NO_TAGS)


def _write_list_groups_response_v5(w: Writer, o: ListGroupsResponse) -> None:
    w.add(_ih.pack(o.throttle_time_ms, o.error_code))
    w.compact_count(len(o.groups))
    for groups_item in o.groups:
        _write_listed_group_v5(w, groups_item)
    w.add(NO_TAGS)


REQUEST: Final = Codec(
    "ListGroupsRequest",
    0,
    (
        _read_list_groups_request_v0,
        _read_list_groups_request_v0,
        _read_list_groups_request_v0,
        _read_list_groups_request_v3,
        _read_list_groups_request_v4,
        _read_list_groups_request_v5,
    ),
    (
        _write_list_groups_request_v0,
        _write_list_groups_request_v0,
        _write_list_groups_request_v0,
        _write_list_groups_request_v3,
        _write_list_groups_request_v4,
        _write_list_groups_request_v5,
    ),
)

RESPONSE: Final = Codec(
    "ListGroupsResponse",
    0,
    (
        _read_list_groups_response_v0,
        _read_list_groups_response_v1,
        _read_list_groups_response_v1,
        _read_list_groups_response_v3,
        _read_list_groups_response_v4,
        _read_list_groups_response_v5,
    ),
    (
        _write_list_groups_response_v0,
        _write_list_groups_response_v1,
        _write_list_groups_response_v1,
        _write_list_groups_response_v3,
        _write_list_groups_response_v4,
        _write_list_groups_response_v5,
    ),
)
