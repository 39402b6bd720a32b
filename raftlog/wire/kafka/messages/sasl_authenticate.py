"""SaslAuthenticate (API 36), versions 0 to 2. Made by scripts/generate_kafka_messages.py."""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Final

from raftlog.wire.kafka.codec import Codec
from raftlog.wire.kafka.reader import Reader
from raftlog.wire.kafka.writer import NO_TAGS, Writer

_h = Struct(">h")
_q = Struct(">q")


@dataclass(slots=True, kw_only=True)
class SaslAuthenticateRequest:
    """Versions 0 to 2."""

    auth_bytes: bytes = b""


def _read_sasl_authenticate_request_v0(r: Reader) -> SaslAuthenticateRequest:
    auth_bytes = r.octets("SaslAuthenticateRequest.auth_bytes")
    return SaslAuthenticateRequest(auth_bytes=auth_bytes)


def _read_sasl_authenticate_request_v2(r: Reader) -> SaslAuthenticateRequest:
    auth_bytes = r.compact_octets("SaslAuthenticateRequest.auth_bytes")
    r.skip_tags("SaslAuthenticateRequest")
    return SaslAuthenticateRequest(auth_bytes=auth_bytes)


def _write_sasl_authenticate_request_v0(w: Writer, o: SaslAuthenticateRequest) -> None:
    w.octets(o.auth_bytes, "SaslAuthenticateRequest.auth_bytes")


def _write_sasl_authenticate_request_v2(w: Writer, o: SaslAuthenticateRequest) -> None:
    w.compact_octets(o.auth_bytes, "SaslAuthenticateRequest.auth_bytes")
    w.add(NO_TAGS)


@dataclass(slots=True, kw_only=True)
class SaslAuthenticateResponse:
    """Versions 0 to 2."""

    error_code: int = 0
    error_message: str | None = ""
    auth_bytes: bytes = b""
    session_lifetime_ms: int = 0  # v1+


def _read_sasl_authenticate_response_v0(r: Reader) -> SaslAuthenticateResponse:
    (error_code,) = r.take(_h, "SaslAuthenticateResponse.error_code")
    error_message = r.nullable_string("SaslAuthenticateResponse.error_message")
    auth_bytes = r.octets("SaslAuthenticateResponse.auth_bytes")
    return SaslAuthenticateResponse(error_code=error_code, error_message=error_message, auth_bytes=auth_bytes)


def _read_sasl_authenticate_response_v1(r: Reader) -> SaslAuthenticateResponse:
    (error_code,) = r.take(_h, "SaslAuthenticateResponse.error_code")
    error_message = r.nullable_string("SaslAuthenticateResponse.error_message")
    auth_bytes = r.octets("SaslAuthenticateResponse.auth_bytes")
    (session_lifetime_ms,) = r.take(_q, "SaslAuthenticateResponse.session_lifetime_ms")
    return SaslAuthenticateResponse(
        error_code=error_code,
        error_message=error_message,
        auth_bytes=auth_bytes,
        session_lifetime_ms=session_lifetime_ms,
    )


def _read_sasl_authenticate_response_v2(r: Reader) -> SaslAuthenticateResponse:
    (error_code,) = r.take(_h, "SaslAuthenticateResponse.error_code")
    error_message = r.compact_nullable_string("SaslAuthenticateResponse.error_message")
    auth_bytes = r.compact_octets("SaslAuthenticateResponse.auth_bytes")
    (session_lifetime_ms,) = r.take(_q, "SaslAuthenticateResponse.session_lifetime_ms")
    r.skip_tags("SaslAuthenticateResponse")
    return SaslAuthenticateResponse(
        error_code=error_code,
        error_message=error_message,
        auth_bytes=auth_bytes,
        session_lifetime_ms=session_lifetime_ms,
    )


def _write_sasl_authenticate_response_v0(w: Writer, o: SaslAuthenticateResponse) -> None:
    w.add(_h.pack(o.error_code))
    w.nullable_string(o.error_message, "SaslAuthenticateResponse.error_message")
    w.octets(o.auth_bytes, "SaslAuthenticateResponse.auth_bytes")


def _write_sasl_authenticate_response_v1(w: Writer, o: SaslAuthenticateResponse) -> None:
    w.add(_h.pack(o.error_code))
    w.nullable_string(o.error_message, "SaslAuthenticateResponse.error_message")
    w.octets(o.auth_bytes, "SaslAuthenticateResponse.auth_bytes")
    w.add(_q.pack(o.session_lifetime_ms))


def _write_sasl_authenticate_response_v2(w: Writer, o: SaslAuthenticateResponse) -> None:
    w.add(_h.pack(o.error_code))
    w.compact_nullable_string(o.error_message, "SaslAuthenticateResponse.error_message")
    w.compact_octets(o.auth_bytes, "SaslAuthenticateResponse.auth_bytes")
    w.add(_q.pack(o.session_lifetime_ms))
    w.add(NO_TAGS)


REQUEST: Final = Codec(
    "SaslAuthenticateRequest",
    0,
    (
        _read_sasl_authenticate_request_v0,
        _read_sasl_authenticate_request_v0,
        _read_sasl_authenticate_request_v2,
    ),
    (
        _write_sasl_authenticate_request_v0,
        _write_sasl_authenticate_request_v0,
        _write_sasl_authenticate_request_v2,
    ),
)

RESPONSE: Final = Codec(
    "SaslAuthenticateResponse",
    0,
    (
        _read_sasl_authenticate_response_v0,
        _read_sasl_authenticate_response_v1,
        _read_sasl_authenticate_response_v2,
    ),
    (
        _write_sasl_authenticate_response_v0,
        _write_sasl_authenticate_response_v1,
        _write_sasl_authenticate_response_v2,
    ),
)
