"""Read everything back through a group of three consumers, one of which is killed; compare it with the source."""

from __future__ import annotations

import asyncio
import sys
import time
import zlib
from asyncio.subprocess import PIPE, Process
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson

import raftlog
from demo.flights import TOPIC, Flights

MEMBERS = 3
LINE_BYTES = 64 << 20
TIMEOUT_S = 180


@dataclass(frozen=True, slots=True)
class ReadbackResult:
    """The content of the log, and the work of the group."""

    records: int
    """Offsets at which a record was read, by any member and any number of times."""
    lost: int
    duplicated: int
    """Rows that are in the log more than once."""
    altered: int
    """Records whose bytes differ from the sent ones."""
    reordered: int
    """Records of a carrier that come before an earlier one."""
    processed_again: int
    """Records that were processed once more, because the killed member had not committed them."""
    committed_again: int
    """Those among them that had been committed: there must be none."""
    takeover_ms: float
    """From the kill until another member has processed records of every partition that the killed one had."""
    seconds: float
    by_carrier: dict[str, tuple[int, int]]


@dataclass(slots=True)
class _Log:
    """The records that the members reported as read."""

    flights: Flights
    rows: dict[tuple[int, int], int] = field(default_factory=dict)
    """By partition and offset."""
    altered: int = 0
    processed_again: int = 0
    committed_again: int = 0
    committed: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    figures: dict[str, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))
    reader: dict[int, int] = field(default_factory=dict)
    """By partition, the member that has read it last."""
    seen: Counter[int] = field(default_factory=Counter)
    """By partition, how many records."""

    def take(self, member: int, part: dict[str, Any]) -> int:
        """Add a member's processed records; return how many of them are new."""
        partition, new = part["partition"], 0
        self.reader[partition] = member
        columns = (part["offsets"], part["rows"], part["checksums"], part["carriers"], part["distances"])
        for offset, row, checksum, carrier, distance in zip(*columns, strict=True):
            if (partition, offset) in self.rows:
                self.processed_again += 1
                self.committed_again += offset < self.committed[partition]
                continue
            new += 1
            self.rows[partition, offset] = row
            self.seen[partition] += 1
            self.altered += checksum != zlib.crc32(self.flights.values[row], zlib.crc32(self.flights.keys[row]))
            self.figures[carrier][0] += 1
            self.figures[carrier][1] += distance
        return new

    def reordered(self) -> int:
        """Count records of a carrier that come before an earlier one: a carrier is in one partition."""
        last: dict[bytes, int] = {}
        wrong = 0
        for place in sorted(self.rows):
            row = self.rows[place]
            wrong += last.get(self.flights.keys[row], -1) > row
            last[self.flights.keys[row]] = row
        return wrong


class _Readback:
    def __init__(self, bootstrap: str, flights: Flights, progress: Callable[[int], None]) -> None:
        self._bootstrap = bootstrap
        self._progress = progress
        self.log = _Log(flights)
        self.killed_at = 0.0
        self._killed = -1
        self.takeover_ms = -1.0
        self._orphans: set[int] = set()

    async def run(self, sizes: Mapping[int, int]) -> None:
        """Let the members read so many records of each partition; kill the one at the end of the first third."""
        async with _members(self._bootstrap) as members:
            for process in members:
                assert (await _line(process))["joined"]
            for process in members:
                assert process.stdin is not None
                process.stdin.write(b"go\n")
            async with asyncio.timeout(TIMEOUT_S):
                await asyncio.gather(*(self._listen(number, members, sizes) for number in range(MEMBERS)))

    async def _listen(self, number: int, members: list[Process], sizes: Mapping[int, int]) -> None:
        output, total = members[number].stdout, sum(sizes.values())
        assert output is not None
        async for line in output:
            self._take(number, orjson.loads(line))
            if not self.killed_at and len(self.log.rows) >= total // 3:
                had = {partition for partition, member in self.log.reader.items() if member == number}
                self._orphans = {partition for partition in had if self.log.seen[partition] < sizes[partition]}
                self._killed, self.killed_at = number, time.perf_counter()
                members[number].kill()
            if len(self.log.rows) >= total and not self._orphans:
                for process in members:
                    if process.returncode is None:
                        process.terminate()

    def _take(self, number: int, said: dict[str, Any]) -> None:
        for partition, offset in said.get("committed", {}).items():
            self.log.committed[int(partition)] = max(self.log.committed[int(partition)], offset)
        for part in said.get("read", ()):
            self._progress(self.log.take(number, part))
            if self.killed_at and number != self._killed and part["partition"] in self._orphans:
                self._orphans.discard(part["partition"])
                self.takeover_ms = 1000 * (time.perf_counter() - self.killed_at)


@asynccontextmanager
async def _members(bootstrap: str) -> AsyncIterator[list[Process]]:
    command = (sys.executable, "-m", "demo.member", bootstrap)
    members = [
        await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, limit=LINE_BYTES)
        for _ in range(MEMBERS)
    ]
    try:
        yield members
    finally:
        for process in members:
            if process.returncode is None:
                process.kill()
            await process.wait()


async def _line(process: Process) -> dict[str, Any]:
    assert process.stdout is not None
    async with asyncio.timeout(TIMEOUT_S):
        return dict(orjson.loads(await process.stdout.readline()))


async def read_back(bootstrap: str, flights: Flights, *, progress: Callable[[int], None]) -> ReadbackResult:
    """Read the whole topic from the earliest offset to the high watermarks at the start."""
    started = time.perf_counter()
    async with raftlog.Consumer(bootstrap, TOPIC, start="earliest") as consumer:
        begins, ends = await consumer.beginning_offsets(), await consumer.end_offsets()
    readback = _Readback(bootstrap, flights, progress)
    await readback.run({partition.partition: end - begins[partition] for partition, end in ends.items()})
    log = readback.log
    copies = Counter(log.rows.values())
    return ReadbackResult(
        records=len(log.rows),
        lost=len(flights.values) - len(copies),
        duplicated=len(log.rows) - len(copies),
        altered=log.altered,
        reordered=log.reordered(),
        processed_again=log.processed_again,
        committed_again=log.committed_again,
        takeover_ms=readback.takeover_ms,
        seconds=time.perf_counter() - started,
        by_carrier={carrier: (count, miles) for carrier, (count, miles) in log.figures.items()},
    )
