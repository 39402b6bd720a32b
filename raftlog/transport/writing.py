"""Writing to a connection without copies: straight to its socket where that can be, else through its transport.

A transport copies what its socket does not take at once. Nothing else writes to a plain connection that has an
`Outlet`, so its transport's own buffer stays empty, and both may write to one socket. With TLS, and wherever there is
no socket, bytes go through the transport.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator, Sequence
from typing import Protocol

from raftlog.transport import pacing
from raftlog.transport.pacing import borrowed
from raftlog.wire.codec import Buffer

PIECE_BYTES = 256 << 10
"""Through a transport: what it may have to copy."""
TURN_BYTES = 4 << 20
"""After so much other connections get their turns, however quickly the peer reads."""
_MAX_PIECES = 512
"""In one system call; Linux takes 1,024."""


class FilePart(Protocol):
    """A part of a body that lies in a file."""

    def __len__(self) -> int: ...

    def send(self, descriptor: int, start: int) -> int:
        """Write what comes after the first `start` bytes to a socket; return how many bytes it took.

        Raises:
            BlockingIOError: it takes none now.
            OSError: from the system, or the bytes are no longer there.
        """
        ...

    def read(self, start: int = 0, count: int | None = None) -> bytes:
        """Return `count` bytes from `start` on, fewer at the end; all that follow if None."""
        ...


Part = Buffer | FilePart


class Outlet:
    """Writes to one connection. Its protocol tells it of `pause`, `resume` and `lost`.

    Args:
        timeout_s: how long a peer may take no byte at all; None: for ever.
    """

    def __init__(self, transport: asyncio.Transport, *, timeout_s: float | None) -> None:
        self._transport = transport
        self._timeout_s = timeout_s
        self._loop = asyncio.get_running_loop()
        below = transport.get_extra_info("socket")
        plain = below is not None and transport.get_extra_info("sslcontext") is None
        self._socket: int = below.fileno() if plain else -1
        self._family: int = below.family if plain else socket.AF_UNSPEC
        pacing.stop_of(transport)
        self._watched = -1
        """The same socket under another number: the loop watches each number for one owner, and ours has one."""
        self._waiting: asyncio.Future[None] | None = None
        self._paused = self._lost = False

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        self._wake()

    def lost(self) -> None:
        """Learn that the connection is gone: whoever writes is told."""
        self._lost = True
        if self._watched >= 0:
            self._loop.remove_writer(self._watched)
            os.close(self._watched)
            self._watched = -1
        self._wake()

    async def send(self, parts: Sequence[Part]) -> None:
        """Write everything, in order.

        Raises:
            OSError: the connection is lost, or the peer takes nothing any more.
        """
        if self._socket < 0:
            await self._send_through_transport(parts)
            return
        memory: list[memoryview] = []
        for part in parts:
            if isinstance(part, bytes | bytearray | memoryview):
                memory.append(memoryview(part))
            else:
                # What follows at once need not wake the peer twice.
                await self._write(memory, more=True)
                memory = []
                await self._send_file(part)
        await self._write(memory)

    async def _write(self, pieces: list[memoryview], *, more: bool = False) -> None:
        turn = 0
        while pieces:
            self._require_open()
            try:
                some = pieces[:_MAX_PIECES]
                written = self._write_some_of_more(some) if more else os.writev(self._socket, some)
            except BlockingIOError:
                turn = 0
                await self._until_writable()
                continue
            pieces = _after(pieces, written)
            if pieces:
                turn = await self._take_turns(turn + written)

    def _write_some_of_more(self, pieces: list[memoryview]) -> int:
        with borrowed(self._family, self._socket) as lent:
            return lent.sendmsg(pieces, (), socket.MSG_MORE)

    async def _send_file(self, part: FilePart) -> None:
        start, turn, length = 0, 0, len(part)
        while start < length:
            self._require_open()
            try:
                sent = part.send(self._socket, start)
            except BlockingIOError:
                turn = 0
                await self._until_writable()
                continue
            start += sent
            if start < length:
                turn = await self._take_turns(turn + sent)

    async def _send_through_transport(self, parts: Sequence[Part]) -> None:
        for part in parts:
            for piece in pieces_of(part, PIECE_BYTES):
                self._require_open()
                self._transport.write(piece)
                while self._paused:
                    await self._wait()
                    self._require_open()

    async def _take_turns(self, turn: int) -> int:
        if turn < TURN_BYTES:
            return turn
        await asyncio.sleep(0)
        return 0

    async def _until_writable(self) -> None:
        if self._watched < 0:
            self._watched = os.dup(self._socket)
        self._loop.add_writer(self._watched, self._wake)
        try:
            await self._wait()
        finally:
            if self._watched >= 0:
                self._loop.remove_writer(self._watched)

    async def _wait(self) -> None:
        self._waiting = self._loop.create_future()
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._waiting
        except TimeoutError:
            raise ConnectionAbortedError(f"the peer has taken nothing for {self._timeout_s} s") from None
        finally:
            self._waiting = None

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def _require_open(self) -> None:
        # The transport's socket is closed after it has said so: its number is another connection's from then on.
        if self._lost or self._transport.is_closing():
            raise ConnectionResetError("the connection is closed")


def pieces_of(part: Part, size: int) -> Iterator[Buffer]:
    """Cut a part into pieces of at most `size` bytes; one that lies in a file is read piece by piece."""
    if isinstance(part, bytes | bytearray | memoryview):
        view = memoryview(part)
        for start in range(0, len(view), size):
            yield view[start : start + size]
    else:
        for start in range(0, len(part), size):
            yield part.read(start, size)


def _after(pieces: list[memoryview], written: int) -> list[memoryview]:
    """Return what is left of `pieces`."""
    for number, piece in enumerate(pieces):
        if written < len(piece):
            return [piece[written:], *pieces[number + 1 :]]
        written -= len(piece)
    return []
