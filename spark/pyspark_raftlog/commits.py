"""Exactly once: what the tasks of a job, or of a micro-batch, have written counts as a whole, and once.

Each attempt of a task writes in a transaction of its own, which it leaves open. The driver's `commit` has the
coordinator end them all in one decision (a *transaction set*, docs/explanation/transactions.md): those of the attempts
that Spark has chosen commit, what other attempts left is aborted. The decision carries the micro-batch's number, so a
batch that Spark does again, because the driver died after it, is not committed again: tasks that find their number
done write nothing. docs/adr/0013-a-spark-sink-that-is-exactly-once.md has the argument.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import NAMESPACE_URL, uuid4, uuid5

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from pyspark_raftlog.cluster import Cluster
from pyspark_raftlog.sink import MAX_ID_BYTES
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
"""Local properties of tasks that belong to a micro-batch; the query's id stays when it is started again."""


@dataclass(frozen=True, slots=True)
class Work:
    """What is committed as one."""

    set_id: str
    run: str
    number: int
    passing: bool = False
    """Nothing will be written under this set's ids again."""
    formerly: str = ""
    """The set of older versions, which a batch that is done again after an upgrade may have been committed under."""

    def member_id(self, attempt: str) -> str:
        """Return the transactional id under which an attempt of a task writes."""
        return f"{self.set_id}{SET_SEPARATOR}{attempt}"


@dataclass
class Written(WriterCommitMessage):  # type: ignore[misc] # pyspark is untyped here
    """What one task has written."""

    records: int
    work: Work | None = None
    """None: it counts already (at least once)."""
    member: SetMember | None = None
    """Its transaction, if it wrote anything."""
    was_done: bool = False
    """It wrote nothing, because the work was found committed."""


def batch_work(transactional_id: str | None) -> Work:
    """Return what a batch query commits. Called once for each query, on the driver.

    Args:
        transactional_id: the user's, and where the rows go; see `SinkOptions.batch_id`.
    """
    name = uuid4().hex
    return Work(transactional_id or f"spark-{name}", run=name, number=0, passing=transactional_id is None)


def micro_batch_work(transactional_id: str | None, topic: str | None = None) -> Work | None:
    """Return what this task's micro-batch commits; None if the task belongs to none.

    Args:
        topic: part of the query's own name, so that a copy of its checkpoint can write elsewhere; None: the column's.
    """
    context = TaskContext.get()
    if context is None or (batch_id := context.getLocalProperty(BATCH_ID)) is None:
        return None
    query_id = context.getLocalProperty(QUERY_ID)
    if transactional_id is not None:
        return Work(transactional_id, run=query_id, number=int(batch_id))
    return query_work(query_id, int(batch_id), topic)


def query_work(query_id: str, number: int, topic: str | None) -> Work:
    """Return what a micro-batch commits under the query's own name."""
    formerly = f"spark-{query_id}"
    name = f"{formerly}/{topic or '*'}"
    if len(name) > MAX_ID_BYTES:
        name = f"{formerly}/{uuid5(NAMESPACE_URL, name).hex}"
    return Work(name, run=query_id, number=number, formerly=formerly)


def this_attempt() -> str:
    """Name this attempt of this task: no other of the same job that runs has the same name."""
    context = TaskContext.get()
    assert context is not None
    return f"{context.partitionId()}.{context.attemptNumber()}"


async def begin(cluster: Cluster, transactional_id: str, *, timeout_ms: int) -> SetMember:
    """Give a task an identity to write under; what an earlier attempt left under it is aborted."""
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


async def is_done(cluster: Cluster, work: Work) -> bool:
    """Tell whether this was committed before, by a driver that died before it could note that."""
    last = await _last(cluster, work.set_id)
    if not last.run and work.formerly:
        last = await _last(cluster, work.formerly)
    return last.run == work.run and last.number >= work.number


async def _last(cluster: Cluster, set_id: str) -> TransactionSetInfo:
    path = paths.fill(paths.TRANSACTION_SET, set_id=set_id)
    return await cluster.ask_coordinator(TransactionSetInfo, "GET", set_id, path)


async def end(cluster: Cluster, work: Work, members: Sequence[SetMember], *, committed: bool) -> None:
    """Commit `members` and abort all else of the set, or abort everything.

    Raises:
        RaftlogError: nothing was committed.
        RetriableError: no answer in time: nothing was committed, or everything.
    """
    asked = EndSetBody(
        run=work.run, number=work.number, members=tuple(members), committed=committed, passing=work.passing
    )
    path = paths.fill(paths.END_TRANSACTION_SET, set_id=work.set_id)
    await cluster.ask_coordinator(TransactionSetInfo, "POST", work.set_id, path, message=asked)


async def commit(cluster: Cluster, messages: Sequence[Written | None]) -> None:
    """End what the tasks of a job have begun. Without rows there is nothing to end."""
    written = [message for message in messages if message is not None]
    members = [message.member for message in written if message.member is not None]
    if done := [message.work for message in written if message.was_done and message.work is not None]:
        _log.warning(
            "micro-batch %d was committed under %r before, so nothing was written: right if the batch is done again; "
            "two writes to one topic in a micro-batch need two transactionalIds",
            done[0].number,
            done[0].set_id,
        )
    if members:
        work = next(message.work for message in written if message.work is not None)
        await end(cluster, work, members, committed=True)


async def abort(cluster: Cluster, work: Work | None) -> None:
    """Abort what tasks have begun and nobody committed. Spark calls this also when `commit` raised, whatever it did."""
    if work is not None:
        await end(cluster, work, (), committed=False)
