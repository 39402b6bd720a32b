"""DescribeTransactions (API 65), version 0. Made by scripts/generate_kafka_messages.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from raftlog.wire.kafka.codec import Codec
from raftlog.wire.kafka.reader import Reader
from raftlog.wire.kafka.writer import NO_TAGS, Writer

_h = Struct(">h")
_i = Struct(">i")
_iqqh = Struct(">iqqh")


@dataclass(slots=True, kw_only=True)
class DescribeTransactionsRequest:
    """Version 0."""

    transactional_ids: list[str] = field(default_factory=list)


def _read_describe_transactions_request_v0(r: Reader) -> DescribeTransactionsRequest:
    transactional_ids = [
        r.compact_string("DescribeTransactionsRequest.transactional_ids")
        for _ in range(r.compact_count(1, "DescribeTransactionsRequest.transactional_ids"))
    ]
    r.skip_tags("DescribeTransactionsRequest")
    return DescribeTransactionsRequest(transactional_ids=transactional_ids)


def _write_describe_transactions_request_v0(w: Writer, o: DescribeTransactionsRequest) -> None:
    w.compact_count(len(o.transactional_ids))
    for transactional_ids_item in o.transactional_ids:
        w.compact_string(transactional_ids_item, "DescribeTransactionsRequest.transactional_ids")
    w.add(NO_TAGS)


@dataclass(slots=True, kw_only=True)
class TopicData:
    """Part of DescribeTransactionsResponse."""

    topic: str = ""
    partitions: list[int] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class TransactionState:
    """Part of DescribeTransactionsResponse."""

    error_code: int = 0
    transactional_id: str = ""
    transaction_state: str = ""
    transaction_timeout_ms: int = 0
    transaction_start_time_ms: int = 0
    producer_id: int = 0
    producer_epoch: int = 0
    topics: list[TopicData] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class DescribeTransactionsResponse:
    """Version 0."""

    throttle_time_ms: int = 0
    transaction_states: list[TransactionState] = field(default_factory=list)


def _read_topic_data_v0(r: Reader) -> TopicData:
    topic = r.compact_string("TopicData.topic")
    partitions = r.numbers("i", r.compact_count(4, "TopicData.partitions"))
    r.skip_tags("TopicData")
    return TopicData(topic=topic, partitions=partitions)


def _write_topic_data_v0(w: Writer, o: TopicData) -> None:
    w.compact_string(o.topic, "TopicData.topic")
    w.compact_count(len(o.partitions))
    w.numbers("i", o.partitions)
    w.add(NO_TAGS)


def _read_transaction_state_v0(r: Reader) -> TransactionState:
    (error_code,) = r.take(_h, "TransactionState.error_code")
    transactional_id = r.compact_string("TransactionState.transactional_id")
    transaction_state = r.compact_string("TransactionState.transaction_state")
    transaction_timeout_ms, transaction_start_time_ms, producer_id, producer_epoch = r.take(
        _iqqh, "TransactionState.transaction_timeout_ms,transaction_start_time_ms,producer_id,producer_epoch"
    )
    topics = [_read_topic_data_v0(r) for _ in range(r.compact_count(3, "TransactionState.topics"))]
    r.skip_tags("TransactionState")
    return TransactionState(
        error_code=error_code,
        transactional_id=transactional_id,
        transaction_state=transaction_state,
        transaction_timeout_ms=transaction_timeout_ms,
        transaction_start_time_ms=transaction_start_time_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        topics=topics,
    )


def _write_transaction_state_v0(w: Writer, o: TransactionState) -> None:
    w.add(_h.pack(o.error_code))
    w.compact_string(o.transactional_id, "TransactionState.transactional_id")
    w.compact_string(o.transaction_state, "TransactionState.transaction_state")
    w.add(_iqqh.pack(o.transaction_timeout_ms, o.transaction_start_time_ms, o.producer_id, o.producer_epoch))
    w.compact_count(len(o.topics))
    for topics_item in o.topics:
        _write_topic_data_v0(w, topics_item)
    w.add(NO_TAGS)


def _read_describe_transactions_response_v0(r: Reader) -> DescribeTransactionsResponse:
    (throttle_time_ms,) = r.take(_i, "DescribeTransactionsResponse.throttle_time_ms")
    transaction_states = [
        _read_transaction_state_v0(r)
        for _ in range(r.compact_count(28, "DescribeTransactionsResponse.transaction_states"))
    ]
    r.skip_tags("DescribeTransactionsResponse")
    return DescribeTransactionsResponse(throttle_time_ms=throttle_time_ms, transaction_states=transaction_states)


def _write_describe_transactions_response_v0(w: Writer, o: DescribeTransactionsResponse) -> None:
    w.add(_i.pack(o.throttle_time_ms))
    w.compact_count(len(o.transaction_states))
    for transaction_states_item in o.transaction_states:
        _write_transaction_state_v0(w, transaction_states_item)
    w.add(NO_TAGS)


REQUEST: Final = Codec(
    "DescribeTransactionsRequest",
    0,
    (_read_describe_transactions_request_v0,),
    (_write_describe_transactions_request_v0,),
)

RESPONSE: Final = Codec(
    "DescribeTransactionsResponse",
    0,
    (_read_describe_transactions_response_v0,),
    (_write_describe_transactions_response_v0,),
)
