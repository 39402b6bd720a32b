"""What aiohttp does by itself for a connection is answered in our form, logged once in a while, and bounded."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import ClientSession, web
from aiohttp.typedefs import Handler

from raftlog.model import Address
from raftlog.serving.connections import AiohttpHandler, ConnectionLimits
from raftlog.serving.limits import RequestLimits
from raftlog.serving.listener import AiohttpListener
from raftlog.serving.loop_shares import LoopShares
from raftlog.serving.turnstile import Turnstile


@asynccontextmanager
async def serving(handler: Handler, limits: RequestLimits, **how: object) -> AsyncIterator[Address]:
    """Serve `GET /`."""
    app = web.Application()
    app.router.add_get("/", handler, **how)  # type: ignore[arg-type]
    connections = ConnectionLimits("test", total=10, per_address=10)
    turnstile = Turnstile(LoopShares())
    listener = AiohttpListener(app, limits=limits, connections=connections, turnstile=turnstile, drain_s=0.1)
    await listener.start(Address("127.0.0.1", 0))
    assert listener._listening is not None
    try:
        yield Address("127.0.0.1", listener._listening.sockets[0].getsockname()[1])
    finally:
        await listener.close()


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
