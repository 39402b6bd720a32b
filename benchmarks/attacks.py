"""What hostile requests do to one broker: how they are answered, how long they hold its event loop, what they keep.

One broker and one controller. The attacks come from addresses of their own, one kind after another. Beside each,
another client at another address sends a record every 20 ms. For each attack the report tells

- how its requests were answered, by status;
- the longest turn of a node's event loop in ms; 0: none was longer than 50 ms of CPU time;
- how long the other client waited for its acknowledgements;
- by how many MB the broker grew, at most and 2 s after the attack.
"""

from __future__ import annotations

import asyncio
import os
import re
import resource
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import orjson

from benchmarks.clusters import running
from benchmarks.loads import memory_mb
from benchmarks.report import Bound, Effort, Figure
from chaos.stranger import DEEP, PATTERNS
from raftlog import Admin, Producer
from raftlog.cli.local_cluster import LocalCluster
from raftlog.model import Address
from raftlog.record.arrow import build_batch
from raftlog.record.model import NewRecord
from raftlog.serving.loop_watch import STALL_FILE
from raftlog.wire import media, paths

LONGEST_TURN_MS = 50.0
"""The longest that one request may hold an event loop."""
_OTHER, _HOSTILE = "127.0.0.2", ("127.0.0.9", "127.0.0.10")
_TOPIC, _LARGE, _OTHERS = "attacked", "large", "others"
_LARGE_MB = 60
_BEAT_S = 0.02
_ASK_S = 60.0
"""How long an attack waits for one answer."""
_SETTLE_S = 2.0


@dataclass(slots=True)
class Target:
    """The attacked cluster, and what its requests were answered."""

    cluster: LocalCluster
    public: Address
    internal: Address
    answers: Counter[str] = field(default_factory=Counter)

    async def ask(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        *,
        headers: dict[str, str] | None = None,
        internal: bool = False,
        kind: str = media.JSON,
    ) -> bytes:
        """Send one request on a connection of its own; count its answer, and return that."""
        address = self.internal if internal else self.public
        connector = aiohttp.TCPConnector(local_addr=(_HOSTILE[0], 0), force_close=True)
        try:
            async with (
                aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=_ASK_S)) as session,
                session.request(
                    method, f"http://{address}{path}", data=body, headers={"Content-Type": kind, **(headers or {})}
                ) as answer,
            ):
                said = await answer.read()
                self.answers[str(answer.status)] += 1
                return said
        except (aiohttp.ClientError, OSError) as error:
            self.answers[type(error).__name__] += 1
        except TimeoutError:
            self.answers[f"none in {_ASK_S:g} s"] += 1
        return b""

    @asynccontextmanager
    async def held(self, head: bytes, count: int, *, internal: bool = False) -> AsyncIterator[None]:
        """Hold connections that sent a beginning and read nothing, half of them from another address."""
        address = self.internal if internal else self.public
        writers = list[asyncio.StreamWriter]()
        try:
            for number in range(count):
                with suppress(OSError):
                    reader, writer = await asyncio.open_connection(
                        address.host, address.port, limit=4_096, local_addr=(_HOSTILE[number % 2], 0)
                    )
                    reader._transport.pause_reading()  # type: ignore[attr-defined]  # noqa: SLF001  (never reads)
                    writer.write(head)
                    writers.append(writer)
            yield
        finally:
            for writer in writers:
                writer.transport.abort()


Attack = Callable[[Target, Effort], Awaitable[None]]


async def patterns(target: Target, _: Effort) -> None:
    """Regular expressions of groups that cost much to compile, or that have very many characters (1)."""
    for pattern in (*PATTERNS, "[\u0001-\U0010ffff]" * 200):
        body = {"member_id": "hostile", "member_epoch": 0, "pattern": pattern, "topics": []}
        await target.ask("POST", "/v1/groups/hostile/heartbeat", orjson.dumps(body))


async def markers(target: Target, _: Effort) -> None:
    """Forged markers of transactions, with numbers that no log can hold (2)."""
    async with Admin(target.cluster.bootstrap) as admin:
        topic_id = (await admin.describe_topic(_TOPIC)).topic_id
    for numbers in ({"producer_id": -1, "producer_epoch": -1}, {"coordinator_epoch": 2**31 - 1}):
        known = {"producer_id": 77, "producer_epoch": 1, "coordinator_epoch": 0, "committed": True}
        forged = {"marker": known | numbers, "partitions": [{"topic": _TOPIC, "partition": 0, "topic_id": topic_id}]}
        await target.ask("POST", paths.WRITE_MARKERS, orjson.dumps(forged), internal=True)


