"""InitProducerId (API 22), versions 0 to 6. Made by scripts/generate_kafka_messages.py."""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Final

from raftlog.wire.kafka.codec import Codec
from raftlog.wire.kafka.reader import Reader
from raftlog.wire.kafka.writer import NO_TAGS, Writer

_i = Struct(">i")
_ihqh = Struct(">ihqh")
_ihqhqh = Struct(">ihqhqh")
_iqh = Struct(">iqh")
_iqhoo = Struct(">iqh??")


@dataclass(slots=True, kw_only=True)
class InitProducerIdRequest:
    """Versions 0 to 6."""

    transactional_id: str | None = ""
    transaction_timeout_ms: int = 0
    producer_id: int = -1  # v3+
    producer_epoch: int = -1  # v3+
    enable2_pc: bool = False  # v6+
    keep_prepared_txn: bool = False  # v6+


def _read_init_producer_id_request_v0(r: Reader) -> InitProducerIdRequest:
    transactional_id = r.nullable_string("InitProducerIdRequest.transactional_id")
    (transaction_timeout_ms,) = r.take(_i, "InitProducerIdRequest.transaction_timeout_ms")
    return InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=transaction_timeout_ms)


def _read_init_producer_id_request_v2(r: Reader) -> InitProducerIdRequest:
    transactional_id = r.compact_nullable_string("InitProducerIdRequest.transactional_id")
    (transaction_timeout_ms,) = r.take(_i, "InitProducerIdRequest.transaction_timeout_ms")
    r.skip_tags("InitProducerIdRequest")
    return InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=transaction_timeout_ms)


def _read_init_producer_id_request_v3(r: Reader) -> InitProducerIdRequest:
    transactional_id = r.compact_nullable_string("InitProducerIdRequest.transactional_id")
    transaction_timeout_ms, producer_id, producer_epoch = r.take(
        _iqh, "InitProducerIdRequest.transaction_timeout_ms,producer_id,producer_epoch"
    )
    r.skip_tags("InitProducerIdRequest")
    return InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=transaction_timeout_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )


def _read_init_producer_id_request_v6(r: Reader) -> InitProducerIdRequest:
    transactional_id = r.compact_nullable_string("InitProducerIdRequest.transactional_id")
    transaction_timeout_ms, producer_id, producer_epoch, enable2_pc, keep_prepared_txn = r.take(
        _iqhoo, "InitProducerIdRequest.transaction_timeout_ms,producer_id,producer_epoch,enable2_pc,keep_prepared_txn"
    )
    r.skip_tags("InitProducerIdRequest")
    return InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=transaction_timeout_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        enable2_pc=enable2_pc,
        keep_prepared_txn=keep_prepared_txn,
    )


def _write_init_producer_id_request_v0(w: Writer, o: InitProducerIdRequest) -> None:
    if o.producer_id != -1:
        raise w.unsupported("InitProducerIdRequest.producer_id")
    if o.producer_epoch != -1:
        raise w.unsupported("InitProducerIdRequest.producer_epoch")
    if o.enable2_pc:
        raise w.unsupported("InitProducerIdRequest.enable2_pc")
    if o.keep_prepared_txn:
        raise w.unsupported("InitProducerIdRequest.keep_prepared_txn")
    w.nullable_string(o.transactional_id, "InitProducerIdRequest.transactional_id")
    w.add(_i.pack(o.transaction_timeout_ms))


def _write_init_producer_id_request_v2(w: Writer, o: InitProducerIdRequest) -> None:
    if o.producer_id != -1:
        raise w.unsupported("InitProducerIdRequest.producer_id")
    if o.producer_epoch != -1:
        raise w.unsupported("InitProducerIdRequest.producer_epoch")
    if o.enable2_pc:
        raise w.unsupported("InitProducerIdRequest.enable2_pc")
    if o.keep_prepared_txn:
        raise w.unsupported("InitProducerIdRequest.keep_prepared_txn")
    w.compact_nullable_string(o.transactional_id, "InitProducerIdRequest.transactional_id")
    w.add(_i.pack(o.transaction_timeout_ms))
    w.add(NO_TAGS)


def _write_init_producer_id_request_v3(w: Writer, o: InitProducerIdRequest) -> None:
    if o.enable2_pc:
        raise w.unsupported("InitProducerIdRequest.enable2_pc")
    if o.keep_prepared_txn:
        raise w.unsupported("InitProducerIdRequest.keep_prepared_txn")
    w.compact_nullable_string(o.transactional_id, "InitProducerIdRequest.transactional_id")
    w.add(_iqh.pack(o.transaction_timeout_ms, o.producer_id, o.producer_epoch))
    w.add(NO_TAGS)


def _write_init_producer_id_request_v6(w: Writer, o: InitProducerIdRequest) -> None:
    w.compact_nullable_string(o.transactional_id, "InitProducerIdRequest.transactional_id")
    w.add(_iqhoo.pack(o.transaction_timeout_ms, o.producer_id, o.producer_epoch, o.enable2_pc, o.keep_prepared_txn))
    w.add(NO_TAGS)


