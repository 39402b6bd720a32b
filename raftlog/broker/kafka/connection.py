"""One connection of a client that speaks Kafka's protocol, as an asyncio protocol.

It reads frames while there is space in its pipeline and in the broker's memory for requests, begins requests in the
order that `pipeline` says, and answers them in the order in which they arrived. What it cannot take now it leaves
unread. After an error of the protocol, the requests before it are answered, and the connection is closed.
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
from raftlog.broker.kafka.input import SMALL_BYTES, KafkaInput
from raftlog.broker.kafka.pending import Pending, Reply, reply_to
from raftlog.broker.kafka.pipeline import Pipeline
from raftlog.broker.kafka.quotas import KafkaQuotas
from raftlog.broker.kafka.server import MAX_PIPELINED, KafkaServer
from raftlog.broker.lean.deadline import Deadline
from raftlog.broker.lean.muting import peer_has_disconnected
from raftlog.errors import OverloadedError, RaftlogError
from raftlog.security.guard import peer_of
from raftlog.transport.socket_writer import SocketWriter
from raftlog.wire.kafka.errors import KafkaProtocolError
from raftlog.wire.kafka.framing import decode_request_header
from raftlog.wire.kafka.reader import Buffer

_log = logging.getLogger(__name__)
_FULL_S = 0.02
"""How long a connection waits before it looks again whether the broker has space for its request."""


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
        self._inflight = server.inflight
        self.address = address
        self._on_begin = on_begin
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._input = KafkaInput(max_frame_bytes=server.max_frame_bytes, take_buffer=server.buffers.take)
        self._pipeline = Pipeline[Pending](MAX_PIPELINED)
        self._state = KafkaConnectionState()
        self._quotas = KafkaQuotas(server.quotas, address)
        self._deadline = Deadline(self._on_late)
        self._watched: object = None
        """What the deadline is for; None: there is none."""
        self._writer: asyncio.Task[None] | None = None
        """Answers requests while there are any."""
        self._identifying: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        """Set while a request, or a received byte, waits for a quota or for the broker's memory."""
        self._received = 0
        """Bytes of the frame that is being received, which count against the broker's limit."""
        self._uncounted = 0
        """Received bytes that do not count yet, because there is no space: nothing is read until they do."""
        self._is_paused = self._ending = self._lost = False
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
        self._out.lost()
        self._deadline.end()
        for waiting in (self._timer, self._writer, self._identifying):
            if waiting is not None:
                waiting.cancel()
        writer_handles = self._pipeline.first
        for pending in self._pipeline.drop():
            task = pending.answering or (self._writer if pending is writer_handles else None)
            if task is None or task.done():
                pending.forget(self._inflight)
            else:
                task.cancel()
                task.add_done_callback(partial(pending.forget, self._inflight))  # It counts until the task ends.
        self._drop_input()
        self._on_end(self)

    def eof_received(self) -> bool:
        return False  # A half-closed connection is treated as closed; it cannot be told apart from a lost peer.

    def pause_writing(self) -> None:
        self._out.pause()

    def resume_writing(self) -> None:
        self._out.resume()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002  (the input decides)
        return self._input.buffer() if self._reads else memoryview(_DISCARDED)

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
            self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    # Reading.

    @property
    def _reads(self) -> bool:
        """Whether received bytes matter."""
        return not (self._lost or self._ending) and self._refused is None

    def _read(self) -> None:
        """Take frames and begin requests, until there is nothing more to take or no space."""
        try:
            while self._reads and not self._pipeline.is_full and self._counts():
                found = self._input.next_frame()
                if found is None:
                    break
                self._take(*found)
        except KafkaProtocolError as error:
            self._refuse(error)
        self._begin_ready()
        if not self._lost and not self._transport.is_closing():
            self._pause_or_resume()
            self._watch()

    def _counts(self) -> bool:
        """Count what was received, and return whether there is space for a small frame as well."""
        self._uncounted += self._input.uncounted()
        try:
            self._inflight.hold(self._uncounted + SMALL_BYTES)
        except OverloadedError:
            self._wait(_FULL_S)
            return False
        self._inflight.release(SMALL_BYTES)
        self._received += self._uncounted
        self._uncounted = 0
        return True

    def _take(self, frame: Buffer, uncounted: int) -> None:
        """Put a request into the pipeline.

        Raises:
            KafkaProtocolError: it is not one that this broker serves.
        """
        self._inflight.hold(uncounted)
        self._received += uncounted
        header, at = decode_request_header(frame)
        self._server.dispatch.require_served(header)
        held_bytes, self._received = self._received, 0
        self._pipeline.add(Pending(KafkaRequest(header, frame, at), held_bytes, perf_counter()))

    def _refuse(self, why: object) -> None:
        """Read nothing more, and close the connection when the requests before are answered."""
        if self._refused is None:
            self._refused = why
            self._server.complain(self.address, why)
        self._drop_input()
        if not self._pipeline:
            self._transport.close()

    def _drop_input(self) -> None:
        self._input.drop()
        self._inflight.release(self._received)
        self._received = self._uncounted = 0

    def _pause_or_resume(self) -> None:
        """Read only what can be kept: backpressure on the client."""
        pauses = self._reads and (not self._input.has_room or self._uncounted > 0)
        if pauses and not self._is_paused:
            self._transport.pause_reading()
        elif self._is_paused and not pauses:
            self._transport.resume_reading()
        self._is_paused = pauses

    def _watch(self) -> None:
        """Set the deadline of the next step, if there is another next step than before."""
        limits = self._server.limits
        if self._pipeline.is_full:
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
        while not (self._lost or self._ending) and self._timer is None and self._identifying is None:
            pending = self._pipeline.next
            if pending is None or not self._admit(pending):
                return
            self._pipeline.begin()
            if self._writer is None:
                self._writer = self._loop.create_task(self._write())
                self._writer.add_done_callback(self._on_written)
            elif self._pipeline.first is not pending:
                pending.answering = self._loop.create_task(self._reply_to(pending))

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
        pending.turn, wait_s = self._quotas.begin(pending.call, pending.turn, pending.held_bytes)
        if wait_s:
            return self._wait(wait_s)
        try:
            self._inflight.enter()
        except OverloadedError:
            return self._wait(_FULL_S)
        pending.is_entered = True
        return True

    def _refuse_pending(self, error: RaftlogError) -> bool:
        """Close the connection because of a request that may not begin, and of those behind it."""
        for pending in self._pipeline.drop_waiting():
            pending.forget(self._inflight)
        self._refuse(error.message)
        return False

    def _wait(self, seconds: float) -> bool:
        """Look again after some time; return False."""
        if self._timer is None:
            self._timer = self._loop.call_later(seconds, self._look_again)
        return False

    def _look_again(self) -> None:
        self._timer = None
        if self._is_paused and peer_has_disconnected(self._transport):
            self._transport.abort()  # A closed peer cannot be seen behind bytes that are not read.
        else:
            self._read()

    def _on_identified(self, task: asyncio.Task[None]) -> None:
        self._identifying = None
        if self._lost or task.cancelled():
            return
        if (failed := task.exception()) is not None:
            if not isinstance(failed, RaftlogError):
                _log.error("the sender of a Kafka connection could not be found", exc_info=failed)
            self._refuse_pending(failed if isinstance(failed, RaftlogError) else RaftlogError(repr(failed)))
        else:
            self._read()

    # Answering.

    async def _write(self) -> None:
        """Answer requests in their order, until none is left that has begun."""
        while (pending := self._pipeline.first) is not None:
            reply = await (pending.answering or self._reply_to(pending))
            pending.release(self._inflight)
            self._server.count(pending.request.header.api_key, reply.error, perf_counter() - pending.arrived)
            if reply.closes is not None:
                self._server.complain(self.address, reply.closes)
                self._transport.close()
                return
            if reply.parts:
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
        else:
            self._watch()

    def _reply_to(self, pending: Pending) -> Coroutine[None, None, Reply]:
        return reply_to(pending, self._server.dispatch, self._quotas)

    def _on_written(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            if not self._lost:
                self._transport.abort()
            return
        if (error := task.exception()) is not None:
            if not isinstance(error, OSError):
                _log.error("answering %s failed", self.address, exc_info=error)
            self._transport.abort()


async def _awaited(finding: Awaitable[None]) -> None:
    await finding
