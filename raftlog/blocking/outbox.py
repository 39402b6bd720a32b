"""A bounded FIFO queue of records from any thread to the producer in the loop's thread.

A record is accepted once it is in the queue, and then always gets an outcome. Before that, the caller waits until the
accepted records without an outcome leave space. One task in the loop's thread passes the queue to the producer.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from contextvars import Context
from copy import copy
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from raftlog import client
from raftlog.blocking.exits import log_exit
from raftlog.client.delivery import Delivery
from raftlog.client.record_outcomes import RecordMetadata
from raftlog.client.times import as_argument
from raftlog.client.unexpected import explained
from raftlog.errors import ErrorCode, OverloadedError, RaftlogError, RetriableError
from raftlog.record import NewRecord

ROOM_WAIT_S = 0.005
"""The poll interval for buffer space that `send_many` occupies without the queue."""
REST_S = 0.001
"""The poll interval of the task: waking the loop for each record would cost more."""
IN_A_ROW = 200
"""Records passed on before the loop's other tasks run."""


class QueueingProducer(client.Producer):
    """The async producer that the facade runs."""

    @property
    def max_block_s(self) -> float:
        """Return how long a caller may wait for buffer space, in seconds."""
        return self._settings.longest_block_ms / 1000

    @property
    def close_timeout_ms(self) -> int:
        """Return how long a close after an interruption may send."""
        return self._settings.close_timeout_ms

    def has_room_beside(self, queued: int, size: int) -> bool:
        """Return whether `size` bytes fit beside `queued` bytes; callable in any thread.

        Raises:
            InvalidRequestError: MESSAGE_TOO_LARGE, `size` exceeds the whole buffer.
        """
        buffer = self._appender.buffer
        if size > buffer.buffer_bytes:
            buffer.require(size)
        return queued + size <= buffer.buffer_bytes

    def traced(self, record: NewRecord, size: int) -> tuple[NewRecord, int]:
        """Return a record of `size` bytes with the context of this thread's span, and its bytes then."""
        appender = self._appender
        return appender.traced(record, size) if appender.marker.is_on else (record, size)

    def was_not_sent(self, error: Exception) -> None:
        """Note that an accepted record could not be queued: its transaction cannot be committed."""
        if self._gate.transactions is not None:
            self._gate.on_failed(explained(error, "sending a record of a transaction", RetriableError))


@dataclass(slots=True)
class _Queued:
    topic: str
    partition: int | None
    record: NewRecord
    size: int
    outcome: Future[RecordMetadata] = field(default_factory=Future)
    since_s: float = field(default_factory=time.monotonic)


_Begin: TypeAlias = Callable[[Callable[[], Coroutine[Any, Any, None]]], object]


