"""Writes to a connection without copies: directly to its socket if possible, otherwise through its transport.

A transport copies the bytes that its socket does not accept at once. If a plain connection has a `SocketWriter`,
nothing else writes to its transport. So the transport's buffer stays empty, and both may use one socket. With TLS, or
without a socket, bytes go through the transport: in few writes, since each is encrypted, sent and received by itself.
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

PIECE_BYTES = 128 << 10
"""Bytes per write through a transport: few writes, and buffers that stay in the CPU's cache."""
TURN_BYTES = 4 << 20
"""Bytes after which the writer yields to the event loop, even if the peer reads faster."""
_MAX_PIECES = 512
"""Pieces per system call; Linux allows 1,024."""


class FilePart(Protocol):
    """A part of a body that is in a file."""

    def __len__(self) -> int: ...

    def send(self, descriptor: int, start: int) -> int:
        """Write the bytes from `start` on to a socket; return how many it accepted.

        Raises:
            BlockingIOError: the socket accepts none now.
            OSError: from the system, or the bytes no longer exist.
        """
        ...

    def read(self, start: int = 0, count: int | None = None) -> bytes:
        """Return `count` bytes from `start` on, fewer at the end; None: all of them."""
        ...


Part = Buffer | FilePart


class SocketWriter:
    """Writes to one connection, whose protocol must call `pause`, `resume` and `lost`.

    Args:
        timeout_s: how long the peer may accept no byte; None: no limit.
    """

    def __init__(self, transport: asyncio.Transport, *, timeout_s: float | None) -> None:
        self._transport = transport
        self._timeout_s = timeout_s
        self._loop = asyncio.get_running_loop()
        own_socket = transport.get_extra_info("socket")
        plain = own_socket is not None and transport.get_extra_info("sslcontext") is None
        self._socket: int = own_socket.fileno() if plain else -1
        self._family: int = own_socket.family if plain else socket.AF_UNSPEC
        if not plain:
            transport.set_write_buffer_limits(high=PIECE_BYTES)  # A slow peer's memory, beside the kernel's.
        pacing.disable_for(transport)
        self._writer_fd = -1
        """A duplicate descriptor of the socket: the loop allows one owner per descriptor, and the transport is it."""
        self._waiting: asyncio.Future[None] | None = None
        self._paused = self._lost = False

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        self._wake()

    def lost(self) -> None:
        """Handle the loss of the connection: a pending `send` raises."""
        self._lost = True
        if self._writer_fd >= 0:
            self._loop.remove_writer(self._writer_fd)
            os.close(self._writer_fd)
            self._writer_fd = -1
        self._wake()

    async def send(self, parts: Sequence[Part]) -> None:
        """Write everything, in order.

        Raises:
            OSError: the connection is lost, or the peer does not read.
        """
        if self._socket < 0:
            await self._send_through_transport(parts)
            return
        memory: list[memoryview] = []
        for part in parts:
            if isinstance(part, bytes | bytearray | memoryview):
                memory.append(memoryview(part))
            else:
                # MSG_MORE: the file's bytes follow at once, so that the peer wakes only once.
                await self._write(memory, more=True)
                memory = []
                await self._send_file(part)
        await self._write(memory)

    async def _write(self, pieces: list[memoryview], *, more: bool = False) -> None:
        written_in_turn = 0
        while pieces:
            self._require_open()
            try:
                some = pieces[:_MAX_PIECES]
                written = self._write_some_of_more(some) if more else os.writev(self._socket, some)
            except BlockingIOError:
                written_in_turn = 0
                await self._until_writable()
                continue
            pieces = _after(pieces, written)
            if pieces:
                written_in_turn = await self._yield_after(written_in_turn + written)

    def _write_some_of_more(self, pieces: list[memoryview]) -> int:
        with borrowed(self._family, self._socket) as lent:
            return lent.sendmsg(pieces, (), socket.MSG_MORE)

    async def _send_file(self, part: FilePart) -> None:
        start, written_in_turn, length = 0, 0, len(part)
        while start < length:
            self._require_open()
            try:
                sent = part.send(self._socket, start)
            except BlockingIOError:
                written_in_turn = 0
                await self._until_writable()
                continue
            start += sent
            if start < length:
                written_in_turn = await self._yield_after(written_in_turn + sent)

    async def _send_through_transport(self, parts: Sequence[Part]) -> None:
        written_in_turn = 0
        for piece in _gathered(parts, PIECE_BYTES):
            self._require_open()
            self._transport.write(piece)
            written_in_turn = await self._yield_after(written_in_turn + len(piece))
            while self._paused:
                await self._wait()
                self._require_open()

    async def _yield_after(self, written_in_turn: int) -> int:
        if written_in_turn < TURN_BYTES:
            return written_in_turn
        await asyncio.sleep(0)
        return 0

    async def _until_writable(self) -> None:
        if self._writer_fd < 0:
            self._writer_fd = os.dup(self._socket)
        self._loop.add_writer(self._writer_fd, self._wake)
        try:
            await self._wait()
        finally:
            if self._writer_fd >= 0:
                self._loop.remove_writer(self._writer_fd)

    async def _wait(self) -> None:
        self._waiting = self._loop.create_future()
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._waiting
        except TimeoutError:
            raise ConnectionAbortedError(f"the peer has not read anything for {self._timeout_s} s") from None
        finally:
            self._waiting = None

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def _require_open(self) -> None:
        # After the transport has closed its socket, the descriptor may belong to another connection.
        if self._lost or self._transport.is_closing():
            raise ConnectionResetError("the connection is closed")


def pieces_of(part: Part, size: int) -> Iterator[Buffer]:
    """Split a part into pieces of at most `size` bytes; a part in a file is read piece by piece."""
    if isinstance(part, bytes | bytearray | memoryview):
        view = memoryview(part)
        for start in range(0, len(view), size):
            yield view[start : start + size]
    else:
        for start in range(0, len(part), size):
            yield part.read(start, size)


def _gathered(parts: Sequence[Part], size: int) -> Iterator[Buffer]:
    """Split and join parts: every piece has `size` bytes, the last one at most as many."""
    gathered: list[Buffer] = []
    space = size
    for part in parts:
        start, length = 0, len(part)
        while start < length:
            count = min(space, length - start)
            gathered.append(_slice(part, start, count))
            start += count
            space -= count
            if not space:
                yield _joined(gathered)
                gathered, space = [], size
    if gathered:
        yield _joined(gathered)


def _slice(part: Part, start: int, count: int) -> Buffer:
    if isinstance(part, bytes | bytearray | memoryview):
        return memoryview(part)[start : start + count]
    return part.read(start, count)


def _joined(pieces: list[Buffer]) -> Buffer:
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _after(pieces: list[memoryview], written: int) -> list[memoryview]:
    """Return `pieces` without their first `written` bytes."""
    for number, piece in enumerate(pieces):
        if written < len(piece):
            return [piece[written:], *pieces[number + 1 :]]
        written -= len(piece)
    return []
