"""The short way of a record that has nothing but a value ends where the whole way does."""

from __future__ import annotations

import asyncio
import random
from types import SimpleNamespace
from typing import Any

import pytest

from raftlog.client.core.accumulator import Accumulator
from raftlog.client.core.pending_batch import RECORD_OVERHEAD_BYTES, PendingBatch, ProducerIdentity
from raftlog.client.delivery import SharedHandle
from raftlog.client.fast_path import FastPath
from raftlog.client.partitioning import Partitioning
from raftlog.client.producer import Producer
from raftlog.client.record_outcomes import Handle, PartialHandle, Run
from raftlog.errors import RaftlogError
from raftlog.model import TopicPartition
from raftlog.record import NewRecord

BATCH_BYTES, BUFFER_BYTES, PARTITIONS = 1_000, 20_000, 3


class Queues:
    """A producer's queues, without what sends from them."""

    def __init__(self, *, fast_paths: bool) -> None:
        self.accumulator: Accumulator[Handle] = Accumulator(batch_bytes=BATCH_BYTES, linger_ms=5)
        self.accumulator.begin(ProducerIdentity(7))
        self.routing: Any = SimpleNamespace(size=0)
        self.partitioning = Partitioning(BATCH_BYTES)
        self.fast_path: FastPath | None = None
        self.short = 0
        """How many records took the short way."""
        self._fast_paths = fast_paths

    def add(self, value: bytes, timestamp: int = 0) -> SharedHandle:
        if (
            self.fast_path is not None
            and self._fast_paths
            and (handle := self.fast_path.take(value, timestamp)) is not None
        ):
            self.short += 1
            return handle
        size = RECORD_OVERHEAD_BYTES + len(value)
        partition = self.partitioning.choose("t", PARTITIONS, None, None, value, size)
        handle = self.accumulator.join(partition, NewRecord(value, timestamp=timestamp), 0, size, self._new)
        sticky = self.partitioning.sticky("t")
        assert sticky is not None
        assert sticky.partition == partition
        self.fast_path = FastPath(sticky, self.accumulator, self.routing, BUFFER_BYTES)
        return handle

    @property
    def partition(self) -> TopicPartition:
        """Where records go now."""
        sticky = self.partitioning.sticky("t")
        assert sticky is not None
        return sticky.partition

    def end_leases(self) -> None:
        for number in range(PARTITIONS):
            self.accumulator.size -= self.accumulator._queue(TopicPartition("t", number)).end_lease()

    def batches(self) -> list[tuple[object, ...]]:
        partitions = [TopicPartition("t", number) for number in range(PARTITIONS)]
        return [_plain(p, batch) for p in partitions for batch in self.accumulator._queue(p).batches]

    @staticmethod
    def _new() -> SharedHandle:
        return SharedHandle(asyncio.get_running_loop())


def _plain(partition: TopicPartition, batch: PendingBatch[Handle]) -> tuple[object, ...]:
    counts = [handle.count for handle in batch.handles]
    return partition, batch.size, batch.closed, counts, list(batch.records.rows())


@pytest.mark.parametrize("seed", range(20))
async def test_both_ways_fill_the_same_batches(seed: int):
    lengths = random.Random(seed).choices([0, 5, 40, 300, 900, 1_200], k=100)
    found = []
    for fast_paths in (False, True):
        random.seed(seed)  # Which partition comes next is drawn.
        queues = Queues(fast_paths=fast_paths)
        for number, length in enumerate(lengths):
            queues.add(bytes([number]) * length, number)
        assert queues.short > 5 if fast_paths else queues.short == 0
        queues.end_leases()
        found.append((queues.accumulator.size, queues.batches()))
    assert found[0] == found[1]
    assert found[0][0] == sum(RECORD_OVERHEAD_BYTES + length for length in lengths)


async def test_what_a_lane_does_not_take():
    queues = Queues(fast_paths=True)
    first = queues.add(b"1")
    assert queues.fast_path is not None
    assert queues.fast_path.take(b"2", 0) is first
    assert first.count == 2
    assert queues.fast_path.take(b"x" * BATCH_BYTES, 0) is None  # It would fill the batch.
    queues.end_leases()
    queues.routing.size = BUFFER_BYTES - queues.accumulator.size
    assert queues.fast_path.take(b"3", 0) is None
    queues.routing.size = 0
    queues.accumulator.size = BUFFER_BYTES
    assert queues.fast_path.take(b"3", 0) is None
    queues.accumulator.size = 100
    await asyncio.to_thread(lambda: asyncio.run(_is_not_taken(queues.fast_path)))
    assert first.count == 2


async def _is_not_taken(fast_path: FastPath | None) -> None:
    assert fast_path is not None
    assert fast_path.take(b"of another loop", 0) is None


