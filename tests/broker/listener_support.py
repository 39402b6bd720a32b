"""A broker's listener on a free port, and a raw HTTP client."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from raftlog.broker.listener import Listener
from raftlog.model import Address


@asynccontextmanager
async def listening(listener: Listener) -> AsyncIterator[Address]:
    """Start a listener, for a minute at most."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = Address("127.0.0.1", probe.getsockname()[1])
    await listener.start(address)
    try:
        async with asyncio.timeout(60):
            yield address
    finally:
        await listener.close()


@asynccontextmanager
async def connected(address: Address) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(address.host, address.port)
    try:
        yield reader, writer
    finally:
        writer.close()


def post(path: str, body: bytes = b"", *lines: str, length: int | None = None) -> bytes:
    length = len(body) if length is None else length
    head = "\r\n".join([f"POST {path} HTTP/1.1", "Host: x", f"Content-Length: {length}", *lines, "", ""])
    return head.encode() + body


@dataclass
class Answer:
    status: int
    fields: dict[str, str]
    body: bytes

    @property
    def throttle_ms(self) -> int:
        return int(self.fields.get("raftlog-throttle-ms", 0))


async def answer(reader: asyncio.StreamReader) -> Answer:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    fields = dict(line.lower().split(": ", 1) for line in head[1:-2])
    return Answer(int(head[0].split()[1]), fields, await reader.readexactly(int(fields.get("content-length", 0))))