async def idle_connections(target: Target, effort: Effort) -> None:
    """Connections that never send a byte, as many as this process may have; then a topic is created (3)."""
    async with target.held(b"", effort.pick(19_000, quick=3_000)):
        connector = aiohttp.TCPConnector(local_addr=(_OTHER, 0))
        async with aiohttp.ClientSession(connector=connector) as session:
            body = {"topic": f"created-{time.monotonic_ns()}", "partitions": 3, "replication_factor": 1}
            async with session.post(f"http://{target.public}/v1/topics", json=body) as answer:
                target.answers[f"topic created: {answer.status}"] += 1


async def slow_readers(target: Target, _: Effort) -> None:
    """48 sockets ask for 50 MB each and read nothing (4)."""
    partitions = [{"topic": _LARGE, "partition": 0, "offset": 0, "max_bytes": 50 << 20}]
    body = orjson.dumps({"partitions": partitions, "max_bytes": 50 << 20})
    async with target.held(_head("POST", "/v1/fetch", f"Content-Length: {len(body)}") + body, 48):
        await asyncio.sleep(5)


async def bodies_that_never_come(target: Target, _: Effort) -> None:
    """Chunked bodies without a chunk, 64 MiB announced, and 1,024 bodies of 2 bytes (5)."""
    lengths = ("Transfer-Encoding: chunked", "Content-Length: 67108864", "Content-Length: 2")
    async with (
        target.held(_head("POST", "/v1/produce", lengths[0]), 8),
        target.held(_head("POST", "/v1/produce", lengths[1]), 8),
        target.held(_head("POST", "/v1/produce", lengths[2]), 1_024),
    ):
        await asyncio.sleep(5)


async def users(target: Target, effort: Effort) -> None:
    """Requests that compute a password's hash, or ask a controller to remove an unknown user (6)."""
    password = b'{"password":"long enough to be one"}'
    puts = (target.ask("PUT", f"/v1/users/hostile-{number}", password) for number in range(40))
    deletes = (target.ask("DELETE", "/v1/users/nobody") for _ in range(effort.pick(300, quick=100)))
    await asyncio.gather(*puts, *deletes)


async def large_json(target: Target, _: Effort) -> None:
    """JSON of up to 60 MB: empty lists, partitions, a topic's name, records (7)."""
    many = b'{"partitions":[' + b",".join([b'{"topic":"t","partition":0,"offset":0}'] * 1_500_000) + b"]}"
    records = b'{"records":[' + b",".join([b'{"value":1}'] * 1_000_000) + b"]}"
    largest = 0
    for path, body in (
        ("/v1/fetch", b"[" + b"[]," * 20_000_000 + b"0]"),
        ("/v1/fetch", many),
        ("/v1/topics", b'{"topic":[' + b"1," * 30_000_000 + b"1]}"),
        (f"/v1/topics/{_TOPIC}/records", records),
        ("/v1/fetch", b"[" + b"[]," * 600_000 + b"0]"),
        ("/v1/fetch", b'{"partitions":[' + b'{"topic":"t","partition":0,"offset":0},' * 40_000 + b"0]}"),
    ):
        largest = max(largest, len(await target.ask("POST", path, body)))
    target.answers[f"largest answer: {largest} bytes"] += 1


async def many_json_records(target: Target, _: Effort) -> None:
    """20,000 records in one JSON body; then all of them, and 40 MB of a large topic, are asked for as JSON (7)."""
    records = b'{"records":[' + b",".join([b'{"value":1}'] * 20_000) + b"]}"
    await target.ask("POST", f"/v1/topics/{_TOPIC}/records", records)
    await target.ask("GET", f"/v1/topics/{_TOPIC}/partitions/0/records?offset=0&max_bytes=41943040")
    await target.ask("GET", f"/v1/topics/{_LARGE}/partitions/0/records?offset=0&max_bytes=41943040")


async def many_numbers(target: Target, _: Effort) -> None:
    """Records as JSON whose values, or the headers of one of them, are very many numbers; four of each at once (7)."""
    headers = orjson.dumps({"records": [{"value": 1, "headers": {str(number): 1 for number in range(180_000)}}]})
    records = b'{"records":[' + b",".join([b'{"value":1}'] * 20_000) + b"]}"
    path = f"/v1/topics/{_TOPIC}/records"
    await asyncio.gather(*(target.ask("POST", path, body) for body in (headers, records) * 4))


