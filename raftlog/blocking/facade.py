"""The base of the blocking classes: an event loop in its own thread, and calls of other threads into it.

Only the loop's thread uses the async client. Any other thread hands it a coroutine and waits. A facade is open, then
closing, then closed, and never opens again; calls that wait when it closes get an error.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, Self, TypeVar

from raftlog import client
from raftlog.blocking import exits
from raftlog.client.ended_threads import join
from raftlog.errors import InvalidRequestError
from raftlog.runtime import loop_factory

if TYPE_CHECKING:
    from raftlog.client.span_reader import SpanReader

EXIT_S = 10.0
"""How long the interpreter's exit waits for a client, in addition to `close_timeout_ms`."""
_log = logging.getLogger(__name__)
C = TypeVar("C", bound="client.Producer | client.Consumer | client.Admin | SpanReader")
P = ParamSpec("P")
T = TypeVar("T")


class _Call(Generic[P, T]):
    """Work in the loop's thread, for a caller that Ctrl-C may interrupt before it has what it could cancel."""

    def __init__(self, work: Callable[P, Coroutine[Any, Any, T]]) -> None:
        self._work = work
        self._task: asyncio.Task[Any] | None = None
        self._is_left = False

    async def run(self, *arguments: P.args, **options: P.kwargs) -> T:
        self._task = asyncio.current_task()
        if self._is_left:
            raise asyncio.CancelledError
        return await self._work(*arguments, **options)

    def leave(self, loop: asyncio.AbstractEventLoop) -> None:
        """Cancel the work, if it has not ended and is not cancelled yet; it may begin later."""
        self._is_left = True
        if (task := self._task) is not None and not task.done():
            with suppress(RuntimeError):  # The loop is closed.
                loop.call_soon_threadsafe(lambda: task.cancelling() or task.cancel())


