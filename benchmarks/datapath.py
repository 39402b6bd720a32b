"""The data path: produce with three replicas, one record's latency, egress of one broker, appends that are synced.

Real processes, real clients. A figure that the machine limits is measured beside that limit, alternating with it within
the same minute: raw `sendfile` over loopback, raw `write` and `fdatasync`. Everything shares this machine's cores.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.clusters import running
from benchmarks.memory import REPLICAS, touched
from benchmarks.report import Bound, Effort, Figure, repeat
from raftlog.cli.local_cluster import LocalCluster
from raftlog.client import Admin, Producer
from raftlog.config import TopicConfig
from raftlog.model import Address
from raftlog.partition.storage.log import PartitionLog
from raftlog.record import NewRecord, build_batch, stamp
from raftlog.transport import HttpSession
from raftlog.wire import media, paths
from raftlog.wire.codec import encode_frame, encode_json
from raftlog.wire.data import FetchPartition, FetchRequest, ProducePartition, ProduceRequest, ProduceResponse
from raftlog.wire.http1 import encode_head

_MB = 1 << 20
_UNDER_WAY = 5
"""Batches of one partition in flight, as in our producer."""
_PATIENCE_MS = 60_000


async def _create(cluster: LocalCluster, topic: str, *, replicas: int, flush: str) -> None:
    async with Admin(cluster.bootstrap) as admin:
        await admin.create_topic(
            topic, partitions=1, replication_factor=replicas, configs={"flush": flush, "max_message_bytes": 8 * _MB}
        )


def _cpu_s(pid: int) -> float:
    """Return the CPU time of a process and all its threads: exact, unlike clock ticks."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9


def cluster_cpu_s(cluster: LocalCluster) -> float:
    return sum(_cpu_s(pid) for name in cluster.brokers if (pid := cluster.pid(name)) is not None)


