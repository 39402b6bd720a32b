"""Parked requests: woken by events, bounded by deadlines."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from raftlog.errors import ErrorCode, RaftlogError, UnknownOutcomeError
from raftlog.model import Offset


class Pulse:
    """Tells whoever listens that something changed: data arrived, a high watermark moved, a role ended."""

    def __init__(self) -> None:
        self._listeners: set[asyncio.Event] = set()

    def fire(self) -> None:
        for event in self._listeners:
            event.set()

    def add(self, event: asyncio.Event) -> None:
        self._listeners.add(event)

    def remove(self, event: asyncio.Event) -> None:
        self._listeners.discard(event)


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
        self._waiting: set[tuple[Offset, asyncio.Future[None]]] = set()

    async def wait(self, offset: Offset, *, timeout_ms: int) -> None:
        """Return once the mark is above `offset`.

        Raises:
            UnknownOutcomeError: it was not within `timeout_ms`, or the waiting was ended by `fail`.
        """
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (offset, future)
        self._waiting.add(entry)
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await future
        except TimeoutError:
            raise UnknownOutcomeError(
                f"appended at offset {offset}, but not acknowledged within {timeout_ms} ms",
                code=ErrorCode.REQUEST_TIMED_OUT,
            ) from None
        finally:
            self._waiting.discard(entry)

    def passed(self, mark: Offset) -> None:
        """Wake everyone whose offset is below `mark`."""
        for offset, future in list(self._waiting):
            if offset < mark and not future.done():
                future.set_result(None)

    def fail(self, error: RaftlogError) -> None:
        """End all waiting: what was waited for cannot be told any more."""
        for _, future in list(self._waiting):
            if not future.done():
                future.set_exception(error)
