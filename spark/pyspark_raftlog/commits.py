"""Exactly-once commits: the output of a job's or a micro-batch's tasks becomes visible as a whole, and once.

Each attempt of a task writes in its own transaction, which it leaves open. The driver's `commit` has the coordinator
end all of them in one decision (a *transaction set*, docs/explanation/transactions.md): it commits the attempts that
Spark chose and aborts the others. The decision stores the micro-batch's number, so a batch that Spark repeats after a
crash of the driver is not committed again: tasks write nothing if their number is done. The number is in local
properties of Spark, which other threads than `foreachBatch`'s do not have, or in the option `batchId`. The argument is
in docs/adr/0013-a-spark-sink-that-is-exactly-once.md.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple
from uuid import NAMESPACE_URL, uuid4, uuid5

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from pyspark_raftlog.cluster import Cluster
from pyspark_raftlog.sink import MAX_ID_BYTES, SinkOptions
from raftlog.errors import ConfigError, RetriableError, UnknownOutcomeError
from raftlog.wire import paths
from raftlog.wire.transactions import (
    SET_SEPARATOR,
    EndSetBody,
    InitTransactionsBody,
    SetMember,
    TransactionalProducer,
    TransactionSetInfo,
)

_log = logging.getLogger(__name__)
QUERY_ID, BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"
"""Local properties of a micro-batch's tasks; the query's id stays the same after a restart."""
STREAMS_SESSION = "spark.sql.streaming.internal.stateStore.partitions"
"""A setting that Spark itself makes, in the sessions of streaming queries only; tasks have it as a local property."""
STATED = "batchId"
"""The run of all numbers that the option `batchId` states: threads do not know the query's id."""


@dataclass(frozen=True, slots=True)
class Work:
    """The unit of a commit: a batch query or a micro-batch."""

    set_id: str
    run: str
    number: int
    passing: bool = False
    """Whether this set's ids are never used again."""
    formerly: str = ""
    """The set id of older versions, under which a batch repeated after an upgrade may have been committed."""
    former_run: str = ""
    """The run of this number before the user stated it; empty: not known."""
    is_uncounted: bool = False
    """Whether this is a write in a streaming query's session without a number: it is written again if repeated."""

    def member_id(self, attempt: str) -> str:
        """Return the transactional id under which an attempt of a task writes."""
        return f"{self.set_id}{SET_SEPARATOR}{attempt}"


@dataclass
class Written(WriterCommitMessage):  # type: ignore[misc] # pyspark is untyped here
    """The result of one task."""

    records: int
    work: Work | None = None
    """None: the records are visible already (at least once)."""
    member: SetMember | None = None
    """The task's transaction; None if it wrote nothing."""
    was_done: bool = False
    """Whether it wrote nothing because the work was committed before."""


def batch_work(set_id: str | None, number: int | None = None, *, formerly: str = "") -> Work:
    """Return the commit unit of a batch query. Called once for each query, on the driver.

    A query without a number has a set of its own. Otherwise its decision would replace the one with the last number,
    and a repeated micro-batch would be committed again.

    Args:
        set_id: from the user's id and the target topic; see `SinkOptions.batch_set_id`.
        number: the number of its micro-batch, as the user states it.
        formerly: the set id of earlier versions.
    """
    name = uuid4().hex
    if set_id is None:
        return Work(f"spark-{name}", run=name, number=0, passing=True)
    if number is None:
        return Work(f"{set_id}/~batch", run=name, number=0)  # No topic has this name.
    return Work(set_id, run=STATED, number=number, formerly=formerly)


def work_of_task(options: SinkOptions, work: Work) -> Work:
    """Return the commit unit of a batch write as its task knows it: perhaps with the micro-batch's number.

    Args:
        work: of the driver.

    Raises:
        ConfigError: the option `batchId` states another number than that of the thread which started the task.
    """
    if (set_id := options.batch_set_id) is None:
        return work
    found, stated = this_micro_batch(), options.batch_id
    if found is None:
        return replace(work, is_uncounted=stated is None and is_in_stream())
    if stated is None:
        return Work(set_id, run=found.query_id, number=found.number, formerly=options.earlier_batch_set_id)
    if stated != found.number:
        raise ConfigError(
            f"option 'batchId' is {stated}, and the thread that started this write belongs to micro-batch "
            f"{found.number}: pass the batch_id that foreachBatch was called with. A thread that outlives its "
            "micro-batch keeps the old number: use pyspark.inheritable_thread_target for each micro-batch"
        )
    return replace(work, former_run=found.query_id)


def works_to_abort(options: SinkOptions, work: Work) -> Sequence[Work]:
    """Return what the tasks of a batch write may have begun, where none of them has ended: see `work_of_task`."""
    if (set_id := options.batch_set_id) is None or set_id == work.set_id:
        return [work]
    return [work, replace(work, set_id=set_id)]


def micro_batch_work(transactional_id: str | None, topic: str | None) -> Work | None:
    """Return the commit unit of a stream's sink for this task's micro-batch; None if the task belongs to none.

    Args:
        topic: part of the query's own name, so that a copy of its checkpoint can write to another topic; None: topics
            come from the column.
    """
    if (found := this_micro_batch()) is None:
        return None
    if transactional_id is not None:
        return Work(transactional_id, run=found.query_id, number=found.number)
    return query_work(found.query_id, found.number, topic)


class MicroBatch(NamedTuple):
    """One micro-batch of a streaming query."""

    query_id: str
    number: int


def this_micro_batch() -> MicroBatch | None:
    """Return the micro-batch of the task that runs here; None if the thread that started it does not know of one."""
    context = TaskContext.get()
    if context is None or (number := context.getLocalProperty(BATCH_ID)) is None:
        return None
    return MicroBatch(context.getLocalProperty(QUERY_ID), int(number))


