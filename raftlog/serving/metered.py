"""How long a request computes: on the event loop, step by step, and in threads that work for it."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Generator
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Metered(Generic[T]):
    """Awaits `work`, and adds up in `seconds` what it has taken.

    Time on the loop goes by the wall clock, as those see it who wait for the loop.
    """

    def __init__(self, work: Awaitable[T]) -> None:
        self.seconds = 0.0
        self._work = work

    def __await__(self) -> Generator[Any, Any, T]:
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
            thrown = None
            try:
                yield waits_for
            except GeneratorExit:
                steps.close()
                raise
            except BaseException as error:  # noqa: BLE001  (whatever it is, it is for the work)
                thrown = error


_current: ContextVar[Metered[Any] | None] = ContextVar("raftlog_metered", default=None)


def current() -> Metered[Any] | None:
    """Return what meters the request on whose behalf this runs."""
    return _current.get()
