"""Serves `GET /metrics`. Scrapers cost the node a bounded part of its time and memory, however many there are.

- One page is rendered at a time, in slices. Scrapers that arrive meanwhile share the next one: none gets an old page.
- After a page the node rests, for `REST` times as long as the page took.
- A few scrapers are answered at once, and fewer of one address; the others wait. An answer must be read within
  `SEND_S`, or its connection is closed.
"""

from __future__ import annotations

import asyncio
import time
import weakref
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from aiohttp import web

from raftlog.errors import InvalidRequestError, RetriableError
from raftlog.metrics import CONTENT_TYPE, TABLE, Page
from raftlog.runtime import Tasks
from raftlog.serving.responses import PartsResponse

Source: TypeAlias = Callable[[Page, bool], Awaitable[None]]
"""Adds samples to a page; the flag asks for those of each partition."""
REST = 20.0
MOST_REST_S = 1.0
AT_ONCE, AT_ONCE_PER_ADDRESS = 16, 4
WAIT_S = 10.0
SEND_S = 10.0
_SLICE_S = 0.004


class Scrapes:
    """The metrics page of one node.

    Args:
        sources: add samples to each page. They yield to the event loop every few milliseconds.
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = sources
        self._tasks = Tasks("metrics")
        self._rendering = asyncio.Lock()
        self._next: dict[bool, asyncio.Task[bytes]] = {}
        """The pages that have not begun to be rendered, by whether they have a part for each partition."""
        self._free_at = 0.0
        self._render_s = 0.0
        self._all = asyncio.Semaphore(AT_ONCE)
        self._from: defaultdict[str, asyncio.Semaphore] = defaultdict(lambda: asyncio.Semaphore(AT_ONCE_PER_ADDRESS))
        self._visitors: Counter[str] = Counter()
        """By address: the requests that wait or are answered, for which `_from` has an entry."""

    async def close(self) -> None:
        """Stop rendering."""
        await self._tasks.close()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer `GET /metrics`, or `GET /metrics?detail=partitions`.

        Raises:
            InvalidRequestError: the query is unknown.
            RetriableError: other scrapers kept this one waiting for `WAIT_S`.
        """
        detail = _wants_detail(request)
        address = request.remote or ""
        leave = await self._enter(address)
        try:
            body = await self.page(detail=detail)
            response = _PageResponse(request, body)
        except BaseException:
            leave()
            raise
        # aiohttp does not send a response whose peer has disconnected; the finalizer gives the place free.
        left = weakref.finalize(response, leave)
        left.atexit = False
        response.when_ended(lambda: left() and None)
        return response

    async def page(self, *, detail: bool = False) -> bytes:
        """Return a page whose rendering begins after this call."""
        waiting = self._next.get(detail)
        if waiting is None:
            waiting = self._next[detail] = self._tasks.spawn(self._render(detail), name="render", awaited=True)
        return await asyncio.shield(waiting)

    async def _render(self, detail: bool) -> bytes:
        loop = asyncio.get_running_loop()
        async with self._rendering:
            await asyncio.sleep(max(0.0, self._free_at - loop.time()))
            del self._next[detail]  # From here on scrapers need a later page.
            began = time.perf_counter()
            page = Page(TABLE)
            page.add("raftlog_scrape_render_seconds", self._render_s)
            try:
                for source in self._sources:
                    await source(page, detail)
                    await asyncio.sleep(0)
                return await _encoded(page)
            finally:
                self._render_s = time.perf_counter() - began
                self._free_at = loop.time() + min(MOST_REST_S, REST * self._render_s)

    async def _enter(self, address: str) -> Callable[[], None]:
        """Wait for a place; return the function that gives it free."""
        self._visitors[address] += 1
        own = self._from[address]
        try:
            async with asyncio.timeout(WAIT_S):
                await own.acquire()
                try:
                    await self._all.acquire()
                except BaseException:
                    own.release()
                    raise
        except TimeoutError:
            self._forget(address)
            raise RetriableError(
                f"the metrics are being sent to as many scrapers as are served at once ({AT_ONCE}, of one address "
                f"{AT_ONCE_PER_ADDRESS}); scrape less often"
            ) from None
        except BaseException:
            self._forget(address)
            raise

        def leave() -> None:
            self._all.release()
            own.release()
            self._forget(address)

        return leave

    def _forget(self, address: str) -> None:
        self._visitors[address] -= 1
        if not self._visitors[address]:
            del self._visitors[address], self._from[address]


class _PageResponse(PartsResponse):
    """A page, which the scraper must read in bounded time."""

    def __init__(self, request: web.Request, body: bytes) -> None:
        super().__init__(request, [body], status=200, headers={"Content-Type": CONTENT_TYPE}, write_s=SEND_S)

    async def write_eof(self, data: bytes = b"") -> None:
        """Send the page; see `PartsResponse.write_eof`."""
        try:
            async with asyncio.timeout(SEND_S):
                await super().write_eof(data)
        except TimeoutError:
            if self._request.transport is not None:
                self._request.transport.abort()
            raise ConnectionAbortedError(f"the scraper has not read the metrics within {SEND_S} s") from None


async def _encoded(page: Page) -> bytes:
    """Return a page's bytes, in slices: a page with a part for each partition has megabytes."""
    pieces, began = list[bytes](), time.perf_counter()
    for piece in page.pieces():
        pieces.append(piece.encode("utf-8", "replace"))
        if time.perf_counter() - began > _SLICE_S:
            await asyncio.sleep(0)
            began = time.perf_counter()
    return b"".join(pieces)


def _wants_detail(request: web.Request) -> bool:
    for name, value in request.query.items():
        if (name, value) != ("detail", "partitions"):
            raise InvalidRequestError(f"query: expected nothing or detail=partitions, received {name}={value!r:.80}")
    return bool(request.query)
