"""Clocks, random ids and background tasks: the parts that the deterministic simulation replaces.

Cores never import this module; their shells read the clock and pass the time in.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import importlib.util
import logging
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from contextvars import copy_context
from typing import Any, Protocol, TypeVar

from raftlog.errors import RaftlogError, RetriableError
from raftlog.request_marks import current_marks

_log = logging.getLogger(__name__)
T = TypeVar("T")
RESTART_S = 5.0
"""The pause before a background loop begins again that ended by an unexpected exception."""


class Clock(Protocol):
    """The clock that shells read."""

    def monotonic_ms(self) -> int:
        """Milliseconds that never decrease; only differences are meaningful."""
        ...

    def wall_us(self) -> int:
        """Microseconds since 1970-01-01 UTC; may jump."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000

    def wall_us(self) -> int:
        return time.time_ns() // 1_000


def new_uuid_hex() -> str:
    """Return a random UUID as 32 hex digits (topic ids, incarnation ids, cluster ids)."""
    return uuid.uuid4().hex


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's factory of event loops, if it is installed; None: asyncio's own."""
    if importlib.util.find_spec("uvloop") is None:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = importlib.import_module("uvloop").new_event_loop
    return factory


async def in_slices(items: Iterable[T], each: int = 64) -> AsyncIterator[T]:
    """Yield items, and yield to the event loop after each slice of `each` items, which should take a few milliseconds.

    The items are copied at the beginning: later changes of `items` have no effect.
    """
    for number, item in enumerate(list(items), 1):
        yield item
        if number % each == 0:
            await asyncio.sleep(0)


async def concurrently(work: Sequence[Coroutine[Any, Any, T]], *, each: int = 64) -> list[T]:
    """Return the results of coroutines that run concurrently; `each` of them begin in one turn of the event loop.

    If one fails, the others are cancelled: `asyncio.gather` lets them go on, beyond the end of what they use.
    """
    tasks = list[asyncio.Task[T]]()
    try:
        async for one in in_slices(work, each):
            tasks.append(asyncio.create_task(one))
        # Thousands that have ended take 40 ms in `asyncio.gather`, all in one turn.
        await asyncio.gather(*[task for task in tasks if not _has_result(task)])
        return [task.result() for task in tasks]
    finally:  # Also if it is cancelled before all have begun.
        for one in work[len(tasks) :]:
            one.close()
        if ended := [task for task in tasks if task.cancel()]:
            await asyncio.wait(ended)
        tasks.clear()  # An error's traceback refers to this frame: only the garbage collector would free the cycle.
        del ended


def on_this_loop(report: Callable[[str], None]) -> Callable[[str], None]:
    """Return a function that calls `report` on the event loop that runs now, whatever thread it is called from.

    From another thread it returns before `report` was called, and never calls it if the loop has closed. Without an
    event loop it is `report` itself.
    """
    if (loop := _running_loop()) is None:
        return report

    def hand_over(text: str) -> None:
        if _running_loop() is loop:
            report(text)
            return
        with suppress(RuntimeError):  # The loop has closed.
            loop.call_soon_threadsafe(report, text)

    return hand_over


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _has_result(task: asyncio.Task[Any]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None


class TimedEvent:
    """An event for one waiter at a time, with a deadline: a future and a timer, without a task or a timeout scope."""

    def __init__(self) -> None:
        self._is_set = False
        self._waiting: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._until = 0.0

    def set(self) -> None:
        """Wake the waiter now, or at once when it begins to wait."""
        self._is_set = True
        self._wake()

    def clear(self) -> None:
        """Forget what woke the waiter."""
        self._is_set = False

    def by(self, when: float) -> None:
        """Let a wait that is under way end at `when` (loop time, s), unless its deadline is earlier."""
        if self._timer is not None and when < self._until:
            self._timer.cancel()
            self._until, self._timer = when, asyncio.get_running_loop().call_at(when, self._wake)

    async def wait(self, until: float) -> float:
        """Wait for `set`, at most until `until` (loop time, s); return that deadline, or the earlier one of `by`."""
        loop = asyncio.get_running_loop()
        if self._is_set or until <= loop.time():
            return until
        self._waiting = loop.create_future()
        self._until, self._timer = until, loop.call_at(until, self._wake)
        try:
            await self._waiting
        finally:
            self._timer.cancel()
            self._waiting = self._timer = None
        return self._until

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


@contextmanager
def freezing_objects() -> Iterator[None]:
    """Exclude the objects made in this context from garbage collection, because they live long (`gc.freeze`).

    A full collection visits every object: with 10,000 partitions it takes 300 ms. If the collector is off already (in
    the simulation, whose schedule it would change), this does nothing.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


async def close_all(*closes: Callable[[], Awaitable[None]]) -> None:
    """Close all, one after another, even if one fails or is cancelled; raise its exception at the end."""
    async with AsyncExitStack() as stack:
        for close in reversed(closes):
            stack.push_async_callback(close)


class Tasks:
    """Owns background tasks: none is garbage-collected, failures are logged, and all end with their owner."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._closed = False

    def spawn(self, work: Coroutine[Any, Any, Any], *, name: str, awaited: bool = False) -> asyncio.Task[Any]:
        """Run `work` until it ends or the owner closes.

        An `awaited` task belongs to the request that starts it, and has its marks; any other outlives it, and has none.
        An exception is logged with its traceback. A `RaftlogError` of an `awaited` task is not: the awaiting caller
        gets it, or has disconnected.

        Raises:
            RetriableError: the owner has closed, and the task would be awaited: a request came while a node shuts down.
            RuntimeError: the owner has closed.
        """
        if self._closed:
            work.close()
            if awaited:
                raise RetriableError(f"{self._owner} is closed; nothing was done")
            raise RuntimeError(f"{self._owner} is closed: cannot start {name}")
        context = copy_context()
        if not awaited:
            context.run(current_marks.set, None)
        task = asyncio.create_task(work, name=f"{self._owner}:{name}", context=context)
        self._tasks[task] = None
        task.add_done_callback(self._forget)
        task.add_done_callback(self._report_bug if awaited else self._report)
        return task

    def keep(self, work: Callable[[], Coroutine[Any, Any, None]], *, name: str) -> asyncio.Task[None]:
        """Run a loop until the owner closes: after an unexpected exception it begins again, `RESTART_S` later.

        Too little memory, or a bug, would else end it for good, and only a restart of the node would start it again.
        """
        return self.spawn(self._again_and_again(work, name), name=name)

    async def _again_and_again(self, work: Callable[[], Coroutine[Any, Any, None]], name: str) -> None:
        while True:
            try:
                return await work()
            except Exception:  # noqa: BLE001  (logged)
                _log.exception("task %s:%s failed; it begins again in %g s", self._owner, name, RESTART_S)
            await asyncio.sleep(RESTART_S)

    def _forget(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)

    @staticmethod
    def _report(task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("task %s failed", task.get_name(), exc_info=error)

    @classmethod
    def _report_bug(cls, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and not isinstance(task.exception(), RaftlogError):
            cls._report(task)

    @property
    def closed(self) -> bool:
        """Whether no more tasks can be started."""
        return self._closed

    def cancel(self) -> None:
        """Cancel running tasks, and start no more."""
        self._closed = True
        for task in self._tasks:
            task.cancel()

    async def close(self) -> None:
        """Cancel running tasks and wait until they have ended."""
        self._closed = True
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
