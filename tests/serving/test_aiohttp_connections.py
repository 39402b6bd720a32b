"""What aiohttp does by itself for a connection is answered in our form, logged once in a while, and bounded."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import random
import re
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import ClientSession, web
from aiohttp.typedefs import Handler

from raftlog.model import Address
from raftlog.serving.connections import AiohttpConnection, AiohttpHandler, ConnectionLimits, connection_of
from raftlog.serving.limits import MAX_HEAD_BYTES, RequestLimits
from raftlog.serving.listener import AiohttpListener
from raftlog.serving.loop_shares import LoopShares
from raftlog.serving.turnstile import Turnstile
from tests.broker.listener_support import connected

DRAIN_S = 0.1
"""How long a server that closes waits for its requests."""


@asynccontextmanager
async def serving(
    handler: Handler, limits: RequestLimits, client_max_size: int = 1_000, **how: object
) -> AsyncIterator[Address]:
    """Serve `GET /`."""
    app = web.Application(client_max_size=client_max_size)
    app.router.add_get("/", handler, **how)  # type: ignore[arg-type]
    connections = ConnectionLimits("test", total=10, per_address=10)
    turnstile = Turnstile(LoopShares())
    listener = AiohttpListener(app, limits=limits, connections=connections, turnstile=turnstile, drain_s=DRAIN_S)
    await listener.start(Address("127.0.0.1", 0))
    assert listener._listening is not None
    try:
        yield Address("127.0.0.1", listener._listening.sockets[0].getsockname()[1])
    finally:
        await listener.close()


LAST = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


async def hello(_: web.Request) -> web.StreamResponse:
    return web.Response(text="hello")


async def long(_: web.Request) -> web.StreamResponse:
    return web.Response(body=bytes(60_000))


async def test_a_failure_outside_of_the_middlewares_has_our_form_and_one_line_in_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    async def fails(_: web.Request) -> None:
        raise ZeroDivisionError("aiohttp calls this before any middleware")

    monkeypatch.setattr(AiohttpHandler, "_logged_at", float("-inf"))
    caplog.set_level(logging.ERROR)
    async with serving(hello, RequestLimits(max_body_bytes=1_000), expect_handler=fails) as address:
        for _ in range(3):
            async with ClientSession() as http, http.get(f"http://{address}/", headers={"Expect": "x"}) as answer:
                assert (answer.status, answer.content_type) == (500, "application/json")
                assert (await answer.json())["error"]["request_id"] == answer.headers["X-Request-Id"]
    assert [line.message for line in caplog.records] == ["a request of 127.0.0.1 failed"]


def stranger(address: Address) -> socket.socket:
    """Return a connection whose socket takes few bytes that are not read."""
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    found.connect((address.host, address.port))
    found.setblocking(False)
    return found


async def sent_until_refused(connection: socket.socket, request: bytes) -> None:
    """Send requests, and read nothing, until the connection is lost."""
    while True:
        try:
            connection.send(request)
            await asyncio.sleep(0)
        except BlockingIOError:
            await asyncio.sleep(0.01)
        except ConnectionError:
            return


async def test_a_peer_that_reads_no_small_response_is_disconnected():
    limits = RequestLimits(max_body_bytes=1_000, write_s=0.4)
    async with serving(hello, limits) as address, asyncio.timeout(20):
        with stranger(address) as connection:
            await sent_until_refused(connection, GET * 100)


async def test_a_peer_that_reads_slowly_is_served():
    """Its connection's buffer is rarely empty, but changes."""
    limits, most = RequestLimits(max_body_bytes=1_000, write_s=0.4), 400_000
    async with serving(long, limits) as address, asyncio.timeout(60):
        with stranger(address) as connection:
            connection.send(GET * 40)
            loop, read, began = asyncio.get_running_loop(), 0, time.monotonic()
            while read < most or time.monotonic() - began < 4 * limits.write_s:
                read += len(await loop.sock_recv(connection, 4_096))
                await asyncio.sleep(0.01)


