"""The lean client: what a caller may conclude, whichever way a server misbehaves; and nothing is left open."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from raftlog.errors import UnknownOutcomeError, UnreachableError
from raftlog.model import Address
from raftlog.transport import lean
from raftlog.transport.lean import LeanPool

Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def ok(body: bytes, *lines: str) -> bytes:
    head = "\r\n".join(["HTTP/1.1 200 OK", f"Content-Length: {len(body)}", *lines, "", ""])
    return head.encode() + body


async def read_request(reader: asyncio.StreamReader) -> bytes:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    (length,) = (int(line.split(":")[1]) for line in head.split("\r\n") if line.startswith("content-length"))
    return await reader.readexactly(length)


@asynccontextmanager
async def served_by(script: Script, *, connections: int = 4) -> AsyncIterator[tuple[LeanPool, Address, list[int]]]:
    """Run a server whose every connection follows a script; count them."""
    accepted: list[int] = []

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.append(1)
        try:
            await script(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0, limit=1 << 24)
    pool = LeanPool(connect_timeout_ms=10_000, connections_per_host=connections)
    try:
        async with asyncio.timeout(60):
            yield pool, Address("127.0.0.1", server.sockets[0].getsockname()[1]), accepted
    finally:
        await pool.close()
        assert len(pool) == 0
        server.close()


async def post(pool: LeanPool, address: Address, body: bytes = b"x", *, timeout_ms: int = 30_000) -> bytes:
    status, answered = await pool.post(address, "/", [body], timeout_ms=timeout_ms, fields=())
    assert status == 200
    return bytes(answered)


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(ok(await read_request(reader)))


@pytest.mark.parametrize("length", [0, 1, 100_000, 5_000_000])
async def test_a_connection_is_used_again(length: int):
    bodies = [os.urandom(length) for _ in range(3)]
    async with served_by(echo) as (pool, address, accepted):
        assert [await post(pool, address, body) for body in bodies] == bodies
        assert (len(accepted), len(pool)) == (1, 1)


async def test_an_answer_that_somebody_keeps_is_not_overwritten():
    async with served_by(echo) as (pool, address, _):
        kept = [await pool.post(address, "/", [b"%d" % n * 200_000], timeout_ms=30_000, fields=()) for n in range(5)]
        assert [bytes(body[:1]) for _, body in kept] == [b"%d" % n for n in range(5)]
        assert [bytes(body) for _, body in kept] == [b"%d" % n * 200_000 for n in range(5)]


async def test_requests_at_once_take_connections_up_to_the_limit_and_wait_for_one_then():
    async with served_by(echo, connections=2) as (pool, address, accepted):
        bodies = [b"%d" % n for n in range(10)]
        assert await asyncio.gather(*(post(pool, address, body) for body in bodies)) == bodies
        assert len(accepted) == 2


async def test_an_answer_in_pieces_is_put_together():
    async def slowly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        for byte in ok(b"abc"):
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)

    async with served_by(slowly) as (pool, address, _):
        assert await post(pool, address) == b"abc"


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
        b"HTTP/1.1 100 Continue\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"x" * 20_000,
        ok(b"abc") + b"more",
        ok(b"abcdef")[:-1],
        ok(bytes(200_000))[:-1],
    ],
)
async def test_what_is_no_answer_leaves_the_outcome_unknown(answer: bytes):
    async def misbehave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(answer)

    async with served_by(misbehave) as (pool, address, _):
        with pytest.raises(UnknownOutcomeError, match="connection lost"):
            await post(pool, address)


async def test_no_answer_in_time_leaves_the_outcome_unknown_and_the_late_one_is_for_nobody():
    async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        body = await read_request(reader)
        if body == b"late":
            await given_up.wait()
        writer.write(ok(body))
        await writer.drain()
        await reader.read()

    given_up = asyncio.Event()
    async with served_by(late) as (pool, address, accepted):
        with pytest.raises(UnknownOutcomeError, match="no answer within 50 ms"):
            await post(pool, address, b"late", timeout_ms=50)
        given_up.set()
        assert await post(pool, address, b"next") == b"next"
        assert len(accepted) == 2


async def test_who_is_cancelled_takes_the_connection_along():
    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        asked.set()
        assert await reader.read() == b""
        hung_up.set()

    asked, hung_up = asyncio.Event(), asyncio.Event()
    async with served_by(hang) as (pool, address, _):
        asking = asyncio.create_task(post(pool, address))
        await asked.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await hung_up.wait()
        assert len(pool) == 0


async def test_an_answer_before_the_request_has_ended_is_taken():
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(ok(b"too large"))
        await answered.wait()

    answered = asyncio.Event()
    async with served_by(refuse) as (pool, address, accepted):
        assert await post(pool, address, bytes(50_000_000)) == b"too large"
        answered.set()
        assert await post(pool, address, b"small") == b"too large"
        assert len(accepted) == 2


@pytest.mark.parametrize("said", [True, False])
async def test_a_connection_that_the_server_closes_is_not_used_again(said: bool):
    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(ok(await read_request(reader), *(["Connection: close"] if said else [])))

    async with served_by(once) as (pool, address, accepted):
        for number in range(3):
            assert await post(pool, address, b"%d" % number) == b"%d" % number
            while len(pool):
                await asyncio.sleep(0)
        assert len(accepted) == 3


async def test_nobody_there_means_that_nothing_was_sent(free_ports: Callable[[int], list[int]]):
    pool = LeanPool(connect_timeout_ms=1_000, connections_per_host=1)
    with pytest.raises(UnreachableError, match="cannot connect"):
        await post(pool, Address("127.0.0.1", free_ports(1)[0]))
    await pool.close()


async def test_waiting_for_a_connection_in_vain_means_that_nothing_was_sent():
    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        asked.set()
        await reader.read()

    asked = asyncio.Event()
    async with served_by(hang, connections=1) as (pool, address, _):
        first = asyncio.create_task(post(pool, address))
        await asked.wait()
        with pytest.raises(UnreachableError):
            await post(pool, address, timeout_ms=20)
        await pool.close()
        with pytest.raises(UnknownOutcomeError, match="connection lost"):
            await first


async def test_a_connection_that_has_rested_for_long_is_not_used_again(monkeypatch: pytest.MonkeyPatch):
    """Its server may be about to close it: whether the next request was taken would be unknown."""
    async with served_by(echo) as (pool, address, accepted):
        await post(pool, address)
        monkeypatch.setattr(lean, "IDLE_S", -1.0)
        await post(pool, address)
        assert len(accepted) == 2


async def test_a_deadline_also_ends_a_request_that_the_server_does_not_read():
    async def read_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reading.wait()

    reading = asyncio.Event()
    async with served_by(read_nothing, connections=1) as (pool, address, _):
        body = bytes(64 << 20)
        for _ in range(2):  # The first one gives its slot back.
            with pytest.raises(UnknownOutcomeError, match="no answer within 200 ms"):
                await post(pool, address, body, timeout_ms=200)
        reading.set()


async def test_a_slot_is_given_back_by_a_connection_that_fails(free_ports: Callable[[int], list[int]]):
    pool = LeanPool(connect_timeout_ms=10_000, connections_per_host=1)
    address = Address("127.0.0.1", free_ports(1)[0])
    for _ in range(3):
        with pytest.raises(UnreachableError, match="cannot connect"):
            await post(pool, address)
    assert not pool._slots[address].locked()
    await pool.close()


async def test_a_cancelled_wait_for_a_connection_takes_no_slot():
    async def answer_later(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            body = await read_request(reader)
            asked.set()
            await answering.wait()
            writer.write(ok(body))

    asked, answering = asyncio.Event(), asyncio.Event()
    async with served_by(answer_later, connections=1) as (pool, address, accepted):
        first = asyncio.create_task(post(pool, address, b"1"))
        await asked.wait()
        waiting = [asyncio.create_task(post(pool, address, b"2")) for _ in range(3)]
        await asyncio.sleep(0)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert all(task.cancelled() for task in waiting)
        answering.set()
        assert await first == b"1"
        assert await post(pool, address, b"3") == b"3"
        assert len(accepted) == 1
