"""Callers that wait for space in a producer's buffer: in their order, and one at a time."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from raftlog.client.buffer_limit import BufferLimit
from raftlog.errors import ErrorCode, InvalidRequestError, OverloadedError

BUFFER_BYTES = 1_000


class Buffer:
    """A buffer whose records get their outcomes by hand."""

    def __init__(self, *, max_block_ms: int = 60_000) -> None:
        self.queued = 0
        self.looks = 0
        """How often a caller has looked for space."""
        self.order: list[int] = []
        self._settled = asyncio.Event()
        sender: Any = self
        self.limit = BufferLimit(BUFFER_BYTES, self._look, sender, max_block_ms=max_block_ms)

    def _look(self) -> int:
        self.looks += 1
        return self.queued

    async def wait_for_room(self) -> None:
        self._settled.clear()
        await self._settled.wait()

    async def send(self, number: int, size: int) -> None:
        await self.limit.wait(size, time.monotonic_ns() // 1_000_000)
        self.limit.require(size)
        self.queued += size
        self.order.append(number)

    async def settle(self, size: int) -> None:
        self.queued -= size
        self._settled.set()
        for _ in range(20):
            await asyncio.sleep(0)


async def test_a_burst_costs_a_few_looks_for_each_record():
    """Each outcome woke every caller: the looks of 2,000 sends were 2 million."""
    buffer, count = Buffer(), 2_000
    buffer.queued = BUFFER_BYTES
    sends = [asyncio.ensure_future(buffer.send(number, 100)) for number in range(count)]
    await asyncio.sleep(0)
    while not all(send.done() for send in sends):
        await buffer.settle(500)
    assert buffer.order == list(range(count))
    assert buffer.looks < 6 * count


async def test_a_small_record_does_not_overtake_a_large_one():
    buffer = Buffer()
    buffer.queued = 900
    large = asyncio.ensure_future(buffer.send(1, 800))
    await asyncio.sleep(0)
    small = asyncio.ensure_future(buffer.send(2, 10))
    await buffer.settle(100)
    assert not small.done()
    await buffer.settle(700)
    await asyncio.gather(large, small)
    assert buffer.order == [1, 2]


async def test_a_caller_that_gives_up_leaves_its_turn_to_the_next():
    buffer = Buffer()
    buffer.queued = 900
    given_up = asyncio.ensure_future(buffer.send(1, 800))
    await asyncio.sleep(0)
    next_one = asyncio.ensure_future(buffer.send(2, 10))
    await asyncio.sleep(0)
    given_up.cancel()
    async with asyncio.timeout(10):
        await next_one
    assert buffer.order == [2]


async def test_who_waits_too_long_is_refused_and_the_next_as_well():
    buffer = Buffer(max_block_ms=50)
    buffer.queued = BUFFER_BYTES
    outcomes = await asyncio.gather(*(buffer.send(number, 10) for number in range(3)), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [OverloadedError] * 3


async def test_a_record_that_never_fits_is_refused_at_once():
    buffer = Buffer()
    buffer.queued = BUFFER_BYTES
    waiting = asyncio.ensure_future(buffer.send(1, 10))
    await asyncio.sleep(0)
    with pytest.raises(InvalidRequestError) as caught:
        await buffer.send(2, BUFFER_BYTES + 1)
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
    waiting.cancel()
