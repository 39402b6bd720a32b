"""Ctrl-C and SIGTERM: the first requests a command to finish, the second cancels it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """Whether an interruption occurred."""

    def __init__(self) -> None:
        self.happened = False


@contextmanager
def interruptible(stop: Callable[[], object]) -> Iterator[Interruption]:
    """Call `stop` at the first interruption, and cancel the current task at the second."""
    loop, cancel = asyncio.get_running_loop(), cancel_this()
    interruption = Interruption()

    def interrupt() -> None:
        first, interruption.happened = not interruption.happened, True
        (stop if first else cancel)()

    for sig in _SIGNALS:
        loop.add_signal_handler(sig, interrupt)
    try:
        yield interruption
    finally:
        for sig in _SIGNALS:
            loop.remove_signal_handler(sig)


def cancel_this() -> Callable[[], object]:
    """Return a function that cancels the current task."""
    task = asyncio.current_task()
    assert task is not None
    return task.cancel


async def carry_out(work: Coroutine[Any, Any, None], stopping: asyncio.Event, *, grace_s: float) -> Interruption:
    """Run `work`. An interruption sets `stopping`; after `grace_s` more seconds, `work` is cancelled."""
    task = asyncio.ensure_future(work)
    with interruptible(stopping.set) as interruption:
        stopped = asyncio.ensure_future(stopping.wait())
        try:
            await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
            with suppress(TimeoutError):
                async with asyncio.timeout(grace_s if stopping.is_set() else None):
                    await task
        finally:
            stopped.cancel()
            task.cancel()
    return interruption
