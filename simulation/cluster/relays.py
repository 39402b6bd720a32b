"""Exactly once from topic to topic in a simulated cluster: results and read offsets in one transaction.

The processes run the loop of `examples/exactly_once.py`, which users copy. They share a consumer group; each keeps its
transactional id for all of its lives. They stop, sleep, are killed, or run on beside their successors.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import raftlog
from examples.exactly_once import relay
from raftlog.errors import RaftlogError, TransactionInDoubtError
from simulation.cluster.loop import Process
from simulation.cluster.numbers import write_numbers

if TYPE_CHECKING:
    from simulation.cluster.ports import World

SOURCE, TARGET, GROUP, PARTITIONS = "relay-in", "relay-out", "relays", 2
RELAYS = 1 / 6
"""The share of worlds that have relays."""
LIFE_S = (1.0, 8.0)
ABSENCE_S = (0.0, 2.0)
"""The pause between two lives of a relay."""
NAP_S = (0.5, 6.0)
PAUSE_S = 0.15
LOOK_S = 0.5
STOP_S = 30.0
"""The longest time from a relay's cancellation to its end: its clients leave the group and abort the transaction."""


@dataclass(frozen=True)
class Staff:
    """The number of relays, and the settings of their clients."""

    relays: int
    session_timeout_ms: int
    transaction_timeout_ms: int

    @classmethod
    def drawn(cls, seed: int) -> Staff | None:
        """Draw whether a world has relays, and which, by dice of its own: other worlds do not change."""
        apart = random.Random(f"who relays in {seed}")  # noqa: S311  (a schedule, not a secret)
        if apart.random() >= RELAYS:
            return None
        return cls(
            relays=apart.choice((1, 2, 3)),
            session_timeout_ms=apart.choice((2_000, 6_000)),
            transaction_timeout_ms=apart.choice((1_500, 10_000)),
        )


def label(record: raftlog.Record) -> bytes:
    """Return the result for a record: its place."""
    return b"%d-%d" % (record.partition, record.offset)


def wrong_results(source: Collection[bytes], results: Collection[bytes]) -> Iterator[str]:
    """Yield each place of the source without exactly one result, and each result without a place."""
    found = Counter(results)
    for place in source:
        if found[place] != 1:
            yield f"{place.decode()} has {found[place]} results"
    for extra in sorted(found.keys() - set(source)):
        yield f"{extra.decode()} is a result of nothing"