class Facade(Generic[C]):
    """One async client and the thread that runs it.

    Args:
        make: creates the client; called in the thread.
    """

    def __init__(self, make: Callable[[], C]) -> None:
        self._state: Literal["open", "closing", "closed", "forked"] = "open"
        self._guard = threading.RLock()  # A signal's handler may call while this thread has it.
        """Guards the state: no coroutine is submitted to a stopped loop."""
        self._shutting = threading.Event()
        """Set once `close` runs in the loop: only then may a cancellation end it early."""
        self._loop = (loop_factory() or asyncio.new_event_loop)()
        self._loop.set_default_executor(_ThreadPerCall())
        self._thread = threading.Thread(
            target=_serve, args=(self._loop,), name=f"raftlog {type(self).__name__}", daemon=True
        )
        self._dropped: weakref.finalize[..., Any] | None = None
        self._thread.start()
        _open.add(self)
        try:
            self._client: C = self._run(self._start, make)
        except BaseException:
            self._state = "closed"
            _open.discard(self)
            self._loop.call_soon_threadsafe(exits.stop, self._loop)
            join(self._thread)
            raise
        self._dropped = weakref.finalize(self, _end_dropped, self._loop, self._client, self._name, os.getpid())
        self._dropped.atexit = False

    @staticmethod
    async def _start(make: Callable[[], C]) -> C:
        made = make()
        await made.__aenter__()
        return made

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close(kind, error, trace)

    def close(self) -> None:
        """Finish what is under way, close every connection, and stop the thread.

        Calls of other threads that still wait then raise an error. Closing again does nothing.

        Raises:
            RuntimeError: it was called in a callback.
        """
        self._close(None, None, None)

    def _close(self, *reason: Any) -> None:
        if self._state == "forked":
            return  # The thread and the queued records belong to the parent process.
        self._require_can_wait()
        closing: Future[None] | None = None
        with self._guard:
            if self._state == "open":
                closing = asyncio.run_coroutine_threadsafe(self._shut(reason), self._loop)
                self._state = "closing"
        try:
            if closing is not None:
                self._shutting.wait()
                self._wait_for(closing)
        finally:
            join(self._thread)

    async def _shut(self, reason: tuple[Any, ...]) -> None:
        self._shutting.set()
        if self._dropped is not None:
            self._dropped.detach()
        try:
            await self._end(reason)
        finally:
            with self._guard:
                self._state = "closed"
            _open.discard(self)
            exits.stop(self._loop)

    async def _end(self, reason: tuple[Any, ...]) -> None:
        await self._client.__aexit__(*reason)

    def _run(self, work: Callable[P, Coroutine[Any, Any, T]], *arguments: P.args, **options: P.kwargs) -> T:
        """Run a coroutine in the loop's thread and wait; see `_begin`. An interruption at any moment cancels it."""
        return self._run_by(self._begin, work, *arguments, **options)

    def _run_by(
        self,
        begin: Callable[..., Future[T]],
        work: Callable[P, Coroutine[Any, Any, T]],
        *arguments: P.args,
        **options: P.kwargs,
    ) -> T:
        call = _Call(work)
        try:
            return self._wait_for(begin(call.run, *arguments, **options))
        except BaseException:
            call.leave(self._loop)
            raise

    def _ask(self, ask: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        """Call a function in the loop's thread, so that no state changes meanwhile; see `_begin`."""

        async def answer() -> T:
            return ask(*arguments, **options)

        return self._run(answer)

    def _begin(self, work: Callable[P, Coroutine[Any, Any, T]], *arguments: P.args, **options: P.kwargs) -> Future[T]:
        """Submit a coroutine to the loop's thread.

        Raises:
            RuntimeError: this is the loop's thread; or the producer is closed.
            InvalidRequestError: the consumer or the admin is closed.
        """
        self._require_can_wait()
        with self._guard:
            if not self._is_open():
                raise self._closed_error()
            return asyncio.run_coroutine_threadsafe(work(*arguments, **options), self._loop)

    def _wait_for(self, work: Future[T]) -> T:
        try:
            return work.result()
        except CancelledError:
            raise self._closed_error() from None
        except exits.ExitError as raised:
            raise raised.error from None
        except BaseException:
            work.cancel()  # Ctrl-C, or an exception of a signal handler: no call waits for the result.
            raise

    def _begin_exit(self) -> Future[None] | None:
        """Start to close at interpreter exit, within `close_timeout_ms` as after an interruption."""
        with self._guard:
            if self._state != "open":
                return None
            self._state = "closing"
            if not self._thread.is_alive():  # The others are closed all the same.
                _log.error("the program exits, and this %s was not closed: its thread has ended", self._name)
                return None
            return asyncio.run_coroutine_threadsafe(self._shut((SystemExit, None, None)), self._loop)

    def _wait_for_exit(self, closing: Future[None]) -> None:
        """Wait for the close, for a bounded time; log an error, since no caller is left."""
        try:
            closing.result(self._exit_limit_s + EXIT_S)
        except TimeoutError:
            _log.warning("the program exits before this %s has closed: pending work is lost, or unknown", self._name)
        except Exception:  # noqa: BLE001  (logged)
            _log.exception("the program exits, and this %s was not closed", self._name)

    def _forked(self) -> None:
        """Mark this copy in a child process as unusable: the loop's thread exists only in the parent."""
        self._state = "forked"
        self._guard = threading.RLock()  # Another thread of the parent may have held it.

    @property
    def _exit_limit_s(self) -> float:
        """Return how long this may still send at interpreter exit, in seconds."""
        return 0.0

    @property
    def _name(self) -> str:
        return type(self).__name__.lower()

    def _is_open(self) -> bool:
        return self._state == "open"

    def _closed_error(self) -> Exception:
        return InvalidRequestError(f"this {self._name} is closed; make another one")

    def _require_can_wait(self) -> None:
        if self._state == "forked":
            name = type(self).__name__
            raise RuntimeError(
                f"this {name.lower()} was created before a fork and works only in the parent process: create another "
                f"raftlog.blocking.{name} in the child"
            )
        if threading.current_thread() is self._thread:  # Not the ident: Python reuses it.
            raise RuntimeError(
                f"a callback of this {type(self).__name__.lower()} calls it in its own thread, which would wait for "
                "itself: make the call in another thread (a queue, an executor), or use the async client"
            )


def _end_dropped(loop: asyncio.AbstractEventLoop, dropped: Any, name: str, process: int) -> None:
    """Close the client of a facade that was dropped without a close, and end its thread."""
    if os.getpid() != process:
        return  # They belong to the parent process.
    _log.warning("a blocking %s was never closed: use 'with'", name)

    async def end() -> None:
        task = asyncio.current_task()
        assert task is not None
        _ending.add(task)  # The loop has no strong reference to a task that waits.
        try:
            await dropped.__aexit__(None, None, None)
        except Exception:  # noqa: BLE001  (logged: there is no caller)
            _log.exception("a blocking %s that was dropped could not be closed", name)
        finally:
            _ending.discard(task)
            exits.stop(loop)

    with suppress(RuntimeError):  # The loop is closed.
        loop.call_soon_threadsafe(lambda: asyncio.ensure_future(end(), loop=loop))


class _ThreadPerCall(ThreadPoolExecutor):
    """Runs each call in a thread of its own, also once the interpreter exits and thread pools accept no more calls.

    The loop uses it for the lookup of host names, and for the application's callbacks. Pools refuse calls before
    `atexit` functions run, so an executor that is replaced there is replaced too late.
    Importing the base class also loads its module, which Arrow and aiohttp need and which cannot be imported at exit.
    """

    def __init__(self) -> None:
        super().__init__()
        self._running: set[threading.Thread] = set()

    def submit(self, work: Callable[P, T], /, *arguments: P.args, **options: P.kwargs) -> Future[T]:
        done: Future[T] = Future()

        def run() -> None:
            try:
                if not done.set_running_or_notify_cancel():
                    return  # Cancelled before the thread began; a result could not be set.
                done.set_result(work(*arguments, **options))
            except BaseException as error:  # noqa: BLE001  (set on the future)
                done.set_exception(error)
            finally:
                self._running.discard(threading.current_thread())

        thread = threading.Thread(target=run, daemon=True)
        self._running.add(thread)
        try:
            thread.start()
        except RuntimeError:  # From Python 3.12 on, no thread starts at exit.
            self._running.discard(thread)
            run()
        return done

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait until the calls under way have ended."""
        super().shutdown(wait, cancel_futures=cancel_futures)
        if wait:
            for thread in list(self._running):
                join(thread)


_open: weakref.WeakSet[Facade[Any]] = weakref.WeakSet()
_ending: set[asyncio.Task[Any]] = set()
"""The closes of clients whose facades were dropped."""
_exiting = threading.Event()


@atexit.register
def _exit_all() -> None:
    _exiting.set()
    closings = [(facade, facade._begin_exit()) for facade in list(_open)]  # noqa: SLF001  (this module's own)
    for facade, closing in closings:
        if closing is not None:
            facade._wait_for_exit(closing)  # noqa: SLF001


def _on_fork() -> None:
    for facade in list(_open):
        facade._forked()  # noqa: SLF001  (this module's own)
    _open.clear()


os.register_at_fork(after_in_child=_on_fork)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop until it is stopped; then cancel its tasks, join its threads, and close it."""
    try:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            exits.run_until_stopped(runner.get_loop())
    except RuntimeError:
        if not _exiting.is_set():
            raise  # At exit, only the thread that shuts the executor down could not start.
