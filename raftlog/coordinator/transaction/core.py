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
from dataclasses import dataclass, field, replace

from raftlog.coordinator.runtime.codec import LogRecord, RecordCodec, Tombstone, tombstone
from raftlog.coordinator.runtime.core import Decision, Now
from raftlog.coordinator.transaction.records import TransactionChanged
from raftlog.errors import (
    ErrorCode,
    FencedError,
    InvalidRequestError,
    NotFoundError,
    RaftlogError,
    RetriableError,
    TransactionAbortedError,
)
from raftlog.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerEpoch, ProducerId
from raftlog.wire.transactions import EndTransactionBody, JoinTransactionRequest, TransactionalProducer

LAST_EPOCH = 2**15 - 1
"""The last epoch of a producer id: of markers only, so that every transaction has a later one to end with."""
MAX_PARTITIONS = 10_000
"""In one transaction."""
MAX_ID_BYTES = 249
_MAX_PER_TICK = 1_000
_IDLE = ("empty", "committed", "aborted")
_ENDING = ("committing", "aborting")


class NeedsProducerIdError(RaftlogError):
    """Decide again, with a fresh producer id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    """The broker's settings; see `BrokerConfig`."""

    max_timeout_ms: int = 900_000
    id_expiration_ms: int = 7 * 86_400_000


@dataclass(slots=True)
class Transactions:
    """The transactional ids of one shard."""

    by_id: dict[str, TransactionChanged] = field(default_factory=dict)
    ongoing: dict[str, None] = field(default_factory=dict)
    ending: dict[str, None] = field(default_factory=dict)
    """Whose markers have to be written."""

    def require(self, transactional_id: str) -> TransactionChanged:
        """Return what is known of a transactional id.

        Raises:
            NotFoundError: TRANSACTIONAL_ID_NOT_FOUND.
        """
        if (known := self.by_id.get(transactional_id)) is None:
            raise NotFoundError(
                f"transactional id {transactional_id!r} is not known: it never was, or was not used for long",
                code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
            )
        return known


class TransactionCoordinator:
    """Fits the protocol `Coordinator[Transactions]`, and decides what is asked."""

    codec = RecordCodec([TransactionChanged])

    def __init__(self, settings: TransactionSettings | None = None) -> None:
        self._settings = settings or TransactionSettings()

    def new_state(self) -> Transactions:
        """Return the state of an empty log."""
        return Transactions()

    def replay(self, state: Transactions, record: LogRecord) -> None:
        """Let a record take effect."""
        if isinstance(record, Tombstone):
            name = str(record.key[0])
            state.by_id.pop(name, None)
            _put(state.ongoing, name, within=False)
            _put(state.ending, name, within=False)
        elif isinstance(record, TransactionChanged):
            name = record.transactional_id
            state.by_id[name] = record
            _put(state.ongoing, name, within=record.phase == "ongoing")
            _put(state.ending, name, within=record.phase in _ENDING)

    def on_loaded(self, state: Transactions, now: Now) -> None:
        """All that matters is in the log."""

    def on_tick(self, state: Transactions, now: Now) -> list[LogRecord]:
        """Abort transactions that take too long; forget transactional ids that nobody has used for long."""
        records = list[LogRecord]()
        for known in (state.by_id[name] for name in state.ongoing):
            if known.began_ms + known.timeout_ms <= now.wall_ms and len(records) < _MAX_PER_TICK:
                records.append(_ended(known, now, committed=False, timed_out=True, fresh_id=None))
        if not records:
            records += self._expired(state, now)
        return records

    def _expired(self, state: Transactions, now: Now) -> Iterator[LogRecord]:
        limit, count = now.wall_ms - self._settings.id_expiration_ms, 0
        for known in state.by_id.values():
            if known.phase in _IDLE and known.changed_ms <= limit and count < _MAX_PER_TICK:
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
        if known is not None and known.phase in _ENDING:
            return Decision([], None)
        if known is not None and known.phase == "ongoing":
            # Its own producer is not told how it ended: a later one has its place.
            ended = replace(_ended(known, now, committed=False, fresh_id=fresh_id), ended_id=NO_PRODUCER_ID)
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
        known = _of_producer(state, asked.transactional_id, asked.producer_id, asked.producer_epoch)
        if known.phase in _ENDING:
            raise _still_ending(asked.transactional_id)
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
        if known is not None and _is_of_last(known, asked.producer_id, asked.producer_epoch):
            return _answer_again(known, asked, fresh_id)
        known = _of_producer(state, transactional_id, asked.producer_id, asked.producer_epoch)
        if known.phase in _ENDING:
            raise _still_ending(transactional_id)
        if asked.committed and known.phase != "ongoing":
            raise InvalidRequestError(
                f"{transactional_id!r} has no transaction under way, so nothing to commit",
                code=ErrorCode.INVALID_TXN_STATE,
            )
        # One that never began ends, too: a batch of it may still be on its way.
        ended = _ended(known, now, committed=asked.committed, fresh_id=fresh_id)
        return Decision([ended], _producer(ended))

    def complete(self, state: Transactions, now: Now, asked: TransactionChanged) -> Decision[None]:
        """Learn that every partition and group has its marker.

        Args:
            asked: the end that was decided.
        """
        known = state.by_id.get(asked.transactional_id)
        if known is None or known != asked:
            return Decision([], None)
        return Decision([_completed(known, now)], None)

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


