"""Transactional batches of Kafka's producers: each gets the identity that its transaction has at the coordinator.

- A producer of the first kind (TV1) has added the partition before; a leader only verifies it (KIP-890, part 1). It
  keeps its epoch, so batches are appended with another one; see `coordinator/transaction/held.py`.
- One of the second kind (TV2) adds a partition by its first batch.

Source: KIP-98, KIP-890.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple, TypeAlias

from raftlog.broker.context import BrokerContext
from raftlog.coordinator.transaction.service import JOIN_TIMEOUT_MS
from raftlog.errors import (
    ErrorCode,
    FencedError,
    InvalidRequestError,
    RaftlogError,
    RetriableError,
    TransactionAbortedError,
)
from raftlog.model import NO_PRODUCER_EPOCH, ProducerEpoch, ProducerId
from raftlog.record.batch import parse_header, set_producer
from raftlog.wire.transactions import JoinTransactionRequest, TransactionalProducer, TransactionPartition

_MAX_KNOWN = 10_000
"""Partitions of transactions that are remembered. All are forgotten when there are more."""
_PAUSE_S = 0.01


class PartitionBatch(NamedTuple):
    """A converted batch, and where it goes."""

    topic: str
    partition: int
    batch: bytearray


class _Sent(NamedTuple):
    """Where a batch goes, and whose it is."""

    transactional_id: str
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    topic: str
    partition: int


_Found: TypeAlias = TransactionalProducer | RaftlogError


async def already_admitted(_: ProducerId, __: ProducerEpoch) -> None:
    """Do nothing: the coordinator was asked before the append."""


class KafkaTransactions:
    """Finds the identities of transactions, and remembers those under way here."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._known: dict[_Sent, TransactionalProducer] = {}

    async def number(
        self, transactional_id: str, batches: Sequence[PartitionBatch], *, joins: bool, timeout_ms: int
    ) -> list[ProducerEpoch | RaftlogError]:
        """Write the identity of its transaction into each batch; the coordinator is asked once for all of them.

        Return what `ProducerStates.check` has as `since`, or why a batch is refused:

        - RetriableError: the coordinator did not answer, or the last transaction is still being ended.
        - FencedError, InvalidRequestError, TransactionAbortedError: from the coordinator.
        - InvalidRequestError: the batches are of more than one producer, as Kafka's INVALID_PRODUCER_ID_MAPPING.

        Args:
            joins: the batches add their partitions to the transaction (TV2).
        """
        sent = [_sent(transactional_id, one) for one in batches]
        if len({(one.producer_id, one.producer_epoch) for one in sent if one is not None}) > 1:
            return [NO_PRODUCER_EPOCH if one is None else _several_producers(transactional_id) for one in sent]
        found = await self._find(
            [one for one in sent if one is not None], joins=joins, timeout_ms=min(timeout_ms, JOIN_TIMEOUT_MS)
        )
        return [
            NO_PRODUCER_EPOCH if key is None else _numbered(one.batch, key, found[key])
            for one, key in zip(batches, sent, strict=True)
        ]

    async def _find(self, sent: Iterable[_Sent], *, joins: bool, timeout_ms: int) -> dict[_Sent, _Found]:
        found = dict[_Sent, _Found]()
        asked = dict[_Sent, TransactionPartition]()
        for one in sent:
            try:
                replica = self._context.leader(one.topic, one.partition)
            except RaftlogError as error:
                found[one] = error
                continue
            known = self._known.get(one)
            if known is not None and replica.producers.has_open(known.producer_id, known.producer_epoch):
                found[one] = known
            else:
                asked[one] = TransactionPartition(
                    topic=one.topic, partition=one.partition, topic_id=replica.assignment.topic_id
                )
        return found | await self._ask(asked, joins=joins, timeout_ms=timeout_ms) if asked else found

    async def _ask(
        self, parts: Mapping[_Sent, TransactionPartition], *, joins: bool, timeout_ms: int
    ) -> dict[_Sent, _Found]:
        """Ask the coordinator about partitions to which the producer sent batches."""
        first = next(iter(parts))
        request = JoinTransactionRequest(
            transactional_id=first.transactional_id,
            producer_id=first.producer_id,
            producer_epoch=first.producer_epoch,
            partitions=tuple(parts.values()),
            verify_only=not joins,
        )
        try:
            answer = await join_patiently(self._context, request, timeout_ms=timeout_ms)
        except RaftlogError as error:
            if error.code is not ErrorCode.INVALID_TXN_STATE or len(parts) == 1:
                return dict.fromkeys(parts, error)
            # One of the partitions is not in the transaction, and the others may be.
            alone = [self._ask({one: part}, joins=joins, timeout_ms=timeout_ms) for one, part in parts.items()]
            return dict(chain.from_iterable(one.items() for one in await asyncio.gather(*alone)))
        if len(self._known) + len(parts) > _MAX_KNOWN:
            self._known.clear()
        self._known |= dict.fromkeys(parts, answer)
        return dict.fromkeys(parts, answer)


def _sent(transactional_id: str, one: PartitionBatch) -> _Sent | None:
    header = parse_header(one.batch)
    if not header.is_transactional or header.producer_id < 0:
        return None
    return _Sent(transactional_id, header.producer_id, header.producer_epoch, one.topic, one.partition)


def _several_producers(transactional_id: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"expected batches of one producer for transactional id {transactional_id!r}, received those of several",
        code=ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    )


def _numbered(batch: bytearray, sent: _Sent, found: _Found) -> ProducerEpoch | RaftlogError:
    """Write what the coordinator answered into a batch."""
    if isinstance(found, RaftlogError):
        return found
    if (found.producer_id, found.producer_epoch) == (sent.producer_id, sent.producer_epoch):
        return NO_PRODUCER_EPOCH
    set_producer(batch, found.producer_id, found.producer_epoch)
    return sent.producer_epoch if found.producer_id == sent.producer_id else 0


async def join_patiently(
    context: BrokerContext, request: JoinTransactionRequest, *, timeout_ms: int
) -> TransactionalProducer:
    """Join, and wait while the last transaction is being ended: some clients send again without a pause.

    Errors as `TransactionService.join_at_coordinator`.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_ms / 1000
    while True:
        left_ms = max(1, round(1000 * (deadline - loop.time())))
        try:
            return await context.transactions.join_at_coordinator(request, deadline_ms=left_ms)
        except RetriableError as error:
            if error.code is not ErrorCode.CONCURRENT_TRANSACTIONS or loop.time() + _PAUSE_S >= deadline:
                raise
        await asyncio.sleep(_PAUSE_S)


def numbered_error(error: RaftlogError, *, joins: bool) -> RaftlogError:
    """Return the error of a coordinator as a producer understands it in an answer to Produce.

    Versions of TV1 have no TRANSACTION_ABORTABLE: a transaction that timed out fences its producer, as in Kafka.
    """
    if isinstance(error, TransactionAbortedError) and not joins:
        return FencedError(error.message, code=ErrorCode.INVALID_PRODUCER_EPOCH)
    if isinstance(error, RetriableError) and error.code is not ErrorCode.NOT_LEADER_OR_FOLLOWER:
        return RetriableError(error.message, code=ErrorCode.NOT_ENOUGH_REPLICAS)
    return error
