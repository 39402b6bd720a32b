"""Producers of Kafka's first kind of transactions (TV1), which keep their epoch: librdkafka, aiokafka, Java up to 3.9.

raftlog gives a producer a new epoch at each end of a transaction (KIP-890): late batches and late markers have an old
one. A producer of the first kind ignores that epoch, and goes on with the one of its init. The coordinator **holds** it
for the producer:

- `producer_id` and `producer_epoch` change at each end, as ever. They number the transactions. Batches in the log,
  markers, joins of leaders and pending offsets have them.
- `held_id` and `held_epoch` are what the producer sends. The broker that receives a request of the producer asks the
  coordinator for the present number (`join`), and works with that.
- An init, a time-out and an end by a client of another kind release what is held, and so fence the producer.

A late batch gets the number of the present transaction. The coordinator refuses it unless the producer has added the
partition to that transaction before, as Kafka does (KIP-890, part 1). No IO, no clock.
"""

from __future__ import annotations

from raftlog.coordinator.runtime.core import Decision, Now
from raftlog.coordinator.transaction.records import TransactionChanged
from raftlog.coordinator.transaction.state import ENDING, Transactions
from raftlog.coordinator.transaction.transitions import (
    concurrent_transactions_error,
    is_last_ended,
    prepare_end,
    producer_of,
    require_producer,
)
from raftlog.errors import ErrorCode, FencedError, InvalidRequestError
from raftlog.model import ProducerEpoch, ProducerId
from raftlog.wire.transactions import EndTransactionBody, JoinTransactionRequest, TransactionalProducer


def require_sender(
    state: Transactions, transactional_id: str, producer_id: ProducerId, producer_epoch: ProducerEpoch
) -> TransactionChanged:
    """Return the state of a transactional id, if this is its producer, by its own identity or by the held one.

    Errors as `require_producer`.
    """
    current = state.by_id.get(transactional_id)
    if current is not None and is_held(current, producer_id, producer_epoch):
        return current
    return require_producer(state, transactional_id, producer_id, producer_epoch)


def is_held(current: TransactionChanged, producer_id: ProducerId, producer_epoch: ProducerEpoch) -> bool:
    """Return whether the coordinator holds this identity for the producer."""
    return producer_id >= 0 and (current.held_id, current.held_epoch) == (producer_id, producer_epoch)


def verify(current: TransactionChanged, request: JoinTransactionRequest) -> Decision[TransactionalProducer]:
    """Return the number of the transaction that partitions and groups are in.

    Raises:
        InvalidRequestError: INVALID_TXN_STATE: one of them is not in it.
    """
    partitions, groups = set(current.partitions), set(current.groups)
    missing = [one for one in request.partitions if one not in partitions]
    absent = [one for one in request.groups if one not in groups]
    if current.phase != "ongoing" or missing or absent:
        raise InvalidRequestError(
            f"the transaction of {current.transactional_id!r} is {current.phase}, and "
            f"{(missing or absent or ['nothing'])[0]} is not part of it: expected that the producer adds it first",
            code=ErrorCode.INVALID_TXN_STATE,
        )
    return Decision([], producer_of(current))


def end_holding(
    state: Transactions,
    now: Now,
    transactional_id: str,
    request: EndTransactionBody,
    fresh_id: ProducerId | None = None,
) -> Decision[TransactionalProducer]:
    """Decide the end of a transaction whose producer keeps its epoch. A repeated request gets the same response.

    Raises:
        FencedError: INVALID_PRODUCER_EPOCH.
        InvalidRequestError: INVALID_PRODUCER_ID_MAPPING; INVALID_TXN_STATE: it had the other end, or has not begun.
        TransactionAbortedError: the transaction timed out and was aborted.
        RetriableError: CONCURRENT_TRANSACTIONS: its end is still being written.
        NeedsProducerIdError: a `fresh_id` is needed.
    """
    current = require_sender(state, transactional_id, request.producer_id, request.producer_epoch)
    sent = TransactionalProducer(producer_id=request.producer_id, producer_epoch=request.producer_epoch)
    if current.phase == "ongoing":
        ended = prepare_end(current, now, committed=request.committed, fresh_id=fresh_id, held=sent)
        return Decision([ended], sent)
    same = ("committing", "committed") if request.committed else ("aborting", "aborted")
    if current.phase not in same:
        raise InvalidRequestError(
            f"expected an ongoing transaction of {transactional_id!r} to end, and it is {current.phase}",
            code=ErrorCode.INVALID_TXN_STATE,
        )
    if current.phase in ENDING:
        raise concurrent_transactions_error(transactional_id)
    # Confirmed: a successor may have a later transaction of this producer, which this request is about.
    return Decision([], sent, is_confirmed=True)


def require_given(current: TransactionChanged | None, given: TransactionalProducer | None) -> None:
    """Raise if an init names another identity than the last one of its transactional id (KIP-360).

    Raises:
        FencedError: PRODUCER_FENCED.
    """
    if given is None or current is None or is_held(current, given.producer_id, given.producer_epoch):
        return
    if given == producer_of(current) or is_last_ended(current, given.producer_id, given.producer_epoch):
        return
    raise FencedError(
        f"transactional id {current.transactional_id!r} has another producer than id {given.producer_id} in epoch "
        f"{given.producer_epoch}",
        code=ErrorCode.PRODUCER_FENCED,
    )
