"""Batches of a transaction that was aborted in a hurry: their late answers change nothing in the next transaction."""

from __future__ import annotations

import asyncio

import pytest

from raftlog import Producer
from raftlog.client.core.accumulator import Accumulator
from raftlog.client.core.pending_batch import PendingBatch, ProducerIdentity
from raftlog.client.record_outcomes import RecordMetadata
from raftlog.errors import ErrorCode, FencedError, RaftlogError, StaleRouteError, TransactionAbortedError
from raftlog.model import TopicPartition
from raftlog.record import NewRecord

P0 = TopicPartition("t", 0)
FENCED = FencedError("an older epoch", code=ErrorCode.INVALID_PRODUCER_EPOCH)
MOVED = StaleRouteError("not the leader")


def begun_again(count: int = 1) -> tuple[Accumulator[str], list[PendingBatch[str]]]:
    """Return an accumulator whose next transaction has one batch, and the batches in flight of the one before."""
    queue: Accumulator[str] = Accumulator(batch_bytes=1, linger_ms=0, transactional=True)
    queue.begin(ProducerIdentity(1, 5))
    for handle in range(count + 1):
        queue.add(P0, NewRecord(b"old"), f"old {handle}", 0)
    (first,), _ = queue.take(P0, "id", 0)
    assert queue.on_acknowledged(P0, first, 0) == []
    old, _ = queue.take(P0, "id", 0)
    assert len(old) == count
    queue.begin(ProducerIdentity(1, 6))
    queue.add(P0, NewRecord(b"new"), "new", 1)
    return queue, old


def refuse(queue: Accumulator[str], batch: PendingBatch[str], error: RaftlogError) -> list[tuple[list[str], str]]:
    failed = queue.on_refused(P0, batch, error, 2, jitter=0)
    assert all(isinstance(error, TransactionAbortedError) for _, error in failed)
    return [(batch.handles, error.message) for batch, error in failed]


@pytest.mark.parametrize("error", [FENCED, MOVED], ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_what_an_earlier_transaction_is_refused_with_fails_no_later_batch(error: RaftlogError, order: tuple[int, ...]):
    queue, old = begun_again(3)
    for number in order:
        assert refuse(queue, old[number], error) == [([f"old {number + 1}"], "the transaction was aborted")]
    (new,), failed = queue.take(P0, "id", 3)
    assert (new.handles, new.identity, new.sequence, failed) == (["new"], ProducerIdentity(1, 6), 0, [])
    assert queue.on_acknowledged(P0, new, 4) == []
    assert (queue.empty, queue.size) == (True, 0)


def test_what_an_earlier_transaction_is_acknowledged_leaves_the_first_batch_alone():
    """The leader has no state of the new epoch: it would take any first sequence."""
    queue, (old,) = begun_again()
    queue.add(P0, NewRecord(b"new"), "newer", 1)
    assert queue.on_acknowledged(P0, old, 2) == []
    (new,), _ = queue.take(P0, "id", 3)
    assert (new.handles, new.sequence) == (["new"], 0)


def test_a_batch_of_an_earlier_transaction_that_expires_fails_no_later_one():
    queue, (old,) = begun_again()
    old.in_flight = False  # A refusal after the abort was given up.
    assert [batch.handles for batch, _ in queue.expire(120_000)] == [["old 1"]]


async def test_the_next_transaction_does_not_fail_by_what_the_one_before_is_refused_with():
    producer = Producer("http://127.0.0.1:1", transactional_id="x")
    sender, transactions = producer._sender, producer._gate.transactions
    assert transactions is not None
    accumulator = producer._accumulator
    accumulator.begin(ProducerIdentity(1, 5))
    record: asyncio.Future[RecordMetadata] = asyncio.get_running_loop().create_future()
    accumulator.add(P0, NewRecord(b"old"), record, 0)
    (old,), _ = accumulator.take(P0, "id", 1_000)
    accumulator.begin(ProducerIdentity(1, 6))
    transactions.state = "in transaction"
    sender._on_result(P0, old, FENCED)
    assert transactions.state == "in transaction"
    assert isinstance(record.exception(), TransactionAbortedError)
    transactions.state = "new"
    await producer.close()
