"""How fast this machine is right now, in one number: what kept figures are compared by.

A figure of another day, or of another machine, says nothing until it is divided by what the machine did on that day
with work that never changes: Python alone, messages over loopback, and writes with a sync.
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


def _rate(work: Callable[[], object], units: float) -> float:
    """Return units per second of the best of five slices: what the machine can do, not what it did meanwhile."""
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
    """Return MB/s of messages that go to an echo server and come back."""

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