@dataclass(slots=True, kw_only=True)
class InitProducerIdResponse:
    """Versions 0 to 6."""

    throttle_time_ms: int = 0
    error_code: int = 0
    producer_id: int = -1
    producer_epoch: int = 0
    ongoing_txn_producer_id: int = -1  # v6+
    ongoing_txn_producer_epoch: int = -1  # v6+


def _read_init_producer_id_response_v0(r: Reader) -> InitProducerIdResponse:
    throttle_time_ms, error_code, producer_id, producer_epoch = r.take(
        _ihqh, "InitProducerIdResponse.throttle_time_ms,error_code,producer_id,producer_epoch"
    )
    return InitProducerIdResponse(
        throttle_time_ms=throttle_time_ms, error_code=error_code, producer_id=producer_id, producer_epoch=producer_epoch
    )


def _read_init_producer_id_response_v2(r: Reader) -> InitProducerIdResponse:
    throttle_time_ms, error_code, producer_id, producer_epoch = r.take(
        _ihqh, "InitProducerIdResponse.throttle_time_ms,error_code,producer_id,producer_epoch"
    )
    r.skip_tags("InitProducerIdResponse")
    return InitProducerIdResponse(
        throttle_time_ms=throttle_time_ms, error_code=error_code, producer_id=producer_id, producer_epoch=producer_epoch
    )


def _read_init_producer_id_response_v6(r: Reader) -> InitProducerIdResponse:
    throttle_time_ms, error_code, producer_id, producer_epoch, ongoing_txn_producer_id, ongoing_txn_producer_epoch = (
        r.take(
            _ihqhqh,
            "InitProducerIdResponse.throttle_time_ms,error_code,producer_id,producer_epoch,ongoing_txn_producer_id,ongoing_txn_producer_epoch",
        )
    )
    r.skip_tags("InitProducerIdResponse")
    return InitProducerIdResponse(
        throttle_time_ms=throttle_time_ms,
        error_code=error_code,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        ongoing_txn_producer_id=ongoing_txn_producer_id,
        ongoing_txn_producer_epoch=ongoing_txn_producer_epoch,
    )


def _write_init_producer_id_response_v0(w: Writer, o: InitProducerIdResponse) -> None:
    if o.ongoing_txn_producer_id != -1:
        raise w.unsupported("InitProducerIdResponse.ongoing_txn_producer_id")
    if o.ongoing_txn_producer_epoch != -1:
        raise w.unsupported("InitProducerIdResponse.ongoing_txn_producer_epoch")
    w.add(_ihqh.pack(o.throttle_time_ms, o.error_code, o.producer_id, o.producer_epoch))


def _write_init_producer_id_response_v2(w: Writer, o: InitProducerIdResponse) -> None:
    if o.ongoing_txn_producer_id != -1:
        raise w.unsupported("InitProducerIdResponse.ongoing_txn_producer_id")
    if o.ongoing_txn_producer_epoch != -1:
        raise w.unsupported("InitProducerIdResponse.ongoing_txn_producer_epoch")
    w.add(_ihqh.pack(o.throttle_time_ms, o.error_code, o.producer_id, o.producer_epoch))
    w.add(NO_TAGS)


def _write_init_producer_id_response_v6(w: Writer, o: InitProducerIdResponse) -> None:
    w.add(
        _ihqhqh.pack(
            o.throttle_time_ms,
            o.error_code,
            o.producer_id,
            o.producer_epoch,
            o.ongoing_txn_producer_id,
            o.ongoing_txn_producer_epoch,
        )
    )
    w.add(NO_TAGS)


REQUEST: Final = Codec(
    "InitProducerIdRequest",
    0,
    (
        _read_init_producer_id_request_v0,
        _read_init_producer_id_request_v0,
        _read_init_producer_id_request_v2,
        _read_init_producer_id_request_v3,
        _read_init_producer_id_request_v3,
        _read_init_producer_id_request_v3,
        _read_init_producer_id_request_v6,
    ),
    (
        _write_init_producer_id_request_v0,
        _write_init_producer_id_request_v0,
        _write_init_producer_id_request_v2,
        _write_init_producer_id_request_v3,
        _write_init_producer_id_request_v3,
        _write_init_producer_id_request_v3,
        _write_init_producer_id_request_v6,
    ),
)

RESPONSE: Final = Codec(
    "InitProducerIdResponse",
    0,
    (
        _read_init_producer_id_response_v0,
        _read_init_producer_id_response_v0,
        _read_init_producer_id_response_v2,
        _read_init_producer_id_response_v2,
        _read_init_producer_id_response_v2,
        _read_init_producer_id_response_v2,
        _read_init_producer_id_response_v6,
    ),
    (
        _write_init_producer_id_response_v0,
        _write_init_producer_id_response_v0,
        _write_init_producer_id_response_v2,
        _write_init_producer_id_response_v2,
        _write_init_producer_id_response_v2,
        _write_init_producer_id_response_v2,
        _write_init_producer_id_response_v6,
    ),
)
