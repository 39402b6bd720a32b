"""How long no controller accepts writes, and partitions have no leader, after a process is killed or paused."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

from benchmarks.clusters import ControllerClient, kill_now, running
from benchmarks.report import Bound, Effort, Figure, repeat
from raftlog.cli.local_cluster import LocalCluster
from raftlog.client import Admin
from raftlog.errors import RaftlogError
from raftlog.model import Address
from raftlog.transport import HttpSession
from raftlog.wire import paths
from raftlog.wire.metadata import ClientMetadata, CreateTopicRequest

_TOPIC = "bench"
_PARTITIONS = 30
_POLL_S = 0.01
_REJOIN_S = 60.0
FAILOVER_BOUNDS = (Bound(statistic="median", at_most=500), Bound(statistic="max", at_most=1_000))


def controller_failover_ms(effort: Effort) -> Figure:
    """Kill the active controller; time until its successor accepts a write."""
    with running(controllers=3, brokers=1) as cluster:
        samples = asyncio.run(fail_controllers(cluster, times=effort.kill_count(50, quick=10)))
    return Figure(name="controller_failover_ms", samples=samples, bounds=FAILOVER_BOUNDS)


async def fail_controllers(cluster: LocalCluster, *, times: int) -> list[float]:
    """Kill the active controller `times` times; return each time's ms without an accepted write."""
    taken = []
    async with ControllerClient(cluster) as client:
        for i in repeat(times, "controllers killed"):
            active = await client.active()
            # A phase of its own for each kill: heartbeats must not be in step with it.
            await asyncio.sleep(0.2 + 0.037 * (i % 10))
            survivors = [name for name in cluster.controllers if name != active]
            request = CreateTopicRequest(topic=f"after-{i}", partitions=1, replication_factor=1, if_not_exists=True)
            started = time.perf_counter()
            kill_now(cluster, active)
            await client.create_topic(survivors, request)
            taken.append((time.perf_counter() - started) * 1000)
            await asyncio.to_thread(cluster.restart, active)
            await asyncio.to_thread(cluster.wait_ready, names=[active])
    return taken


def broker_failover_ms(effort: Effort) -> list[Figure]:
    """Kill, then pause, a broker that leads; time until clients see new leaders of all its partitions."""
    with running(controllers=3, brokers=3) as cluster:
        killed = asyncio.run(_fail_brokers(cluster, times=effort.kill_count(15, quick=5), pause=False))
        paused = asyncio.run(_fail_brokers(cluster, times=effort.pick(4, quick=2), pause=True))
    return [
        Figure(name="broker_failover_ms", samples=killed, bounds=(Bound(statistic="median", at_most=1_000),)),
        Figure(name="broker_pause_ms", samples=paused, bounds=(Bound(statistic="max", at_most=4_500),)),
    ]


async def _fail_brokers(cluster: LocalCluster, *, times: int, pause: bool) -> list[float]:
    async with Admin(cluster.bootstrap) as admin:
        await admin.create_topic(_TOPIC, partitions=_PARTITIONS, replication_factor=3, if_not_exists=True)
    taken = []
    async with HttpSession() as session:
        for _ in repeat(times, "brokers paused" if pause else "brokers killed"):
            leaders = await _until_in_sync(cluster, session)
            victim_id = Counter(leaders.values()).most_common(1)[0][0]
            led = {partition for partition, leader in leaders.items() if leader == victim_id}
            victim = f"broker-{victim_id}"
            started = time.perf_counter()
            cluster.pause(victim) if pause else kill_now(cluster, victim)
            await _until_led_by_others(cluster, session, led, victim)
            taken.append((time.perf_counter() - started) * 1000)
            await asyncio.to_thread(cluster.resume if pause else cluster.restart, victim)
            await asyncio.to_thread(cluster.wait_ready)
    return taken


async def _until_led_by_others(cluster: LocalCluster, session: HttpSession, led: set[int], victim: str) -> None:
    """Wait until another broker reports a new leader for each partition that the victim led."""
    others = _public(cluster, [name for name in cluster.brokers if name != victim])
    dead = {-1, cluster.node(victim).node_id}
    async with asyncio.timeout(_REJOIN_S):
        while True:
            for address in others:
                metadata = await _metadata(session, address)
                leaders = {} if metadata is None else _leaders(metadata)
                if leaders and not any(leaders[partition] in dead for partition in led):
                    return
            await asyncio.sleep(_POLL_S)


async def _until_in_sync(cluster: LocalCluster, session: HttpSession) -> dict[int, int]:
    """Wait until every broker reports all replicas in sync; return each partition's leader."""
    async with asyncio.timeout(_REJOIN_S):
        while True:
            answers = [await _metadata(session, address) for address in _public(cluster, cluster.brokers)]
            known = [_leaders(metadata) for metadata in answers if metadata is not None and _is_in_sync(metadata)]
            # All of them: a broker that was paused a moment ago reports an old state.
            if len(known) == len(answers) and all(leaders == known[0] for leaders in known):
                return known[0]
            await asyncio.sleep(0.1)


def _public(cluster: LocalCluster, names: list[str]) -> list[Address]:
    return [address for name in names if (address := cluster.node(name).public) is not None]


def _is_in_sync(metadata: ClientMetadata) -> bool:
    return all(len(part.isr) == 3 for part in metadata.topics[0].partitions)


async def _metadata(session: HttpSession, address: Address) -> ClientMetadata | None:
    try:
        query = {"topic": _TOPIC}
        return await session.call(ClientMetadata, "GET", address, paths.METADATA, timeout_ms=1_000, query=query)
    except RaftlogError:
        return None


def _leaders(metadata: ClientMetadata) -> dict[int, int]:
    return {part.partition: part.leader for part in metadata.topics[0].partitions}
