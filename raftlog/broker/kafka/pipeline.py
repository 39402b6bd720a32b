"""The order of one connection's requests. No IO.

1. Requests are answered in the order in which they arrived.
2. A request begins when all requests before it are answered, as in Kafka. Those that may overlap, which are produce
   requests, begin together, in their order.
3. At most so many requests are in the pipeline. The connection reads no further while it is full.
4. A request that does not overlap may wait for long. What arrives behind it has no use before it is answered: the
   connection reads ahead few bytes then.
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

    @property
    def held_bytes(self) -> int:
        """How many bytes of the broker's memory it takes, from its arrival to its answer."""
        ...


T = TypeVar("T", bound=Overlapping)


class Pipeline(Generic[T]):
    """The requests of one connection that are not answered yet.

    Args:
        most: the most requests in it.
        ahead_bytes: the most bytes that are read ahead while one of the requests does not overlap.
    """

    __slots__ = ("_ahead_bytes", "_begun", "_most", "_waiting", "_waiting_bytes", "singles")

    def __init__(self, most: int, *, ahead_bytes: int) -> None:
        self._most = most
        self._ahead_bytes = ahead_bytes
        self.singles = 0
        """How many of the requests do not overlap: while there is one, few bytes are read ahead."""
        self._waiting_bytes = 0
        self._begun: deque[T] = deque()
        self._waiting: deque[T] = deque()

    def __len__(self) -> int:
        return len(self._begun) + len(self._waiting)

    @property
    def is_full(self) -> bool:
        return len(self) >= self._most

    def ahead(self, received: int) -> int | None:
        """Return how many more bytes may be read ahead; None: any number.

        Args:
            received: how many bytes of the next request were received.
        """
        return max(0, self._ahead_bytes - self._waiting_bytes - received) if self.singles else None

    def add(self, request: T) -> None:
        """Put a request that has arrived at the end."""
        assert not self.is_full
        self._waiting.append(request)
        self._waiting_bytes += request.held_bytes
        self.singles += not request.overlaps

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
        self._waiting_bytes -= request.held_bytes
        self._begun.append(request)
        return request

    @property
    def first(self) -> T | None:
        """The request to be answered next, if it has begun."""
        return self._begun[0] if self._begun else None

    def answered(self) -> None:
        """Remove `first`."""
        self.singles -= not self._begun.popleft().overlaps

    def drop_waiting(self) -> list[T]:
        """Remove and return the requests that have not begun."""
        every = list(self._waiting)
        self._waiting.clear()
        self._waiting_bytes = 0
        self.singles -= sum(not request.overlaps for request in every)
        return every

    def drop(self, *, overlapping: bool = True) -> list[T]:
        """Remove and return requests, because the connection has ended: all, or those that do not overlap."""
        dropped = list[T]()
        for requests in (self._begun, self._waiting):
            every = list(requests)
            requests.clear()
            for one in every:
                (dropped if overlapping or not one.overlaps else requests).append(one)
        self._waiting_bytes = sum(one.held_bytes for one in self._waiting)
        self.singles = 0
        return dropped
