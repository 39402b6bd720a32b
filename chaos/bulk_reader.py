"""The bulk load's reader, a process of its own: `python -m chaos.bulk_reader '{...}'` (the fields of `BulkOrders`).

It tails the topic as Arrow tables and counts every record. The writer has exited when this process' standard input is
closed. The reader then reads to the end, reads everything that retention has left once more, and writes a `BulkResult`.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import orjson

import raftlog
from chaos.bulk import BulkOrders, BulkResult, Sent
from chaos.bulk_tally import Tally, judge
from raftlog.cli.processes import die_with_parent
from raftlog.errors import RaftlogError

FINISH_WITHIN_S = 120.0
WAIT_MS = 500
REQUEST_TIMEOUT_MS = 5_000
PAUSE_S = 0.2
"""The pause between an error and the next consumer."""


class Reader:
    """Tails the topic. After an error, a new consumer continues at the position of the last one."""

    def __init__(self, orders: BulkOrders) -> None:
        self.tally = Tally()
        self.problems: list[str] = []
        self._orders = orders
        self._finishing = asyncio.Event()

    def finish(self) -> None:
        """Stop at the end of the topic: the writer has exited."""
        self._finishing.set()

    async def tail(self) -> None:
        """Read until `finish` is called, and then to the end."""
        while True:
            try:
                await self._live()
                return
            except RaftlogError as error:
                self._note(error)
                if self._finishing.is_set() and error.code.value == "OFFSET_OUT_OF_RANGE":
                    return
                await asyncio.sleep(PAUSE_S)

    async def read_again(self) -> tuple[Tally, dict[int, int]]:
        """Read the whole topic with a new client; return the counts, and the log start offset of each partition."""
        final, orders = Tally(), self._orders
        async with raftlog.Consumer(
            orders.bootstrap, orders.topic, start="earliest", on_out_of_range="earliest"
        ) as consumer:
            await _read_to_the_end(consumer, final)
            starts = await consumer.beginning_offsets()
        return final, {partition.partition: offset for partition, offset in starts.items()}

    async def _live(self) -> None:
        orders = self._orders
        async with raftlog.Consumer(
            orders.bootstrap, orders.topic, start="earliest", dial=orders.dial, request_timeout_ms=REQUEST_TIMEOUT_MS
        ) as consumer:
            for partition, offset in self.tally.positions.items():
                await consumer.seek(orders.topic, partition, offset)
            while not self._finishing.is_set():
                self.tally.take(await consumer.fetch_arrow(max_wait_ms=WAIT_MS), time.monotonic_ns())
            await _read_to_the_end(consumer, self.tally)

    def _note(self, error: RaftlogError) -> None:
        """Log every error; keep those that no fault excuses."""
        print(f"{error.code}: {error.message}", file=sys.stderr, flush=True)
        if error.code.value in {"OFFSET_OUT_OF_RANGE", "CORRUPT_BATCH"}:
            self.problems.append(f"{error.code.value}: {error.message}")


async def _read_to_the_end(consumer: raftlog.Consumer, tally: Tally) -> None:
    ends = await consumer.end_offsets()
    while any(consumer.position(*partition) < end for partition, end in ends.items()):
        tally.take(await consumer.fetch_arrow(max_wait_ms=WAIT_MS), time.monotonic_ns())


def _sent(file: Path) -> Iterator[Sent]:
    with file.open("rb") as lines:
        for line in lines:
            if line.endswith(b"\n"):  # The last line may be torn if the writer was killed.
                yield Sent(**orjson.loads(line))


def _write(result: BulkResult, file: Path) -> None:
    part = file.with_suffix(".part")
    part.write_bytes(orjson.dumps(result))
    part.rename(file)


async def main() -> None:
    """Read until standard input is closed, then write the result."""
    orders = BulkOrders(**orjson.loads(sys.argv[1]))
    die_with_parent(orders.parent_pid)
    reader = Reader(orders)
    told = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), told.set)  # It becomes readable once it is closed.
    tailing = asyncio.create_task(reader.tail())
    await told.wait()
    asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
    reader.finish()
    async with asyncio.timeout(FINISH_WITHIN_S):
        await tailing
        final, starts = await reader.read_again()
    result = judge(_sent(Path(orders.sent_file)), reader.tally, final, log_starts=starts, problems=reader.problems)
    await asyncio.to_thread(_write, result, Path(orders.result_file))


if __name__ == "__main__":
    asyncio.run(main())
