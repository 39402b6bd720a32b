"""Answers of any length: made while they are sent, as fast as their reader takes them."""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence

from aiohttp import web

from raftlog.errors import OverloadedError, RaftlogError
from raftlog.serving.connections import AiohttpConnection
from raftlog.transport.writing import Outlet, pieces_of
from raftlog.wire.codec import Buffer

_log = logging.getLogger(__name__)
PIECE_BYTES = 256 << 10
"""Written at once through a transport, which copies what the peer does not take."""


class StreamLimits:
    """Bounds how many long answers are under way, in all and for each address: each holds some memory.

    Args:
        total: the most of them; one address has at most half.
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self._from: Counter[str] = Counter()
        self._tails: weakref.WeakSet[StreamedResponse] = weakref.WeakSet()

    @property
    def size(self) -> int:
        """How many are under way."""
        return self._from.total()

    def enter(self, address: str) -> None:
        """Count one more; `leave` when it has ended.

        Raises:
            OverloadedError: there are too many; it does not count.
        """
        if self.size >= self._total:
            raise OverloadedError(
                f"{self.size} topics are being read by URL here, at most {self._total} at once; later"
            )
        if self._from[address] >= max(1, self._total // 2):
            raise OverloadedError(f"{address} reads {self._from[address]} topics by URL here already; later")
        self._from[address] += 1

    def leave(self, address: str) -> None:
        """Count one no longer."""
        self._from[address] -= 1
        if not self._from[address]:
            del self._from[address]

    def remember_tail(self, response: StreamedResponse) -> None:
        """Remember an answer that does not end by itself."""
        self._tails.add(response)

    async def end_tails(self, _: web.Application) -> None:
        """End those that do not end by themselves: the listener closes."""
        for response in list(self._tails):
            response.abort()


class StreamedResponse(web.StreamResponse):
    """An answer whose pieces come from a generator.

    If they end with an error, the connection is closed before the answer's end, so that no reader takes it for whole.

    Args:
        first: pieces that were made already, while an error could still be answered as one.
        rest: what follows.
        write_s: how long the peer may take no byte; then the connection is closed.
        endless: the rest has no end.
    """

    def __init__(
        self,
        request: web.Request,
        first: Sequence[Buffer],
        rest: AsyncGenerator[Buffer, None],
        *,
        headers: Mapping[str, str],
        write_s: float,
        limits: StreamLimits,
        status: int = 200,
        endless: bool = False,
    ) -> None:
        super().__init__(status=status, headers=headers)
        self._request = request
        self._first = first
        self._rest = rest
        self._write_s = write_s
        self._begun = False
        """Whether aiohttp has sent the headers, as it does with the first bytes."""
        # One that aiohttp never comes to send, because its peer has gone, does not count for ever.
        self._left = weakref.finalize(self, limits.leave, request.remote or "")
        self._left.atexit = False
        if endless:
            limits.remember_tail(self)

    async def write_eof(self, data: bytes = b"") -> None:
        """Make and send everything.

        Raises:
            ConnectionError: the connection is lost, the peer takes nothing any more, or there is no rest to send.
        """
        transport = self._request.transport
        connection = transport.get_protocol() if transport is not None else None
        if isinstance(connection, AiohttpConnection):
            connection.began()  # What comes meanwhile is the beginning of a request that has to wait.
        try:
            if self._request.method != "HEAD":
                await self._send_all()
            await super().write_eof(data)
        except RaftlogError as error:
            _log.warning("%s %s ends before its end: %s", self._request.method, self._request.path, error.message)
            self.abort()
            raise ConnectionAbortedError(error.message) from None
        except ConnectionError:
            raise
        except Exception:  # noqa: BLE001  (the log gets the traceback, the reader no end)
            _log.exception("%s %s ends before its end", self._request.method, self._request.path)
            self.abort()
            raise ConnectionAbortedError("the answer cannot be made") from None
        finally:
            if isinstance(connection, AiohttpConnection):
                connection.ended()
            await self._rest.aclose()
            self._left()

    async def _send_all(self) -> None:
        """Send each piece while the next one is made."""
        for made in self._first:
            await self._send(made)
        self._first = ()
        piece: Buffer | None = await anext(self._rest, None)
        while piece is not None:
            following = asyncio.ensure_future(anext(self._rest, None))
            try:
                await self._send(piece)
                piece = await following
            finally:
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)

    async def _send(self, data: Buffer) -> None:
        if not data:
            return  # An empty chunk would be the answer's end.
        try:
            if not self._begun or (outlet := self._outlet()) is None:
                self._begun = True
                await self._send_through_transport(data)
            elif self.headers.get("Transfer-Encoding") == "chunked":
                await outlet.send([b"%x\r\n" % len(data), data, b"\r\n"])
            else:
                await outlet.send([data])
        except ConnectionAbortedError:
            self.abort()
            raise

    def _outlet(self) -> Outlet | None:
        """Return what writes to the socket; None: aiohttp's transport still holds bytes that come first."""
        transport = self._request.transport
        if transport is None or transport.get_write_buffer_size() or transport.get_extra_info("sslcontext"):
            return None
        connection = transport.get_protocol()
        return connection.outlet(self._write_s) if isinstance(connection, AiohttpConnection) else None

    async def _send_through_transport(self, data: Buffer) -> None:
        for piece in pieces_of(data, PIECE_BYTES):
            try:
                async with asyncio.timeout(self._write_s):
                    await self.write(piece)
            except TimeoutError:
                raise ConnectionAbortedError(f"the peer has taken nothing for {self._write_s} s") from None

    def abort(self) -> None:
        """Close the connection: the answer is not all."""
        if self._request.transport is not None:
            self._request.transport.abort()
