"""AddOffsetsToTxn (API 25), versions 0 to 4. Made by scripts/generate_kafka_messages.py."""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Final

from raftlog.wire.kafka.codec import Codec
from raftlog.wire.kafka.reader import Reader
from raftlog.wire.kafka.writer import NO_TAGS, Writer

_ih = Struct(">ih")
_qh = Struct(">qh")


@dataclass(slots=True, kw_only=True)
class AddOffsetsToTxnRequest:
    """Versions 0 to 4."""

    transactional_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    group_id: str = ""


def _read_add_offsets_to_txn_request_v0(r: Reader) -> AddOffsetsToTxnRequest:
    transactional_id = r.string("AddOffsetsToTxnRequest.transactional_id")
    producer_id, producer_epoch = r.take(_qh, "AddOffsetsToTxnRequest.producer_id,producer_epoch")
    group_id = r.string("AddOffsetsToTxnRequest.group_id")
    return AddOffsetsToTxnRequest(
        transactional_id=transactional_id, producer_id=producer_id, producer_epoch=producer_epoch, group_id=group_id
    )


def _read_add_offsets_to_txn_request_v3(r: Reader) -> AddOffsetsToTxnRequest:
    transactional_id = r.compact_string("AddOffsetsToTxnRequest.transactional_id")
    producer_id, producer_epoch = r.take(_qh, "AddOffsetsToTxnRequest.producer_id,producer_epoch")
    group_id = r.compact_string("AddOffsetsToTxnRequest.group_id")
    r.skip_tags("AddOffsetsToTxnRequest")
    return AddOffsetsToTxnRequest(
        transactional_id=transactional_id, producer_id=producer_id, producer_epoch=producer_epoch, group_id=group_id
    )


def _write_add_offsets_to_txn_request_v0(w: Writer, o: AddOffsetsToTxnRequest) -> None:
    w.string(o.transactional_id, "AddOffsetsToTxnRequest.transactional_id")
    w.add(_qh.pack(o.producer_id, o.producer_epoch))
    w.string(o.group_id, "AddOffsetsToTxnRequest.group_id")


def _write_add_offsets_to_txn_request_v3(w: Writer, o: AddOffsetsToTxnRequest) -> None:
    w.compact_string(o.transactional_id, "AddOffsetsToTxnRequest.transactional_id")
    w.add(_qh.pack(o.producer_id, o.producer_epoch))
    w.compact_string(o.group_id, "AddOffsetsToTxnRequest.group_id")
    w.add(NO_TAGS)


@dataclass(slots=True, kw_only=True)
class AddOffsetsToTxnResponse:
    """Versions 0 to 4."""

    throttle_time_ms: int = 0
    error_code: int = 0


def _read_add_offsets_to_txn_response_v0(r: Reader) -> AddOffsetsToTxnResponse:
    throttle_time_ms, error_code = r.take(_ih, "AddOffsetsToTxnResponse.throttle_time_ms,error_code")
    return AddOffsetsToTxnResponse(throttle_time_ms=throttle_time_ms, error_code=error_code)


def _read_add_offsets_to_txn_response_v3(r: Reader) -> AddOffsetsToTxnResponse:
    throttle_time_ms, error_code = r.take(_ih, "AddOffsetsToTxnResponse.throttle_time_ms,error_code")
    r.skip_tags("AddOffsetsToTxnResponse")
    return AddOffsetsToTxnResponse(throttle_time_ms=throttle_time_ms, error_code=error_code)


def _write_add_offsets_to_txn_response_v0(w: Writer, o: AddOffsetsToTxnResponse) -> None:
    w.add(_ih.pack(o.throttle_time_ms, o.error_code))


def _write_add_offsets_to_txn_response_v3(w: Writer, o: AddOffsetsToTxnResponse) -> None:
    w.add(_ih.pack(o.throttle_time_ms, o.error_code))
    w.add(NO_TAGS)


REQUEST: Final = Codec(
    "AddOffsetsToTxnRequest",
    0,
    (
        _read_add_offsets_to_txn_request_v0,
        _read_add_offsets_to_txn_request_v0,
        _read_add_offsets_to_txn_request_v0,
        _read_add_offsets_to_txn_request_v3,
        _read_add_offsets_to_txn_request_v3,
    ),
    (
        _write_add_offsets_to_txn_request_v0,
        _write_add_offsets_to_txn_request_v0,
        _write_add_offsets_to_txn_request_v0,
        _write_add_offsets_to_txn_request_v3,
        _write_add_offsets_to_txn_request_v3,
    ),
)

RESPONSE: Final = Codec(
    "AddOffsetsToTxnResponse",
    0,
    (
        _read_add_offsets_to_txn_response_v0,
        _read_add_offsets_to_txn_response_v0,
        _read_add_offsets_to_txn_response_v0,
        _read_add_offsets_to_txn_response_v3,
        _read_add_offsets_to_txn_response_v3,
    ),
    (
        _write_add_offsets_to_txn_response_v0,
        _write_add_offsets_to_txn_response_v0,
        _write_add_offsets_to_txn_response_v0,
        _write_add_offsets_to_txn_response_v3,
        _write_add_offsets_to_txn_response_v3,
    ),
)
