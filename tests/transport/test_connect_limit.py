"""The limit of a connection attempt: a peer that does not answer ends it, a loop that stalled does not."""

from __future__ import annotations

import asyncio
import time

import pytest

from raftlog.model import Address
from raftlog.transport.connect_limit import connect_limit
from raftlog.transport.lean import LeanPool

LIMIT_MS = 100


async def an_attempt_without_an_answer() -> None:
    async with connect_limit(LIMIT_MS / 1000):
        await asyncio.get_running_loop().create_future()


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"{}")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
    writer.close()
    await writer.wait_closed()


async def test_a_loop_that_stalls_does_not_fail_a_connection() -> None:
    pool = LeanPool(connect_timeout_ms=LIMIT_MS, connections_per_host=4)
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        address = Address("127.0.0.1", server.sockets[0].getsockname()[1])
        request = asyncio.create_task(pool.post(address, "/", [b"{}"], timeout_ms=10_000, fields=[]))
        await asyncio.sleep(0)  # The attempt has begun.
        time.sleep(3 * LIMIT_MS / 1000)  # noqa: ASYNC251
        assert (await request)[0] == 200
        await pool.close()


async def test_a_peer_that_does_not_answer_ends_the_attempt() -> None:
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        await an_attempt_without_an_answer()
    assert time.monotonic() - began >= LIMIT_MS / 1000


async def test_a_loop_that_stalls_extends_the_limit_once() -> None:
    began = time.monotonic()
    attempt = asyncio.create_task(an_attempt_without_an_answer())
    await asyncio.sleep(0)
    time.sleep(4 * LIMIT_MS / 1000)  # noqa: ASYNC251
    stalled_until = time.monotonic()
    with pytest.raises(TimeoutError):
        await attempt
    assert time.monotonic() - began >= 5 * LIMIT_MS / 1000
    assert time.monotonic() - stalled_until < 40 * LIMIT_MS / 1000, "no peer holds an attempt for ever"


async def test_a_loop_that_stalls_again_and_again_ends_the_attempt() -> None:
    began = time.monotonic()
    attempt = asyncio.create_task(an_attempt_without_an_answer())
    while not attempt.done():
        await asyncio.sleep(0)
        time.sleep(0.5 * LIMIT_MS / 1000)  # noqa: ASYNC251
        assert time.monotonic() - began < 10 * LIMIT_MS / 1000
    with pytest.raises(TimeoutError):
        await attempt


async def test_a_body_that_ends_in_time_leaves_no_timer() -> None:
    async with connect_limit(LIMIT_MS / 1000):
        pass
    await asyncio.sleep(2 * LIMIT_MS / 1000)
    assert not [handle for handle in asyncio.get_running_loop()._scheduled if not handle.cancelled()]  # type: ignore[attr-defined]


async def test_a_cancelled_attempt_is_cancelled() -> None:
    task = asyncio.create_task(an_attempt_without_an_answer())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
