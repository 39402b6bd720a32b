"""SaslHandshake (API 17), versions 0 to 1. Made by scripts/generate_kafka_messages.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from raftlog.wire.kafka.codec import Codec
from raftlog.wire.kafka.reader import Reader
from raftlog.wire.kafka.writer import Writer

_h = Struct(">h")


@dataclass(slots=True, kw_only=True)
class SaslHandshakeRequest:
    """Versions 0 to 1."""

    mechanism: str = ""


def _read_sasl_handshake_request_v0(r: Reader) -> SaslHandshakeRequest:
    mechanism = r.string("SaslHandshakeRequest.mechanism")
    return SaslHandshakeRequest(mechanism=mechanism)


def _write_sasl_handshake_request_v0(w: Writer, o: SaslHandshakeRequest) -> None:
    w.string(o.mechanism, "SaslHandshakeRequest.mechanism")


@dataclass(slots=True, kw_only=True)
class SaslHandshakeResponse:
    """Versions 0 to 1."""

    error_code: int = 0
    mechanisms: list[str] = field(default_factory=list)


def _read_sasl_handshake_response_v0(r: Reader) -> SaslHandshakeResponse:
    (error_code,) = r.take(_h, "SaslHandshakeResponse.error_code")
    mechanisms = [
        r.string("SaslHandshakeResponse.mechanisms") for _ in range(r.count(2, "SaslHandshakeResponse.mechanisms"))
    ]
    return SaslHandshakeResponse(error_code=error_code, mechanisms=mechanisms)


def _write_sasl_handshake_response_v0(w: Writer, o: SaslHandshakeResponse) -> None:
    w.add(_h.pack(o.error_code))
    w.count(len(o.mechanisms))
    for mechanisms_item in o.mechanisms:
        w.string(mechanisms_item, "SaslHandshakeResponse.mechanisms")


REQUEST: Final = Codec(
    "SaslHandshakeRequest",
    0,
    (
        _read_sasl_handshake_request_v0,
        _read_sasl_handshake_request_v0,
    ),
    (
        _write_sasl_handshake_request_v0,
        _write_sasl_handshake_request_v0,
    ),
)

RESPONSE: Final = Codec(
    "SaslHandshakeResponse",
    0,
    (
        _read_sasl_handshake_response_v0,
        _read_sasl_handshake_response_v0,
    ),
    (
        _write_sasl_handshake_response_v0,
        _write_sasl_handshake_response_v0,
    ),
)
