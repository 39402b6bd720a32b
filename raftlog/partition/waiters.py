"""Parked requests: woken by events, bounded by deadlines."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

from raftlog.errors import ErrorCode, RaftlogError, UnknownOutcomeError
from raftlog.model import Offset


class Wakeable(Protocol):
    """A subscriber of a `Notifier`: an `asyncio.Event`, or an object that records which notifier fired."""

    def set(self) -> None: ...


class Notifier:
    """Wakes its subscribers when a replica changes: data arrived, a high watermark advanced, a role ended."""

    def __init__(self) -> None:
        self._listeners: dict[Wakeable, None] = {}
        """In order of subscription: first come, first served."""

    def fire(self) -> None:
        for listener in self._listeners:
            listener.set()

    @property
    def is_idle(self) -> bool:
        """Whether it has no subscribers."""
        return not self._listeners

    def add(self, listener: Wakeable) -> None:
        self._listeners[listener] = None

    def remove(self, listener: Wakeable) -> None:
        self._listeners.pop(listener, None)


@contextmanager
def listening(notifiers: Iterable[Notifier]) -> Iterator[asyncio.Event]:
    """Return an event that any of `notifiers` sets, for as long as the block lasts."""
    event, joined = asyncio.Event(), list(notifiers)
    for notifier in joined:
        notifier.add(event)
    try:
        yield event
    finally:
        for notifier in joined:
            notifier.remove(event)


async def wait_until(event: asyncio.Event, deadline: float) -> bool:
    """Wait for `event` until `deadline` (loop time, s); return whether it was set."""
    remaining = deadline - asyncio.get_running_loop().time()
    if remaining <= 0:
        return False
    try:
        async with asyncio.timeout(remaining):
            await event.wait()
    except TimeoutError:
        return False
    return True


class OffsetWaiters:
    """Requests that wait until an offset such as the high watermark or the durable end has passed theirs."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Future[None], Offset] = {}

    async def wait(self, offset: Offset, *, timeout_ms: int) -> None:
        """Return once the mark is above `offset`.

        Raises:
            UnknownOutcomeError: timed out after `timeout_ms`, or `fail` was called.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._waiting[future] = offset
        timer = loop.call_later(timeout_ms / 1000, _time_out, future, offset, timeout_ms)
        try:
            await future
        finally:
            timer.cancel()
            del self._waiting[future]

    def __len__(self) -> int:
        return len(self._waiting)

    def passed(self, mark: Offset) -> None:
        """Wake every request whose offset is below `mark`."""
        for future, offset in self._waiting.items():
            if offset < mark and not future.done():
                future.set_result(None)

    def fail(self, error: RaftlogError) -> None:
        """Fail every waiting request: the outcome is not known any more."""
        for future in self._waiting:
            if not future.done():
                future.set_exception(error)


def _time_out(future: asyncio.Future[None], offset: Offset, timeout_ms: int) -> None:
    if not future.done():
        future.set_exception(
            UnknownOutcomeError(
                f"appended at offset {offset}, but not acknowledged within {timeout_ms} ms",
                code=ErrorCode.REQUEST_TIMED_OUT,
            )
        )
