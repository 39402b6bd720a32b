"""IncrementalAlterConfigs (API 44), versions 0 to 1. Made by scripts/generate_kafka_messages.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from raftlog.wire.kafka.codec import Codec
from raftlog.wire.kafka.reader import Reader
from raftlog.wire.kafka.writer import NO_TAGS, Writer

_o = Struct(">?")
_b = Struct(">b")
_h = Struct(">h")
_i = Struct(">i")


@dataclass(slots=True, kw_only=True)
class AlterableConfig:
    """Part of IncrementalAlterConfigsRequest."""

    name: str = ""
    config_operation: int = 0
    value: str | None = ""


@dataclass(slots=True, kw_only=True)
class AlterConfigsResource:
    """Part of IncrementalAlterConfigsRequest."""

    resource_type: int = 0
    resource_name: str = ""
    configs: list[AlterableConfig] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class IncrementalAlterConfigsRequest:
    """Versions 0 to 1."""

    resources: list[AlterConfigsResource] = field(default_factory=list)
    validate_only: bool = False


def _read_alterable_config_v0(r: Reader) -> AlterableConfig:
    name = r.string("AlterableConfig.name")
    (config_operation,) = r.take(_b, "AlterableConfig.config_operation")
    value = r.nullable_string("AlterableConfig.value")
    return AlterableConfig(name=name, config_operation=config_operation, value=value)


def _read_alterable_config_v1(r: Reader) -> AlterableConfig:
    name = r.compact_string("AlterableConfig.name")
    (config_operation,) = r.take(_b, "AlterableConfig.config_operation")
    value = r.compact_nullable_string("AlterableConfig.value")
    r.skip_tags("AlterableConfig")
    return AlterableConfig(name=name, config_operation=config_operation, value=value)


def _write_alterable_config_v0(w: Writer, o: AlterableConfig) -> None:
    w.string(o.name, "AlterableConfig.name")
    w.add(_b.pack(o.config_operation))
    w.nullable_string(o.value, "AlterableConfig.value")


def _write_alterable_config_v1(w: Writer, o: AlterableConfig) -> None:
    w.compact_string(o.name, "AlterableConfig.name")
    w.add(_b.pack(o.config_operation))
    w.compact_nullable_string(o.value, "AlterableConfig.value")
    w.add(NO_TAGS)


def _read_alter_configs_resource_v0(r: Reader) -> AlterConfigsResource:
    (resource_type,) = r.take(_b, "AlterConfigsResource.resource_type")
    resource_name = r.string("AlterConfigsResource.resource_name")
    configs = [_read_alterable_config_v0(r) for _ in range(r.count(5, "AlterConfigsResource.configs"))]
    return AlterConfigsResource(resource_type=resource_type, resource_name=resource_name, configs=configs)


def _read_alter_configs_resource_v1(r: Reader) -> AlterConfigsResource:
    (resource_type,) = r.take(_b, "AlterConfigsResource.resource_type")
    resource_name = r.compact_string("AlterConfigsResource.resource_name")
    configs = [_read_alterable_config_v1(r) for _ in range(r.compact_count(4, "AlterConfigsResource.configs"))]
    r.skip_tags("AlterConfigsResource")
    return AlterConfigsResource(resource_type=resource_type, resource_name=resource_name, configs=configs)


def _write_alter_configs_resource_v0(w: Writer, o: AlterConfigsResource) -> None:
    w.add(_b.pack(o.resource_type))
    w.string(o.resource_name, "AlterConfigsResource.resource_name")
    w.count(len(o.configs))
    for configs_item in o.configs:
        _write_alterable_config_v0(w, configs_item)


def _write_alter_configs_resource_v1(w: Writer, o: AlterConfigsResource) -> None:
    w.add(_b.pack(o.resource_type))
    w.compact_string(o.resource_name, "AlterConfigsResource.resource_name")
    w.compact_count(len(o.configs))
    for configs_item in o.configs:
        _write_alterable_config_v1(w, configs_item)
    w.add(NO_TAGS)


def _read_incremental_alter_configs_request_v0(r: Reader) -> IncrementalAlterConfigsRequest:
    resources = [
        _read_alter_configs_resource_v0(r) for _ in range(r.count(7, "IncrementalAlterConfigsRequest.resources"))
    ]
    (validate_only,) = r.take(_o, "IncrementalAlterConfigsRequest.validate_only")
    return IncrementalAlterConfigsRequest(resources=resources, validate_only=validate_only)


def _read_incremental_alter_configs_request_v1(r: Reader) -> IncrementalAlterConfigsRequest:
    resources = [
        _read_alter_configs_resource_v1(r)
        for _ in range(r.compact_count(4, "IncrementalAlterConfigsRequest.resources"))
    ]
    (validate_only,) = r.take(_o, "IncrementalAlterConfigsRequest.validate_only")
    r.skip_tags("IncrementalAlterConfigsRequest")
    return IncrementalAlterConfigsRequest(resources=resources, validate_only=validate_only)


def _write_incremental_alter_configs_request_v0(w: Writer, o: IncrementalAlterConfigsRequest) -> None:
    w.count(len(o.resources))
    for resources_item in o.resources:
        _write_alter_configs_resource_v0(w, resources_item)
    w.add(_o.pack(o.validate_only))


def _write_incremental_alter_configs_request_v1(w: Writer, o: IncrementalAlterConfigsRequest) -> None:
    w.compact_count(len(o.resources))
    for resources_item in o.resources:
        _write_alter_configs_resource_v1(w, resources_item)
    w.add(_o.pack(o.validate_only))
    w.add(NO_TAGS)


@dataclass(slots=True, kw_only=True)
class AlterConfigsResourceResponse:
    """Part of IncrementalAlterConfigsResponse."""

    error_code: int = 0
    error_message: str | None = ""
    resource_type: int = 0
    resource_name: str = ""


@dataclass(slots=True, kw_only=True)
class IncrementalAlterConfigsResponse:
    """Versions 0 to 1."""

    throttle_time_ms: int = 0
    responses: list[AlterConfigsResourceResponse] = field(default_factory=list)


def _read_alter_configs_resource_response_v0(r: Reader) -> AlterConfigsResourceResponse:
    (error_code,) = r.take(_h, "AlterConfigsResourceResponse.error_code")
    error_message = r.nullable_string("AlterConfigsResourceResponse.error_message")
    (resource_type,) = r.take(_b, "AlterConfigsResourceResponse.resource_type")
    resource_name = r.string("AlterConfigsResourceResponse.resource_name")
    return AlterConfigsResourceResponse(
        error_code=error_code, error_message=error_message, resource_type=resource_type, resource_name=resource_name
    )


def _read_alter_configs_resource_response_v1(r: Reader) -> AlterConfigsResourceResponse:
    (error_code,) = r.take(_h, "AlterConfigsResourceResponse.error_code")
    error_message = r.compact_nullable_string("AlterConfigsResourceResponse.error_message")
    (resource_type,) = r.take(_b, "AlterConfigsResourceResponse.resource_type")
    resource_name = r.compact_string("AlterConfigsResourceResponse.resource_name")
    r.skip_tags("AlterConfigsResourceResponse")
    return AlterConfigsResourceResponse(
        error_code=error_code, error_message=error_message, resource_type=resource_type, resource_name=resource_name
    )


def _write_alter_configs_resource_response_v0(w: Writer, o: AlterConfigsResourceResponse) -> None:
    w.add(_h.pack(o.error_code))
    w.nullable_string(o.error_message, "AlterConfigsResourceResponse.error_message")
    w.add(_b.pack(o.resource_type))
    w.string(o.resource_name, "AlterConfigsResourceResponse.resource_name")


def _write_alter_configs_resource_response_v1(w: Writer, o: AlterConfigsResourceResponse) -> None:
    w.add(_h.pack(o.error_code))
    w.compact_nullable_string(o.error_message, "AlterConfigsResourceResponse.error_message")
    w.add(_b.pack(o.resource_type))
    w.compact_string(o.resource_name, "AlterConfigsResourceResponse.resource_name")
    w.add(NO_TAGS)


def _read_incremental_alter_configs_response_v0(r: Reader) -> IncrementalAlterConfigsResponse:
    (throttle_time_ms,) = r.take(_i, "IncrementalAlterConfigsResponse.throttle_time_ms")
    responses = [
        _read_alter_configs_resource_response_v0(r)
        for _ in range(r.count(7, "IncrementalAlterConfigsResponse.responses"))
    ]
    return IncrementalAlterConfigsResponse(throttle_time_ms=throttle_time_ms, responses=responses)


def _read_incremental_alter_configs_response_v1(r: Reader) -> IncrementalAlterConfigsResponse:
    (throttle_time_ms,) = r.take(_i, "IncrementalAlterConfigsResponse.throttle_time_ms")
    responses = [
        _read_alter_configs_resource_response_v1(r)
        for _ in range(r.compact_count(6, "IncrementalAlterConfigsResponse.responses"))
    ]
    r.skip_tags("IncrementalAlterConfigsResponse")
    return IncrementalAlterConfigsResponse(throttle_time_ms=throttle_time_ms, responses=responses)


def _write_incremental_alter_configs_response_v0(w: Writer, o: IncrementalAlterConfigsResponse) -> None:
    w.add(_i.pack(o.throttle_time_ms))
    w.count(len(o.responses))
    for responses_item in o.responses:
        _write_alter_configs_resource_response_v0(w, responses_item)


def _write_incremental_alter_configs_response_v1(w: Writer, o: IncrementalAlterConfigsResponse) -> None:
    w.add(_i.pack(o.throttle_time_ms))
    w.compact_count(len(o.responses))
    for responses_item in o.responses:
        _write_alter_configs_resource_response_v1(w, responses_item)
    w.add(NO_TAGS)


REQUEST: Final = Codec(
    "IncrementalAlterConfigsRequest",
    0,
    (
        _read_incremental_alter_configs_request_v0,
        _read_incremental_alter_configs_request_v1,
    ),
    (
        _write_incremental_alter_configs_request_v0,
        _write_incremental_alter_configs_request_v1,
    ),
)

RESPONSE: Final = Codec(
    "IncrementalAlterConfigsResponse",
    0,
    (
        _read_incremental_alter_configs_response_v0,
        _read_incremental_alter_configs_response_v1,
    ),
    (
        _write_incremental_alter_configs_response_v0,
        _write_incremental_alter_configs_response_v1,
    ),
)