def head_of(size: int) -> bytes:
    """Return a request with a head of so many bytes."""
    fields = b"".join(b"X-%d: %s\r\n" % (number, b"x" * 4_000) for number in range(size // 4_100))
    head = b"GET / HTTP/1.1\r\nHost: localhost\r\n" + fields
    return head + b"X: " + b"x" * (size - len(head) - 7) + b"\r\n\r\n"


async def test_a_head_above_32_kib_is_refused():
    async with serving(hello, RequestLimits(max_body_bytes=1_000)) as address, asyncio.timeout(20):
        for size, status in ((MAX_HEAD_BYTES, b"200"), (MAX_HEAD_BYTES + 1, b"431"), (500_000, b"431")):
            async with connected(address) as (reader, writer):
                writer.write(GET)
                await reader.readuntil(b"hello")
                writer.write(head_of(size) + (LAST if status == b"200" else b""))
                said = await reader.readuntil(b"\r\n\r\n") + await reader.readuntil(b"o" if status == b"200" else b"}}")
            assert b"HTTP/1.1 %s " % status in said
            assert status == b"200" or b'{"error":{"code":"INVALID_REQUEST"' in said


async def test_requests_that_wait_for_an_answer_take_little_memory():
    begun, may_end = asyncio.Event(), asyncio.Event()
    found = list[AiohttpConnection]()

    async def waits(request: web.Request) -> web.StreamResponse:
        connection = connection_of(request)
        assert connection is not None
        found.append(connection)
        begun.set()
        await may_end.wait()
        return web.Response(text="hello")

    async with (
        serving(waits, RequestLimits(max_body_bytes=1_000)) as address,
        asyncio.timeout(60),
        connected(address) as (reader, writer),
    ):
        writer.write(GET)
        await begun.wait()
        writer.write(head_of(8_000) * 2_000 + LAST)
        size = -1
        while size != (size := writer.transport.get_write_buffer_size()):
            await asyncio.sleep(0.2)  # What the system's buffers take.
        assert size > 1_000_000
        assert len(found[0]._ahead) < 400_000  # Up to 32 KiB, and one receipt, in pieces of at most 256 KiB.
        assert found[0]._inner._request_count <= 8
        may_end.set()
        assert (await reader.read()).count(b"HTTP/1.1 200 ") == 2_002


async def test_pipelined_requests_with_bodies_are_answered_in_order():
    async def echo(request: web.Request) -> web.StreamResponse:
        if (refused := request.headers.get("X-Refused")) is not None:
            return web.Response(text=refused, status=400)  # Its body is read, and dropped, after the answer.
        body = await request.read()
        return web.Response(text=f"{len(body)}:{hash_of(body)}")

    chance = random.Random(7)
    sent, expected = bytearray(), list[str]()
    for number in range(200):
        body = chance.randbytes(chance.choice([0, 1, 700, 32 << 10, 90_000, 300_000]))
        pieces = [body[at : at + 40_000] for at in range(0, len(body), 40_000)]
        if chance.random() < 0.2:
            sent += (
                b"GET / HTTP/1.1\r\nHost: a\r\nX-Refused: %d\r\nContent-Length: %d\r\n\r\n" % (number, len(body)) + body
            )
            expected.append(str(number))
            continue
        if chance.random() < 0.5:
            sent += b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        else:
            chunks = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
            sent += b"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
        expected.append(f"{len(body)}:{hash_of(body)}")
    async with (
        serving(echo, RequestLimits(max_body_bytes=1_000), client_max_size=1 << 20) as address,
        asyncio.timeout(60),
        connected(address) as (reader, writer),
    ):
        reading = asyncio.ensure_future(reader.read())
        for piece in pieces_of(bytes(sent) + LAST, chance):
            writer.write(piece)
            await writer.drain()
        answers = re.findall(rb"\r\n\r\n([0-9a-f:]+)", await reading)
    assert [answer.decode() for answer in answers] == [*expected, f"0:{hash_of(b'')}"]


def hash_of(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:16]


def pieces_of(sent: bytes, chance: random.Random) -> Iterator[bytes]:
    at = 0
    while at < len(sent):
        size = chance.choice([1, 10, 1_000, 70_000, 200_000])
        yield sent[at : at + size]
        at += size


async def test_a_handler_that_ends_in_the_turn_in_which_the_closing_server_gives_up_logs_nothing(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    """aiohttp would wake a wait that has just timed out. A process that was paused while it stopped gets there."""
    loop, began = asyncio.get_running_loop(), asyncio.Event()

    async def slow(_: web.Request) -> web.StreamResponse:
        begun = loop.create_future()
        began.set()
        loop.call_later(DRAIN_S * 0.9, begun.set_result, None)
        await begun
        return web.Response(text="late")

    monkeypatch.setattr(AiohttpHandler, "_logged_at", float("-inf"))
    caplog.set_level(logging.ERROR)
    async with ClientSession() as http:
        async with serving(slow, RequestLimits(max_body_bytes=1_000)) as address:
            answer = asyncio.create_task(http.get(f"http://{address}/"))
            await began.wait()
            loop.call_later(DRAIN_S * 0.5, time.sleep, DRAIN_S)  # Both timers have passed when the loop goes on.
        assert await (await answer).text() == "late"
    assert not caplog.records
