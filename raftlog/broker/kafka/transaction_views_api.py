"""DescribeTransactions, ListTransactions and DescribeProducers: what administrators see of transactions (KIP-664)."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from raftlog.broker.kafka.call import Handlers, KafkaCall, Served
from raftlog.broker.kafka.error_numbers import error_number, error_text
from raftlog.broker.kafka.transactions_api import TIMEOUT_MS
from raftlog.coordinator.group.patterns import compiled
from raftlog.errors import ErrorCode, InvalidRequestError, RaftlogError, RetriableError
from raftlog.runtime import in_slices
from raftlog.wire.kafka.error_codes import KafkaError
from raftlog.wire.kafka.messages import describe_transactions as described
from raftlog.wire.kafka.messages import list_transactions as listed
from raftlog.wire.kafka.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from raftlog.wire.transactions import TransactionInfo

_STATES: Final = {
    "empty": "Empty",
    "ongoing": "Ongoing",
    "committing": "PrepareCommit",
    "aborting": "PrepareAbort",
    "committed": "CompleteCommit",
    "aborted": "CompleteAbort",
}
"""Kafka's names of the phases."""
_OTHER_STATES: Final = ("Dead", "PrepareEpochFence")
"""States of Kafka that raftlog does not have."""
_MAX_ASKED = 1_000
_PARTITION_BYTES, _PRODUCER_BYTES = 50, 40
"""About what a partition of a transaction, and a producer, take in an answer."""


async def handle_describe_transactions(
    call: KafkaCall, request: described.DescribeTransactionsRequest
) -> described.DescribeTransactionsResponse:
    """Describe transactional ids of this coordinator."""
    _require_few(len(request.transactional_ids), "transactional ids")
    states = [await _described(call, name) async for name in in_slices(dict.fromkeys(request.transactional_ids))]
    return described.DescribeTransactionsResponse(transaction_states=states)


async def _described(call: KafkaCall, name: str) -> described.TransactionState:
    try:
        call.context.access.require(call.sender, "describe", "transactional_id", name)
        found = await call.context.transactions.describe(name, deadline_ms=TIMEOUT_MS)
        call.hold_answer(_PARTITION_BYTES * len(found.partitions))
    except RaftlogError as error:
        known = error.code in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        retries = isinstance(error, RetriableError) and not known
        number = KafkaError.COORDINATOR_NOT_AVAILABLE if retries else error_number(error, "transactional_id")
        return described.TransactionState(transactional_id=name, error_code=number)
    by_topic = dict[str, list[int]]()
    for one in found.partitions:
        if call.context.access.sees(call.sender, "topic", one.topic):
            by_topic.setdefault(one.topic, []).append(one.partition)
    return described.TransactionState(
        transactional_id=name,
        transaction_state=_STATES[found.phase],
        transaction_timeout_ms=found.timeout_ms,
        transaction_start_time_ms=found.began_ms,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        topics=[described.TopicData(topic=topic, partitions=numbers) for topic, numbers in by_topic.items()],
    )


async def handle_list_transactions(
    call: KafkaCall, request: listed.ListTransactionsRequest
) -> listed.ListTransactionsResponse:
    """List transactional ids of this coordinator, filtered by state, producer, age and pattern."""
    runtime = call.context.transactions.runtime
    runtime.update_shards()
    if runtime.loading:
        return listed.ListTransactionsResponse(error_code=KafkaError.COORDINATOR_LOAD_IN_PROGRESS)
    names = {*_STATES.values(), *_OTHER_STATES}
    unknown = [state for state in request.state_filters if state not in names]
    try:
        listing = in_slices(call.context.transactions.list_transactions(), 256)
        found = [one async for one in listing if _is_wanted(call, one, request)]
    except InvalidRequestError as error:
        return listed.ListTransactionsResponse(error_code=error_number(error, "transactional_id"))
    call.is_large = len(found) > _MAX_ASKED
    return listed.ListTransactionsResponse(
        unknown_state_filters=unknown,
        transaction_states=[
            listed.TransactionState(
                transactional_id=one.transactional_id,
                producer_id=one.producer_id,
                transaction_state=_STATES[one.phase],
            )
            for one in found
        ],
    )


def _is_wanted(call: KafkaCall, one: TransactionInfo, request: listed.ListTransactionsRequest) -> bool:
    if request.state_filters and _STATES[one.phase] not in request.state_filters:
        return False
    if request.producer_id_filters and one.producer_id not in request.producer_id_filters:
        return False
    if request.duration_filter >= 0 and not 0 <= one.began_ms <= time.time() * 1000 - request.duration_filter:
        return False
    if request.transactional_id_pattern and not compiled(request.transactional_id_pattern).matches(
        one.transactional_id
    ):
        return False
    return call.context.access.sees(call.sender, "transactional_id", one.transactional_id)


async def handle_describe_producers(call: KafkaCall, request: DescribeProducersRequest) -> DescribeProducersResponse:
    """Return the producers of partitions that this broker leads."""
    _require_few(sum(len(topic.partition_indexes) for topic in request.topics), "partitions")
    asked = set[tuple[str, int]]()
    topics = [
        TopicResponse(
            name=topic.name,
            partitions=[await _producers(call, topic.name, one, asked) for one in topic.partition_indexes],
        )
        for topic in request.topics
    ]
    return DescribeProducersResponse(topics=topics)


async def _producers(call: KafkaCall, topic: str, partition: int, asked: set[tuple[str, int]]) -> PartitionResponse:
    """Describe a partition's producers, once in each request: a small one could ask for a large answer many times."""
    await asyncio.sleep(0)
    try:
        call.context.access.require(call.sender, "read", "topic", topic)
        if (topic, partition) in asked:
            raise InvalidRequestError(f"{topic}-{partition} is named twice")
        asked.add((topic, partition))
        producers = call.context.leader(topic, partition).producers.described()
        call.hold_answer(_PRODUCER_BYTES * len(producers))
    except RaftlogError as error:
        number, text = error_number(error, "topic"), error_text(error)
        return PartitionResponse(partition_index=partition, error_code=number, error_message=text)
    return PartitionResponse(
        partition_index=partition,
        active_producers=[
            ProducerState(
                producer_id=one.producer_id,
                producer_epoch=one.epoch,
                last_sequence=one.last_sequence,
                last_timestamp=one.seen_ms,
                coordinator_epoch=one.coordinator_epoch,
                current_txn_start_offset=one.began,
            )
            async for one in in_slices(producers, 512)
        ],
    )


def _require_few(count: int, what: str) -> None:
    if count > _MAX_ASKED:
        raise InvalidRequestError(f"expected at most {_MAX_ASKED} {what}, received {count}")


def _failed_descriptions(
    _: KafkaCall, request: described.DescribeTransactionsRequest, number: int
) -> described.DescribeTransactionsResponse:
    states = [
        described.TransactionState(transactional_id=name, error_code=number) for name in request.transactional_ids
    ]
    return described.DescribeTransactionsResponse(transaction_states=states)


def _failed_producers(_: KafkaCall, request: DescribeProducersRequest, number: int) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[
                    PartitionResponse(partition_index=one, error_code=number) for one in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
    )


HANDLERS: Final[Handlers] = {
    61: Served(handle=handle_describe_producers, failed=_failed_producers),
    65: Served(handle=handle_describe_transactions, failed=_failed_descriptions),
    66: handle_list_transactions,
}
