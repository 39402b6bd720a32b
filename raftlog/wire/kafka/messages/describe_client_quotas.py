"""DescribeClientQuotas (API 48), versions 0 to 1. Made by scripts/generate_kafka_messages.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from raftlog.wire.kafka.codec import Codec
from raftlog.wire.kafka.reader import Reader
from raftlog.wire.kafka.writer import NO_TAGS, Writer

_o = Struct(">?")
_b = Struct(">b")
_d = Struct(">d")
_ih = Struct(">ih")


@dataclass(slots=True, kw_only=True)
class ComponentData:
    """Part of DescribeClientQuotasRequest."""

    entity_type: str = ""
    match_type: int = 0
    match: str | None = ""


@dataclass(slots=True, kw_only=True)
class DescribeClientQuotasRequest:
    """Versions 0 to 1."""

    components: list[ComponentData] = field(default_factory=list)
    strict: bool = False


def _read_component_data_v0(r: Reader) -> ComponentData:
    entity_type = r.string("ComponentData.entity_type")
    (match_type,) = r.take(_b, "ComponentData.match_type")
    match = r.nullable_string("ComponentData.match")
    return ComponentData(entity_type=entity_type, match_type=match_type, match=match)


def _read_component_data_v1(r: Reader) -> ComponentData:
    entity_type = r.compact_string("ComponentData.entity_type")
    (match_type,) = r.take(_b, "ComponentData.match_type")
    match = r.compact_nullable_string("ComponentData.match")
    r.skip_tags("ComponentData")
    return ComponentData(entity_type=entity_type, match_type=match_type, match=match)


def _write_component_data_v0(w: Writer, o: ComponentData) -> None:
    w.string(o.entity_type, "ComponentData.entity_type")
    w.add(_b.pack(o.match_type))
    w.nullable_string(o.match, "ComponentData.match")


def _write_component_data_v1(w: Writer, o: ComponentData) -> None:
    w.compact_string(o.entity_type, "ComponentData.entity_type")
    w.add(_b.pack(o.match_type))
    w.compact_nullable_string(o.match, "ComponentData.match")
    w.add(NO_TAGS)


def _read_describe_client_quotas_request_v0(r: Reader) -> DescribeClientQuotasRequest:
    components = [_read_component_data_v0(r) for _ in range(r.count(5, "DescribeClientQuotasRequest.components"))]
    (strict,) = r.take(_o, "DescribeClientQuotasRequest.strict")
    return DescribeClientQuotasRequest(components=components, strict=strict)


def _read_describe_client_quotas_request_v1(r: Reader) -> DescribeClientQuotasRequest:
    components = [
        _read_component_data_v1(r) for _ in range(r.compact_count(4, "DescribeClientQuotasRequest.components"))
    ]
    (strict,) = r.take(_o, "DescribeClientQuotasRequest.strict")
    r.skip_tags("DescribeClientQuotasRequest")
    return DescribeClientQuotasRequest(components=components, strict=strict)


def _write_describe_client_quotas_request_v0(w: Writer, o: DescribeClientQuotasRequest) -> None:
    w.count(len(o.components))
    for components_item in o.components:
        _write_component_data_v0(w, components_item)
    w.add(_o.pack(o.strict))


def _write_describe_client_quotas_request_v1(w: Writer, o: DescribeClientQuotasRequest) -> None:
    w.compact_count(len(o.components))
    for components_item in o.components:
        _write_component_data_v1(w, components_item)
    w.add(_o.pack(o.strict))
    w.add(NO_TAGS)


@dataclass(slots=True, kw_only=True)
class EntityData:
    """Part of DescribeClientQuotasResponse."""

    entity_type: str = ""
    entity_name: str | None = ""


@dataclass(slots=True, kw_only=True)
class ValueData:
    """Part of DescribeClientQuotasResponse."""

    key: str = ""
    value: float = 0.0


@dataclass(slots=True, kw_only=True)
class EntryData:
    """Part of DescribeClientQuotasResponse."""

    entity: list[EntityData] = field(default_factory=list)
    values: list[ValueData] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class DescribeClientQuotasResponse:
    """Versions 0 to 1."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    entries: list[EntryData] | None = field(default_factory=list)


def _read_entity_data_v0(r: Reader) -> EntityData:
    entity_type = r.string("EntityData.entity_type")
    entity_name = r.nullable_string("EntityData.entity_name")
    return EntityData(entity_type=entity_type, entity_name=entity_name)


def _read_entity_data_v1(r: Reader) -> EntityData:
    entity_type = r.compact_string("EntityData.entity_type")
    entity_name = r.compact_nullable_string("EntityData.entity_name")
    r.skip_tags("EntityData")
    return EntityData(entity_type=entity_type, entity_name=entity_name)


def _write_entity_data_v0(w: Writer, o: EntityData) -> None:
    w.string(o.entity_type, "EntityData.entity_type")
    w.nullable_string(o.entity_name, "EntityData.entity_name")


def _write_entity_data_v1(w: Writer, o: EntityData) -> None:
    w.compact_string(o.entity_type, "EntityData.entity_type")
    w.compact_nullable_string(o.entity_name, "EntityData.entity_name")
    w.add(NO_TAGS)


