"""The job of every client, and how it is measured: one job in, one JSON object out.

A job connects, makes its topic, sends for `warmup_s` seconds and then for `seconds`, and counts acknowledged records
from the first send until the last acknowledgement. All drivers send the same values, and the code below times them.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from benchmarks.memory import REPLICAS, touched

_POOL_CHUNKS = 8
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_FIRST_DELIVERY_S = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What to do. `fill` writes records that stay, for `consume` to read."""

    work: Literal["produce", "latency", "fill", "consume"]
    bootstrap: str
    topic: str
    partitions: int = 1
    record_bytes: int = 100
    seconds: float = 4.0
    warmup_s: float = 1.0
    max_bytes: int = 512 << 20
    """Of values: a fast client stops here before `seconds` are over, so that no disk fills."""
    rate: int = 1_000
    """Records per second, for `latency`."""
    records: int = 0
    """The topic's number of records, for `consume`."""
    durable: bool = False
    """Every replica syncs before it acknowledges, where that is a topic's setting."""
    server_pids: tuple[int, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    """Options of this driver only."""


class Driver(ABC):
    """One client library at work. Every coroutine may block: the process is its own."""

    name: ClassVar[str]
    settings: ClassVar[dict[str, object]]
    """Settings that differ from the library's defaults, for the report."""
    chunk_bytes: ClassVar[int] = 256 << 10
    """How many bytes of values the application has ready at once."""

    def __init__(self, job: Job) -> None:
        self.job = job

    @abstractmethod
    async def open(self) -> None:
        """Connect."""

    @abstractmethod
    async def create(self) -> None:
        """Create the topic, with three replicas for each partition, and wait until it can be used."""

    @abstractmethod
    async def drop(self) -> None:
        """Delete the topic."""

    @abstractmethod
    async def produce(self, chunks: Iterator[Sequence[bytes]]) -> int:
        """Send every chunk; return how many records were acknowledged once all are."""

    @abstractmethod
    async def send_one(self, value: bytes) -> None:
        """Send one record at once; return when it is acknowledged."""

    @abstractmethod
    def receive(self) -> AsyncGenerator[int, None]:
        """Read the topic from its start; yield how many values arrived together, 0 when none did for a while."""

    @abstractmethod
    async def close(self) -> None:
        """Disconnect."""

    async def latencies(self, rate: int, count: int) -> tuple[list[float], list[float]]:
        """Send `count` records at an even pace, whether or not those before are acknowledged.

        Returns:
        For each record, seconds from the call until it was acknowledged, and how late the call was.
        """
        values = random_values(self.job.record_bytes, 1_000)
        took: list[float] = []
        late: list[float] = []

        async def one(value: bytes, called: float) -> None:
            await self.send_one(value)
            took.append(time.perf_counter() - called)

        start = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for number in range(count):
                due = start + number / rate
                if (wait := due - time.perf_counter()) > 0:
                    await asyncio.sleep(wait)
                called = time.perf_counter()
                late.append(called - due)
                group.create_task(one(values[number % len(values)], called))
        return took, late


def random_values(size: int, count: int) -> list[bytes]:
    """Return values that nothing can compress."""
    return [os.urandom(size) for _ in range(count)]


class Chunks(Iterator[Sequence[bytes]]):
    """Values to send, until the time or the volume is used up. Several tasks may draw from the same one."""

    def __init__(self, pool: list[list[bytes]], *, seconds: float, max_bytes: int) -> None:
        self._pool = pool
        self._deadline = time.perf_counter() + seconds
        self._bytes_left = max_bytes
        self._drawn = 0

    def __next__(self) -> Sequence[bytes]:
        if self._bytes_left <= 0 or time.perf_counter() >= self._deadline:
            raise StopIteration
        chunk = self._pool[self._drawn % len(self._pool)]
        self._drawn += 1
        self._bytes_left -= len(chunk) * len(chunk[0])
        return chunk


@dataclass(slots=True)
class _Meter:
    """CPU seconds of the servers and of this process, from here on."""

    pids: tuple[int, ...]
    servers_s: float = 0.0
    client_s: float = 0.0
    machine: tuple[int, int] = (0, 0)

    def __post_init__(self) -> None:
        self.servers_s, self.client_s, self.machine = cpu_s(self.pids), time.process_time(), _machine_ticks()

    def read(self) -> dict[str, float]:
        stolen, ticks = (now - before for now, before in zip(_machine_ticks(), self.machine, strict=True))
        return {
            "stolen_share": round(stolen / max(1, ticks), 3),
            "server_cpu_s": round(cpu_s(self.pids) - self.servers_s, 3),
            "client_cpu_s": round(time.process_time() - self.client_s, 3),
            "server_rss_mb": round(_rss_mb(self.pids), 1),
        }


def cpu_s(pids: Sequence[int]) -> float:
    """Return the CPU time that processes have used, threads and all."""
    ticks = 0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / _TICKS_PER_S


def _machine_ticks() -> tuple[int, int]:
    """Return what a virtual machine's host took from it, and all its time, in ticks of all cores."""
    with Path("/proc/stat").open() as file:
        ticks = [int(field) for field in file.readline().split()[1:9]]
    return ticks[7], sum(ticks)


def _rss_mb(pids: Sequence[int]) -> float:
    return sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids) * _PAGE_BYTES / 1e6


