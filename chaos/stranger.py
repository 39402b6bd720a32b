"""A process that attacks a cluster as unauthenticated clients, slow readers and broken programs do, until its deadline.

`python -m chaos.stranger SECONDS SEED public,... internal,...`: the attacks run side by side, at a pace that leaves the
machine to the clients that are measured. It prints how often each attack was begun, as JSON.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import orjson

from raftlog.model import Address
from raftlog.wire import paths
from raftlog.wire.kafka.framing import RequestHeader, encode_request
from raftlog.wire.kafka.messages.fetch import FetchPartition, FetchRequest, FetchTopic

PAUSE_S = 0.05
FROM = ("127.0.0.9", 0)
"""The attacks come from an address of their own."""
HELD = 150
"""Connections that each kind of attack keeps open at each broker."""
DEEP = b"[" * 990 + b"]" * 990
JSON_BODIES = (
    ("POST", "/v1/fetch", b"[" + b"[]," * 600_000 + b"0]"),
    ("POST", "/v1/fetch", b'{"partitions":[' + b'{"topic":"t","partition":0,"offset":0},' * 40_000 + b"0]}"),
    ("POST", "/v1/topics", b'{"topic":[' + b"1," * 500_000 + b"1]}"),
    ("POST", "/v1/topics", b'{"topic":' + DEEP + b"}"),
    ("POST", "/v1/topics/nothing/records", b'{"records":[' + b'{"value":1},' * 100_000 + b"0]}"),
    ("PATCH", "/v1/topics/__consumer_offsets", b'{"configs":{"retention_ms":1}}'),
    ("POST", "/v1/groups/strange/heartbeat", b'{"member_id":' + DEEP + b"}"),
    ("GET", "/v1/topics/nothing/partitions/0/offsets?at=-9223372036854775808", b""),
)
LARGE, LARGE_PARTITIONS = "large", 3
"""A topic whose partitions have more records than one Kafka Fetch returns."""
FETCH_BYTES = b"".join(
    encode_request(
        RequestHeader(1, 11, 0, None),
        FetchRequest(
            max_bytes=1 << 30,
            topics=[
                FetchTopic(
                    topic=LARGE,
                    partitions=[
                        FetchPartition(partition=number, partition_max_bytes=1 << 30)
                        for number in range(LARGE_PARTITIONS)
                    ],
                )
            ],
        ),
    )
)
PATTERNS = ("((((a{0}){1000}){1000}){1000}){1000}", "[\u0001-\U0010ffff]" * 3, "(a*)*b", "(" * 500)


class Stranger:
    """Attacks some brokers until `deadline`, by the loop's clock."""

    def __init__(self, public: list[Address], internal: list[Address], dice: random.Random, deadline: float) -> None:
        self.begun: Counter[str] = Counter()
        self._public, self._internal = public, internal
        self._dice = dice
        self._deadline = deadline

    async def run(self) -> None:
        """Run all attacks at once."""
        attacks: list[Callable[[], Awaitable[None]]] = [
            self.large_json,
            self.forged_requests,
            self.garbage,
            self.changes,
            self.patterns,
            self.wide_fetches,
        ]
        held = [self.idle, self.endless_head, self.endless_body, self.takes_nothing, self.takes_no_records]
        async with asyncio.TaskGroup() as group:
            for attack in attacks:
                group.create_task(self._again(attack))
            for keeps in held:
                for address in [*self._public, *self._internal]:
                    group.create_task(self._hold(keeps, address))

    async def _again(self, attack: Callable[[], Awaitable[None]]) -> None:
        while time.monotonic() < self._deadline:
            self.begun[attack.__name__] += 1
            with suppress(OSError, asyncio.IncompleteReadError, TimeoutError, ValueError):
                async with asyncio.timeout(10):
                    await attack()
            await asyncio.sleep(PAUSE_S)

    async def _hold(self, begin: Callable[[asyncio.StreamWriter], None], address: Address) -> None:
        """Keep connections with an unfinished request open; replace each one that the broker closes."""
        held: list[asyncio.StreamWriter] = []
        while time.monotonic() < self._deadline:
            held = [writer for writer in held if not writer.transport.is_closing()]
            if len(held) < HELD:
                with suppress(OSError):
                    reader, writer = await _connect(address)
                    self.begun[begin.__name__] += 1
                    begin(writer)
                    held.append(writer)
                    reader._transport.pause_reading()  # type: ignore[attr-defined]  # noqa: SLF001
            await asyncio.sleep(PAUSE_S / 10 if len(held) < HELD else PAUSE_S)
        for writer in held:
            writer.transport.abort()

    # Attacks that keep connections open.

    def idle(self, writer: asyncio.StreamWriter) -> None:
        """Send nothing."""

    def endless_head(self, writer: asyncio.StreamWriter) -> None:
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Never: ends")

    def endless_body(self, writer: asyncio.StreamWriter) -> None:
        path = self._dice.choice(["/v1/produce", "/v1/fetch", "/v1/topics", paths.REPLICA_FETCH])
        length = self._dice.choice(["Content-Length: 67108864", "Content-Length: 100000", "Transfer-Encoding: chunked"])
        writer.write(f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{length}\r\n\r\n".encode() + b"1\r\n{")

    def takes_nothing(self, writer: asyncio.StreamWriter) -> None:
        """Send requests, and read no answer."""
        writer.write(b"GET /v1/topics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20)

    def takes_no_records(self, writer: asyncio.StreamWriter) -> None:
        """Fetch records that a broker must unpack, and read none: they stay in its memory."""
        writer.write(FETCH_BYTES)

    # Attacks by requests.

    async def large_json(self) -> None:
        method, path, body = self._dice.choice(JSON_BODIES)
        await self._ask(self._dice.choice(self._public), method, path, body)

    async def wide_fetches(self) -> None:
        partitions = [{"topic": "nothing", "partition": number, "offset": 0} for number in range(9_000)]
        body = orjson.dumps({"partitions": partitions, "max_wait_ms": 1_000})
        await self._ask(self._dice.choice(self._public), "POST", "/v1/fetch", body)

    async def patterns(self) -> None:
        body = {"member_id": "stranger", "member_epoch": 0, "pattern": self._dice.choice(PATTERNS), "topics": []}
        address = self._dice.choice(self._public)
        await self._ask(address, "POST", "/v1/groups/strange/heartbeat", orjson.dumps(body))

    async def changes(self) -> None:
        """Request changes on many connections at once; most of them are refused."""
        address = self._dice.choice(self._public)
        asked = [
            self._ask(address, "PUT", "/v1/users/stranger", b'{"password":"long enough"}'),
            *(self._ask(address, "DELETE", "/v1/users/nobody", b"") for _ in range(30)),
        ]
        await asyncio.gather(*asked, return_exceptions=True)

    async def garbage(self) -> None:
        address = self._dice.choice([*self._public, *self._internal])
        reader, writer = await _connect(address)
        writer.write(self._dice.randbytes(self._dice.choice([1, 100, 10_000])) + b"\r\n\r\n")
        try:
            await reader.read(1_000)
        finally:
            writer.transport.abort()

    async def forged_requests(self) -> None:
        """Pretend to be a broker, a follower or a coordinator, with wrong numbers."""
        large = self._dice.choice([2**62, -1, 0, 10**9])
        marker = {"producer_id": -1, "producer_epoch": -1, "coordinator_epoch": 2**31 - 1, "committed": True}
        partition = {"topic_id": "0" * 32, "partition": 0, "leader_epoch": 0, "fetch_offset": large}
        fetch = {
            "broker_id": self._dice.choice([1, 2, 3, -7]),
            "broker_epoch": large,
            "session_id": 0,
            "session_epoch": 0,
            "partitions": [{**partition, "last_fetched_epoch": -1}],
        }
        forged = {
            paths.WRITE_MARKERS: {"marker": marker, "partitions": []},
            paths.REPLICA_FETCH: fetch,
            paths.REPAIR: {"topic_id": "0" * 32, "partition": 0, "offset": large},
        }
        path = self._dice.choice(sorted(forged))
        await self._ask(self._dice.choice(self._internal), "POST", path, orjson.dumps(forged[path]))

    async def _ask(self, address: Address, method: str, path: str, body: bytes) -> None:
        reader, writer = await _connect(address)
        try:
            head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            writer.write(f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
            while await reader.read(65_536):
                pass
        finally:
            writer.transport.abort()


async def _connect(address: Address) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection(address.host, address.port, limit=4_096, local_addr=FROM)


def _addresses(texts: str) -> list[Address]:
    return [Address.parse(text) for text in texts.split(",")]


def _yield_processors() -> None:
    """Take the lowest priority. Linux may weigh sessions first (autogroups), and processes only within one."""
    os.nice(19)
    autogroup = Path("/proc/self/autogroup")
    if autogroup.exists():
        autogroup.write_text("19")


async def main(seconds: float, seed: int, public: str, internal: str) -> None:
    """Attack, and print the counts."""
    _yield_processors()
    stranger = Stranger(_addresses(public), _addresses(internal), random.Random(seed), time.monotonic() + seconds)
    await stranger.run()
    sys.stdout.write(orjson.dumps(stranger.begun).decode() + "\n")


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]))
