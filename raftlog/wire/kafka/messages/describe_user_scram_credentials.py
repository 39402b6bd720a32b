"""DescribeUserScramCredentials (API 50), version 0. Made by scripts/generate_kafka_messages.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from raftlog.wire.kafka.codec import Codec
from raftlog.wire.kafka.reader import Reader
from raftlog.wire.kafka.writer import NO_TAGS, Writer

_bi = Struct(">bi")
_h = Struct(">h")
_ih = Struct(">ih")


@dataclass(slots=True, kw_only=True)
class UserName:
    """Part of DescribeUserScramCredentialsRequest."""

    name: str = ""


@dataclass(slots=True, kw_only=True)
class DescribeUserScramCredentialsRequest:
    """Version 0."""

    users: list[UserName] | None = field(default_factory=list)


def _read_user_name_v0(r: Reader) -> UserName:
    name = r.compact_string("UserName.name")
    r.skip_tags("UserName")
    return UserName(name=name)


def _write_user_name_v0(w: Writer, o: UserName) -> None:
    w.compact_string(o.name, "UserName.name")
    w.add(NO_TAGS)


def _read_describe_user_scram_credentials_request_v0(r: Reader) -> DescribeUserScramCredentialsRequest:
    n = r.compact_nullable_count(2, "DescribeUserScramCredentialsRequest.users")
    users = None if n < 0 else [_read_user_name_v0(r) for _ in range(n)]
    r.skip_tags("DescribeUserScramCredentialsRequest")
    return DescribeUserScramCredentialsRequest(users=users)


def _write_describe_user_scram_credentials_request_v0(w: Writer, o: DescribeUserScramCredentialsRequest) -> None:
    if o.users is None:
        w.compact_count(-1)
    else:
        w.compact_count(len(o.users))
        for users_item in o.users:
            _write_user_name_v0(w, users_item)
    w.add(NO_TAGS)


@dataclass(slots=True, kw_only=True)
class CredentialInfo:
    """Part of DescribeUserScramCredentialsResponse."""

    mechanism: int = 0
    iterations: int = 0


@dataclass(slots=True, kw_only=True)
class DescribeUserScramCredentialsResult:
    """Part of DescribeUserScramCredentialsResponse."""

    user: str = ""
    error_code: int = 0
    error_message: str | None = ""
    credential_infos: list[CredentialInfo] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class DescribeUserScramCredentialsResponse:
    """Version 0."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    results: list[DescribeUserScramCredentialsResult] = field(default_factory=list)


def _read_credential_info_v0(r: Reader) -> CredentialInfo:
    mechanism, iterations = r.take(_bi, "CredentialInfo.mechanism,iterations")
    r.skip_tags("CredentialInfo")
    return CredentialInfo(mechanism=mechanism, iterations=iterations)


def _write_credential_info_v0(w: Writer, o: CredentialInfo) -> None:
    w.add(_bi.pack(o.mechanism, o.iterations))
    w.add(NO_TAGS)


def _read_describe_user_scram_credentials_result_v0(r: Reader) -> DescribeUserScramCredentialsResult:
    user = r.compact_string("DescribeUserScramCredentialsResult.user")
    (error_code,) = r.take(_h, "DescribeUserScramCredentialsResult.error_code")
    error_message = r.compact_nullable_string("DescribeUserScramCredentialsResult.error_message")
    credential_infos = [
        _read_credential_info_v0(r)
        for _ in range(r.compact_count(6, "DescribeUserScramCredentialsResult.credential_infos"))
    ]
    r.skip_tags("DescribeUserScramCredentialsResult")
    return DescribeUserScramCredentialsResult(
        user=user, error_code=error_code, error_message=error_message, credential_infos=credential_infos
    )


def _write_describe_user_scram_credentials_result_v0(w: Writer, o: DescribeUserScramCredentialsResult) -> None:
    w.compact_string(o.user, "DescribeUserScramCredentialsResult.user")
    w.add(_h.pack(o.error_code))
    w.compact_nullable_string(o.error_message, "DescribeUserScramCredentialsResult.error_message")
    w.compact_count(len(o.credential_infos))
    for credential_infos_item in o.credential_infos:
        _write_credential_info_v0(w, credential_infos_item)
    w.add(NO_TAGS)


def _read_describe_user_scram_credentials_response_v0(r: Reader) -> DescribeUserScramCredentialsResponse:
    throttle_time_ms, error_code = r.take(_ih, "DescribeUserScramCredentialsResponse.throttle_time_ms,error_code")
    error_message = r.compact_nullable_string("DescribeUserScramCredentialsResponse.error_message")
    results = [
        _read_describe_user_scram_credentials_result_v0(r)
        for _ in range(r.compact_count(6, "DescribeUserScramCredentialsResponse.results"))
    ]
    r.skip_tags("DescribeUserScramCredentialsResponse")
    return DescribeUserScramCredentialsResponse(
        throttle_time_ms=throttle_time_ms, error_code=error_code, error_message=error_message, results=results
    )


def _write_describe_user_scram_credentials_response_v0(w: Writer, o: DescribeUserScramCredentialsResponse) -> None:
    w.add(_ih.pack(o.throttle_time_ms, o.error_code))
    w.compact_nullable_string(o.error_message, "DescribeUserScramCredentialsResponse.error_message")
    w.compact_count(len(o.results))
    for results_item in o.results:
        _write_describe_user_scram_credentials_result_v0(w, results_item)
    w.add(NO_TAGS)


REQUEST: Final = Codec(
    "DescribeUserScramCredentialsRequest",
    0,
    (_read_describe_user_scram_credentials_request_v0,),
    (_write_describe_user_scram_credentials_request_v0,),
)

RESPONSE: Final = Codec(
    "DescribeUserScramCredentialsResponse",
    0,
    (_read_describe_user_scram_credentials_response_v0,),
    (_write_describe_user_scram_credentials_response_v0,),
)
