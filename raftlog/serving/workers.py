"""Worker threads for work that would block the event loop: decoding, rendering, passwords.

They hold Python's global lock for a few milliseconds at a time. The caller bounds the size of the work.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Generic, ParamSpec, TypeVar

from raftlog.request_marks import current_marks
from raftlog.serving import metered

P = ParamSpec("P")
T = TypeVar("T")
INLINE_BYTES = 32 << 10
"""A body or response up to this size is handled on the loop: a thread switch would take longer."""

_WORKERS = ThreadPoolExecutor(2, thread_name_prefix="requests")
_STREAMS = ThreadPoolExecutor(2, thread_name_prefix="streams")
_SECRETS_NICE = 10
"""How much lower the priority of the thread for passwords is: on a busy machine it gets a tenth of another thread."""


def _yield_processors() -> None:
    if sys.platform != "linux":
        return  # It would change the priority of the whole process.
    with suppress(OSError):  # A sandbox may forbid it.
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, min(19, os.getpriority(os.PRIO_PROCESS, thread) + _SECRETS_NICE))


_SECRETS = ThreadPoolExecutor(1, thread_name_prefix="passwords", initializer=_yield_processors)
"""Deriving a key is slow on purpose. It has a thread of its own, so that no other request waits for it."""


async def in_worker(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `work` in a worker thread."""
    return await _run(_WORKERS, partial(work, *args, **kwargs))


async def for_stream(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `work` in a worker thread for streamed responses, so that other requests do not wait for them."""
    return await _run(_STREAMS, partial(work, *args, **kwargs))


async def derive_key(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `work` in the worker thread for passwords."""
    return await _run(_SECRETS, partial(work, *args, **kwargs))


async def _run(threads: Executor, work: Callable[[], T]) -> T:
    """Run `work`, and add its CPU time to the current request's meter, also if it fails.

    A cancelled caller waits until a thread that has begun has finished: what it computes counts, too.
    """
    loop, meter = asyncio.get_running_loop(), metered.current()
    if current_marks.get() is not None:
        work = partial(copy_context().run, work)  # Log lines of the thread have the request's id.
    timed = _Timed(work)
    running = loop.run_in_executor(threads, timed.run)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        if timed.has_begun:
            with suppress(Exception):
                await running
        else:
            running.cancel()
        raise
    finally:
        del running  # It refers to the error, whose traceback refers to this frame.
        if meter is not None:
            meter.add(timed.seconds)


class _Timed(Generic[T]):
    """Measures the CPU time of `work` in its thread."""

    def __init__(self, work: Callable[[], T]) -> None:
        self.seconds = 0.0
        self.has_begun = False
        self._work = work

    def run(self) -> T:
        self.has_begun = True
        began = time.thread_time()
        try:
            return self._work()
        finally:
            self.seconds = time.thread_time() - began
