"""The lean path: a minimal HTTP/1.1 server for raw batches, as an asyncio protocol, without aiohttp.

It parses each request strictly, receives the body into a reused buffer, answers, and only then reads the connection's
next request. Any other request goes to aiohttp together with the connection, which stays there: aiohttp has the same
routes and all others. So this path supports few features of HTTP, and never guesses (docs/adr/0012).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from email.utils import formatdate
from functools import lru_cache
from time import perf_counter
from typing import cast

from raftlog.broker.lean_identity import LeanIdentity
from raftlog.broker.lean_routes import LeanRequest, LeanRoutes, split_credentials
from raftlog.broker.lean_turns import LeanTurns, peer_is_gone
from raftlog.broker.quotas import MUTE_S
from raftlog.broker.raw import RawReply
from raftlog.errors import ErrorCode, InvalidRequestError, OverloadedError, RaftlogError
from raftlog.runtime import Clock
from raftlog.security.identity import UNKNOWN_SENDER
from raftlog.serving.admission import UNLIMITED
from raftlog.serving.connection_rates import ConnectionRates
from raftlog.serving.connections import ConnectionLimits, refusal_bytes
from raftlog.serving.limits import RequestLimits
from raftlog.serving.metered import Metered
from raftlog.transport.socket_writer import SocketWriter
from raftlog.wire import http1, media

_log = logging.getLogger(__name__)
_SCRATCH = bytearray(64 << 10)
"""Receives the bodies of refused requests, which are discarded."""
_HEALTH = tuple(f"GET {path} ".encode() for path in UNLIMITED)
_HEALTH_BYTES = max(map(len, _HEALTH))


class LeanConnection(asyncio.BufferedProtocol):
    """One connection, until it closes or is handed to aiohttp.

    Args:
        connections: counts this connection until it closes or is handed over.
        hand_over: returns aiohttp's protocol for a connection of an address, and counts it from then on.
        on_begin: called when the connection is established; one whose TLS handshake fails never is.
        on_end: called when the connection is closed or handed over.
        rates: limits how often connections begin; None: no limit, or it was applied already.
    """

    def __init__(
        self,
        *,
        routes: LeanRoutes,
        limits: RequestLimits,
        connections: ConnectionLimits,
        clock: Clock,
        hand_over: Callable[[str], asyncio.Protocol],
        on_begin: Callable[[LeanConnection], None],
        on_end: Callable[[LeanConnection], None],
        rates: ConnectionRates | None = None,
    ) -> None:
        self._routes = routes
        self._limits = limits
        self._connections = connections
        self._rates = rates
        self._address: str | None = None
        """The peer's address while this connection is counted here."""
        self._clock = clock
        self._hand_over = hand_over
        self._on_begin = on_begin
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._head = bytearray(http1.MAX_HEAD_BYTES)
        self._held = 0
        """How many bytes are in the head buffer: the head, and what follows it."""
        self._request: LeanRequest | None = None
        """The request whose body is being received."""
        self._body = memoryview(b"")
        self._received = 0
        self._unwanted = 0
        """How many bytes of a refused request's body are still to be discarded."""
        self._task: asyncio.Task[None] | None = None
        """The task that answers the current request."""
        self._entered = False
        """Whether the current request counts against the limit of requests."""
        self._held_bytes = 0
        """How many bytes of its body count against the limit of body bytes."""
        self._reads_head = False
        """Whether a head is being received, under a deadline."""
        self._identity: LeanIdentity | None = None
        """Finds the senders of requests; None: every sender is served."""
        self._sender = UNKNOWN_SENDER
        """The sender of the current request."""
        self._turns: LeanTurns | None = None
        """The connection's use of its sender's quotas; None: no quota applies."""
        self._muted: asyncio.TimerHandle | None = None
        """Set while no request is begun because of a quota."""
        self._ending = self._paused = self._lost = False
        self._paused_at = 0.0
        self._deadline: float | None = None
        self._timer: asyncio.TimerHandle | None = None

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's transport is not a subclass.
        self._on_begin(self)
        self._out = SocketWriter(self._transport, timeout_s=self._limits.write_s)
        address = str((transport.get_extra_info("peername") or ("unknown",))[0])
        try:
            delay_s = 0.0 if self._rates is None else self._rates.enter(address)
            self._connections.enter(address)
        except OverloadedError as error:
            self._lost = True
            self._transport.write(refusal_bytes(error))
            self._transport.close()
            return
        self._address = address
        if self._routes.guard is not None:
            self._identity = LeanIdentity(self._routes.guard, self._routes, transport)
        if self._routes.quotas is not None:
            self._turns = LeanTurns(self._routes.quotas, address)
        self._within(self._limits.idle_s)
        if delay_s and self._turns is not None:
            self._turns.mute(delay_s)
            self._mute(delay_s)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._lost = True
        self._out.lost()
        if self._address is not None:
            self._connections.leave(self._address)
        self._leave()
        if self._task is not None:
            self._task.cancel()  # The request counts until the task ends.
        else:
            self._end_request()

    def eof_received(self) -> bool:
        return False  # A half-closed connection is treated as closed; it cannot be told apart from a lost peer.

    def pause_writing(self) -> None:
        self._out.pause()

    def resume_writing(self) -> None:
        self._out.resume()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002  (the buffer decides)
        if self._unwanted or self._lost:
            return memoryview(_SCRATCH)[: self._unwanted or None]
        if self._request is not None:
            return self._body[self._received :]
        return memoryview(self._head)[self._held :]

    def buffer_updated(self, nbytes: int) -> None:
        if self._lost:
            return  # Rest of a refused request's body.
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
            if self._task is None and self._muted is None:
                self._read_head()
            elif self._held == len(self._head):
                self._pause_reading()  # Backpressure on a client that pipelines.

    # What the broker calls.

    @property
    def busy(self) -> asyncio.Task[None] | None:
        """Return the task that answers the current request, if there is one."""
        return self._task

    def end_soon(self) -> None:
        """Close once no request is in progress."""
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
                self._request_handover()
            elif not self._reads_head:
                self._reads_head = True
                self._within(self._limits.head_s)
            return
        self._reads_head = False
        end += len(http1.HEAD_END)
        head, credentials = split_credentials(bytes(memoryview(self._head)[:end]))
        request = self._routes.match(head)
        if request is None:
            self._request_handover()
            return
        if self._identity is not None and (finding := self._identity.find(credentials)) is not None:
            self._pause_for(finding)
            return
        content = min(self._held - end, request.length)
        try:
            if not self._may_begin(request):
                return
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

    def _mute(self, wait_s: float) -> None:
        """Begin no request for some time. Bytes are read until the head's buffer is full, to see a peer that closes."""
        self._deadline = None
        if (self._unwanted or self._held == len(self._head)) and not self._paused:
            self._pause_reading()
        self._muted = self._loop.call_later(min(wait_s, MUTE_S), self._unmute)

    def _pause_reading(self) -> None:
        self._paused, self._paused_at = True, self._loop.time()
        self._transport.pause_reading()

    def _unmute(self) -> None:
        self._muted = None
        is_stuck = self._paused and self._loop.time() - self._paused_at > self._limits.idle_s
        if is_stuck or (self._paused and peer_is_gone(self._transport)):
            self._transport.abort()  # A closed peer cannot be seen behind bytes that do not fit into the socket.
        else:
            self._next()

    def _pause_for(self, finding: Awaitable[None]) -> None:
        """Read no more until the sender of the current head is found."""
        self._paused, self._deadline = True, None
        self._transport.pause_reading()
        self._task = self._loop.create_task(_awaited(finding))
        self._task.add_done_callback(self._on_found)

    def _on_found(self, finding: asyncio.Task[None]) -> None:
        self._task = None
        failed = None if finding.cancelled() else finding.exception()
        if failed is not None:
            _log.error("finding the sender of a request failed", exc_info=failed)
        if self._lost or self._ending or finding.cancelled() or failed is not None:
            self._transport.abort()
            return
        self._paused = False
        self._transport.resume_reading()
        self._read_head()

    def _drop_front(self, count: int) -> None:
        left = self._held - count
        if left:
            self._head[:left] = self._head[count : self._held]
        self._held = left
        if self._turns is not None:
            self._turns.received()

    def _may_begin(self, request: LeanRequest) -> bool:
        """Return whether a request whose sender was found may begin; False: it is held because of a quota.

        Raises:
            RaftlogError: it is refused.
        """
        if self._identity is not None:
            self._sender = self._identity.admit(request)
        if self._turns is None:
            return True
        self._turns.begin(request, self._sender)
        wait_s = self._turns.wait_s()
        if wait_s:
            self._mute(wait_s)
        return not wait_s

    def _request_handover(self) -> None:
        """Hand the connection and the bytes read to aiohttp, now or when the turnstile admits it."""
        assert self._address is not None
        if self._asks_for_health() or self._routes.turnstile.try_enter(self._address):
            self._hand_over_now()
            return
        self._paused, self._deadline = True, None
        self._transport.pause_reading()
        self._task = self._loop.create_task(self._routes.turnstile.enter(self._address))
        self._task.add_done_callback(self._on_turn)

    def _asks_for_health(self) -> bool:
        """Return whether this is a health check, which is answered under any load."""
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
        self._request, self._body = None, memoryview(b"")  # Drops the reference: the buffer is reused.
        self._start(self._answer(request, body, perf_counter()))

    def _hold(self, size: int) -> None:
        """Count received bytes of a body against the limit."""
        self._routes.hold(size)
        self._held_bytes += size

    def _refuse(self, request: LeanRequest, error: RaftlogError, *, left: int) -> None:
        """Answer with an error before the whole body was read."""
        self._end_request()
        self._unwanted = left
        throttle_ms = self._turns.end(0, 0.0) if self._turns is not None else 0
        if error.code is ErrorCode.MESSAGE_TOO_LARGE:
            self._ending = True
        self._start(self._send(self._routes.refuse(request, error), throttle_ms))

    def _start(self, answering: Coroutine[None, None, None]) -> None:
        self._deadline = None
        self._task = self._loop.create_task(answering)
        self._task.add_done_callback(self._on_answered)

    async def _answer(self, request: LeanRequest, body: memoryview, arrived: float) -> None:
        began, turns = perf_counter(), self._turns
        if turns is None or not turns.is_metered:
            reply, throttle_ms = await self._routes.handle(request, body, self._sender), 0
        else:
            work = Metered(self._routes.handle(request, body, self._sender, turns.max_answer_bytes))
            reply = await work
            throttle_ms = turns.end(reply.length, work.seconds)
        del body
        handled = perf_counter()
        try:
            await self._send(reply, throttle_ms)
        finally:
            self._routes.note_times(request.route, arrived=arrived, began=began, handled=handled)

    async def _send(self, reply: RawReply, throttle_ms: int = 0) -> None:
        fields = [
            ("Content-Type", reply.content_type),
            ("Content-Length", reply.length),
            ("Date", _date(self._clock.wall_us() // 1_000_000)),
            *reply.headers.items(),
            *(((media.THROTTLE_MS, throttle_ms),) if throttle_ms else ()),
            *((("Connection", "close"),) if self._ending else ()),
        ]
        head = http1.encode_head(http1.status_line(reply.status), fields)
        await self._out.send([head, *reply.parts])

    def _on_answered(self, task: asyncio.Task[None]) -> None:
        self._task = None
        self._end_request()
        if self._lost:
            if not task.cancelled():
                task.exception()  # The peer has disconnected; the error does not matter.
            return
        if task.cancelled() or (error := task.exception()) is not None:
            if not task.cancelled() and not isinstance(error, OSError):
                _log.error("answering %s failed", self._transport.get_extra_info("peername"), exc_info=error)
            self._transport.abort()
            return
        self._next()

    def _next(self) -> None:
        """Continue after a response or a pause: discard a refused body, read the next request, or close."""
        if self._turns is not None and not self._ending and (wait_s := self._turns.wait_s()):
            self._mute(wait_s)
            return
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
        """Set the deadline of the next step."""
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
        """Answer a request that did not arrive completely before its deadline."""
        late = InvalidRequestError(
            f"the request took too long to arrive: received {self._received if self._request else self._held} bytes of "
            f"its {'body' if self._request else 'head'}; nothing was done",
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
        if self._muted is not None:
            self._muted.cancel()
        if self._turns is not None:
            self._turns.drop()
        self._timer = self._deadline = self._muted = None
        self._on_end(self)


async def _awaited(finding: Awaitable[None]) -> None:
    await finding


@lru_cache(maxsize=4)
def _date(second: int) -> str:
    return formatdate(second, usegmt=True)
