"""Thread handling of the blocking consumer: reads, rebalance callbacks, and a close during a read."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, ParamSpec, TypeVar

from raftlog.blocking.exits import exits_as_errors
from raftlog.blocking.facade import Facade
from raftlog.blocking.stepping import SteppedConsumer, Steps
from raftlog.client.group_session import OnRebalance
from raftlog.client.iterations import Iteration, Iterations
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
        self._iterations = _iterations()
        super().__init__(make)

    def __iter__(self) -> Iterator[Record]:
        """Yield records for ever, waiting for each. Only one thread may have such a loop under way.

        Raises:
            InvalidRequestError: another thread's loop is under way.
        """
        reader, take = self._client.reader, self._steps.take
        iteration = Iteration[threading.Thread]()
        while True:
            self._iterations.step(iteration, threading.current_thread())
            if (record := take(reader)) is not None:
                yield record
            else:
                self._require_no_callback("read from")
                self._steps.stop()
                yield from self._taken(super()._begin, self._client.prepare, steps=self._steps)

    def _begin(self, work: Callable[P, Coroutine[Any, Any, T]], *arguments: P.args, **options: P.kwargs) -> Future[T]:
        return self._begin_other(self._steps.begin_other(), work, *arguments, **options)

    def _begin_other(
        self, other: object, work: Callable[P, Coroutine[Any, Any, T]], *arguments: P.args, **options: P.kwargs
    ) -> Future[T]:
        try:
            begun = super()._begin(work, *arguments, **options)
        except BaseException:
            self._steps.end_other(other)
            raise
        begun.add_done_callback(lambda _: self._steps.end_other(other))
        return begun

    def _begin_soon(self, start: Callable[P, Awaitable[T]], *arguments: P.args, **options: P.kwargs) -> Future[T]:
        """Call a function in the loop's thread; an iteration does not wait for what the function starts."""
        other = self._steps.begin_other()

        async def work() -> T:
            started = start(*arguments, **options)
            self._steps.end_other(other)
            return await started

        return self._begin_other(other, work)

    def _read(self, read: Callable[..., Coroutine[Any, Any, T]], **options: Any) -> T:
        self._require_can_wait()
        self._require_no_callback("read from")
        return self._taken(self._begin, read, **options)

    def _taken(
        self, begin: Callable[..., Future[Any]], read: Callable[..., Coroutine[Any, Any, T]], **options: Any
    ) -> T:
        """Wait for records. They count as returned only if they reach this thread."""
        taken: list[T] = []

        async def take() -> None:
            taken.append(await read(**options))

        try:
            self._run_by(begin, self._until_closing, take)
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
                with exits_as_errors():
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
                with exits_as_errors():
                    await result

        return call_apart

    def _forked(self) -> None:
        super()._forked()
        self._steps.forked()
        self._iterations = _iterations()  # Another thread of the parent may have had its guard.

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


def _iterations() -> Iterations[threading.Thread]:
    return Iterations("thread", lambda thread: repr(thread.name), lambda thread: not thread.is_alive())
