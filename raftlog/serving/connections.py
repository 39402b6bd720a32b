"""Limits of a listener's connections, in all and per address. A connection above them gets 503 and is closed.

Without limits a client that leaks connections would use up the process' file descriptors, which the log needs, too.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, ClassVar, cast

from aiohttp import StreamReader, hdrs, web
from aiohttp.streams import EMPTY_PAYLOAD

from raftlog.errors import InvalidRequestError, OverloadedError, RaftlogError
from raftlog.request_marks import RequestMarks
from raftlog.serving.error_bodies import encoded_error
from raftlog.serving.limits import MAX_HEAD_BYTES, RequestLimits
from raftlog.serving.metered import Metered
from raftlog.serving.turnstile import Turnstile
from raftlog.serving.unsent import Unsent
from raftlog.transport.socket_writer import SocketWriter
from raftlog.wire import http1, media

if TYPE_CHECKING:
    from raftlog.serving.admission import Handler

_log = logging.getLogger(__name__)
LOG_INTERVAL_S = 10.0
"""The least time between two log lines about refused connections, and between two about aiohttp's exceptions."""
_CHARGED_S = 0.0005
"""A connection's time of parsing is charged once it is longer: a usual request takes a hundredth of it."""
_AIOHTTP_S = 0.0001
"""About what aiohttp computes for a request outside of its handler and its response, which is not measured."""


class ConnectionLimits:
    """Counts the connections of one listener.

    One address gets at most as many connections as are left for all others, the dynamic threshold of Choudhury and
    Hahne (1998). Each further address that takes all it can halves what is left: a few of them shut out no other.

    Args:
        name: the listener's name, for the log.
        total, per_address: the most connections, of all clients and of one IP address.
    """

    def __init__(self, name: str, *, total: int, per_address: int) -> None:
        self.refused = 0
        self._name = name
        self._total, self._per_address = total, per_address
        self._from: Counter[str] = Counter()
        self._size = 0
        self._logged_at = float("-inf")
        self._unlogged = 0

    @property
    def size(self) -> int:
        """The number of open connections."""
        return self._size

    def enter(self, address: str) -> None:
        """Count a new connection.

        Raises:
            OverloadedError: there are too many; this one was not counted.
        """
        if self._size >= self._total:
            raise self._refusal(f"this node has {self._size} connections, the most allowed is {self._total}")
        held, left = self._from[address], self._total - self._size
        if held >= self._per_address:
            raise self._refusal(
                f"{address} has {held} connections to this node, the most allowed is {self._per_address} per address"
            )
        if held >= left:
            raise self._refusal(
                f"{address} has {held} connections to this node, which has {self._size} and may have {self._total}: "
                "one address gets at most as many as are left for all others"
            )
        self._size += 1
        self._from[address] += 1

    def leave(self, address: str) -> None:
        """Stop counting a connection."""
        self._size -= 1
        self._from[address] -= 1
        if not self._from[address]:
            del self._from[address]

    def _refusal(self, why: str) -> OverloadedError:
        """Return the error; log the number of refusals once in `LOG_INTERVAL_S`."""
        self.refused += 1
        self._unlogged += 1
        now = asyncio.get_running_loop().time()
        if now - self._logged_at >= LOG_INTERVAL_S:
            _log.warning(
                "%s listener: %d connections refused, the last one because %s", self._name, self._unlogged, why
            )
            self._logged_at, self._unlogged = now, 0
        return OverloadedError(f"{why}: close some, or raise broker.max_connections or max_connections_per_address")


def refusal_bytes(error: RaftlogError, status: int = 503) -> bytes:
    """Return a complete HTTP response for a refused connection."""
    marks = RequestMarks()
    body = encoded_error(error, marks)
    fields: list[tuple[str, str | int]] = [
        ("Content-Type", media.JSON),
        ("Content-Length", len(body)),
        (media.REQUEST_ID, marks.id),
        *((("Retry-After", "1"),) if status == 503 else ()),
        *((("Upgrade", "TLS/1.2, HTTP/1.1"),) if status == 426 else ()),
        ("Connection", "close"),
    ]
    return http1.encode_head(http1.status_line(status), fields) + body


