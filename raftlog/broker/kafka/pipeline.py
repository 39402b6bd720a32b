"""The order of one connection's requests. No IO.

1. Requests are answered in the order in which they arrived.
2. A request begins when all requests before it are answered, as in Kafka. Those that may overlap, which are produce
   requests, begin together, in their order.
3. At most so many requests are in the pipeline. The connection reads no further while it is full.
"""

from __future__ import annotations

from collections import deque
from typing import Generic, Protocol, TypeVar


class Overlapping(Protocol):
    """A request in a pipeline."""

    @property
    def overlaps(self) -> bool:
        """Whether it may begin before others that may are answered."""
        ...


T = TypeVar("T", bound=Overlapping)


class Pipeline(Generic[T]):
    """The requests of one connection that are not answered yet.

    Args:
        most: the most requests in it.
    """

    __slots__ = ("_begun", "_most", "_waiting")

    def __init__(self, most: int) -> None:
        self._most = most
        self._begun: deque[T] = deque()
        self._waiting: deque[T] = deque()

    def __len__(self) -> int:
        return len(self._begun) + len(self._waiting)

    @property
    def is_full(self) -> bool:
        return len(self) >= self._most

    def add(self, request: T) -> None:
        """Put a request that has arrived at the end."""
        assert not self.is_full
        self._waiting.append(request)

    @property
    def next(self) -> T | None:
        """The request that may begin now; None: there is none."""
        if not self._waiting:
            return None
        first = self._waiting[0]
        return first if not self._begun or (first.overlaps and self._begun[-1].overlaps) else None

    def begin(self) -> T:
        """Note that `next` begins, and return it."""
        request = self._waiting.popleft()
        self._begun.append(request)
        return request

    @property
    def first(self) -> T | None:
        """The request to be answered next, if it has begun."""
        return self._begun[0] if self._begun else None

    def answered(self) -> None:
        """Remove `first`."""
        self._begun.popleft()

    def drop_waiting(self) -> list[T]:
        """Remove and return the requests that have not begun."""
        every = list(self._waiting)
        self._waiting.clear()
        return every

    def drop(self) -> list[T]:
        """Remove and return every request: the connection has ended."""
        every = [*self._begun, *self._waiting]
        self._begun.clear()
        self._waiting.clear()
        return every
