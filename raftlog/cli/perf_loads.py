"""The loads of `raftlog perf`. Each counts acknowledged or read records until it is stopped.

The clock is `time.perf_counter`, in seconds.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from typing import NamedTuple

import pyarrow.compute as pc

from raftlog.cli.outcome_counter import Delivery, OutcomeCounter
from raftlog.client import Consumer, Producer
from raftlog.errors import OverloadedError, RaftlogError
from raftlog.model import Offset, TopicPartition
from raftlog.record import Record

_LETTERS = bytes(ord("A") + byte % 26 for byte in range(256))
_DISTINCT_BYTES = 8 << 20
"""Bytes of distinct values: more than a batch, or compression would look better than it is."""


def random_values(size: int, count: int) -> list[bytes]:
    """Return up to `count` values of random letters, of `_DISTINCT_BYTES` at most."""
    distinct = max(1, min(count, _DISTINCT_BYTES // max(1, size)))
    text = random.randbytes(size * distinct).translate(_LETTERS)  # noqa: S311  (it is a load)
    return [text[at : at + size] for at in range(0, size * distinct, size)] if size else [b""] * distinct


class Load:
    """The base of every load."""

    def __init__(self) -> None:
        self.records = 0
        """Acknowledged or read records."""
        self.latencies: list[float] = []
        self.began = self.ended = time.perf_counter()
        self.stopping = asyncio.Event()

    @property
    def seconds(self) -> float:
        return self.ended - self.began

    def forget(self) -> None:
        """Reset the counters at the end of the warmup."""
        self.records = 0
        self.latencies.clear()
        self.began = self.ended = time.perf_counter()


class Writing(Load):
    """A load that writes."""

    error: BaseException | None = None
    """The first error; it stops the run."""

    async def run(self, records: int) -> None:
        """Send `records` records and wait for their outcomes; stop early at `stop` or the first failure."""
        raise NotImplementedError

    @property
    def failed(self) -> int:
        """Return how many records are not in the log."""
        return 0

    @property
    def unknown(self) -> int:
        """Return how many records may be in the log."""
        raise NotImplementedError


class Throughput(Writing):
    """Calls `send_many`, several at once, each with the next values."""

    def __init__(self, producer: Producer, topic: str, values: Sequence[bytes], *, chunk: int, calls: int) -> None:
        super().__init__()
        self._producer = producer
        self._topic = topic
        self._values = values
        self._chunk = chunk
        self._calls = calls
        self._at = 0
        self._left = 0
        self._open = 0

    @property
    def unknown(self) -> int:
        """Return how many records belong to calls that failed or have not returned."""
        return self._open

    async def run(self, records: int) -> None:
        self._left = records
        await asyncio.gather(*(self._call() for _ in range(self._calls)))

    async def _call(self) -> None:
        while self._left > 0 and not self.stopping.is_set() and self.error is None:
            values = self._next()
            self._open += len(values)
            began = time.perf_counter()
            try:
                await self._producer.send_many(self._topic, values)
            except RaftlogError as error:
                self.error = self.error or error
                return
            self.ended = time.perf_counter()
            self._open -= len(values)
            self.records += len(values)
            self.latencies.append(self.ended - began)

    def _next(self) -> list[bytes]:
        count = min(self._chunk, self._left)
        self._left -= count
        values: list[bytes] = []
        while len(values) < count:
            taken = self._values[self._at : self._at + count - len(values)]
            self._at = (self._at + len(taken)) % len(self._values)
            values += taken
        return values


class Latency(Writing):
    """Sends one record after another, or at a fixed rate."""

    def __init__(self, producer: Producer, topic: str, values: Sequence[bytes], *, rate: float | None) -> None:
        super().__init__()
        self._producer = producer
        self._topic = topic
        self._values = values
        self._rate = rate
        self.deliveries = OutcomeCounter(max_pending=50_000)

    @property
    def failed(self) -> int:
        return self.deliveries.failed

    @property
    def unknown(self) -> int:
        return self.deliveries.unknown + self.deliveries.pending

    async def run(self, records: int) -> None:
        began = time.perf_counter()
        for number in range(records):
            due = time.perf_counter() if self._rate is None else began + number / self._rate
            await self._sleep_until(due)
            if self.stopping.is_set() or self.deliveries.error is not None:
                break
            await self._send(self._values[number % len(self._values)], due)
            if self._rate is None:
                await self._until_settled()
        await self._until_settled()
        self.error = self.deliveries.error

    async def _send(self, value: bytes, due: float) -> None:
        await self.deliveries.wait_for_room()
        while True:
            try:
                delivery = self._producer.send_nowait(self._topic, value)
                break
            except OverloadedError:
                if self.deliveries.pending == 0:
                    raise
                await self.deliveries.wait_for_change()
        delivery.add_done_callback(lambda done: self._settled(done, due))
        self.deliveries.track(delivery)

    def _settled(self, delivery: Delivery, due: float) -> None:
        if not delivery.cancelled() and delivery.exception() is None:
            self.ended = time.perf_counter()
            self.records += 1
            self.latencies.append(self.ended - due)

    async def _until_settled(self) -> None:
        while self.deliveries.pending:
            await self.deliveries.wait_for_change()

    async def _sleep_until(self, due: float) -> None:
        if (wait := due - time.perf_counter()) > 0:
            try:
                await asyncio.wait_for(self.stopping.wait(), wait)
            except TimeoutError:
                return


class Read(NamedTuple):
    """The result of one call for records."""

    records: int
    value_bytes: int


class Reading(Load):
    """A load that reads from the earliest offset, one call after another."""

    def __init__(self, consumer: Consumer, *, arrow: bool) -> None:
        super().__init__()
        self._consumer = consumer
        self._read = self._read_arrow if arrow else self._read_objects
        self._ends: dict[TopicPartition, Offset] = {}
        self.value_bytes = 0

    async def run(self, records: int | None, *, timeout_s: float) -> bool:
        """Read at least `records` records (None: all at the start of the run); return whether they arrived.

        Args:
            timeout_s: the longest time without records.
        """
        self._ends = self._ends or await self._consumer.end_offsets()
        silent_since = time.perf_counter()
        while not self.stopping.is_set():
            if self.records >= records if records is not None else self._at_end():
                return True
            began = time.perf_counter()
            left_ms = int(1000 * (silent_since + timeout_s - began))
            if left_ms <= 0:
                return False
            read = await self._read(min(left_ms, 1_000))
            if read.records:
                silent_since = self.ended = time.perf_counter()
                self.records += read.records
                self.value_bytes += read.value_bytes
                self.latencies.append(self.ended - began)
        return False

    def forget(self) -> None:
        super().forget()
        self.value_bytes = 0

    def _at_end(self) -> bool:
        return all(self._consumer.position(*partition) >= end for partition, end in self._ends.items())

    async def _read_objects(self, wait_ms: int) -> Read:
        records = await self._consumer.fetch(max_wait_ms=wait_ms)
        return Read(len(records), sum(map(_size, records)))

    async def _read_arrow(self, wait_ms: int) -> Read:
        table = await self._consumer.fetch_arrow(max_wait_ms=wait_ms)
        sizes = (pc.sum(pc.binary_length(table.column(name))).as_py() or 0 for name in ("key", "value"))
        return Read(table.num_rows, sum(sizes))


def _size(record: Record) -> int:
    return len(record.value or b"") + len(record.key or b"")
