"""`Delivery`: the future of one record that `send_nowait` returns. The records of a batch share one handle."""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Awaitable, Callable, Generator
from contextvars import Context, copy_context
from typing import Any, TypeAlias

from raftlog.client.partitioning import StickyPartition
from raftlog.client.record_outcomes import MultiHandle, PartialHandle, Placed, RecordMetadata
from raftlog.errors import RaftlogError

_Waiting: TypeAlias = "tuple[Delivery, Callable[[Delivery], object], Context] | tuple[Delivery, Future[None], None]"
"""A callback, or a task's own future."""


class SharedHandle(MultiHandle):
    """The shared handle of consecutive records that were sent one at a time; it stores their outcomes."""

    __slots__ = ("_cancelled", "_outcomes", "_waiting", "loop", "of_all", "room", "sticky")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.count = 0
        self.room = 0
        """Bytes of its batch that are reserved for further records."""
        self.sticky: StickyPartition | None = None
        """The sticky partition that counts the reserved bytes, too."""
        self.loop = loop
        self.of_all: Placed | RaftlogError | None = None
        """The outcome of all records, if none was cancelled: the usual case. Deliveries need no search then."""
        self._outcomes: list[tuple[int, int, Placed | RaftlogError]] = []
        """(number of the first record, count, outcome)."""
        self._waiting: dict[int, list[_Waiting]] = {}
        self._cancelled: set[int] = set()

    def take_back(self) -> int:
        unused, self.room = self.room, 0
        if unused and self.sticky is not None:
            self.sticky.filled -= unused
        return unused

    def divided(self, at: int) -> tuple[PartialHandle, PartialHandle]:
        return PartialHandle(self, 0, at), PartialHandle(self, at, self.count - at)

    def outcome(self, at: int) -> tuple[Placed | RaftlogError, int] | None:
        """Return the outcome that covers one record, and the record's index in it; None: no outcome yet."""
        for first, count, outcome in self._outcomes:
            if first <= at < first + count:
                return outcome, at - first
        return None

    def is_cancelled(self, at: int) -> bool:
        """Return whether one record's delivery was cancelled."""
        return at in self._cancelled

    def acknowledged(self, placed: Placed) -> None:
        self.acknowledged_from(0, placed)

    def failed(self, error: RaftlogError) -> None:
        self.failed_from(0, self.count, error)

    def acknowledged_from(self, first: int, placed: Placed) -> None:
        """Note that records from number `first` on are acknowledged."""
        self._settle(first, len(placed.timestamps), placed)

    def failed_from(self, first: int, count: int, error: RaftlogError) -> None:
        """Note that `count` records from number `first` on failed."""
        self._settle(first, count, error)

    def wait_for(self, at: int, waiting: _Waiting) -> None:
        """Register a callback or a task's future for one record's outcome."""
        all_waiting = self._waiting.get(at)
        if all_waiting is None:
            self._waiting[at] = [waiting]
        else:
            all_waiting.append(waiting)

    def waiting(self, at: int) -> list[_Waiting]:
        """Return what is registered for one record."""
        return self._waiting.get(at, [])

    def cancel(self, at: int) -> None:
        """Cancel one record's delivery: wake its waiters without an outcome."""
        self._cancelled.add(at)
        self._tell(self._waiting.pop(at, []))

    def _settle(self, first: int, count: int, outcome: Placed | RaftlogError) -> None:
        self._outcomes.append((first, count, outcome))
        if count == self.count and not self._cancelled:
            self.of_all = outcome
        for at in [at for at in self._waiting if first <= at < first + count]:
            self._tell(self._waiting.pop(at))

    def _tell(self, all_waiting: list[_Waiting]) -> None:
        for delivery, whom, context in all_waiting:
            if callable(whom):
                self.loop.call_soon(whom, delivery, context=context)
            elif not whom.done():
                whom.set_result(None)


