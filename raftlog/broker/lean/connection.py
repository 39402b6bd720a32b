"""One connection of the lean path, as an asyncio protocol.

It hands a connection whose first byte begins a Kafka frame to Kafka's protocol. It parses each request strictly,
receives the body into a reused buffer, answers, and only then reads the connection's next request. Any other request
goes to aiohttp together with the connection, which stays there: aiohttp has the same routes and all others. So this
path supports few features of HTTP, and never guesses (docs/adr/0012).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from time import perf_counter
from typing import cast

from raftlog.broker.kafka.connection import KafkaConnection
from raftlog.broker.lean.admission import LeanAdmission
from raftlog.broker.lean.deadline import Deadline
from raftlog.broker.lean.head_fields import split_head
from raftlog.broker.lean.input import DISCARDED, LeanInput
from raftlog.broker.lean.muting import LeanMuting
from raftlog.broker.lean.reply import encode_reply, late_reply
from raftlog.broker.lean.routes import LeanRequest, LeanRoutes
from raftlog.broker.raw import RawReply
from raftlog.errors import ErrorCode, OverloadedError, RaftlogError
from raftlog.request_marks import RequestMarks, current_marks
from raftlog.runtime import Clock
from raftlog.serving.connections import refusal_bytes
from raftlog.serving.listener import ListenerLimits
from raftlog.serving.loop_turns import start_now
from raftlog.serving.metered import Metered
from raftlog.transport.socket_writer import Part, SocketWriter
from raftlog.wire import http1
from raftlog.wire.kafka.framing import is_kafka

_log = logging.getLogger(__name__)


class LeanConnection(asyncio.BufferedProtocol):
    """One connection, until it closes or is handed to aiohttp.

    Args:
        limits: `connections` counts this connection until it closes or is handed over.
        hand_over: returns aiohttp's protocol for a connection of an address, and counts it from then on.
        on_begin: called when the connection is established; one whose TLS handshake fails never is.
        on_end: called when the connection is closed or handed over.
        kafka: returns the protocol for a connection of an address that speaks Kafka's protocol, and counts it from then
            on; None: this listener does not serve Kafka's protocol.
    """

    def __init__(
        self,
        *,
        routes: LeanRoutes,
        limits: ListenerLimits,
        clock: Clock,
        hand_over: Callable[[str], asyncio.Protocol],
        on_begin: Callable[[LeanConnection], None],
        on_end: Callable[[LeanConnection], None],
        kafka: Callable[[str], KafkaConnection] | None = None,
    ) -> None:
        self._routes = routes
        self._kafka = kafka
        """Used for the connection's first byte only."""
        self._limits = limits.requests
        self._connections = limits.connections
        self._rates = limits.rates
        self._address: str | None = None
        """The peer's address while this connection is counted here."""
        self._clock = clock
        self._hand_over = hand_over
        self._on_begin = on_begin
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._input = LeanInput()
        self._admission = LeanAdmission(routes)
        self._deadline = Deadline(self._on_late)
        self._task: asyncio.Task[None] | None = None
        """The task that answers the current request."""
        self._reads_head = False
        """Whether a head is being received, under a deadline."""
        self._ending = self._lost = self._is_starting = False

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's transport is not a subclass.
        self._on_begin(self)
        self._out = SocketWriter(self._transport, timeout_s=self._limits.write_s)
        self._muting = LeanMuting(self._transport, most_paused_s=self._limits.idle_s)
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
        self._admission.connected(transport, address)
        self._deadline.within(self._limits.idle_s)
        if delay_s and self._admission.quotas is not None:
            self._admission.quotas.mute(delay_s)
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
        return memoryview(DISCARDED) if self._lost else self._input.buffer()

    def buffer_updated(self, nbytes: int) -> None:
        received = self._input
        if self._lost:
            return  # Rest of a refused request's body.
        if received.unwanted:
            received.unwanted -= nbytes
            if not received.unwanted and self._task is None:
                self._next()
        elif received.request is not None:
            received.received += nbytes
            try:
                self._admission.count_bytes(nbytes)
            except OverloadedError as error:
                self._refuse(received.request, error, left=received.request.length - received.received)
                return
            if received.received == received.request.length:
                self._answer_request(received.request)
        else:
            received.held += nbytes
            if self._task is None and self._muting.muted is None:
                self._read_head()
            elif received.is_full:
                self._muting.pause()  # Backpressure on a client that pipelines.

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
        if self._kafka is not None:
            kafka, self._kafka = self._kafka, None
            if is_kafka(self._input.first):
                self._serve_kafka(kafka)
                return
        whole = self._input.head()
        if whole is None:
            if self._input.is_full:
                self._request_handover()
            elif not self._reads_head:
                self._reads_head = True
                self._deadline.within(self._limits.head_s)
            return
        self._reads_head = False
        head, credentials, self._admission.marks = split_head(whole)
        request = self._routes.match(head)
        if request is None:
            self._request_handover()
        elif (finding := self._admission.find(credentials)) is not None:
            self._wait_for(finding, self._read_head)
        else:
            self._begin(request, len(whole))

    def _begin(self, request: LeanRequest, head_bytes: int) -> None:
        """Receive the body of a request whose sender was found, unless a quota holds it or it is refused."""
        content = min(self._input.held - head_bytes, request.length)
        try:
            if hold_s := self._admission.hold_s(request):
                self._mute(hold_s)
                return
            body = self._routes.accept(request, self._limits)
            self._admission.count_bytes(content)
        except RaftlogError as error:
            self._input.drop(head_bytes + content)
            self._admission.received()
            self._refuse(request, error, left=request.length - content)
            return
        self._input.begin_body(request, body, head_bytes, content)
        self._admission.received()
        if content == request.length:
            self._answer_request(request)
        else:
            self._deadline.within(self._limits.body_time_s(request.length))

    def _mute(self, wait_s: float) -> None:
        """Begin no request for some time. Bytes are read until the head's buffer is full, to see a peer that closes."""
        self._deadline.clear()
        if (self._input.unwanted or self._input.is_full) and not self._muting.is_paused:
            self._muting.pause()
        self._muting.mute(wait_s, self._next)

    def _wait_for(self, work: Awaitable[None], then: Callable[[], None]) -> None:
        """Read no more until `work` is done, which the current head needs; then read again, and call `then`."""
        self._muting.pause()
        self._deadline.clear()
        self._task = self._loop.create_task(_awaited(work))
        self._task.add_done_callback(partial(self._on_waited, then))

    def _on_waited(self, then: Callable[[], None], task: asyncio.Task[None]) -> None:
        self._task = None
        failed = None if task.cancelled() else task.exception()
        if failed is not None:
            _log.error("a request of %s could not begin", self._address, exc_info=failed)
        if self._lost or self._ending or task.cancelled() or failed is not None:
            self._transport.abort()
            return
        self._muting.resume()
        then()

    # Handing over to aiohttp.

    def _request_handover(self) -> None:
        """Hand the connection and the bytes read to aiohttp, now or when the turnstile admits it."""
        assert self._address is not None
        if self._input.asks_for_health or self._routes.turnstile.try_enter(self._address):
            self._hand_over_now()
        else:
            self._wait_for(self._routes.turnstile.enter(self._address), self._hand_over_now)

    def _serve_kafka(self, kafka: Callable[[str], KafkaConnection]) -> None:
        """Hand the connection and the bytes read to Kafka's protocol, which serves it until it closes."""
        handler = kafka(self._given_up())
        self._transport.set_protocol(handler)
        handler.connection_made(self._transport)
        handler.begin(self._input.all())

    def _given_up(self) -> str:
        """Stop serving and counting the connection here; return its address."""
        self._leave()
        self._out.lost()
        assert self._address is not None
        address, self._address = self._address, None
        return address

    def _hand_over_now(self) -> None:
        handler = self._hand_over(self._given_up())
        self._transport.set_protocol(handler)
        handler.connection_made(self._transport)
        handler.data_received(self._input.all())

    # Answering.

    def _answer_request(self, request: LeanRequest) -> None:
        assert self._address is not None
        try:
            self._admission.enter(self._address)
        except OverloadedError as error:
            self._refuse(request, error, left=0)
            return
        body = self._input.take_body()
        self._start(self._answer(request, body, perf_counter()))

    def _refuse(self, request: LeanRequest, error: RaftlogError, *, left: int) -> None:
        """Answer with an error before the whole body was read."""
        self._end_request(left)
        self._input.unwanted = left
        quotas = self._admission.quotas
        throttle_ms = 0 if quotas is None else quotas.end(0, 0.0)
        if error.code is ErrorCode.MESSAGE_TOO_LARGE:
            self._ending = True
        self._start(self._send(self._routes.refuse(request, error, self._admission.marks), throttle_ms))

    def _start(self, answering: Coroutine[None, None, None]) -> None:
        self._deadline.clear()
        if self._is_starting:  # A pipelined request gets a turn of its own.
            task = self._loop.create_task(self._until_answered(answering))
        else:
            self._is_starting = True
            try:
                task = start_now(self._loop, self._until_answered(answering))
            finally:
                self._is_starting = False
        if not task.done():
            self._task = task
            task.add_done_callback(self._on_task_end)
        elif task.cancelled() or task.exception() is not None:
            self._on_task_end(task)

    async def _until_answered(self, answering: Coroutine[None, None, None]) -> None:
        """Answer, and continue with the connection in the same step: a callback would take another turn of the loop."""
        failed: Exception | None = None
        try:
            await answering
        except Exception as error:  # noqa: BLE001  (`_on_answered` logs it)
            failed = error
        if self._task is not None:
            self._task.remove_done_callback(self._on_task_end)
        self._on_answered(failed)

    def _on_task_end(self, task: asyncio.Task[None]) -> None:
        """Handle the end of a task that was cancelled, perhaps before its first step, or that failed badly."""
        failed = None if task.cancelled() else task.exception()
        self._on_answered(failed or asyncio.CancelledError())

    async def _answer(self, request: LeanRequest, body: memoryview, arrived: float) -> None:
        began, quotas, sender = perf_counter(), self._admission.quotas, self._admission.sender
        current_marks.set(self._admission.marks)  # In the context of this task, which answers one request.
        if quotas is None or not quotas.is_metered:
            reply, throttle_ms = await self._routes.handle(request, body, sender), 0
        else:
            work = Metered(self._routes.handle(request, body, sender, quotas.max_answer_bytes))
            reply = await work
            throttle_ms = quotas.end(reply.length, work.seconds)
        del body
        handled = perf_counter()
        try:
            await self._out.send(self._encoded(reply, throttle_ms))
        finally:
            self._routes.note_times(request.route, arrived=arrived, began=began, handled=handled)

    async def _send(self, reply: RawReply, throttle_ms: int = 0) -> None:
        await self._out.send(self._encoded(reply, throttle_ms))

    def _encoded(self, reply: RawReply, throttle_ms: int) -> list[Part]:
        second, request_id = self._clock.wall_us() // 1_000_000, self._admission.marks.shown(reply.status)
        return encode_reply(reply, second, throttle_ms, closes=self._ending, request_id=request_id)

    def _on_answered(self, failed: BaseException | None) -> None:
        self._task = None
        self._admission.end()
        if self._lost:
            return  # The peer has disconnected; an error does not matter.
        if failed is not None:
            if not isinstance(failed, OSError | asyncio.CancelledError):
                _log.error("answering %s failed", self._transport.get_extra_info("peername"), exc_info=failed)
            self._transport.abort()
            return
        self._next()

    def _next(self) -> None:
        """Continue after a response or a pause: discard a refused body, read the next request, or close."""
        quotas = self._admission.quotas
        if quotas is not None and not self._ending and (wait_s := quotas.wait_s()):
            self._mute(wait_s)
            return
        if self._muting.is_paused:
            self._muting.resume()
        if self._ending and self._input.unwanted:
            self._deadline.within(self._limits.linger_s)
        elif self._ending:
            self._transport.close()
        elif self._input.unwanted:
            self._deadline.within(self._limits.body_time_s(self._input.unwanted))
        else:
            self._deadline.within(self._limits.idle_s)
            if self._input.held:
                self._read_head()

    def _on_late(self) -> None:
        """Close an idle connection, or answer a request that did not arrive completely before its deadline."""
        received, request = self._input, self._input.request
        if received.unwanted or self._ending or received.is_idle:
            self._transport.close()
            return
        if request is None:
            self._admission.marks = RequestMarks()
        late_part = (received.received, "body") if request else (received.held, "head")
        late = late_reply(*late_part, self._admission.marks)
        left = received.missing if request else http1.MAX_HEAD_BYTES
        self._end_request(received.missing)
        received.held, received.unwanted, self._ending = 0, left, True
        self._start(self._send(late))

    def _end_request(self, left: int = 0) -> None:
        """End the current request, of whose body `left` bytes have not arrived."""
        self._input.take_body()
        self._admission.end()
        if self._admission.quotas is not None:
            self._admission.quotas.not_received(left)

    def _leave(self) -> None:
        self._deadline.end()
        self._muting.end()
        if self._admission.quotas is not None:
            self._admission.quotas.not_received(self._input.missing)
            self._admission.quotas.drop()
        self._on_end(self)


async def _awaited(finding: Awaitable[None]) -> None:
    await finding
