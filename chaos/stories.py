"""What is done to a cluster under load, scenario by scenario. The checker judges what clients saw."""

from __future__ import annotations

import asyncio
import random
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise

from chaos.cluster import ChaosCluster
from chaos.failover import outages
from chaos.history import Fault, History
from chaos.nemesis import Nemesis, Schedule
from chaos.options import Options
from chaos.site import BrokenPromiseError, Site
from chaos.topology import CLIENT
from chaos.watch import Watch
from chaos.workload import Workload, read_everything

LEADER_WITHIN_S = 30.0
LOAD_WITHIN_S = 120.0
ALONE_S = 4.0
"""For how long a replica that must not lead is the only one: an election takes a fraction of a second."""
MAX_GAP_S = 1.0
"""How long a rolling restart may keep a partition from acknowledging."""


@dataclass(slots=True)
class Run:
    """What a scenario works with. `figures` go into the report."""

    cluster: ChaosCluster
    workload: Workload
    watch: Watch
    site: Site
    history: History
    topic: str
    options: Options
    dice: random.Random
    figures: dict[str, float] = field(default_factory=dict)

    @property
    def brokers(self) -> list[str]:
        return self.cluster.nodes.brokers

    async def warm_up(self, count: int = 100) -> None:
        """Wait until records are acknowledged, and see that no connection avoids its proxy."""
        await self.load(count)
        if bypasses := self.cluster.bypasses():
            raise BrokenPromiseError(f"connections bypass the proxies: {bypasses}")

    async def load(self, count: int) -> None:
        """Let so many more records be acknowledged. A machine that is too slow for that is not a broken promise.

        Raises:
            TimeoutError: it is.
        """
        try:
            await self.workload.more_acknowledged(count, within_s=LOAD_WITHIN_S)
        except TimeoutError:
            raise TimeoutError(f"{count} records were not acknowledged within {LOAD_WITHIN_S:g} s") from None

    async def until_acknowledged(self, figure: str) -> None:
        """Wait until every partition acknowledges new records, and note how long that took, in ms."""
        try:
            seconds = await self.workload.acknowledged_everywhere(within_s=LEADER_WITHIN_S)
        except TimeoutError:
            raise BrokenPromiseError(
                f"{figure}: not every partition acknowledged within {LEADER_WITHIN_S:g} s"
            ) from None
        self.figures[figure] = round(seconds * 1000)

    @contextmanager
    def fault(self, kind: str, target: str, *nodes: str) -> Iterator[Fault]:
        """Note a fault that lasts as long as the block."""
        fault = Fault(kind=kind, target=target, nodes=nodes, begun_ns=time.monotonic_ns())
        self.history.faults.append(fault)
        self.history.note(f"{kind} x {target}: {' '.join(nodes)}")
        try:
            yield fault
        finally:
            fault.ended_ns = time.monotonic_ns()
            self.history.note(f"end of {kind} x {target}")


async def isolate_leader_then_kill_all_but_one(run: Run) -> None:
    """Cut a leader off from all nodes (clients still reach it), heal; then kill N-1 replicas at once, restart."""
    cluster = run.cluster
    await run.warm_up(200)
    leader = await cluster.leader_of(run.topic, 0)
    with run.fault("partition", "leader", leader):
        cluster.links.isolate(leader, spare=frozenset({CLIENT}))
        await run.until_acknowledged("isolated_leader_replaced_ms")
        await asyncio.sleep(1)
        cluster.links.heal()
    await run.site.until_in_sync()
    await run.load(200)

    survivor = await cluster.leader_of(run.topic, 1)
    victims = [name for name in run.brokers if name != survivor]
    with run.fault("SIGKILL", "N-1", *victims):
        await cluster.kill(*victims)
        await cluster.restart(*victims)
    await run.until_acknowledged("back_after_restart_ms")
    await run.site.until_in_sync()


async def kill_each_process(run: Run) -> None:
    """Kill each process of the cluster in turn, the leader and the active controller among them, and restart it."""
    for name in run.cluster.nodes.names:
        with run.fault("SIGKILL", "each", name):
            await run.cluster.kill(name)
            await run.until_acknowledged(f"after_{name}_ms")
            await run.cluster.restart(name)
        await run.site.until_in_sync()
        await run.load(50)


async def n_minus_1(run: Run) -> None:
    """Lose N-1 of N replicas: killed at once, one after another, by power, with their disks. The last one has it all.

    While it is alone, every acknowledged record is read from it.
    """
    ways = ["at once", "one after another"]
    if run.cluster.disks:
        ways += ["power cut", "disks lost"]
    for number, way in enumerate(ways):
        await run.load(100)
        survivor = run.brokers[number % len(run.brokers)]
        victims = [name for name in run.brokers if name != survivor]
        run.dice.shuffle(victims)
        with run.fault("power cut" if way == "power cut" else "SIGKILL", "N-1", *victims):
            await _lose(run, victims, way)
            await _reads_everything_from(run, survivor, f"{survivor} alone, {way}")
        await run.site.heal()
        await run.site.until_well()


