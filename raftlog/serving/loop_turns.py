"""An event loop that times its own turns and keeps them short. A turn is what runs between two waits for events.

It never wakes an idle loop.
"""

from __future__ import annotations

import asyncio
import select
import selectors
import sys
import time
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import TYPE_CHECKING, Any, TypeVar

T = TypeVar("T")

if TYPE_CHECKING:
    Ready = list[tuple[selectors.SelectorKey, int]]

NOTED_S = 0.001
"""Shorter turns are not reported."""
_CPU_AGE_S = 0.01
"""How old a reading of the thread's CPU time may be at the begin of a turn: it is a system call."""
MOST_EVENTS = 64
"""How many sockets one turn serves. A thousand clients that disconnect at the same moment would take a turn of 100 ms:
each ends a request, with its handlers. The others are served in the next turns: epoll hands out ready sockets in turn.
"""


class _FewEvents:
    """An epoll object that returns at most `MOST_EVENTS`: `EpollSelector.select` asks for all of them."""

    def __init__(self, epoll: Any) -> None:
        self.register, self.modify, self.unregister = epoll.register, epoll.modify, epoll.unregister
        self.fileno, self.close, self._poll = epoll.fileno, epoll.close, epoll.poll

    def poll(self, timeout: float, most: int) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = self._poll(timeout, min(most, MOST_EVENTS))
        return found


class TurnSelector(selectors.DefaultSelector):
    """A selector that knows when the loop's current turn began, and reports each one that was long.

    A turn counts only as far as the loop's own thread used the CPU, give or take `_CPU_AGE_S`: on a busy machine every
    turn is long.
    """

    def __init__(self) -> None:
        super().__init__()
        self._on_turn: Callable[[float, float], None] | None = None
        self.began = 0.0
        """When the current turn began (`time.monotonic`); 0 while the loop waits for events."""
        self._cpu = self._cpu_at = 0.0
        if isinstance(epoll := getattr(self, "_selector", None), getattr(select, "epoll", _FewEvents)):
            self._selector = _FewEvents(epoll)

    def report_to(self, on_turn: Callable[[float, float], None] | None) -> None:
        """Call `on_turn` after each long turn with its end (`time.monotonic`) and its length, in seconds.

        The current turn counts from now on: a node's start is one long turn.
        """
        self._on_turn = on_turn
        self.began = self._cpu_at = time.monotonic()
        self._cpu = time.thread_time()

    def select(self, timeout: float | None = None) -> Ready:
        """Report the turn that ends here, wait for events, and begin the next turn."""
        now = time.monotonic()
        lasted = now - self.began
        if lasted > NOTED_S and self.began and self._on_turn is not None:
            self._report(now, lasted)
        self.began = 0.0
        try:
            return super().select(timeout)
        finally:
            self.began = now = time.monotonic()
            if now - self._cpu_at > _CPU_AGE_S:
                self._cpu, self._cpu_at = time.thread_time(), now

    def _report(self, now: float, lasted: float) -> None:
        cpu = time.thread_time()
        assert self._on_turn is not None
        self._on_turn(now, min(lasted, cpu - self._cpu))
        self._cpu, self._cpu_at = cpu, now


class TurnLoop(asyncio.SelectorEventLoop):
    """asyncio's own loop with a `TurnSelector`, which can run a task's first step at once."""

    def __init__(self) -> None:
        self.turns = TurnSelector()
        super().__init__(self.turns)

    def start_now(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Create a task and run it until it waits for the first time; no task may be running."""
        if sys.version_info >= (3, 12):
            return asyncio.Task(work, loop=self, eager_start=True)
        first_step: list[tuple[Callable[[], None], Context]] = []

        def take(step: Callable[[], None], *, context: Context) -> None:
            first_step.append((step, context))

        self.call_soon = take  # type: ignore[method-assign, assignment]  # What a new task calls.
        try:
            task = asyncio.Task(work, loop=self)
        finally:
            del self.call_soon
        ((step, context),) = first_step
        context.run(step)
        return task


def start_now(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Create a task; in a `TurnLoop`, and outside of other tasks, also run it until it waits for the first time.

    The first step then needs no turn of the loop.
    """
    if isinstance(loop, TurnLoop) and asyncio.current_task(loop) is None:
        return loop.start_now(work)
    return loop.create_task(work)


def turns_of(loop: asyncio.AbstractEventLoop) -> TurnSelector | None:
    """Return the selector that times a loop's turns; None for a loop without one, such as uvloop's."""
    found: Any = getattr(loop, "turns", None)
    return found if isinstance(found, TurnSelector) else None
