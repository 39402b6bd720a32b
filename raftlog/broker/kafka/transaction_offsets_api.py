"""TxnOffsetCommit: a group's offsets that take effect when the producer's transaction commits (KIP-98, KIP-447)."""

from __future__ import annotations

from functools import partial
from typing import Final

from raftlog.broker.kafka.audit import audited
from raftlog.broker.kafka.call import MANY_ELEMENTS, Handlers, KafkaCall, Served
from raftlog.broker.kafka.error_numbers import OF_COORDINATORS, coordinator_number, error_number
from raftlog.broker.kafka.transactional import join_patiently
from raftlog.broker.kafka.transactions_api import TIMEOUT_MS, number_for
from raftlog.errors import ErrorCode, NotFoundError, RaftlogError
from raftlog.runtime import in_slices
from raftlog.serving.workers import in_worker
from raftlog.wire.groups import CommitOffset
from raftlog.wire.kafka.error_codes import KafkaError
from raftlog.wire.kafka.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from raftlog.wire.transactions import JoinTransactionRequest, TransactionOffsetsBody

_SLICE = 512
_JOINING = 5
"""The first version that adds the group to the transaction (TV2). Before it, AddOffsetsToTxn did."""
_BY_MEMBER: Final = (
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.REBALANCE_IN_PROGRESS,
)
_STALE: Final = (ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.FENCED_MEMBER_EPOCH)


async def handle_txn_offset_commit(call: KafkaCall, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
    """Store pending offsets of a transaction: all of the request's, or none. Those of no member are audited."""
    often = {"group": request.group_id, "transactional_id": request.transactional_id}
    work = _answered_by(call, request)
    response: TxnOffsetCommitResponse
    response = await audited(call, work, request, is_change=request.generation_id < 0, often=often)
    return response


async def _answered_by(call: KafkaCall, request: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
    answered = partial(_answered, request, *await _committed(call, request))
    return await in_worker(answered) if call.has_many else answered()


async def _committed(call: KafkaCall, request: TxnOffsetCommitRequest) -> tuple[int, dict[str, int]]:
    """Return the error of every partition, and those of topics that are refused.

    All of a request's offsets are stored, or none. Clients expect no error for the others, as Kafka's brokers store
    them: they get a retriable one, or the final one of a topic. librdkafka looks at the first error only.
    """
    access = call.context.access
    try:
        access.require(call.sender, "write", "transactional_id", request.transactional_id)
    except RaftlogError as error:
        return number_for(call, error), {}
    try:
        access.require(call.sender, "read", "group", request.group_id)
    except RaftlogError as error:
        return coordinator_number(error), {}
    refused = {topic.name: _refused(call, topic.name) async for topic in in_slices(request.topics, _SLICE)}
    if any(refused.values()):
        final = (number for number in refused.values() if number not in (0, KafkaError.UNKNOWN_TOPIC_OR_PARTITION))
        return next(final, KafkaError.COORDINATOR_LOAD_IN_PROGRESS), refused
    try:
        await _store(call, request)
    except RaftlogError as error:
        return _number(call, error), {}
    return 0, {}


async def _store(call: KafkaCall, request: TxnOffsetCommitRequest) -> None:
    groups, transactions = call.context.groups, call.context.transactions
    groups.runtime.epoch_of(request.group_id)  # Raises before the join if this broker is not the coordinator.
    join = JoinTransactionRequest(
        transactional_id=request.transactional_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        groups=(request.group_id,),
        verify_only=call.api_version < _JOINING,
    )
    found = await join_patiently(call.context, join, timeout_ms=TIMEOUT_MS)
    offsets = [
        CommitOffset(
            topic=topic.name,
            partition=one.partition_index,
            offset=one.committed_offset,
            leader_epoch=one.committed_leader_epoch,
            metadata=one.committed_metadata or "",
        )
        async for topic in in_slices(request.topics, _SLICE)
        async for one in in_slices(topic.partitions, _SLICE)
    ]
    body = TransactionOffsetsBody(
        group_id=request.group_id,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        offsets=tuple(offsets),
        member_id=request.member_id,
        member_epoch=request.generation_id,
    )
    call.acts = True
    await groups.commit_in_transaction(
        request.transactional_id,
        body,
        transactions=transactions,
        timeout_ms=TIMEOUT_MS,
        instance_id=request.group_instance_id,
    )


def _refused(call: KafkaCall, topic: str) -> int:
    try:
        call.context.access.require(call.sender, "read", "topic", topic)
        if call.context.image.topic(topic) is None:
            raise NotFoundError(f"topic {topic!r} does not exist", code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    except RaftlogError as error:
        return error_number(error, "topic")
    return 0


def _number(call: KafkaCall, error: RaftlogError) -> int:
    """Return the number of an error: of the member, or of the transaction's coordinator."""
    if error.code in _STALE:
        return KafkaError.ILLEGAL_GENERATION
    if error.code in _BY_MEMBER:
        return error_number(error, "group")
    number = number_for(call, error)
    return OF_COORDINATORS.get(number, number)


def _answered(
    request: TxnOffsetCommitRequest, number: int, by_topic: dict[str, int] | None = None
) -> TxnOffsetCommitResponse:
    numbers = by_topic or {}
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=one.partition_index, error_code=numbers.get(topic.name) or number
                    )
                    for one in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _failed(_: KafkaCall, request: TxnOffsetCommitRequest, number: int) -> TxnOffsetCommitResponse:
    return _answered(request, number)


HANDLERS: Final[Handlers] = {28: Served(handle=handle_txn_offset_commit, failed=_failed, most_elements=MANY_ELEMENTS)}
