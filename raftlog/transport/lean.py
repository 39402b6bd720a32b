"""A minimal ("lean") HTTP/1.1 client for raw batches: receives each response directly into one buffer (docs/adr/0012).

- Works with the lean path of brokers, and with any server that sends a Content-Length.
- A connection carries one request at a time. After any error or unexpected byte it is not used again.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple, cast

from raftlog.errors import UnknownOutcomeError, UnreachableError
from raftlog.model import Address
from raftlog.tls import TlsContext, explain
from raftlog.transport import pacing
from raftlog.transport.buffers import ReceiveBuffers
from raftlog.transport.connect_limit import connect_limit
from raftlog.transport.socket_writer import Part, SocketWriter
from raftlog.wire import http1, media

MAX_ANSWER_BYTES = 1 << 30
IDLE_S = 15.0
"""Connections idle for longer are not used again: their server may be about to close them."""
_NO_BODY = (204, 304)
_THROTTLE = media.THROTTLE_MS.lower()


class ResponseFormatError(ConnectionError):
    """The received bytes are not a response that this client supports."""


class _Head(NamedTuple):
    """What a response's head says. `throttle`: the header with the pause that the response asks for; "": none."""

    status: int
    length: int
    throttle: str
    closes: bool


@lru_cache(maxsize=64)
def _read_head(head: bytes) -> _Head:
    """Read the head of a response. Servers repeat theirs, so the last ones are kept.

    Raises:
        ResponseFormatError: it is not supported.
    """
    read = http1.parse_response(head)
    if read is None:
        raise ResponseFormatError(f"not the head of an HTTP/1.1 response: {head[:80]!r}")
    length = 0 if read.status in _NO_BODY else http1.content_length(read.fields)
    if read.status < 200 or length is None or length > MAX_ANSWER_BYTES:
        raise ResponseFormatError(f"status {read.status} with a body of unknown length, or beyond {MAX_ANSWER_BYTES}")
    closes = read.fields.get("connection", "keep-alive").lower() != "keep-alive"
    return _Head(read.status, length, read.fields.get(_THROTTLE, ""), closes)


class _Connection(asyncio.BufferedProtocol):
    """One connection."""

    def __init__(self, buffers: ReceiveBuffers, on_lost: Callable[[_Connection], None]) -> None:
        self._buffers = buffers
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self.idle_since = 0.0
        self._head = bytearray(http1.MAX_HEAD_BYTES)
        self._head_bytes = 0
        self._status = 0
        self.throttle = ""
        """The header with the pause that the last response asked for; "": none."""
        self._body: memoryview | None = None
        self._received = 0
        self._answer: asyncio.Future[tuple[int, memoryview]] | None = None
        self._sending = self._broken = False

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's transports do not inherit from it.
        self._writer = SocketWriter(self._transport, timeout_s=None)  # The request has a deadline.

    def connection_lost(self, exc: Exception | None) -> None:
        self._writer.lost()
        self._break(ConnectionResetError(f"the peer closed the connection: {exc or 'no more to read'}"))
        self.closed.set_result(None)
        self._on_lost(self)

    def pause_writing(self) -> None:
        self._writer.pause()

    def resume_writing(self) -> None:
        self._writer.resume()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002  (the remaining size is known)
        if self._body is not None:
            return self._body[self._received :]
        return memoryview(self._head)[self._head_bytes :]

    def buffer_updated(self, nbytes: int) -> None:
        if self._body is not None:
            self._received += nbytes
        elif self._answer is None or self._answer.done():
            self._break(ResponseFormatError("received bytes without a request"))
            return
        else:
            self._head_bytes += nbytes
            try:
                self._read_head()
            except ResponseFormatError as error:
                self._break(error)
                return
        if self._body is not None and self._received == len(self._body):
            self._complete(self._body)

    # What the pool calls.

    @property
    def reusable(self) -> bool:
        """Whether another request may follow: every request was answered completely and without error."""
        return not self._broken and self._answer is None

    async def exchange(self, parts: Sequence[Part], deadline: float) -> tuple[int, memoryview]:
        """Send a request, and return status and body of its response.

        Raises:
            TimeoutError: it has not arrived before `deadline` (loop time, s).
            OSError: the connection is lost, or the response is not supported.
        """
        answer = self._answer = self._loop.create_future()
        timer = self._loop.call_at(deadline, self._on_late)
        try:
            await self._send(parts, answer)
            status, body = await answer
            self._answer = None
            return status, body
        finally:
            timer.cancel()
            answer.cancel()

    async def _send(self, parts: Sequence[Part], answer: asyncio.Future[tuple[int, memoryview]]) -> None:
        self._sending = True
        try:
            await self._writer.send(parts)
        except OSError:
            self._broken = True
            if not answer.done():  # Otherwise the peer has responded without reading the whole request.
                raise
        finally:
            self._sending = False

    def abort(self) -> None:
        self._transport.abort()

    def _on_late(self) -> None:
        self._break(TimeoutError("no response before the deadline"))

    # Reading.

    def _read_head(self) -> None:
        end = self._head.find(http1.HEAD_END, 0, self._head_bytes)
        if end < 0:
            if self._head_bytes == len(self._head):
                raise ResponseFormatError(f"the response's head does not end within {self._head_bytes} bytes")
            return
        end += len(http1.HEAD_END)
        head = _read_head(bytes(memoryview(self._head)[:end]))
        received = self._head_bytes - end
        if received > head.length:
            raise ResponseFormatError(
                f"received {received - head.length} bytes more than the Content-Length of {head.length}"
            )
        body = self._buffers.take(head.length)
        body[:received] = memoryview(self._head)[end : self._head_bytes]
        self.throttle = head.throttle
        self._status, self._head_bytes, self._body, self._received = head.status, 0, body, received
        self._broken = self._broken or head.closes

    def _complete(self, body: memoryview) -> None:
        self._body = None  # Drop the view, so that the buffer can be reused.
        assert self._answer is not None
        if not self._answer.done():
            self._answer.set_result((self._status, body))
        if self._sending:
            self._broken = True  # The rest of the request is not sent.
            self._writer.lost()

    def _break(self, error: OSError) -> None:
        self._broken = True
        self._body = None
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)
            self._answer.exception()  # Mark it as retrieved: the caller may have been cancelled.
        if self._sending:
            self._writer.lost()
        self._transport.abort()


