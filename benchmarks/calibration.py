"""How fast this machine is right now, in one number: kept figures are compared in proportion to it.

A figure of another day or machine means nothing by itself. It is divided by the machine's speed on that day at work
that never changes: Python alone, messages over loopback, and writes with a sync.
"""

from __future__ import annotations

import asyncio
import math
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

_SECONDS = 0.5
_MESSAGE = bytes(64 << 10)


def calibrate() -> dict[str, float]:
    """Return the three rates, and their geometric mean as `speed`. Takes two seconds."""
    rates = {"python_per_s": _python(), "loopback_MBps": asyncio.run(_loopback()), "synced_MBps": _synced()}
    return {**rates, "speed": round(math.prod(rates.values()) ** (1 / len(rates)), 3)}


def page_cache_rates(folder: Path, megabytes: int = 1_024) -> tuple[float, float]:
    """Return MB per second of CPU time for writes to the page cache: to new memory, and to the same memory again.

    A virtual machine may get its memory only when it is touched, and return it when it is free. The first rate is then
    a tenth of the second, for every process, and no log is faster than that.
    """
    block, rates = os.urandom(4 << 20), list[float]()
    for _ in range(2):
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            started = time.process_time()
            for _ in range(megabytes // 4):
                file.write(block)
            rates.append(round(megabytes * 1.048576 / (time.process_time() - started)))
    return rates[0], rates[1]


def _rate(work: Callable[[], object], units: float) -> float:
    """Return units per second of the best of five slices: the machine's speed without other load."""
    best = 0.0
    for _ in range(5):
        count, started = 0, time.perf_counter()
        while (took := time.perf_counter() - started) < _SECONDS / 5:
            work()
            count += 1
        best = max(best, count * units / took)
    return round(best, 2)


def _python() -> float:
    return _rate(lambda: [{"key": number, "text": str(number)} for number in range(1_000)], 1_000)


async def _loopback() -> float:
    """Return MB/s of messages to an echo server and back."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(len(_MESSAGE)):
            writer.write(data)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    count, started = 0, time.perf_counter()
    while (took := time.perf_counter() - started) < _SECONDS:
        writer.write(_MESSAGE)
        await reader.readexactly(len(_MESSAGE))
        count += 1
    writer.close()
    await writer.wait_closed()
    server.close()
    await server.wait_closed()
    return round(count * len(_MESSAGE) / took / 1e6, 2)


def _synced() -> float:
    Path("build").mkdir(exist_ok=True)  # Not /tmp, which may be memory.
    with tempfile.TemporaryFile(dir="build") as file:

        def write() -> None:
            os.pwrite(file.fileno(), _MESSAGE, 0)
            os.fdatasync(file.fileno())

        return _rate(write, len(_MESSAGE) / 1e6)
