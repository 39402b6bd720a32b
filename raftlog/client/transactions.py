"""A producer's transactions: all records of a transaction become visible, or none (KIP-98, KIP-890).

The coordinator assigns producer id and epoch; each end of a transaction returns the next epoch. Partition leaders
register their partitions with the coordinator themselves. An error is *abortable* (the transaction is aborted and the
next one may begin) or *fatal* (another producer has the transactional id, and this one must be closed).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from types import TracebackType
from typing import Literal, Protocol, Self, TypeAlias, TypeVar

from raftlog.client.connection import Connection, countdown
from raftlog.client.coordinator_link import CoordinatorLink
from raftlog.client.core.membership import GroupMetadata
from raftlog.client.offsets import OffsetAndMetadata, OffsetsToCommit, as_read, full, on_the_wire
from raftlog.client.producer_settings import ProducerSettings
from raftlog.client.recreated_topics import final_errors
from raftlog.errors import (
    ConfigError,
    ErrorCode,
    FencedError,
    RaftlogError,
    RetriableError,
    TransactionAbortedError,
    TransactionInDoubtError,
    UnknownOutcomeError,
)
from raftlog.model import TopicPartition
from raftlog.wire import paths
from raftlog.wire.groups import OffsetResults, commit_message
from raftlog.wire.transactions import (
    EndTransactionBody,
    InitTransactionsBody,
    TransactionalProducer,
    TransactionOffsetsBody,
)

T = TypeVar("T")
ATTEMPT_TIMEOUT_MS = 5_000
RETRY_MS = 100
State: TypeAlias = Literal["new", "beginning", "ready", "in transaction", "failed", "ending", "fenced"]
_FENCING = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING})
_log = logging.getLogger(__name__)


class TransactionalRecords(Protocol):
    """A producer's records, as its transactions see them."""

    @property
    def used(self) -> bool:
        """Whether a batch was sent under the current identity."""
        ...

    def begin_epoch(self, producer: TransactionalProducer) -> None:
        """Use this producer id and epoch from now on, each partition from sequence 0."""
        ...

    async def flush(self) -> None:
        """Return once every queued record has an outcome."""
        ...

    async def discard(self, error: RaftlogError) -> None:
        """Fail the queued records; return once no batch is in flight."""
        ...


