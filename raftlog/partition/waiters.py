"""Parked requests: woken by events, bounded by deadlines."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

from raftlog.errors import ErrorCode, RaftlogError, UnknownOutcomeError
from raftlog.model import Offset


class Listener(Protocol):
    """Who hears a pulse: an `asyncio.Event`, or whatever notes which pulse it was."""

    def set(self) -> None: ...


class Pulse:
    """Tells whoever listens that something changed: data arrived, a high watermark moved, a role ended."""

    def __init__(self) -> None:
        self._listeners: dict[Listener, None] = {}
        """In the order in which they came, as everywhere here: first come, first served."""

    def fire(self) -> None:
        for listener in self._listeners:
            listener.set()

    def add(self, listener: Listener) -> None:
        self._listeners[listener] = None

    def remove(self, listener: Listener) -> None:
        self._listeners.pop(listener, None)


@contextmanager
def listening(pulses: Iterable[Pulse]) -> Iterator[asyncio.Event]:
    """Return an event that any of `pulses` sets, for as long as the block lasts."""
    event, heard = asyncio.Event(), list(pulses)
    for pulse in heard:
        pulse.add(event)
    try:
        yield event
    finally:
        for pulse in heard:
            pulse.remove(event)


async def wait_until(event: asyncio.Event, deadline: float) -> bool:
    """Wait for `event` until the loop's clock says `deadline`; return whether it came."""
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
    """Requests that wait until a mark (high watermark, durable end) has passed their offset."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Future[None], Offset] = {}

    async def wait(self, offset: Offset, *, timeout_ms: int) -> None:
        """Return once the mark is above `offset`.

        Raises:
            UnknownOutcomeError: it was not within `timeout_ms`, or the waiting was ended by `fail`.
        """
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[future] = offset
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await future
        except TimeoutError:
            raise UnknownOutcomeError(
                f"appended at offset {offset}, but not acknowledged within {timeout_ms} ms",
                code=ErrorCode.REQUEST_TIMED_OUT,
            ) from None
        finally:
            del self._waiting[future]

    def passed(self, mark: Offset) -> None:
        """Wake everyone whose offset is below `mark`."""
        for future, offset in self._waiting.items():
            if offset < mark and not future.done():
                future.set_result(None)

    def fail(self, error: RaftlogError) -> None:
        """End all waiting: what was waited for cannot be told any more."""
        for future in self._waiting:
            if not future.done():
                future.set_exception(error)
