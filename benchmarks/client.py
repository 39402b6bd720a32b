"""The cost of the client itself, without a cluster.

A stub replaces the HTTP session, and answers at once: no socket, no HTTP, no broker. Everything above it is the real
client: queues, batches, Arrow, checksums, JSON heads, futures. Rates are by CPU time of this process, so that a busy
machine changes them less; the stub's own work counts against the client.
"""

from __future__ import annotations

import asyncio
import resource
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import repeat as again
from types import SimpleNamespace
from typing import Any
from unittest import mock

from benchmarks.report import Bound, Effort, Figure, repeat
from raftlog import transport
from raftlog.client import Consumer, Producer
from raftlog.model import Address
from raftlog.record import NewRecord, build_batch, iter_batches, stamp
from raftlog.transport import HttpSession
from raftlog.wire import paths
from raftlog.wire.codec import decode_frame, decode_json, encode_frame, encode_json
from raftlog.wire.data import (
    FetchRequest,
    FetchResponse,
    FetchResult,
    OffsetResponse,
    ProduceRequest,
    ProduceResponse,
    ProduceResult,
    ProducerIdResponse,
)
from raftlog.wire.metadata import BrokerInfo, ClientMetadata, PartitionInfo, TopicInfo

TOPIC, PARTITIONS, VALUE = "measured", 3, b"x" * 100
BATCH_RECORDS, BATCHES = 2_000, 60
"""Of the log that the stub serves, for each partition."""
ANSWER_BATCHES = 15
PARTITION_RECORDS = BATCH_RECORDS * BATCHES
LOG_RECORDS = PARTITIONS * PARTITION_RECORDS
IMPORTS = {
    "import_raftlog_ms": "import raftlog",
    "import_client_ms": "from raftlog import Admin, Consumer, Producer",
    "import_with_first_use_ms": "from raftlog import Admin, Consumer, Producer; import raftlog.record.arrow, aiohttp",
}


