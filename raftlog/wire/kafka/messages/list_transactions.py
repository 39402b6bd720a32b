"""ListTransactions (API 66), versions 0 to 2. Made by scripts/generate_kafka_messages.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from raftlog.wire.kafka.codec import Codec
from raftlog.wire.kafka.reader import Reader
from raftlog.wire.kafka.writer import NO_TAGS, Writer

_ih = Struct(">ih")
_q = Struct(">q")


@dataclass(slots=True, kw_only=True)
class ListTransactionsRequest:
    """Versions 0 to 2."""

    state_filters: list[str] = field(default_factory=list)
    producer_id_filters: list[int] = field(default_factory=list)
    duration_filter: int = -1  # v1+
    transactional_id_pattern: str | None = None  # v2+


def _read_list_transactions_request_v0(r: Reader) -> ListTransactionsRequest:
    state_filters = [
        r.compact_string("ListTransactionsRequest.state_filters")
        for _ in range(r.compact_count(1, "ListTransactionsRequest.state_filters"))
    ]
    producer_id_filters = r.numbers("q", r.compact_count(8, "ListTransactionsRequest.producer_id_filters"))
    r.skip_tags("ListTransactionsRequest")
    return ListTransactionsRequest(state_filters=state_filters, producer_id_filters=producer_id_filters)


def _read_list_transactions_request_v1(r: Reader) -> ListTransactionsRequest:
    state_filters = [
        r.compact_string("ListTransactionsRequest.state_filters")
        for _ in range(r.compact_count(1, "ListTransactionsRequest.state_filters"))
    ]
    producer_id_filters = r.numbers("q", r.compact_count(8, "ListTransactionsRequest.producer_id_filters"))
    (duration_filter,) = r.take(_q, "ListTransactionsRequest.duration_filter")
    r.skip_tags("ListTransactionsRequest")
    return ListTransactionsRequest(
        state_filters=state_filters, producer_id_filters=producer_id_filters, duration_filter=duration_filter
    )


def _read_list_transactions_request_v2(r: Reader) -> ListTransactionsRequest:
    state_filters = [
        r.compact_string("ListTransactionsRequest.state_filters")
        for _ in range(r.compact_count(1, "ListTransactionsRequest.state_filters"))
    ]
    producer_id_filters = r.numbers("q", r.compact_count(8, "ListTransactionsRequest.producer_id_filters"))
    (duration_filter,) = r.take(_q, "ListTransactionsRequest.duration_filter")
    transactional_id_pattern = r.compact_nullable_string("ListTransactionsRequest.transactional_id_pattern")
    r.skip_tags("ListTransactionsRequest")
    return ListTransactionsRequest(
        state_filters=state_filters,
        producer_id_filters=producer_id_filters,
        duration_filter=duration_filter,
        transactional_id_pattern=transactional_id_pattern,
    )


def _write_list_transactions_request_v0(w: Writer, o: ListTransactionsRequest) -> None:
    if o.duration_filter != -1:
        raise w.unsupported("ListTransactionsRequest.duration_filter")
    if o.transactional_id_pattern is not None:
        raise w.unsupported("ListTransactionsRequest.transactional_id_pattern")
    w.compact_count(len(o.state_filters))
    for state_filters_item in o.state_filters:
        w.compact_string(state_filters_item, "ListTransactionsRequest.state_filters")
    w.compact_count(len(o.producer_id_filters))
    w.numbers("q", o.producer_id_filters)
    w.add(NO_TAGS)


def _write_list_transactions_request_v1(w: Writer, o: ListTransactionsRequest) -> None:
    if o.transactional_id_pattern is not None:
        raise w.unsupported("ListTransactionsRequest.transactional_id_pattern")
    w.compact_count(len(o.state_filters))
    for state_filters_item in o.state_filters:
        w.compact_string(state_filters_item, "ListTransactionsRequest.state_filters")
    w.compact_count(len(o.producer_id_filters))
    w.numbers("q", o.producer_id_filters)
    w.add(_q.pack(o.duration_filter))
    w.add(NO_TAGS)


def _write_list_transactions_request_v2(w: Writer, o: ListTransactionsRequest) -> None:
    w.compact_count(len(o.state_filters))
    for state_filters_item in o.state_filters:
        w.compact_string(state_filters_item, "ListTransactionsRequest.state_filters")
    w.compact_count(len(o.producer_id_filters))
    w.numbers("q", o.producer_id_filters)
    w.add(_q.pack(o.duration_filter))
    w.compact_nullable_string(o.transactional_id_pattern, "ListTransactionsRequest.transactional_id_pattern")
    w.add(NO_TAGS)


@dataclass(slots=True, kw_only=True)
class TransactionState:
    """Part of ListTransactionsResponse."""

    transactional_id: str = ""
    producer_id: int = 0
    transaction_state: str = ""


@dataclass(slots=True, kw_only=True)
class ListTransactionsResponse:
    """Versions 0 to 2."""

    throttle_time_ms: int = 0
    error_code: int = 0
    unknown_state_filters: list[str] = field(default_factory=list)
    transaction_states: list[TransactionState] = field(default_factory=list)


def _read_transaction_state_v0(r: Reader) -> TransactionState:
    transactional_id = r.compact_string("TransactionState.transactional_id")
    (producer_id,) = r.take(_q, "TransactionState.producer_id")
    transaction_state = r.compact_string("TransactionState.transaction_state")
    r.skip_tags("TransactionState")
    return TransactionState(
        transactional_id=transactional_id, producer_id=producer_id, transaction_state=transaction_state
    )


def _write_transaction_state_v0(w: Writer, o: TransactionState) -> None:
    w.compact_string(o.transactional_id, "TransactionState.transactional_id")
    w.add(_q.pack(o.producer_id))
    w.compact_string(o.transaction_state, "TransactionState.transaction_state")
    w.add(NO_TAGS)


def _read_list_transactions_response_v0(r: Reader) -> ListTransactionsResponse:
    throttle_time_ms, error_code = r.take(_ih, "ListTransactionsResponse.throttle_time_ms,error_code")
    unknown_state_filters = [
        r.compact_string("ListTransactionsResponse.unknown_state_filters")
        for _ in range(r.compact_count(1, "ListTransactionsResponse.unknown_state_filters"))
    ]
    transaction_states = [
        _read_transaction_state_v0(r) for _ in range(r.compact_count(11, "ListTransactionsResponse.transaction_states"))
    ]
    r.skip_tags("ListTransactionsResponse")
    return ListTransactionsResponse(
        throttle_time_ms=throttle_time_ms,
        error_code=error_code,
        unknown_state_filters=unknown_state_filters,
        transaction_states=transaction_states,
    )


def _write_list_transactions_response_v0(w: Writer, o: ListTransactionsResponse) -> None:
    w.add(_ih.pack(o.throttle_time_ms, o.error_code))
    w.compact_count(len(o.unknown_state_filters))
    for unknown_state_filters_item in o.unknown_state_filters:
        w.compact_string(unknown_state_filters_item, "ListTransactionsResponse.unknown_state_filters")
    w.compact_count(len(o.transaction_states))
    for transaction_states_item in o.transaction_states:
        _write_transaction_state_v0(w, transaction_states_item)
    w.add(NO_TAGS)


REQUEST: Final = Codec(
    "ListTransactionsRequest",
    0,
    (
        _read_list_transactions_request_v0,
        _read_list_transactions_request_v1,
        _read_list_transactions_request_v2,
    ),
    (
        _write_list_transactions_request_v0,
        _write_list_transactions_request_v1,
        _write_list_transactions_request_v2,
    ),
)

RESPONSE: Final = Codec(
    "ListTransactionsResponse",
    0,
    (
        _read_list_transactions_response_v0,
        _read_list_transactions_response_v0,
        _read_list_transactions_response_v0,
    ),
    (
        _write_list_transactions_response_v0,
        _write_list_transactions_response_v0,
        _write_list_transactions_response_v0,
    ),
)
