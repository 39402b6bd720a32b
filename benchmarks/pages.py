"""The console: how soon a browser shows it, and what open pages cost the broker that serves them."""

from __future__ import annotations

import asyncio
import shutil
import time
from contextlib import AsyncExitStack
from typing import Any

import aiohttp

from benchmarks.clusters import running
from benchmarks.datapath import _cpu_s
from benchmarks.report import Bound, Effort, Figure, repeat
from raftlog import Admin, Producer
from raftlog.cli.local_cluster import LocalCluster
from raftlog.wire import paths

VIEWERS = 20
_TOPICS = 50
_WARM_S = 5.0
_FIRST_PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"


async def _filled(cluster: LocalCluster) -> None:
    async with Admin(cluster.bootstrap) as admin:
        for number in range(_TOPICS):
            await admin.create_topic(f"topic-{number}", partitions=6, replication_factor=3)


def paint(effort: Effort) -> list[Figure]:
    """Open the console again and again, each time without a cache: until the first text, and until the overview."""
    with running() as cluster:
        asyncio.run(_filled(cluster))
        first, whole = asyncio.run(_paints(cluster, effort.pick(20, quick=5)))
    bound = Bound(statistic="median", at_most=1_000)
    return [
        Figure(name="first_paint_ms", samples=first, bounds=(bound,)),
        Figure(name="overview_shown_ms", samples=whole, notes={"topics": _TOPICS}),
    ]


async def _paints(cluster: LocalCluster, times: int) -> tuple[list[float], list[float]]:
    from playwright.async_api import async_playwright  # noqa: PLC0415  (other suites need no browser)

    program, url = shutil.which("chromium") or shutil.which("google-chrome"), cluster.public_url("broker-1")
    assert program, "no Chromium: run scripts/install-browser.sh"
    first, whole = list[float](), list[float]()
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        for _ in repeat(times + 1, "pages"):
            context = await browser.new_context()
            page = await context.new_page()
            await page.goto(f"{url}{paths.CONSOLE_INDEX}")
            await page.locator("#level").wait_for()
            whole.append(await page.evaluate("performance.now()"))
            first.append(await page.evaluate(_FIRST_PAINT))
            await context.close()
        await browser.close()
    return first[1:], whole[1:]  # The first page also starts the reading of metrics.


def viewers(effort: Effort) -> list[Figure]:
    """Measure the CPU time of a broker (ms for each second) without pages, with one, and with 20 of the overview."""
    with running() as cluster:
        asyncio.run(_filled(cluster))
        samples, event_bytes = asyncio.run(_costs(cluster, effort))
    notes: dict[int, dict[str, Any]] = {VIEWERS: {"event_bytes": event_bytes}}
    return [
        Figure(name=f"cpu_of_{count}_viewers_ms", samples=values, notes=notes.get(count, {}))
        for count, values in samples.items()
    ]


async def _costs(cluster: LocalCluster, effort: Effort) -> tuple[dict[int, list[float]], int]:
    """Measure without pages first: the broker goes on to read metrics for a minute after the last one has closed."""
    seconds, rounds = effort.pick(10, quick=6), effort.pick(5, quick=2)
    samples: dict[int, list[float]] = {0: [], 1: [], VIEWERS: []}
    largest = 0
    async with Producer(cluster.bootstrap) as producer:
        load = asyncio.create_task(_traffic(producer))
        for count in [0] * rounds + [1, VIEWERS] * rounds:
            cost, size = await _cost(cluster, count, seconds)
            samples[count].append(cost)
            largest = max(largest, size)
        load.cancel()
    return samples, largest


async def _traffic(producer: Producer) -> None:
    """Write a record a second to each topic: the overview lists topics with traffic."""
    while True:
        for number in range(_TOPICS):
            producer.send_nowait(f"topic-{number}", b"value")
        await asyncio.sleep(1)


async def _cost(cluster: LocalCluster, count: int, seconds: float) -> tuple[float, int]:
    pid = cluster.pid("broker-1")
    assert pid is not None
    url = f"{cluster.public_url('broker-1')}{paths.CONSOLE_EVENTS}"
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(aiohttp.ClientSession(read_bufsize=1 << 20))
        streams = [await stack.enter_async_context(session.get(url)) for _ in range(count)]
        assert all(stream.status == 200 for stream in streams)
        readers = [asyncio.create_task(_read(stream)) for stream in streams]
        await asyncio.sleep(_WARM_S)
        began, cpu = time.perf_counter(), _cpu_s(pid)
        await asyncio.sleep(seconds)
        cost = 1_000 * (_cpu_s(pid) - cpu) / (time.perf_counter() - began)
        for reader in readers:
            reader.cancel()
        sizes = await asyncio.gather(*readers)
    return cost, max(sizes, default=0)


async def _read(stream: aiohttp.ClientResponse) -> int:
    """Read events until cancelled; return the size of the largest one, the charts' history apart."""
    largest = 0
    try:
        async for line in stream.content:
            if line.startswith(b"data: {"):
                largest = max(largest, len(line))
    except asyncio.CancelledError:
        pass
    return largest


FIGURES = {"paint": paint, "viewers": viewers}
