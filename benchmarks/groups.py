"""How long partitions stall when members join and leave, and how soon 40 clients continue after a broker restart."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from itertools import pairwise

from benchmarks.clusters import kill_now, running
from benchmarks.report import Bound, Effort, Figure, repeat
from raftlog import Admin, Consumer, Producer
from raftlog.cli.local_cluster import LocalCluster
from raftlog.errors import RaftlogError
from raftlog.model import TopicPartition

_GROUP = "bench"
_PARTITIONS = 12
_PACE_S = 0.02
"""The pause between two records of a partition: a shorter stall is invisible."""
_WATCH_S = 2.5
"""How long a change of members is watched; it is complete long before."""
_CLIENTS = 40
_CLIENT_PACE_S = 0.1
_SETTLE_S = 60.0


class _Member:
    """A consumer that notes when it got records of each partition, and when partitions were assigned to it."""

    def __init__(self, url: str, topic: str, *, commits: bool = False) -> None:
        self.url, self.topic, self.commits = url, topic, commits
        self.seen: dict[int, list[float]] = defaultdict(list)
        self.assigned: list[tuple[float, int]] = []
        self.newest = 0.0
        """The send time of the newest record that it has committed."""
        self._leaving = asyncio.Event()

    async def run(self) -> None:
        while not self._leaving.is_set():
            with suppress(RaftlogError):  # It could not join before the deadline: that costs time, and is no failure.
                await self._live()

    async def _live(self) -> None:
        async with Consumer(
            self.url,
            self.topic,
            group_id=_GROUP,
            auto_offset_reset="earliest",
            enable_auto_commit=not self.commits,
            session_timeout_ms=10_000,
            on_assigned=self._on_assigned,
        ) as consumer:
            while not self._leaving.is_set():
                with suppress(RaftlogError):  # The broker is down: the next call finds another.
                    await self._poll(consumer)

    def leave(self) -> None:
        self._leaving.set()

    async def _poll(self, consumer: Consumer) -> None:
        records = await consumer.fetch(max_wait_ms=100)
        if not records:
            return
        self.seen[records[0].partition].append(time.perf_counter())
        if self.commits:
            await consumer.commit()
            self.newest = float(records[-1].value or b"0")

    def _on_assigned(self, partitions: list[TopicPartition]) -> None:
        self.assigned += [(time.perf_counter(), partition.partition) for partition in partitions]


class _Members(list[_Member]):
    """Members that run, as tasks."""

    def __init__(self) -> None:
        super().__init__()
        self._tasks: dict[int, asyncio.Task[None]] = {}

    def join(self, member: _Member) -> _Member:
        self.append(member)
        self._tasks[id(member)] = asyncio.create_task(member.run())
        return member

    async def leave(self, member: _Member) -> None:
        member.leave()
        await self._tasks.pop(id(member))

    async def close(self) -> None:
        for member in self:
            member.leave()
        await asyncio.gather(*self._tasks.values())


@asynccontextmanager
async def _written(url: str, topic: str, partitions: int, pace_s: float) -> AsyncIterator[None]:
    """Write to every partition at a steady pace; a record's value is its send time."""

    async def write(producer: Producer, partition: int) -> None:
        while True:
            with suppress(RaftlogError):
                await producer.send(topic, b"%f" % time.perf_counter(), partition=partition)
            await asyncio.sleep(pace_s)

    async with Admin(url) as admin:
        await admin.create_topic(topic, partitions=partitions, replication_factor=3)
    async with Producer(url, linger_ms=0) as producer:
        tasks = [asyncio.create_task(write(producer, partition)) for partition in range(partitions)]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def rebalance_ms(effort: Effort) -> list[Figure]:
    """Let a fourth member join a group of three, and leave it; measure how long partitions stalled."""
    with running(controllers=3, brokers=3) as cluster:
        return asyncio.run(_rebalance(cluster, times=effort.pick(10, quick=3)))


