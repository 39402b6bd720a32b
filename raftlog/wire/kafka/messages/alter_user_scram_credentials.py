"""AlterUserScramCredentials (API 51), version 0. Made by scripts/generate_kafka_messages.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from raftlog.wire.kafka.codec import Codec
from raftlog.wire.kafka.reader import Reader
from raftlog.wire.kafka.writer import NO_TAGS, Writer

_b = Struct(">b")
_bi = Struct(">bi")
_h = Struct(">h")
_i = Struct(">i")


@dataclass(slots=True, kw_only=True)
class ScramCredentialDeletion:
    """Part of AlterUserScramCredentialsRequest."""

    name: str = ""
    mechanism: int = 0


@dataclass(slots=True, kw_only=True)
class ScramCredentialUpsertion:
    """Part of AlterUserScramCredentialsRequest."""

    name: str = ""
    mechanism: int = 0
    iterations: int = 0
    salt: bytes = b""
    salted_password: bytes = b""


@dataclass(slots=True, kw_only=True)
class AlterUserScramCredentialsRequest:
    """Version 0."""

    deletions: list[ScramCredentialDeletion] = field(default_factory=list)
    upsertions: list[ScramCredentialUpsertion] = field(default_factory=list)


def _read_scram_credential_deletion_v0(r: Reader) -> ScramCredentialDeletion:
    name = r.compact_string("ScramCredentialDeletion.name")
    (mechanism,) = r.take(_b, "ScramCredentialDeletion.mechanism")
    r.skip_tags("ScramCredentialDeletion")
    return ScramCredentialDeletion(name=name, mechanism=mechanism)


def _write_scram_credential_deletion_v0(w: Writer, o: ScramCredentialDeletion) -> None:
    w.compact_string(o.name, "ScramCredentialDeletion.name")
    w.add(_b.pack(o.mechanism))
    w.add(NO_TAGS)


def _read_scram_credential_upsertion_v0(r: Reader) -> ScramCredentialUpsertion:
    name = r.compact_string("ScramCredentialUpsertion.name")
    mechanism, iterations = r.take(_bi, "ScramCredentialUpsertion.mechanism,iterations")
    salt = r.compact_octets("ScramCredentialUpsertion.salt")
    salted_password = r.compact_octets("ScramCredentialUpsertion.salted_password")
    r.skip_tags("ScramCredentialUpsertion")
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=salted_password
    )


def _write_scram_credential_upsertion_v0(w: Writer, o: ScramCredentialUpsertion) -> None:
    w.compact_string(o.name, "ScramCredentialUpsertion.name")
    w.add(_bi.pack(o.mechanism, o.iterations))
    w.compact_octets(o.salt, "ScramCredentialUpsertion.salt")
    w.compact_octets(o.salted_password, "ScramCredentialUpsertion.salted_password")
    w.add(NO_TAGS)


def _read_alter_user_scram_credentials_request_v0(r: Reader) -> AlterUserScramCredentialsRequest:
    deletions = [
        _read_scram_credential_deletion_v0(r)
        for _ in range(r.compact_count(3, "AlterUserScramCredentialsRequest.deletions"))
    ]
    upsertions = [
        _read_scram_credential_upsertion_v0(r)
        for _ in range(r.compact_count(9, "AlterUserScramCredentialsRequest.upsertions"))
    ]
    r.skip_tags("AlterUserScramCredentialsRequest")
    return AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions)


def _write_alter_user_scram_credentials_request_v0(w: Writer, o: AlterUserScramCredentialsRequest) -> None:
    w.compact_count(len(o.deletions))
    for deletions_item in o.deletions:
        _write_scram_credential_deletion_v0(w, deletions_item)
    w.compact_count(len(o.upsertions))
    for upsertions_item in o.upsertions:
        _write_scram_credential_upsertion_v0(w, upsertions_item)
    w.add(NO_TAGS)


@dataclass(slots=True, kw_only=True)
class AlterUserScramCredentialsResult:
    """Part of AlterUserScramCredentialsResponse."""

    user: str = ""
    error_code: int = 0
    error_message: str | None = ""


@dataclass(slots=True, kw_only=True)
class AlterUserScramCredentialsResponse:
    """Version 0."""

    throttle_time_ms: int = 0
    results: list[AlterUserScramCredentialsResult] = field(default_factory=list)


def _read_alter_user_scram_credentials_result_v0(r: Reader) -> AlterUserScramCredentialsResult:
    user = r.compact_string("AlterUserScramCredentialsResult.user")
    (error_code,) = r.take(_h, "AlterUserScramCredentialsResult.error_code")
    error_message = r.compact_nullable_string("AlterUserScramCredentialsResult.error_message")
    r.skip_tags("AlterUserScramCredentialsResult")
    return AlterUserScramCredentialsResult(user=user, error_code=error_code, error_message=error_message)


def _write_alter_user_scram_credentials_result_v0(w: Writer, o: AlterUserScramCredentialsResult) -> None:
    w.compact_string(o.user, "AlterUserScramCredentialsResult.user")
    w.add(_h.pack(o.error_code))
    w.compact_nullable_string(o.error_message, "AlterUserScramCredentialsResult.error_message")
    w.add(NO_TAGS)


def _read_alter_user_scram_credentials_response_v0(r: Reader) -> AlterUserScramCredentialsResponse:
    (throttle_time_ms,) = r.take(_i, "AlterUserScramCredentialsResponse.throttle_time_ms")
    results = [
        _read_alter_user_scram_credentials_result_v0(r)
        for _ in range(r.compact_count(5, "AlterUserScramCredentialsResponse.results"))
    ]
    r.skip_tags("AlterUserScramCredentialsResponse")
    return AlterUserScramCredentialsResponse(throttle_time_ms=throttle_time_ms, results=results)


def _write_alter_user_scram_credentials_response_v0(w: Writer, o: AlterUserScramCredentialsResponse) -> None:
    w.add(_i.pack(o.throttle_time_ms))
    w.compact_count(len(o.results))
    for results_item in o.results:
        _write_alter_user_scram_credentials_result_v0(w, results_item)
    w.add(NO_TAGS)


REQUEST: Final = Codec(
    "AlterUserScramCredentialsRequest",
    0,
    (_read_alter_user_scram_credentials_request_v0,),
    (_write_alter_user_scram_credentials_request_v0,),
)

RESPONSE: Final = Codec(
    "AlterUserScramCredentialsResponse",
    0,
    (_read_alter_user_scram_credentials_response_v0,),
    (_write_alter_user_scram_credentials_response_v0,),
)