class LeanPool:
    """A connection pool: a bounded number of connections per server, each with one request at a time.

    Args:
        connect_timeout_ms: how long one connection attempt may take.
        tls: returns the TLS with which addresses with TLS are dialled; None: there are none.
    """

    def __init__(
        self, *, connect_timeout_ms: int, connections_per_host: int, tls: Callable[[], TlsContext] | None = None
    ) -> None:
        self._tls = tls
        self._connect_timeout_ms = connect_timeout_ms
        self._slots: defaultdict[Address, asyncio.Semaphore] = defaultdict(
            lambda: asyncio.Semaphore(connections_per_host)
        )
        self._idle: defaultdict[Address, list[_Connection]] = defaultdict(list)
        self._all: dict[_Connection, Address] = {}
        self._buffers = ReceiveBuffers()
        self._closed = False

    def __len__(self) -> int:
        return len(self._all)

    async def close(self) -> None:
        """Close every connection; pending requests raise."""
        self._closed = True
        closed = [connection.closed for connection in self._all]
        for connection in list(self._all):
            connection.abort()
        if closed:
            await asyncio.wait(closed, timeout=1.0)

    async def post(
        self,
        address: Address,
        target: str,
        parts: Sequence[Part],
        *,
        timeout_ms: int,
        fields: Sequence[tuple[str, str]],
        server_name: str = "",
        on_throttle: Callable[[str], None] = lambda _: None,
    ) -> tuple[int, memoryview]:
        """Send one request; return status and body of its response. A kept body keeps its buffer in use.

        Args:
            server_name: the host name in the certificate of a server with TLS; "": the address's.
            on_throttle: called with the header of a response that asks for a pause.

        Raises:
            UnreachableError: no connection; nothing was sent.
            UnknownOutcomeError: sent, but no valid response within `timeout_ms`.
        """
        length = ("Content-Length", sum(map(len, parts)))
        head = http1.encode_head(f"POST {target} HTTP/1.1", [("Host", address.authority), *fields, length])
        deadline = asyncio.get_running_loop().time() + timeout_ms / 1000
        sent = False
        try:
            connection = await self._take(address, server_name, deadline)
            try:
                sent = True
                answer = await connection.exchange([head, *parts], deadline)
                if connection.throttle:
                    on_throttle(connection.throttle)
                return answer
            finally:
                self._give_back(address, connection)
        except TimeoutError as error:
            if not sent:
                raise UnreachableError(f"cannot connect to {address.url}{target}: timed out") from error
            raise UnknownOutcomeError(f"POST {address.url}{target}: no answer within {timeout_ms} ms") from error
        except OSError as error:
            url = f"{address.url}{target}"
            if not sent:
                raise UnreachableError(f"cannot connect to {url}: {explain(error) or error}") from error
            raise UnknownOutcomeError(f"POST {url}: connection lost: {error!r}") from error

    async def _take(self, address: Address, server_name: str, deadline: float) -> _Connection:
        """Return a connection for one request, to be given back.

        An idle connection needs no wait, and so no time limit of its own: entering and leaving one costs more than the
        rest.

        Raises:
            TimeoutError: none was free or connected before `deadline` (loop time, s).
            OSError: it cannot be connected.
        """
        slots = self._slots[address]
        if slots.locked():
            async with asyncio.timeout_at(deadline):
                await slots.acquire()
        else:
            await slots.acquire()
        try:
            if (idle := self._take_idle(address)) is not None:
                return idle
            async with asyncio.timeout_at(deadline):
                return await self._connect(address, server_name)
        except BaseException:
            slots.release()
            raise

    def _give_back(self, address: Address, connection: _Connection) -> None:
        """Keep a connection for the next request; close it unless its request succeeded."""
        if connection.reusable and not self._closed:
            connection.idle_since = asyncio.get_running_loop().time()
            self._idle[address].append(connection)
        else:
            connection.abort()
        self._slots[address].release()

    def _take_idle(self, address: Address) -> _Connection | None:
        idle, now = self._idle[address], asyncio.get_running_loop().time()
        for connection in [connection for connection in idle if now - connection.idle_since > IDLE_S]:
            idle.remove(connection)
            connection.abort()
        return idle.pop() if idle else None

    async def _connect(self, address: Address, server_name: str) -> _Connection:
        tls = self._tls().fresh() if address.tls and self._tls is not None else None
        async with connect_limit(self._connect_timeout_ms / 1000):
            connection = await pacing.connect(
                lambda: _Connection(self._buffers, self._forget),
                address.host,
                address.port,
                tls,
                server_name or address.host,
            )
        self._all[connection] = address
        if connection.closed.done():
            self._forget(connection)
        return connection

    def _forget(self, connection: _Connection) -> None:
        address = self._all.pop(connection, None)
        if address is not None and connection in self._idle[address]:
            self._idle[address].remove(connection)