class Delivery(Awaitable[RecordMetadata]):
    """The outcome of one record: a future, to await, to give a callback, or to drop.

    asyncio treats it as a future (`asyncio.isfuture`), in `gather`, `wait` and the like. It costs little while no task
    waits: the records of a batch share their outcome. A task that is cancelled while it awaits a delivery does not
    cancel the delivery.
    """

    __slots__ = ("_at", "_handle")
    _asyncio_future_blocking = False
    """asyncio recognises futures by this attribute."""

    def __init__(self, handle: SharedHandle, at: int) -> None:
        self._handle = handle
        self._at = at

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        if not self.done():
            future: Future[None] = self._handle.loop.create_future()
            self._handle.wait_for(self._at, (self, future, None))
            yield from future
        return self.result()

    def __repr__(self) -> str:
        if not self.done():
            return "<Delivery pending>"
        return f"<Delivery {'cancelled' if self.cancelled() else repr(self.exception() or self.result())}>"

    def done(self) -> bool:
        """Return whether there is an outcome."""
        if self._handle.of_all is not None:
            return True
        return self._handle.outcome(self._at) is not None or self._handle.is_cancelled(self._at)

    def cancelled(self) -> bool:
        """Return whether `cancel` was called before there was an outcome."""
        return self._handle.of_all is None and self._handle.is_cancelled(self._at)

    def result(self) -> RecordMetadata:
        """Return where the record is.

        Raises:
            RaftlogError: the record failed.
            asyncio.InvalidStateError: there is no outcome yet.
            asyncio.CancelledError: `cancel` was called.
        """
        outcome, place = self._handle.of_all, self._at
        if outcome is None:
            outcome, place = self._known()
        if isinstance(outcome, Placed):
            return outcome.metadata(place)
        raise outcome.with_traceback(None)  # Many records share it: its traceback would grow with each.

    def exception(self) -> RaftlogError | None:
        """Return why the record failed; return None if it was acknowledged.

        Raises:
            asyncio.InvalidStateError: there is no outcome yet.
            asyncio.CancelledError: `cancel` was called.
        """
        outcome = self._handle.of_all
        if outcome is None:
            outcome, _ = self._known()
        return None if isinstance(outcome, Placed) else outcome

    def cancel(self, msg: object = None) -> bool:  # noqa: ARG002  (as a future's)
        """Stop waiting for the outcome; return False if there is one already. The record is sent all the same.

        Args:
            msg: ignored; futures of asyncio have it.
        """
        if self.done():
            return False
        self._handle.cancel(self._at)
        return True

    def add_done_callback(self, callback: Callable[[Delivery], object], *, context: Context | None = None) -> None:
        """Have the event loop call a function once there is an outcome.

        Args:
            callback: the function; its argument is this delivery.
            context: the context in which it runs; None: a copy of the caller's.
        """
        if context is None:
            context = copy_context()
        if self.done():
            self._handle.loop.call_soon(callback, self, context=context)
        else:
            self._handle.wait_for(self._at, (self, callback, context))

    def remove_done_callback(self, callback: Callable[[Delivery], object]) -> int:
        """Remove a callback; return how many times it was registered.

        Args:
            callback: the function.
        """
        waiting = self._handle.waiting(self._at)
        before = len(waiting)
        waiting[:] = [one for one in waiting if one[1] != callback]
        return before - len(waiting)

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """Return the event loop of the producer."""
        return self._handle.loop

    def _make_cancelled_error(self) -> asyncio.CancelledError:
        """Return the error that `gather` raises when this is cancelled; it calls this method of any future."""
        return asyncio.CancelledError()

    def _known(self) -> tuple[Placed | RaftlogError, int]:
        if self.cancelled():
            raise asyncio.CancelledError
        outcome = self._handle.outcome(self._at)
        if outcome is None:
            raise asyncio.InvalidStateError("the record has no outcome yet")
        return outcome
