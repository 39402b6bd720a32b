"""The life of transactions, decided. No IO, no clock.

    empty -> ongoing -> committing -> committed -> ongoing ...
                     -> aborting   -> aborted   -> ongoing ...

A transaction begins when the first partition joins it. Its end is decided by one record (`committing` or `aborting`);
then markers go to every partition and group that joined, again and again until each has its own, and only then the next
transaction may begin. Whoever becomes the coordinator meanwhile goes on with the markers.

Every end gives the producer a new epoch (KIP-890), which the markers carry: what comes late, a batch, a request to
join or to end, is of an old epoch and refused. So the transaction after it is never touched. Every init gives a new
epoch, too, which fences the producer before it, and aborts what that left.

What a producer may do next it learns from the error: `INVALID_PRODUCER_EPOCH` (another one has its transactional id:
stop), `TRANSACTION_ABORTABLE` (abort, and begin again), `CONCURRENT_TRANSACTIONS` (markers are under way: ask again).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain

from raftlog.coordinator.runtime.codec import LogRecord, RecordCodec, tombstone
from raftlog.coordinator.runtime.core import Decision, Now
from raftlog.coordinator.transaction.records import TransactionChanged, TransactionSetCommitted
from raftlog.coordinator.transaction.sets import is_passing
from raftlog.coordinator.transaction.state import ENDING, IDLE, Transactions
from raftlog.coordinator.transaction.transitions import (
    LAST_EPOCH,
    NeedsProducerIdError,
    answer_again,
    completed_end,
    decided_end,
    is_of_last,
    of_producer,
    producer_of,
    still_ending_error,
)
from raftlog.errors import ErrorCode, InvalidRequestError, TransactionAbortedError
from raftlog.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerId
from raftlog.wire.transactions import EndTransactionBody, JoinTransactionRequest, TransactionalProducer

MAX_PARTITIONS = 10_000
"""In one transaction."""
MAX_ID_BYTES = 249
_MAX_PER_TICK = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    """The broker's settings; see `BrokerConfig`."""

    max_timeout_ms: int = 900_000
    id_expiration_ms: int = 7 * 86_400_000


