"""Thread handling of the blocking consumer: reads, rebalance callbacks, and a close during a read."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, ParamSpec, TypeVar

from raftlog.blocking.facade import Facade
from raftlog.blocking.stepping import SteppedConsumer, Steps
from raftlog.client.group_session import OnRebalance
from raftlog.errors import InvalidRequestError
from raftlog.model import TopicPartition
from raftlog.record import Record

P = ParamSpec("P")
T = TypeVar("T")


class ConsumerFacade(Facade[SteppedConsumer]):
    """The thread handling of the blocking `Consumer`."""

    def __init__(self, make: Callable[[], SteppedConsumer]) -> None:
        self._readings: set[asyncio.Task[Any]] = set()
        """Tasks that wait for records."""
        self._in_callbacks: set[int] = set()
        """Threads that run a callback. A read or a close in them would deadlock."""
        self._steps = Steps()
        super().__init__(make)

    def __iter__(self) -> Iterator[Record]:
        """Yield records for ever, waiting for each."""
        reader, take = self._client.reader, self._steps.take
        while True:
            if (record := take(reader)) is not None:
                yield record
            else:
                self._require_no_callback("read from")
                self._steps.stop()
                self._wait_for(super()._begin(self._until_closing, self._client.prepare, self._steps))

    def _begin(self, work: Callable[P, Coroutine[Any, Any, T]], *arguments: P.args, **options: P.kwargs) -> Future[T]:
        self._steps.begin_other()
        try:
            begun = super()._begin(work, *arguments, **options)
        except BaseException:
            self._steps.end_other()
            raise
        begun.add_done_callback(lambda _: self._steps.end_other())
        return begun

    def _read(self, read: Callable[..., Coroutine[Any, Any, T]], **options: Any) -> T:
        """Wait for records. They count as returned only if they reach this thread."""
        self._require_can_wait()
        self._require_no_callback("read from")
        taken: list[T] = []

        async def take() -> None:
            taken.append(await read(**options))

        try:
            self._run(self._until_closing, take)
            return taken[0]
        except BaseException:
            with suppress(InvalidRequestError):  # It is closed.
                self._begin(self._client.take_back, taken)
            raise

    async def _until_closing(
        self, read: Callable[P, Coroutine[Any, Any, T]], *arguments: P.args, **options: P.kwargs
    ) -> T:
        task = asyncio.current_task()
        assert task is not None
        self._readings.add(task)
        try:
            return await read(*arguments, **options)
        finally:
            self._readings.discard(task)

    async def _end(self, reason: tuple[Any, ...]) -> None:
        self._steps.begin_other()
        try:
            for task in self._readings:  # First, since they use what is being closed.
                task.cancel()
            await asyncio.gather(*self._readings, return_exceptions=True)
        finally:
            await super()._end(reason)

    def _apart(self, callback: OnRebalance | None) -> OnRebalance | None:
        """Wrap a callback to run in a worker thread, which may call this consumer while the loop awaits it."""
        if callback is None:
            return None
        inside = self._in_callbacks  # Not the facade: one that is dropped would never be collected.

        def call(partitions: list[TopicPartition]) -> Awaitable[None] | None:
            inside.add(threading.get_ident())
            try:
                return callback(partitions)
            finally:
                inside.discard(threading.get_ident())

        async def call_apart(partitions: list[TopicPartition]) -> None:
            calling = asyncio.ensure_future(asyncio.to_thread(call, partitions))
            try:
                await asyncio.wait([calling])
            except asyncio.CancelledError:
                await asyncio.wait([calling])  # The next callback must not start before this one ends.
                raise
            if inspect.isawaitable(result := calling.result()):
                await result

        return call_apart

    def _forked(self) -> None:
        super()._forked()
        self._steps.forked()

    def _is_open(self) -> bool:
        return super()._is_open() or (self._state == "closing" and threading.get_ident() in self._in_callbacks)

    def _close(self, *reason: Any) -> None:
        self._require_no_callback("close")
        super()._close(*reason)

    def _require_no_callback(self, what: str) -> None:
        if threading.get_ident() in self._in_callbacks:
            raise InvalidRequestError(
                f"a callback of this consumer cannot {what} it: do so once the callback has ended"
            )
