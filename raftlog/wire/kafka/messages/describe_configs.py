"""DescribeConfigs (API 32), versions 1 to 4. Made by scripts/generate_kafka_messages.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from raftlog.wire.kafka.codec import Codec
from raftlog.wire.kafka.reader import Reader
from raftlog.wire.kafka.writer import NO_TAGS, Writer

_o = Struct(">?")
_oo = Struct(">??")
_obo = Struct(">?b?")
_b = Struct(">b")
_h = Struct(">h")
_i = Struct(">i")


@dataclass(slots=True, kw_only=True)
class DescribeConfigsResource:
    """Part of DescribeConfigsRequest."""

    resource_type: int = 0
    resource_name: str = ""
    configuration_keys: list[str] | None = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class DescribeConfigsRequest:
    """Versions 1 to 4."""

    resources: list[DescribeConfigsResource] = field(default_factory=list)
    include_synonyms: bool = False
    include_documentation: bool = False  # v3+


def _read_describe_configs_resource_v1(r: Reader) -> DescribeConfigsResource:
    (resource_type,) = r.take(_b, "DescribeConfigsResource.resource_type")
    resource_name = r.string("DescribeConfigsResource.resource_name")
    n = r.nullable_count(2, "DescribeConfigsResource.configuration_keys")
    configuration_keys = None if n < 0 else [r.string("DescribeConfigsResource.configuration_keys") for _ in range(n)]
    return DescribeConfigsResource(
        resource_type=resource_type, resource_name=resource_name, configuration_keys=configuration_keys
    )


def _read_describe_configs_resource_v4(r: Reader) -> DescribeConfigsResource:
    (resource_type,) = r.take(_b, "DescribeConfigsResource.resource_type")
    resource_name = r.compact_string("DescribeConfigsResource.resource_name")
    n = r.compact_nullable_count(1, "DescribeConfigsResource.configuration_keys")
    configuration_keys = (
        None if n < 0 else [r.compact_string("DescribeConfigsResource.configuration_keys") for _ in range(n)]
    )
    r.skip_tags("DescribeConfigsResource")
    return DescribeConfigsResource(
        resource_type=resource_type, resource_name=resource_name, configuration_keys=configuration_keys
    )


def _write_describe_configs_resource_v1(w: Writer, o: DescribeConfigsResource) -> None:
    w.add(_b.pack(o.resource_type))
    w.string(o.resource_name, "DescribeConfigsResource.resource_name")
    if o.configuration_keys is None:
        w.count(-1)
    else:
        w.count(len(o.configuration_keys))
        for configuration_keys_item in o.configuration_keys:
            w.string(configuration_keys_item, "DescribeConfigsResource.configuration_keys")


def _write_describe_configs_resource_v4(w: Writer, o: DescribeConfigsResource) -> None:
    w.add(_b.pack(o.resource_type))
    w.compact_string(o.resource_name, "DescribeConfigsResource.resource_name")
    if o.configuration_keys is None:
        w.compact_count(-1)
    else:
        w.compact_count(len(o.configuration_keys))
        for configuration_keys_item in o.configuration_keys:
            w.compact_string(configuration_keys_item, "DescribeConfigsResource.configuration_keys")
    w.add(NO_TAGS)


def _read_describe_configs_request_v1(r: Reader) -> DescribeConfigsRequest:
    resources = [_read_describe_configs_resource_v1(r) for _ in range(r.count(7, "DescribeConfigsRequest.resources"))]
    (include_synonyms,) = r.take(_o, "DescribeConfigsRequest.include_synonyms")
    return DescribeConfigsRequest(resources=resources, include_synonyms=include_synonyms)


def _read_describe_configs_request_v3(r: Reader) -> DescribeConfigsRequest:
    resources = [_read_describe_configs_resource_v1(r) for _ in range(r.count(7, "DescribeConfigsRequest.resources"))]
    include_synonyms, include_documentation = r.take(
        _oo, "DescribeConfigsRequest.include_synonyms,include_documentation"
    )
    return DescribeConfigsRequest(
        resources=resources, include_synonyms=include_synonyms, include_documentation=include_documentation
    )


def _read_describe_configs_request_v4(r: Reader) -> DescribeConfigsRequest:
    resources = [
        _read_describe_configs_resource_v4(r) for _ in range(r.compact_count(4, "DescribeConfigsRequest.resources"))
    ]
    include_synonyms, include_documentation = r.take(
        _oo, "DescribeConfigsRequest.include_synonyms,include_documentation"
    )
    r.skip_tags("DescribeConfigsRequest")
    return DescribeConfigsRequest(
        resources=resources, include_synonyms=include_synonyms, include_documentation=include_documentation
    )


def _write_describe_configs_request_v1(w: Writer, o: DescribeConfigsRequest) -> None:
    if o.include_documentation:
        raise w.unsupported("DescribeConfigsRequest.include_documentation")
    w.count(len(o.resources))
    for resources_item in o.resources:
        _write_describe_configs_resource_v1(w, resources_item)
    w.add(_o.pack(o.include_synonyms))


def _write_describe_configs_request_v3(w: Writer, o: DescribeConfigsRequest) -> None:
    w.count(len(o.resources))
    for resources_item in o.resources:
        _write_describe_configs_resource_v1(w, resources_item)
    w.add(_oo.pack(o.include_synonyms, o.include_documentation))


def _write_describe_configs_request_v4(w: Writer, o: DescribeConfigsRequest) -> None:
    w.compact_count(len(o.resources))
    for resources_item in o.resources:
        _write_describe_configs_resource_v4(w, resources_item)
    w.add(_oo.pack(o.include_synonyms, o.include_documentation))
    w.add(NO_TAGS)


@dataclass(slots=True, kw_only=True)
class DescribeConfigsSynonym:
    """Part of DescribeConfigsResponse."""

    name: str = ""
    value: str | None = ""
    source: int = 0


@dataclass(slots=True, kw_only=True)
class DescribeConfigsResourceResult:
    """Part of DescribeConfigsResponse."""

    name: str = ""
    value: str | None = ""
    read_only: bool = False
    config_source: int = -1
    is_sensitive: bool = False
    synonyms: list[DescribeConfigsSynonym] = field(default_factory=list)
    config_type: int = 0  # v3+
    documentation: str | None = ""  # v3+


@dataclass(slots=True, kw_only=True)
class DescribeConfigsResult:
    """Part of DescribeConfigsResponse."""

    error_code: int = 0
    error_message: str | None = ""
    resource_type: int = 0
    resource_name: str = ""
    configs: list[DescribeConfigsResourceResult] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class DescribeConfigsResponse:
    """Versions 1 to 4."""

    throttle_time_ms: int = 0
    results: list[DescribeConfigsResult] = field(default_factory=list)


def _read_describe_configs_synonym_v1(r: Reader) -> DescribeConfigsSynonym:
    name = r.string("DescribeConfigsSynonym.name")
    value = r.nullable_string("DescribeConfigsSynonym.value")
    (source,) = r.take(_b, "DescribeConfigsSynonym.source")
    return DescribeConfigsSynonym(name=name, value=value, source=source)


def _read_describe_configs_synonym_v4(r: Reader) -> DescribeConfigsSynonym:
    name = r.compact_string("DescribeConfigsSynonym.name")
    value = r.compact_nullable_string("DescribeConfigsSynonym.value")
    (source,) = r.take(_b, "DescribeConfigsSynonym.source")
    r.skip_tags("DescribeConfigsSynonym")
    return DescribeConfigsSynonym(name=name, value=value, source=source)


def _write_describe_configs_synonym_v1(w: Writer, o: DescribeConfigsSynonym) -> None:
    w.string(o.name, "DescribeConfigsSynonym.name")
    w.nullable_string(o.value, "DescribeConfigsSynonym.value")
    w.add(_b.pack(o.source))


def _write_describe_configs_synonym_v4(w: Writer, o: DescribeConfigsSynonym) -> None:
    w.compact_string(o.name, "DescribeConfigsSynonym.name")
    w.compact_nullable_string(o.value, "DescribeConfigsSynonym.value")
    w.add(_b.pack(o.source))
    w.add(NO_TAGS)


def _read_describe_configs_resource_result_v1(r: Reader) -> DescribeConfigsResourceResult:
    name = r.string("DescribeConfigsResourceResult.name")
    value = r.nullable_string("DescribeConfigsResourceResult.value")
    read_only, config_source, is_sensitive = r.take(
        _obo, "DescribeConfigsResourceResult.read_only,config_source,is_sensitive"
    )
    synonyms = [
        _read_describe_configs_synonym_v1(r) for _ in range(r.count(5, "DescribeConfigsResourceResult.synonyms"))
    ]
    return DescribeConfigsResourceResult(
        name=name,
        value=value,
        read_only=read_only,
        config_source=config_source,
        is_sensitive=is_sensitive,
        synonyms=synonyms,
    )


def _read_describe_configs_resource_result_v3(r: Reader) -> DescribeConfigsResourceResult:
    name = r.string("DescribeConfigsResourceResult.name")
    value = r.nullable_string("DescribeConfigsResourceResult.value")
    read_only, config_source, is_sensitive = r.take(
        _obo, "DescribeConfigsResourceResult.read_only,config_source,is_sensitive"
    )
    synonyms = [
        _read_describe_configs_synonym_v1(r) for _ in range(r.count(5, "DescribeConfigsResourceResult.synonyms"))
    ]
    (config_type,) = r.take(_b, "DescribeConfigsResourceResult.config_type")
    documentation = r.nullable_string("DescribeConfigsResourceResult.documentation")
    return DescribeConfigsResourceResult(
        name=name,
        value=value,
        read_only=read_only,
        config_source=config_source,
        is_sensitive=is_sensitive,
        synonyms=synonyms,
        config_type=config_type,
        documentation=documentation,
    )


def _read_describe_configs_resource_result_v4(r: Reader) -> DescribeConfigsResourceResult:
    name = r.compact_string("DescribeConfigsResourceResult.name")
    value = r.compact_nullable_string("DescribeConfigsResourceResult.value")
    read_only, config_source, is_sensitive = r.take(
        _obo, "DescribeConfigsResourceResult.read_only,config_source,is_sensitive"
    )
    synonyms = [
        _read_describe_configs_synonym_v4(r)
        for _ in range(r.compact_count(4, "DescribeConfigsResourceResult.synonyms"))
    ]
    (config_type,) = r.take(_b, "DescribeConfigsResourceResult.config_type")
    documentation = r.compact_nullable_string("DescribeConfigsResourceResult.documentation")
    r.skip_tags("DescribeConfigsResourceResult")
    return DescribeConfigsResourceResult(
        name=name,
        value=value,
        read_only=read_only,
        config_source=config_source,
        is_sensitive=is_sensitive,
        synonyms=synonyms,
        config_type=config_type,
        documentation=documentation,
    )


def _write_describe_configs_resource_result_v1(w: Writer, o: DescribeConfigsResourceResult) -> None:
    w.string(o.name, "DescribeConfigsResourceResult.name")
    w.nullable_string(o.value, "DescribeConfigsResourceResult.value")
    w.add(_obo.pack(o.read_only, o.config_source, o.is_sensitive))
    w.count(len(o.synonyms))
    for synonyms_item in o.synonyms:
        _write_describe_configs_synonym_v1(w, synonyms_item)


def _write_describe_configs_resource_result_v3(w: Writer, o: DescribeConfigsResourceResult) -> None:
    w.string(o.name, "DescribeConfigsResourceResult.name")
    w.nullable_string(o.value, "DescribeConfigsResourceResult.value")
    w.add(_obo.pack(o.read_only, o.config_source, o.is_sensitive))
    w.count(len(o.synonyms))
    for synonyms_item in o.synonyms:
        _write_describe_configs_synonym_v1(w, synonyms_item)
    w.add(_b.pack(o.config_type))
    w.nullable_string(o.documentation, "DescribeConfigsResourceResult.documentation")


def _write_describe_configs_resource_result_v4(w: Writer, o: DescribeConfigsResourceResult) -> None:
    w.compact_string(o.name, "DescribeConfigsResourceResult.name")
    w.compact_nullable_string(o.value, "DescribeConfigsResourceResult.value")
    w.add(_obo.pack(o.read_only, o.config_source, o.is_sensitive))
    w.compact_count(len(o.synonyms))
    for synonyms_item in o.synonyms:
        _write_describe_configs_synonym_v4(w, synonyms_item)
    w.add(_b.pack(o.config_type))
    w.compact_nullable_string(o.documentation, "DescribeConfigsResourceResult.documentation")
    w.add(NO_TAGS)


def _read_describe_configs_result_v1(r: Reader) -> DescribeConfigsResult:
    (error_code,) = r.take(_h, "DescribeConfigsResult.error_code")
    error_message = r.nullable_string("DescribeConfigsResult.error_message")
    (resource_type,) = r.take(_b, "DescribeConfigsResult.resource_type")
    resource_name = r.string("DescribeConfigsResult.resource_name")
    configs = [
        _read_describe_configs_resource_result_v1(r) for _ in range(r.count(11, "DescribeConfigsResult.configs"))
    ]
    return DescribeConfigsResult(
        error_code=error_code,
        error_message=error_message,
        resource_type=resource_type,
        resource_name=resource_name,
        configs=configs,
    )


def _read_describe_configs_result_v3(r: Reader) -> DescribeConfigsResult:
    (error_code,) = r.take(_h, "DescribeConfigsResult.error_code")
    error_message = r.nullable_string("DescribeConfigsResult.error_message")
    (resource_type,) = r.take(_b, "DescribeConfigsResult.resource_type")
    resource_name = r.string("DescribeConfigsResult.resource_name")
    configs = [
        _read_describe_configs_resource_result_v3(r) for _ in range(r.count(14, "DescribeConfigsResult.configs"))
    ]
    return DescribeConfigsResult(
        error_code=error_code,
        error_message=error_message,
        resource_type=resource_type,
        resource_name=resource_name,
        configs=configs,
    )


def _read_describe_configs_result_v4(r: Reader) -> DescribeConfigsResult:
    (error_code,) = r.take(_h, "DescribeConfigsResult.error_code")
    error_message = r.compact_nullable_string("DescribeConfigsResult.error_message")
    (resource_type,) = r.take(_b, "DescribeConfigsResult.resource_type")
    resource_name = r.compact_string("DescribeConfigsResult.resource_name")
    configs = [
        _read_describe_configs_resource_result_v4(r) for _ in range(r.compact_count(9, "DescribeConfigsResult.configs"))
    ]
    r.skip_tags("DescribeConfigsResult")
    return DescribeConfigsResult(
        error_code=error_code,
        error_message=error_message,
        resource_type=resource_type,
        resource_name=resource_name,
        configs=configs,
    )


def _write_describe_configs_result_v1(w: Writer, o: DescribeConfigsResult) -> None:
    w.add(_h.pack(o.error_code))
    w.nullable_string(o.error_message, "DescribeConfigsResult.error_message")
    w.add(_b.pack(o.resource_type))
    w.string(o.resource_name, "DescribeConfigsResult.resource_name")
    w.count(len(o.configs))
    for configs_item in o.configs:
        _write_describe_configs_resource_result_v1(w, configs_item)


def _write_describe_configs_result_v3(w: Writer, o: DescribeConfigsResult) -> None:
    w.add(_h.pack(o.error_code))
    w.nullable_string(o.error_message, "DescribeConfigsResult.error_message")
    w.add(_b.pack(o.resource_type))
    w.string(o.resource_name, "DescribeConfigsResult.resource_name")
    w.count(len(o.configs))
    for configs_item in o.configs:
        _write_describe_configs_resource_result_v3(w, configs_item)


def _write_describe_configs_result_v4(w: Writer, o: DescribeConfigsResult) -> None:
    w.add(_h.pack(o.error_code))
    w.compact_nullable_string(o.error_message, "DescribeConfigsResult.error_message")
    w.add(_b.pack(o.resource_type))
    w.compact_string(o.resource_name, "DescribeConfigsResult.resource_name")
    w.compact_count(len(o.configs))
    for configs_item in o.configs:
        _write_describe_configs_resource_result_v4(w, configs_item)
    w.add(NO_TAGS)


def _read_describe_configs_response_v1(r: Reader) -> DescribeConfigsResponse:
    (throttle_time_ms,) = r.take(_i, "DescribeConfigsResponse.throttle_time_ms")
    results = [_read_describe_configs_result_v1(r) for _ in range(r.count(11, "DescribeConfigsResponse.results"))]
    return DescribeConfigsResponse(throttle_time_ms=throttle_time_ms, results=results)


def _read_describe_configs_response_v3(r: Reader) -> DescribeConfigsResponse:
    (throttle_time_ms,) = r.take(_i, "DescribeConfigsResponse.throttle_time_ms")
    results = [_read_describe_configs_result_v3(r) for _ in range(r.count(11, "DescribeConfigsResponse.results"))]
    return DescribeConfigsResponse(throttle_time_ms=throttle_time_ms, results=results)


def _read_describe_configs_response_v4(r: Reader) -> DescribeConfigsResponse:
    (throttle_time_ms,) = r.take(_i, "DescribeConfigsResponse.throttle_time_ms")
    results = [
        _read_describe_configs_result_v4(r) for _ in range(r.compact_count(7, "DescribeConfigsResponse.results"))
    ]
    r.skip_tags("DescribeConfigsResponse")
    return DescribeConfigsResponse(throttle_time_ms=throttle_time_ms, results=results)


def _write_describe_configs_response_v1(w: Writer, o: DescribeConfigsResponse) -> None:
    w.add(_i.pack(o.throttle_time_ms))
    w.count(len(o.results))
    for results_item in o.results:
        _write_describe_configs_result_v1(w, results_item)


def _write_describe_configs_response_v3(w: Writer, o: DescribeConfigsResponse) -> None:
    w.add(_i.pack(o.throttle_time_ms))
    w.count(len(o.results))
    for results_item in o.results:
        _write_describe_configs_result_v3(w, results_item)


def _write_describe_configs_response_v4(w: Writer, o: DescribeConfigsResponse) -> None:
    w.add(_i.pack(o.throttle_time_ms))
    w.compact_count(len(o.results))
    for results_item in o.results:
        _write_describe_configs_result_v4(w, results_item)
    w.add(NO_TAGS)


REQUEST: Final = Codec(
    "DescribeConfigsRequest",
    1,
    (
        _read_describe_configs_request_v1,
        _read_describe_configs_request_v1,
        _read_describe_configs_request_v3,
        _read_describe_configs_request_v4,
    ),
    (
        _write_describe_configs_request_v1,
        _write_describe_configs_request_v1,
        _write_describe_configs_request_v3,
        _write_describe_configs_request_v4,
    ),
)

RESPONSE: Final = Codec(
    "DescribeConfigsResponse",
    1,
    (
        _read_describe_configs_response_v1,
        _read_describe_configs_response_v1,
        _read_describe_configs_response_v3,
        _read_describe_configs_response_v4,
    ),
    (
        _write_describe_configs_response_v1,
        _write_describe_configs_response_v1,
        _write_describe_configs_response_v3,
        _write_describe_configs_response_v4,
    ),
)