class TransactionManager:
    """The transactions of one producer, one at a time.

    A request to the coordinator may take `delivery_timeout_ms`, attempts included; the abort after a cancellation
    `close_timeout_ms`.
    """

    def __init__(self, connection: Connection, records: TransactionalRecords, settings: ProducerSettings) -> None:
        self._records = records
        self.transactional_id = settings.transactional_id
        self.state: State = "new"
        self._connection = connection
        self._transaction_timeout_ms = settings.transaction_timeout_ms
        self._timeout_ms = settings.delivery_timeout_ms
        self._hurry_s = settings.close_timeout_ms / 1000
        self._producer: TransactionalProducer | None = None
        self._failure: RaftlogError | None = None
        self._has_offsets = False
        self._in_doubt = False
        """Whether an end request had an unknown outcome."""
        self._ended: Literal["", "committed", "aborted"] = ""
        self.closing = False
        """Whether the producer is being closed, which aborts."""
        self._commit_requested = False
        """Whether the coordinator was asked to commit the current transaction."""
        self._aborting: asyncio.Future[None] | None = None
        self._link = CoordinatorLink(connection, "transaction", settings.transactional_id)

    def transaction(self) -> Transaction:
        """Return a transaction, which begins when its block does."""
        return Transaction(self)

    def require_open(self) -> None:
        """Raise unless a transaction is open and can still be committed.

        Raises:
            RuntimeError: no transaction is open.
            TransactionAbortedError, FencedError: the open transaction has failed.
        """
        if self.state == "failed":
            raise self._aborted()
        if self.state != "in transaction":
            raise RuntimeError(
                f"the producer has a transactional_id and its state is {self.state!r}: send within "
                "'async with producer.transaction()'"
            )

    def fail(self, error: RaftlogError) -> None:
        """Note that a record failed: the transaction can only be aborted."""
        if self.state == "in transaction":
            self.state, self._failure = "failed", error
        elif self.state == "ending" and self._failure is None:
            self._failure = error

    async def init(self) -> None:
        """Take the transactional id over now, rather than with the first transaction; see `Producer`."""
        await self._left()
        if self.state == "fenced":
            raise self._fenced()
        if self.state == "beginning":
            raise RuntimeError("the transactional id is being taken over already: wait for that")
        if self.state == "new":
            await self._init()
            self.state = "ready"

    async def begin(self) -> None:
        """Begin a transaction.

        Raises:
            RuntimeError: one is under way.
            FencedError: another producer has this transactional id.
            RaftlogError: the coordinator refused, or could not be reached in time.
        """
        await self._left()
        if self.state == "fenced":
            raise self._fenced()
        if self.state not in ("new", "ready"):
            raise RuntimeError(f"a producer has one transaction at a time, and its state is {self.state!r}")
        if self.state == "new":
            await self._init()
        assert self._producer is not None
        self._records.begin_epoch(self._producer)
        self.state, self._failure, self._has_offsets = "in transaction", None, False
        self._commit_requested, self._ended = False, ""

    async def _init(self) -> None:
        """Request producer id and epoch, which aborts an open transaction of this transactional id."""
        self.state = "beginning"
        try:
            body = InitTransactionsBody(timeout_ms=self._transaction_timeout_ms)
            self._producer = await self._ask(TransactionalProducer, paths.INIT_TRANSACTIONS, body)
        finally:
            if self.state == "beginning":  # Not fenced.
                self.state = "new"

    async def send_offsets(self, offsets: OffsetsToCommit, group: GroupMetadata) -> None:
        """Commit a group's offsets with the transaction; see `Transaction.send_offsets`."""
        self.require_open()
        assert self._producer is not None
        chosen = as_read(full(offsets), group.epochs_read)
        body = TransactionOffsetsBody(
            group_id=group.group_id,
            producer_id=self._producer.producer_id,
            producer_epoch=self._producer.producer_epoch,
            offsets=on_the_wire(chosen),
            member_id=group.member_id,
            member_epoch=group.member_epoch,
        )
        self._has_offsets = True
        try:
            await self._send_offsets(chosen, body)
        except asyncio.CancelledError:
            why = "send_offsets was cancelled, so the group's offsets may be missing in the transaction"
            self.fail(UnknownOutcomeError(why))
            raise
        except RaftlogError as error:
            self.fail(error)
            raise

    async def _send_offsets(
        self, chosen: Mapping[TopicPartition, OffsetAndMetadata], body: TransactionOffsetsBody
    ) -> None:
        """Send offsets; once more while the coordinator does not know a topic's id that the metadata has."""
        link, left_ms = CoordinatorLink(self._connection, "group", body.group_id), countdown(self._timeout_ms)
        while True:
            message = commit_message(body, self._connection.feature_level)
            results = await self._persist(link, OffsetResults, paths.TRANSACTION_OFFSETS, message)
            refused = {
                TopicPartition(one.topic, one.partition): one.error.to_error() for one in results.offsets if one.error
            }
            if not refused:
                return
            final = await final_errors(self._connection, chosen, refused)
            for error in final.values() or (refused.values() if left_ms() <= RETRY_MS else ()):
                raise error
            await asyncio.sleep(RETRY_MS / 1000)

    async def commit(self) -> None:
        """Send the queued records, and commit.

        Raises:
            TransactionAbortedError: the transaction was aborted; run it again.
            FencedError: another producer has this transactional id; the transaction is aborted.
            UnknownOutcomeError: no answer that tells came before the timeout, or before another producer took over; the
                transaction may be committed or not.
        """
        if self.state == "in transaction" and not self.closing:
            self.state = "ending"
            await self._records.flush()
        if self.closing:  # It fails queued records, of which no other trace is left.
            raise self._closed()
        if self._failure is not None:
            await self._abort()
            raise self._aborted()
        if not self._is_used:
            self.state = "ready"
            return
        try:
            await self._end(committed=True)
        except FencedError as error:
            if not self._in_doubt:
                raise
            raise UnknownOutcomeError(
                "the transaction may be committed or not: the coordinator did not answer before another producer took "
                f"over the transactional id {self.transactional_id!r}: close this one"
            ) from error
        except RaftlogError as error:
            if self._in_doubt or isinstance(error, RetriableError):  # An attempt without an answer may have committed.
                self.state = "new"  # The next one begins with init_transactions, which ends this one if it is open.
                raise UnknownOutcomeError(
                    f"the transaction may be committed or not: the coordinator did not confirm it: {error.message}"
                ) from error
            raise await self._refused(error) from error

    async def _refused(self, error: RaftlogError) -> RaftlogError:
        """Abort after a commit was refused; return what that means for the transaction."""
        self._failure = error
        if _is_expired(error):  # Nothing is open; the next transaction begins with init_transactions.
            self.state = "new"
            return self._aborted()
        await self._abort()
        if self._ended == "aborted":
            return self._aborted()
        return UnknownOutcomeError(  # The commit may have been carried out, whatever its answer said.
            f"the transaction may be committed or not: its commit was refused ({error.message}), and then the "
            "coordinator did not confirm an abort"
        )

    async def abort(self, *, is_hurried: bool = False) -> None:
        """Abort. It does not raise: if the coordinator does not answer, the next transaction's begin aborts."""
        if self.state in ("in transaction", "failed", "ending"):
            try:
                await (self._abort_in_a_hurry() if is_hurried else self._abort())
            except asyncio.CancelledError:
                self.state = "new"  # The next one begins with init_transactions, which aborts.
                raise

    async def leave(self, *, is_hurried: bool) -> None:
        """Abort; after a cancellation that goes on for `close_timeout_ms`, and the next transaction waits for it."""
        self._aborting = asyncio.ensure_future(self.abort(is_hurried=is_hurried))
        try:
            await asyncio.shield(self._aborting)
        except asyncio.CancelledError:
            asyncio.get_running_loop().call_later(self._hurry_s, self._aborting.cancel)
            raise

    async def _left(self) -> None:
        """Wait for an abort whose caller was cancelled."""
        if self._aborting is not None and not self._aborting.done():
            await asyncio.wait([self._aborting])

    async def _abort_in_a_hurry(self) -> None:
        try:
            async with asyncio.timeout(self._hurry_s):
                await self._abort()
        except TimeoutError:
            _log.warning(
                "transaction of %r: could not be aborted within %.1f s; the next one's begin aborts it",
                self.transactional_id,
                self._hurry_s,
            )
            self.state = "new"

    def explain(self, error: BaseException | None) -> None:
        """Raise what a leader's refusal of the identity meant, after an abort.

        A leader refuses the epoch of a timed-out transaction and of a replaced producer with the same error. Only the
        coordinator distinguishes them.

        Raises:
            FencedError: PRODUCER_FENCED.
            TransactionAbortedError: the transactional id had expired; the next transaction takes it again.
        """
        if self.state == "fenced" and isinstance(error, FencedError) and error.code in _FENCING:
            raise self._fenced() from error
        is_unknown = isinstance(error, RaftlogError) and error.code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if is_unknown and self._failure is not None and _is_expired(self._failure):
            raise self._aborted() from error

    async def abort_commit(self) -> None:
        """Abort after a commit that was cancelled; see `leave`.

        Raises:
            TransactionInDoubtError: a commit was requested, and the coordinator did not confirm an abort.
        """
        try:
            await self.leave(is_hurried=True)
        except asyncio.CancelledError as error:
            if self._commit_requested and self._ended != "aborted":
                raise self._in_doubt_error() from error
            raise
        if self._commit_requested and self._ended != "aborted":
            raise self._in_doubt_error()

    def _in_doubt_error(self) -> TransactionInDoubtError:
        return TransactionInDoubtError(
            f"the transaction of {self.transactional_id!r} was cancelled while it committed: it may be committed or "
            "not. Read its output before you run it again"
        )

    @property
    def _is_used(self) -> bool:
        """Whether the coordinator may have registered the transaction."""
        return self._records.used or self._has_offsets

    async def _abort(self) -> None:
        self.state = "ending"
        await self._records.discard(TransactionAbortedError("the transaction was aborted"))
        if not self._is_used:
            self.state = "ready"
            return
        try:
            await self._end(committed=False)
        except FencedError as error:
            self._failure = error
        except RaftlogError as error:
            if _is_expired(error):
                self._failure = error
            else:
                _log.warning("transaction of %r: could not be aborted now: %s", self.transactional_id, error.message)
            self.state = "new"

    async def _end(self, *, committed: bool) -> None:
        assert self._producer is not None
        body = EndTransactionBody(
            producer_id=self._producer.producer_id,
            producer_epoch=self._producer.producer_epoch,
            committed=committed,
        )
        self._in_doubt, self._commit_requested = False, self._commit_requested or committed
        self._producer = await self._ask(TransactionalProducer, paths.END_TRANSACTION, body, distrusted=committed)
        self.state, self._ended = "ready", "committed" if committed else "aborted"

    async def _ask(self, cls: type[T], path: str, body: object, *, distrusted: bool = False) -> T:
        """Send a request to the transactional id's coordinator until it answers or the timeout passes."""
        try:
            return await self._persist(self._link, cls, path, body, distrusted=distrusted)
        except RaftlogError as error:
            if error.code in _FENCING and not _is_expired(error):
                self.state = "fenced"
                raise self._fenced() from error
            raise

    async def _persist(
        self, link: CoordinatorLink, cls: type[T], path: str, body: object, *, distrusted: bool = False
    ) -> T:
        return await link.persist(
            cls,
            "POST",
            paths.fill(path, transactional_id=self.transactional_id),
            timeout_ms=self._timeout_ms,
            attempt_timeout_ms=ATTEMPT_TIMEOUT_MS,
            message=lambda: body,
            distrusted=distrusted,
            on_doubt=self._doubt,
        )

    def _doubt(self, _: UnknownOutcomeError) -> None:
        self._in_doubt = True

    def _aborted(self) -> RaftlogError:
        if isinstance(self._failure, FencedError) and self.state == "fenced":
            return self._fenced()
        reason = self._failure.message if self._failure else "it was asked for"
        error = TransactionAbortedError(f"the transaction was aborted, run it again: {reason}")
        error.__cause__ = self._failure
        return error

    def _closed(self) -> RaftlogError:
        if self.state == "fenced":
            return self._fenced()
        return TransactionAbortedError(
            "the transaction was aborted: the producer was closed before the block had committed. Run the block again "
            "with another producer, and close that one after the block"
        )

    def _fenced(self) -> FencedError:
        return FencedError(
            f"another producer has taken over the transactional id {self.transactional_id!r}: close this one",
            code=ErrorCode.PRODUCER_FENCED,
        )


