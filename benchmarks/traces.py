"""The cost of traces for each record of a client: without OpenTelemetry, with its API only, and with spans.

Each mode is a process of its own, and they alternate. The client's stub (`benchmarks.client`) answers at once, so the
figures are CPU time of the client alone, in which a cost of traces shows most.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext

from benchmarks.client import LOG_RECORDS, TOPIC, VALUE, StubSession, _fetch, _producing, _send_many, _send_nowait
from benchmarks.report import Bound, Effort, Figure, repeat

MODES = ("absent", "no_provider", "spans")
COUNT = 100_000
_ROUNDS = 3
"""Measurements of one process, of which the fastest counts."""


async def _send_keyed(stub: StubSession, count: int) -> float:
    """Queue records with a key, which take no fast path."""
    async with _producing(stub) as producer:
        started = time.process_time()
        for number in range(count):
            producer.send_nowait(TOPIC, VALUE, key=b"key")
            if number % 1_000 == 0:
                await asyncio.sleep(0)
        await producer.flush()
        return time.process_time() - started


MEASURES: dict[str, tuple[Callable[[StubSession, int], Awaitable[float]], int]] = {
    "send_nowait": (_send_nowait, COUNT),
    "send_keyed": (_send_keyed, COUNT),
    "send_many": (_send_many, 5 * COUNT),
    "fetch": (_fetch, LOG_RECORDS),
}


def _prepare(mode: str) -> AbstractContextManager[object]:
    """Set up a mode in this process; return the context in which records are sent."""
    if mode == "absent":
        sys.modules["opentelemetry"] = None  # type: ignore[assignment]  # It cannot be imported now.
        return nullcontext()
    from opentelemetry import trace  # noqa: PLC0415

    if mode == "no_provider":
        return nullcontext()
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415

    trace.set_tracer_provider(TracerProvider())
    return trace.get_tracer("benchmark").start_as_current_span("application")


def child(mode: str, name: str) -> None:
    """Measure one figure in this process; print microseconds for each record."""
    measure, count = MEASURES[name]
    stub = StubSession()

    async def run() -> float:
        return await measure(stub, count)

    with _prepare(mode):
        asyncio.run(run())
        print(min(asyncio.run(run()) for _ in range(_ROUNDS)) / count * 1e6)


def cost(effort: Effort) -> list[Figure]:
    """Measure each way to send, and fetching, in each mode."""
    figures = []
    for name in MEASURES:
        samples: dict[str, list[float]] = {mode: [] for mode in MODES}
        for _ in repeat(effort.pick(15, quick=3), name):
            for mode in MODES:
                code = f"from benchmarks.traces import child; child({mode!r}, {name!r})"
                done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
                samples[mode].append(float(done.stdout))
        figures += [Figure(name=f"{name}_{mode}_us", samples=samples[mode]) for mode in MODES]
        ratios = [100 * (off / none - 1) for off, none in zip(samples["no_provider"], samples["absent"], strict=True)]
        bound = Bound(statistic="median", at_most=1.0)
        figures.append(Figure(name=f"{name}_no_provider_percent", samples=ratios, bounds=(bound,)))
    return figures


FIGURES = {"cost": cost}
