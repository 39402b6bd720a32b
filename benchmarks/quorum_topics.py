"""How long the creation of a topic of 1,000 partitions takes."""

from __future__ import annotations

import asyncio
import time

from benchmarks.clusters import ControllerClient, Controllers, caught_up, fake_brokers, running
from benchmarks.report import Bound, Effort, Figure, repeat
from raftlog.cli.local_cluster import LocalCluster
from raftlog.client import Admin
from raftlog.wire.metadata import CreateTopicRequest

_PARTITIONS = 1_000


def create_1000_partitions_ms(effort: Effort) -> list[Figure]:
    """Create a topic of 1,000 partitions: on real brokers, and on fakes that open no logs."""
    bounds = (Bound(statistic="max", at_most=2_000),)
    with running(Controllers, controllers=3, brokers=3) as cluster:
        decided = asyncio.run(_create_on_fakes(cluster, times=effort.pick(5, quick=2)))
    with running(controllers=3, brokers=3) as cluster:
        created = asyncio.run(_create_on_brokers(cluster, times=effort.pick(3, quick=1)))
    return [
        Figure(name="create_1000_partitions_ms", samples=created, bounds=bounds),
        Figure(name="create_1000_without_logs_ms", samples=decided, bounds=bounds),
    ]


async def _create_on_fakes(cluster: LocalCluster, *, times: int) -> list[float]:
    taken = []
    async with ControllerClient(cluster) as client, fake_brokers(cluster) as fakes:
        active = await client.active()
        for i in repeat(times, "topics, fake brokers"):
            request = CreateTopicRequest(topic=f"many-{i}", partitions=_PARTITIONS, replication_factor=3)
            before = max(fake.offset for fake in fakes)
            started = time.perf_counter()
            await client.create_topic([active], request)
            taken.append((time.perf_counter() - started) * 1000)
            await caught_up(fakes, before + 1)
    return taken


async def _create_on_brokers(cluster: LocalCluster, *, times: int) -> list[float]:
    taken = []
    async with Admin(cluster.bootstrap, timeout_ms=60_000) as admin:
        for i in repeat(times, "topics, real brokers"):
            started = time.perf_counter()
            await admin.create_topic(f"many-{i}", partitions=_PARTITIONS, replication_factor=3)
            taken.append((time.perf_counter() - started) * 1000)
            await admin.delete_topic(f"many-{i}")
            await asyncio.sleep(2)  # Brokers delete the logs in the background.
    return taken
