"""Reads the metrics of all nodes while pages of the console are open; one sample serves all of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager

from raftlog.broker.console.snapshot import History, event, snapshot
from raftlog.broker.context import BrokerContext
from raftlog.errors import RaftlogError
from raftlog.metrics.overview import METRICS, ClusterReading, Kind, NodeReading, overview
from raftlog.metrics.rates import Page, Pages
from raftlog.metrics.text import Samples, parse
from raftlog.model import Address
from raftlog.runtime import Tasks
from raftlog.serving.workers import in_worker
from raftlog.wire import paths

_log = logging.getLogger(__name__)
INTERVAL_S = 2.0
"""Time between two samples."""
ANSWER_MS = 1_500
LINGER_S = 60.0
"""For so long after the last page has closed, samples go on: a page that is loaded again finds the charts."""
MAX_NODES = 50
MAX_PAGE_BYTES = 4 << 20


class Sampler:
    """The newest sample of the cluster, and the listeners that wait for the next one."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        self._tasks = Tasks("console")
        self._running: asyncio.Task[None] | None = None
        self._listeners = 0
        self._pages: dict[tuple[Kind, int], Pages] = {}
        self._history = History()
        self._newest = b""
        self._next = asyncio.Event()

    @property
    def listeners(self) -> int:
        """The number of open event streams."""
        return self._listeners

    async def close(self) -> None:
        """Stop sampling."""
        await self._tasks.close()

    async def events(self) -> AsyncGenerator[bytes, None]:
        """Yield events without end. A slow reader misses samples; none is kept for it."""
        with self._listening():
            yield self._history.event()
            if self._newest:
                yield self._newest
            while True:
                await self._next.wait()
                yield self._newest

    @contextmanager
    def _listening(self) -> Iterator[None]:
        self._listeners += 1
        if self._running is None or self._running.done():
            self._running = self._tasks.spawn(self._run(), name="samples")
        try:
            yield
        finally:
            self._listeners -= 1

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        wanted_at = loop.time()
        while (now := loop.time()) - wanted_at < LINGER_S or self._listeners:
            wanted_at = now if self._listeners else wanted_at
            try:
                await self._sample()
            except Exception:  # noqa: BLE001  (our own bug: open pages would wait for ever)
                _log.exception("reading the nodes' metrics for the console failed")
            await asyncio.sleep(max(0.2, now + INTERVAL_S - loop.time()))
        self._newest, self._pages = b"", {}

    async def _sample(self) -> None:
        """Read every node once; tell the listeners."""
        try:
            (members, left_out), error = self._members(), ""
        except RaftlogError as failed:
            members, left_out, error = [], 0, failed.message
        nodes = await asyncio.gather(*(self._read(*member) for member in members))
        self._pages = {(node.kind, node.node_id): node.pages for node in nodes if node.pages is not None}
        reading = ClusterReading(
            cluster_id=self._context.config.cluster_id, nodes=tuple(nodes), error=error, left_out=left_out
        )
        seen = await in_worker(overview, reading)  # 10 ms of CPU for each broker.
        at_ms = self._context.clock.wall_us() // 1_000
        self._history.add(at_ms, seen)
        data = snapshot(
            seen,
            at_ms=at_ms,
            broker_id=self._context.config.node_id,
            metadata_offset=self._context.listener.offset,
        )
        self._newest = event("cluster", data)
        self._next.set()
        self._next = asyncio.Event()

    def _members(self) -> tuple[list[tuple[Kind, int, Address, bool]], int]:
        """Return nodes of the cluster, controllers first, and how many are left out.

        Of a node: its kind, id, address, and whether it is fenced.

        Raises:
            RetriableError: this broker has no metadata yet.
        """
        image, voters = self._context.image, self._context.config.quorum.voters
        found: list[tuple[Kind, int, Address, bool]] = [
            ("controller", voter.node_id, voter.internal, False) for voter in voters
        ]
        brokers = sorted(image.brokers)
        found += [("broker", each, image.brokers[each].public, image.brokers[each].fenced) for each in brokers]
        return found[:MAX_NODES], max(0, len(found) - MAX_NODES)

    async def _read(self, kind: Kind, node_id: int, address: Address, fenced: bool) -> NodeReading:
        before = self._pages.get((kind, node_id))
        try:
            answer = await self._context.session.request(
                "GET",
                address,
                paths.METRICS,
                timeout_ms=ANSWER_MS,
                accept="text/plain",
                fields=self._context.quotas.node_header(),
            )
            samples = await in_worker(_parsed, bytes(answer.body[:MAX_PAGE_BYTES]))
        except RaftlogError as error:
            return NodeReading(kind=kind, node_id=node_id, fenced=fenced, pages=before, error=error.message)
        page = Page(samples=samples, at_s=asyncio.get_running_loop().time())
        pages = Pages(before=None if before is None else before.now, now=page)
        return NodeReading(kind=kind, node_id=node_id, fenced=fenced, pages=pages)


def _parsed(body: bytes) -> Samples:
    return parse(body.decode("utf-8", "replace"), METRICS)
