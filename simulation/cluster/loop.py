"""An event loop whose time, order and threads are drawn from a seed. Everything written for asyncio runs on it.

Each callback belongs to the process in whose context it was scheduled (`Process`, a context variable). A process that
was killed runs nothing any more, as after SIGKILL: no handler, no `finally`. A paused process runs its callbacks later,
as after SIGSTOP. Work for threads runs on the loop, some time later: nothing else may happen in the middle of it, and
no loop is running for it.

A process may be busy now and then: one callback takes some time. All callbacks that become due meanwhile run in one
turn after it, time limits and the work that they limit included.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from typing import Any, TypeVar

T = TypeVar("T")
BUSY_SHARE = 1 / 20
"""The share of callbacks that take time, in worlds where any do."""
THREAD_S = (0.0001, 0.004)
"""The duration of work that real code gives to a thread; the world draws that of slow disks."""


class ProcessDiedError(BaseException):
    """The running process was killed in the middle of an operation. No error handler may swallow it."""


@dataclass(eq=False)
class Process:
    """One run of one program on a simulated machine."""

    name: str
    host: str
    alive: bool = True
    paused: bool = False
    busy: bool = False
    thread_s: tuple[float, float] = THREAD_S
    backlog: list[asyncio.Handle] = field(default_factory=list)
    """Callbacks that became due while it was paused or busy."""
    wall_skew_us: int = 0

    @property
    def context(self) -> Context:
        """Return a context for work that belongs to this process."""
        context = copy_context()
        context.run(CURRENT.set, self)
        return context


CURRENT: ContextVar[Process | None] = ContextVar("process", default=None)


class SimulatedLoop(asyncio.BaseEventLoop):
    """Runs until a future is done; time passes only when no callback is ready."""

    _ready: deque[asyncio.Handle]
    _scheduled: list[tuple[float, int, asyncio.TimerHandle]]
    """By time, then in the order of creation."""
    _stopping: bool

    def __init__(self, dice: random.Random) -> None:
        super().__init__()
        self.dice = dice
        self.steps = 0
        self.turns: random.Random | None = None
        """Draws which callbacks take time, in a world where any do."""
        self.longest_turn_s = 0.0
        self.network: Any = None
        """Set by the creator of the network, which needs the loop first."""
        self._now = 1_000.0
        self._timers_made = 0
        self._graves: list[Any] = []
        """Callbacks of killed processes: kept, because collecting a coroutine would run its `finally`."""
        self._selector = None  # The base class reads it when debugging.
        self.set_exception_handler(lambda loop, context: None)  # See `internal_errors`.

    def time(self) -> float:
        return self._now

    def create_task(
        self, coro: Generator[Any, None, T] | Coroutine[Any, Any, T], *, name: object = None, context: Any = None
    ) -> asyncio.Task[T]:
        """Create a task that knows its process: Python 3.11 gives no access to a task's context."""
        task = super().create_task(coro, name=name, context=context)
        task.process = CURRENT.get() if context is None else context.get(CURRENT)  # type: ignore[attr-defined]
        return task

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """Run `func` here, in one piece, some time later."""
        future = self.create_future()
        process = CURRENT.get()
        shortest, longest = process.thread_s if process is not None else THREAD_S

        def work() -> None:
            asyncio._set_running_loop(None)  # No thread has one: what it starts there fails, as in a real thread.
            try:
                result = func(*args)
            except Exception as error:  # noqa: BLE001  (whatever it is, it is for the caller)
                if not future.done():
                    future.set_exception(error)
            else:
                if not future.done():
                    future.set_result(result)
            finally:
                asyncio._set_running_loop(self)

        self.call_later(self.dice.uniform(shortest, longest), work)
        return future

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Do nothing: there is no executor."""

    async def create_server(self, protocol_factory: Any, host: Any = None, port: Any = None, **_: Any) -> Any:
        """Listen on the simulated network."""
        return await self.network.listen(protocol_factory, host, port)

    async def create_connection(
        self, protocol_factory: Any, host: Any = None, port: Any = None, *, sock: Any = None, **_: Any
    ) -> Any:
        """Dial on the simulated network."""
        return await self.network.dial(protocol_factory, sock.address if sock is not None else (host, port))

    def resume(self, process: Process) -> None:
        """Run the callbacks of a paused process that became due meanwhile."""
        process.paused = False
        self._go_on(process)

    def _go_on(self, process: Process) -> None:
        if not process.paused and not process.busy:
            self._ready.extend(process.backlog)
            process.backlog = []

    def _be_busy(self, process: Process, for_s: float) -> None:
        """Keep a process from all other work for a while."""

        def end() -> None:
            process.busy = False
            self._go_on(process)

        process.busy = True
        self.call_at(self._now + for_s, end, context=Context())

    def forget(self) -> None:
        """Drop everything that is still scheduled."""
        self._graves.clear()
        self._ready.clear()
        self._scheduled.clear()

    def bury(self, process: Process) -> None:
        """Drop the callbacks of a killed process."""
        self._graves.extend(process.backlog)
        process.backlog = []

    # What BaseEventLoop leaves to loops with real files.

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Add a timer to a heap whose comparison is cheap: most timers are cancelled before they are due."""
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        self._timers_made += 1
        heapq.heappush(self._scheduled, (when, self._timers_made, timer))
        return timer

    def call_soon(  # type: ignore[override]
        self, callback: Any, *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def _run_once(self) -> None:
        ready, timers = self._ready, self._scheduled
        if not ready:
            while timers and timers[0][2]._cancelled:
                heapq.heappop(timers)
            if not timers:
                raise RuntimeError("deadlock: no callback and no timer is left")
            self._now = max(self._now, timers[0][0])
        while timers and timers[0][0] <= self._now:
            timer = heapq.heappop(timers)[2]
            if not timer._cancelled:
                ready.append(timer)
        for _ in range(len(ready)):
            self._run(ready.popleft())
            if self._stopping:
                return

    def _run(self, handle: asyncio.Handle) -> None:
        if handle._cancelled:
            return
        process: Process | None = handle._context.get(CURRENT)  # type: ignore[attr-defined]
        if process is not None:
            if not process.alive:
                self._graves.append(handle)
                return
            if process.paused or process.busy:
                process.backlog.append(handle)
                return
        self.steps += 1
        self._now += 1e-6  # Two events never happen at exactly the same time.
        try:
            handle._run()
        except ProcessDiedError:
            self._graves.append(handle)
            return
        if process is not None and not process.alive:
            self._graves.append(handle)
        elif process is not None and self.turns is not None and self.turns.random() < BUSY_SHARE:
            self._be_busy(process, self.turns.uniform(0, self.longest_turn_s))

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Do nothing: a cancelled timer is removed when it is due."""

    def _process_events(self, event_list: Any) -> None:
        raise NotImplementedError

    def _write_to_self(self) -> None:
        """Do nothing: this loop never blocks in a system call."""
