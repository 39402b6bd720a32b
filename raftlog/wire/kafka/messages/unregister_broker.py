"""UnregisterBroker (API 64), version 0. Made by scripts/generate_kafka_messages.py."""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Final

from raftlog.wire.kafka.codec import Codec
from raftlog.wire.kafka.reader import Reader
from raftlog.wire.kafka.writer import NO_TAGS, Writer

_i = Struct(">i")
_ih = Struct(">ih")


@dataclass(slots=True, kw_only=True)
class UnregisterBrokerRequest:
    """Version 0."""

    broker_id: int = 0


def _read_unregister_broker_request_v0(r: Reader) -> UnregisterBrokerRequest:
    (broker_id,) = r.take(_i, "UnregisterBrokerRequest.broker_id")
    r.skip_tags("UnregisterBrokerRequest")
    return UnregisterBrokerRequest(broker_id=broker_id)


def _write_unregister_broker_request_v0(w: Writer, o: UnregisterBrokerRequest) -> None:
    w.add(_i.pack(o.broker_id))
    w.add(NO_TAGS)


@dataclass(slots=True, kw_only=True)
class UnregisterBrokerResponse:
    """Version 0."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""


def _read_unregister_broker_response_v0(r: Reader) -> UnregisterBrokerResponse:
    throttle_time_ms, error_code = r.take(_ih, "UnregisterBrokerResponse.throttle_time_ms,error_code")
    error_message = r.compact_nullable_string("UnregisterBrokerResponse.error_message")
    r.skip_tags("UnregisterBrokerResponse")
    return UnregisterBrokerResponse(
        throttle_time_ms=throttle_time_ms, error_code=error_code, error_message=error_message
    )


def _write_unregister_broker_response_v0(w: Writer, o: UnregisterBrokerResponse) -> None:
    w.add(_ih.pack(o.throttle_time_ms, o.error_code))
    w.compact_nullable_string(o.error_message, "UnregisterBrokerResponse.error_message")
    w.add(NO_TAGS)


REQUEST: Final = Codec(
    "UnregisterBrokerRequest", 0, (_read_unregister_broker_request_v0,), (_write_unregister_broker_request_v0,)
)

RESPONSE: Final = Codec(
    "UnregisterBrokerResponse", 0, (_read_unregister_broker_response_v0,), (_write_unregister_broker_response_v0,)
)
