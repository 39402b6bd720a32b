"""Counts the outcomes of the records that a command has sent."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from raftlog.cli.shared import plural
from raftlog.errors import UnknownOutcomeError


class Delivery(Protocol):
    """The future that `Producer.send_nowait` returns."""

    def add_done_callback(self, callback: Any, /) -> object: ...
    def cancelled(self) -> bool: ...
    def exception(self) -> BaseException | None: ...


class OutcomeCounter:
    """Counts records by outcome, and bounds how many have none yet."""

    def __init__(self, *, max_pending: int) -> None:
        self._max_pending = max_pending
        self._changed = asyncio.Event()
        self.pending = 0
        self.acknowledged = 0
        self.unknown = 0
        """Records that may be in the log."""
        self.failed = 0
        """Records that are not in the log."""
        self.error: BaseException | None = None
        """The first error."""

    def track(self, delivery: Delivery) -> None:
        self.pending += 1
        delivery.add_done_callback(self._done)

    def _done(self, delivery: Delivery) -> None:
        self.pending -= 1
        error = None if delivery.cancelled() else delivery.exception()
        if delivery.cancelled() or isinstance(error, UnknownOutcomeError):
            self.unknown += 1
        elif error is None:
            self.acknowledged += 1
        else:
            self.failed += 1
        self.error = self.error or error
        self._changed.set()

    async def wait_for_room(self) -> None:
        while self.pending >= self._max_pending:
            await self.wait_for_change()

    async def wait_for_change(self) -> None:
        """Wait until another record has an outcome."""
        self._changed.clear()
        await self._changed.wait()

    def summary(self, *, confirmed: bool) -> str:
        """Return a summary of one line; without confirmation (acks=0), no record is known to be in the log."""
        word = "acknowledged" if confirmed else "sent (acks=0: not acknowledged)"
        parts = [f"{plural(self.acknowledged, 'record')} {word}"]
        if unknown := self.unknown + self.pending:
            parts.append(f"{unknown:,} unknown (they may be in the log)")
        if self.failed:
            parts.append(f"{self.failed:,} failed")
        return ", ".join(parts)