async def _produce(driver: Driver) -> dict[str, Any]:
    job = driver.job
    per_chunk = max(1, driver.chunk_bytes // job.record_bytes)
    pool = [random_values(job.record_bytes, per_chunk) for _ in range(_POOL_CHUNKS)]
    memory = touched(REPLICAS * job.max_bytes)
    await driver.create()
    try:
        if job.warmup_s:
            await driver.produce(Chunks(pool, seconds=job.warmup_s, max_bytes=job.max_bytes // 4))
        memory.close()
        meter, started = _Meter(job.server_pids), time.perf_counter()
        records = await driver.produce(Chunks(pool, seconds=job.seconds, max_bytes=job.max_bytes))
        return _throughput(job, records, time.perf_counter() - started, meter)
    finally:
        if job.work != "fill":
            await driver.drop()


def _throughput(job: Job, records: int, took: float, meter: _Meter) -> dict[str, Any]:
    volume = records * job.record_bytes / 1e6
    rates = {"records_per_s": round(records / took), "mb_per_s": round(volume / took, 2)}
    return {"records": records, "seconds": round(took, 4), **rates, **meter.read()}


async def _latency(driver: Driver) -> dict[str, Any]:
    job = driver.job
    await driver.create()
    try:
        await driver.latencies(job.rate, int(job.rate * max(job.warmup_s, 0.1)))
        gc.collect()
        meter = _Meter(job.server_pids)
        took, late = await driver.latencies(job.rate, int(job.rate * job.seconds))
        percentiles = {name: _percentile_ms(took, share) for name, share in _SHARES.items()}
        return {"records": len(took), **percentiles, "late_p99_ms": _percentile_ms(late, 0.99), **meter.read()}
    finally:
        await driver.drop()


_SHARES = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99, "p99_9_ms": 0.999, "max_ms": 1.0}


def _percentile_ms(samples: list[float], share: float) -> float:
    ordered = sorted(samples)
    return round(1_000 * ordered[min(len(ordered) - 1, int(len(ordered) * share))], 3)


async def _consume(driver: Driver) -> dict[str, Any]:
    """Time from the first delivery, which is not counted: connecting is measured elsewhere.

    Where all values arrived at once there is nothing else to time. Connecting is counted then, and the result shows it.
    """
    job, asked = driver.job, time.perf_counter()
    meter, started, records, first = _Meter(job.server_pids), 0.0, 0, 0
    deadline = asked + _FIRST_DELIVERY_S
    async with aclosing(driver.receive()) as deliveries:
        async for count in deliveries:
            if not started and count:
                meter, started, first = _Meter(job.server_pids), time.perf_counter(), count
                deadline = started + job.seconds
            else:
                records += count
            if first + records >= job.records or time.perf_counter() >= deadline:
                break
    if not first:
        raise RuntimeError(f"none of {job.records} records came within {_FIRST_DELIVERY_S} s")
    if not records:
        return {**_throughput(job, first, time.perf_counter() - asked, meter), "with_connecting": True}
    return _throughput(job, records, time.perf_counter() - started, meter)


_WORKS = {"produce": _produce, "fill": _produce, "latency": _latency, "consume": _consume}


async def _run(driver: Driver) -> dict[str, Any]:
    await driver.open()
    try:
        return await _WORKS[driver.job.work](driver)
    finally:
        await driver.close()


def main(driver_class: type[Driver]) -> None:
    """Do the job on the command line, and print the measurements."""
    plain = json.loads(sys.argv[1])
    job = Job(**plain | {"server_pids": tuple(plain.get("server_pids", ()))})
    driver = driver_class(job)
    result = asyncio.run(_run(driver))
    print(json.dumps({"client": driver.name, "settings": driver.settings, **result}))
