"""AddPartitionsToTxn (API 24), versions 0 to 5. Made by scripts/generate_kafka_messages.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from struct import Struct
from typing import Final

from raftlog.wire.kafka.codec import Codec
from raftlog.wire.kafka.reader import Reader
from raftlog.wire.kafka.writer import NO_TAGS, Writer

_i = Struct(">i")
_ih = Struct(">ih")
_qh = Struct(">qh")
_qho = Struct(">qh?")


@dataclass(slots=True, kw_only=True)
class AddPartitionsToTxnTopic:
    """Part of AddPartitionsToTxnRequest."""

    name: str = ""
    partitions: list[int] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class AddPartitionsToTxnTransaction:
    """Part of AddPartitionsToTxnRequest."""

    transactional_id: str = ""  # v4+
    producer_id: int = 0  # v4+
    producer_epoch: int = 0  # v4+
    verify_only: bool = False  # v4+
    topics: list[AddPartitionsToTxnTopic] = field(default_factory=list)  # v4+


@dataclass(slots=True, kw_only=True)
class AddPartitionsToTxnRequest:
    """Versions 0 to 5."""

    transactions: list[AddPartitionsToTxnTransaction] = field(default_factory=list)  # v4+
    v3_and_below_transactional_id: str = ""  # v0-3
    v3_and_below_producer_id: int = 0  # v0-3
    v3_and_below_producer_epoch: int = 0  # v0-3
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field(default_factory=list)  # v0-3


def _read_add_partitions_to_txn_topic_v0(r: Reader) -> AddPartitionsToTxnTopic:
    name = r.string("AddPartitionsToTxnTopic.name")
    partitions = r.numbers("i", r.count(4, "AddPartitionsToTxnTopic.partitions"))
    return AddPartitionsToTxnTopic(name=name, partitions=partitions)


def _read_add_partitions_to_txn_topic_v3(r: Reader) -> AddPartitionsToTxnTopic:
    name = r.compact_string("AddPartitionsToTxnTopic.name")
    partitions = r.numbers("i", r.compact_count(4, "AddPartitionsToTxnTopic.partitions"))
    r.skip_tags("AddPartitionsToTxnTopic")
    return AddPartitionsToTxnTopic(name=name, partitions=partitions)


def _write_add_partitions_to_txn_topic_v0(w: Writer, o: AddPartitionsToTxnTopic) -> None:
    w.string(o.name, "AddPartitionsToTxnTopic.name")
    w.count(len(o.partitions))
    w.numbers("i", o.partitions)


def _write_add_partitions_to_txn_topic_v3(w: Writer, o: AddPartitionsToTxnTopic) -> None:
    w.compact_string(o.name, "AddPartitionsToTxnTopic.name")
    w.compact_count(len(o.partitions))
    w.numbers("i", o.partitions)
    w.add(NO_TAGS)


def _read_add_partitions_to_txn_transaction_v4(r: Reader) -> AddPartitionsToTxnTransaction:
    transactional_id = r.compact_string("AddPartitionsToTxnTransaction.transactional_id")
    producer_id, producer_epoch, verify_only = r.take(
        _qho, "AddPartitionsToTxnTransaction.producer_id,producer_epoch,verify_only"
    )
    topics = [
        _read_add_partitions_to_txn_topic_v3(r)
        for _ in range(r.compact_count(3, "AddPartitionsToTxnTransaction.topics"))
    ]
    r.skip_tags("AddPartitionsToTxnTransaction")
    return AddPartitionsToTxnTransaction(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        verify_only=verify_only,
        topics=topics,
    )


def _write_add_partitions_to_txn_transaction_v4(w: Writer, o: AddPartitionsToTxnTransaction) -> None:
    w.compact_string(o.transactional_id, "AddPartitionsToTxnTransaction.transactional_id")
    w.add(_qho.pack(o.producer_id, o.producer_epoch, o.verify_only))
    w.compact_count(len(o.topics))
    for topics_item in o.topics:
        _write_add_partitions_to_txn_topic_v3(w, topics_item)
    w.add(NO_TAGS)


def _read_add_partitions_to_txn_request_v0(r: Reader) -> AddPartitionsToTxnRequest:
    v3_and_below_transactional_id = r.string("AddPartitionsToTxnRequest.v3_and_below_transactional_id")
    v3_and_below_producer_id, v3_and_below_producer_epoch = r.take(
        _qh, "AddPartitionsToTxnRequest.v3_and_below_producer_id,v3_and_below_producer_epoch"
    )
    v3_and_below_topics = [
        _read_add_partitions_to_txn_topic_v0(r)
        for _ in range(r.count(6, "AddPartitionsToTxnRequest.v3_and_below_topics"))
    ]
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=v3_and_below_transactional_id,
        v3_and_below_producer_id=v3_and_below_producer_id,
        v3_and_below_producer_epoch=v3_and_below_producer_epoch,
        v3_and_below_topics=v3_and_below_topics,
    )


def _read_add_partitions_to_txn_request_v3(r: Reader) -> AddPartitionsToTxnRequest:
    v3_and_below_transactional_id = r.compact_string("AddPartitionsToTxnRequest.v3_and_below_transactional_id")
    v3_and_below_producer_id, v3_and_below_producer_epoch = r.take(
        _qh, "AddPartitionsToTxnRequest.v3_and_below_producer_id,v3_and_below_producer_epoch"
    )
    v3_and_below_topics = [
        _read_add_partitions_to_txn_topic_v3(r)
        for _ in range(r.compact_count(3, "AddPartitionsToTxnRequest.v3_and_below_topics"))
    ]
    r.skip_tags("AddPartitionsToTxnRequest")
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=v3_and_below_transactional_id,
        v3_and_below_producer_id=v3_and_below_producer_id,
        v3_and_below_producer_epoch=v3_and_below_producer_epoch,
        v3_and_below_topics=v3_and_below_topics,
    )


def _read_add_partitions_to_txn_request_v4(r: Reader) -> AddPartitionsToTxnRequest:
    transactions = [
        _read_add_partitions_to_txn_transaction_v4(r)
        for _ in range(r.compact_count(14, "AddPartitionsToTxnRequest.transactions"))
    ]
    r.skip_tags("AddPartitionsToTxnRequest")
    return AddPartitionsToTxnRequest(transactions=transactions)


def _write_add_partitions_to_txn_request_v0(w: Writer, o: AddPartitionsToTxnRequest) -> None:
    if o.transactions:
        raise w.unsupported("AddPartitionsToTxnRequest.transactions")
    w.string(o.v3_and_below_transactional_id, "AddPartitionsToTxnRequest.v3_and_below_transactional_id")
    w.add(_qh.pack(o.v3_and_below_producer_id, o.v3_and_below_producer_epoch))
    w.count(len(o.v3_and_below_topics))
    for v3_and_below_topics_item in o.v3_and_below_topics:
        _write_add_partitions_to_txn_topic_v0(w, v3_and_below_topics_item)


def _write_add_partitions_to_txn_request_v3(w: Writer, o: AddPartitionsToTxnRequest) -> None:
    if o.transactions:
        raise w.unsupported("AddPartitionsToTxnRequest.transactions")
    w.compact_string(o.v3_and_below_transactional_id, "AddPartitionsToTxnRequest.v3_and_below_transactional_id")
    w.add(_qh.pack(o.v3_and_below_producer_id, o.v3_and_below_producer_epoch))
    w.compact_count(len(o.v3_and_below_topics))
    for v3_and_below_topics_item in o.v3_and_below_topics:
        _write_add_partitions_to_txn_topic_v3(w, v3_and_below_topics_item)
    w.add(NO_TAGS)


def _write_add_partitions_to_txn_request_v4(w: Writer, o: AddPartitionsToTxnRequest) -> None:
    if o.v3_and_below_transactional_id != "":
        raise w.unsupported("AddPartitionsToTxnRequest.v3_and_below_transactional_id")
    if o.v3_and_below_producer_id != 0:
        raise w.unsupported("AddPartitionsToTxnRequest.v3_and_below_producer_id")
    if o.v3_and_below_producer_epoch != 0:
        raise w.unsupported("AddPartitionsToTxnRequest.v3_and_below_producer_epoch")
    if o.v3_and_below_topics:
        raise w.unsupported("AddPartitionsToTxnRequest.v3_and_below_topics")
    w.compact_count(len(o.transactions))
    for transactions_item in o.transactions:
        _write_add_partitions_to_txn_transaction_v4(w, transactions_item)
    w.add(NO_TAGS)


@dataclass(slots=True, kw_only=True)
class AddPartitionsToTxnPartitionResult:
    """Part of AddPartitionsToTxnResponse."""

    partition_index: int = 0
    partition_error_code: int = 0


@dataclass(slots=True, kw_only=True)
class AddPartitionsToTxnTopicResult:
    """Part of AddPartitionsToTxnResponse."""

    name: str = ""
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class AddPartitionsToTxnResult:
    """Part of AddPartitionsToTxnResponse."""

    transactional_id: str = ""  # v4+
    topic_results: list[AddPartitionsToTxnTopicResult] = field(default_factory=list)  # v4+


@dataclass(slots=True, kw_only=True)
class AddPartitionsToTxnResponse:
    """Versions 0 to 5."""

    throttle_time_ms: int = 0
    error_code: int = 0  # v4+
    results_by_transaction: list[AddPartitionsToTxnResult] = field(default_factory=list)  # v4+
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field(default_factory=list)  # v0-3


def _read_add_partitions_to_txn_partition_result_v0(r: Reader) -> AddPartitionsToTxnPartitionResult:
    partition_index, partition_error_code = r.take(
        _ih, "AddPartitionsToTxnPartitionResult.partition_index,partition_error_code"
    )
    return AddPartitionsToTxnPartitionResult(partition_index=partition_index, partition_error_code=partition_error_code)


def _read_add_partitions_to_txn_partition_result_v3(r: Reader) -> AddPartitionsToTxnPartitionResult:
    partition_index, partition_error_code = r.take(
        _ih, "AddPartitionsToTxnPartitionResult.partition_index,partition_error_code"
    )
    r.skip_tags("AddPartitionsToTxnPartitionResult")
    return AddPartitionsToTxnPartitionResult(partition_index=partition_index, partition_error_code=partition_error_code)


def _write_add_partitions_to_txn_partition_result_v0(w: Writer, o: AddPartitionsToTxnPartitionResult) -> None:
    w.add(_ih.pack(o.partition_index, o.partition_error_code))


def _write_add_partitions_to_txn_partition_result_v3(w: Writer, o: AddPartitionsToTxnPartitionResult) -> None:
    w.add(_ih.pack(o.partition_index, o.partition_error_code))
    w.add(NO_TAGS)


def _read_add_partitions_to_txn_topic_result_v0(r: Reader) -> AddPartitionsToTxnTopicResult:
    name = r.string("AddPartitionsToTxnTopicResult.name")
    results_by_partition = [
        _read_add_partitions_to_txn_partition_result_v0(r)
        for _ in range(r.count(6, "AddPartitionsToTxnTopicResult.results_by_partition"))
    ]
    return AddPartitionsToTxnTopicResult(name=name, results_by_partition=results_by_partition)


def _read_add_partitions_to_txn_topic_result_v3(r: Reader) -> AddPartitionsToTxnTopicResult:
    name = r.compact_string("AddPartitionsToTxnTopicResult.name")
    results_by_partition = [
        _read_add_partitions_to_txn_partition_result_v3(r)
        for _ in range(r.compact_count(7, "AddPartitionsToTxnTopicResult.results_by_partition"))
    ]
    r.skip_tags("AddPartitionsToTxnTopicResult")
    return AddPartitionsToTxnTopicResult(name=name, results_by_partition=results_by_partition)


def _write_add_partitions_to_txn_topic_result_v0(w: Writer, o: AddPartitionsToTxnTopicResult) -> None:
    w.string(o.name, "AddPartitionsToTxnTopicResult.name")
    w.count(len(o.results_by_partition))
    for results_by_partition_item in o.results_by_partition:
        _write_add_partitions_to_txn_partition_result_v0(w, results_by_partition_item)


def _write_add_partitions_to_txn_topic_result_v3(w: Writer, o: AddPartitionsToTxnTopicResult) -> None:
    w.compact_string(o.name, "AddPartitionsToTxnTopicResult.name")
    w.compact_count(len(o.results_by_partition))
    for results_by_partition_item in o.results_by_partition:
        _write_add_partitions_to_txn_partition_result_v3(w, results_by_partition_item)
    w.add(NO_TAGS)


def _read_add_partitions_to_txn_result_v4(r: Reader) -> AddPartitionsToTxnResult:
    transactional_id = r.compact_string("AddPartitionsToTxnResult.transactional_id")
    topic_results = [
        _read_add_partitions_to_txn_topic_result_v3(r)
        for _ in range(r.compact_count(3, "AddPartitionsToTxnResult.topic_results"))
    ]
    r.skip_tags("AddPartitionsToTxnResult")
    return AddPartitionsToTxnResult(transactional_id=transactional_id, topic_results=topic_results)


def _write_add_partitions_to_txn_result_v4(w: Writer, o: AddPartitionsToTxnResult) -> None:
    w.compact_string(o.transactional_id, "AddPartitionsToTxnResult.transactional_id")
    w.compact_count(len(o.topic_results))
    for topic_results_item in o.topic_results:
        _write_add_partitions_to_txn_topic_result_v3(w, topic_results_item)
    w.add(NO_TAGS)


def _read_add_partitions_to_txn_response_v0(r: Reader) -> AddPartitionsToTxnResponse:
    (throttle_time_ms,) = r.take(_i, "AddPartitionsToTxnResponse.throttle_time_ms")
    results_by_topic_v3_and_below = [
        _read_add_partitions_to_txn_topic_result_v0(r)
        for _ in range(r.count(6, "AddPartitionsToTxnResponse.results_by_topic_v3_and_below"))
    ]
    return AddPartitionsToTxnResponse(
        throttle_time_ms=throttle_time_ms, results_by_topic_v3_and_below=results_by_topic_v3_and_below
    )


def _read_add_partitions_to_txn_response_v3(r: Reader) -> AddPartitionsToTxnResponse:
    (throttle_time_ms,) = r.take(_i, "AddPartitionsToTxnResponse.throttle_time_ms")
    results_by_topic_v3_and_below = [
        _read_add_partitions_to_txn_topic_result_v3(r)
        for _ in range(r.compact_count(3, "AddPartitionsToTxnResponse.results_by_topic_v3_and_below"))
    ]
    r.skip_tags("AddPartitionsToTxnResponse")
    return AddPartitionsToTxnResponse(
        throttle_time_ms=throttle_time_ms, results_by_topic_v3_and_below=results_by_topic_v3_and_below
    )


def _read_add_partitions_to_txn_response_v4(r: Reader) -> AddPartitionsToTxnResponse:
    throttle_time_ms, error_code = r.take(_ih, "AddPartitionsToTxnResponse.throttle_time_ms,error_code")
    results_by_transaction = [
        _read_add_partitions_to_txn_result_v4(r)
        for _ in range(r.compact_count(3, "AddPartitionsToTxnResponse.results_by_transaction"))
    ]
    r.skip_tags("AddPartitionsToTxnResponse")
    return AddPartitionsToTxnResponse(
        throttle_time_ms=throttle_time_ms, error_code=error_code, results_by_transaction=results_by_transaction
    )


def _write_add_partitions_to_txn_response_v0(w: Writer, o: AddPartitionsToTxnResponse) -> None:
    if o.results_by_transaction:
        raise w.unsupported("AddPartitionsToTxnResponse.results_by_transaction")
    w.add(_i.pack(o.throttle_time_ms))
    w.count(len(o.results_by_topic_v3_and_below))
    for results_by_topic_v3_and_below_item in o.results_by_topic_v3_and_below:
        _write_add_partitions_to_txn_topic_result_v0(w, results_by_topic_v3_and_below_item)


def _write_add_partitions_to_txn_response_v3(w: Writer, o: AddPartitionsToTxnResponse) -> None:
    if o.results_by_transaction:
        raise w.unsupported("AddPartitionsToTxnResponse.results_by_transaction")
    w.add(_i.pack(o.throttle_time_ms))
    w.compact_count(len(o.results_by_topic_v3_and_below))
    for results_by_topic_v3_and_below_item in o.results_by_topic_v3_and_below:
        _write_add_partitions_to_txn_topic_result_v3(w, results_by_topic_v3_and_below_item)
    w.add(NO_TAGS)


def _write_add_partitions_to_txn_response_v4(w: Writer, o: AddPartitionsToTxnResponse) -> None:
    if o.results_by_topic_v3_and_below:
        raise w.unsupported("AddPartitionsToTxnResponse.results_by_topic_v3_and_below")
    w.add(_ih.pack(o.throttle_time_ms, o.error_code))
    w.compact_count(len(o.results_by_transaction))
    for results_by_transaction_item in o.results_by_transaction:
        _write_add_partitions_to_txn_result_v4(w, results_by_transaction_item)
    w.add(NO_TAGS)


REQUEST: Final = Codec(
    "AddPartitionsToTxnRequest",
    0,
    (
        _read_add_partitions_to_txn_request_v0,
        _read_add_partitions_to_txn_request_v0,
        _read_add_partitions_to_txn_request_v0,
        _read_add_partitions_to_txn_request_v3,
        _read_add_partitions_to_txn_request_v4,
        _read_add_partitions_to_txn_request_v4,
    ),
    (
        _write_add_partitions_to_txn_request_v0,
        _write_add_partitions_to_txn_request_v0,
        _write_add_partitions_to_txn_request_v0,
        _write_add_partitions_to_txn_request_v3,
        _write_add_partitions_to_txn_request_v4,
        _write_add_partitions_to_txn_request_v4,
    ),
)

RESPONSE: Final = Codec(
    "AddPartitionsToTxnResponse",
    0,
    (
        _read_add_partitions_to_txn_response_v0,
        _read_add_partitions_to_txn_response_v0,
        _read_add_partitions_to_txn_response_v0,
        _read_add_partitions_to_txn_response_v3,
        _read_add_partitions_to_txn_response_v4,
        _read_add_partitions_to_txn_response_v4,
    ),
    (
        _write_add_partitions_to_txn_response_v0,
        _write_add_partitions_to_txn_response_v0,
        _write_add_partitions_to_txn_response_v0,
        _write_add_partitions_to_txn_response_v3,
        _write_add_partitions_to_txn_response_v4,
        _write_add_partitions_to_txn_response_v4,
    ),
)