class Relays:
    """A world's relays, and the producers of their source. Does nothing, and draws nothing, in a world without them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._stopping = False
        self._written = [0] * PARTITIONS
        """By partition, the offset below which every record was acknowledged; in the end, that of its log's end."""
        self._committed = [0] * PARTITIONS
        self._source: list[bytes] = []
        self._results: list[bytes] = []
        self._processes = 0
        self._work: list[asyncio.Task[None]] = []
        self._lives: list[asyncio.Task[None]] = []
        self._running: dict[asyncio.Task[None], Process] = {}
        self._watching: asyncio.Task[None] | None = None

    @property
    def exist(self) -> bool:
        return self._world.settings.staff is not None

    @property
    def results(self) -> int:
        """The number of results in the end."""
        return len(self._results)

    def start(self) -> None:
        """Begin, once the topics exist."""
        staff = self._world.settings.staff
        if staff is None:
            return
        self._dice = random.Random(self._world.dice.getrandbits(64))  # noqa: S311  (a schedule, not a secret)
        writer = self._process("relay-writer")
        self._work += [self._as(writer, self._write(number)) for number in range(PARTITIONS)]
        self._lives = [asyncio.ensure_future(self._live(staff, f"relay-{n}")) for n in range(staff.relays)]
        self._watching = self._as(self._process("relay-watcher"), self._watch())

    def has_relayed_everything(self) -> bool:
        """Return whether the offsets of every acknowledged record are committed."""
        return all(done >= end for done, end in zip(self._committed, self._written, strict=True))

    def all_decided(self) -> bool:
        """Return whether no open transaction holds back the readers of results."""
        leaders = self._world.leaders_of(TARGET).values()
        return len(leaders) == PARTITIONS and all(one.last_stable_offset == one.log.log_end_offset for one in leaders)

    async def stop_writing(self) -> None:
        """Wait until the writers end; the relays continue, also with records that were appended without an answer."""
        self._stopping = True
        await asyncio.gather(*self._work)
        await self._as(self._process("relay-ends"), self._find_ends())

    async def _find_ends(self) -> None:
        async with raftlog.Consumer(self._world.bootstrap, SOURCE, start="earliest") as consumer:
            for (_, number), end in (await consumer.end_offsets()).items():
                self._written[number] = end

    async def stop(self) -> None:
        """Stop all relays."""
        for task in (*self._lives, *([self._watching] if self._watching else ())):
            task.cancel()
        await asyncio.gather(*self._lives, return_exceptions=True)
        alive = [life for life, process in self._running.items() if process.alive]
        for life in alive:
            if self._running[life].paused:
                self._world.loop.resume(self._running[life])
            life.cancel()
        await self._ends(alive)

    async def _ends(self, cancelled: Collection[asyncio.Task[None]]) -> None:
        """Wait until relays end; fail if one works on although it was cancelled."""
        if not cancelled:
            return
        _, still = await asyncio.wait(cancelled, timeout=STOP_S)
        for task in still:
            self._world.watch.fail(f"{self._running[task].name} was cancelled, and worked on for {STOP_S:g} s")

    async def read_everything(self) -> None:
        """Read all records and results, as a client of its own."""
        reader = self._process("relay-reader")
        await self._as(reader, self._read_into(SOURCE, self._source, label))
        await self._as(reader, self._read_into(TARGET, self._results, lambda record: record.value or b""))

    def judge(self) -> list[str]:
        """Return the broken promises."""
        return list(wrong_results(self._source, self._results)) if self.exist else []

    def forget(self) -> None:
        """Drop all references."""
        self._work.clear()
        self._lives.clear()
        self._running.clear()
        self._watching = None

    def _process(self, name: str) -> Process:
        self._processes += 1
        return Process(name, f"10.0.15.{self._processes}")

    def _as(self, process: Process, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return self._world.loop.create_task(work, context=process.context)

    async def _write(self, partition: int) -> None:
        await write_numbers(
            self._world.bootstrap,
            SOURCE,
            partition,
            dice=self._dice,
            pause_s=PAUSE_S,
            written=self._written,
            is_stopping=lambda: self._stopping,
        )

    async def _live(self, staff: Staff, name: str) -> None:
        """Run one life after another; each stops, sleeps, is killed, or goes on beside the next one."""
        world, life = self._world, 0
        while True:
            life += 1
            process = self._process(f"{name}/{life}")
            running = self._as(process, self._supervise(staff, name))
            self._running[running] = process
            await asyncio.sleep(self._dice.uniform(*LIFE_S))
            fate = self._dice.choice(("stop", "kill", "sleep", "succeed"))
            if self._stopping:
                await asyncio.Event().wait()  # It runs on until everything is relayed.
            world.note(f"{fate} {process.name}")
            if fate == "sleep":
                process.paused = True
                await asyncio.sleep(self._dice.uniform(*NAP_S))
                world.loop.resume(process)
            elif fate != "succeed":
                if fate == "stop":
                    running.cancel()
                    await self._ends((running,))
                process.alive = False
                world.loop.bury(process)
                world.net.process_died(process)
                await asyncio.sleep(self._dice.uniform(*ABSENCE_S))

    async def _supervise(self, staff: Staff, name: str) -> None:
        """Relay until stopped, or fenced by the next life; after other errors with new clients."""
        task = asyncio.current_task()
        assert task is not None
        while True:
            try:
                await self._relay(staff, name)
            except RaftlogError as error:
                if task.cancelling():
                    return self._judge_cancelled(error)
                if error.code == "PRODUCER_FENCED" and not self._is_newest(name):
                    return None
                await asyncio.sleep(0.2)

    def _judge_cancelled(self, error: RaftlogError) -> None:
        """Fail if an application's loop could take a cancellation for something to repeat."""
        if not isinstance(error, TransactionInDoubtError):
            self._world.watch.fail(f"a cancelled relay raised {error!r} in place of CancelledError")

    def _is_newest(self, name: str) -> bool:
        task = asyncio.current_task()
        return task is [life for life, process in self._running.items() if process.name.startswith(f"{name}/")][-1]

    async def _relay(self, staff: Staff, name: str) -> None:
        consumer = raftlog.Consumer(
            self._world.bootstrap,
            SOURCE,
            group_id=GROUP,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation="read_committed",
            session_timeout_ms=staff.session_timeout_ms,
            max_poll_interval_ms=10_000,
            request_timeout_ms=5_000,
        )
        producer = raftlog.Producer(
            self._world.bootstrap,
            transactional_id=name,
            transaction_timeout_ms=staff.transaction_timeout_ms,
            delivery_timeout_ms=8_000,
            request_timeout_ms=2_000,
        )
        async with producer, consumer:
            await relay(consumer, producer, TARGET, label)

    async def _watch(self) -> None:
        """Look at the committed offsets again and again, as a client outside the group."""
        async with raftlog.Admin(self._world.bootstrap, timeout_ms=1_500) as admin:
            while True:
                with suppress(RaftlogError):
                    found = {number: offset for (_, number), offset in (await admin.group_offsets(GROUP)).items()}
                    self._committed = [found.get(number, 0) for number in range(PARTITIONS)]
                await asyncio.sleep(LOOK_S)

    async def _read_into(self, topic: str, found: list[bytes], shown: Callable[[raftlog.Record], bytes]) -> None:
        async with raftlog.Consumer(
            self._world.bootstrap, topic, start="earliest", isolation="read_committed"
        ) as consumer:
            ends = await consumer.end_offsets()
            while any(consumer.position(*partition) < end for partition, end in ends.items()):
                found += [shown(record) for record in await consumer.fetch()]
