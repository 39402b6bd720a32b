"""What the blocking classes share: an event loop in a thread of its own, and how other threads wait for it.

The loop's thread alone uses the async client. Any other thread hands it a coroutine and waits. A facade is open, then
closing, then closed, and never goes back; whoever waits when it closes is told so.
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
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, ParamSpec, Self, TypeVar

from raftlog import client
from raftlog.errors import InvalidRequestError
from raftlog.runtime import loop_factory

if TYPE_CHECKING:
    from raftlog.client.span_reader import SpanReader

EXIT_S = 10.0
"""How long the program's end waits for a client, beyond what it may take to send (`close_timeout_ms`)."""
_log = logging.getLogger(__name__)
C = TypeVar("C", bound="client.Producer | client.Consumer | client.Admin | SpanReader")
P = ParamSpec("P")
T = TypeVar("T")


class Facade(Generic[C]):
    """One async client and the thread that runs it.

    Args:
        make: makes the client; it is called in the thread.
    """

    def __init__(self, make: Callable[[], C]) -> None:
        self._state: Literal["open", "closing", "closed", "forked"] = "open"
        self._guard = threading.RLock()  # A signal's handler may call while this thread has it.
        """Of the state: nothing is begun in a loop that has ended."""
        self._shutting = threading.Event()
        """From then on a cancellation ends the close early, but not before it has begun."""
        self._loop = (loop_factory() or asyncio.new_event_loop)()
        self._thread = threading.Thread(
            target=_serve, args=(self._loop,), name=f"raftlog {type(self).__name__}", daemon=True
        )
        self._thread.start()
        _open.add(self)
        try:
            self._client: C = self._run(self._start, make)
        except BaseException:
            self._state = "closed"
            _open.discard(self)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            raise

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
        """Finish what is under way, close every connection, and end the thread.

        What other threads still wait for then ends with an error. Closing again does nothing.

        Raises:
            RuntimeError: a callback has called it.
        """
        self._close(None, None, None)

    def _close(self, *reason: Any) -> None:
        if self._state == "forked":
            return  # Its thread, and what it has queued, are the parent's.
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
            self._thread.join()

    async def _shut(self, reason: tuple[Any, ...]) -> None:
        self._shutting.set()
        try:
            await self._end(reason)
        finally:
            with self._guard:
                self._state = "closed"
            _open.discard(self)
            self._loop.stop()

    async def _end(self, reason: tuple[Any, ...]) -> None:
        await self._client.__aexit__(*reason)

    def _run(self, work: Callable[P, Coroutine[Any, Any, T]], *arguments: P.args, **options: P.kwargs) -> T:
        """Run a coroutine in the loop's thread and wait; see `_begin`."""
        return self._wait_for(self._begin(work, *arguments, **options))

    def _ask(self, ask: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        """Call a function in the loop's thread, where nothing changes meanwhile; see `_begin`."""

        async def answer() -> T:
            return ask(*arguments, **options)

        return self._run(answer)

    def _begin(self, work: Callable[P, Coroutine[Any, Any, T]], *arguments: P.args, **options: P.kwargs) -> Future[T]:
        """Have the loop's thread run a coroutine.

        Raises:
            RuntimeError: this is the loop's thread; or a producer is closed.
            InvalidRequestError: a consumer or an admin is closed.
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
        except BaseException:
            work.cancel()  # It may be Ctrl-C, or what another signal's handler raises: nobody waits any more.
            raise

    def _begin_exit(self) -> Future[None] | None:
        """Begin to close as the program ends: as after an interruption, so within a short time."""
        with self._guard:
            if self._state != "open":
                return None
            self._state = "closing"
            self._loop.call_soon_threadsafe(self._loop.set_default_executor, _LastThreads())
            return asyncio.run_coroutine_threadsafe(self._shut((SystemExit, None, None)), self._loop)

    def _wait_for_exit(self, closing: Future[None]) -> None:
        """Wait a while; nobody is left to be told but by the log."""
        try:
            closing.result(self._exit_limit_s + EXIT_S)
        except TimeoutError:
            _log.warning("the program ends before this %s has: what it had under way is lost, or unknown", self._name)
        except Exception:  # noqa: BLE001  (whatever it is)
            _log.exception("the program ends, and this %s was not closed", self._name)

    def _forked(self) -> None:
        """Note that this is a copy in a child process: the thread that does the work is the parent's alone."""
        self._state = "forked"
        self._guard = threading.RLock()  # Another thread of the parent may have had it.

    @property
    def _exit_limit_s(self) -> float:
        """Return how long this may work on when the program ends."""
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
                f"this {name.lower()} was made before a fork, and works in the parent process only: make another "
                f"raftlog.blocking.{name} in the child"
            )
        if threading.current_thread() is self._thread:  # Not the ident: it is given anew once the thread has ended.
            raise RuntimeError(
                f"a callback of this {type(self).__name__.lower()} calls it in the thread that does its work, which "
                "would wait for itself: have another thread make the call (a queue, an executor), or take the async "
                "client"
            )


class _LastThreads(ThreadPoolExecutor):
    """Runs things once the program ends, when no pool of threads takes any more: to look up a host's name, above all.

    The import of its base has a reason of its own: later it cannot be done, and Arrow and aiohttp need that module.
    """

    def submit(self, work: Callable[P, T], /, *arguments: P.args, **options: P.kwargs) -> Future[T]:
        done: Future[T] = Future()

        def run() -> None:
            try:
                done.set_result(work(*arguments, **options))
            except BaseException as error:  # noqa: BLE001  (whoever waits for it is told)
                done.set_exception(error)

        try:
            threading.Thread(target=run, daemon=True).start()
        except RuntimeError:  # From Python 3.12 on no thread is begun either.
            run()
        return done


_open: weakref.WeakSet[Facade[Any]] = weakref.WeakSet()
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
    """Run a loop until it is stopped; then end every task and thread that it has left, and close it."""
    try:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.get_loop().run_forever()
    except RuntimeError:
        if not _exiting.is_set():
            raise  # Else it is but the thread that would have ended the pool of threads, and is not begun any more.
