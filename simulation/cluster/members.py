"""A consumer group in a simulated cluster: its members join, commit, stop, sleep and are killed, and so are brokers.

The members and their checker are those of the chaos suite (`chaos/group_member.py`, `chaos/group_checker.py`); here
each member is a process that can be killed between any two steps.
"""

from __future__ import annotations

import asyncio
import io
import random
import time
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import raftlog
from chaos.group_checker import check_group
from chaos.group_history import GroupHistory, Sighting
from chaos.group_member import Member, Orders
from raftlog.errors import RaftlogError
from simulation.cluster.loop import Process
from simulation.cluster.numbers import write_numbers

if TYPE_CHECKING:
    from simulation.cluster.ports import World

TOPIC, GROUP, PARTITIONS = "orders", "readers", 3
GROUPS = 1 / 6
"""The share of worlds that have a group."""
LIFE_S = (1.0, 8.0)
ABSENCE_S = (0.0, 2.0)
"""The pause between two lives of a member."""
NAP_S = (0.5, 6.0)
PAUSE_S = 0.15
LOOK_S = 0.5


@dataclass(frozen=True)
class Crowd:
    """The number of members, and how they commit."""

    members: int
    automatic: bool
    """The client commits by itself; otherwise the application does."""
    session_timeout_ms: int

    @classmethod
    def drawn(cls, seed: int) -> Crowd | None:
        """Draw whether a world has a group, and which, by dice of its own: other worlds do not change."""
        apart = random.Random(f"who reads together {seed}")  # noqa: S311  (a schedule, not a secret)
        if apart.random() >= GROUPS:
            return None
        return cls(
            members=apart.choice((2, 3)),
            automatic=apart.random() < 0.25,
            session_timeout_ms=apart.choice((2_000, 6_000)),
        )


class QuietMember(Member):
    """A member that logs only in its history why a life ended."""

    def _failed(self, error: RaftlogError) -> None:
        pass


class Group:
    """A world's group, and its producers. Does nothing, and draws nothing, in a world without it."""

    def __init__(self, world: World) -> None:
        self.history = GroupHistory()
        self._world = world
        self._stopping = False
        self._written = [0] * PARTITIONS
        """By partition, the offset below which every record was acknowledged."""
        self._committed = [0] * PARTITIONS
        self._books: list[io.BytesIO] = []
        self._processes = 0
        self._work: list[asyncio.Task[None]] = []
        self._lives: list[asyncio.Task[None]] = []
        self._watching: asyncio.Task[None] | None = None

    @property
    def exist(self) -> bool:
        return self._world.settings.crowd is not None

    def start(self) -> None:
        """Begin, once the topic exists."""
        crowd = self._world.settings.crowd
        if crowd is None:
            return
        self._dice = random.Random(self._world.dice.getrandbits(64))  # noqa: S311  (a schedule, not a secret)
        writer = self._process("order-writer")
        self._work += [self._as(writer, self._write(number)) for number in range(PARTITIONS)]
        self._lives = [asyncio.ensure_future(self._live(crowd, f"member-{n}")) for n in range(crowd.members)]
        self._watching = self._as(self._process("group-watcher"), self._watch())

    def has_committed_everything(self) -> bool:
        """Return whether the group has committed every acknowledged record."""
        return all(done >= end for done, end in zip(self._committed, self._written, strict=True))

    async def stop_writing(self) -> None:
        """Wait until the writers end; the members continue."""
        self._stopping = True
        await asyncio.gather(*self._work)

    async def stop(self) -> None:
        """Stop all members, and read all records."""
        for task in (*self._lives, *([self._watching] if self._watching else ())):
            task.cancel()
        await asyncio.gather(*self._lives, return_exceptions=True)
        await self._as(self._process("order-reader"), self._read_everything())

    def judge(self) -> list[str]:
        """Return the broken promises."""
        if not self.exist:
            return []
        for book in self._books:
            self.history.add_member(book.getvalue().splitlines(keepends=True))
        return [f"{anomaly.kind}: {anomaly.detail}" for anomaly in check_group(self.history).anomalies]

    def forget(self) -> None:
        """Drop all references."""
        self._work.clear()
        self._lives.clear()
        self._watching = None

    def _process(self, name: str) -> Process:
        self._processes += 1
        return Process(name, f"10.0.14.{self._processes}")

    def _as(self, process: Process, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return self._world.loop.create_task(work, context=process.context)

    async def _write(self, partition: int) -> None:
        await write_numbers(
            self._world.bootstrap,
            TOPIC,
            partition,
            dice=self._dice,
            pause_s=PAUSE_S,
            written=self._written,
            is_stopping=lambda: self._stopping,
        )

    async def _live(self, crowd: Crowd, name: str) -> None:
        """Run one member after another; each stops, is killed, or sleeps beyond its session timeout."""
        world, life = self._world, 0
        while True:
            life += 1
            process, book = self._process(f"{name}/{life}"), io.BytesIO()
            self._books.append(book)
            member = QuietMember(self._orders(crowd, process.name), book)
            running = self._as(process, member.run())
            await asyncio.sleep(self._dice.uniform(*LIFE_S))
            fate = self._dice.choice(("stop", "kill", "sleep"))
            if self._stopping:
                await asyncio.Event().wait()  # It runs on until everything is committed.
            world.note(f"{fate} {process.name}")
            if fate == "sleep":
                process.paused = True
                await asyncio.sleep(self._dice.uniform(*NAP_S))
                world.loop.resume(process)
                fate = "stop"
            if fate == "stop":
                member.stop()
                await asyncio.wait((running,))
                if not running.cancelled() and (error := running.exception()) is not None:
                    world.watch.on_internal_error(f"{process.name} ended: {error!r}")
            process.alive = False
            world.loop.bury(process)
            world.net.process_died(process)
            await asyncio.sleep(self._dice.uniform(*ABSENCE_S))

    def _orders(self, crowd: Crowd, name: str) -> Orders:
        return Orders(
            name=name,
            bootstrap=self._world.bootstrap,
            dial={},
            topic=TOPIC,
            group=GROUP,
            automatic=crowd.automatic,
            seed=self._dice.getrandbits(32),
            session_timeout_ms=crowd.session_timeout_ms,
            parent_pid=0,
            file="",
        )

    async def _watch(self) -> None:
        """Record the committed offsets again and again, as a client outside the group; 0 for one that is gone."""
        seen_before = set[int]()
        async with raftlog.Admin(self._world.bootstrap, timeout_ms=1_500) as admin:
            while True:
                invoked = time.monotonic_ns()
                with suppress(RaftlogError):
                    offsets = await admin.group_offsets(GROUP)
                    found = {number: offset for (_, number), offset in offsets.items()}
                    seen_before |= found.keys()
                    for number, offset in {**dict.fromkeys(sorted(seen_before), 0), **found}.items():
                        self._committed[number] = offset
                        seen = Sighting(
                            partition=number, offset=offset, invoked_ns=invoked, completed_ns=time.monotonic_ns()
                        )
                        self.history.sightings.append(seen)
                await asyncio.sleep(LOOK_S)

    async def _read_everything(self) -> None:
        found: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
        async with raftlog.Consumer(self._world.bootstrap, TOPIC, start="earliest") as consumer:
            ends = await consumer.end_offsets()
            while any(consumer.position(*partition) < end for partition, end in ends.items()):
                for record in await consumer.fetch():
                    found[record.partition].append(record.offset)
        self.history.records = found