def _batch(record_bytes: int, batch_bytes: int) -> bytes:
    records = [NewRecord(os.urandom(record_bytes), timestamp=time.time_ns() // 1_000)] * (batch_bytes // record_bytes)
    return bytes(build_batch(records))


async def _produce_batches(session: HttpSession, leader: Address, topic: str, batch: bytes, count: int) -> None:
    """Send a batch `count` times, some at once, each acknowledged by all replicas."""
    asked = ProducePartition(topic=topic, partition=0, length=len(batch))
    frame = encode_frame(ProduceRequest(timeout_ms=_PATIENCE_MS, partitions=(asked,)), [batch])
    left = iter(range(count))

    async def send() -> None:
        for _ in left:
            response = await session.call(
                ProduceResponse, "POST", leader, paths.PRODUCE,
                timeout_ms=_PATIENCE_MS, body=frame, content_type=media.FRAME,
            )  # fmt: skip
            assert response.partitions[0].error is None, response.partitions[0].error

    await asyncio.gather(*(send() for _ in range(_UNDER_WAY)))


async def _leader(cluster: LocalCluster, topic: str) -> Address:
    async with Admin(cluster.bootstrap) as admin:
        state = (await admin.describe_topic(topic)).partitions[0]
    return Address.parse(cluster.public_url(f"broker-{state.leader}").removeprefix("http://"))


async def _batches(cluster: LocalCluster, effort: Effort, flush: str) -> list[Figure]:
    figures, total = [], effort.pick(128, quick=16) * _MB
    async with HttpSession() as session:
        for record_bytes, batch_bytes in ((100, 256 << 10), (1_000, 256 << 10), (100, _MB), (1_000, _MB)):
            name = f"batches_{flush}_{record_bytes}b_{batch_bytes >> 10}kb"
            await _create(cluster, name, replicas=3, flush=flush)
            leader, batch = await _leader(cluster, name), _batch(record_bytes, batch_bytes)
            count, rates, costs = max(1, total // len(batch)), list[float](), list[float]()
            await _produce_batches(session, leader, name, batch, count // 4)
            for _ in repeat(effort.pick(5, quick=1), name):
                touched(REPLICAS * total).close()
                started, cpu = time.perf_counter(), cluster_cpu_s(cluster)
                await _produce_batches(session, leader, name, batch, count)
                rates.append(count * len(batch) / _MB / (time.perf_counter() - started))
                costs.append((cluster_cpu_s(cluster) - cpu) * 1e6 / (count * len(batch) / _MB))
            records = batch_bytes // record_bytes * _MB / len(batch)
            note = {  # Of the cheapest run: other processes of this machine slow all of them.
                "records_per_s": round(sorted(rates)[len(rates) // 2] * records),
                "cluster_cpu_us_per_mb": round(min(costs)),
            }
            figures.append(Figure(name=f"{name}_mb_per_s", samples=rates, notes=note))
    return figures


def batches(effort: Effort) -> list[Figure]:
    """Whole batches, three replicas, acks=all: the path alone, without a producer's work for each record."""
    figures = []
    for flush in ("os", "batch"):
        with running(controllers=1) as cluster:
            figures += asyncio.run(_batches(cluster, effort, flush))
    return figures


async def _produced(cluster: LocalCluster, effort: Effort) -> list[Figure]:
    figures, total = [], effort.pick(64, quick=8) * _MB
    for record_bytes, batch_bytes in ((100, 256 << 10), (1_000, 256 << 10), (100, _MB), (1_000, _MB)):
        name = f"produce_{record_bytes}b_{batch_bytes >> 10}kb"
        await _create(cluster, name, replicas=3, flush="os")
        rates, value = list[float](), os.urandom(record_bytes)
        async with Producer(cluster.bootstrap, batch_bytes=batch_bytes, linger_ms=20) as producer:
            for number in repeat(effort.pick(4, quick=2), name):
                touched(REPLICAS * total).close()
                started = time.perf_counter()
                await producer.send_many(name, [value] * (total // record_bytes))
                if number:  # The first one warms up.
                    rates.append(total // record_bytes / (time.perf_counter() - started))
        note = {"mb_per_s": round(sorted(rates)[len(rates) // 2] * record_bytes / _MB)}
        figures.append(Figure(name=f"{name}_records_per_s", samples=rates, notes=note))
    return figures


def produce(effort: Effort) -> list[Figure]:
    """Records by `send_many`, three replicas, acks=all: the producer's own work included."""
    with running(controllers=1) as cluster:
        return asyncio.run(_produced(cluster, effort))


async def _latencies(cluster: LocalCluster, effort: Effort, flush: str) -> Figure:
    name, times = f"latency_{flush}", list[float]()
    await _create(cluster, name, replicas=3, flush=flush)
    async with Producer(cluster.bootstrap, linger_ms=0) as producer:
        for number in repeat(effort.pick(3_000, quick=300), name):
            started = time.perf_counter()
            await producer.send(name, b"x" * 100)
            if number >= 100:
                times.append((time.perf_counter() - started) * 1_000)
    return Figure(name=f"{name}_ms", samples=times)


def latency(effort: Effort) -> list[Figure]:
    """One record of 100 B after another, three replicas, acks=all: until it is acknowledged."""
    with running(controllers=1) as cluster:
        return [asyncio.run(_latencies(cluster, effort, flush)) for flush in ("os", "batch")]


def _serve_raw(path: str, port: multiprocessing.Queue[int], chunk: int) -> None:
    """Send a file over and over, to one peer after another, as fast as the kernel can."""
    listening = socket.create_server(("127.0.0.1", 0))
    # As raftlog's are: where BBR paces, both would be half as fast.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
    port.put(listening.getsockname()[1])
    size = Path(path).stat().st_size
    with Path(path).open("rb") as file:
        while True:
            peer, _ = listening.accept()
            try:
                while True:
                    for start in range(0, size, chunk):
                        at, stop = start, min(start + chunk, size)
                        while at < stop:
                            at += os.sendfile(peer.fileno(), file.fileno(), at, stop - at)
            except OSError:
                peer.close()


@contextmanager
def _raw_server(path: Path, chunk: int) -> Iterator[tuple[int, int]]:
    """Run the server; return its port and process id."""
    context = multiprocessing.get_context("spawn")
    port: multiprocessing.Queue[int] = context.Queue()
    process = context.Process(target=_serve_raw, args=(str(path), port, chunk), daemon=True)
    process.start()
    try:
        yield port.get(timeout=30), process.pid or 0
    finally:
        process.kill()
        process.join()


def _receive(peer: socket.socket, buffer: memoryview, length: int) -> None:
    while length:
        received = peer.recv_into(buffer[: min(length, len(buffer))])
        assert received, "the broker closed the connection"
        length -= received


def _read_answer(peer: socket.socket, buffer: memoryview) -> int:
    """Read one answer to its end; return the length of its body."""
    held = 0
    while (end := bytes(buffer[:held]).find(b"\r\n\r\n")) < 0:
        held += peer.recv_into(buffer[held : held + 4096])
    fields = bytes(buffer[:end]).decode().lower().split("\r\n")
    assert " 200 " in fields[0], fields
    (length,) = (int(line.split(":")[1]) for line in fields if line.startswith("content-length"))
    here = held - end - 4
    assert here <= length, f"a short answer: {bytes(buffer[end + 4 : end + 4 + length])!r}"
    _receive(peer, buffer, length - here)
    return length


def _request(path: str, form: str, body: bytes, *, general: bool = False) -> bytes:
    """Return a request. `general`: with a field that the lean path does not support, so that aiohttp answers it."""
    fields = [("Host", "x"), ("Content-Type", form), ("Content-Length", str(len(body)))]
    return encode_head(f"POST {path} HTTP/1.1", [*fields, *([("X-General", "1")] if general else [])]) + body


def _fetches(topic: str, offsets: list[int], max_bytes: int) -> list[bytes]:
    requests = []
    for offset in offsets:
        part = FetchPartition(topic=topic, partition=0, offset=offset, max_bytes=max_bytes, check_crcs=False)
        body = encode_json(FetchRequest(partitions=(part,), max_wait_ms=0, max_bytes=max_bytes))
        requests.append(_request(paths.FETCH, media.JSON, body))
    return requests


def _drain_broker(address: Address, requests: list[bytes], rounds: int, buffer: memoryview) -> int:
    """Fetch, with one request always waiting behind the one that is answered; return the received bytes."""
    total, wanted = 0, requests * rounds
    with socket.create_connection((address.host, address.port)) as peer:
        peer.sendall(wanted[0])
        for following in [*wanted[1:], b""]:
            peer.sendall(following)
            total += _read_answer(peer, buffer)
    return total


_EGRESS = ((64 << 10, _MB), (256 << 10, _MB), (_MB, _MB), (256 << 10, 4 * _MB), (_MB, 4 * _MB))
"""Bytes of a batch, and of a fetch: a `Consumer` requests 4 MB of one partition at once."""


def egress(effort: Effort) -> list[Figure]:
    """One broker sends its log to requests like our clients', and the reader drops the bytes; beside raw `sendfile`."""
    size = effort.pick(128, quick=32) * _MB
    figures = []
    buffer = memoryview(bytearray(5 * _MB))
    with running(controllers=1, brokers=1) as cluster, tempfile.TemporaryDirectory(dir="build") as folder:
        pid = cluster.pid("broker-1")
        assert pid is not None
        for batch_bytes, fetch_bytes in _EGRESS:
            name = f"egress_{batch_bytes >> 10}kb_in_{fetch_bytes // _MB}mb"
            batch = _batch(1_000, batch_bytes)
            asyncio.run(_fill(cluster, name, batch, size // len(batch)))
            per_fetch = max(1, fetch_bytes // len(batch))
            records = batch_bytes // 1_000
            offsets = [n * records for n in range(0, size // len(batch) - per_fetch, per_fetch)]
            requests = _fetches(name, offsets, per_fetch * len(batch))
            path = Path(folder) / name
            path.write_bytes(batch * (size // len(batch)))
            address = Address.parse(cluster.public_url("broker-1").removeprefix("http://"))
            with _raw_server(path, per_fetch * len(batch)) as (port, raw_pid):
                figures += _egress(effort, name, (address, requests, pid), (port, size, raw_pid), buffer)
    return figures


def _egress(
    effort: Effort,
    name: str,
    ours: tuple[Address, list[bytes], int],
    raw: tuple[int, int, int],
    buffer: memoryview,
) -> list[Figure]:
    (address, requests, pid), (port, size, raw_pid) = ours, raw
    rates, raw_rates, ratios, costs, raw_costs = (list[float]() for _ in range(5))
    rounds = effort.pick(6, quick=2)
    for number in repeat(effort.pick(9, quick=3), name):
        started, cpu = time.perf_counter(), _cpu_s(pid)
        mb = _drain_broker(address, requests, rounds, buffer) / _MB
        rate, cost = mb / (time.perf_counter() - started), (_cpu_s(pid) - cpu) * 1e6 / mb
        with socket.create_connection(("127.0.0.1", port)) as peer:
            started, cpu = time.perf_counter(), _cpu_s(raw_pid)
            for _ in range(rounds):
                _receive(peer, buffer, size)
            raw_rate = rounds * size / _MB / (time.perf_counter() - started)
            raw_cost = (_cpu_s(raw_pid) - cpu) * 1e6 / (rounds * size / _MB)
        if number:  # The first one warms up.
            for samples, value in zip(
                (rates, raw_rates, ratios, costs, raw_costs),
                (rate, raw_rate, rate / raw_rate, cost, raw_cost),
                strict=True,
            ):
                samples.append(value)
    bounds = (Bound(statistic="median", at_least=0.7),) if name.endswith("_in_4mb") else ()
    return [
        Figure(name=f"{name}_share_of_sendfile", samples=ratios, bounds=bounds),
        Figure(name=f"{name}_mb_per_s", samples=rates),
        Figure(name=f"{name}_sendfile_mb_per_s", samples=raw_rates),
        Figure(name=f"{name}_cpu_us_per_mb", samples=costs),
        Figure(name=f"{name}_sendfile_cpu_us_per_mb", samples=raw_costs),
    ]


def _asked(address: Address, pid: int, request: bytes, count: int, buffer: memoryview) -> tuple[float, float]:
    """Send a request again and again over one connection; return seconds and the broker's CPU seconds for each."""
    with socket.create_connection((address.host, address.port)) as peer:
        for number in range(count + 1):
            if number == 1:  # The first one warms up, and chooses the path.
                started, cpu = time.perf_counter(), _cpu_s(pid)
            peer.sendall(request)
            _read_answer(peer, buffer)
        return (time.perf_counter() - started) / count, (_cpu_s(pid) - cpu) / count


def by_path(effort: Effort) -> list[Figure]:
    """Alternate the same request to a broker between the lean path and aiohttp's: the cost of the path itself."""
    figures, buffer = [], memoryview(bytearray(4 * _MB))
    with running(controllers=1, brokers=1) as cluster:
        pid = cluster.pid("broker-1")
        assert pid is not None
        address = Address.parse(cluster.public_url("broker-1").removeprefix("http://"))
        asyncio.run(_create(cluster, "paths", replicas=1, flush="os"))
        for name, count in (
            ("produce_1_record", 200),
            ("produce_1_mb", 16),
            ("fetch_1_mb", 16),
            ("fetch_nothing", 200),
        ):
            if name.startswith("produce"):
                batch = _batch(100, 100 if name.endswith("record") else _MB)
                part = ProducePartition(topic="paths", partition=0, length=len(batch))
                body, path, form = (
                    b"".join(encode_frame(ProduceRequest(partitions=(part,)), [batch])),
                    paths.PRODUCE,
                    media.FRAME,
                )
            else:
                # Records of the run before: the log begins with single ones, large batches follow.
                at = 1 << 40 if name.endswith("nothing") else 100_000
                wanted = FetchPartition(topic="paths", partition=0, offset=at, max_bytes=_MB)
                body, path, form = (
                    encode_json(FetchRequest(partitions=(wanted,), max_wait_ms=0)),
                    paths.FETCH,
                    media.JSON,
                )
            samples: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
            for number in repeat(effort.pick(15, quick=4), name):
                for general in (False, True):
                    request = _request(path, form, body, general=general)
                    measured = _asked(address, pid, request, effort.pick(count, quick=count // 2), buffer)
                    if number:
                        samples[general].append(measured)
            ratios = [general[1] / lean[1] for lean, general in zip(samples[False], samples[True], strict=True)]
            figures += [
                Figure(name=f"{name}_lean_cpu_us", samples=[cpu * 1e6 for _, cpu in samples[False]]),
                Figure(name=f"{name}_aiohttp_cpu_us", samples=[cpu * 1e6 for _, cpu in samples[True]]),
                Figure(
                    name=f"{name}_aiohttp_over_lean", samples=ratios, bounds=(Bound(statistic="median", at_least=1.0),)
                ),
            ]
    return figures


async def _fill(cluster: LocalCluster, topic: str, batch: bytes, count: int) -> None:
    await _create(cluster, topic, replicas=1, flush="os")
    async with HttpSession() as session:
        await _produce_batches(session, await _leader(cluster, topic), topic, batch, count)


def append(effort: Effort) -> list[Figure]:
    """Appends to a log, each synced, against writes and syncs of the same size to a file beside it."""
    figures = []
    with tempfile.TemporaryDirectory(dir="build") as folder:
        for batch_bytes in (1_000, 64 << 10, _MB):
            name = f"append_{batch_bytes >> 10}kb"
            batch = bytearray(_batch(1_000, batch_bytes))
            log = PartitionLog.open(Path(folder) / name, TopicConfig())
            raw = os.open(Path(folder) / f"{name}.raw", os.O_RDWR | os.O_CREAT)
            times, raw_times, at = list[float](), list[float](), 0
            for number in repeat(effort.pick(400, quick=60), name):
                started = time.perf_counter()
                stamp(batch, base_offset=log.log_end_offset, leader_epoch=0)
                log.append(batch)
                log.fsync()
                took = time.perf_counter() - started
                started = time.perf_counter()
                os.pwrite(raw, batch, at)
                os.fdatasync(raw)
                raw_took, at = time.perf_counter() - started, at + len(batch)
                if number >= 10:
                    times.append(took * 1_000)
                    raw_times.append(raw_took * 1_000)
            os.close(raw)
            log.close()
            share = sum(sorted(raw_times)[: len(raw_times) // 2]) / sum(sorted(times)[: len(times) // 2])
            bounds = (Bound(statistic="median", at_least=0.7),)
            figures += [
                Figure(name=f"{name}_share_of_raw", samples=[share], bounds=bounds),
                Figure(name=f"{name}_ms", samples=times),
                Figure(name=f"{name}_raw_ms", samples=raw_times),
            ]
    return figures


FIGURES = {
    "by_path": by_path,
    "batches": batches,
    "produce": produce,
    "latency": latency,
    "egress": egress,
    "append": append,
}
