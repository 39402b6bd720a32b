"""Records that wait for metadata: a request that takes longer than a record may wait serves the next ones."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from raftlog.client.routing import Routing, Unrouted, _now_ms
from raftlog.errors import NotFoundError, RaftlogError, RetriableError
from raftlog.record.model import NewRecord


class Metadata:
    """Answers each request after `takes_s`; the first ones fail."""

    def __init__(self, *failures: RaftlogError, takes_s: float = 0.02) -> None:
        self.failures, self.takes_s = [*failures], takes_s
        self.requests, self.known = 0, asyncio.Event()

    async def topic(self, topic: str, *, partition: int = 0) -> str:
        self.requests += 1
        await asyncio.sleep(self.takes_s)
        if self.failures:
            raise self.failures.pop()
        self.known.set()
        return topic


class Waiting:
    """A producer's records that wait, each for at most `max_block_ms`."""

    def __init__(self, metadata: Metadata, *, max_block_ms: int) -> None:
        self.routed, self.failed = list[int](), list[int]()
        self.routing: Routing[int] = Routing(
            metadata,  # type: ignore[arg-type]
            timeout_ms=max_block_ms,
            route=lambda unrouted: self.routed.append(unrouted.handle),
            fail=lambda handle, _: self.failed.append(handle),
        )

    def send(self, number: int) -> None:
        record: Any = NewRecord(b"x")
        self.routing.add(Unrouted("t", None, record, number, _now_ms(), 1))


@pytest.mark.parametrize("max_block_ms", [0, 5])
async def test_a_request_outlives_the_record_that_it_was_made_for(max_block_ms: int):
    metadata = Metadata()
    waiting = Waiting(metadata, max_block_ms=max_block_ms)
    waiting.send(1)
    await waiting.routing.flush()
    assert (waiting.failed, waiting.routing.size) == ([1], 0)
    async with asyncio.timeout(5):
        await metadata.known.wait()
    assert metadata.requests == 1
    await waiting.routing.close()


async def test_one_request_serves_records_that_come_while_it_is_under_way():
    metadata = Metadata(takes_s=0.1)
    waiting = Waiting(metadata, max_block_ms=60)
    waiting.send(1)
    await asyncio.sleep(0.05)
    waiting.send(2)
    await waiting.routing.flush()
    assert (waiting.failed, waiting.routed, metadata.requests) == ([1], [2], 1)
    await waiting.routing.close()


async def test_a_request_that_failed_is_made_again():
    metadata = Metadata(RetriableError("no broker answers"), takes_s=0)
    waiting = Waiting(metadata, max_block_ms=5_000)
    waiting.send(1)
    await waiting.routing.flush()
    assert (waiting.failed, waiting.routed, metadata.requests) == ([], [1], 2)
    await waiting.routing.close()


async def test_closing_ends_a_request_that_no_record_waits_for(caplog: pytest.LogCaptureFixture):
    metadata = Metadata(takes_s=60)
    waiting = Waiting(metadata, max_block_ms=0)
    waiting.send(1)
    await waiting.routing.flush()
    await waiting.routing.close()
    assert len(asyncio.all_tasks()) == 1
    assert not caplog.records


async def test_a_flush_waits_for_the_records_of_before_it_alone():
    """A task that goes on sending must not keep another one's flush."""
    waiting = Waiting(Metadata(takes_s=60), max_block_ms=50)
    waiting.send(1)

    async def go_on() -> None:
        number = 1
        while True:
            await asyncio.sleep(0.01)
            waiting.send(number := number + 1)

    sending = asyncio.create_task(go_on())
    async with asyncio.timeout(5):
        await waiting.routing.flush()
    assert 1 in waiting.failed
    sending.cancel()
    await waiting.routing.close()


async def discard_while_asking(waiting: Waiting) -> None:
    waiting.send(1)
    (asking,) = waiting.routing._asking.values()
    await asyncio.sleep(0)
    waiting.routing.discard(RetriableError("the transaction was aborted"))
    await asyncio.wait([asking])
    assert asking.exception() is None


@pytest.mark.parametrize("answer", [None, NotFoundError("there is none")], ids=["found", "not found"])
async def test_records_may_be_discarded_while_their_topic_is_asked_for(
    answer: RaftlogError | None, caplog: pytest.LogCaptureFixture
):
    waiting = Waiting(Metadata(*([answer] if answer else [])), max_block_ms=5_000)
    await discard_while_asking(waiting)
    assert (waiting.failed, waiting.routed, waiting.routing.size) == ([1], [], 0)
    await waiting.routing.close()
    assert not caplog.records


async def test_records_may_be_discarded_before_their_time_ends(caplog: pytest.LogCaptureFixture):
    waiting = Waiting(Metadata(takes_s=60), max_block_ms=20)
    await discard_while_asking(waiting)
    await waiting.routing.close()


async def test_a_record_that_cannot_be_queued_fails_and_holds_up_no_other():
    waiting = Waiting(Metadata(), max_block_ms=5_000)

    def route(unrouted: Unrouted[int]) -> None:
        if unrouted.handle == 1:
            raise MemoryError("no memory")
        waiting.routed.append(unrouted.handle)

    waiting.routing._route = route
    waiting.send(1)
    waiting.send(2)
    await waiting.routing.flush()
    assert (waiting.failed, waiting.routed) == ([1], [2])
    await waiting.routing.close()
