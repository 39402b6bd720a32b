"""How one transactional id gets from each state to the next, and what its producer is told. No IO, no clock."""

from __future__ import annotations

from dataclasses import replace

from raftlog.coordinator.runtime.core import Decision, Now
from raftlog.coordinator.transaction.records import TransactionChanged
from raftlog.coordinator.transaction.state import ENDING, Transactions
from raftlog.errors import (
    ErrorCode,
    FencedError,
    InvalidRequestError,
    RaftlogError,
    RetriableError,
    TransactionAbortedError,
)
from raftlog.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerEpoch, ProducerId
from raftlog.wire.transactions import EndTransactionBody, TransactionalProducer

LAST_EPOCH = 2**15 - 1
"""The last epoch of a producer id: of markers only, so that every transaction has a later one to end with."""


class NeedsProducerIdError(RaftlogError):
    """Decide again, with a fresh producer id."""


def of_producer(
    state: Transactions, transactional_id: str, producer_id: ProducerId, producer_epoch: ProducerEpoch
) -> TransactionChanged:
    """Return what is known of a transactional id, if this is its producer.

    Raises:
        FencedError: INVALID_PRODUCER_EPOCH.
        InvalidRequestError: INVALID_PRODUCER_ID_MAPPING.
        TransactionAbortedError: its transaction took too long.
    """
    known = state.by_id.get(transactional_id)
    if known is not None and known.timed_out and is_of_last(known, producer_id, producer_epoch):
        raise timeout_error(known)
    if known is None or known.producer_id != producer_id:
        raise InvalidRequestError(
            f"transactional id {transactional_id!r} does not belong to producer id {producer_id}",
            code=ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        )
    if known.producer_epoch != producer_epoch:
        raise FencedError(
            f"transactional id {transactional_id!r} is at epoch {known.producer_epoch}, received {producer_epoch}: "
            "another producer has it now, or the transaction has ended",
            code=ErrorCode.INVALID_PRODUCER_EPOCH,
        )
    return known


def is_of_last(known: TransactionChanged, producer_id: ProducerId, producer_epoch: ProducerEpoch) -> bool:
    """Tell whether these name the transaction whose end was decided last."""
    return producer_id >= 0 and (known.ended_id, known.ended_epoch) == (producer_id, producer_epoch)


def answer_again(
    known: TransactionChanged, asked: EndTransactionBody, fresh_id: ProducerId | None
) -> Decision[TransactionalProducer]:
    """Answer who asks for an end that was decided; errors as `TransactionCoordinator.end`."""
    if asked.committed == (known.phase in ("committing", "committed")):
        if known.producer_epoch < LAST_EPOCH:
            return Decision([], producer_of(known))
        if known.phase in ENDING:
            raise still_ending_error(known.transactional_id)
        if fresh_id is None:
            raise NeedsProducerIdError("a producer id is needed")
        changed = replace(known, producer_id=fresh_id, producer_epoch=0)
        return Decision([changed], producer_of(changed))
    if known.timed_out:
        raise timeout_error(known)
    raise InvalidRequestError(
        f"the transaction of {known.transactional_id!r} in epoch {asked.producer_epoch} is {known.phase} already",
        code=ErrorCode.INVALID_TXN_STATE,
    )


def still_ending_error(transactional_id: str) -> RetriableError:
    """Return the error for who comes before the last end is written everywhere."""
    return RetriableError(
        f"the last transaction of {transactional_id!r} is still being ended", code=ErrorCode.CONCURRENT_TRANSACTIONS
    )


def timeout_error(known: TransactionChanged) -> TransactionAbortedError:
    """Return the error for who comes after the transaction was aborted for its age."""
    return TransactionAbortedError(
        f"the transaction of {known.transactional_id!r} was aborted, because it took longer than {known.timeout_ms} ms",
        details={"timeout_ms": known.timeout_ms},
    )


def producer_of(known: TransactionChanged) -> TransactionalProducer:
    """Return under what the next transaction goes."""
    return TransactionalProducer(producer_id=known.producer_id, producer_epoch=known.producer_epoch)


def decided_end(
    known: TransactionChanged,
    now: Now,
    *,
    committed: bool,
    fresh_id: ProducerId | None,
    renew: bool = True,
    timed_out: bool = False,
) -> TransactionChanged:
    """Return a transaction's end, decided; without anybody to tell it is complete at once.

    Args:
        renew: its producer goes on under what the end gives it; otherwise with an `init`.
    """
    marker_epoch = known.producer_epoch + 1
    producer_id, epoch = known.producer_id, marker_epoch
    if marker_epoch >= LAST_EPOCH and renew:
        if fresh_id is None:
            raise NeedsProducerIdError("a producer id is needed")
        producer_id, epoch = fresh_id, 0
    ended = replace(
        known,
        phase="committing" if committed else "aborting",
        producer_id=producer_id,
        producer_epoch=epoch,
        changed_ms=now.wall_ms,
        marker_id=known.producer_id,
        marker_epoch=marker_epoch,
        ended_id=known.producer_id,
        ended_epoch=known.producer_epoch,
        timed_out=timed_out,
    )
    return ended if ended.partitions or ended.groups else completed_end(ended, now)


def completed_end(known: TransactionChanged, now: Now) -> TransactionChanged:
    """Return what is left of a transaction once every partition and group has its marker."""
    return replace(
        known,
        phase="committed" if known.phase == "committing" else "aborted",
        changed_ms=now.wall_ms,
        began_ms=-1,
        partitions=(),
        groups=(),
        marker_id=NO_PRODUCER_ID,
        marker_epoch=NO_PRODUCER_EPOCH,
    )
