"""A compacted topic in a simulated cluster: its clients, and the check of its keys in the end."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import raftlog
from chaos.history import Outcome, Send
from chaos.readers import has_read_to
from raftlog.errors import RaftlogError, UnknownOutcomeError
from raftlog.model import Isolation, Offset
from simulation.cluster.changes import TOPIC, Changes, sent_of, text_of
from simulation.cluster.loop import Process
from simulation.cluster.workload import padded

if TYPE_CHECKING:
    from simulation.cluster.ports import World

COMPACTED = 1 / 6
"""The share of worlds that have such a topic."""
TRANSACTIONAL = 0.5
"""The share of these worlds whose records are written in transactions."""
KEYS = 8
TOMBSTONES = 0.2
PAUSE_S = 0.08
BACKOFF_MS = 400
"""A broker's cleaner pauses so long between two runs: the default would be too long for a world."""
Record = tuple[Offset, str, str | None]
"""Its offset, its key, and its value; None: a tombstone."""


@dataclass(frozen=True)
class Compaction:
    """How a world's compacted topic is cleaned."""

    dirty_ratio: float
    delete_retention_ms: int
    transactional: bool = False

    @classmethod
    def drawn(cls, seed: int) -> Compaction | None:
        """Draw whether a world has it, and how, by dice of its own: other worlds do not change."""
        apart = random.Random(f"cleaning {seed}")  # noqa: S311  (a schedule, not a secret)
        if apart.random() >= COMPACTED:
            return None
        return cls(
            dirty_ratio=apart.choice((0.01, 0.3)),
            delete_retention_ms=apart.choice((500, 4_000)),
            transactional=apart.random() < TRANSACTIONAL,
        )

    @property
    def topic_configs(self) -> dict[str, str | int | float]:
        """The topic's settings; segments are so small that some are compacted within a run."""
        return {
            "cleanup_policy": "compact",
            "segment_bytes": 4_096,
            "min_cleanable_dirty_ratio": self.dirty_ratio,
            "delete_retention_ms": self.delete_retention_ms,
        }


