"""DescribeTransactions, ListTransactions and DescribeProducers: what administrators see of transactions (KIP-664)."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from raftlog.broker.kafka.call import Handlers, KafkaCall, Served
from raftlog.broker.kafka.error_numbers import error_number, error_text
from raftlog.broker.kafka.transactions_api import TIMEOUT_MS
from raftlog.coordinator.group.patterns import compiled
from raftlog.coordinator.transaction.records import TransactionChanged
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
    wanted = _Filter(request)
    try:
        found = [
            one
            for state in tuple(runtime.active.values())
            async for one in in_slices(state.by_id.values(), 256)
            if wanted.fits(one) and call.context.access.sees(call.sender, "transactional_id", one.transactional_id)
        ]
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
            async for one in in_slices(found, 256)
        ],
    )


class _Filter:
    """What a ListTransactions request wants."""

    def __init__(self, request: listed.ListTransactionsRequest) -> None:
        self._states = frozenset(request.state_filters)
        self._producers = frozenset(request.producer_id_filters)
        self._pattern = request.transactional_id_pattern
        self._began_by_ms = time.time() * 1000 - request.duration_filter if request.duration_filter >= 0 else None

    def fits(self, one: TransactionChanged) -> bool:
        """Return whether a transactional id is wanted.

        Raises:
            InvalidRequestError: the pattern is none.
        """
        if self._states and _STATES[one.phase] not in self._states:
            return False
        if self._producers and one.producer_id not in self._producers:
            return False
        if self._began_by_ms is not None and not 0 <= one.began_ms <= self._began_by_ms:
            return False
        return not self._pattern or compiled(self._pattern).matches(one.transactional_id)


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
