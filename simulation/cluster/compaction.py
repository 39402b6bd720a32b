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
from raftlog.errors import RaftlogError, UnknownOutcomeError
from raftlog.model import Offset
from simulation.cluster.loop import Process
from simulation.cluster.workload import padded

if TYPE_CHECKING:
    from simulation.cluster.ports import World

TOPIC = "keys"
COMPACTED = 1 / 6
"""The share of worlds that have such a topic."""
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

    @classmethod
    def drawn(cls, seed: int) -> Compaction | None:
        """Draw whether a world has it, and how, by dice of its own: other worlds do not change."""
        apart = random.Random(f"cleaning {seed}")  # noqa: S311  (a schedule, not a secret)
        if apart.random() >= COMPACTED:
            return None
        return cls(dirty_ratio=apart.choice((0.01, 0.3)), delete_retention_ms=apart.choice((500, 4_000)))

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
    """Writes one record after another, of a few keys, and reads them. Does nothing in a world without the topic."""

    def __init__(self, world: World) -> None:
        self.sends: list[Send] = []
        self._reads: list[list[Record]] = []
        """The records of each life of the reader."""
        self._final: list[Record] = []
        self._world = world
        self._stopping = False
        self._work: asyncio.Task[None] | None = None
        self._tail: asyncio.Task[None] | None = None

    @property
    def exist(self) -> bool:
        return self._world.settings.compaction is not None

    @property
    def compacted(self) -> int:
        """The number of acknowledged records that compaction removed."""
        return sum(send.outcome == "ok" for send in self.sends) - len(self._final) if self._final else 0

    def start(self) -> None:
        """Begin, once the topic exists."""
        if self.exist:
            self._dice = random.Random(self._world.dice.getrandbits(64))  # noqa: S311  (a schedule, not a secret)
            self._work = self._as_client("keeper", "10.0.15.1", self._produce())
            self._tail = self._as_client("keeper-tail", "10.0.15.2", self._read_in_lives())

    async def stop(self) -> None:
        """Wait until the producer ends, and read the remaining records."""
        self._stopping = True
        if self._work is not None and self._tail is not None:
            await self._work
            self._tail.cancel()
            await asyncio.gather(self._tail, return_exceptions=True)
        await self._as_client("keeper-reader", "10.0.15.3", self._read_everything())

    def forget(self) -> None:
        """Drop all references."""
        self._work = self._tail = None

    def judge(self) -> list[str]:
        """Return the broken promises."""
        if not self.exist:
            return []
        return [*wrong_in_the_end(self.sends, self._final), *self._wrong_reads()]

    def _as_client(self, name: str, host: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return self._world.loop.create_task(work, context=Process(name, host).context)

    async def _produce(self) -> None:
        number = 0
        async with raftlog.Producer(
            self._world.bootstrap, linger_ms=0, delivery_timeout_ms=8_000, request_timeout_ms=2_000
        ) as producer:
            while not self._stopping:
                key = f"key-{self._dice.randrange(KEYS)}"
                value = None if self._dice.random() < TOMBSTONES else padded(number)
                await self._send(producer, key, value)
                number += 1
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
        self._note(key, value, invoked, offset, outcome)

    def _note(self, key: str, value: str | None, invoked_ns: int, offset: Offset, outcome: Outcome) -> None:
        self.sends.append(
            Send(
                process=key,
                partition=0,
                value=_text(value),
                invoked_ns=invoked_ns,
                completed_ns=time.monotonic_ns(),
                outcome=outcome,
                offset=offset,
            )
        )

    async def _read_in_lives(self) -> None:
        while True:
            self._reads.append([])
            try:
                async with raftlog.Consumer(self._world.bootstrap, TOPIC, start="earliest") as consumer:
                    async for record in consumer:
                        self._reads[-1].append(_seen(record))
            except RaftlogError as error:
                self._world.note(f"reader of {TOPIC}: {error.code.value}")
                await asyncio.sleep(0.2)

    async def _read_everything(self) -> None:
        async with raftlog.Consumer(self._world.bootstrap, TOPIC, start="earliest") as consumer:
            ends = await consumer.end_offsets()
            while any(consumer.position(*partition) < end for partition, end in ends.items()):
                self._final += map(_seen, await consumer.fetch())

    def _wrong_reads(self) -> Iterator[str]:
        """Find readers that went back, and offsets that held two records."""
        held: dict[Offset, Record] = {}
        for life in (*self._reads, self._final):
            last = -1
            for record in life:
                if record[0] <= last:
                    yield f"a reader read offset {record[0]} after {last}"
                last = record[0]
                if held.setdefault(record[0], record) != record:
                    yield f"offset {record[0]} held {held[record[0]]} and {record}"
        for send in self.sends:
            sent = (send.offset, send.process, None if send.value == _text(None) else send.value)
            if send.outcome == "ok" and held.get(send.offset, sent) != sent:
                yield f"{sent} was acknowledged, and {held[send.offset]} was read"


def wrong_in_the_end(sends: list[Send], final: list[Record]) -> Iterator[str]:
    """Find keys whose newest record is neither the last acknowledged one nor a later one of unknown outcome."""
    newest = {key: (offset, value) for offset, key, value in final}
    last = {send.process: send for send in sends if send.outcome == "ok"}
    doubtful = {(send.process, send.value) for send in sends if send.outcome == "info"}
    for key, send in last.items():
        offset, value = newest.get(key, (-1, None))
        if offset == send.offset and _text(value) == send.value:
            continue
        if offset > send.offset and (key, _text(value)) in doubtful:
            continue  # A later send of unknown outcome replaced it.
        if offset < 0 and (send.value == _text(None) or (key, _text(None)) in doubtful):
            continue  # The key was deleted, and its tombstone was compacted away.
        yield f"{key} is {value} at offset {offset}, and {send.value} was acknowledged last, at {send.offset}"


def _seen(record: raftlog.Record) -> Record:
    value = record.value
    return record.offset, (record.key or b"").decode(), None if value is None else value.decode()


def _text(value: str | None) -> str:
    return "a tombstone" if value is None else value
