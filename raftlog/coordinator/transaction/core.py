"""The transaction coordinator's decisions. No IO, no clock.

    empty -> ongoing -> committing -> committed -> ongoing ...
                     -> aborting   -> aborted   -> ongoing ...

- A transaction begins when the first partition or group joins it. One record (`committing` or `aborting`) decides its
  end.
- Then markers are written to every partition and group that joined, with retries, also by the next coordinator. The
  next transaction may begin only after each of them has its marker.
- Every end gives the producer a new epoch (KIP-890), which the markers carry. A late batch, join or end has an old
  epoch and is refused, so it never touches the next transaction.
- Every init gives a new epoch, too. It fences the previous producer, and aborts its ongoing transaction.

Errors name the producer's next step: `INVALID_PRODUCER_EPOCH` (another producer has the transactional id: stop),
`TRANSACTION_ABORTABLE` (abort, and begin again), `CONCURRENT_TRANSACTIONS` (markers are being written: retry).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from raftlog.coordinator.runtime.codec import LogRecord, RecordCodec, tombstone
from raftlog.coordinator.runtime.core import Decision, Now
from raftlog.coordinator.transaction.held import require_given, require_sender, verify
from raftlog.coordinator.transaction.records import TransactionChanged, TransactionSetCommitted
from raftlog.coordinator.transaction.sets import first_of, is_passing, require_room
from raftlog.coordinator.transaction.state import ENDING, IDLE, Transactions
from raftlog.coordinator.transaction.transitions import (
    LAST_EPOCH,
    NeedsProducerIdError,
    complete_end,
    concurrent_transactions_error,
    is_last_ended,
    is_repeated_init,
    prepare_end,
    producer_of,
    repeat_end,
    require_producer,
)
from raftlog.errors import ErrorCode, InvalidRequestError, TransactionAbortedError
from raftlog.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerId
from raftlog.wire.transactions import (
    MAX_TAKING_PART,
    EndTransactionBody,
    JoinTransactionRequest,
    TransactionalProducer,
)

MAX_ID_BYTES = 249
MAX_EXPIRED = 1_000
"""The most records of one tick that delete what has expired."""
MAX_EXAMINED = 5_000
"""The most ids of one tick that are examined for expiry: each takes up to 0.5 µs of the event loop."""
EXPIRY_CHECK_MS = 10_000
"""The time between two checks of all ids for expiry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    """The broker's settings for transactions; see `BrokerConfig`."""

    max_timeout_ms: int = 900_000
    id_expiration_ms: int = 7 * 86_400_000


