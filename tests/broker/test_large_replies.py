"""Replies of several parts through aiohttp: complete and in order, aborted if incomplete, and bounded in time."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import pytest
from aiohttp import web

from raftlog.model import Address
from raftlog.serving.connections import ConnectionLimits
from raftlog.serving.limits import RequestLimits
from raftlog.serving.listener import AiohttpListener
from raftlog.serving.responses import PIECE_BYTES, PartsResponse
from raftlog.serving.turnstile import Turnstile
from raftlog.transport.socket_writer import Part

LARGE = bytes(range(251)) * 8_000
HEAD_S = 0.2


class InFile:
    """A part that is read from elsewhere, like a range of a segment."""

    def __init__(self, data: bytes, *, fails_at: int | None = None) -> None:
        self.data, self.fails_at = data, fails_at

    def __len__(self) -> int:
        return len(self.data)

    def send(self, descriptor: int, start: int) -> int:
        piece = self.read(start, 100_000)
        with socket.socket(fileno=descriptor) as peer:
            try:
                return peer.send(piece)
            finally:
                peer.detach()

    def read(self, start: int = 0, count: int | None = None) -> bytes:
        if self.fails_at is not None and start >= self.fails_at:
            raise OSError("the segment no longer exists")
        return self.data[start:][:count]


@dataclass
class Site:
    """A listener with one path, whose reply is `parts`."""

    port: int
    parts: list[Part] = field(default_factory=list)
    write_s: float = 10.0
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        return PartsResponse(
            request, self.parts, status=200, headers={}, write_s=self.write_s, on_end=self.ended.set
        )  # fmt: skip


@pytest.fixture
async def site(free_ports: Callable[[int], list[int]]) -> AsyncIterator[Site]:
    (port,) = free_ports(1)
    site, app = Site(port), web.Application()
    app.router.add_get("/", site.answer)
    listener = AiohttpListener(
        app,
        limits=RequestLimits(max_body_bytes=1 << 20, head_s=HEAD_S),
        connections=ConnectionLimits("test", total=10, per_address=10),
        turnstile=Turnstile(),
        drain_s=5,
    )
    await listener.start(Address("127.0.0.1", port))
    yield site
    await listener.close()


@asynccontextmanager
async def connected(site: Site, *, buffer: int = 0) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    sock = socket.socket()
    if buffer:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", site.port))
    reader, writer = await asyncio.open_connection(sock=sock, limit=1 << 12)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
        with suppress(ConnectionError):
            await writer.wait_closed()


def request(method: str = "GET") -> bytes:
    return f"{method} / HTTP/1.1\r\nHost: x\r\n\r\n".encode()


async def read_reply(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    (length,) = (int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length"))
    return await reader.readexactly(length)


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [b"small"],
        [LARGE],
        [b"head", LARGE, b"tail"],
        [b"head", InFile(LARGE), LARGE, InFile(b"end")],
        [InFile(LARGE), b"tail"],
        [b"", InFile(LARGE)],
        [LARGE[:PIECE_BYTES], b"", InFile(LARGE)],
    ],
    ids=lambda parts: "+".join(f"{type(part).__name__}{len(part)}" for part in parts) or "nothing",
)
@pytest.mark.parametrize("buffer", [0, 4096])
async def test_parts_arrive_complete_and_in_order_on_a_connection_that_goes_on(
    site: Site, parts: list[Part], buffer: int
):
    site.parts = parts
    expected = b"".join(part.data if isinstance(part, InFile) else bytes(part) for part in parts)
    async with asyncio.timeout(30), connected(site, buffer=buffer) as (reader, writer):
        writer.write(request() * 3)  # The next requests are received while the reply is sent.
        for _ in range(3):
            assert await read_reply(reader) == expected


async def test_a_head_request_gets_no_parts(site: Site):
    site.parts = [b"head", InFile(LARGE)]
    async with asyncio.timeout(10), connected(site) as (reader, writer):
        writer.write(request("HEAD") + request())
        head = await reader.readuntil(b"\r\n\r\n")
        assert f"Content-Length: {len(LARGE) + 4}".encode() in head
        assert await read_reply(reader) == b"head" + LARGE


@pytest.mark.parametrize("first", [b"head", None])
async def test_a_reply_whose_file_disappears_is_cut_short_and_the_connection_closed(site: Site, first: bytes | None):
    site.parts = [*([first] if first else []), InFile(LARGE, fails_at=PIECE_BYTES * 4), b"never sent"]
    async with asyncio.timeout(10), connected(site) as (reader, writer):
        writer.write(request())
        received = b""
        with suppress(ConnectionResetError):
            while more := await reader.read(1 << 16):
                received += more
        await site.ended.wait()
    assert b"never sent" not in received
    assert len(received) < len(LARGE)


@pytest.mark.parametrize("parts", [[LARGE * 8], [b"head", InFile(LARGE * 8)], [InFile(LARGE * 8)]])
async def test_a_peer_that_reads_nothing_is_disconnected(site: Site, parts: list[Part]):
    site.parts, site.write_s = parts, 0.2
    async with asyncio.timeout(10), connected(site, buffer=4096) as (_, writer):
        writer.write(request())
        await site.ended.wait()


async def test_a_request_that_comes_during_a_large_reply_waits_for_its_end(site: Site):
    """Its bytes began the time of a head, at whose end 408 went into the midst of the reply."""
    site.parts = [LARGE * 8]
    async with asyncio.timeout(20), connected(site, buffer=4096) as (reader, writer):
        writer.write(request())
        await reader.readuntil(b"\r\n\r\n")
        writer.write(request("HEAD"))
        await asyncio.sleep(3 * HEAD_S)
        assert await reader.readexactly(len(LARGE) * 8) == LARGE * 8
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")


async def test_a_connection_stays_open_after_a_request_that_was_refused_at_once(site: Site):
    """Only an admitted request ended the time of its head: 408 came 10 s after a 401 or 403, unasked."""
    site.parts = [b"refused"]
    async with asyncio.timeout(20), connected(site) as (reader, writer):
        for _ in range(2):
            writer.write(request())
            assert await read_reply(reader) == b"refused"
            await asyncio.sleep(3 * HEAD_S)