async def _rebalance(cluster: LocalCluster, *, times: int) -> list[Figure]:
    url, topic, members = cluster.bootstrap, "rebalance", _Members()
    moved: list[float] = []
    kept: list[float] = []
    quiet: list[float] = []
    async with _written(url, topic, _PARTITIONS, _PACE_S), AsyncExitStack() as stack:
        stack.push_async_callback(members.close)
        for _ in range(3):
            members.join(_Member(url, topic))
        await _until(lambda: {p for m in members for p in m.seen} == set(range(_PARTITIONS)))
        await asyncio.sleep(2.0)
        for _ in repeat(times, "members join and leave"):
            since = time.perf_counter()
            await asyncio.sleep(_WATCH_S)
            quiet += _gaps(members, since, range(_PARTITIONS)).values()
            for change in ("join", "leave"):
                since = time.perf_counter()
                if change == "join":
                    fourth = members.join(_Member(url, topic))
                else:
                    await members.leave(fourth)
                await asyncio.sleep(_WATCH_S)
                its = {partition for member in members for at, partition in member.assigned if at >= since}
                gaps = _gaps(members, since, range(_PARTITIONS))
                moved += [gaps[partition] for partition in its]
                kept += [gap for partition, gap in gaps.items() if partition not in its]
    return [
        Figure(name="moved_partition_pause_ms", samples=moved, bounds=(Bound(statistic="max", at_most=1_000),)),
        Figure(name="kept_partition_gap_ms", samples=kept, bounds=(Bound(statistic="max", at_most=max(quiet) + 200),)),
        Figure(name="quiet_partition_gap_ms", samples=quiet),
    ]


def _gaps(members: Iterable[_Member], since: float, partitions: Iterable[int]) -> dict[int, float]:
    """Return the longest time without a record of each partition since then, at any member, in ms."""
    found = {}
    for partition in partitions:
        times = sorted(at for member in members for at in member.seen.get(partition, ()) if at >= since - 1.0)
        moments = [since, *(at for at in times if at >= since), time.perf_counter()]
        found[partition] = 1_000 * max(after - before for before, after in pairwise(moments))
    return found


def reconnect_storm_ms(effort: Effort) -> list[Figure]:
    """Kill the broker that coordinates 40 clients, and restart it; time until each has read and committed again."""
    with running(controllers=3, brokers=3) as cluster:
        after_kill, after_start = asyncio.run(_storms(cluster, times=effort.kill_count(5, quick=2)))
    bounds = (Bound(statistic="max", at_most=5_000),)
    return [
        Figure(name="storm_after_kill_ms", samples=after_kill, bounds=bounds),
        Figure(name="storm_after_restart_ms", samples=after_start, bounds=bounds),
    ]


async def _storms(cluster: LocalCluster, *, times: int) -> tuple[list[float], list[float]]:
    url, topic, members = cluster.bootstrap, "storm", _Members()
    after_kill, after_start = [], []
    async with _written(url, topic, _CLIENTS, _CLIENT_PACE_S), Admin(url) as admin, AsyncExitStack() as stack:
        stack.push_async_callback(members.close)
        for _ in range(_CLIENTS):
            members.join(_Member(url, topic, commits=True))
        await _settled(members, time.perf_counter())
        for _ in repeat(times, "brokers killed"):
            await asyncio.sleep(1.0)
            victim = f"broker-{(await admin.find_coordinator('group', _GROUP)).broker_id}"
            killed = time.perf_counter()
            kill_now(cluster, victim)
            after_kill.append(1_000 * (await _settled(members, killed) - killed))
            await asyncio.to_thread(cluster.restart, victim)
            await asyncio.to_thread(cluster.wait_ready, names=[victim])
            ready = time.perf_counter()
            after_start.append(1_000 * (await _settled(members, ready) - ready))
            await _in_sync(admin, topic)
    return after_kill, after_start


async def _settled(members: list[_Member], since: float) -> float:
    """Wait until every member has committed a record that was sent after `since`; return when the last one had."""
    await _until(lambda: all(member.newest > since for member in members))
    return time.perf_counter()


async def _in_sync(admin: Admin, topic: str) -> None:
    async with asyncio.timeout(_SETTLE_S):
        while any(len(part.isr) < 3 for part in (await admin.describe_topic(topic)).partitions):
            await asyncio.sleep(0.1)


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(_SETTLE_S):
        while not holds():
            await asyncio.sleep(0.01)


FIGURES = {"rebalance": rebalance_ms, "storm": reconnect_storm_ms}
