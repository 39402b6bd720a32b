"""Answers of any length, sent by a listener in this process: slow peers, pipelined requests, and the listener's end."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiohttp import web

from raftlog.errors import OverloadedError, RaftlogError
from raftlog.model import Address
from raftlog.serving.connections import ConnectionLimits
from raftlog.serving.limits import RequestLimits
from raftlog.serving.listener import AiohttpListener
from raftlog.serving.streams import StreamedResponse, StreamLimits
from raftlog.serving.turnstile import Turnstile

LIMITS = RequestLimits(max_body_bytes=1 << 20, head_s=0.1)


@dataclass
class Site:
    """A listener with one path, whose answer is what `pieces` makes."""

    port: int
    limits: StreamLimits = field(default_factory=lambda: StreamLimits(4))
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    more: asyncio.Event = field(default_factory=asyncio.Event)
    fails: bool = False
    first: tuple[bytes, ...] = (b"first ",)
    piece: bytes = b"x"
    headers: dict[str, str] = field(default_factory=dict)

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        try:
            yield self.piece
            yield b""  # Nothing was to be rendered: no end.
            await self.more.wait()
            if self.fails:
                raise RaftlogError("no more")
            yield b"end"
        finally:
            self.ended.set()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.limits.enter("127.0.0.1")
        return StreamedResponse(
            request,
            self.first,
            self.pieces(),
            headers=self.headers,
            limits=self.limits,
            endless=True,
        )


@pytest.fixture
async def site(free_ports: Callable[[int], list[int]]) -> AsyncIterator[tuple[Site, AiohttpListener]]:
    (port,) = free_ports(1)
    site, app = Site(port), web.Application()
    app.router.add_get("/", site.answer)
    app.on_shutdown.append(site.limits.end_tails)
    connections = ConnectionLimits("test", total=10, per_address=10)
    listener = AiohttpListener(app, limits=LIMITS, connections=connections, turnstile=Turnstile(), drain_s=30)
    await listener.start(Address("127.0.0.1", port))
    yield site, listener
    await listener.close()


@asynccontextmanager
async def ask(
    site: Site, *, buffer: int = 0, version: str = "1.1"
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    sock = socket.socket()
    if buffer:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", site.port))
    reader, writer = await asyncio.open_connection(sock=sock, limit=1 << 12)
    writer.write(f"GET / HTTP/{version}\r\nHost: x\r\n\r\n".encode())
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def test_a_request_that_comes_during_an_answer_waits_for_its_end(site: tuple[Site, AiohttpListener]):
    here, _ = site
    async with asyncio.timeout(10), ask(here) as (reader, writer):
        await reader.readuntil(b"x\r\n")
        writer.write(b"GET /nowhere HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        await asyncio.sleep(3 * LIMITS.head_s)  # Longer than a head may take to arrive.
        here.more.set()
        rest = await reader.read()
        while chunk := await reader.read():
            rest += chunk
    assert b"end\r\n0\r\n\r\nHTTP/1.1 404" in rest
    assert rest.count(b"HTTP/1.1 ") == 1, "Another answer, such as 408, came behind it."


async def test_what_fails_amid_an_answer_is_no_end(site: tuple[Site, AiohttpListener]):
    here, _ = site
    here.fails = True
    here.more.set()
    async with asyncio.timeout(10), ask(here) as (reader, _writer):
        try:
            told = await reader.read()
        except ConnectionResetError:
            told = b""
        await here.ended.wait()
    assert b"\r\n0\r\n" not in told
    assert here.limits.size == 0


async def test_a_peer_that_takes_nothing_is_closed(site: tuple[Site, AiohttpListener]):
    here, _ = site
    here.limits.write_s, here.piece = 0.2, b"x" * (32 << 20)
    async with asyncio.timeout(20), ask(here, buffer=4096):
        await here.ended.wait()
    assert here.limits.size == 0


LARGE = bytes(range(256)) * (48 << 10)


@pytest.mark.parametrize("first", [(), (b"",), (b"first ",), (b"", b"first ", b"second ")])
@pytest.mark.parametrize("form", ["chunked", "with its length", "for HTTP/1.0"])
async def test_large_pieces_arrive_whole_and_in_order(
    site: tuple[Site, AiohttpListener], first: tuple[bytes, ...], form: str
):
    """A reader with small buffers takes them bit by bit."""
    here, _ = site
    here.first, here.piece = first, LARGE
    body = b"".join(first) + LARGE + b"end"
    if form == "with its length":
        here.headers["Content-Length"] = str(len(body))
    here.more.set()
    async with (
        asyncio.timeout(20),
        ask(here, buffer=1 << 16, version="1.0" if "1.0" in form else "1.1") as (reader, _writer),
    ):
        head = await reader.readuntil(b"\r\n\r\n")
        if form == "chunked":
            assert b"Transfer-Encoding: chunked" in head
            assert await chunks(reader) == body
        else:
            assert b"Transfer-Encoding" not in head
            assert await reader.readexactly(len(body)) == body
        assert here.ended.is_set() or await here.ended.wait()


async def chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int(await reader.readline(), 16):
        body += await reader.readexactly(size)
        assert await reader.readexactly(2) == b"\r\n"
    return body


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


async def test_answers_cut_short_leave_no_descriptor(site: tuple[Site, AiohttpListener]):
    here, _ = site
    here.piece = LARGE
    async with asyncio.timeout(20):
        for number in range(6):
            if number == 1:
                before = open_files()
            here.ended.clear()
            async with ask(here, buffer=4096) as (reader, writer):
                await reader.readexactly(1 << 20)  # By now the socket is full, and is watched.
                writer.transport.abort()
                await here.ended.wait()
        while open_files() > before:
            await asyncio.sleep(0.01)


async def test_tails_do_not_keep_a_listener_open(site: tuple[Site, AiohttpListener]):
    here, listener = site
    async with asyncio.timeout(10), ask(here) as (reader, _writer):
        await reader.readuntil(b"x\r\n")
        await listener.close()
        await here.ended.wait()


async def test_a_peer_that_hangs_up_leaves_nothing_behind(site: tuple[Site, AiohttpListener]):
    here, _ = site
    async with asyncio.timeout(10), ask(here) as (reader, writer):
        await reader.readuntil(b"x\r\n")
        writer.transport.abort()
        await here.ended.wait()
        while here.limits.size:
            await asyncio.sleep(0)


def test_no_address_takes_more_than_half():
    limits = StreamLimits(4)
    limits.enter("a")
    limits.enter("a")
    with pytest.raises(OverloadedError, match="a reads 2 topics by URL already"):
        limits.enter("a")
    limits.enter("b")
    limits.enter("c")
    with pytest.raises(OverloadedError, match="4 topics are being read by URL, the most allowed is 4"):
        limits.enter("d")
    limits.leave("a")
    limits.enter("d")