async def _lose(run: Run, victims: list[str], way: str) -> None:
    if way == "power cut":
        await run.site.cut_power(victims)
        return
    if way == "one after another":
        for name in victims:
            await run.cluster.kill(name)
            await asyncio.sleep(run.dice.uniform(0.2, 1.5))
        return
    await run.cluster.kill(*victims)
    if way == "disks lost" and run.cluster.disks:
        for name in victims:
            run.cluster.disks[name].wipe()


async def _reads_everything_from(run: Run, survivor: str, process: str) -> None:
    """Read all that was acknowledged before from the only replica left."""
    acknowledged = {send.value for send in run.history.sends if send.durable}
    alone = History()
    try:
        async with asyncio.timeout(LEADER_WITHIN_S):
            while any(run.watch.leader(p) != survivor for p in range(run.workload.partitions)):
                await asyncio.sleep(0.05)
            url = run.cluster.nodes.public_url(survivor)
            await read_everything(alone, bootstrap=[url], topic=run.topic, process=process)
    except TimeoutError:
        raise BrokenPromiseError(f"{survivor} is the last replica, and nobody can read from it") from None
    run.history.reads += alone.final_reads
    if missing := acknowledged - {read.value for read in alone.final_reads}:
        raise BrokenPromiseError(f"{survivor}, the last replica, lacks {len(missing)}: {sorted(missing)[:5]}")


async def cold_start(run: Run) -> None:
    """Kill every process at once, and start them in random order; three times."""
    for _ in range(3):
        await run.load(100)
        names = list(run.cluster.nodes.names)
        with run.fault("SIGKILL", "all", *names):
            await run.cluster.kill(*names)
            run.dice.shuffle(names)
            for name in names:
                await asyncio.to_thread(run.cluster.nodes.start_node, name)
                await asyncio.sleep(run.dice.uniform(0, 0.5))
            await run.cluster.restart(*names)
        await run.site.until_well()


async def rolling_restart(run: Run) -> None:
    """Restart every node, one after another; no partition may stop acknowledging for more than a second."""
    await run.warm_up()
    started = time.monotonic_ns()
    with run.fault("rolling restart", "all", *run.cluster.nodes.names):
        await run.site.restart_one_by_one(run.cluster.nodes.names)
    gap_s, when_s = _longest_gap(run, started, time.monotonic_ns())
    run.figures["longest_gap_ms"] = round(gap_s * 1000)
    if gap_s > MAX_GAP_S:
        raise BrokenPromiseError(f"a partition acknowledged nothing for {gap_s:.2f} s, {when_s:.1f} s after the start")


def _longest_gap(run: Run, started_ns: int, ended_ns: int) -> tuple[float, float]:
    """Return the longest time without an acknowledgement of one partition, and when it began."""
    moments: dict[int, list[int]] = {partition: [started_ns] for partition in range(run.workload.partitions)}
    for send in run.history.sends:
        if send.durable and started_ns <= send.completed_ns <= ended_ns:
            moments[send.partition].append(send.completed_ns)
    gaps = [
        (after - before, before) for times in moments.values() for before, after in pairwise([*sorted(times), ended_ns])
    ]
    gap, when = max(gaps)
    return gap / 1e9, (when - started_ns) / 1e9


KILLS = 20
MAX_MEDIAN_MS, MAX_P99_MS, MAX_HUNG_MS = 1_000, 2_000, 4_500


