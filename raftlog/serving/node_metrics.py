"""The metrics of one node's process, and the node's page of metrics, which broker and controller share."""

from __future__ import annotations

import asyncio
import gc
import os
import platform
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from raftlog.metrics import Page
from raftlog.serving.loop_watch import LoopWatch
from raftlog.serving.request_metrics import RequestMetrics
from raftlog.serving.scrapes import Scrapes, Source
from raftlog.version import VERSION

_PROC = Path("/proc/self")
_READ_TIMEOUT_S = 2.0


class NodeMetrics:
    """What a node counts, and the page that shows it. Broker and controller add their own figures with `add`.

    Args:
        watch: measures the event loop's lag.
    """

    def __init__(self, watch: LoopWatch) -> None:
        self.requests = RequestMetrics()
        self._watch = watch
        self._collector = _Collections()
        self._process = FromThread(_read_process)
        self._sources: list[Source] = [self.requests.show, self._show_process]
        self.scrapes = Scrapes(self._sources)

    def add(self, source: Source) -> None:
        """Show more figures on the page."""
        self._sources.append(source)

    def start(self) -> None:
        """Count garbage collections from now on."""
        self._collector.start()

    async def close(self) -> None:
        """Stop counting and rendering."""
        self._collector.close()
        await self.scrapes.close()

    async def _show_process(self, page: Page, _: bool) -> None:
        page.add("raftlog_build_info", 1, version=VERSION, python=platform.python_version())
        page.add("raftlog_gc_seconds_total", self._collector.seconds)
        for generation, count in enumerate(self._collector.counts):
            page.add("raftlog_gc_collections_total", count, generation=generation)
        page.add("raftlog_asyncio_tasks", len(asyncio.all_tasks()))
        page.add("raftlog_event_loop_lag_seconds", self._watch.lag_s)
        page.add("raftlog_event_loop_stalls_total", self._watch.stalls)
        usage = resource.getrusage(resource.RUSAGE_SELF)
        page.add("process_cpu_seconds_total", usage.ru_utime + usage.ru_stime)
        page.add("process_max_fds", resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        if (process := await self._process.read()) is not None:
            page.add("process_start_time_seconds", process.started_s)
            page.add("process_resident_memory_bytes", process.memory_bytes)
            page.add("process_open_fds", process.open_files)
            page.add("raftlog_threads", process.threads)


class FromThread:
    """Reads figures in a thread, because the kernel may take long to answer: a disk may hang.

    A read that has not returned is not begun again, so a hanging disk takes one thread.
    """

    def __init__(self, read: Callable[[], Any]) -> None:
        self._read = read
        self._reading: asyncio.Future[Any] | None = None

    async def read(self) -> Any:
        """Return the figures; None if they cannot be read, or not within two seconds."""
        if self._reading is None or self._reading.done():
            self._reading = asyncio.ensure_future(asyncio.to_thread(self._read))
            self._reading.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            async with asyncio.timeout(_READ_TIMEOUT_S):
                return await asyncio.shield(self._reading)
        except (OSError, TimeoutError):
            return None


@dataclass(frozen=True, slots=True)
class _Process:
    started_s: float
    memory_bytes: int
    open_files: int
    threads: int


def _read_process() -> _Process:
    fields = (_PROC / "stat").read_text().rpartition(")")[2].split()
    booted_s = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
    resident_pages = int((_PROC / "statm").read_text().split()[1])
    return _Process(
        started_s=round(booted_s + int(fields[19]) / os.sysconf("SC_CLK_TCK"), 2),
        memory_bytes=resident_pages * os.sysconf("SC_PAGE_SIZE"),
        threads=int(fields[17]),
        open_files=len(os.listdir(_PROC / "fd")),  # noqa: PTH208  (one list of names is cheaper)
    )


class _Collections:
    """Counts and times garbage collections."""

    def __init__(self) -> None:
        self.counts = [0, 0, 0]
        self.seconds = 0.0
        self._began = 0.0

    def start(self) -> None:
        gc.callbacks.append(self._note)

    def close(self) -> None:
        if self._note in gc.callbacks:
            gc.callbacks.remove(self._note)

    def _note(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._began = time.perf_counter()
        else:
            self.seconds += time.perf_counter() - self._began
            self.counts[info["generation"]] += 1