class TransactionCoordinator:
    """Implements `Coordinator[Transactions]`, and decides requests."""

    codec = RecordCodec([TransactionChanged, TransactionSetCommitted])

    def __init__(self, settings: TransactionSettings | None = None) -> None:
        self._settings = settings or TransactionSettings()

    def new_state(self) -> Transactions:
        """Return the state of an empty log."""
        return Transactions()

    def replay(self, state: Transactions, record: LogRecord) -> None:
        """Apply a record."""
        state.apply(record)

    def on_loaded(self, state: Transactions, now: Now) -> None:
        """Do nothing: there is no soft state."""

    def on_tick(self, state: Transactions, now: Now) -> list[LogRecord]:
        """Abort transactions that have timed out; delete transactional ids that have expired."""
        records = list[LogRecord]()
        late = (current for current in map(state.by_id.__getitem__, state.ongoing) if _is_late(state, current, now))
        for current in first_of(state, late):
            records.append(prepare_end(current, now, committed=False, fresh_id=None, renew=False, timed_out=True))
        if not records:
            records += self._expired(state, now)
        return records

    def is_behind(self, state: Transactions, now: Now) -> bool:  # noqa: ARG002
        """Return False: ticks come often enough."""
        return False

    def _expired(self, state: Transactions, now: Now) -> list[LogRecord]:
        """Return the tombstones of some ids that have expired; one call examines some ids, the next one continues."""
        if not state.unchecked:
            if now.monotonic_ms < state.expiry_due_ms:
                return []
            state.expiry_due_ms = now.monotonic_ms + EXPIRY_CHECK_MS
            state.unchecked = [*state.by_id, *(name for name in state.sets if name not in state.by_id)]
        limit, records, examined = now.wall_ms - self._settings.id_expiration_ms, list[LogRecord](), 0
        while state.unchecked and len(records) < MAX_EXPIRED and examined < MAX_EXAMINED:
            examined += 1
            name = state.unchecked.pop()
            current, last = state.by_id.get(name), state.sets.get(name)
            if current is not None and current.phase in IDLE and current.changed_ms <= limit:
                records.append(tombstone(current))
            if last is not None and last.changed_ms <= limit:
                records.append(tombstone(last))
        return records

    def init(
        self,
        state: Transactions,
        now: Now,
        transactional_id: str,
        timeout_ms: int,
        fresh_id: ProducerId | None = None,
        given: TransactionalProducer | None = None,
    ) -> Decision[TransactionalProducer | None]:
        """Give a producer a new epoch, which fences the previous one. None: retry, a transaction is being ended.

        Args:
            given: the identity that the producer has; it must still be the last one (KIP-360). A repeated request gets
                the same answer, until a transaction begins.

        Raises:
            FencedError: PRODUCER_FENCED: another producer has taken over the id since.
            InvalidRequestError: INVALID_TRANSACTION_TIMEOUT, or the id is not allowed.
            NeedsProducerIdError: a `fresh_id` is needed.
        """
        self._check_init(transactional_id, timeout_ms)
        current = state.by_id.get(transactional_id)
        require_given(current, given)
        if current is not None and current.phase in ENDING:
            return Decision([], None)
        if current is not None and given is not None and is_repeated_init(current, given):
            return Decision([], producer_of(current))
        if current is not None and current.phase == "ongoing":
            # The previous producer is fenced, so the end is not kept for a repeated request.
            # Held: the same producer sends this request again.
            ended = prepare_end(current, now, committed=False, fresh_id=fresh_id, held=given)
            ended = replace(ended, ended_id=NO_PRODUCER_ID)
            return Decision([replace(ended, ended_epoch=NO_PRODUCER_EPOCH)], None)
        if current is not None and current.producer_epoch < LAST_EPOCH - 1:
            producer_id, epoch = current.producer_id, current.producer_epoch + 1
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
            ended_id=given.producer_id if given else NO_PRODUCER_ID,
            ended_epoch=given.producer_epoch if given else NO_PRODUCER_EPOCH,
        )
        return Decision([changed], producer_of(changed))

    def join(self, state: Transactions, now: Now, request: JoinTransactionRequest) -> Decision[TransactionalProducer]:
        """Add partitions and groups to a producer's transaction, which begins with the first of them.

        Returns the producer id and epoch that the transaction has; the producer itself may send others (`held`).

        Raises:
            FencedError: INVALID_PRODUCER_EPOCH.
            InvalidRequestError: INVALID_PRODUCER_ID_MAPPING; INVALID_TXN_STATE: `verify_only`, and it is not added.
            TransactionAbortedError: the transaction timed out, or is too large.
            RetriableError: CONCURRENT_TRANSACTIONS: the last transaction is still being ended.
        """
        current = require_sender(state, request.transactional_id, request.producer_id, request.producer_epoch)
        if current.phase in ENDING:
            raise concurrent_transactions_error(request.transactional_id)
        if request.verify_only:
            return verify(current, request)
        partitions = tuple(dict.fromkeys((*current.partitions, *request.partitions)))
        groups = tuple(dict.fromkeys((*current.groups, *request.groups)))
        if len(partitions) + len(groups) > MAX_TAKING_PART:
            raise TransactionAbortedError(
                f"a transaction has at most {MAX_TAKING_PART} partitions and groups, received "
                f"{len(partitions) + len(groups)}: abort it, and commit earlier"
            )
        if (current.phase, partitions, groups) == ("ongoing", current.partitions, current.groups):
            return Decision([], producer_of(current))
        began_ms = current.began_ms if current.phase == "ongoing" else now.wall_ms
        changed = replace(
            current,
            phase="ongoing",
            partitions=partitions,
            groups=groups,
            began_ms=began_ms,
            changed_ms=now.wall_ms,
            ended_id=NO_PRODUCER_ID,
            ended_epoch=NO_PRODUCER_EPOCH,
            timed_out=False,
        )
        require_room(state, changed)
        return Decision([changed], producer_of(changed))

    def end(
        self,
        state: Transactions,
        now: Now,
        transactional_id: str,
        request: EndTransactionBody,
        fresh_id: ProducerId | None = None,
    ) -> Decision[TransactionalProducer]:
        """Decide the end of a producer's transaction. Idempotent: a repeated request gets the same response.

        Raises:
            FencedError: INVALID_PRODUCER_EPOCH.
            InvalidRequestError: INVALID_PRODUCER_ID_MAPPING; INVALID_TXN_STATE: the transaction had the other end.
            TransactionAbortedError: the transaction timed out and was aborted.
            RetriableError: CONCURRENT_TRANSACTIONS: the last transaction is still being ended.
            NeedsProducerIdError: a `fresh_id` is needed.
        """
        current = state.by_id.get(transactional_id)
        ended = current is not None and current.phase != "empty"
        if current is not None and ended and is_last_ended(current, request.producer_id, request.producer_epoch):
            return repeat_end(current, request, fresh_id)
        current = require_producer(state, transactional_id, request.producer_id, request.producer_epoch)
        if current.phase in ENDING:
            raise concurrent_transactions_error(transactional_id)
        if request.committed and current.phase != "ongoing":
            raise InvalidRequestError(
                f"{transactional_id!r} has no ongoing transaction to commit: it is {current.phase}",
                code=ErrorCode.INVALID_TXN_STATE,
            )
        # A transaction that has not begun is ended, too: its first batch may still be in flight.
        changed = prepare_end(current, now, committed=request.committed, fresh_id=fresh_id)
        return Decision([changed], producer_of(changed))

    def complete(self, state: Transactions, now: Now, decided: TransactionChanged) -> Decision[None]:
        """Complete a transaction: every partition and group has its marker.

        Args:
            decided: the end that was decided; ignored if it is not the current one.
        """
        current = state.by_id.get(decided.transactional_id)
        if current is None or current != decided:
            return Decision([], None)
        ended = complete_end(current, now)
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


def _is_late(state: Transactions, current: TransactionChanged, now: Now) -> bool:
    """Return whether a transaction has timed out.

    If it began in the future, the clock of the broker that began it was ahead. Its time is counted from when this
    coordinator first sees that.
    """
    if current.began_ms <= now.wall_ms:
        return current.began_ms + current.timeout_ms <= now.wall_ms
    name, unseen = current.transactional_id, (current.began_ms, now.monotonic_ms)
    began_ms, seen_ms = state.ahead.setdefault(name, unseen)
    if began_ms != current.began_ms:  # Of the transaction before.
        state.ahead[name] = unseen
        return False
    return seen_ms + current.timeout_ms <= now.monotonic_ms