@pytest.mark.parametrize("seed", range(30))
async def test_what_is_reserved_is_given_back_whatever_else_happens(seed: int):
    """Records of other calls, batches that are sent, acknowledged, refused, or taken out. None takes a record twice."""
    random.seed(seed)
    dice, queues, sent, told, now = random.Random(seed), Queues(fast_paths=True), 1, list[bytes](), 0
    accumulator, sending = queues.accumulator, list[tuple[TopicPartition, PendingBatch[Handle]]]()
    queues.add(b"first")
    for number in range(400):
        now += dice.randint(0, 3)
        chance, value = dice.random(), bytes([number % 256]) * dice.randint(1, 120)
        if chance < 0.8:
            queues.add(value)
            sent += 1
        elif chance < 0.85:
            run = PartialHandle(Run(1), 0, 1)
            size = RECORD_OVERHEAD_BYTES + len(value)
            accumulator.add_run(queues.partition, [value], key=b"k", timestamp=0, size=size, handle=run, sent_ms=now)
            sent += 1
        elif chance < 0.95:
            for partition in accumulator.due(now):
                sending += [(partition, batch) for batch in accumulator.take(partition, "id", now)[0]]
        elif sending:
            partition, batch = sending.pop(0)
            told += batch.records.values
            accumulator.on_acknowledged(partition, batch, now)
        queued = [batch for p in map(TopicPartition, "ttt", range(3)) for batch in accumulator._queue(p).batches]
        assert accumulator.size == sum(batch.size for batch in queued if not batch.acknowledged)
    queues.end_leases()
    for batch in queued:
        assert batch.size == sum(RECORD_OVERHEAD_BYTES + len(value) for value in batch.records.values)
    left = accumulator.take_all()
    assert len(told) + sum(len(batch.records) for batch in left) == sent
    assert accumulator.size == 0
    assert queues.short > 100
    assert queues.fast_path is not None
    assert queues.fast_path.take(b"later", 0) is None


async def test_no_record_overtakes_those_of_its_topic_that_wait_for_metadata(monkeypatch: pytest.MonkeyPatch):
    producer = Producer("http://127.0.0.1:9")
    appender, known = producer._appender, SimpleNamespace(partitions=(0,))
    monkeypatch.setattr(producer._connection, "cached_topic", {"t": known, "other": known}.get)
    monkeypatch.setattr(producer._connection, "topic", lambda *_, **__: asyncio.Event().wait())
    monkeypatch.setattr(producer._connection, "forget_leader_of", lambda _: None)
    monkeypatch.setattr(producer._sender, "wake", lambda: None)
    for topic in ("t", "other"):
        producer.send_nowait(topic, b"1")
        producer.send_nowait(topic, b"2")
    producer.send_nowait("t", b"3", partition=1)  # The topic may have grown: new metadata tell.
    for topic in ("t", "other"):
        producer.send_nowait(topic, b"4")

    queued = {topic: producer._accumulator.queue(TopicPartition(topic, 0)).batches for topic in ("t", "other")}
    assert {topic: batch.records.values for topic, (batch,) in queued.items()} == {
        "t": [b"1", b"2"],
        "other": [b"1", b"2", b"4"],
    }
    assert [waiting.record.value for waiting in appender._routing._waiting["t"]] == [b"3", b"4"]
    assert producer.metrics().buffered_bytes == 7 * (RECORD_OVERHEAD_BYTES + 1)
    await appender.close()
    await appender.discard(RaftlogError("the test ends"))
    assert producer.metrics().buffered_bytes == 0


async def test_little_is_reserved_in_a_batch_with_few_records_or_in_a_buffer_that_is_half_full():
    queues = Queues(fast_paths=True)
    queues.add(b"1")
    size = RECORD_OVERHEAD_BYTES + 1
    assert queues.fast_path is not None
    queues.add(b"2")
    assert (queues.fast_path.unused, queues.accumulator.size) == (0, 2 * size)
    queues.add(b"3")
    assert (queues.fast_path.unused, queues.accumulator.size) == (size, 4 * size)
    queues.end_leases()
    queues.accumulator.size += BUFFER_BYTES // 2
    queues.add(b"4")
    assert queues.fast_path.unused == 0


async def test_records_that_were_given_together_end_what_is_shared():
    queues = Queues(fast_paths=True)
    first = queues.add(b"0")
    assert queues.add(b"1") is queues.add(b"1") is first
    assert queues.fast_path is not None
    assert queues.fast_path.unused
    run = PartialHandle(Run(2), 0, 2)
    queues.accumulator.add_run(queues.partition, [b"2", b"3"], key=None, timestamp=0, size=66, handle=run, sent_ms=0)
    assert queues.fast_path.take(b"4", 0) is None
    second = queues.add(b"4")
    assert second is not first
    assert queues.fast_path.take(b"5", 0) is second
    (batch,) = queues.accumulator.queue(queues.partition).batches
    assert [(handle, handle.count) for handle in batch.handles] == [(first, 3), (run, 2), (second, 2)]  # type: ignore[union-attr]
    assert batch.records.values == [b"0", b"1", b"1", b"2", b"3", b"4", b"5"]


async def test_a_batch_that_was_sent_or_taken_out_takes_no_more():
    queues = Queues(fast_paths=True)
    queues.add(b"1")
    assert queues.fast_path is not None
    queues.accumulator.flushing = True
    assert len(queues.accumulator.take(queues.partition, "id", 0)[0]) == 1
    assert queues.fast_path.take(b"2", 0) is None
    queues.add(b"2")
    assert queues.fast_path.take(b"3", 0) is not None
    assert [batch.records.values for batch in queues.accumulator.take_waiting()] == [[b"2", b"3"]]
    assert queues.fast_path.take(b"4", 0) is None


def test_a_topic_that_has_fewer_partitions_now_gets_records_in_those():
    """It was deleted, and created again."""
    partitioning = Partitioning(BATCH_BYTES)
    while partitioning.choose("t", 8, None, None, b"x", BATCH_BYTES).partition < 2:
        pass
    partitioning.choose("t", 8, None, None, b"x", 1)
    chosen = {partitioning.choose("t", 2, None, None, b"x", 1).partition for _ in range(10)}
    assert chosen < {0, 1, 2}
