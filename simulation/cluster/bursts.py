"""An operator that creates topics in bursts, writes to each at once, and moves, grows or deletes some of them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import raftlog
from raftlog.errors import RaftlogError
from simulation.cluster.loop import Process

if TYPE_CHECKING:
    from simulation.cluster.ports import World

Act: TypeAlias = Callable[[raftlog.Admin, str], Awaitable[None]]
PREFIX = "burst-"
BURSTS = 1 / 4
"""The share of worlds that have bursts of topics."""
BIG = 1 / 50
"""The share of worlds that have five brokers and begin with a burst of 60 partitions."""
REST_S = (0.1, 1.5)
"""The pause between two operations of the operator."""
SEND_TIMEOUT_MS = 5_000
MOST_TOPICS = 24
"""Above that the operator only deletes: watching every replica costs time."""


@dataclass(frozen=True)
class Burst:
    """How a world's topics are created and deleted."""

    topics: int
    """Topics that are created at the same time."""
    partitions: int
    big: bool = False
    moves: bool = False
    """Whether some of them move to other brokers."""

    @classmethod
    def drawn(cls, seed: int, *, moves: bool = True) -> Burst | None:
        """Draw whether a world has bursts, and how large, by dice of its own: other worlds do not change."""
        apart = random.Random(f"bursts of {seed}")  # noqa: S311  (a schedule, not a secret)
        draw = apart.random()
        if draw < BIG:
            return cls(topics=20, partitions=3, big=True, moves=moves)
        if draw >= BURSTS:
            return None
        return cls(topics=apart.choice((2, 4, 8)), partitions=apart.choice((1, 1, 2)), moves=moves)


class Bursts:
    """A world's operator of short-lived topics. Does nothing, and draws nothing, in a world without bursts."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._stopping = False
        self._made = 0
        self._topics: list[str] = []
        self._work: asyncio.Task[None] | None = None

    @property
    def exist(self) -> bool:
        return self._world.settings.bursts is not None

    def start(self) -> None:
        """Begin, once the workload's topic exists."""
        burst = self._world.settings.bursts
        if burst is None:
            return
        self._dice = random.Random(self._world.dice.getrandbits(64))  # noqa: S311  (a schedule, not a secret)
        process = Process("operator", "10.0.10.1")
        self._work = self._world.loop.create_task(self._operate(burst), context=process.context)

    async def stop(self) -> None:
        """Cancel the current burst, and begin no other."""
        self._stopping = True
        if self._work is not None:
            await self._work

    def forget(self) -> None:
        """Drop all references."""
        self._work = None

    async def write_everywhere(self) -> None:
        """Write to every partition of every remaining topic.

        Raises:
            RaftlogError: a partition does not acknowledge.
        """
        image = self._world.newest_image()
        left = {topic.topic: len(topic.partitions) for topic in image.topics.values() if _is_burst(topic.topic)}
        if not left:
            return

        async def write() -> None:
            async with raftlog.Producer(self._world.bootstrap) as producer:
                await asyncio.gather(
                    *(
                        producer.send(topic, b"after healing", partition=number)
                        for topic, count in left.items()
                        for number in range(count)
                    )
                )

        writer = Process("last-writer", "10.0.10.2")
        await self._world.loop.create_task(write(), context=writer.context)

    async def _operate(self, burst: Burst) -> None:
        while not self._stopping:
            draw = self._dice.random()
            if len(self._topics) >= max(MOST_TOPICS, burst.topics) or (self._topics and draw < 0.25):
                await self._each(self._some(burst.topics), self._delete)
            elif self._topics and draw < 0.4:
                await self._each(self._some(burst.topics), self._grow)
            elif burst.moves and self._topics and draw < 0.6:
                await self._each(self._some(burst.topics), self._move)
            else:
                names = [f"{PREFIX}{self._made + number}" for number in range(burst.topics)]
                self._made += len(names)
                self._world.note(f"topics {names[0]} to {names[-1]} are created at once")
                await self._each(names, lambda admin, name: self._create(admin, name, burst))
            await asyncio.sleep(self._dice.uniform(*REST_S))

    def _some(self, most: int) -> list[str]:
        return self._dice.sample(self._topics, min(len(self._topics), self._dice.randint(1, most)))

    async def _each(self, names: list[str], act: Act) -> None:
        async with raftlog.Admin(self._world.bootstrap, timeout_ms=SEND_TIMEOUT_MS) as admin:
            await asyncio.gather(*(self._tried(act, admin, name) for name in names))

    async def _tried(self, act: Act, admin: raftlog.Admin, name: str) -> None:
        try:
            await act(admin, name)
        except RaftlogError as error:
            self._world.note(f"{name}: {error.code.value}")  # Faults are still active; healing shows what lasts.

    async def _create(self, admin: raftlog.Admin, name: str, burst: Burst) -> None:
        self._topics.append(name)
        settings = self._world.settings
        configs: dict[str, str | int] = {"min_insync_replicas": settings.min_insync_replicas, "flush": settings.flush}
        await admin.create_topic(
            name, partitions=burst.partitions, replication_factor=settings.replicas, configs=configs
        )
        async with raftlog.Producer(self._world.bootstrap, delivery_timeout_ms=SEND_TIMEOUT_MS) as producer:
            await producer.send(name, name.encode())

    async def _grow(self, admin: raftlog.Admin, name: str) -> None:
        partitions = self._dice.randint(2, 4)
        self._world.note(f"{name} gets {partitions} partitions")
        await admin.alter_topic(name, partitions=partitions)

    async def _move(self, admin: raftlog.Admin, name: str) -> None:
        """Move a partition to other brokers, and on again at once: a broker may receive the second move first."""
        brokers = range(1, len(self._world.brokers) + 1)
        for _ in range(self._dice.randint(1, 3)):
            target = self._dice.sample(brokers, self._dice.randint(1, self._world.settings.replicas))
            self._world.note(f"{name} moves to {target}")
            await admin.reassign_partitions({(name, 0): target})

    async def _delete(self, admin: raftlog.Admin, name: str) -> None:
        self._world.note(f"{name} is deleted")
        self._topics.remove(name)
        await admin.delete_topic(name)


def _is_burst(topic: str) -> bool:
    return topic.startswith(PREFIX)
