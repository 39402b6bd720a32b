"""Worker threads for work that would block the event loop: decoding, rendering, passwords.

They hold Python's global lock for a few milliseconds at a time. The caller bounds the size of the work.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import ParamSpec, TypeVar

from raftlog.request_marks import current_marks
from raftlog.serving import metered

P = ParamSpec("P")
T = TypeVar("T")
INLINE_BYTES = 32 << 10
"""A body or response up to this size is handled on the loop: a thread switch would take longer."""

_WORKERS = ThreadPoolExecutor(2, thread_name_prefix="requests")
_STREAMS = ThreadPoolExecutor(2, thread_name_prefix="streams")
_SECRETS = ThreadPoolExecutor(1, thread_name_prefix="passwords")
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
    """Run `work`, and add its CPU time to the current request's meter."""
    loop, meter = asyncio.get_running_loop(), metered.current()
    if current_marks.get() is not None:
        work = partial(copy_context().run, work)  # Log lines of the thread have the request's id.
    if meter is None:
        return await loop.run_in_executor(threads, work)
    result, seconds = await loop.run_in_executor(threads, _timed, work)
    meter.seconds += seconds
    return result


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    began = time.thread_time()
    return work(), time.thread_time() - began
