"""What the console's event streams get when sampling fails."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from raftlog.broker.console.sampler import Sampler


class FailsOnce(Sampler):
    """A sampler whose first sample raises an error that nothing expects."""

    attempts = 0

    async def _sample(self) -> None:
        self.attempts += 1
        if self.attempts == 1:
            raise ZeroDivisionError
        self._newest = b"second"
        self._next.set()
        self._next = asyncio.Event()


async def test_a_stream_goes_on_after_a_sample_that_failed():
    sampler = FailsOnce(cast("Any", SimpleNamespace()))
    events = sampler.events()
    async with asyncio.timeout(10):
        await anext(events)  # The history, which is empty.
        assert await anext(events) == b"second"
    await events.aclose()
    await sampler.close()
