"""How long a group stalls, in simulated time: the cost of messages, syncs and timers, independent of the machine.

`python -m benchmarks groups` measures the same on real processes.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import raftlog
from raftlog.model import CONSUMER_OFFSETS, TopicPartition
from raftlog.record.partitioner import partition_for_key
from simulation.cluster.life import Life
from simulation.cluster.loop import Process
from simulation.cluster.script import Script
from simulation.cluster.settings import Settings
from simulation.cluster.world import World

TOPIC, GROUP = "read", "readers"
REBALANCE_PACE_S = 0.1
"""The pause between two records of a partition."""


class Reader:
    """A member of the group on a machine of its own."""

    def __init__(self, world: World, number: int, *, commits: bool = False) -> None:
        self.seen: dict[int, list[float]] = defaultdict(list)
        self.given: list[tuple[float, int]] = []
        self.newest = 0.0
        """The send time of the newest record that it has read, and committed if it commits by itself."""
        self._world, self._commits, self._leaving = world, commits, False
        process = Process(f"reader-{number}", f"10.0.9.{number}")
        self._task = world.loop.create_task(self._run(), context=process.context)

    async def leave(self) -> None:
        self._leaving = True
        await self._task

    async def _run(self) -> None:
        async with raftlog.Consumer(
            self._world.bootstrap,
            TOPIC,
            group_id=GROUP,
            auto_offset_reset="earliest",
            enable_auto_commit=not self._commits,
            session_timeout_ms=10_000,
            on_assigned=self._on_assigned,
        ) as consumer:
            while not self._leaving:
                with suppress(raftlog.RaftlogError):
                    await self._poll(consumer)

    async def _poll(self, consumer: raftlog.Consumer) -> None:
        records = await consumer.fetch(max_wait_ms=200)
        if not records:
            return
        self.seen[records[0].partition].append(self._world.loop.time())
        if self._commits:
            await consumer.commit()
        self.newest = float(records[-1].value or b"0")

    def _on_assigned(self, partitions: list[TopicPartition]) -> None:
        self.given += [(self._world.loop.time(), partition.partition) for partition in partitions]


class Hall:
    """A topic with steady writes, and its readers."""

    def __init__(self, script: Script, *, partitions: int, pace_s: float) -> None:
        self.script, self.world = script, script.world
        self.partitions, self._pace_s = partitions, pace_s
        self.readers: list[Reader] = []
        self._writing = True

    async def open(self) -> None:
        world = self.world
        await self.script.administer(
            lambda admin: admin.create_topic(TOPIC, partitions=self.partitions, replication_factor=3)
        )
        world.loop.create_task(self._write(), context=Process("writer", "10.0.9.250").context)

    def close(self) -> None:
        self._writing = False

    def join(self, *, commits: bool = False) -> Reader:
        self.readers.append(Reader(self.world, len(self.readers) + 1, commits=commits))
        return self.readers[-1]

    async def settled(self, patience: str) -> float:
        """Wait until every reader has read a record that is sent from now on; return how many seconds that took."""
        since = self.world.loop.time()
        await self.script.until(lambda: all(reader.newest > since for reader in self.readers), patience)
        return self.world.loop.time() - since

    def gaps(self, since: float) -> dict[int, float]:
        """Return the longest time without a record of each partition since then, at any reader."""
        found = {}
        for partition in range(self.partitions):
            seen = sorted(at for reader in self.readers for at in reader.seen[partition] if at >= since)
            moments = [since, *seen, self.world.loop.time()]
            found[partition] = max(after - before for before, after in pairwise(moments))
        return found

    async def _write(self) -> None:
        async with raftlog.Producer(self.world.bootstrap, linger_ms=0) as producer:
            while self._writing:
                now = b"%f" % self.world.loop.time()
                with suppress(raftlog.RaftlogError):
                    sent = [producer.send_nowait(TOPIC, now, partition=number) for number in range(self.partitions)]
                    await asyncio.gather(*sent, return_exceptions=True)
                await asyncio.sleep(self._pace_s)


def play_rebalance(folder: Path) -> dict[str, float]:
    """Let a fourth member join three, and leave; return the longest stalls, in simulated seconds."""
    figures = {"moved": 0.0, "kept": 0.0, "quiet": 0.0}

    async def story(script: Script) -> None:
        hall = Hall(script, partitions=6, pace_s=REBALANCE_PACE_S)
        await hall.open()
        for _ in range(3):
            hall.join()
        await hall.settled("all read")
        await script.pass_time(3.0)  # The effects of their joining are over.
        since = script.world.loop.time()
        await script.pass_time(2.0)
        figures["quiet"] = max(hall.gaps(since).values())
        for change in ("join", "leave"):
            since = script.world.loop.time()
            if change == "join":
                fourth = hall.join()
            else:
                await fourth.leave()
            await script.pass_time(2.0)
            moved = {partition for reader in hall.readers for at, partition in reader.given if at >= since}
            assert moved
            for partition, gap in hall.gaps(since).items():
                kind = "moved" if partition in moved else "kept"
                figures[kind] = max(figures[kind], gap)
        await _leave(hall.readers[:3])
        hall.close()

    _play(story, folder)
    return figures


def play_storm(folder: Path, *, clients: int = 40) -> dict[str, float]:
    """Kill the broker that coordinates many clients, and restart it; return how soon all read and commit."""
    figures = {}

    async def story(script: Script) -> None:
        world = script.world
        hall = Hall(script, partitions=clients, pace_s=0.5)
        await hall.open()
        for _ in range(clients):
            hall.join(commits=True)
        await hall.settled("all read")
        topic = world.images()[-1].topic(CONSUMER_OFFSETS)
        assert topic is not None
        place = partition_for_key(GROUP.encode(), len(topic.partitions))
        victim = script.broker(topic.partitions[place].leader)
        world.kill(victim)
        figures["after the kill"] = await hall.settled("all go on without it")
        world.start(victim)
        figures["after the start"] = await hall.settled("all go on with it")
        await script.until(world.is_healthy, "all is healthy")
        await _leave(hall.readers)
        hall.close()

    _play(story, folder)
    return figures


async def _leave(readers: Iterable[Reader]) -> None:
    await asyncio.gather(*(reader.leave() for reader in readers))


def _play(story: object, folder: Path) -> None:
    world = World(folder / "world", seed=0, settings=Settings(pause_s=1.0))

    async def tell() -> None:
        script = Script(world)
        await script.in_sync()
        await story(script)  # type: ignore[operator]

    Life(world).run(tell)


STORIES = {"rebalance": play_rebalance, "storm": play_storm}