class Outbox:
    """Accepted records that the producer does not have yet.

    Args:
        begin: submits a coroutine to the loop's thread; raises if the facade is closed.
        closed_error: returns the error for callers that wait when it closes.
    """

    def __init__(self, producer: QueueingProducer, begin: _Begin, closed_error: Callable[[], Exception]) -> None:
        self._producer = producer
        self._begin = begin
        self._closed_error = closed_error
        self._room = threading.Condition()
        self._size = 0
        """Bytes of all accepted records without an outcome."""
        self._queue: deque[_Queued | asyncio.Future[None]] = deque()
        """Records, and futures to complete once all earlier records are passed on."""
        self._draining = self._closed = False
        self._hurry = asyncio.Event()
        """Set when a caller waits in `passed`."""

    def put(self, topic: str, partition: int | None, record: NewRecord, size: int) -> Future[RecordMetadata]:
        """Queue a record, from any thread but the loop's; wait while the buffer is full.

        Raises:
            OverloadedError: BUFFER_EXHAUSTED, no space within `max_block_ms`; nothing was queued.
            InvalidRequestError: MESSAGE_TOO_LARGE, the record exceeds the whole buffer.
            RuntimeError: the producer is closed.
        """
        queued = _Queued(topic, partition, record, size)
        queued.outcome.set_running_or_notify_cancel()  # A queued record cannot be cancelled.
        with self._room:
            self._wait_for_room(queued.size)
            if not self._draining:
                self._draining = True
                try:
                    # In an empty context: the records of all threads are sent there, not those of this span only.
                    Context().run(self._begin, self._drain)
                except BaseException:
                    self._draining = False
                    raise
            self._queue.append(queued)
            self._size += queued.size
        return queued.outcome

    def _wait_for_room(self, size: int) -> None:
        fits = self._room.wait_for(
            lambda: self._closed or self._producer.has_room_beside(self._size, size), self._producer.max_block_s
        )
        if self._closed:
            raise self._closed_error()
        if not fits:
            raise OverloadedError(
                f"{self._size} bytes are queued, this record has {size}, and there was no space for it within "
                f"{self._producer.max_block_s:g} s (max_block_ms); it is not in the log",
                code=ErrorCode.BUFFER_EXHAUSTED,
            )

    async def passed(self) -> None:
        """Return once the producer has every record that was accepted before this call."""
        mark: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._room:
            if not self._draining:
                return
            self._queue.append(mark)
        self._hurry.set()
        await mark

    def close(self) -> None:
        """Accept no more records; waiting callers get an error."""
        with self._room:
            self._closed = True
            self._room.notify_all()

    async def _drain(self) -> None:
        try:
            while self._goes_on():
                await self._hand_over_all()
                with suppress(TimeoutError):
                    async with asyncio.timeout(REST_S):
                        await self._hurry.wait()
        except asyncio.CancelledError:
            self._refuse_all()
            raise

    async def _hand_over_all(self) -> None:
        handed = 0
        self._hurry.clear()
        while self._queue:
            await self._hand_over(self._queue[0])
            self._queue.popleft()
            handed += 1
            if handed % IN_A_ROW == 0:
                await asyncio.sleep(0)

    def _goes_on(self) -> bool:
        with self._room:
            self._draining = bool(self._queue)
            return self._draining

    async def _hand_over(self, queued: _Queued | asyncio.Future[None]) -> None:
        if isinstance(queued, asyncio.Future):
            if not queued.done():
                queued.set_result(None)
            return
        while (refusal := self._send(queued)) is not None:
            is_full = isinstance(refusal, OverloadedError)
            if not is_full or time.monotonic() >= queued.since_s + self._producer.max_block_s:
                self._producer.was_not_sent(refusal)
                self._settle(queued, refusal)
                return
            await asyncio.sleep(ROOM_WAIT_S)

    def _send(self, queued: _Queued) -> Exception | None:
        """Try to pass a record to the producer; return its error if it refuses."""
        value, key, timestamp, headers = queued.record
        try:
            delivery = self._producer.send_nowait(
                queued.topic,
                value,
                key=key,
                headers=headers,
                partition=queued.partition,
                timestamp=as_argument(timestamp),
            )
        except Exception as error:  # noqa: BLE001  (returned to the caller)
            return error
        delivery.add_done_callback(lambda done: self._on_delivery(queued, done))
        return None

    def _on_delivery(self, queued: _Queued, delivery: Delivery) -> None:
        error = delivery.exception()
        self._settle(queued, delivery.result() if error is None else error)

    def _settle(self, queued: _Queued, outcome: RecordMetadata | BaseException) -> None:
        with self._room:
            self._size -= queued.size
            self._room.notify_all()
        try:
            if isinstance(outcome, BaseException):
                queued.outcome.set_exception(_own(outcome))
            else:
                queued.outcome.set_result(outcome)
        except BaseException as error:  # noqa: BLE001  (a callback's: later records have callbacks, too)
            log_exit(error)

    def _refuse_all(self) -> None:
        """Fail the records that can no longer be passed on."""
        for queued in self._queue:
            if isinstance(queued, _Queued):
                self._settle(
                    queued, RetriableError("the producer was closed before the record was sent; it is not in the log")
                )
        self._queue.clear()


def _own(error: BaseException) -> BaseException:
    """Return a copy of an error that many records share: each thread that raises it adds to its traceback."""
    if not isinstance(error, RaftlogError):
        return error
    copied = copy(error)
    copied.__cause__ = error.__cause__
    return copied
