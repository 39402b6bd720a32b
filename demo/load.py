"""Load the flights while nodes are killed, and measure how long the cluster took to go on."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import raftlog
from demo.flights import TOPIC, Flights

CHUNK = 500
MAX_CHUNKS_IN_FLIGHT = 20


@dataclass(slots=True)
class LoadResult:
    """The producer's results."""

    acknowledged: int = 0
    failed: list[str] = field(default_factory=list)
    seconds: float = 0.0
    failover_ms: float | None = None
    """From the kill of a leader to the first acknowledgement of one of its partitions."""


class FailoverClock:
    """Watches acknowledgements, for the first one of a partition that the killed leader led."""

    def __init__(self) -> None:
        self._killed_at: float | None = None
        self._partitions: frozenset[int] = frozenset()
        self.failover_ms: float | None = None

    def killed(self, partitions: frozenset[int]) -> None:
        """Start measuring: the leader of `partitions` is killed now."""
        self._killed_at, self._partitions = time.perf_counter(), partitions

    def acknowledged(self, partition: int, sent_at: float) -> None:
        """Stop at the first acknowledgement of a record that was sent after the kill: a new leader gave it."""
        if self._killed_at is None or self.failover_ms is not None or partition not in self._partitions:
            return
        if sent_at > self._killed_at:
            self.failover_ms = (time.perf_counter() - self._killed_at) * 1000


async def load(
    bootstrap: str,
    flights: Flights,
    *,
    clock: FailoverClock,
    progress: Callable[[int], None],
    faults: dict[int, Callable[[], Awaitable[None]]],
) -> LoadResult:
    """Send every flight, keyed by carrier; `faults` maps a record number to what happens there."""
    result, started = LoadResult(), time.perf_counter()
    in_flight: deque[list[Any]] = deque()
    async with raftlog.Producer(bootstrap) as producer:
        for start in range(0, len(flights.values), CHUNK):
            for number in [number for number in faults if start <= number < start + CHUNK]:
                await faults[number]()
            in_flight.append(_send_chunk(producer, flights, start, clock))
            if len(in_flight) >= MAX_CHUNKS_IN_FLIGHT:
                await _settle(in_flight.popleft(), result, progress)
        while in_flight:
            await _settle(in_flight.popleft(), result, progress)
    result.seconds = time.perf_counter() - started
    result.failover_ms = clock.failover_ms
    return result


def _send_chunk(producer: raftlog.Producer, flights: Flights, start: int, clock: FailoverClock) -> list[Any]:
    futures, sent_at = [], time.perf_counter()
    for key, value in zip(flights.keys[start : start + CHUNK], flights.values[start : start + CHUNK], strict=True):
        future = producer.send_nowait(TOPIC, value, key=key)
        future.add_done_callback(lambda done: done.exception() or clock.acknowledged(done.result().partition, sent_at))
        futures.append(future)
    return futures


async def _settle(futures: list[Any], result: LoadResult, progress: Callable[[int], None]) -> None:
    for future in futures:
        try:
            await future
            result.acknowledged += 1
        except raftlog.RaftlogError as error:
            result.failed.append(str(error))
    progress(len(futures))
    await asyncio.sleep(0)