def _put(names: dict[str, None], name: str, *, within: bool) -> None:
    if within:
        names[name] = None
    else:
        names.pop(name, None)


def _of_producer(
    state: Transactions, transactional_id: str, producer_id: ProducerId, producer_epoch: ProducerEpoch
) -> TransactionChanged:
    known = state.by_id.get(transactional_id)
    if known is not None and known.timed_out and _is_of_last(known, producer_id, producer_epoch):
        raise _timed_out(known)
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


def _is_of_last(known: TransactionChanged, producer_id: ProducerId, producer_epoch: ProducerEpoch) -> bool:
    """Tell whether these name the transaction whose end was decided last."""
    return producer_id >= 0 and (known.ended_id, known.ended_epoch) == (producer_id, producer_epoch)


def _answer_again(
    known: TransactionChanged, asked: EndTransactionBody, fresh_id: ProducerId | None
) -> Decision[TransactionalProducer]:
    if asked.committed == (known.phase in ("committing", "committed")):
        if known.producer_epoch < LAST_EPOCH:
            return Decision([], _producer(known))
        if known.phase in _ENDING:
            raise _still_ending(known.transactional_id)
        if fresh_id is None:
            raise NeedsProducerIdError("a producer id is needed")
        changed = replace(known, producer_id=fresh_id, producer_epoch=0)
        return Decision([changed], _producer(changed))
    if known.timed_out:
        raise _timed_out(known)
    raise InvalidRequestError(
        f"the transaction of {known.transactional_id!r} in epoch {asked.producer_epoch} is {known.phase} already",
        code=ErrorCode.INVALID_TXN_STATE,
    )


def _still_ending(transactional_id: str) -> RetriableError:
    return RetriableError(
        f"the last transaction of {transactional_id!r} is still being ended", code=ErrorCode.CONCURRENT_TRANSACTIONS
    )


def _timed_out(known: TransactionChanged) -> TransactionAbortedError:
    return TransactionAbortedError(
        f"the transaction of {known.transactional_id!r} was aborted, because it took longer than {known.timeout_ms} ms",
        details={"timeout_ms": known.timeout_ms},
    )


def _producer(known: TransactionChanged) -> TransactionalProducer:
    return TransactionalProducer(producer_id=known.producer_id, producer_epoch=known.producer_epoch)


def _ended(
    known: TransactionChanged, now: Now, *, committed: bool, fresh_id: ProducerId | None, timed_out: bool = False
) -> TransactionChanged:
    """Return a transaction's end, decided; without anybody to tell it is complete at once."""
    marker_epoch = known.producer_epoch + 1
    producer_id, epoch = known.producer_id, marker_epoch
    if marker_epoch >= LAST_EPOCH and not timed_out:
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
    return ended if ended.partitions or ended.groups else _completed(ended, now)


def _completed(known: TransactionChanged, now: Now) -> TransactionChanged:
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
