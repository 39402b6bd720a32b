"""Clients with transactions in a simulated cluster: producers that die in the middle, and readers of committed records.

The workload and its checker are those of the chaos suite (`chaos/transactions.py`); here each life of a producer is a
process that can be killed, between any two steps.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from chaos.readers import has_read_to
from chaos.transactions import TransactionClients, TransactionHistory, check_transactions
from simulation.cluster.held import LIVES, HeldProducer
from simulation.cluster.loop import Process

if TYPE_CHECKING:
    from simulation.cluster.ports import World

TOPIC, PARTITIONS = "tx", 2
LIFE_S = (0.5, 6.0)
PAUSE_S = 0.2
CRASHES = 0.5
"""The share of lives that end by a crash; the others run beside the next one, which fences them."""


class Payments:
    """A world's transactional producers and readers. Does nothing, and draws nothing, in a world that has none."""

    def __init__(self, world: World) -> None:
        self.history = TransactionHistory()
        self._world = world
        self._processes = 0
        self._lives: list[tuple[Process, asyncio.Task[None]]] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._tail: asyncio.Task[None] | None = None

    @property
    def exist(self) -> bool:
        return bool(self._world.settings.transactional_producers > 0)

    def start(self) -> None:
        """Begin, once the topic exists."""
        world = self._world
        self._dice = random.Random(world.dice.getrandbits(64))  # noqa: S311  (a schedule, not a secret)
        self._clients = TransactionClients(
            self.history, world.bootstrap, self._dice, topic=TOPIC, partitions=PARTITIONS
        )
        reader = self._process("committed-tail")
        self._tail = world.loop.create_task(self._clients.tail(reader.name), context=reader.context)
        for number in range(world.settings.transactional_producers):
            self._tasks.append(asyncio.ensure_future(self._live(f"id-{number}")))

    async def stop_writing(self) -> None:
        """Wait until every running producer ends."""
        self._clients.stopping = True
        await asyncio.gather(*self._tasks)
        await asyncio.gather(*(life for process, life in self._lives if process.alive))

    async def stop(self) -> None:
        """End the tail."""
        if self._tail is None:
            return
        if self._tail.done():
            self._tail.result()  # It reads without end, so it failed.
        self._tail.cancel()
        await asyncio.gather(self._tail, return_exceptions=True)

    async def read_everything(self) -> None:
        """Read the committed records in the end, as a client of its own."""
        reader = self._process("committed-reader")
        await self._world.loop.create_task(self._clients.read_everything(), context=reader.context)

    def committed_since(self, begun: int) -> bool:
        """Return whether a transaction after the first `begun` has committed."""
        return any(one.outcome == "ok" for one in self.history.transactions[begun:])

    def all_decided(self) -> bool:
        """Return whether no open transaction holds back the readers of committed records in any partition."""
        leaders = self._world.leaders_of(TOPIC).values()
        return len(leaders) == PARTITIONS and all(one.last_stable_offset == one.log.log_end_offset for one in leaders)

    def has_read_everything(self) -> bool:
        """Return whether the tail has read all decided records, or has failed."""
        ends = {partition: leader.last_stable_offset for partition, leader in self._world.leaders_of(TOPIC).items()}
        return self._tail is None or self._tail.done() or has_read_to(self._clients.reading, ends)

    def judge(self) -> list[str]:
        """Return the broken promises."""
        if not self.exist:
            return []
        return [f"{anomaly.kind}: {anomaly.detail}" for anomaly in check_transactions(self.history)]

    def forget(self) -> None:
        """Drop all references."""
        self._lives.clear()
        self._tasks.clear()
        self._tail = None

    async def _live(self, name: str) -> None:
        """Run one life after another, without a notice to the earlier ones."""
        world, number = self._world, 0
        while not self._clients.stopping:
            process = self._process(f"{name}/{number}")
            work = self._clients.one_life(name, number, PAUSE_S, make=self._kind())
            life = world.loop.create_task(work, context=process.context)
            self._lives.append((process, life))
            number += 1
            deadline = world.loop.time() + self._dice.uniform(*LIFE_S)
            while not self._clients.stopping and world.loop.time() < deadline:
                await asyncio.sleep(0.1)
            if not self._clients.stopping and self._dice.random() < CRASHES:
                world.note(f"crash of {process.name}")
                process.alive = False
                world.loop.bury(process)
                world.net.process_died(process)

    def _kind(self) -> Callable[[str], Any] | None:
        """Return what makes the producer of the next life; None: raftlog's own."""
        world = self._world
        if not world.settings.held_producers or self._dice.random() >= LIVES:
            return None
        return partial(HeldProducer, world.bootstrap)

    def _process(self, name: str) -> Process:
        self._processes += 1
        return Process(name, f"10.0.8.{self._processes}")
