"""ApiVersions (API 18), versions 0 to 4. Made by scripts/generate_kafka_messages.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from raftlog.wire.kafka.codec import Codec
from raftlog.wire.kafka.reader import Reader
from raftlog.wire.kafka.writer import NO_TAGS, Writer, uvarint

_o = Struct(">?")
_h = Struct(">h")
_hh = Struct(">hh")
_hhh = Struct(">hhh")
_i = Struct(">i")
_q = Struct(">q")


@dataclass(slots=True, kw_only=True)
class ApiVersionsRequest:
    """Versions 0 to 4."""

    client_software_name: str = ""  # v3+
    client_software_version: str = ""  # v3+


def _read_api_versions_request_v0(r: Reader) -> ApiVersionsRequest:
    return ApiVersionsRequest()


def _read_api_versions_request_v3(r: Reader) -> ApiVersionsRequest:
    client_software_name = r.compact_string("ApiVersionsRequest.client_software_name")
    client_software_version = r.compact_string("ApiVersionsRequest.client_software_version")
    r.skip_tags("ApiVersionsRequest")
    return ApiVersionsRequest(
        client_software_name=client_software_name, client_software_version=client_software_version
    )


def _write_api_versions_request_v0(w: Writer, o: ApiVersionsRequest) -> None:
    pass


def _write_api_versions_request_v3(w: Writer, o: ApiVersionsRequest) -> None:
    w.compact_string(o.client_software_name, "ApiVersionsRequest.client_software_name")
    w.compact_string(o.client_software_version, "ApiVersionsRequest.client_software_version")
    w.add(NO_TAGS)


@dataclass(slots=True, kw_only=True)
class ApiVersion:
    """Part of ApiVersionsResponse."""

    api_key: int = 0
    min_version: int = 0
    max_version: int = 0


@dataclass(slots=True, kw_only=True)
class SupportedFeatureKey:
    """Part of ApiVersionsResponse."""

    name: str = ""  # v3+
    min_version: int = 0  # v3+
    max_version: int = 0  # v3+


@dataclass(slots=True, kw_only=True)
class FinalizedFeatureKey:
    """Part of ApiVersionsResponse."""

    name: str = ""  # v3+
    max_version_level: int = 0  # v3+
    min_version_level: int = 0  # v3+


@dataclass(slots=True, kw_only=True)
class ApiVersionsResponse:
    """Versions 0 to 4."""

    error_code: int = 0
    api_keys: list[ApiVersion] = field(default_factory=list)
    throttle_time_ms: int = 0  # v1+
    supported_features: list[SupportedFeatureKey] = field(default_factory=list)  # v3+, tag 0
    finalized_features_epoch: int = -1  # v3+, tag 1
    finalized_features: list[FinalizedFeatureKey] = field(default_factory=list)  # v3+, tag 2
    zk_migration_ready: bool = False  # v3+, tag 3


def _read_api_version_v0(r: Reader) -> ApiVersion:
    api_key, min_version, max_version = r.take(_hhh, "ApiVersion.api_key,min_version,max_version")
    return ApiVersion(api_key=api_key, min_version=min_version, max_version=max_version)


def _read_api_version_v3(r: Reader) -> ApiVersion:
    api_key, min_version, max_version = r.take(_hhh, "ApiVersion.api_key,min_version,max_version")
    r.skip_tags("ApiVersion")
    return ApiVersion(api_key=api_key, min_version=min_version, max_version=max_version)


def _write_api_version_v0(w: Writer, o: ApiVersion) -> None:
    w.add(_hhh.pack(o.api_key, o.min_version, o.max_version))


def _write_api_version_v3(w: Writer, o: ApiVersion) -> None:
    w.add(_hhh.pack(o.api_key, o.min_version, o.max_version))
    w.add(NO_TAGS)


def _read_supported_feature_key_v3(r: Reader) -> SupportedFeatureKey:
    name = r.compact_string("SupportedFeatureKey.name")
    min_version, max_version = r.take(_hh, "SupportedFeatureKey.min_version,max_version")
    r.skip_tags("SupportedFeatureKey")
    return SupportedFeatureKey(name=name, min_version=min_version, max_version=max_version)


def _write_supported_feature_key_v3(w: Writer, o: SupportedFeatureKey) -> None:
    w.compact_string(o.name, "SupportedFeatureKey.name")
    w.add(_hh.pack(o.min_version, o.max_version))
    w.add(NO_TAGS)


def _read_finalized_feature_key_v3(r: Reader) -> FinalizedFeatureKey:
    name = r.compact_string("FinalizedFeatureKey.name")
    max_version_level, min_version_level = r.take(_hh, "FinalizedFeatureKey.max_version_level,min_version_level")
    r.skip_tags("FinalizedFeatureKey")
    return FinalizedFeatureKey(name=name, max_version_level=max_version_level, min_version_level=min_version_level)


def _write_finalized_feature_key_v3(w: Writer, o: FinalizedFeatureKey) -> None:
    w.compact_string(o.name, "FinalizedFeatureKey.name")
    w.add(_hh.pack(o.max_version_level, o.min_version_level))
    w.add(NO_TAGS)


def _read_api_versions_response_v0(r: Reader) -> ApiVersionsResponse:
    (error_code,) = r.take(_h, "ApiVersionsResponse.error_code")
    api_keys = [_read_api_version_v0(r) for _ in range(r.count(6, "ApiVersionsResponse.api_keys"))]
    return ApiVersionsResponse(error_code=error_code, api_keys=api_keys)


def _read_api_versions_response_v1(r: Reader) -> ApiVersionsResponse:
    (error_code,) = r.take(_h, "ApiVersionsResponse.error_code")
    api_keys = [_read_api_version_v0(r) for _ in range(r.count(6, "ApiVersionsResponse.api_keys"))]
    (throttle_time_ms,) = r.take(_i, "ApiVersionsResponse.throttle_time_ms")
    return ApiVersionsResponse(error_code=error_code, api_keys=api_keys, throttle_time_ms=throttle_time_ms)


def _read_api_versions_response_v3(r: Reader) -> ApiVersionsResponse:
    (error_code,) = r.take(_h, "ApiVersionsResponse.error_code")
    api_keys = [_read_api_version_v3(r) for _ in range(r.compact_count(7, "ApiVersionsResponse.api_keys"))]
    (throttle_time_ms,) = r.take(_i, "ApiVersionsResponse.throttle_time_ms")
    o = ApiVersionsResponse(error_code=error_code, api_keys=api_keys, throttle_time_ms=throttle_time_ms)
    for _ in range(r.tag_count("ApiVersionsResponse")):
        tag, end = r.tag("ApiVersionsResponse")
        if tag == 0:
            o.supported_features = [
                _read_supported_feature_key_v3(r)
                for _ in range(r.compact_count(6, "ApiVersionsResponse.supported_features"))
            ]
            r.end_tag(end, "ApiVersionsResponse.supported_features")
        elif tag == 1:
            (o.finalized_features_epoch,) = r.take(_q, "ApiVersionsResponse.finalized_features_epoch")
            r.end_tag(end, "ApiVersionsResponse.finalized_features_epoch")
        elif tag == 2:
            o.finalized_features = [
                _read_finalized_feature_key_v3(r)
                for _ in range(r.compact_count(6, "ApiVersionsResponse.finalized_features"))
            ]
            r.end_tag(end, "ApiVersionsResponse.finalized_features")
        elif tag == 3:
            (o.zk_migration_ready,) = r.take(_o, "ApiVersionsResponse.zk_migration_ready")
            r.end_tag(end, "ApiVersionsResponse.zk_migration_ready")
        else:
            r.at = end
    return o


def _write_api_versions_response_v0(w: Writer, o: ApiVersionsResponse) -> None:
    w.add(_h.pack(o.error_code))
    w.count(len(o.api_keys))
    for api_keys_item in o.api_keys:
        _write_api_version_v0(w, api_keys_item)


def _write_api_versions_response_v1(w: Writer, o: ApiVersionsResponse) -> None:
    w.add(_h.pack(o.error_code))
    w.count(len(o.api_keys))
    for api_keys_item in o.api_keys:
        _write_api_version_v0(w, api_keys_item)
    w.add(_i.pack(o.throttle_time_ms))


def _write_api_versions_response_v3(w: Writer, o: ApiVersionsResponse) -> None:
    w.add(_h.pack(o.error_code))
    w.compact_count(len(o.api_keys))
    for api_keys_item in o.api_keys:
        _write_api_version_v3(w, api_keys_item)
    w.add(_i.pack(o.throttle_time_ms))
    w.add(
        uvarint(
            (bool(o.supported_features))
            + (o.finalized_features_epoch != -1)
            + (bool(o.finalized_features))
            + (bool(o.zk_migration_ready))
        )
    )
    if o.supported_features:
        mark = w.begin_tag(0)
        w.compact_count(len(o.supported_features))
        for supported_features_item in o.supported_features:
            _write_supported_feature_key_v3(w, supported_features_item)
        w.end_tag(mark)
    if o.finalized_features_epoch != -1:
        mark = w.begin_tag(1)
        w.add(_q.pack(o.finalized_features_epoch))
        w.end_tag(mark)
    if o.finalized_features:
        mark = w.begin_tag(2)
        w.compact_count(len(o.finalized_features))
        for finalized_features_item in o.finalized_features:
            _write_finalized_feature_key_v3(w, finalized_features_item)
        w.end_tag(mark)
    if o.zk_migration_ready:
        mark = w.begin_tag(3)
        w.add(_o.pack(o.zk_migration_ready))
        w.end_tag(mark)


REQUEST: Final = Codec(
    "ApiVersionsRequest",
    0,
    (
        _read_api_versions_request_v0,
        _read_api_versions_request_v0,
        _read_api_versions_request_v0,
        _read_api_versions_request_v3,
        _read_api_versions_request_v3,
    ),
    (
        _write_api_versions_request_v0,
        _write_api_versions_request_v0,
        _write_api_versions_request_v0,
        _write_api_versions_request_v3,
        _write_api_versions_request_v3,
    ),
)

RESPONSE: Final = Codec(
    "ApiVersionsResponse",
    0,
    (
        _read_api_versions_response_v0,
        _read_api_versions_response_v1,
        _read_api_versions_response_v1,
        _read_api_versions_response_v3,
        _read_api_versions_response_v3,
    ),
    (
        _write_api_versions_response_v0,
        _write_api_versions_response_v1,
        _write_api_versions_response_v1,
        _write_api_versions_response_v3,
        _write_api_versions_response_v3,
    ),
)
