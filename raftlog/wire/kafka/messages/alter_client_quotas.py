"""AlterClientQuotas (API 49), versions 0 to 1. Made by scripts/generate_kafka_messages.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from raftlog.wire.kafka.codec import Codec
from raftlog.wire.kafka.reader import Reader
from raftlog.wire.kafka.writer import NO_TAGS, Writer

_o = Struct(">?")
_do = Struct(">d?")
_h = Struct(">h")
_i = Struct(">i")


@dataclass(slots=True, kw_only=True)
class AlterClientQuotasRequestEntityData:
    """Part of AlterClientQuotasRequest."""

    entity_type: str = ""
    entity_name: str | None = ""


@dataclass(slots=True, kw_only=True)
class OpData:
    """Part of AlterClientQuotasRequest."""

    key: str = ""
    value: float = 0.0
    remove: bool = False


@dataclass(slots=True, kw_only=True)
class AlterClientQuotasRequestEntryData:
    """Part of AlterClientQuotasRequest."""

    entity: list[AlterClientQuotasRequestEntityData] = field(default_factory=list)
    ops: list[OpData] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class AlterClientQuotasRequest:
    """Versions 0 to 1."""

    entries: list[AlterClientQuotasRequestEntryData] = field(default_factory=list)
    validate_only: bool = False


def _read_alter_client_quotas_request_entity_data_v0(r: Reader) -> AlterClientQuotasRequestEntityData:
    entity_type = r.string("EntityData.entity_type")
    entity_name = r.nullable_string("EntityData.entity_name")
    return AlterClientQuotasRequestEntityData(entity_type=entity_type, entity_name=entity_name)


def _read_alter_client_quotas_request_entity_data_v1(r: Reader) -> AlterClientQuotasRequestEntityData:
    entity_type = r.compact_string("EntityData.entity_type")
    entity_name = r.compact_nullable_string("EntityData.entity_name")
    r.skip_tags("EntityData")
    return AlterClientQuotasRequestEntityData(entity_type=entity_type, entity_name=entity_name)


def _write_alter_client_quotas_request_entity_data_v0(w: Writer, o: AlterClientQuotasRequestEntityData) -> None:
    w.string(o.entity_type, "EntityData.entity_type")
    w.nullable_string(o.entity_name, "EntityData.entity_name")


def _write_alter_client_quotas_request_entity_data_v1(w: Writer, o: AlterClientQuotasRequestEntityData) -> None:
    w.compact_string(o.entity_type, "EntityData.entity_type")
    w.compact_nullable_string(o.entity_name, "EntityData.entity_name")
    w.add(NO_TAGS)


def _read_op_data_v0(r: Reader) -> OpData:
    key = r.string("OpData.key")
    value, remove = r.take(_do, "OpData.value,remove")
    return OpData(key=key, value=value, remove=remove)


def _read_op_data_v1(r: Reader) -> OpData:
    key = r.compact_string("OpData.key")
    value, remove = r.take(_do, "OpData.value,remove")
    r.skip_tags("OpData")
    return OpData(key=key, value=value, remove=remove)


def _write_op_data_v0(w: Writer, o: OpData) -> None:
    w.string(o.key, "OpData.key")
    w.add(_do.pack(o.value, o.remove))


def _write_op_data_v1(w: Writer, o: OpData) -> None:
    w.compact_string(o.key, "OpData.key")
    w.add(_do.pack(o.value, o.remove))
    w.add(NO_TAGS)


def _read_alter_client_quotas_request_entry_data_v0(r: Reader) -> AlterClientQuotasRequestEntryData:
    entity = [_read_alter_client_quotas_request_entity_data_v0(r) for _ in range(r.count(4, "EntryData.entity"))]
    ops = [_read_op_data_v0(r) for _ in range(r.count(11, "EntryData.ops"))]
    return AlterClientQuotasRequestEntryData(entity=entity, ops=ops)


def _read_alter_client_quotas_request_entry_data_v1(r: Reader) -> AlterClientQuotasRequestEntryData:
    entity = [
        _read_alter_client_quotas_request_entity_data_v1(r) for _ in range(r.compact_count(3, "EntryData.entity"))
    ]
    ops = [_read_op_data_v1(r) for _ in range(r.compact_count(11, "EntryData.ops"))]
    r.skip_tags("EntryData")
    return AlterClientQuotasRequestEntryData(entity=entity, ops=ops)


def _write_alter_client_quotas_request_entry_data_v0(w: Writer, o: AlterClientQuotasRequestEntryData) -> None:
    w.count(len(o.entity))
    for entity_item in o.entity:
        _write_alter_client_quotas_request_entity_data_v0(w, entity_item)
    w.count(len(o.ops))
    for ops_item in o.ops:
        _write_op_data_v0(w, ops_item)


def _write_alter_client_quotas_request_entry_data_v1(w: Writer, o: AlterClientQuotasRequestEntryData) -> None:
    w.compact_count(len(o.entity))
    for entity_item in o.entity:
        _write_alter_client_quotas_request_entity_data_v1(w, entity_item)
    w.compact_count(len(o.ops))
    for ops_item in o.ops:
        _write_op_data_v1(w, ops_item)
    w.add(NO_TAGS)


def _read_alter_client_quotas_request_v0(r: Reader) -> AlterClientQuotasRequest:
    entries = [
        _read_alter_client_quotas_request_entry_data_v0(r)
        for _ in range(r.count(8, "AlterClientQuotasRequest.entries"))
    ]
    (validate_only,) = r.take(_o, "AlterClientQuotasRequest.validate_only")
    return AlterClientQuotasRequest(entries=entries, validate_only=validate_only)


def _read_alter_client_quotas_request_v1(r: Reader) -> AlterClientQuotasRequest:
    entries = [
        _read_alter_client_quotas_request_entry_data_v1(r)
        for _ in range(r.compact_count(3, "AlterClientQuotasRequest.entries"))
    ]
    (validate_only,) = r.take(_o, "AlterClientQuotasRequest.validate_only")
    r.skip_tags("AlterClientQuotasRequest")
    return AlterClientQuotasRequest(entries=entries, validate_only=validate_only)


def _write_alter_client_quotas_request_v0(w: Writer, o: AlterClientQuotasRequest) -> None:
    w.count(len(o.entries))
    for entries_item in o.entries:
        _write_alter_client_quotas_request_entry_data_v0(w, entries_item)
    w.add(_o.pack(o.validate_only))


def _write_alter_client_quotas_request_v1(w: Writer, o: AlterClientQuotasRequest) -> None:
    w.compact_count(len(o.entries))
    for entries_item in o.entries:
        _write_alter_client_quotas_request_entry_data_v1(w, entries_item)
    w.add(_o.pack(o.validate_only))
    w.add(NO_TAGS)


@dataclass(slots=True, kw_only=True)
class AlterClientQuotasResponseEntityData:
    """Part of AlterClientQuotasResponse."""

    entity_type: str = ""
    entity_name: str | None = ""


@dataclass(slots=True, kw_only=True)
class AlterClientQuotasResponseEntryData:
    """Part of AlterClientQuotasResponse."""

    error_code: int = 0
    error_message: str | None = ""
    entity: list[AlterClientQuotasResponseEntityData] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class AlterClientQuotasResponse:
    """Versions 0 to 1."""

    throttle_time_ms: int = 0
    entries: list[AlterClientQuotasResponseEntryData] = field(default_factory=list)


def _read_alter_client_quotas_response_entity_data_v0(r: Reader) -> AlterClientQuotasResponseEntityData:
    entity_type = r.string("EntityData.entity_type")
    entity_name = r.nullable_string("EntityData.entity_name")
    return AlterClientQuotasResponseEntityData(entity_type=entity_type, entity_name=entity_name)


def _read_alter_client_quotas_response_entity_data_v1(r: Reader) -> AlterClientQuotasResponseEntityData:
    entity_type = r.compact_string("EntityData.entity_type")
    entity_name = r.compact_nullable_string("EntityData.entity_name")
    r.skip_tags("EntityData")
    return AlterClientQuotasResponseEntityData(entity_type=entity_type, entity_name=entity_name)


def _write_alter_client_quotas_response_entity_data_v0(w: Writer, o: AlterClientQuotasResponseEntityData) -> None:
    w.string(o.entity_type, "EntityData.entity_type")
    w.nullable_string(o.entity_name, "EntityData.entity_name")


def _write_alter_client_quotas_response_entity_data_v1(w: Writer, o: AlterClientQuotasResponseEntityData) -> None:
    w.compact_string(o.entity_type, "EntityData.entity_type")
    w.compact_nullable_string(o.entity_name, "EntityData.entity_name")
    w.add(NO_TAGS)


def _read_alter_client_quotas_response_entry_data_v0(r: Reader) -> AlterClientQuotasResponseEntryData:
    (error_code,) = r.take(_h, "EntryData.error_code")
    error_message = r.nullable_string("EntryData.error_message")
    entity = [_read_alter_client_quotas_response_entity_data_v0(r) for _ in range(r.count(4, "EntryData.entity"))]
    return AlterClientQuotasResponseEntryData(error_code=error_code, error_message=error_message, entity=entity)


def _read_alter_client_quotas_response_entry_data_v1(r: Reader) -> AlterClientQuotasResponseEntryData:
    (error_code,) = r.take(_h, "EntryData.error_code")
    error_message = r.compact_nullable_string("EntryData.error_message")
    entity = [
        _read_alter_client_quotas_response_entity_data_v1(r) for _ in range(r.compact_count(3, "EntryData.entity"))
    ]
    r.skip_tags("EntryData")
    return AlterClientQuotasResponseEntryData(error_code=error_code, error_message=error_message, entity=entity)


def _write_alter_client_quotas_response_entry_data_v0(w: Writer, o: AlterClientQuotasResponseEntryData) -> None:
    w.add(_h.pack(o.error_code))
    w.nullable_string(o.error_message, "EntryData.error_message")
    w.count(len(o.entity))
    for entity_item in o.entity:
        _write_alter_client_quotas_response_entity_data_v0(w, entity_item)


def _write_alter_client_quotas_response_entry_data_v1(w: Writer, o: AlterClientQuotasResponseEntryData) -> None:
    w.add(_h.pack(o.error_code))
    w.compact_nullable_string(o.error_message, "EntryData.error_message")
    w.compact_count(len(o.entity))
    for entity_item in o.entity:
        _write_alter_client_quotas_response_entity_data_v1(w, entity_item)
    w.add(NO_TAGS)


def _read_alter_client_quotas_response_v0(r: Reader) -> AlterClientQuotasResponse:
    (throttle_time_ms,) = r.take(_i, "AlterClientQuotasResponse.throttle_time_ms")
    entries = [
        _read_alter_client_quotas_response_entry_data_v0(r)
        for _ in range(r.count(8, "AlterClientQuotasResponse.entries"))
    ]
    return AlterClientQuotasResponse(throttle_time_ms=throttle_time_ms, entries=entries)


def _read_alter_client_quotas_response_v1(r: Reader) -> AlterClientQuotasResponse:
    (throttle_time_ms,) = r.take(_i, "AlterClientQuotasResponse.throttle_time_ms")
    entries = [
        _read_alter_client_quotas_response_entry_data_v1(r)
        for _ in range(r.compact_count(5, "AlterClientQuotasResponse.entries"))
    ]
    r.skip_tags("AlterClientQuotasResponse")
    return AlterClientQuotasResponse(throttle_time_ms=throttle_time_ms, entries=entries)


def _write_alter_client_quotas_response_v0(w: Writer, o: AlterClientQuotasResponse) -> None:
    w.add(_i.pack(o.throttle_time_ms))
    w.count(len(o.entries))
    for entries_item in o.entries:
        _write_alter_client_quotas_response_entry_data_v0(w, entries_item)


def _write_alter_client_quotas_response_v1(w: Writer, o: AlterClientQuotasResponse) -> None:
    w.add(_i.pack(o.throttle_time_ms))
    w.compact_count(len(o.entries))
    for entries_item in o.entries:
        _write_alter_client_quotas_response_entry_data_v1(w, entries_item)
    w.add(NO_TAGS)


REQUEST: Final = Codec(
    "AlterClientQuotasRequest",
    0,
    (
        _read_alter_client_quotas_request_v0,
        _read_alter_client_quotas_request_v1,
    ),
    (
        _write_alter_client_quotas_request_v0,
        _write_alter_client_quotas_request_v1,
    ),
)

RESPONSE: Final = Codec(
    "AlterClientQuotasResponse",
    0,
    (
        _read_alter_client_quotas_response_v0,
        _read_alter_client_quotas_response_v1,
    ),
    (
        _write_alter_client_quotas_response_v0,
        _write_alter_client_quotas_response_v1,
    ),
)
