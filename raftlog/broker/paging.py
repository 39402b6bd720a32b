"""Pages of listings: which names a request wants, and in which order, without work on the whole listing at once."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from raftlog.broker.http import RequestQuery, query_number
from raftlog.broker.openapi.parameters import AFTER, CONTAINS, LIMIT
from raftlog.runtime import in_slices

T = TypeVar("T")
_SLICE = 1_024
EVERYTHING = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """The part of a listing that a request wants."""

    contains: str = ""
    """A text in the names, whatever its case."""
    after: str = ""
    """Names after this one, in the order of their characters."""
    limit: int = EVERYTHING
    """At most so many entries."""

    @classmethod
    def of(cls, request: RequestQuery) -> Wanted:
        """Return what a query wants.

        Raises:
            InvalidRequestError: `limit` is out of range.
        """
        query = request.query
        limit = query_number(request, LIMIT) if LIMIT.name in query else EVERYTHING
        return cls(contains=query.get(CONTAINS.name, "").casefold(), after=query.get(AFTER.name, ""), limit=limit)

    @property
    def is_page(self) -> bool:
        """Whether the number of entries is limited."""
        return self.limit < EVERYTHING

    @property
    def query(self) -> dict[str, str | int]:
        """The query of the same page at another broker."""
        given: dict[str, str | int] = {CONTAINS.name: self.contains, AFTER.name: self.after}
        given |= {LIMIT.name: self.limit} if self.is_page else {}
        return {name: value for name, value in given.items() if value}

    def fits(self, name: str) -> bool:
        """Return whether a name has the text."""
        return not self.contains or self.contains in name.casefold()


ALL = Wanted()


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """The names of one page."""

    shown: Sequence[str]
    """In order."""
    matching: int
    """How many names fit, on all pages."""
    next: str
    """The `after` of the next page; empty: this is the last one."""


async def names_of(names: Iterable[str], wanted: Wanted, sees: Callable[[str], bool] = lambda _: True) -> Names:
    """Return one page of names.

    Args:
        sees: whether the sender may know of a name.
    """
    fitting, matching = list[str](), 0
    async for name in in_slices(names, _SLICE):
        if wanted.fits(name) and sees(name):
            matching += 1
            if name > wanted.after:
                fitting.append(name)
    shown = await _first(fitting, wanted.limit)
    return Names(shown=shown, matching=matching, next=shown[-1] if len(fitting) > wanted.limit else "")


async def _first(names: list[str], limit: int) -> list[str]:
    """Return the first names in order. Sorting 60,000 at once would keep the event loop for 40 ms."""
    runs, first = list[list[str]](), list[str]()
    for begin in range(0, len(names), _SLICE):
        runs.append(sorted(names[begin : begin + _SLICE]))
        await asyncio.sleep(0)
    in_order = islice(heapq.merge(*runs), limit)
    while some := list(islice(in_order, _SLICE)):
        first += some
        await asyncio.sleep(0)
    return first


def merged(
    pages: Iterable[tuple[Iterable[T], int, bool]], wanted: Wanted, name_of: Callable[[T], str]
) -> tuple[tuple[T, ...], int, str]:
    """Return one page of the pages of several brokers, how many entries fit on all, and the `after` of the next page.

    Args:
        pages: of each broker: its entries, how many fit there, and whether it has more.
    """
    entries, matching, more = list[T](), 0, False
    for some, fitting, has_more in pages:
        entries += some
        matching += fitting
        more = more or has_more
    entries.sort(key=name_of)
    shown = tuple(entries[: wanted.limit])
    is_last = not more and len(entries) <= wanted.limit
    return shown, matching, "" if is_last or not shown else name_of(shown[-1])
