"""Errors that are not raftlog's own, such as a lack of threads or memory: no call waits for ever, and nothing spins."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from test_completed_fetches import batch, chunk, offsets
from test_fetching import T0, T1, Leader, Log, _reader
from test_group_member import HeldLink, member_of, no_thread

from raftlog import Producer, record
from raftlog.client import fetching
from raftlog.errors import OverloadedError, RaftlogError, RetriableError, UnknownOutcomeError
from raftlog.model import Address, TopicPartition
from raftlog.wire import paths
from raftlog.wire.data import ProduceResponse, ProduceResult, ProducerIdResponse
from raftlog.wire.metadata import PartitionInfo, TopicInfo

__all__ = ["no_thread"]
DOWN = "http://127.0.0.1:1"
NO_THREAD = "can't start new thread"


def producer_of(answer: Callable[[str], Any], *, partitions: int = 1, **options: Any) -> Producer:
    """Return a producer that knows the leader of topic `t`; a function of the path answers its requests."""
    producer = Producer(DOWN, **options)
    connection = producer._connection
    infos = tuple(
        PartitionInfo(partition=number, leader=1, leader_epoch=0, replicas=(1,), isr=(1,))
        for number in range(partitions)
    )
    connection._topics["t"] = TopicInfo(topic="t", topic_id="f" * 32, partitions=infos)
    connection._brokers[1] = Address("127.0.0.1", 1)

    async def refresh(topics: list[str], **_: Any) -> None:
        for topic in topics:
            connection._refreshed_at[topic] = asyncio.get_running_loop().time()

    async def call(cls: type, method: str, address: Address, path: str, **_: Any) -> Any:
        return answer(path)

    connection.refresh = refresh  # type: ignore[method-assign]
    connection.session.call = call  # type: ignore[method-assign,assignment]
    return producer


def no_thread_for(wanted: str) -> Callable[[str], Any]:
    def answer(path: str) -> Any:
        if path == wanted:
            raise RuntimeError(NO_THREAD)
        if path == paths.PRODUCERS:
            return ProducerIdResponse(producer_id=7, producer_epoch=0)
        return ProduceResponse(partitions=(ProduceResult(topic="t", partition=0, base_offset=5),))

    return answer


@pytest.mark.parametrize(
    ("path", "kind"), [(paths.PRODUCE, UnknownOutcomeError), (paths.PRODUCERS, RetriableError)], ids=str
)
async def test_records_get_an_outcome_when_their_request_cannot_be_made(path: str, kind: type[RaftlogError]):
    producer = producer_of(no_thread_for(path), delivery_timeout_ms=300, linger_ms=0)
    async with asyncio.timeout(10):
        with pytest.raises(kind, match=NO_THREAD):
            await producer.send("t", b"x", partition=0)
        await producer.close()


async def test_records_without_metadata_get_an_outcome_when_no_request_can_be_made():
    producer = Producer(DOWN, max_block_ms=200)

    async def call(*_: Any, **__: Any) -> None:
        raise RuntimeError(NO_THREAD)

    producer._connection.session.call = call  # type: ignore[method-assign]
    async with asyncio.timeout(10):
        with pytest.raises(RetriableError, match=NO_THREAD):
            await producer.send("t", b"x", partition=0)
        await producer.close()


async def test_a_batch_that_had_no_memory_is_encoded_again():
    producer = producer_of(no_thread_for(""), linger_ms=0)
    encode, failures = producer._sender._requests._build_batch, [MemoryError("no memory")]

    def build(*arguments: Any, **options: Any) -> Any:
        if failures:
            raise failures.pop()
        return encode(*arguments, **options)

    producer._sender._requests._build_batch = build
    async with asyncio.timeout(10):
        assert (await producer.send("t", b"x", partition=0)).offset == 5
        await producer.close()


async def test_a_sender_that_fails_for_a_moment_goes_on():
    producer = producer_of(no_thread_for(""), linger_ms=0)
    due, failures = producer._accumulator.due, [MemoryError("no memory")]

    def failing(now_ms: int) -> Any:
        if failures:
            raise failures.pop()
        return due(now_ms)

    producer._accumulator.due = failing  # type: ignore[method-assign]
    async with asyncio.timeout(10):
        assert (await producer.send("t", b"x", partition=0)).offset == 5
        await producer.close()


async def test_a_batch_that_was_taken_is_sent_whatever_comes_after_it():
    producer = producer_of(no_thread_for(""), partitions=2, linger_ms=0)
    take, calls = producer._accumulator.take, list[int]()

    def failing(partition: TopicPartition, *arguments: Any) -> Any:
        calls.append(partition.partition)
        if calls == [0, 1]:
            raise MemoryError("no memory")
        return take(partition, *arguments)

    producer._accumulator.take = failing  # type: ignore[method-assign]
    first, second = (asyncio.ensure_future(producer.send("t", b"x", partition=number)) for number in (0, 1))
    async with asyncio.timeout(10):
        assert (await first).offset == 5
    second.cancel()
    assert calls[:2] == [0, 1]
    await producer.close(timeout_ms=0)


class NoThread(Log):
    """A leader; no connection to it can be made."""

    async def call_frame(self, *_: object, **__: object) -> Any:
        self.asked.append([])
        raise RuntimeError(NO_THREAD)


async def test_a_fetch_that_cannot_be_made_is_the_applications_to_know():
    leader = NoThread(end=2)
    reader = _reader(leader)
    reader.begin({T0: 0})
    for calls in (1, 2):
        with pytest.raises(RaftlogError, match=NO_THREAD):
            await reader.next_completed(5_000)
        assert len(leader.asked) == calls, "it does not spin"
    await reader.fetcher.close()


class NoMetadata(Leader):
    def is_stale(self, topic: str) -> bool:
        return True

    def must_refresh(self, topic: str) -> bool:
        return True

    async def refresh(self, topics: list[str], *, max_age_s: float) -> None:
        self.asked.append([])
        raise RuntimeError(NO_THREAD)


async def test_metadata_that_cannot_be_asked_for_is_the_applications_to_know(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fetching, "REFRESH_REST_S", 0.01)
    leader = NoMetadata()
    reader = _reader(leader)
    reader.begin({T0: 0})
    with pytest.raises(RaftlogError, match=NO_THREAD):
        await reader.next_completed(5_000)
    assert len(leader.asked) == 1
    await reader.fetcher.close()


def fail_once(monkeypatch: pytest.MonkeyPatch, name: str, *, call: int) -> None:
    """Let a function of `record` have no memory, in one of its calls."""
    real, calls = getattr(record, name), iter(range(1, 1_000))

    def failing(*arguments: Any, **options: Any) -> Any:
        if next(calls) == call:
            raise MemoryError("no memory")
        return real(*arguments, **options)

    monkeypatch.setattr(record, name, failing)


@pytest.mark.parametrize("name", ["to_arrow_with_offsets", "to_records"])
def test_records_that_were_decoded_when_memory_ended_are_returned(name: str, monkeypatch: pytest.MonkeyPatch):
    fail_once(monkeypatch, name, call=2)
    found = chunk(batch(0, 3), batch(3, 3))
    assert offsets(found, 10) == [0, 1, 2]
    assert offsets(found, 10) == [3, 4, 5]


@pytest.mark.parametrize("name", ["to_arrow_with_offsets", "to_records"])
def test_records_that_no_memory_was_there_for_come_with_the_next_call(name: str, monkeypatch: pytest.MonkeyPatch):
    fail_once(monkeypatch, name, call=1)
    found = chunk(batch(0, 3), batch(3, 3))
    with pytest.raises(MemoryError):
        found.take(10)
    assert offsets(found, 10) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("call", [1, 2])
async def test_no_table_is_skipped_when_memory_ends(call: int, monkeypatch: pytest.MonkeyPatch):
    reader = _reader(Log(end=100))
    reader.begin({T0: 0, T1: 0})
    found: dict[int, list[int]] = {0: [], 1: []}

    async def take() -> None:
        table = reader.take_arrow(await reader.next_completed(5_000, all_ready=True))
        for row in table.select(["partition", "offset"]).to_pylist():
            found[row["partition"]].append(row["offset"])

    fail_once(monkeypatch, "to_table", call=call)
    if call == 1:
        with pytest.raises(MemoryError):
            await take()
    else:
        await take()
        assert found == {0: [0, 1], 1: []}
    async with asyncio.timeout(10):
        while not all(found.values()):
            await take()
    assert [offsets[:2] for offsets in found.values()] == [[0, 1], [0, 1]], "nothing is skipped, nor comes twice"
    await reader.fetcher.close()


class ThreadlessLink(HeldLink):
    """A link whose first calls fail."""

    def __init__(self, failures: int) -> None:
        super().__init__()
        self.failures = failures

    async def call(self, *_: Any, **__: Any) -> Any:
        if self.failures:
            self.failures -= 1
            raise RuntimeError(NO_THREAD)
        return await super().call()


async def test_heartbeats_go_on_after_one_could_not_be_made():
    member = member_of(ThreadlessLink(2))
    async with asyncio.timeout(10):
        await member.start(timeout_ms=5_000)
        await member.close()


async def test_a_member_whose_heartbeats_cannot_be_made_says_why_it_does_not_join():
    member = member_of(ThreadlessLink(1_000_000))
    async with asyncio.timeout(10):
        with pytest.raises(RetriableError, match=f"cannot join group 'g' within 300 ms.*{NO_THREAD}"):
            await member.start(timeout_ms=300)
        await member.close()


@pytest.mark.parametrize("partitioner", [None, lambda *_: 0])
async def test_send_many_raises_once_each_record_has_an_outcome(partitioner: Any):
    producer = producer_of(
        no_thread_for(""), linger_ms=0, batch_bytes=200, buffer_bytes=500, max_block_ms=0, partitioner=partitioner
    )
    async with asyncio.timeout(10):
        with pytest.raises(OverloadedError):
            await producer.send_many("t", [b"x" * 100] * 20)
    metrics = producer.metrics()
    assert metrics.records_acknowledged > 0
    assert metrics.buffered_bytes == 0
    await producer.close()
