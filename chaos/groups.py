"""The scenario `groups`: a consumer group reads while its coordinator, controllers and its own members fail.

A round is one or two faults of brokers, drawn from the seed; half of them meet the coordinator. Each round also
disturbs one member, and sometimes kills a controller. Then everything is healed, and the group must commit, in every
partition, all records that were written until then. The checker judges the members' logs.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import statistics
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import raftlog
from chaos.bulk_load import BulkLoadError, bulk_load, judge_bulk, settings_for_load
from chaos.cluster import ChaosCluster
from chaos.crowd import SESSION_TIMEOUT_MS, Crowd
from chaos.group_checker import GroupVerdict, check_group
from chaos.group_history import GroupHistory, Sighting
from chaos.group_member import Orders
from chaos.options import Options
from chaos.quorum_nemesis import Nemesis, Schedule
from chaos.referee import Referee
from chaos.report import save
from chaos.runner import Outcome
from chaos.site import BrokenPromiseError
from raftlog.cli.local_cluster import ClusterError
from raftlog.errors import RaftlogError

NAME = "groups"
DEFAULT_DURATION_S = 60.0
TOPIC, GROUP = "chaos", "chaos"
PARTITIONS = 6
BROKERS = 3
PAUSE_S = 0.02
"""The pause between two records of a partition."""
CAUGHT_UP_WITHIN_S = 60.0
READY_WITHIN_S = 60.0
LOOK_S = 0.2
CONTROLLER_KILLS = 0.25
"""The share of rounds in which the active controller is killed, too."""


class Group:
    """The group as a client outside it sees it, directly and not through a proxy."""

    def __init__(self, cluster: ChaosCluster, history: GroupHistory) -> None:
        self._history = history
        self._admin = raftlog.Admin(cluster.bootstrap, timeout_ms=1_500)
        self.committed: dict[int, int] = {}

    async def close(self) -> None:
        await self._admin.close()

    async def watch(self) -> None:
        """Record the committed offsets again and again."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        """Record the committed offsets now, if a broker answers."""
        invoked = time.monotonic_ns()
        with suppress(RaftlogError):
            offsets = await self._admin.group_offsets(GROUP)
            completed = time.monotonic_ns()
            forgotten = dict.fromkeys(self.committed, 0)  # An offset that was committed is not omitted later.
            self.committed = forgotten | {partition.partition: offset for partition, offset in offsets.items()}
            self._history.sightings += [
                Sighting(partition=number, offset=offset, invoked_ns=invoked, completed_ns=completed)
                for number, offset in self.committed.items()
            ]

    async def coordinator(self) -> str | None:
        """Return the broker that coordinates the group, or None while it is unknown."""
        try:
            return f"broker-{(await self._admin.find_coordinator('group', GROUP)).broker_id}"
        except RaftlogError:
            return None


class Load:
    """Producers, one for each partition, that write until they are stopped."""

    def __init__(self, cluster: ChaosCluster) -> None:
        self._cluster = cluster
        self.stopping = False
        self.acknowledged_end: Counter[int] = Counter()
        """By partition, the offset after the last acknowledged record."""

    async def run(self) -> None:
        await asyncio.gather(*(self._produce(partition) for partition in range(PARTITIONS)))

    async def _produce(self, partition: int) -> None:
        number = 0
        async with raftlog.Producer(
            self._cluster.bootstrap,
            dial=self._cluster.dial,
            linger_ms=0,
            delivery_timeout_ms=10_000,
            request_timeout_ms=2_000,
        ) as producer:
            while not self.stopping:
                with suppress(RaftlogError):  # The final read shows whether the record was appended.
                    sent = await producer.send(TOPIC, b"%d" % number, partition=partition)
                    self.acknowledged_end[partition] = sent.offset + 1
                number += 1
                await asyncio.sleep(PAUSE_S)


@dataclass(slots=True)
class _Run:
    """One run, and its measurements."""

    seed: int
    duration_s: float
    history: GroupHistory = field(default_factory=GroupHistory)
    figures: dict[str, Any] = field(default_factory=dict)
    _goal: dict[int, int] = field(default_factory=dict)
    """By partition, the acknowledged end when the group last had to catch up."""
    caught_up_ms: list[int] = field(default_factory=list)
    """For each round, the time from when every node was ready until all written records were committed."""

    async def on(self, cluster: ChaosCluster, folder: Path) -> None:
        orders = Orders(
            name="",
            bootstrap=cluster.bootstrap,
            dial=cluster.dial,
            topic=TOPIC,
            group=GROUP,
            automatic=False,
            seed=self.seed,
            parent_pid=os.getpid(),
            session_timeout_ms=SESSION_TIMEOUT_MS,
            file="",
        )
        crowd = Crowd(orders, folder / "members", note=self.history.note)
        self.figures["members"] = crowd.counts
        group, load = Group(cluster, self.history), Load(cluster)
        try:
            async with crowd, _running(group.watch()), _running(load.run()) as producing:
                await self._until_caught_up(group, load)
                await self._storm(cluster, crowd, group, load)
                load.stopping = True
                await producing
                await self._until_caught_up(group, load, growing=False)
            if crowd.broken:
                raise BrokenPromiseError("; ".join(crowd.broken))
            self.history.records = await _all_records(cluster)
        finally:
            await group.close()
            crowd.write_into(self.history)

    async def _storm(self, cluster: ChaosCluster, crowd: Crowd, group: Group, load: Load) -> None:
        schedule = Schedule(self.seed, targets=cluster.nodes.brokers, peers=cluster.nodes.controllers)
        nemesis = Nemesis(cluster, schedule, active=group.coordinator, note=self.history.note)
        dice, started = random.Random(self.seed), time.monotonic()
        self.figures["faults"] = nemesis.counts
        async with Referee(cluster) as referee:
            while time.monotonic() - started < self.duration_s:
                disturbing = asyncio.ensure_future(crowd.disturb(dice.uniform(0, 3)))
                victim = await referee.active() if dice.random() < CONTROLLER_KILLS else None
                if victim is not None:
                    self.history.note(f"kill: {victim}")
                    nemesis.counts["kill controller"] += 1
                    await cluster.kill(victim)
                drawn = await nemesis.round()
                if victim is not None:
                    await cluster.start(victim)
                await disturbing
                await nemesis.until_ready(READY_WITHIN_S)  # Without two of three brokers no commit succeeds.
                self.caught_up_ms.append(await self._until_caught_up(group, load))
                spent = time.monotonic() - started
                sys.stderr.write(
                    f"  {spent:5.0f} s, round {len(self.caught_up_ms)}: {drawn}; "
                    f"caught up after {self.caught_up_ms[-1]} ms\n"
                )

    async def _until_caught_up(self, group: Group, load: Load, *, growing: bool = True) -> int:
        """Wait until the group has committed all records acknowledged until now; return the milliseconds that took.

        Args:
            growing: every partition must have acknowledged more than the last time.
        """
        started = time.monotonic()
        if growing:
            await _until(
                lambda: not stalled(self._goal, load.acknowledged_end), CAUGHT_UP_WITHIN_S, "records are written"
            )
        self._goal = goal = dict(load.acknowledged_end)
        await _until(
            lambda: all(group.committed.get(partition, 0) >= end for partition, end in goal.items()),
            CAUGHT_UP_WITHIN_S,
            "the group has committed all that was written",
        )
        return round(1_000 * (time.monotonic() - started))


def stalled(before: Mapping[int, int], now: Mapping[int, int]) -> list[int]:
    """Return the partitions that have acknowledged nothing since `before`."""
    return [partition for partition in range(PARTITIONS) if now.get(partition, 0) <= before.get(partition, 0)]


async def run_groups(folder: Path, options: Options) -> Outcome:
    """Run the scenario in a new `folder`, which also keeps the report and the history."""
    shutil.rmtree(folder, ignore_errors=True)
    run, broken = _Run(options.seed, options.duration_s or DEFAULT_DURATION_S), ""
    try:
        settings = settings_for_load(BROKERS) if options.load else {}
        async with (
            ChaosCluster(folder / "cluster", command=options.command, secure=options.secure, **settings) as cluster,
            bulk_load(cluster, folder / "bulk", options.load, brokers=BROKERS, configs={}) as bulk,
        ):
            async with raftlog.Admin(cluster.bootstrap) as admin:
                await admin.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=BROKERS)
            await cluster.wait_full_isr(TOPIC, within_s=30)
            async with bulk or nullcontext():
                await run.on(cluster, folder)
            await judge_bulk(bulk, run.figures)
    except (BrokenPromiseError, BulkLoadError, ClusterError) as error:
        broken = str(error)
    finally:
        run.history.save(folder / "history.jsonl")
    return Outcome(_report(run, check_group(run.history), folder, broken))


def _report(run: _Run, verdict: GroupVerdict, folder: Path, broken: str) -> dict[str, Any]:
    caught_up = run.caught_up_ms or [-1]
    report = {
        "ok": verdict.ok and not broken,
        "scenario": NAME,
        "seed": run.seed,
        "valid": verdict.valid,
        "records": verdict.records,
        "processed_again": verdict.again,
        "commits": verdict.commits,
        "takeovers": verdict.takeovers,
        "rounds": len(run.caught_up_ms),
        "caught_up_after_healing_ms": {"median": round(statistics.median(caught_up)), "max": max(caught_up)},
        "anomalies": dict(Counter(anomaly.kind for anomaly in verdict.anomalies)),
        "broken_promise": broken,
        **run.figures,
    }
    save(folder, report, verdict.anomalies)
    return report


async def _all_records(cluster: ChaosCluster) -> dict[int, list[int]]:
    """Read the topic from its start to its end with a new client: the offset of every record."""
    found: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
    async with raftlog.Consumer(cluster.bootstrap, TOPIC, start="earliest") as consumer:
        ends = await consumer.end_offsets()
        while any(consumer.position(*partition) < end for partition, end in ends.items()):
            for record in await consumer.fetch():
                found[record.partition].append(record.offset)
    return found


@asynccontextmanager
async def _running(work: Coroutine[Any, Any, None]) -> AsyncIterator[asyncio.Task[None]]:
    """Run work in the background and stop it when the block is left. The block raises the errors of the work."""
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _until(holds: Callable[[], bool], within_s: float, what: str) -> None:
    deadline = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > deadline:
            raise BrokenPromiseError(f"not within {within_s:g} s: {what}")
        await asyncio.sleep(0.02)
