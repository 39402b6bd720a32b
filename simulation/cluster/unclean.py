"""A topic that loses records rather than waits, its clients, and a fault that forces unclean elections."""

from __future__ import annotations

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol

import raftlog
from chaos.history import History, Read, Send
from chaos.readers import has_read_to, read_everything, seen
from chaos.workload import send
from raftlog.errors import RaftlogError
from raftlog.model import NO_LEADER
from simulation.cluster.loop import Process
from simulation.cluster.takeovers import TOPIC, Takeovers

if TYPE_CHECKING:
    from simulation.cluster.nodes import Node
    from simulation.cluster.ports import World

    class _World(World, Protocol):
        @property
        def takeovers(self) -> Takeovers: ...


UNCLEAN = 1 / 6
"""The share of worlds that have such a topic."""
REST_S = (2.0, 6.0)
"""The pause between two times that its leader becomes the only replica in sync, and is stopped."""
PATIENCE_S = 12.0
AWAY_S = (0.5, 8.0)
PAUSE_S = 0.1
CONFIGS = {"unclean_leader_election_enable": True, "min_insync_replicas": 1}


@dataclass(frozen=True)
class Gamble:
    """How a world's topic with unclean elections is replicated."""

    replicas: int
    provoked: bool
    """Leaders are stopped while they are the only replica in sync; otherwise only other faults cause elections."""

    @classmethod
    def drawn(cls, seed: int) -> Gamble | None:
        """Draw whether a world has it, and how, by dice of its own: other worlds do not change."""
        apart = random.Random(f"unclean elections of {seed}")  # noqa: S311  (a schedule, not a secret)
        if apart.random() >= UNCLEAN:
            return None
        return cls(replicas=apart.choice((2, 2, 3)), provoked=apart.random() < 0.75)


