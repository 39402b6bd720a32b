"""The lean path: HTTP/1.1 for raw batches, on the connection's own protocol.

Each request is read strictly, its body received straight into a buffer that is used again, answered, and only then the
next one of the connection is looked at. Whatever is not exactly a request of raw batches is handed to aiohttp with the
connection, which stays there: it has the same routes, and all others. So this path needs to understand little, and
guesses nothing (see docs/adr/0012).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from email.utils import formatdate
from functools import lru_cache
from typing import cast

from raftlog.broker.lean_routes import LeanRequest, LeanRoutes
from raftlog.broker.raw import RawReply
from raftlog.errors import ErrorCode, InvalidRequestError, OverloadedError, RaftlogError
from raftlog.runtime import Clock
from raftlog.serving.admission import UNLIMITED
from raftlog.serving.connections import ConnectionLimits, refusal_bytes
from raftlog.serving.limits import RequestLimits
from raftlog.transport.writing import Outlet
from raftlog.wire import http1

_log = logging.getLogger(__name__)
_SCRATCH = bytearray(64 << 10)
"""Where bodies go that nobody wants."""
_HEALTH = tuple(f"GET {path} ".encode() for path in UNLIMITED)
_HEALTH_BYTES = max(map(len, _HEALTH))


class LeanConnection(asyncio.BufferedProtocol):
    """One connection, until it ends or is handed over.

    Args:
        connections: counts this one, until it has ended or is handed over.
        hand_over: returns the protocol that goes on with a connection of an address, and counts it from then on.
        on_end: called when this object has nothing to do with the connection any more.
    """

    def __init__(
        self,
        *,
        routes: LeanRoutes,
        limits: RequestLimits,
        connections: ConnectionLimits,
        clock: Clock,
        hand_over: Callable[[str], asyncio.Protocol],
        on_end: Callable[[LeanConnection], None],
    ) -> None:
        self._routes = routes
        self._limits = limits
        self._connections = connections
        self._address: str | None = None
        """Of the peer, while this connection counts here."""
        self._clock = clock
        self._hand_over = hand_over
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._head = bytearray(http1.MAX_HEAD_BYTES)
        self._held = 0
        """How many bytes of the head, and of what comes after it, are there."""
        self._request: LeanRequest | None = None
        """The request whose body is being received."""
        self._body = memoryview(b"")
        self._received = 0
        self._unwanted = 0
        """How many bytes of a refused request's body are still to come."""
        self._task: asyncio.Task[None] | None = None
        """Answers the one request that is under way."""
        self._entered = False
        """A request counts as being handled."""
        self._held_bytes = 0
        """How many bytes of its body count as being held."""
        self._reads_head = False
        """A head has begun, and must end in time."""
        self._ending = self._paused = self._lost = False
        self._deadline: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by its class.
        self._out = Outlet(self._transport, timeout_s=self._limits.write_s)
        address = str((transport.get_extra_info("peername") or ("unknown",))[0])
        try:
            self._connections.enter(address)
        except OverloadedError as error:
            self._lost = True
            self._transport.write(refusal_bytes(error))
            self._transport.close()
            return
        self._address = address
        self._within(self._limits.idle_s)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  (gone is gone)
        self._lost = True
        self._out.lost()
        if self._address is not None:
            self._connections.leave(self._address)
        self._leave()
        if self._task is not None:
            self._task.cancel()  # It counts until it has ended.
        else:
            self._end_request()

    def eof_received(self) -> bool:
        return False  # Who says no more hears no more: nobody can tell it from a peer that is gone.

    def pause_writing(self) -> None:
        self._out.pause()

    def resume_writing(self) -> None:
        self._out.resume()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002  (the room there is, is known)
        if self._unwanted or self._lost:
            return memoryview(_SCRATCH)[: self._unwanted or None]
        if self._request is not None:
            return self._body[self._received :]
        return memoryview(self._head)[self._held :]

    def buffer_updated(self, nbytes: int) -> None:
        if self._lost:
            return  # It was refused; what it still sends is nobody's.
        if self._unwanted:
            self._unwanted -= nbytes
            if not self._unwanted and self._task is None:
                self._next()
        elif self._request is not None:
            self._received += nbytes
            try:
                self._hold(nbytes)
            except OverloadedError as error:
                self._refuse(self._request, error, left=len(self._body) - self._received)
                return
            if self._received == len(self._body):
                self._answer_request()
        else:
            self._held += nbytes
            if self._task is None:
                self._read_head()
            elif self._held == len(self._head):
                self._paused = True  # Who sends ahead waits.
                self._transport.pause_reading()

    # What the broker calls.

    @property
    def busy(self) -> asyncio.Task[None] | None:
        """Return what answers a request now."""
        return self._task

    def end_soon(self) -> None:
        """Close once no request is under way."""
        self._ending = True
        if self._task is None:
            self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    # Reading.

    def _read_head(self) -> None:
        end = self._head.find(http1.HEAD_END, 0, self._held)
        if end < 0:
            if self._held == len(self._head):
                self._give_away()
            elif not self._reads_head:
                self._reads_head = True
                self._within(self._limits.head_s)
            return
        self._reads_head = False
        end += len(http1.HEAD_END)
        request = self._routes.match(bytes(memoryview(self._head)[:end]))
        if request is None:
            self._give_away()
            return
        content = min(self._held - end, request.length)
        try:
            body = self._routes.accept(request, self._limits)
            self._hold(content)
        except RaftlogError as error:
            self._drop_front(end + content)
            self._refuse(request, error, left=request.length - content)
            return
        body[:content] = memoryview(self._head)[end : end + content]
        self._drop_front(end + content)
        self._request, self._body, self._received = request, body, content
        if content == request.length:
            self._answer_request()
        else:
            self._within(self._limits.body_time_s(request.length))

    def _drop_front(self, count: int) -> None:
        left = self._held - count
        if left:
            self._head[:left] = self._head[count : self._held]
        self._held = left

    def _give_away(self) -> None:
        """Hand the connection to aiohttp, with all that was read of a request: at once, or when it is its turn."""
        assert self._address is not None
        if self._asks_for_health() or self._routes.turnstile.enter_now(self._address):
            self._hand_over_now()
            return
        self._paused, self._deadline = True, None
        self._transport.pause_reading()
        self._task = self._loop.create_task(self._routes.turnstile.enter(self._address))
        self._task.add_done_callback(self._on_turn)

    def _asks_for_health(self) -> bool:
        """Tell whether this is a supervisor's question, which is answered under any load."""
        return bytes(self._head[:_HEALTH_BYTES]).startswith(_HEALTH)

    def _on_turn(self, turn: asyncio.Task[None]) -> None:
        self._task = None
        if self._lost or turn.cancelled() or self._ending:
            self._transport.abort()
            return
        self._hand_over_now()
        self._transport.resume_reading()

    def _hand_over_now(self) -> None:
        self._leave()
        self._out.lost()
        assert self._address is not None
        address, self._address = self._address, None
        handler = self._hand_over(address)
        self._transport.set_protocol(handler)
        handler.connection_made(self._transport)
        handler.data_received(bytes(memoryview(self._head)[: self._held]))

    # Answering.

    def _answer_request(self) -> None:
        request, body = self._request, self._body
        assert request is not None
        assert self._address is not None
        try:
            self._routes.enter(self._address)
        except OverloadedError as error:
            self._refuse(request, error, left=0)
            return
        self._entered = True
        self._request, self._body = None, memoryview(b"")  # It must not be held: its buffer is to be used again.
        self._start(self._answer(request, body))

    def _hold(self, size: int) -> None:
        """Count bytes of a body that have arrived."""
        self._routes.hold(size)
        self._held_bytes += size

    def _refuse(self, request: LeanRequest, error: RaftlogError, *, left: int) -> None:
        """Answer without having read all of the body."""
        self._end_request()
        self._unwanted = left
        if error.code is ErrorCode.MESSAGE_TOO_LARGE:
            self._ending = True
        self._start(self._send(self._routes.refuse(request, error)))

    def _start(self, answering: Coroutine[None, None, None]) -> None:
        self._deadline = None
        self._task = self._loop.create_task(answering)
        self._task.add_done_callback(self._on_answered)

    async def _answer(self, request: LeanRequest, body: memoryview) -> None:
        reply = await self._routes.handle(request, body)
        del body
        await self._send(reply)

    async def _send(self, reply: RawReply) -> None:
        fields = [
            ("Content-Type", reply.content_type),
            ("Content-Length", reply.length),
            ("Date", _date(self._clock.wall_us() // 1_000_000)),
            *reply.headers.items(),
            *((("Connection", "close"),) if self._ending else ()),
        ]
        head = http1.encode_head(http1.status_line(reply.status), fields)
        await self._out.send([head, *reply.parts])

    def _on_answered(self, task: asyncio.Task[None]) -> None:
        self._task = None
        self._end_request()
        if self._lost:
            if not task.cancelled():
                task.exception()  # Whatever it is, the peer has gone.
            return
        if task.cancelled() or (error := task.exception()) is not None:
            if not task.cancelled() and not isinstance(error, OSError):
                _log.error("answering %s failed", self._transport.get_extra_info("peername"), exc_info=error)
            self._transport.abort()
            return
        self._next()

    def _next(self) -> None:
        """Go on after an answer: with what a refused request still sends, with the next request, or not at all."""
        if self._paused:
            self._paused = False
            self._transport.resume_reading()
        if self._ending and self._unwanted:
            self._within(self._limits.linger_s)
        elif self._ending:
            self._transport.close()
        elif self._unwanted:
            self._within(self._limits.body_time_s(self._unwanted))
        else:
            self._within(self._limits.idle_s)
            if self._held:
                self._read_head()

    # Time.

    def _within(self, seconds: float) -> None:
        """Expect the next step within so long."""
        self._deadline = self._loop.time() + seconds
        if self._timer is None or self._timer.when() > self._deadline:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(self._deadline, self._look_at_time)

    def _look_at_time(self) -> None:
        self._timer = None
        if self._deadline is None:
            return
        if self._loop.time() < self._deadline:
            self._timer = self._loop.call_at(self._deadline, self._look_at_time)
        elif self._unwanted or self._ending or not (self._held or self._request is not None):
            self._transport.close()
        else:
            self._give_up()

    def _give_up(self) -> None:
        """Answer a request that does not come to its end."""
        late = InvalidRequestError(
            f"the request took too long to arrive: {self._received if self._request else self._held} bytes of its "
            f"{'body' if self._request else 'head'} are here; nothing was done",
            code=ErrorCode.INVALID_REQUEST,
        )
        left = len(self._body) - self._received if self._request else http1.MAX_HEAD_BYTES
        self._end_request()
        self._held, self._unwanted, self._ending = 0, left, True
        self._start(self._send(RawReply.of_error(late, status=408)))

    def _end_request(self) -> None:
        self._request, self._body = None, memoryview(b"")
        if self._held_bytes:
            self._routes.release(self._held_bytes)
            self._held_bytes = 0
        if self._entered:
            self._routes.leave()
            self._entered = False

    def _leave(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._deadline = None
        self._on_end(self)


@lru_cache(maxsize=4)
def _date(second: int) -> str:
    return formatdate(second, usegmt=True)
