"""State transitions of one transactional id, and the errors for its producer. No IO, no clock."""

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
"""The last epoch of a producer id: for markers only, so that every transaction can end with a later epoch."""


class NeedsProducerIdError(RaftlogError):
    """The decision must be repeated with a new producer id."""


def require_producer(
    state: Transactions, transactional_id: str, producer_id: ProducerId, producer_epoch: ProducerEpoch
) -> TransactionChanged:
    """Return the state of a transactional id, if this is its producer.

    Raises:
        FencedError: INVALID_PRODUCER_EPOCH.
        InvalidRequestError: INVALID_PRODUCER_ID_MAPPING; `details` has `expired` if no producer has the id.
        TransactionAbortedError: its transaction timed out.
    """
    current = state.by_id.get(transactional_id)
    if current is not None and current.timed_out and is_last_ended(current, producer_id, producer_epoch):
        raise timeout_error(current)
    if current is None or current.producer_id != producer_id:
        raise InvalidRequestError(
            f"transactional id {transactional_id!r} does not belong to producer id {producer_id}",
            code=ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            details={"expired": True} if current is None else None,
        )
    if current.producer_epoch != producer_epoch:
        raise FencedError(
            f"transactional id {transactional_id!r} is at epoch {current.producer_epoch}, received {producer_epoch}: "
            "another producer has taken over the id, or the transaction has ended",
            code=ErrorCode.INVALID_PRODUCER_EPOCH,
        )
    return current


def is_last_ended(current: TransactionChanged, producer_id: ProducerId, producer_epoch: ProducerEpoch) -> bool:
    """Return whether these are the producer id and epoch of the transaction that was ended last."""
    return producer_id >= 0 and (current.ended_id, current.ended_epoch) == (producer_id, producer_epoch)


def is_repeated_init(current: TransactionChanged, given: TransactionalProducer) -> bool:
    """Return whether the last change was an init of this identity: its answer may have been lost."""
    return current.phase == "empty" and is_last_ended(current, given.producer_id, given.producer_epoch)


def repeat_end(
    current: TransactionChanged, request: EndTransactionBody, fresh_id: ProducerId | None
) -> Decision[TransactionalProducer]:
    """Decide a repeated request to end a transaction; errors as `TransactionCoordinator.end`."""
    if request.committed == (current.phase in ("committing", "committed")):
        if current.producer_epoch < LAST_EPOCH:
            return Decision([], producer_of(current))
        if current.phase in ENDING:
            raise concurrent_transactions_error(current.transactional_id)
        if fresh_id is None:
            raise NeedsProducerIdError("a producer id is needed")
        changed = replace(current, producer_id=fresh_id, producer_epoch=0)
        return Decision([changed], producer_of(changed))
    if current.timed_out:
        raise timeout_error(current)
    raise InvalidRequestError(
        f"the transaction of {current.transactional_id!r} in epoch {request.producer_epoch} is {current.phase} already",
        code=ErrorCode.INVALID_TXN_STATE,
    )


def concurrent_transactions_error(transactional_id: str) -> RetriableError:
    """Return CONCURRENT_TRANSACTIONS: the previous transaction's markers are not yet written to every partition."""
    return RetriableError(
        f"the last transaction of {transactional_id!r} is still being ended; send the request again",
        code=ErrorCode.CONCURRENT_TRANSACTIONS,
    )


def timeout_error(current: TransactionChanged) -> TransactionAbortedError:
    """Return the error for a producer whose transaction timed out."""
    return TransactionAbortedError(
        f"the transaction of {current.transactional_id!r} was aborted, because it took longer than "
        f"{current.timeout_ms} ms",
        details={"timeout_ms": current.timeout_ms},
    )


def producer_of(current: TransactionChanged) -> TransactionalProducer:
    """Return the producer id and epoch of the next transaction."""
    return TransactionalProducer(producer_id=current.producer_id, producer_epoch=current.producer_epoch)


def prepare_end(
    current: TransactionChanged,
    now: Now,
    *,
    committed: bool,
    fresh_id: ProducerId | None,
    renew: bool = True,
    timed_out: bool = False,
    held: TransactionalProducer | None = None,
) -> TransactionChanged:
    """Return the state with its end decided (Kafka's PrepareCommit, PrepareAbort); complete if no marker is needed.

    Args:
        renew: the producer continues with the id and epoch of this end; otherwise it must `init` first.
        held: what its producer goes on to use in their place; see `held`.
    """
    marker_epoch = current.producer_epoch + 1
    producer_id, epoch = current.producer_id, marker_epoch
    if marker_epoch >= LAST_EPOCH and renew:
        if fresh_id is None:
            raise NeedsProducerIdError("a producer id is needed")
        producer_id, epoch = fresh_id, 0
    ended = replace(
        current,
        phase="committing" if committed else "aborting",
        producer_id=producer_id,
        producer_epoch=epoch,
        changed_ms=now.wall_ms,
        marker_id=current.producer_id,
        marker_epoch=marker_epoch,
        ended_id=current.producer_id,
        ended_epoch=current.producer_epoch,
        timed_out=timed_out,
        held_id=held.producer_id if held else NO_PRODUCER_ID,
        held_epoch=held.producer_epoch if held else NO_PRODUCER_EPOCH,
    )
    return ended if ended.partitions or ended.groups else complete_end(ended, now)


def complete_end(current: TransactionChanged, now: Now) -> TransactionChanged:
    """Return the state after every partition and group has its marker (Kafka's CompleteCommit, CompleteAbort)."""
    return replace(
        current,
        phase="committed" if current.phase == "committing" else "aborted",
        changed_ms=now.wall_ms,
        began_ms=-1,
        partitions=(),
        groups=(),
        marker_id=NO_PRODUCER_ID,
        marker_epoch=NO_PRODUCER_EPOCH,
    )
