"""Streamed responses of any length, produced as fast as the client reads."""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Protocol

from aiohttp import web

from raftlog.errors import OverloadedError, RaftlogError
from raftlog.serving.connections import direct_writer
from raftlog.serving.limits import WRITE_S
from raftlog.transport.socket_writer import pieces_of
from raftlog.wire.codec import Buffer

_log = logging.getLogger(__name__)
PIECE_BYTES = 256 << 10
"""Bytes per write through a transport, which copies what the socket does not accept."""


class StreamLimits:
    """Bounds the number of streamed responses, in all and per address: each takes memory.

    Args:
        total: the most streams; one address has at most half of them.
        write_s: how long a peer may accept no byte; then its connection is closed.
        what: what is read, for errors.
        how: how it is read.
    """

    def __init__(self, total: int, *, write_s: float = WRITE_S, what: str = "topics", how: str = "by URL") -> None:
        self._what, self._own = f"{what} are being read {how}", f"{what} {how}"
        self._total = total
        self.write_s = write_s
        self._from: Counter[str] = Counter()
        self._tails: weakref.WeakSet[StreamedResponse] = weakref.WeakSet()

    @property
    def size(self) -> int:
        """The number of open streams."""
        return self._from.total()

    def enter(self, address: str) -> None:
        """Count a stream; call `leave` when it has ended.

        Raises:
            OverloadedError: there are too many; this one was not counted.
        """
        if self.size >= self._total:
            raise OverloadedError(
                f"{self.size} {self._what}, the most allowed is {self._total}; send the request later"
            )
        if self._from[address] >= max(1, self._total // 2):
            raise OverloadedError(
                f"{address} reads {self._from[address]} {self._own} already; close one, or send the request later"
            )
        self._from[address] += 1

    def leave(self, address: str) -> None:
        """Stop counting a stream."""
        self._from[address] -= 1
        if not self._from[address]:
            del self._from[address]

    def remember_tail(self, response: StreamedResponse) -> None:
        """Register a response that does not end by itself (`tail`)."""
        self._tails.add(response)

    async def end_tails(self, _: web.Application) -> None:
        """Abort the registered responses, because the listener closes."""
        for response in list(self._tails):
            response.abort()


class Pace(Protocol):
    """Limits the rate of a stream."""

    @property
    def piece_bytes(self) -> int:
        """The most bytes to send at once."""
        ...

    async def sent(self, size: int) -> None:
        """Wait after some bytes were sent."""
        ...


class StreamedResponse(web.StreamResponse):
    """A response whose pieces come from a generator.

    If the generator raises, the connection is closed before the end of the response, so that the client sees that it is
    incomplete.

    Args:
        first: pieces made before the response begins, while an error could still set the status.
        rest: yields the other pieces.
        endless: `rest` does not end by itself.
    """

    def __init__(
        self,
        request: web.Request,
        first: Sequence[Buffer],
        rest: AsyncGenerator[Buffer, None],
        *,
        headers: Mapping[str, str],
        limits: StreamLimits,
        status: int = 200,
        endless: bool = False,
    ) -> None:
        super().__init__(status=status, headers=headers)
        self._request = request
        self._first = first
        self._rest = rest
        self._write_s = limits.write_s
        self.pace: Pace | None = None
        """Limits the rate of the response; None: as fast as the peer reads."""
        self._begun = False
        """Whether aiohttp has sent the headers, as it does with the first bytes."""
        # aiohttp does not send a response whose peer has disconnected; the finalizer stops counting it.
        self._left = weakref.finalize(self, limits.leave, request.remote or "")
        self._left.atexit = False
        if endless:
            limits.remember_tail(self)

    async def write_eof(self, data: bytes = b"") -> None:
        """Produce and send all pieces.

        Raises:
            ConnectionError: the connection is lost, the peer does not read, or the generator failed.
        """
        try:
            if self._request.method != "HEAD":
                await self._send_all()
            await super().write_eof(data)
        except RaftlogError as error:
            _log.warning("%s %s was cut short: %s", self._request.method, self._request.path, error.message)
            self.abort()
            raise ConnectionAbortedError(error.message) from None
        except ConnectionError:
            raise
        except Exception:  # noqa: BLE001  (the log gets the traceback, the client a closed connection)
            _log.exception("%s %s was cut short", self._request.method, self._request.path)
            self.abort()
            raise ConnectionAbortedError("the response cannot be produced") from None
        finally:
            await self._rest.aclose()
            self._left()

    async def _send_all(self) -> None:
        """Send each piece while the next one is produced."""
        for made in self._first:
            await self._send(made)
        self._first = ()
        piece: Buffer | None = await anext(self._rest, None)
        while piece is not None:
            next_piece = asyncio.ensure_future(anext(self._rest, None))
            try:
                await self._send(piece)
                piece = await next_piece
            finally:
                next_piece.cancel()
                await asyncio.gather(next_piece, return_exceptions=True)

    async def _send(self, data: Buffer) -> None:
        if self.pace is None:
            await self._send_at_once(data)
            return
        for piece in pieces_of(data, self.pace.piece_bytes):
            await self._send_at_once(piece)
            await self.pace.sent(len(piece))

    async def _send_at_once(self, data: Buffer) -> None:
        if not data:
            return  # An empty chunk would end the response.
        try:
            if not self._begun or (socket_writer := direct_writer(self._request, self._write_s)) is None:
                self._begun = True
                await self._send_through_transport(data)
            elif self.headers.get("Transfer-Encoding") == "chunked":
                await socket_writer.send([b"%x\r\n" % len(data), data, b"\r\n"])
            else:
                await socket_writer.send([data])
        except ConnectionAbortedError:
            self.abort()
            raise

    async def _send_through_transport(self, data: Buffer) -> None:
        for piece in pieces_of(data, PIECE_BYTES):
            try:
                async with asyncio.timeout(self._write_s):
                    await self.write(piece)
            except TimeoutError:
                raise ConnectionAbortedError(f"the peer has not read anything for {self._write_s} s") from None

    def abort(self) -> None:
        """Close the connection before the end of the response."""
        if self._request.transport is not None:
            self._request.transport.abort()