async def failover(run: Run) -> None:
    """Kill a leader and the active controller within 10 ms, again and again; a leader alone; and hang a leader."""
    await run.warm_up()
    kills = run.options.kills or KILLS
    for number in range(kills):
        await _fail_over(run, "leader and controller")
        await _fail_over(run, "leader")
        if number % 4 == 0:
            await _fail_over(run, "leader", hang=True)
    found = outages(run.history)
    for kind, target in (("SIGKILL", "leader and controller"), ("SIGKILL", "leader"), ("SIGSTOP", "leader")):
        times = sorted(ms for outage in found if (outage.kind, outage.target) == (kind, target) for ms in (outage.ms,))
        if not times:
            raise BrokenPromiseError(f"no failover was seen of {kind} x {target}")
        median, p99 = times[len(times) // 2], times[min(len(times) - 1, int(0.99 * len(times)))]
        name = f"{kind} {target}".lower().replace(" ", "_")
        run.figures |= {f"{name}_median_ms": median, f"{name}_p99_ms": p99}
        limits = (MAX_HUNG_MS, MAX_HUNG_MS) if kind == "SIGSTOP" else (MAX_MEDIAN_MS, MAX_P99_MS)
        if median > limits[0] or p99 > limits[1]:
            raise BrokenPromiseError(f"{kind} x {target}: median {median} ms, p99 {p99} ms; at most {limits} ms")


async def _fail_over(run: Run, target: str, *, hang: bool = False) -> None:
    leader = await run.cluster.leader_of(run.topic, run.dice.randrange(run.workload.partitions))
    victims = [leader]
    if target != "leader" and run.watch.active_controller:
        victims.append(run.watch.active_controller)
    with run.fault("SIGSTOP" if hang else "SIGKILL", target, *victims):
        if hang:
            await run.site.pause(victims)
        else:
            await run.cluster.kill(*victims)
        await run.until_acknowledged("last_failover_ms")
        await run.site.heal()
    await run.site.until_well()


async def power_cut_of_all(run: Run) -> None:
    """Cut the power of every node at once: under load, and a second after the last acknowledgement."""
    names = run.cluster.nodes.names
    for quiet in (False, True):
        await run.load(200)
        if quiet:
            await run.workload.pause()
            await asyncio.sleep(1)
        with run.fault("power cut", "all", *names):
            await run.site.cut_power(names)
            await run.site.heal()
        run.workload.go_on()
        await run.site.until_well()


async def last_replica(run: Run) -> None:
    """Leave one replica in sync, write on, cut its power, start it first: it has lost its tail (KIP-966).

    The topic leaves what it writes to the page cache (flush=os), so a power cut loses some; the others have it all.
    """
    await run.warm_up()
    last, *others = run.brokers
    with run.fault("SIGKILL", "N-1", *others):
        await run.cluster.kill(*others)
        await asyncio.sleep(2)
        with run.fault("power cut", "last in sync", last):
            await run.site.cut_power([last])
            await run.site.heal_only(last)
        await asyncio.sleep(ALONE_S)
        await run.cluster.restart(*others)
    await run.site.until_well()


async def lost_disk(run: Run) -> None:
    """Kill all brokers, give one an empty disk, start it first: it must not lead with nothing."""
    await run.warm_up()
    emptied, *others = run.brokers
    with run.fault("SIGKILL", "all", *run.brokers):
        await run.cluster.kill(*run.brokers)
        await asyncio.to_thread(shutil.rmtree, run.cluster.data_dir(emptied))
        await run.cluster.start(emptied)
        await asyncio.sleep(ALONE_S)
        await run.cluster.restart(*others)
    await run.site.until_well()


async def stale_replica(run: Run) -> None:
    """Let a replica fall out of sync, kill the others, start it alone: it must not lead (never unclean)."""
    await run.warm_up()
    stale, *others = run.brokers
    with run.fault("SIGKILL", "follower", stale):
        await run.cluster.kill(stale)
        await run.until_acknowledged("without_the_stale_one_ms")
        await run.load(200)
        with run.fault("SIGKILL", "N-1", *others):
            await run.cluster.kill(*others)
            await run.cluster.start(stale)
            await asyncio.sleep(ALONE_S)
            await run.cluster.restart(*others)
    await run.site.until_well()


async def paused_leader(run: Run) -> None:
    """Hang a leader until another one leads, and let it go on: what it then says counts for nothing (KIP-320)."""
    for partition in range(run.workload.partitions):
        await run.load(100)
        leader = await run.cluster.leader_of(run.topic, partition)
        with run.fault("SIGSTOP", "leader", leader):
            await run.site.pause([leader])
            await run.until_acknowledged("hung_leader_replaced_ms")
            await asyncio.sleep(0.5)
            await run.site.heal()
        await run.site.until_well()


async def lost_answers(run: Run) -> None:
    """Let answers to clients vanish, so that they send again; nothing else, or the leader dies, or all brokers do."""
    for way in ("nothing else", "a leader dies", "all brokers die"):
        await run.load(100)
        with run.fault("lost answers", way, CLIENT):
            for broker in run.brokers:
                run.cluster.links.cut_one_way(broker, CLIENT)
            await asyncio.sleep(0.3)
            if way == "a leader dies":
                await run.cluster.kill(await run.cluster.leader_of(run.topic, 0))
            elif way == "all brokers die":
                await run.cluster.kill(*run.brokers)
            await asyncio.sleep(0.2)
            await run.site.heal()
        await run.site.until_well()


async def matrix(run: Run) -> None:
    """Every cell of the matrix once."""
    await run.warm_up()
    await _nemesis(run).run(Schedule(run.options.seed).sweep())


async def swarm(run: Run) -> None:
    """Cells drawn at random, alone and in pairs, for as long as DURATION or HOURS say (two minutes)."""
    await run.warm_up()
    until = time.monotonic() + (run.options.duration_s or 120)
    await _nemesis(run).run(Schedule(run.options.seed).swarm(), until=until)


def _nemesis(run: Run) -> Nemesis:
    return Nemesis(run.site, run.history, run.options.capabilities)