class AiohttpConnection(asyncio.Protocol):
    """A connection that aiohttp serves: counted, and closed if a request's head, or the peer's reading, takes too long.

    Args:
        limits: counts the connection already, under the peer's `address`.
        turnstile: is charged the time of parsing and handling requests, and of sending responses.
        times: the longest times.
    """

    def __init__(
        self,
        inner: AiohttpHandler,
        limits: ConnectionLimits,
        turnstile: Turnstile,
        address: str,
        *,
        times: RequestLimits,
    ) -> None:
        self._inner, self._limits, self._turnstile, self._address = inner, limits, turnstile, address
        self._head_s, self._unsent = times.head_s, Unsent(times.write_s)
        self._transport: asyncio.Transport | None = None
        self._ahead = bytearray()
        """What was received and is not parsed yet: further requests, while one is answered."""
        self._head_bytes = 0
        """How many bytes of an unfinished head are parsed."""
        self._is_paused = False
        self._under_way = 0
        self._parse_s = 0.0
        """The time of parsing that is not charged yet."""
        self._socket_writer: SocketWriter | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.owing: object | None = None
        """What the last request owes to a quota; the next one waits for it."""

    def began(self) -> None:
        """Mark a request as being handled: its head is complete."""
        self._under_way += 1
        self._stop_timer()

    def ended(self) -> None:
        """Mark a request as handled; its response may still be being sent."""
        self._under_way -= 1
        self._unsent.watch()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._unsent.transport = self._transport
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if not self._under_way and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._head_s, self._time_out)
        self._ahead += data
        self.parse()

    def parse(self) -> None:
        """Parse what was received, until a whole request waits for its answer. aiohttp would parse 32 requests ahead.

        Reading pauses while more than a head is ahead.
        """
        assert self._transport is not None
        if self._transport.is_closing():
            self._ahead.clear()
            return
        began = time.perf_counter()
        while self._ahead and not self._inner.has_whole_request:
            if self._head_bytes == MAX_HEAD_BYTES:
                self._refuse(InvalidRequestError(f"the head of the request has more than {MAX_HEAD_BYTES} bytes"), 431)
                return
            piece = bytes(self._ahead[: MAX_HEAD_BYTES - self._head_bytes])
            del self._ahead[: len(piece)]
            self._head_bytes = self._head_bytes + len(piece) if self._inner.parse(piece) else 0
        if len(self._ahead) > MAX_HEAD_BYTES:
            self._is_paused = True
            self._transport.pause_reading()
        elif self._is_paused:
            self._is_paused = False
            if not self._inner.holds_reading:
                self._transport.resume_reading()
        self._parse_s += time.perf_counter() - began
        if self._parse_s > _CHARGED_S:
            self.charge(self._parse_s)
            self._parse_s = 0.0

    def charge(self, seconds: float) -> None:
        """Charge the peer's address for computing time."""
        self._turnstile.charge(self._address, seconds)

    def charge_response(self, seconds: float) -> None:
        """Charge the peer's address for sending a response, and for aiohttp's own work."""
        self.charge(seconds + _AIOHTTP_S)

    def eof_received(self) -> bool | None:
        self._inner.eof_received()
        return None

    def pause_writing(self) -> None:
        self._inner.pause_writing()
        self._unsent.watch()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def socket_writer(self, timeout_s: float) -> SocketWriter:
        """Return the writer for large pieces. The transport's buffer must be empty, and TLS off.

        Args:
            timeout_s: how long the peer may accept no byte; the first call decides.
        """
        if self._socket_writer is None:
            assert self._transport is not None
            self._socket_writer = SocketWriter(self._transport, timeout_s=timeout_s)
        return self._socket_writer

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._unsent.stop()
        if self._socket_writer is not None:
            self._socket_writer.lost()
        self._limits.leave(self._address)
        self._inner.connection_lost(exc)

    def _time_out(self) -> None:
        self._timer = None
        self._refuse(InvalidRequestError(f"the head of the request has not arrived within {self._head_s:g} s"), 408)

    def _refuse(self, error: RaftlogError, status: int) -> None:
        """Answer a head that is not complete, and close the connection."""
        assert self._transport is not None
        self._ahead.clear()
        self._transport.write(refusal_bytes(error, status))
        self._transport.close()
        self._unsent.watch()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def connection_of(request: web.BaseRequest) -> AiohttpConnection | None:
    """Return the connection of a request; None: it is lost, or another kind."""
    connection = request.transport.get_protocol() if request.transport is not None else None
    return connection if isinstance(connection, AiohttpConnection) else None


def direct_writer(request: web.Request, timeout_s: float) -> SocketWriter | None:
    """Return the writer of a request's connection, for large pieces after the response's headers.

    None: TLS is on, or aiohttp's transport still buffers earlier bytes.

    Args:
        timeout_s: how long the peer may accept no byte.
    """
    transport = request.transport
    if transport is None or transport.get_write_buffer_size() or transport.get_extra_info("sslcontext"):
        return None
    connection = transport.get_protocol()
    return connection.socket_writer(timeout_s) if isinstance(connection, AiohttpConnection) else None