async def small_batch_of_much(target: Target, _: Effort) -> None:
    """A zstd batch of some kB that unpacks to 8 MB, read as JSON (7)."""
    packed = bytes(build_batch([NewRecord(value=bytes(10_000))] * 800, compression="zstd"))
    await target.ask("POST", f"/v1/topics/{_TOPIC}/partitions/1/batches", packed, kind=media.BATCHES)
    await target.ask("GET", f"/v1/topics/{_TOPIC}/partitions/1/records?offset=0&max_bytes=41943040")


async def wide_topic(target: Target, effort: Effort) -> None:
    """A topic of very many partitions, and fetches that wait for all of them (7; a change of it: 100 ms)."""
    count = effort.pick(10_000, quick=2_000)
    await target.ask("POST", "/v1/topics", orjson.dumps({"topic": "wide", "partitions": count}))
    partitions = [{"topic": "wide", "partition": number, "offset": 0} for number in range(count)]
    fetch = orjson.dumps({"partitions": partitions, "max_wait_ms": 2_000})
    await asyncio.gather(*(target.ask("POST", "/v1/fetch", fetch) for _ in range(8)))


async def bursts_of_changes(target: Target, effort: Effort) -> None:
    """Settings, deletions of records and topics of 20 partitions, one after another; then all topics go at once (7)."""
    count = effort.pick(200, quick=50)
    for number in range(count):
        settings = orjson.dumps({"configs": {"retention_ms": 10**9 + number}})
        await target.ask("PATCH", f"/v1/topics/{_TOPIC}", settings)
        before = orjson.dumps({"before_offset": number + 1})
        await target.ask("POST", f"/v1/topics/{_OTHERS}/partitions/0/delete-records", before)
        body = orjson.dumps({"topic": f"burst-{number}", "partitions": 20, "replication_factor": 1})
        await target.ask("POST", "/v1/topics", body)
    await asyncio.gather(*(target.ask("DELETE", f"/v1/topics/burst-{number}") for number in range(count)))


async def internal_heads(target: Target, _: Effort) -> None:
    """72 heads at the internal listener that announce 64 MiB (8)."""
    head = _head("POST", paths.REPLICA_FETCH, "Content-Length: 67108864")
    async with target.held(head + b"x" * 1_000, 72, internal=True):
        await asyncio.sleep(5)


async def odd_values(target: Target, _: Effort) -> None:
    """Deep JSON, 5,000 digits, digits of another script, odd times, settings of internal topics (8, 11, 13)."""
    for method, path, body in (
        ("POST", "/v1/topics", b'{"topic":' + DEEP + b"}"),
        ("PATCH", f"/v1/topics/{_TOPIC}", b'{"configs":{"retention_ms":"' + b"9" * 5_000 + b'"}}'),
        ("PATCH", f"/v1/topics/{_TOPIC}", '{"configs":{"retention_ms":"²"}}'.encode()),
        ("GET", f"/v1/topics/{_TOPIC}/partitions/0/offsets?at=-9223372036854775808", b""),
        ("PATCH", "/v1/topics/__consumer_offsets", b'{"configs":{"retention_ms":1}}'),
        ("POST", f"/v1/topics/{_TOPIC}/records", b'{"records":[{"value":"x","timestamp":%d}]}' % 2**62),
    ):
        await target.ask(method, path, body)


async def forged_followers(target: Target, _: Effort) -> None:
    """Fetches of a follower that is none, or that names a later epoch of its broker (9)."""
    for broker_id, epoch in ((1, 2**62), (2, 1), (-7, 0)):
        partition = {"topic_id": "0" * 32, "partition": 0, "leader_epoch": 0, "fetch_offset": 10**9}
        fetch = {
            "broker_id": broker_id,
            "broker_epoch": epoch,
            "session_id": 0,
            "session_epoch": 0,
            "partitions": [{**partition, "last_fetched_epoch": -1}],
        }
        await target.ask("POST", paths.REPLICA_FETCH, orjson.dumps(fetch), internal=True)


async def other_sites(target: Target, _: Effort) -> None:
    """What a browser sends for another site's page, and under a name that is not the broker's (16)."""
    chromium = {"User-Agent": "Mozilla/5.0"}
    for headers in (
        {"Sec-Fetch-Site": "cross-site", **chromium},
        {"Origin": "http://elsewhere.example", **chromium},
        {"Host": "elsewhere.example", "Sec-Fetch-Site": "same-origin", **chromium},
    ):
        body = b'{"topic":"forged","partitions":1}'
        await target.ask("POST", "/v1/topics", body, headers=headers, kind="text/plain")