def is_in_stream() -> bool:
    """Return whether this task reads or writes in the session of a streaming query, as frames of `foreachBatch` do."""
    context = TaskContext.get()
    return context is not None and context.getLocalProperty(STREAMS_SESSION) is not None


def query_work(query_id: str, number: int, topic: str | None) -> Work:
    """Return the commit unit of a micro-batch under the query's own name."""
    formerly = f"spark-{query_id}"
    name = f"{formerly}/{topic or '*'}"
    if len(name) > MAX_ID_BYTES:
        name = f"{formerly}/{uuid5(NAMESPACE_URL, name).hex}"
    return Work(name, run=query_id, number=number, formerly=formerly)


class Attempt(NamedTuple):
    """One attempt of a task."""

    name: str
    """Its partition and number, which each job, and each attempt of a stage, gives again."""
    task_id: int = 0
    """Spark's id of the attempt, unique in the application."""


def this_attempt() -> Attempt:
    """Return the task attempt that runs here."""
    context = TaskContext.get()
    assert context is not None
    return Attempt(f"{context.partitionId()}.{context.attemptNumber()}", context.taskAttemptId())


async def begin(cluster: Cluster, work: Work, attempt: Attempt, *, timeout_ms: int) -> SetMember:
    """Return a transactional id, producer id and epoch for an attempt; no other attempt of its job is fenced.

    Spark numbers the attempts of a repeated stage from 0 again, while it may have accepted attempts of the stage
    before, or still wait for them. An id whose transaction is open is therefore left alone: the commit aborts it, or
    commits it if Spark chose that attempt. Other ids are used again, because partitions remember each producer.
    """
    transactional_id = work.member_id(attempt.name)
    if work.passing or await _is_open(cluster, transactional_id):
        transactional_id = f"{transactional_id}.{attempt.task_id}"
    made = await cluster.ask_coordinator(
        TransactionalProducer,
        "POST",
        transactional_id,
        paths.fill(paths.INIT_TRANSACTIONS, transactional_id=transactional_id),
        message=InitTransactionsBody(timeout_ms=timeout_ms),
    )
    return SetMember(
        transactional_id=transactional_id, producer_id=made.producer_id, producer_epoch=made.producer_epoch
    )


async def _is_open(cluster: Cluster, transactional_id: str) -> bool:
    known = await cluster.transaction(transactional_id)
    return known is not None and known.phase == "ongoing"


async def is_done(cluster: Cluster, work: Work) -> bool:
    """Return whether this was committed before, by a driver that crashed before it stored that.

    Raises:
        ConfigError: the user states a number below the last one, which no repeated micro-batch has.
    """
    last = await _last(cluster, work.set_id)
    if not last.run and work.formerly:
        last = await _last(cluster, work.formerly)
    if work.run == last.run == STATED and last.number > work.number:
        raise ConfigError(
            f"option 'batchId': received {work.number}, and micro-batch {last.number} was committed under "
            f"{work.set_id!r} before. A query with a new checkpoint counts from 0 again: give it a new transactionalId"
        )
    return bool(last.run) and last.run in (work.run, work.former_run) and last.number >= work.number


async def _last(cluster: Cluster, set_id: str) -> TransactionSetInfo:
    path = paths.fill(paths.TRANSACTION_SET, set_id=set_id)
    return await cluster.ask_coordinator(TransactionSetInfo, "GET", set_id, path)


async def end(cluster: Cluster, work: Work, members: Sequence[SetMember], *, committed: bool) -> None:
    """Commit `members` and abort the rest of the set, or abort everything.

    Raises:
        RaftlogError: nothing was committed.
        RetriableError: no answer before the timeout: nothing was committed, or everything.
    """
    body = EndSetBody(
        run=work.run, number=work.number, members=tuple(members), committed=committed, passing=work.passing
    )
    path = paths.fill(paths.END_TRANSACTION_SET, set_id=work.set_id)
    await cluster.ask_coordinator(TransactionSetInfo, "POST", work.set_id, path, message=body)


async def commit(cluster: Cluster, messages: Sequence[Written | None]) -> None:
    """Commit the transactions of a job's tasks. Without rows, do nothing."""
    written = [message for message in messages if message is not None]
    members = [message.member for message in written if message.member is not None]
    if done := [message.work for message in written if message.was_done and message.work is not None]:
        _log.warning(
            "micro-batch %d was committed under %r before, so nothing was written: correct if Spark repeats the batch; "
            "two writes to one topic in a micro-batch need two transactionalIds, and a query with a batchId needs "
            "another one after its checkpoint was deleted",
            done[0].number,
            done[0].set_id,
        )
    if uncounted := [message.work for message in written if message.work is not None and message.work.is_uncounted]:
        _log.warning(
            "a write under %r runs in a streaming query's session, and the number of its micro-batch is not known: a "
            "repeated micro-batch writes its rows again. Set .option('batchId', batch_id), or start the thread of the "
            "write with pyspark.inheritable_thread_target",
            uncounted[0].set_id,
        )
    if members:
        work = next(message.work for message in written if message.work is not None)
        try:
            await end(cluster, work, members, committed=True)
        except RetriableError as error:
            raise UnknownOutcomeError(
                f"the rows under {work.set_id!r} may be committed or not: {error.message}. A stream that is restarted "
                "counts them once. Before you run a batch query again, look whether its rows are there"
            ) from error


async def abort(cluster: Cluster, work: Work) -> None:
    """Abort the tasks' open transactions. Spark also calls this after `commit` raised, whatever its outcome."""
    await end(cluster, work, (), committed=False)