class StubSession(HttpSession):
    """Answers as a cluster of one broker would: accepts every batch, and serves one log for each partition."""

    def __init__(self) -> None:
        super().__init__()
        self.records = 0
        self._log = [_batch(number * BATCH_RECORDS) for number in range(BATCHES)]
        self._answers: dict[bytes, bytes] = {}

    async def request(self, method: str, address: Address, path: str, **request: Any) -> Any:  # noqa: ARG002
        """Answer one request."""
        await asyncio.sleep(0)
        if path == paths.PRODUCE:
            content = self._produce(b"".join(request["body"]))
        elif path == paths.FETCH:
            body = request["body"]
            content = self._answers.get(body) or self._answers.setdefault(body, self._fetch(body))
            if len(content) < 1_000:
                await asyncio.sleep(0.1)  # No records: a broker parks the request.
        elif path == paths.PRODUCERS:
            content = encode_json(ProducerIdResponse(producer_id=1))
        elif path in _OFFSETS:
            content = encode_json(OffsetResponse(topic=TOPIC, partition=0, offset=0))
        else:
            content = encode_json(_METADATA)
        return SimpleNamespace(status=200, body=content)

    def _produce(self, body: bytes) -> bytes:
        head, batches = decode_frame(ProduceRequest, body)
        self.records += sum(header.record_count for header, _ in iter_batches(batches))
        results = (ProduceResult(topic=p.topic, partition=p.partition, base_offset=0) for p in head.partitions)
        return encode_json(ProduceResponse(partitions=tuple(results)))

    def _fetch(self, body: bytes) -> bytes:
        wanted = decode_json(FetchRequest, body).partitions
        first = [part.offset // BATCH_RECORDS for part in wanted]
        parts = [b"".join(self._log[at : at + ANSWER_BATCHES]) for at in first]
        results = tuple(
            FetchResult(topic=p.topic, partition=p.partition, length=len(part), high_watermark=PARTITION_RECORDS)
            for p, part in zip(wanted, parts, strict=True)
        )
        return b"".join(encode_frame(FetchResponse(partitions=results), parts))


_OFFSETS = {paths.fill(paths.OFFSETS, topic=TOPIC, partition=number) for number in range(PARTITIONS)}
_METADATA = ClientMetadata(
    cluster_id="stub",
    metadata_offset=0,
    brokers=(BrokerInfo(broker_id=1, url="http://stub:1"),),
    topics=(
        TopicInfo(
            topic=TOPIC,
            topic_id="0" * 32,
            partitions=tuple(
                PartitionInfo(partition=number, leader=1, leader_epoch=0, replicas=(1,), isr=(1,))
                for number in range(PARTITIONS)
            ),
        ),
    ),
)


def _batch(base_offset: int) -> bytes:
    batch = build_batch([NewRecord(VALUE, timestamp=1_700_000_000_000_000)] * BATCH_RECORDS)
    stamp(batch, base_offset=base_offset, leader_epoch=0)
    return bytes(batch)


@asynccontextmanager
async def _producing(stub: StubSession) -> AsyncIterator[Producer]:
    with mock.patch.object(transport, "HttpSession", return_value=stub):
        producer = Producer("http://stub:1")
    async with producer:
        await producer.send(TOPIC, VALUE)
        yield producer


@asynccontextmanager
async def _consuming(stub: StubSession) -> AsyncIterator[Consumer]:
    with mock.patch.object(transport, "HttpSession", return_value=stub):
        consumer = Consumer("http://stub:1", TOPIC, start="earliest")
    async with consumer:
        for number in range(PARTITIONS):
            await consumer.seek(TOPIC, number, 0)
        yield consumer


async def _send_many(stub: StubSession, count: int) -> float:
    values = [VALUE] * count
    async with _producing(stub) as producer:
        started = time.process_time()
        await producer.send_many(TOPIC, values)
        return time.process_time() - started


async def _send_nowait(stub: StubSession, count: int) -> float:
    """Queue records, yield to the event loop now and then, and wait until all are acknowledged."""
    async with _producing(stub) as producer:
        started = time.process_time()
        for number in range(count):
            producer.send_nowait(TOPIC, VALUE)
            if number % 1_000 == 0:
                await asyncio.sleep(0)
        await producer.flush()
        return time.process_time() - started


async def _queue_nowait(stub: StubSession, count: int) -> float:
    """Only queue them."""
    async with _producing(stub) as producer:
        started = time.process_time()
        for _ in again(None, count):
            producer.send_nowait(TOPIC, VALUE)
        return time.process_time() - started


async def _fetch(stub: StubSession, count: int) -> float:
    async with _consuming(stub) as consumer:
        started, left = time.process_time(), count
        while left:
            left -= len(await consumer.fetch())
        return time.process_time() - started


async def _iterate(stub: StubSession, count: int) -> float:
    async with _consuming(stub) as consumer:
        started, left = time.process_time(), count
        async for _ in consumer:
            left -= 1
            if not left:
                break
        return time.process_time() - started


async def _fetch_arrow(stub: StubSession, count: int) -> float:
    async with _consuming(stub) as consumer:
        started = time.process_time()
        for _ in range(count // LOG_RECORDS):
            await consumer.seek_to("earliest")
            left = LOG_RECORDS
            while left:
                left -= (await consumer.fetch_arrow()).num_rows
        return time.process_time() - started


def _rate(
    name: str, measure: Callable[[StubSession, int], Awaitable[float]], effort: Effort, *, count: int, least: float = 0
) -> Figure:
    """Return records per second of CPU time; the first run only warms up."""
    stub = StubSession()

    async def run() -> float:
        return count / await measure(stub, count)

    samples = [asyncio.run(run()) for _ in repeat(effort.pick(11, quick=3), name)][1:]
    bounds = (Bound(statistic="median", at_least=least),) if least else ()
    return Figure(name=name, samples=samples, bounds=bounds, notes={"records": count})


def produce(effort: Effort) -> list[Figure]:
    """Measure records of 100 bytes: built, queued, encoded, sent to the stub and acknowledged."""
    count = effort.pick(200_000, quick=20_000)
    return [
        _rate("send_many_per_s", _send_many, effort, count=count, least=1_000_000),
        _rate("queue_nowait_per_s", _queue_nowait, effort, count=count, least=250_000),
        _rate("send_nowait_per_s", _send_nowait, effort, count=count),
    ]


def consume(effort: Effort) -> list[Figure]:
    """Measure records of 100 bytes: fetched from the stub, both checksums checked, and decoded."""
    return [
        _rate("consume_objects_per_s", _fetch, effort, count=LOG_RECORDS, least=1_500_000),
        _rate("consume_iterating_per_s", _iterate, effort, count=LOG_RECORDS, least=600_000),
        _rate("consume_arrow_per_s", _fetch_arrow, effort, count=5 * LOG_RECORDS, least=20_000_000),
    ]


def imports(effort: Effort) -> list[Figure]:
    """Measure a whole process that imports something, by its CPU time; `python_ms` is one that does nothing."""
    times = effort.pick(20, quick=3)
    figures = [_process("python_ms", "pass", times)]
    for name, code in IMPORTS.items():
        figure = _process(name, code, times)
        figure.bounds = () if "first_use" in name else (Bound(statistic="median", at_most=300.0),)
        figures.append(figure)
    return figures


def _process(name: str, code: str, times: int) -> Figure:
    samples, wall = [], []
    for _ in repeat(times, name):
        used, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
        wall.append(1000 * (time.perf_counter() - started))
        now = resource.getrusage(resource.RUSAGE_CHILDREN)
        samples.append(1000 * (now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime))
    return Figure(name=name, samples=samples, notes={"wall_ms_min": round(min(wall), 1)})


FIGURES = {"produce": produce, "consume": consume, "imports": imports}
