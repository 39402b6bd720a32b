"""Measures the time that a request computes, on the event loop and in worker threads."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Generator
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Metered(Generic[T]):
    """Awaits `work`, and adds up its computing time in `seconds`.

    Time on the loop is wall-clock time, because other requests wait for that long. What a part of `work` computes,
    metered by itself, counts for both.
    """

    def __init__(self, work: Awaitable[T]) -> None:
        self.seconds = 0.0
        self._work = work
        self._whole: Metered[Any] | None = None
        """The meter of what `work` is a part of."""

    def add(self, seconds: float) -> None:
        """Add the computing time of a thread."""
        self.seconds += seconds
        if self._whole is not None:
            self._whole.add(seconds)

    def __await__(self) -> Generator[Any, Any, T]:
        self._whole = _current.get()
        token = _current.set(self)
        try:
            return (yield from self._steps(self._work.__await__()))
        finally:
            _current.reset(token)

    def _steps(self, steps: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
        thrown: BaseException | None = None
        while True:
            began = time.perf_counter()
            try:
                waits_for = steps.throw(thrown) if thrown is not None else next(steps)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            finally:
                self.seconds += time.perf_counter() - began
                thrown = None  # Its traceback refers to this frame: with a cycle, only the collector frees the request.
            try:
                yield waits_for
            except GeneratorExit:
                steps.close()
                raise
            except BaseException as error:  # noqa: BLE001  (any error is thrown into `work`)
                thrown = error


_current: ContextVar[Metered[Any] | None] = ContextVar("raftlog_metered", default=None)


def current() -> Metered[Any] | None:
    """Return the meter of the current request, or None."""
    return _current.get()