class Unclean:
    """Its producer and its reader. Does nothing, and draws nothing, in a world without it."""

    def __init__(self, world: _World) -> None:
        self.history = History()
        self._world = world
        self._stopping = False
        self._work: list[asyncio.Task[None]] = []
        self._tail: asyncio.Task[None] | None = None
        self._reading: raftlog.Consumer | None = None
        self._provoking: asyncio.Task[None] | None = None

    @property
    def exist(self) -> bool:
        return self._world.settings.unclean is not None

    def start(self) -> None:
        """Begin, once the topic exists."""
        gamble = self._world.settings.unclean
        if gamble is None:
            return
        self._dice = random.Random(self._world.dice.getrandbits(64))  # noqa: S311  (a schedule, not a secret)
        self._work.append(self._as_client("gambler", "10.0.11.1", self._produce("gambler")))
        self._tail = self._as_client("gambler-tail", "10.0.11.2", self._read_in_lives())
        if gamble.provoked:
            self._provoking = asyncio.ensure_future(self._provoke())

    def calm(self) -> None:
        """Stop provoking elections."""
        if self._provoking is not None:
            self._provoking.cancel()

    def acknowledged_since(self, when_ns: int) -> bool:
        """Return whether a send that was invoked since then was acknowledged."""
        return any(one.outcome == "ok" and one.invoked_ns >= when_ns for one in reversed(self.history.sends))

    async def stop_writing(self) -> None:
        """Wait until the producer ends."""
        self._stopping = True
        await asyncio.gather(*self._work)

    def has_read_everything(self) -> bool:
        """Return whether the tail has read to the end, in its present life."""
        ends = {partition: leader.high_watermark for partition, leader in self._world.leaders_of(TOPIC).items()}
        return len(ends) == 1 and has_read_to(self._reading, ends)

    async def stop(self) -> None:
        """End the tail, and read everything from the start."""
        if self._tail is not None:
            self._tail.cancel()
            await asyncio.gather(self._tail, return_exceptions=True)
        reading = read_everything(self.history, bootstrap=self._world.bootstrap, topic=TOPIC)
        await self._as_client("gambler-reader", "10.0.11.3", reading)

    def forget(self) -> None:
        """Drop all references."""
        self._work.clear()
        self._tail = self._provoking = self._reading = None

    def judge(self) -> list[str]:
        """Return the broken promises."""
        return list(judge(self.history, self._world.takeovers)) if self.exist else []

    def _as_client(self, name: str, host: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return self._world.loop.create_task(work, context=Process(name, host).context)

    async def _produce(self, name: str) -> None:
        number = 0
        async with raftlog.Producer(
            self._world.bootstrap, linger_ms=0, delivery_timeout_ms=8_000, request_timeout_ms=2_000
        ) as producer:
            while not self._stopping:
                value, invoked = f"{name}-{number}", time.monotonic_ns()
                offset, outcome, reason = await send(producer, TOPIC, 0, value)
                self.history.sends.append(
                    Send(
                        process=name,
                        partition=0,
                        value=value,
                        invoked_ns=invoked,
                        completed_ns=time.monotonic_ns(),
                        outcome=outcome,
                        offset=offset,
                        error=reason,
                    )
                )
                number += 1
                await asyncio.sleep(self._dice.uniform(0, 2 * PAUSE_S))

    async def _read_in_lives(self) -> None:
        """Tail the topic. When the log was truncated below the position, begin again with a new consumer."""
        life = 0
        while True:
            life += 1
            try:
                async with raftlog.Consumer(self._world.bootstrap, TOPIC, start="earliest") as consumer:
                    self._reading = consumer
                    async for record in consumer:
                        self.history.reads.append(seen(f"tail/{life}", record))
            except RaftlogError as error:
                self._reading = None
                self._world.note(f"reader of {TOPIC}: {error.code.value}")
                await asyncio.sleep(0.2)

    # Forced elections.

    async def _provoke(self) -> None:
        """Cut a leader's followers off until it is the only replica in sync; kill it, and reconnect them."""
        world = self._world
        while True:
            await asyncio.sleep(self._dice.uniform(*REST_S))
            leader = self._leader()
            if leader is None:
                continue
            links = {(a.host, b.host) for a in world.brokers for b in world.brokers if leader in (a, b) and a is not b}
            world.note(f"the ISR of {TOPIC} shrinks to {leader.name}")
            world.net.hold(links)
            alone = await self._until(lambda node=leader: self._isr() == {node.node_id})  # type: ignore[misc]
            if alone and leader.running and sum(node.running for node in world.brokers) > 1:
                await asyncio.sleep(self._dice.uniform(0, 1))
                (world.lose_power if self._dice.random() < 0.3 else world.kill)(leader)
            world.net.release(links)
            await asyncio.sleep(self._dice.uniform(*AWAY_S))
            world.power_on(leader)
            if not leader.running and not world.disks.by_host[leader.host].failing:
                world.start(leader)

    def _leader(self) -> Node | None:
        topic = self._world.newest_image().topic(TOPIC)
        leader = NO_LEADER if topic is None else topic.partitions[0].leader
        return None if leader == NO_LEADER else self._world.nodes[f"broker-{leader}"]

    def _isr(self) -> set[int]:
        topic = self._world.newest_image().topic(TOPIC)
        return set() if topic is None else set(topic.partitions[0].isr)

    async def _until(self, holds: Callable[[], bool]) -> bool:
        deadline = self._world.loop.time() + PATIENCE_S
        while not holds() and self._world.loop.time() < deadline:
            await asyncio.sleep(0.05)
        return holds()


def judge(history: History, takeovers: Takeovers) -> Iterator[str]:
    """Judge what clients of the topic received, by what its unclean elections may have cost."""
    final = {read.offset: read.value for read in history.final_reads}
    for offset, (expected, found) in enumerate(zip(range(len(final)), sorted(final), strict=True)):
        if expected != found:
            yield f"in the end, offset {offset} is not there"
            break
    told: list[Send | Read] = [*_acknowledged(history), *history.reads]
    for one in told:
        if final.get(one.offset) != one.value and not takeovers.may_be_gone(one.partition, one.offset, one.value):
            yield f"{one.process} had {one.value} at offset {one.offset}; no unclean election explains its loss"
    yield from _wrong_in_the_end(history, [final[offset] for offset in sorted(final)])
    for before, after in _read_in_a_row(history.reads):
        if after.offset != before.offset + 1:
            yield f"{after.process} read offset {after.offset} after {before.offset}"
        elif not takeovers.follows(after.partition, after.offset, after.value, before.value):
            yield f"{after.process} read {after.value} after {before.value}, which no log ever held in a row"


def _acknowledged(history: History) -> Iterable[Send]:
    return (one for one in history.sends if one.outcome == "ok")


def _wrong_in_the_end(history: History, values: list[str]) -> Iterator[str]:
    """Find values that are there twice, in another order than they were sent in, or that must not be there."""
    outcomes = {one.value: one.outcome for one in history.sends}
    numbers = defaultdict[str, list[int]](list)
    for value in values:
        if outcomes.get(value, "fail") == "fail":
            yield f"{value} is there, and was never sent, or its send had certainly failed"
        process, _, number = value.rpartition("-")
        numbers[process].append(int(number))
    for process, found in numbers.items():
        if wrong := [pair for pair in pairwise(found) if pair[0] >= pair[1]]:
            yield f"of {process}'s records {wrong[0][1]} comes after {wrong[0][0]}"


def _read_in_a_row(reads: Iterable[Read]) -> Iterator[tuple[Read, Read]]:
    """Yield consecutive reads within each life of a reader."""
    last: dict[str, Read] = {}
    for read in reads:
        if read.process in last:
            yield last[read.process], read
        last[read.process] = read