class AiohttpHandler(web.RequestHandler):
    """aiohttp's handler of one connection; its own error responses have raftlog's format."""

    _logged_at: ClassVar[float] = float("-inf")
    """When a handler of this process last logged an exception."""
    _answered = 0
    """How many of the parsed requests have been answered."""
    _newest_body: StreamReader = EMPTY_PAYLOAD
    """The body of the newest request."""

    def parse(self, data: bytes) -> bool:
        """Parse bytes; return whether all of them belong to a head that is not complete."""
        was_head, count = self._newest_body.is_eof(), self._request_count
        self.data_received(data)
        return was_head and self._request_count == count

    def data_received(self, data: bytes) -> None:
        """Parse bytes. aiohttp calls this, too, for those that it has kept."""
        super().data_received(data)
        self._note_newest()

    @property
    def has_whole_request(self) -> bool:
        """Whether a request has arrived completely, and is not answered yet."""
        return self._request_count > self._answered and self._newest_body.is_eof()

    @property
    def holds_reading(self) -> bool:
        """Whether aiohttp itself has paused reading."""
        return self._reading_paused or self._buffer_paused

    def _note_newest(self) -> None:
        if self._messages:
            self._newest_body = self._messages[-1][1]

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Respond to a request that aiohttp cannot parse, or whose handling failed outside of our middlewares."""
        if isinstance(exc, UnicodeEncodeError) and hdrs.EXPECT in request.headers:
            status, message = 417, "Expect: it is no UTF-8"  # aiohttp's own refusal quotes it, and cannot be encoded.
        if status >= 500:
            self.log_exception("a request of %s failed", request.remote, exc_info=exc)
        if request.writer.output_size > 0:
            raise ConnectionError("a response is being sent already")
        if status >= 500:
            response = _response(status, RaftlogError("the node failed to handle the request; its log says why"))
        else:
            response = _own_refusal(status, str(message or exc or "it is not an HTTP request"))
        response.force_close()
        return response

    def log_exception(self, *args: Any, **kw: Any) -> None:
        """Log an exception outside of our middlewares, once in `LOG_INTERVAL_S`: any client may be able to cause it."""
        now = time.monotonic()
        if now - AiohttpHandler._logged_at >= LOG_INTERVAL_S:
            AiohttpHandler._logged_at = now
            _log.error(*args, **kw)

    async def _handle_request(self, request: web.BaseRequest, *args: Any, **kw: Any) -> tuple[web.StreamResponse, bool]:
        """Handle a request. aiohttp raises if `shutdown` has given up waiting in the same turn of the loop."""
        try:
            return await super()._handle_request(request, *args, **kw)
        except asyncio.InvalidStateError as error:
            if self._handler_waiter is None or not self._handler_waiter.cancelled():
                raise
            raise ConnectionError("the server closes, and waits no longer for this request") from error

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send a response. aiohttp refuses an unknown `Expect` before any middleware runs."""
        if isinstance(resp, web.HTTPException) and resp.status >= 400:
            resp = _own_refusal(resp.status, resp.text or resp.reason)
        connection = connection_of(request)
        if connection is None:
            return await super().finish_response(request, resp, start_time)
        connection.began()  # Bytes received during the response belong to the next request, which waits.
        sending = Metered(super().finish_response(request, resp, start_time))
        try:
            return await sending
        finally:
            connection.ended()
            connection.charge_response(sending.seconds)
            self._answered += 1
            self._note_newest()
            connection.parse()


@web.middleware
async def charged(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Charge the peer's address for what a request computes, whatever becomes of it; the outermost middleware."""
    connection, work = connection_of(request), Metered(handler(request))
    try:
        return await work
    finally:
        if connection is not None:
            connection.charge(work.seconds)


def _own_refusal(status: int, text: str) -> web.Response:
    """Return the response to a request that aiohttp refuses by itself."""
    line = text.strip().partition("\n")[0][:200]
    return _response(status, InvalidRequestError(f"the request cannot be read as HTTP: {line}"))


def _response(status: int, error: RaftlogError) -> web.Response:
    marks = RequestMarks()
    headers = {media.REQUEST_ID: marks.id}
    return web.Response(body=encoded_error(error, marks), status=status, content_type=media.JSON, headers=headers)
