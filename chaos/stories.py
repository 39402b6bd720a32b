"""The faults of each scenario's cluster under load. The checker judges the clients' history."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from chaos.client_kinds import ClientKind
from chaos.failover import outages, p99
from chaos.history import Send
from chaos.nemesis import Nemesis, Schedule
from chaos.run import Run
from chaos.site import BrokenPromiseError
from chaos.topology import CLIENT

SWARM_S = 60.0
MAX_GAP_S = 1.0
"""How long a rolling restart may keep a partition, or a kind of client, from an acknowledgement."""


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
    """Kill and restart each process of the cluster, one at a time, the leader and the active controller among them."""
    await kill_each(run, run.cluster.nodes.names)


async def kill_each(run: Run, names: Iterable[str]) -> None:
    """Kill and restart these processes, one at a time."""
    for name in names:
        with run.fault("SIGKILL", "each", name):
            await run.cluster.kill(name)
            await run.until_acknowledged(f"after_{name}_ms")
            await run.cluster.restart(name)
        await run.site.until_in_sync()
        await run.load(50)


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
                run.cluster.down.discard(name)
                await asyncio.sleep(run.dice.uniform(0, 0.5))
            run.cluster.require_no_crash()
            await run.cluster.restart(*names)
        await run.site.until_well()


async def rolling_restart(run: Run) -> None:
    """Restart every node in turn; no partition, and no kind of client, may be without acknowledgement for a second."""
    await run.warm_up()
    started = time.monotonic_ns()
    with run.fault("rolling restart", "all", *run.cluster.nodes.names):
        await run.site.restart_one_by_one(run.cluster.nodes.names)
    gap = longest_gap(run.history.sends, run.workload.partitions, run.workload.kinds, started, time.monotonic_ns())
    run.figures["longest_gap_ms"] = round(gap.seconds * 1000)
    if gap.seconds > MAX_GAP_S:
        raise BrokenPromiseError(
            f"{gap.of} acknowledged nothing for {gap.seconds:.2f} s, {gap.at_s:.1f} s after the start"
        )


@dataclass(frozen=True, slots=True, order=True)
class Gap:
    """A time without an acknowledgement."""

    seconds: float
    at_s: float
    """When it began, after the start."""
    of: str


def longest_gap(
    sends: Iterable[Send], partitions: int, kinds: Iterable[ClientKind], started_ns: int, ended_ns: int
) -> Gap:
    """Return the longest time without an acknowledgement of one partition, or to one kind of client with acks=all."""
    durable = [kind for kind in kinds if kind.acks == "all" and kind.library == "raftlog"]
    moments: dict[str, list[int]] = {f"partition {partition}": [started_ns] for partition in range(partitions)}
    moments |= {_kind(kind.idempotent): [started_ns] for kind in durable}
    for send in sends:
        if send.durable and started_ns <= send.completed_ns <= ended_ns:
            moments[f"partition {send.partition}"].append(send.completed_ns)
            moments.get(_kind(send.idempotent), []).append(send.completed_ns)
    return max(
        Gap((after - before) / 1e9, (before - started_ns) / 1e9, of)
        for of, times in moments.items()
        for before, after in pairwise([*sorted(times), ended_ns])
    )


def _kind(idempotent: bool) -> str:
    return "the client library" if idempotent else "the plain HTTP client"


KILLS = 10
APART, MAX_APART_MS = "kills_at_most_apart_ms", 10
PAIR_ATTEMPTS = 3


async def failover(run: Run) -> None:
    """Kill a leader and the active controller within 10 ms, again and again; a leader alone; and stop a leader."""
    await run.warm_up()
    for number in range(run.options.kills or KILLS):
        await _fail_over_both(run)
        await _fail_over(run, "leader")
        if number % 4 == 0:
            await _fail_over(run, "leader", hang=True)
    _require_within(run, "SIGKILL", "leader and controller", median_ms=1_000, p99_ms=2_000)
    _require_within(run, "SIGKILL", "leader", median_ms=1_000, p99_ms=2_000)
    _require_within(run, "SIGSTOP", "leader", median_ms=4_500, p99_ms=4_500)


def _require_within(run: Run, kind: str, target: str, *, median_ms: int, p99_ms: int) -> None:
    times = sorted(outage.ms for outage in outages(run.history) if (outage.kind, outage.target) == (kind, target))
    if not times:
        raise BrokenPromiseError(f"no failover was seen of {kind} x {target}")
    median, slow = times[len(times) // 2], p99(times)
    if median > median_ms or slow > p99_ms:
        limits = f"at most {median_ms} and {p99_ms} ms"
        raise BrokenPromiseError(f"failover after {kind} x {target}: median {median} ms, p99 {slow} ms; {limits}")


async def _fail_over_both(run: Run) -> None:
    """Kill a leader and the active controller; again if a busy machine took too long between the two signals."""
    for _ in range(PAIR_ATTEMPTS):
        apart_ms = await _fail_over(run, "leader and controller")
        if apart_ms <= MAX_APART_MS:
            run.figures[APART] = max(run.figures.get(APART, 0), round(apart_ms, 2))
            return
    raise TimeoutError(f"this machine could not kill two processes within {MAX_APART_MS} ms, {PAIR_ATTEMPTS} times")


async def _fail_over(run: Run, target: str, *, hang: bool = False) -> float:
    """Strike a partition's leader, wait for its successor, and heal; return the milliseconds between the kills."""
    apart_ms = 0.0
    leader = await run.cluster.leader_of(run.topic, run.dice.randrange(run.workload.partitions))
    victims = [leader]
    if target != "leader" and run.watch.active_controller:
        victims.append(run.watch.active_controller)
    with run.fault("SIGSTOP" if hang else "SIGKILL", target, *victims):
        if hang:
            await run.site.pause(victims)
        else:
            apart_ms = await run.cluster.kill(*victims)
        await run.until_acknowledged("last_failover_ms")
        await run.site.heal()
    await run.site.until_well()
    return apart_ms


async def paused_leader(run: Run) -> None:
    """Stop a leader until another one leads, then continue it: its later answers must not count (KIP-320)."""
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
    """Drop answers to clients, so that they retry: alone, then with a killed leader, then with all brokers killed."""
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
    """Cells drawn at random, alone and in pairs, for DURATION (default: a minute)."""
    await run.warm_up()
    until = time.monotonic() + (run.options.duration_s or SWARM_S)
    await _nemesis(run).run(Schedule(run.options.seed).swarm(), until=until)


def _nemesis(run: Run) -> Nemesis:
    return Nemesis(run.site, run.history, run.options.capabilities)
