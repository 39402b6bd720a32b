"""The bulk load's writer, a process of its own: `python -m chaos.bulk_writer '{...}'` (the fields of `BulkOrders`).

It sends records at a steady rate with acks=all, many calls at once, and logs each call's outcome. At SIGTERM it waits
for the outcome of calls in flight, then exits.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO

import orjson

import raftlog
from chaos.bulk import SAMPLE, BulkOrders, Sent, make_values
from raftlog.cli.processes import die_with_parent
from raftlog.errors import RaftlogError

CALLS_PER_S = 20
MAX_CALLS = 40
"""Calls in flight at most; above that the writer waits, as a bounded application does."""
LIFE_S = 60.0
"""The length of a producer's life; then another producer, with an id of its own, continues."""
REQUEST_TIMEOUT_MS = 5_000


class Writer:
    """Sends one life after another until it is stopped."""

    def __init__(self, orders: BulkOrders, file: BinaryIO) -> None:
        self._orders, self._file = orders, file
        self._stopping = asyncio.Event()
        self._room = asyncio.Semaphore(MAX_CALLS)

    def stop(self) -> None:
        self._stopping.set()

    async def run(self) -> None:
        """Write until stopped."""
        life = 0
        while not self._stopping.is_set():
            life += 1
            await self._live(life)

    async def _live(self, life: int) -> None:
        count, number = max(1, self._orders.rate // CALLS_PER_S), 0
        ends = time.monotonic() + LIFE_S
        due = time.monotonic()
        async with (
            raftlog.Producer(
                self._orders.bootstrap, dial=self._orders.dial, request_timeout_ms=REQUEST_TIMEOUT_MS
            ) as producer,
            asyncio.TaskGroup() as calls,
        ):
            while time.monotonic() < ends and not self._stopping.is_set():
                await self._room.acquire()
                calls.create_task(self._send(producer, life, number, count))
                number += count
                due = max(due + 1 / CALLS_PER_S, time.monotonic() - 1)  # The backlog is one second at most.
                if (early := due - time.monotonic()) > 0:
                    await asyncio.sleep(early)

    async def _send(self, producer: raftlog.Producer, life: int, first: int, count: int) -> None:
        invoked, ok, sample = time.monotonic_ns(), False, list[tuple[int, int, int]]()
        try:
            told = await producer.send_many(self._orders.topic, make_values(life, first, count))
            ok = True
            for number in range(-(-first // SAMPLE) * SAMPLE, first + count, SAMPLE):
                record = told[number - first]
                sample.append((number, record.partition, record.offset))
        except RaftlogError as error:
            print(f"life {life}, from {first}: {error.code}: {error.message}", file=sys.stderr, flush=True)
        finally:
            self._room.release()
        done = Sent(
            life=life,
            first=first,
            count=count,
            ok=ok,
            invoked_ns=invoked,
            completed_ns=time.monotonic_ns(),
            sample=sample,
        )
        self._file.write(orjson.dumps(asdict(done), option=orjson.OPT_APPEND_NEWLINE))


async def main(orders: BulkOrders, file: BinaryIO) -> None:
    """Write until SIGTERM."""
    writer = Writer(orders, file)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, writer.stop)
    await writer.run()


if __name__ == "__main__":
    told = BulkOrders(**orjson.loads(sys.argv[1]))
    die_with_parent(told.parent_pid)
    with Path(told.sent_file).open("ab", buffering=0) as opened:
        asyncio.run(main(told, opened))
