"""InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn and EndTxn, for transactions of both kinds (KIP-98, KIP-890).

A producer of the first kind (TV1: librdkafka, aiokafka, kafka-python, Java up to 3.9) adds partitions and groups by
requests, and keeps its epoch. One of the second kind (TV2: Java 4) adds them by its first batch or offset, and gets a
new epoch from EndTxn v5.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from raftlog.broker.internal_topics import require_ordinary
from raftlog.broker.kafka.call import MANY_ELEMENTS, Handlers, KafkaCall, Served
from raftlog.broker.kafka.error_numbers import error_number
from raftlog.errors import ErrorCode, FencedError, NotFoundError, RaftlogError, RetriableError, TransactionAbortedError
from raftlog.model import AclResource
from raftlog.runtime import in_slices
from raftlog.wire.kafka.error_codes import KafkaError
from raftlog.wire.kafka.messages import add_partitions_to_txn as parts
from raftlog.wire.kafka.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from raftlog.wire.kafka.messages.end_txn import EndTxnRequest, EndTxnResponse
from raftlog.wire.kafka.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from raftlog.wire.transactions import (
    EndTransactionBody,
    JoinTransactionRequest,
    TransactionalProducer,
    TransactionPartition,
)

TIMEOUT_MS: Final = 10_000
_SLICE: Final = 512
_BATCHED = 4
"""The first version of AddPartitionsToTxn with several transactions; brokers of Kafka send it to each other."""
_FENCED_SINCE: Final = {22: 4, 24: 2, 25: 2, 26: 2}
"""The first version of an API with PRODUCER_FENCED; earlier ones have INVALID_PRODUCER_EPOCH (KIP-588)."""
_ABORTABLE_SINCE: Final = {22: 5, 24: 5, 25: 5, 26: 5, 28: 5}
"""The first version whose clients abort after TRANSACTION_ABORTABLE. For others a time-out fences, as in Kafka."""
_ENDS_EPOCH = 5
"""The first version of EndTxn that answers the next epoch (TV2)."""
_RETRIED: Final = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
}


def number_for(call: KafkaCall, error: RaftlogError, resource: AclResource = "transactional_id") -> int:
    """Return the number of a coordinator's error, as the version of the request has it.

    Clients retry after few errors only. Others end the producer, so each one that allows a retry becomes one of these.
    """
    if isinstance(error, RetriableError) and error.code not in _RETRIED:
        return KafkaError.COORDINATOR_NOT_AVAILABLE
    aborted = isinstance(error, TransactionAbortedError)
    if aborted and call.api_version >= _ABORTABLE_SINCE[call.api_key]:
        return KafkaError.TRANSACTION_ABORTABLE
    if aborted or (isinstance(error, FencedError) and error.code in _FENCING):
        fenced = call.api_version >= _FENCED_SINCE.get(call.api_key, 1 << 15)
        return KafkaError.PRODUCER_FENCED if fenced else KafkaError.INVALID_PRODUCER_EPOCH
    return error_number(error, resource)


_FENCING: Final = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)


async def init_transactions(call: KafkaCall, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """Give a transactional producer a new epoch, which fences the previous one and aborts its transaction."""
    name = request.transactional_id
    if not name:
        return _not_given(KafkaError.INVALID_REQUEST)
    given = None
    if request.producer_id >= 0 or request.producer_epoch >= 0:
        if request.producer_id < 0 or request.producer_epoch < 0:
            return _not_given(KafkaError.INVALID_REQUEST)
        given = TransactionalProducer(producer_id=request.producer_id, producer_epoch=request.producer_epoch)
    try:
        call.context.access.require(call.sender, "write", "transactional_id", name)
        made = await call.context.transactions.init(
            name, request.transaction_timeout_ms, deadline_ms=TIMEOUT_MS, given=given
        )
    except RaftlogError as error:
        return _not_given(number_for(call, error))
    return InitProducerIdResponse(producer_id=made.producer_id, producer_epoch=made.producer_epoch)


def _not_given(number: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=number, producer_epoch=-1)


async def handle_add_partitions(
    call: KafkaCall, request: parts.AddPartitionsToTxnRequest
) -> parts.AddPartitionsToTxnResponse:
    """Add partitions to transactions, or verify that they are in them."""
    if call.api_version < _BATCHED:
        one = parts.AddPartitionsToTxnTransaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
        return parts.AddPartitionsToTxnResponse(results_by_topic_v3_and_below=await _add(call, one))
    return parts.AddPartitionsToTxnResponse(
        results_by_transaction=[
            parts.AddPartitionsToTxnResult(transactional_id=one.transactional_id, topic_results=await _add(call, one))
            async for one in in_slices(request.transactions, 32)
        ]
    )


async def _add(call: KafkaCall, one: parts.AddPartitionsToTxnTransaction) -> list[parts.AddPartitionsToTxnTopicResult]:
    """Add all partitions of a request, or none if one of them cannot be added."""
    try:
        call.context.access.require(call.sender, "write", "transactional_id", one.transactional_id)
    except RaftlogError as error:
        return await _results(one.topics, [number_for(call, error)] * len(one.topics))
    refused = [_refused(call, topic) async for topic in in_slices(one.topics, _SLICE)]
    if any(refused):
        return await _results(one.topics, [number or KafkaError.OPERATION_NOT_ATTEMPTED for number in refused])
    request = JoinTransactionRequest(
        transactional_id=one.transactional_id,
        producer_id=one.producer_id,
        producer_epoch=one.producer_epoch,
        partitions=tuple([part async for part in in_slices(_partitions(call, one.topics), _SLICE)]),
        verify_only=one.verify_only,
    )
    number = 0
    try:
        await call.context.transactions.join(request, deadline_ms=TIMEOUT_MS)
    except RaftlogError as error:
        number = number_for(call, error)
    return await _results(one.topics, [number] * len(one.topics))


def _refused(call: KafkaCall, topic: parts.AddPartitionsToTxnTopic) -> int:
    try:
        call.context.access.require(call.sender, "write", "topic", topic.name)
        require_ordinary(topic.name)
        found = call.context.image.topic(topic.name)
        if found is None or not all(number in found.partitions for number in topic.partitions):
            raise NotFoundError(
                f"topic {topic.name!r} does not exist, or has fewer partitions",
                code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            )
    except RaftlogError as error:
        return error_number(error, "topic")
    return 0


def _partitions(call: KafkaCall, topics: Iterable[parts.AddPartitionsToTxnTopic]) -> Iterable[TransactionPartition]:
    for topic in topics:
        found = call.context.image.topic(topic.name)
        assert found is not None
        for number in topic.partitions:
            yield TransactionPartition(topic=topic.name, partition=number, topic_id=found.topic_id)


async def _results(
    topics: Sequence[parts.AddPartitionsToTxnTopic], numbers: Sequence[int]
) -> list[parts.AddPartitionsToTxnTopicResult]:
    return [
        parts.AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                parts.AddPartitionsToTxnPartitionResult(partition_index=one, partition_error_code=number)
                async for one in in_slices(topic.partitions, _SLICE)
            ],
        )
        async for topic, number in in_slices(zip(topics, numbers, strict=True), _SLICE)
    ]


def _failed_partitions(
    call: KafkaCall, request: parts.AddPartitionsToTxnRequest, number: int
) -> parts.AddPartitionsToTxnResponse:
    if call.api_version >= _BATCHED:
        return parts.AddPartitionsToTxnResponse(error_code=number)
    return parts.AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            parts.AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    parts.AddPartitionsToTxnPartitionResult(partition_index=one, partition_error_code=number)
                    for one in topic.partitions
                ],
            )
            for topic in request.v3_and_below_topics
        ]
    )


async def handle_add_offsets(call: KafkaCall, request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse:
    """Add a group to a transaction: its offsets follow by TxnOffsetCommit, to the group's coordinator."""
    access = call.context.access
    try:
        access.require(call.sender, "write", "transactional_id", request.transactional_id)
    except RaftlogError as error:
        return AddOffsetsToTxnResponse(error_code=number_for(call, error))
    try:
        access.require(call.sender, "read", "group", request.group_id)
    except RaftlogError as error:
        return AddOffsetsToTxnResponse(error_code=number_for(call, error, "group"))
    if not request.group_id:
        return AddOffsetsToTxnResponse(error_code=KafkaError.INVALID_GROUP_ID)
    join = JoinTransactionRequest(
        transactional_id=request.transactional_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        groups=(request.group_id,),
    )
    try:
        await call.context.transactions.join(join, deadline_ms=TIMEOUT_MS)
    except RaftlogError as error:
        return AddOffsetsToTxnResponse(error_code=number_for(call, error))
    return AddOffsetsToTxnResponse()


async def handle_end_txn(call: KafkaCall, request: EndTxnRequest) -> EndTxnResponse:
    """Commit or abort: the answer follows once the decision is replicated. Markers follow."""
    name, transactions = request.transactional_id, call.context.transactions
    try:
        call.context.access.require(call.sender, "write", "transactional_id", name)
        body = EndTransactionBody(
            producer_id=request.producer_id, producer_epoch=request.producer_epoch, committed=request.committed
        )
        if call.api_version < _ENDS_EPOCH:
            await transactions.end_holding(name, body, deadline_ms=TIMEOUT_MS)
            return EndTxnResponse()
        made = await transactions.end(name, body, deadline_ms=TIMEOUT_MS)
    except RaftlogError as error:
        return EndTxnResponse(error_code=number_for(call, error))
    return EndTxnResponse(producer_id=made.producer_id, producer_epoch=made.producer_epoch)


HANDLERS: Final[Handlers] = {
    24: Served(handle=handle_add_partitions, failed=_failed_partitions, most_elements=MANY_ELEMENTS),
    25: handle_add_offsets,
    26: handle_end_txn,
}