def _is_expired(error: RaftlogError) -> bool:
    """Return whether the coordinator has forgotten the id of a producer that was idle: no other one has it."""
    return error.code is ErrorCode.INVALID_PRODUCER_ID_MAPPING and bool(error.details.get("expired"))


class Transaction:
    """One transaction: commits when the block ends, aborts when the block raises.

    Raises:
        TransactionAbortedError: the block's end found the transaction aborted; run the block again.
        FencedError: another producer has this transactional id; close this one.
        UnknownOutcomeError: no answer came in time, or before another producer took over; the transaction may be
            committed or not.
        TransactionInDoubtError: the block was cancelled while it committed; the transaction may be committed or not.
            This error takes the place of `CancelledError`, which means that the transaction is aborted.
    """

    def __init__(self, manager: TransactionManager) -> None:
        self._manager = manager

    async def send_offsets(
        self,
        offsets: OffsetsToCommit,
        group: GroupMetadata | str,
    ) -> None:
        """Commit a group's offsets with the transaction: input offsets and output records become visible together.

        Args:
            offsets: for each (topic, partition), the offset of the next record to read.
            group: `Consumer.group_metadata` of the member that has read the records; a member that has lost its
                partitions is refused. A group's name alone is enough where partitions are assigned by hand.

        Raises:
            TransactionAbortedError, FencedError: the transaction cannot be committed any more.
            RaftlogError: the offsets were refused; the transaction can only be aborted.
        """
        named = GroupMetadata(group) if isinstance(group, str) else group
        if not isinstance(named, GroupMetadata):
            raise ConfigError(f"group: expected Consumer.group_metadata or a group's name, received {group!r:.80}")
        await self._manager.send_offsets(offsets, named)

    async def __aenter__(self) -> Self:
        await self._manager.begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            is_hurried = not issubclass(kind, Exception)  # Cancelled, Ctrl-C, the program's end.
            await self._manager.leave(is_hurried=is_hurried)
            self._manager.explain(error)
            return
        try:
            await self._manager.commit()
        except asyncio.CancelledError:
            await self._manager.abort_commit()
            raise