def _read_value_data_v0(r: Reader) -> ValueData:
    key = r.string("ValueData.key")
    (value,) = r.take(_d, "ValueData.value")
    return ValueData(key=key, value=value)


def _read_value_data_v1(r: Reader) -> ValueData:
    key = r.compact_string("ValueData.key")
    (value,) = r.take(_d, "ValueData.value")
    r.skip_tags("ValueData")
    return ValueData(key=key, value=value)


def _write_value_data_v0(w: Writer, o: ValueData) -> None:
    w.string(o.key, "ValueData.key")
    w.add(_d.pack(o.value))


def _write_value_data_v1(w: Writer, o: ValueData) -> None:
    w.compact_string(o.key, "ValueData.key")
    w.add(_d.pack(o.value))
    w.add(NO_TAGS)


def _read_entry_data_v0(r: Reader) -> EntryData:
    entity = [_read_entity_data_v0(r) for _ in range(r.count(4, "EntryData.entity"))]
    values = [_read_value_data_v0(r) for _ in range(r.count(10, "EntryData.values"))]
    return EntryData(entity=entity, values=values)


def _read_entry_data_v1(r: Reader) -> EntryData:
    entity = [_read_entity_data_v1(r) for _ in range(r.compact_count(3, "EntryData.entity"))]
    values = [_read_value_data_v1(r) for _ in range(r.compact_count(10, "EntryData.values"))]
    r.skip_tags("EntryData")
    return EntryData(entity=entity, values=values)


def _write_entry_data_v0(w: Writer, o: EntryData) -> None:
    w.count(len(o.entity))
    for entity_item in o.entity:
        _write_entity_data_v0(w, entity_item)
    w.count(len(o.values))
    for values_item in o.values:
        _write_value_data_v0(w, values_item)


def _write_entry_data_v1(w: Writer, o: EntryData) -> None:
    w.compact_count(len(o.entity))
    for entity_item in o.entity:
        _write_entity_data_v1(w, entity_item)
    w.compact_count(len(o.values))
    for values_item in o.values:
        _write_value_data_v1(w, values_item)
    w.add(NO_TAGS)


def _read_describe_client_quotas_response_v0(r: Reader) -> DescribeClientQuotasResponse:
    throttle_time_ms, error_code = r.take(_ih, "DescribeClientQuotasResponse.throttle_time_ms,error_code")
    error_message = r.nullable_string("DescribeClientQuotasResponse.error_message")
    n = r.nullable_count(8, "DescribeClientQuotasResponse.entries")
    entries = None if n < 0 else [_read_entry_data_v0(r) for _ in range(n)]
    return DescribeClientQuotasResponse(
        throttle_time_ms=throttle_time_ms, error_code=error_code, error_message=error_message, entries=entries
    )


def _read_describe_client_quotas_response_v1(r: Reader) -> DescribeClientQuotasResponse:
    throttle_time_ms, error_code = r.take(_ih, "DescribeClientQuotasResponse.throttle_time_ms,error_code")
    error_message = r.compact_nullable_string("DescribeClientQuotasResponse.error_message")
    n = r.compact_nullable_count(3, "DescribeClientQuotasResponse.entries")
    entries = None if n < 0 else [_read_entry_data_v1(r) for _ in range(n)]
    r.skip_tags("DescribeClientQuotasResponse")
    return DescribeClientQuotasResponse(
        throttle_time_ms=throttle_time_ms, error_code=error_code, error_message=error_message, entries=entries
    )


def _write_describe_client_quotas_response_v0(w: Writer, o: DescribeClientQuotasResponse) -> None:
    w.add(_ih.pack(o.throttle_time_ms, o.error_code))
    w.nullable_string(o.error_message, "DescribeClientQuotasResponse.error_message")
    if o.entries is None:
        w.count(-1)
    else:
        w.count(len(o.entries))
        for entries_item in o.entries:
            _write_entry_data_v0(w, entries_item)


def _write_describe_client_quotas_response_v1(w: Writer, o: DescribeClientQuotasResponse) -> None:
    w.add(_ih.pack(o.throttle_time_ms, o.error_code))
    w.compact_nullable_string(o.error_message, "DescribeClientQuotasResponse.error_message")
    if o.entries is None:
        w.compact_count(-1)
    else:
        w.compact_count(len(o.entries))
        for entries_item in o.entries:
            _write_entry_data_v1(w, entries_item)
    w.add(NO_TAGS)


REQUEST: Final = Codec(
    "DescribeClientQuotasRequest",
    0,
    (
        _read_describe_client_quotas_request_v0,
        _read_describe_client_quotas_request_v1,
    ),
    (
        _write_describe_client_quotas_request_v0,
        _write_describe_client_quotas_request_v1,
    ),
)

RESPONSE: Final = Codec(
    "DescribeClientQuotasResponse",
    0,
    (
        _read_describe_client_quotas_response_v0,
        _read_describe_client_quotas_response_v1,
    ),
    (
        _write_describe_client_quotas_response_v0,
        _write_describe_client_quotas_response_v1,
    ),
)
