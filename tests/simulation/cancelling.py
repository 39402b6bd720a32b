"""Calls that are cancelled at each of their waits, one after another.

A call is cancelled while it waits, and when what it waits for has just arrived: then it must not lose what it got.
"""

from __future__ import annotations

import asyncio
import types
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from dataclasses import dataclass
from functools import partial
from typing import Any

import raftlog

ENDS_S = 15.0
"""The longest time from a cancellation to the end of the call."""
Call = Callable[[], Coroutine[Any, Any, object]]


@dataclass
class Cancellation:
    """When a call is cancelled, and what became of it."""

    at: int
    """The number of the wait, from 1."""
    arrived: bool
    """Whether what it waits for has arrived by then."""
    again_after: int = 0
    """After so many further waits it is cancelled again; 0: never."""
    waits: int = 0
    """How many times it has waited."""

    @types.coroutine
    def run(self, work: Coroutine[Any, Any, object]) -> Generator[Any, Any, object]:
        """Run `work` in this task, and cancel the task at the wait."""
        proceed = partial(work.send, None)
        while True:
            try:
                waited = proceed()
            except StopIteration as end:
                return end.value
            self.waits += 1
            if self.waits == self.at or (self.again_after and self.waits == self.at + self.again_after):
                self._cancel(waited)
            try:
                result = yield waited
            except BaseException as error:  # noqa: BLE001  (the work gets it)
                proceed = partial(work.throw, error)
            else:
                proceed = partial(work.send, result)

    def _cancel(self, waited: asyncio.Future[Any] | None) -> None:
        task = asyncio.current_task()
        assert task is not None
        if waited is None or not self.arrived:
            asyncio.get_running_loop().call_soon(task.cancel)
        else:
            waited.add_done_callback(lambda _: task.cancel())


async def at_each_wait(call: Call, *, again_after: int = 0) -> AsyncIterator[Cancellation]:
    """Cancel a call at its first wait, at its second and so on, until it ends before that."""
    raised: Counter[str] = Counter()
    for arrived in (False, True):
        at = 0
        while True:
            at += 1
            cancellation = Cancellation(at, arrived, again_after)
            raised[await _outcome(call, cancellation)] += 1
            yield cancellation
            if cancellation.waits < at:
                break
    assert raised["CancelledError"] > 0, raised


async def _outcome(call: Call, cancellation: Cancellation) -> str:
    """Run one call, and name what it raised.

    Raises:
        AssertionError: it does not end, or raises something that an application would not expect.
    """
    task = asyncio.ensure_future(cancellation.run(call()))
    _, pending = await asyncio.wait([task], timeout=ENDS_S)
    assert not pending, f"{cancellation}: it goes on"
    error = asyncio.CancelledError() if task.cancelled() else task.exception()
    expected = (asyncio.CancelledError, raftlog.TransactionInDoubtError)
    assert error is None or isinstance(error, expected), f"{cancellation}: {error!r}"
    return type(error).__name__
