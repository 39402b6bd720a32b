"""Large responses through aiohttp: sent in pieces, with a time-out for peers that do not read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from aiohttp import web

from raftlog.serving.connections import direct_writer
from raftlog.transport.socket_writer import Part, pieces_of
from raftlog.wire.codec import Buffer

PIECE_BYTES = 64 << 10
"""The most bytes of a response that aiohttp buffers per connection."""


class PartsResponse(web.StreamResponse):
    """A response whose parts are written one after another, as fast as the peer reads.

    Args:
        write_s: how long the peer may accept no byte; then the connection is closed.
        on_end: called once, when the response was sent or abandoned.
    """

    def __init__(
        self,
        request: web.Request,
        parts: Sequence[Part],
        *,
        status: int,
        headers: Mapping[str, str],
        write_s: float,
        on_end: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(status=status, headers=headers)
        self.content_length = sum(map(len, parts))
        self._request = request
        self._parts: Sequence[Part] = parts
        self._write_s = write_s
        self._on_end = on_end

    @property
    def memory_bytes(self) -> int:
        """The bytes that it keeps in memory; parts in files need none."""
        return sum(len(part) for part in self._parts if isinstance(part, bytes | bytearray | memoryview))

    def when_ended(self, on_end: Callable[[], None]) -> None:
        self._on_end = on_end

    async def write_eof(self, data: bytes = b"") -> None:
        """Send the remaining parts, and end the response.

        Raises:
            OSError: the connection is lost, the peer does not read, or a part's file cannot be read.
        """
        parts, self._parts = self._parts, ()
        try:
            if self._request.method == "HEAD" or not parts:
                await super().write_eof(data)
            else:
                await self._send_large(parts)
                await super().write_eof(data)
        except TimeoutError:
            self._abort()
            raise ConnectionAbortedError(f"the peer has not read anything for {self._write_s} s") from None
        except OSError:
            self._abort()  # The peer must not take a part of the response for all of it.
            raise
        finally:
            self.abandon()

    async def _send_large(self, parts: Sequence[Part]) -> None:
        """Send the first bytes through aiohttp, with the headers; the rest directly to the socket, where possible."""
        first, *rest = parts
        if isinstance(first, bytes | bytearray | memoryview):
            await self._write(memoryview(first)[:PIECE_BYTES])
            rest.insert(0, memoryview(first)[PIECE_BYTES:])
            if (socket_writer := direct_writer(self._request, self._write_s)) is not None:
                await socket_writer.send([part for part in rest if len(part)])
                return
        else:
            rest = list(parts)
        for part in rest:
            for piece in pieces_of(part, PIECE_BYTES):
                await self._write(piece)

    def abandon(self) -> None:
        """Drop the parts that were not sent."""
        self._parts = ()
        ended, self._on_end = self._on_end, None
        if ended is not None:
            ended()

    async def _write(self, piece: Buffer) -> None:
        async with asyncio.timeout(self._write_s):
            await self.write(piece)

    def _abort(self) -> None:
        if self._request.transport is not None:
            self._request.transport.abort()
