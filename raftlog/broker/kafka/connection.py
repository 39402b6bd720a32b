"""One connection of a client that speaks Kafka's protocol, as an asyncio protocol.

It reads frames while there is space in its pipeline and in the broker's memory for requests, begins requests in the
order that `pipeline` says, and answers them in the order in which they arrived. What it cannot take now it leaves
unread. A request that is complete begins however full the memory is, because only its end makes space. After an error
of the protocol, the requests before it are answered, and the connection is closed.

When a client closes, its Produce requests go on: one that wants no answers (acks=0) closes once it has sent them. Until
they end they count, and so does their connection. What has not ended after `GO_ON_S`, and all other requests, are
cancelled.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from time import perf_counter
from typing import cast

from raftlog.broker.kafka.call import KafkaConnectionState
from raftlog.broker.kafka.dispatch import KafkaRequest
from raftlog.broker.kafka.input import KafkaInput
from raftlog.broker.kafka.pending import Pending, Reply, reply_to
from raftlog.broker.kafka.pipeline import Pipeline
from raftlog.broker.kafka.quotas import KafkaQuotas
from raftlog.broker.kafka.received import ReceivedBytes
from raftlog.broker.kafka.server import AHEAD_BYTES, MAX_PIPELINED, UNAUTHENTICATED_FRAME_BYTES, KafkaServer
from raftlog.broker.lean.deadline import Deadline
from raftlog.broker.lean.muting import peer_has_disconnected
from raftlog.errors import OverloadedError, RaftlogError
from raftlog.security.guard import peer_of
from raftlog.serving.metered import Metered
from raftlog.transport.socket_writer import SocketWriter
from raftlog.wire.kafka.errors import KafkaProtocolError
from raftlog.wire.kafka.framing import decode_request_header
from raftlog.wire.kafka.reader import Buffer

_log = logging.getLogger(__name__)
_FULL_S = 0.02
"""How long a connection waits before it looks again whether the broker has space for its request."""
GO_ON_S = 60.0
"""How long requests of a closed client may go on: twice as long as most wait for replicas."""
_UNREAD_S = 1.0
"""How often a connection that reads nothing behind a request looks whether its peer has disconnected."""

_DISCARDED = bytearray(64 << 10)
"""Receives what follows an error of the protocol."""


class KafkaConnection(asyncio.BufferedProtocol):
    """One connection, from its first byte.

    Args:
        address: the peer's address.
        on_begin, on_end: called when the connection begins and when it is lost.
    """

    def __init__(
        self,
        server: KafkaServer,
        address: str,
        *,
        on_begin: Callable[[KafkaConnection], None],
        on_end: Callable[[KafkaConnection], None],
    ) -> None:
        self._server = server
        self._inflight = server.inflight.of(address)
        self.address = address
        self._on_begin = on_begin
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._input = KafkaInput(max_frame_bytes=server.max_frame_bytes, take_buffer=server.buffers.take)
        self._received = ReceivedBytes(self._input, self._inflight)
        self._pipeline = Pipeline[Pending](MAX_PIPELINED, ahead_bytes=AHEAD_BYTES)
        self._state = KafkaConnectionState()
        self._quotas = KafkaQuotas(server.quotas, address)
        self._deadline = Deadline(self._on_late)
        self._watched: object = None
        """What the deadline is for; None: there is none."""
        self._writer: asyncio.Task[None] | None = None
        """Answers requests while there are any."""
        self._identifying: asyncio.Task[None] | None = None
        self._entering: asyncio.Task[None] | None = None
        """Set while the next request waits at the turnstile."""
        self._admitting: asyncio.TimerHandle | None = None
        """Set while a complete request waits for a quota, or because too many are in progress."""
        self._unread: asyncio.TimerHandle | None = None
        """Set while received bytes wait for the broker's memory, or unread ones for a request before them."""
        self._going_on: asyncio.TimerHandle | None = None
        """Set when the connection is lost: cancels what has not ended in time."""
        self._is_paused = self._ending = self._lost = self._is_aborted = self._has_ended = False
        self._is_unauthenticated = True
        """Whether it may have to show credentials before it may send large frames."""
        self._refused: object = None
        """The error after which nothing more is read; None: there was none."""

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's transport is not a subclass.
        self._out = SocketWriter(self._transport, timeout_s=self._server.limits.write_s)
        guard = self._server.dispatch.guard
        self._state.peer = peer_of(transport, "") if guard is None else guard.peer_of(transport)
        self._on_begin(self)

    def begin(self, data: Buffer) -> None:
        """Take the bytes that were read before this connection was known to be Kafka's."""
        self._input.feed(data)
        self._read()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._lost = True
        self._is_paused = False
        self._out.lost()
        self._deadline.end()
        for waiting in (self._unread, self._entering):
            if waiting is not None:
                waiting.cancel()
        self._unread = self._entering = None
        if self._input.received < self._input.expected:
            self._received.drop()  # The rest of the frame never comes, and others need the memory.
        self._going_on = self._loop.call_later(GO_ON_S, self._end)
        if self._drop(overlapping=False):
            return  # When its task has ended, `_on_written` is called.
        self._go_on()

    def eof_received(self) -> bool:
        return False  # A half-closed connection is treated as closed; it cannot be told apart from a lost peer.

    def pause_writing(self) -> None:
        self._out.pause()

    def resume_writing(self) -> None:
        self._out.resume()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002  (the input decides)
        if not self._reads:
            return memoryview(_DISCARDED)
        buffer = self._input.buffer()
        ahead = self._ahead if self._input.expected else None
        return buffer if ahead is None else buffer[: max(1, ahead)]

    def buffer_updated(self, nbytes: int) -> None:
        if self._reads:
            self._input.wrote(nbytes)
            self._read()

    # What the broker calls.

    @property
    def busy(self) -> asyncio.Task[None] | None:
        """Return the task that answers requests, if there are any."""
        return self._writer

    def end_soon(self) -> None:
        """Close once the requests that have begun are answered."""
        self._ending = True
        if self._writer is None:
            self._close()

    def abort(self) -> None:
        """Close the connection, and cancel its requests."""
        self._ending = self._is_aborted = True
        if self._lost:
            self._end()
        else:
            self._transport.abort()

    # After the connection is lost.

    def _drop(self, *, overlapping: bool = True) -> bool:
        """Cancel the requests that do not overlap, or all; return whether the writer handled one of them."""
        first, is_first = self._pipeline.first, False
        for pending in self._pipeline.drop(overlapping=overlapping):
            task = pending.answering or (self._writer if pending is first else None)
            if task is None or task.done():
                pending.forget(self._inflight)
            else:
                task.cancel()
                task.add_done_callback(partial(pending.forget, self._inflight))  # It counts until the task ends.
                is_first |= task is self._writer
        return is_first

    def _go_on(self) -> None:
        """Begin the requests that are left, or end."""
        if self._writer is not None and self._writer.done():
            self._writer = None
            if (answered := self._pipeline.first) is not None:  # Its answer could not be sent.
                self._pipeline.answered()
                answered.forget(self._inflight)
        if self._is_aborted or (self._ending and self._writer is None):
            self._end()
            return
        if self._pipeline.first is not None and self._writer is None:
            self._begin_writing()
        self._read()

    def _end(self) -> None:
        """Forget the lost connection, and cancel what is left of it."""
        for waiting in (self._admitting, self._unread, self._identifying, self._writer, self._going_on):
            if waiting is not None:
                waiting.cancel()
        self._ending = True
        self._drop()
        self._received.drop()
        if not self._has_ended:
            self._has_ended = True
            self._on_end(self)

    def _close(self) -> None:
        """Close the connection: nothing is to be answered any more."""
        if self._lost:
            self._end()
        else:
            self._transport.close()

    # Reading.

    @property
    def _reads(self) -> bool:
        """Whether received bytes matter."""
        return not self._ending and self._refused is None

    def _read(self) -> None:
        """Take frames and begin requests, until there is nothing more to take or no space."""
        left = self._take_frames()
        self._begin_ready()
        if left and self._takes:
            self._take_frames()  # A large request that has begun is not read ahead any more.
        if self._lost:
            if not self._pipeline and self._writer is None and self._unread is None:
                self._end()
        elif not self._transport.is_closing():
            self._pause_or_resume()
            self._watch()

    def _take_frames(self) -> bool:
        """Take frames; return whether one may be left because the pipeline takes no more."""
        try:
            while self._reads:
                takes = self._takes
                if not self._received.count(another=takes):
                    self._read_within(_FULL_S)
                    return False
                if not takes:
                    return True
                self._limit_frames()
                found = self._input.next_frame()
                if found is None:
                    if self._lost:
                        self._received.drop()  # The rest of it never comes.
                    return False
                self._take(*found)
        except KafkaProtocolError as error:
            self._refuse(f"{error.message}; it has shown no credentials" if self._is_unauthenticated else error)
        return False

    def _limit_frames(self) -> None:
        """Set the limit of the next frame: it is small until the client has shown credentials, if it needs some."""
        if self._is_unauthenticated:
            self._is_unauthenticated = self._server.dispatch.is_unauthenticated(self._state)
            most = self._server.max_frame_bytes
            self._input.max_frame_bytes = min(UNAUTHENTICATED_FRAME_BYTES, most) if self._is_unauthenticated else most

    @property
    def _ahead(self) -> int | None:
        """How many more bytes of a large frame may be received now; None: any number."""
        return self._pipeline.ahead(self._received.total) if self._pipeline.singles else None

    @property
    def _takes(self) -> bool:
        """Whether another request may be put into the pipeline."""
        return not self._pipeline.is_full and (not self._pipeline.singles or self._ahead != 0)

    def _take(self, frame: Buffer, uncounted: int) -> None:
        """Put a request into the pipeline.

        Raises:
            KafkaProtocolError: it is not one that this broker serves.
        """
        header, at = decode_request_header(frame)
        self._server.dispatch.require_served(header)
        held_bytes = self._received.take(uncounted)
        pending = Pending(KafkaRequest(header, frame, at), held_bytes, perf_counter())
        if self._lost and not pending.overlaps:
            pending.forget(self._inflight)
        else:
            self._pipeline.add(pending)

    def _refuse(self, why: object) -> None:
        """Read nothing more, and close the connection when the requests before are answered."""
        if self._refused is None:
            self._refused = why
            self._server.complain(self.address, why)
        self._received.drop()
        if not self._pipeline:
            self._close()

    def _pause_or_resume(self) -> None:
        """Read only what can be kept: backpressure on the client."""
        is_far = self._input.expected > 0 and self._ahead == 0
        pauses = self._reads and (is_far or not self._input.has_room or self._received.uncounted > 0)
        if pauses and self._pipeline.singles:
            self._read_within(_UNREAD_S)
        if pauses and not self._is_paused:
            self._transport.pause_reading()
        elif self._is_paused and not pauses:
            self._transport.resume_reading()
        self._is_paused = pauses

    def _watch(self) -> None:
        """Set the deadline of the next step, if there is another next step than before."""
        limits = self._server.limits
        if not self._takes:
            self._deadline.clear()
            self._watched = None
        elif self._input.is_partial:
            length = self._input.expected
            if self._watched != (self._input.frames, length):
                self._watched = self._input.frames, length
                self._deadline.within(limits.body_time_s(length) if length else limits.head_s)
        elif self._pipeline:
            self._deadline.clear()
            self._watched = None
        else:
            self._watched = "idle"
            self._deadline.within(self._server.idle_s)

    def _on_late(self) -> None:
        """Close an idle connection, or one whose frame did not arrive completely before its deadline."""
        if self._watched == "idle":
            self._transport.close()
        else:
            self._refuse(f"a frame took too long to arrive: received {self._input.partial_bytes} bytes of it")

    # Beginning requests.

    def _begin_ready(self) -> None:
        """Begin the requests that may begin now."""
        while not (self._ending or self._admitting or self._identifying or self._entering):
            pending = self._pipeline.next
            if pending is None or not self._admit(pending):
                return
            self._pipeline.begin()
            if self._writer is None:
                self._begin_writing()
            elif self._pipeline.first is not pending:
                pending.answering = self._loop.create_task(self._reply_to(pending))

    def _begin_writing(self) -> None:
        self._writer = self._loop.create_task(self._write())
        self._writer.add_done_callback(self._on_written)

    def _admit(self, pending: Pending) -> bool:
        """Return whether a request may begin now; otherwise it is looked at again later."""
        if wait_s := self._quotas.wait_s():
            return self._wait(wait_s)
        dispatch, header = self._server.dispatch, pending.request.header
        if pending.call is None:
            finding = dispatch.finding(header, self._state)
            if finding is not None:
                self._identifying = self._loop.create_task(_awaited(finding))
                self._identifying.add_done_callback(self._on_identified)
                return False
            try:
                pending.call = dispatch.call_of(header, self._state)
            except RaftlogError as error:
                return self._refuse_pending(error)
        if not pending.has_entered and not self._try_enter(header.api_key):
            self._entering = self._loop.create_task(self._server.turnstile.enter(self.address))
            self._entering.add_done_callback(partial(self._on_entered, pending))
            return False
        pending.has_entered = True
        pending.turn, wait_s = self._quotas.begin(pending.call, pending.turn, pending.held_bytes)
        if wait_s:
            pending.call = None  # Afterwards its sender is identified again: it may have been deleted meanwhile.
            return self._wait(wait_s)
        try:
            pending.enter(self._inflight)
        except OverloadedError:
            return self._wait(_FULL_S)
        return True

    def _refuse_pending(self, error: RaftlogError) -> bool:
        """Close the connection because of a request that may not begin, and of those behind it."""
        for pending in self._pipeline.drop_waiting():
            pending.forget(self._inflight)
        self._refuse(error.message)
        return False

    def _wait(self, seconds: float) -> bool:
        """Look again after some time whether the next request may begin; return False."""
        if self._admitting is None:
            self._admitting = self._loop.call_later(seconds, self._admit_again)
        return False

    def _admit_again(self) -> None:
        self._admitting = None
        self._look_again()

    def _read_within(self, seconds: float) -> None:
        """Look again at the latest after some time whether more can be read."""
        if self._unread is not None:
            if self._unread.when() <= self._loop.time() + seconds:
                return
            self._unread.cancel()
        self._unread = self._loop.call_later(seconds, self._read_again)

    def _read_again(self) -> None:
        self._unread = None
        self._look_again()

    def _look_again(self) -> None:
        if self._is_paused and self._pipeline.singles and peer_has_disconnected(self._transport):
            self._transport.abort()  # A closed peer cannot be seen behind bytes that are not read.
        else:
            self._read()

    def _on_identified(self, task: asyncio.Task[None]) -> None:
        self._identifying = None
        if task.cancelled():
            return
        if (failed := task.exception()) is not None:
            if not isinstance(failed, RaftlogError):
                _log.error("the sender of a Kafka connection could not be found", exc_info=failed)
            self._refuse_pending(failed if isinstance(failed, RaftlogError) else RaftlogError(repr(failed)))
        else:
            self._read()

    def _try_enter(self, api_key: int) -> bool:
        """Return whether a request may begin now; otherwise it must wait at the turnstile."""
        turnstile = self._server.turnstile
        if not self._server.moves_records(api_key):
            return turnstile.try_enter(self.address)
        turnstile.mark_active(self.address)
        return True

    def _on_entered(self, pending: Pending, task: asyncio.Task[None]) -> None:
        self._entering = None
        if not self._lost and not task.cancelled():
            pending.has_entered = True
            self._read()

    # Answering.

    async def _write(self) -> None:
        """Answer requests in their order, until none is left that has begun."""
        while (pending := self._pipeline.first) is not None:
            reply = await (pending.answering or self._reply_to(pending))
            pending.release(self._inflight)
            self._server.count(pending.request.header.api_key, reply.error, perf_counter() - pending.arrived)
            if reply.closes is not None:
                self._ending = True
                self._server.complain(self.address, reply.closes)
                self._transport.close()
                return
            if reply.parts and not self._lost:
                await self._out.send(reply.parts)
            if pending.call is not None and pending.call.ends_because:
                self._ending = True  # The requests behind it do not begin.
                self._server.complain(self.address, pending.call.ends_because)
                self._transport.close()
                return
            pending.forget(self._inflight)
            self._pipeline.answered()
            self._begin_ready()
            if not self._pipeline.is_full:
                self._read()
        self._writer = None
        if (self._ending or self._refused is not None) and not self._pipeline.first:
            self._transport.close()
        elif not self._lost:
            self._watch()

    def _reply_to(self, pending: Pending) -> Coroutine[None, None, Reply]:
        reply = reply_to(pending, self._server.dispatch, self._quotas)
        return reply if self._server.moves_records(pending.request.header.api_key) else self._charged(reply)

    async def _charged(self, reply: Coroutine[None, None, Reply]) -> Reply:
        """Charge the peer's address for the computing time of a request, whatever becomes of it."""
        work = Metered(reply)
        try:
            return await work
        finally:
            self._server.turnstile.charge(self.address, work.seconds)

    def _on_written(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, OSError):
            _log.error("answering %s failed", self.address, exc_info=error)
        if self._lost:
            self._go_on()
        elif task.cancelled() or error is not None:
            self._transport.abort()


async def _awaited(finding: Awaitable[None]) -> None:
    await finding
