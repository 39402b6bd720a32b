"""Blocking calls, such as a sync on a disk that hangs or a name server that is silent, that keep no process alive.

The interpreter joins the threads of an executor when it exits. These threads it does not.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")
LOOK_UP_S = 5.0


async def in_thread(work: Callable[[], T], *, timeout_s: float | None) -> T:
    """Return what `work` returns, from a thread of its own. A thread that hangs is left behind.

    Raises:
        TimeoutError: it has not returned within `timeout_s`; None: wait as long as it takes.
        OSError, ValueError: from `work`.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(done: Callable[[], None]) -> None:
        if not future.done():
            done()

    def run() -> None:
        try:
            done = partial(future.set_result, work())
        except Exception as error:  # noqa: BLE001  (raised by the caller)
            done = partial(future.set_exception, error)
        with suppress(RuntimeError):  # The loop is closed: the deadline has passed.
            loop.call_soon_threadsafe(settle, done)

    threading.Thread(target=run, name="blocking call", daemon=True).start()
    async with asyncio.timeout(timeout_s):
        return await future


class LookupLoop(asyncio.SelectorEventLoop):
    """An event loop that looks host names up in such threads, within `LOOK_UP_S`."""

    async def getaddrinfo(self, host: Any, port: Any, **options: int) -> Any:
        """Return what `socket.getaddrinfo` does.

        Raises:
            OSError: the name cannot be looked up.
        """
        try:
            return await in_thread(partial(socket.getaddrinfo, host, port, **options), timeout_s=LOOK_UP_S)
        except TimeoutError:
            raise socket.gaierror(socket.EAI_AGAIN, "the name server does not answer") from None


def run_bounded(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of async work, on such a loop."""
    with asyncio.Runner(loop_factory=LookupLoop) as runner:
        return runner.run(work)