class TransactionCoordinator:
    """Fits the protocol `Coordinator[Transactions]`, and decides what is asked."""

    codec = RecordCodec([TransactionChanged, TransactionSetCommitted])

    def __init__(self, settings: TransactionSettings | None = None) -> None:
        self._settings = settings or TransactionSettings()

    def new_state(self) -> Transactions:
        """Return the state of an empty log."""
        return Transactions()

    def replay(self, state: Transactions, record: LogRecord) -> None:
        """Let a record take effect."""
        state.apply(record)

    def on_loaded(self, state: Transactions, now: Now) -> None:
        """All that matters is in the log."""

    def on_tick(self, state: Transactions, now: Now) -> list[LogRecord]:
        """Abort transactions that take too long; forget transactional ids that nobody has used for long."""
        records = list[LogRecord]()
        for known in (state.by_id[name] for name in state.ongoing):
            if known.began_ms + known.timeout_ms <= now.wall_ms and len(records) < _MAX_PER_TICK:
                records.append(decided_end(known, now, committed=False, fresh_id=None, renew=False, timed_out=True))
        if not records:
            records += self._expired(state, now)
        return records

    def _expired(self, state: Transactions, now: Now) -> Iterator[LogRecord]:
        limit, count = now.wall_ms - self._settings.id_expiration_ms, 0
        idle = (known for known in state.by_id.values() if known.phase in IDLE)
        for known in chain[TransactionChanged | TransactionSetCommitted](idle, state.sets.values()):
            if known.changed_ms <= limit and count < _MAX_PER_TICK:
                count += 1
                yield tombstone(known)

    def init(
        self, state: Transactions, now: Now, transactional_id: str, timeout_ms: int, fresh_id: ProducerId | None = None
    ) -> Decision[TransactionalProducer | None]:
        """Give a producer a new epoch, which fences the one before it; None: ask again, its transaction is being ended.

        Raises:
            InvalidRequestError: INVALID_TRANSACTION_TIMEOUT, or no such id is allowed.
            NeedsProducerIdError: a `fresh_id` is needed.
        """
        self._check_init(transactional_id, timeout_ms)
        known = state.by_id.get(transactional_id)
        if known is not None and known.phase in ENDING:
            return Decision([], None)
        if known is not None and known.phase == "ongoing":
            # Its own producer is not told how it ended: a later one has its place.
            ended = replace(decided_end(known, now, committed=False, fresh_id=fresh_id), ended_id=NO_PRODUCER_ID)
            return Decision([replace(ended, ended_epoch=NO_PRODUCER_EPOCH)], None)
        if known is not None and known.producer_epoch < LAST_EPOCH - 1:
            producer_id, epoch = known.producer_id, known.producer_epoch + 1
        elif fresh_id is None:
            raise NeedsProducerIdError("a producer id is needed")
        else:
            producer_id, epoch = fresh_id, 0
        changed = TransactionChanged(
            transactional_id=transactional_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            timeout_ms=timeout_ms,
            changed_ms=now.wall_ms,
        )
        return Decision([changed], TransactionalProducer(producer_id=producer_id, producer_epoch=epoch))

    def join(self, state: Transactions, now: Now, asked: JoinTransactionRequest) -> Decision[None]:
        """Have partitions and groups take part in a producer's transaction, which begins with the first.

        Raises:
            FencedError: INVALID_PRODUCER_EPOCH.
            InvalidRequestError: INVALID_PRODUCER_ID_MAPPING.
            TransactionAbortedError: it has timed out, or became too large.
            RetriableError: CONCURRENT_TRANSACTIONS: the last transaction is still being ended.
        """
        known = of_producer(state, asked.transactional_id, asked.producer_id, asked.producer_epoch)
        if known.phase in ENDING:
            raise still_ending_error(asked.transactional_id)
        partitions = tuple(dict.fromkeys((*known.partitions, *asked.partitions)))
        groups = tuple(dict.fromkeys((*known.groups, *asked.groups)))
        if len(partitions) + len(groups) > MAX_PARTITIONS:
            raise TransactionAbortedError(
                f"a transaction takes at most {MAX_PARTITIONS} partitions and groups: commit earlier"
            )
        if (known.phase, partitions, groups) == ("ongoing", known.partitions, known.groups):
            return Decision([], None)
        began_ms = known.began_ms if known.phase == "ongoing" else now.wall_ms
        changed = replace(
            known,
            phase="ongoing",
            partitions=partitions,
            groups=groups,
            began_ms=began_ms,
            changed_ms=now.wall_ms,
            ended_id=NO_PRODUCER_ID,
            ended_epoch=NO_PRODUCER_EPOCH,
            timed_out=False,
        )
        return Decision([changed], None)

    def end(
        self,
        state: Transactions,
        now: Now,
        transactional_id: str,
        asked: EndTransactionBody,
        fresh_id: ProducerId | None = None,
    ) -> Decision[TransactionalProducer]:
        """Decide the end of a producer's transaction; the same question again gets the same answer.

        Raises:
            FencedError: INVALID_PRODUCER_EPOCH.
            InvalidRequestError: INVALID_PRODUCER_ID_MAPPING; INVALID_TXN_STATE, it has ended otherwise.
            TransactionAbortedError: it was aborted because it took too long.
            NeedsProducerIdError: a `fresh_id` is needed.
        """
        known = state.by_id.get(transactional_id)
        if known is not None and is_of_last(known, asked.producer_id, asked.producer_epoch):
            return answer_again(known, asked, fresh_id)
        known = of_producer(state, transactional_id, asked.producer_id, asked.producer_epoch)
        if known.phase in ENDING:
            raise still_ending_error(transactional_id)
        if asked.committed and known.phase != "ongoing":
            raise InvalidRequestError(
                f"{transactional_id!r} has no transaction under way, so nothing to commit",
                code=ErrorCode.INVALID_TXN_STATE,
            )
        # One that never began ends, too: a batch of it may still be on its way.
        ended = decided_end(known, now, committed=asked.committed, fresh_id=fresh_id)
        return Decision([ended], producer_of(ended))

    def complete(self, state: Transactions, now: Now, asked: TransactionChanged) -> Decision[None]:
        """Learn that every partition and group has its marker.

        Args:
            asked: the end that was decided.
        """
        known = state.by_id.get(asked.transactional_id)
        if known is None or known != asked:
            return Decision([], None)
        ended = completed_end(known, now)
        return Decision([tombstone(ended) if is_passing(state, ended.transactional_id) else ended], None)

    def _check_init(self, transactional_id: str, timeout_ms: int) -> None:
        if not 0 < len(transactional_id.encode()) <= MAX_ID_BYTES:
            raise InvalidRequestError(
                f"transactional_id: expected 1 to {MAX_ID_BYTES} bytes, received {transactional_id!r:.80}"
            )
        if not 1 <= timeout_ms <= self._settings.max_timeout_ms:
            raise InvalidRequestError(
                f"timeout_ms: expected 1 to {self._settings.max_timeout_ms} (broker.transaction_max_timeout_ms), "
                f"received {timeout_ms}",
                code=ErrorCode.INVALID_TRANSACTION_TIMEOUT,
            )
