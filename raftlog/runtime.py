"""Time, randomness and tasks, injected: what the deterministic simulator replaces, and nothing else.

Cores never import this module; their shells read the clock and pass the value in.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import importlib.util
import logging
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import Any, Protocol, TypeVar

from raftlog.errors import RaftlogError

_log = logging.getLogger(__name__)
T = TypeVar("T")


class Clock(Protocol):
    """Where shells read time from."""

    def monotonic_ms(self) -> int:
        """Milliseconds that never go back; only differences mean anything."""
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
    """Return uvloop's maker of event loops, if it is installed; None stands for asyncio's own, which do as well."""
    if importlib.util.find_spec("uvloop") is None:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = importlib.import_module("uvloop").new_event_loop
    return factory


async def in_turns(items: Iterable[T], each: int = 64) -> AsyncIterator[T]:
    """Yield items, and let the event loop turn after so many: those are to take a few milliseconds.

    The items are taken at the beginning: what comes later is not among them, and what goes is.
    """
    for number, item in enumerate(list(items), 1):
        yield item
        if number % each == 0:
            await asyncio.sleep(0)


@contextmanager
def keeping() -> Iterator[None]:
    """Make what lives long: the garbage collector does not look at it while it is made, nor ever after.

    A full collection looks at every object: with those of 10,000 partitions it takes 300 ms. Where the collector is
    off already (in simulated worlds, whose schedule it would change), nothing happens.
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
    """Close one after another, whichever of them fails or is cancelled; what they raised is raised at the end."""
    async with AsyncExitStack() as stack:
        for close in reversed(closes):
            stack.push_async_callback(close)


class Tasks:
    """Owns background tasks: none is garbage-collected, none fails in silence, all end with their owner."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._closed = False

    def spawn(self, work: Coroutine[Any, Any, Any], *, name: str, awaited: bool = False) -> asyncio.Task[Any]:
        """Run `work` until it ends or the owner closes.

        An escaped exception is logged with its traceback. One of raftlog's own is not if the task is `awaited`: who
        awaits it sees it, and when nobody does any more, it was said to a caller who has hung up.
        """
        if self._closed:
            work.close()
            raise RuntimeError(f"{self._owner} is closed: cannot start {name}")
        task = asyncio.create_task(work, name=f"{self._owner}:{name}")
        self._tasks[task] = None
        task.add_done_callback(self._forget)
        task.add_done_callback(self._report_bug if awaited else self._report)
        return task

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
        """Whether nothing can be started any more."""
        return self._closed

    async def close(self) -> None:
        """Cancel what still runs and wait until it has ended."""
        self._closed = True
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