ATTACKS: tuple[Attack, ...] = (
    patterns,
    markers,
    idle_connections,
    slow_readers,
    bodies_that_never_come,
    users,
    large_json,
    many_json_records,
    many_numbers,
    small_batch_of_much,
    bursts_of_changes,
    internal_heads,
    odd_values,
    forged_followers,
    other_sites,
    wide_topic,
)


def _head(method: str, path: str, length: str) -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {media.JSON}\r\n{length}\r\n\r\n".encode()


@dataclass(slots=True)
class Beside:
    """What another client, and the broker's memory, showed during an attack."""

    waits_ms: list[float] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    most_mb: float = 0.0


@asynccontextmanager
async def _beside(target: Target) -> AsyncIterator[Beside]:
    """Send a record every 20 ms from another address, and look at the broker's memory, until the block ends."""
    seen, pid = Beside(), target.cluster.pid("broker-1")
    assert pid is not None

    async def send_on(session: aiohttp.ClientSession) -> None:
        while True:
            began = time.monotonic()
            try:
                async with session.post(
                    f"http://{target.public}/v1/topics/{_OTHERS}/records", json={"records": [{"value": "x"}]}
                ) as answer:
                    if answer.status != 200:
                        seen.failures[str(answer.status)] += 1
            except aiohttp.ClientError as error:
                seen.failures[type(error).__name__] += 1
            seen.waits_ms.append((time.monotonic() - began) * 1e3)
            seen.most_mb = max(seen.most_mb, *memory_mb([pid]))
            await asyncio.sleep(_BEAT_S)

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(local_addr=(_OTHER, 0))) as session:
        sending = asyncio.create_task(send_on(session))
        try:
            yield seen
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)


def _stalls_ms(path: Path) -> list[float]:
    """Return the long turns of the nodes' event loops so far."""
    said = re.findall(r"^(\d+) ms, process (\d+)", path.read_text(), re.MULTILINE)
    return [float(ms) for ms, process in said if int(process) != os.getpid()]


async def _measured(target: Target, attack: Attack, effort: Effort, stalls: Path) -> list[Figure]:
    name, pid = attack.__name__, target.cluster.pid("broker-1")
    assert pid is not None
    target.answers = Counter()
    (before_mb,), earlier = memory_mb([pid]), len(_stalls_ms(stalls))
    async with _beside(target) as seen:
        await attack(target, effort)
        while not seen.waits_ms:
            await asyncio.sleep(_BEAT_S)
    await asyncio.sleep(_SETTLE_S)
    (after_mb,) = memory_mb([pid])
    turns = _stalls_ms(stalls)[earlier:]
    notes = {
        "answers": dict(target.answers),
        "what": (attack.__doc__ or "").strip(),
        "others_failed": dict(seen.failures),
    }
    limit = 2 * LONGEST_TURN_MS if attack is wide_topic else LONGEST_TURN_MS
    return [
        Figure(
            name=f"{name}_turn_ms",
            samples=turns or [0.0],
            bounds=(Bound(statistic="max", at_most=limit + 1),),
            notes=notes,
            better="less",
        ),
        Figure(name=f"{name}_others_wait_ms", samples=seen.waits_ms),
        Figure(name=f"{name}_grew_mb", samples=[seen.most_mb - before_mb, after_mb - before_mb]),
    ]


async def _attacked(cluster: LocalCluster, effort: Effort, stalls: Path) -> list[Figure]:
    node = cluster.node("broker-1")
    assert node.public is not None
    target, figures = Target(cluster, node.public, node.internal), list[Figure]()
    async with Admin(cluster.bootstrap) as admin, Producer(cluster.bootstrap) as producer:
        for topic, partitions in ((_TOPIC, 2), (_LARGE, 1), (_OTHERS, 1)):
            await admin.create_topic(topic, partitions=partitions, replication_factor=1)
        for _ in range(_LARGE_MB // 10):
            await producer.send_many(_LARGE, [b"v" * 1_000] * 10_000)
    for attack in ATTACKS:
        figures += await _measured(target, attack, effort, stalls)
    if (running_now := cluster.running()) != cluster.names:
        raise RuntimeError(f"nodes ended: only {running_now} of {cluster.names} are running")
    return figures


def attacks(effort: Effort) -> list[Figure]:
    """Every attack, one after another, at the same broker."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory(prefix="raftlog-attacks-") as folder:
        stalls = Path(folder) / "stalls.txt"
        stalls.touch()
        os.environ[STALL_FILE] = str(stalls)  # The nodes inherit it.
        try:
            with running(controllers=1, brokers=1) as cluster:
                return asyncio.run(_attacked(cluster, effort, stalls))
        finally:
            del os.environ[STALL_FILE]


FIGURES = {"attacks": attacks}
