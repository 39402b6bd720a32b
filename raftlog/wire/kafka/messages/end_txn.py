"""EndTxn (API 26), versions 0 to 5. Made by scripts/generate_kafka_messages.py."""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Final

from raftlog.wire.kafka.codec import Codec
from raftlog.wire.kafka.reader import Reader
from raftlog.wire.kafka.writer import NO_TAGS, Writer

_ih = Struct(">ih")
_ihqh = Struct(">ihqh")
_qho = Struct(">qh?")


@dataclass(slots=True, kw_only=True)
class EndTxnRequest:
    """Versions 0 to 5."""

    transactional_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    committed: bool = False


def _read_end_txn_request_v0(r: Reader) -> EndTxnRequest:
    transactional_id = r.string("EndTxnRequest.transactional_id")
    producer_id, producer_epoch, committed = r.take(_qho, "EndTxnRequest.producer_id,producer_epoch,committed")
    return EndTxnRequest(
        transactional_id=transactional_id, producer_id=producer_id, producer_epoch=producer_epoch, committed=committed
    )


def _read_end_txn_request_v3(r: Reader) -> EndTxnRequest:
    transactional_id = r.compact_string("EndTxnRequest.transactional_id")
    producer_id, producer_epoch, committed = r.take(_qho, "EndTxnRequest.producer_id,producer_epoch,committed")
    r.skip_tags("EndTxnRequest")
    return EndTxnRequest(
        transactional_id=transactional_id, producer_id=producer_id, producer_epoch=producer_epoch, committed=committed
    )


def _write_end_txn_request_v0(w: Writer, o: EndTxnRequest) -> None:
    w.string(o.transactional_id, "EndTxnRequest.transactional_id")
    w.add(_qho.pack(o.producer_id, o.producer_epoch, o.committed))


def _write_end_txn_request_v3(w: Writer, o: EndTxnRequest) -> None:
    w.compact_string(o.transactional_id, "EndTxnRequest.transactional_id")
    w.add(_qho.pack(o.producer_id, o.producer_epoch, o.committed))
    w.add(NO_TAGS)


@dataclass(slots=True, kw_only=True)
class EndTxnResponse:
    """Versions 0 to 5."""

    throttle_time_ms: int = 0
    error_code: int = 0
    producer_id: int = -1  # v5+
    producer_epoch: int = -1  # v5+


def _read_end_txn_response_v0(r: Reader) -> EndTxnResponse:
    throttle_time_ms, error_code = r.take(_ih, "EndTxnResponse.throttle_time_ms,error_code")
    return EndTxnResponse(throttle_time_ms=throttle_time_ms, error_code=error_code)


def _read_end_txn_response_v3(r: Reader) -> EndTxnResponse:
    throttle_time_ms, error_code = r.take(_ih, "EndTxnResponse.throttle_time_ms,error_code")
    r.skip_tags("EndTxnResponse")
    return EndTxnResponse(throttle_time_ms=throttle_time_ms, error_code=error_code)


def _read_end_txn_response_v5(r: Reader) -> EndTxnResponse:
    throttle_time_ms, error_code, producer_id, producer_epoch = r.take(
        _ihqh, "EndTxnResponse.throttle_time_ms,error_code,producer_id,producer_epoch"
    )
    r.skip_tags("EndTxnResponse")
    return EndTxnResponse(
        throttle_time_ms=throttle_time_ms, error_code=error_code, producer_id=producer_id, producer_epoch=producer_epoch
    )


def _write_end_txn_response_v0(w: Writer, o: EndTxnResponse) -> None:
    w.add(_ih.pack(o.throttle_time_ms, o.error_code))


def _write_end_txn_response_v3(w: Writer, o: EndTxnResponse) -> None:
    w.add(_ih.pack(o.throttle_time_ms, o.error_code))
    w.add(NO_TAGS)


def _write_end_txn_response_v5(w: Writer, o: EndTxnResponse) -> None:
    w.add(_ihqh.pack(o.throttle_time_ms, o.error_code, o.producer_id, o.producer_epoch))
    w.add(NO_TAGS)


REQUEST: Final = Codec(
    "EndTxnRequest",
    0,
    (
        _read_end_txn_request_v0,
        _read_end_txn_request_v0,
        _read_end_txn_request_v0,
        _read_end_txn_request_v3,
        _read_end_txn_request_v3,
        _read_end_txn_request_v3,
    ),
    (
        _write_end_txn_request_v0,
        _write_end_txn_request_v0,
        _write_end_txn_request_v0,
        _write_end_txn_request_v3,
        _write_end_txn_request_v3,
        _write_end_txn_request_v3,
    ),
)

RESPONSE: Final = Codec(
    "EndTxnResponse",
    0,
    (
        _read_end_txn_response_v0,
        _read_end_txn_response_v0,
        _read_end_txn_response_v0,
        _read_end_txn_response_v3,
        _read_end_txn_response_v3,
        _read_end_txn_response_v5,
    ),
    (
        _write_end_txn_response_v0,
        _write_end_txn_response_v0,
        _write_end_txn_response_v0,
        _write_end_txn_response_v3,
        _write_end_txn_response_v3,
        _write_end_txn_response_v5,
    ),
)