class Keeper:
    """Writes one record after another, of a few keys, and reads them. Does nothing in a world without the topic.

    Transactional, it writes one transaction after another, and reads what is committed, and what is not.
    """

    def __init__(self, world: World) -> None:
        self.sends: list[Send] = []
        self._reads: list[list[Record]] = []
        """The records of each life of a reader."""
        self._committed_reads: list[list[Record]] = []
        """Those of a reader of committed records."""
        self._final: list[Record] = []
        self._world = world
        self.stopping = False
        self._number = 0
        self._changes = Changes(world, self)
        self._work: asyncio.Task[None] | None = None
        self._tails: list[asyncio.Task[None]] = []
        self._reading: dict[str, raftlog.Consumer] = {}

    @property
    def exist(self) -> bool:
        return self._world.settings.compaction is not None

    @property
    def compacted(self) -> int:
        """The number of acknowledged records that compaction removed."""
        return sum(send.outcome == "ok" for send in self.sends) - len(self._final) if self._final else 0

    def start(self) -> None:
        """Begin, once the topic exists."""
        if not self.exist:
            return
        self._dice = random.Random(self._world.dice.getrandbits(64))  # noqa: S311  (a schedule, not a secret)
        self._tail("keeper-tail", "10.0.15.2", self._reads)
        if self._transactional:
            self._tail("keeper-committed-tail", "10.0.15.4", self._committed_reads, "read_committed")
            self._work = asyncio.ensure_future(self._changes.run(self._dice))
        else:
            self._work = self._as_client(Process("keeper", "10.0.15.1"), self._produce())

    async def stop_writing(self) -> None:
        """Wait until the producer ends."""
        self.stopping = True
        if self._work is not None:
            await self._work

    def has_read_everything(self) -> bool:
        """Return whether no transaction is open, and every tail has read the topic."""
        leaders = self._world.leaders_of(TOPIC)
        ends = {partition: leader.log.log_end_offset for partition, leader in leaders.items()}
        decided = len(leaders) == 1 and all(
            one.last_stable_offset == one.log.log_end_offset for one in leaders.values()
        )
        read = all(has_read_to(consumer, ends) for consumer in self._reading.values())
        return decided and len(self._reading) == len(self._tails) and read

    async def stop(self) -> None:
        """End the tails, and read the remaining records."""
        for tail in self._tails:
            tail.cancel()
        await asyncio.gather(*self._tails, return_exceptions=True)
        await self._as_client(Process("keeper-reader", "10.0.15.3"), self._read_everything())

    def forget(self) -> None:
        """Drop all references."""
        self._work = None
        self._changes.forget()
        self._tails.clear()
        self._reading.clear()

    def judge(self) -> list[str]:
        """Return the broken promises."""
        if not self.exist:
            return []
        return [*wrong_in_the_end(self.sends, self._final), *self._wrong_reads()]

    @property
    def _transactional(self) -> bool:
        return bool(self._world.settings.compaction.transactional)

    def _as_client(self, process: Process, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return self._world.loop.create_task(work, context=process.context)

    def _tail(self, name: str, host: str, reads: list[list[Record]], isolation: Isolation = "read_uncommitted") -> None:
        work = self._read_in_lives(name, reads, isolation)
        self._tails.append(self._as_client(Process(name, host), work))

    def next_write(self) -> tuple[str, str | None]:
        """Return a key and its next value."""
        self._number += 1
        key = f"key-{self._dice.randrange(KEYS)}"
        return key, None if self._dice.random() < TOMBSTONES else padded(self._number)

    async def _produce(self) -> None:
        async with raftlog.Producer(
            self._world.bootstrap, linger_ms=0, delivery_timeout_ms=8_000, request_timeout_ms=2_000
        ) as producer:
            while not self.stopping:
                await self._send(producer, *self.next_write())
                await asyncio.sleep(self._dice.uniform(0, 2 * PAUSE_S))

    async def _send(self, producer: raftlog.Producer, key: str, value: str | None) -> None:
        invoked, offset = time.monotonic_ns(), -1
        outcome: Outcome = "ok"
        try:
            sent = await producer.send(TOPIC, None if value is None else value.encode(), key=key.encode(), partition=0)
            offset = sent.offset
        except UnknownOutcomeError:
            outcome = "info"
        except RaftlogError:
            outcome = "fail"
        self.sends.append(sent_of(key, value, invoked, offset, outcome))

    async def _read_in_lives(self, name: str, reads: list[list[Record]], isolation: Isolation) -> None:
        while True:
            reads.append([])
            try:
                async with raftlog.Consumer(
                    self._world.bootstrap, TOPIC, start="earliest", isolation=isolation
                ) as consumer:
                    self._reading[name] = consumer
                    async for record in consumer:
                        reads[-1].append(_seen(record))
            except RaftlogError as error:
                self._world.note(f"reader of {TOPIC}: {error.code.value}")
                await asyncio.sleep(0.2)

    async def _read_everything(self) -> None:
        isolation: Isolation = "read_committed" if self._transactional else "read_uncommitted"
        async with raftlog.Consumer(self._world.bootstrap, TOPIC, start="earliest", isolation=isolation) as consumer:
            ends = await consumer.end_offsets()
            while any(consumer.position(*partition) < end for partition, end in ends.items()):
                self._final += map(_seen, await consumer.fetch())

    def _wrong_reads(self) -> Iterator[str]:
        """Find readers that went back, and offsets that held two records."""
        held: dict[Offset, Record] = {}
        for life in (*self._reads, *self._committed_reads, self._final):
            last = -1
            for record in life:
                if record[0] <= last:
                    yield f"a reader read offset {record[0]} after {last}"
                last = record[0]
                if held.setdefault(record[0], record) != record:
                    yield f"offset {record[0]} held {held[record[0]]} and {record}"
        for send in self.sends:
            sent = (send.offset, send.process, None if send.value == text_of(None) else send.value)
            if send.outcome == "ok" and held.get(send.offset, sent) != sent:
                yield f"{sent} was acknowledged, and {held[send.offset]} was read"
        if self._transactional:
            yield from aborted_reads(
                self.sends, [record for life in (*self._committed_reads, self._final) for record in life]
            )


def wrong_in_the_end(sends: list[Send], final: list[Record]) -> Iterator[str]:
    """Find keys whose newest record is neither the last acknowledged one nor a later one of unknown outcome."""
    newest = {key: (offset, value) for offset, key, value in final}
    last = {send.process: send for send in sends if send.outcome == "ok"}
    doubtful = {(send.process, send.value) for send in sends if send.outcome == "info"}
    for key, send in last.items():
        offset, value = newest.get(key, (-1, None))
        if offset == send.offset and text_of(value) == send.value:
            continue
        if offset > send.offset and (key, text_of(value)) in doubtful:
            continue  # A later send of unknown outcome replaced it.
        if offset < 0 and (send.value == text_of(None) or (key, text_of(None)) in doubtful):
            continue  # The key was deleted, and its tombstone was compacted away.
        yield f"{key} is {value} at offset {offset}, and {send.value} was acknowledged last, at {send.offset}"


def aborted_reads(sends: list[Send], reads: list[Record]) -> Iterator[str]:
    """Find records of aborted transactions that a reader of committed records received."""
    aborted = [send for send in sends if send.outcome == "fail"]
    offsets, values = {send.offset for send in aborted}, {send.value for send in aborted} - {text_of(None)}
    for offset, key, value in reads:
        if offset in offsets or value in values:
            yield f"{value} of {key} at offset {offset} was read as committed, and its transaction was aborted"


def _seen(record: raftlog.Record) -> Record:
    value = record.value
    return record.offset, (record.key or b"").decode(), None if value is None else value.decode()
