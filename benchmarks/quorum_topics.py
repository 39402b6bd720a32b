"""What many partitions cost the controllers: creating 1,000 at once, and keeping 15,500."""

from __future__ import annotations

import asyncio
import time

from benchmarks.clusters import ControllerClient, Controllers, fake_brokers, running
from benchmarks.report import Bound, Figure
from raftlog.cli.local_cluster import LocalCluster
from raftlog.client import Admin
from raftlog.wire.metadata import CreateTopicRequest

_PARTITIONS = 1_000


def create_1000_partitions_ms(*, quick: bool) -> list[Figure]:
    """Create a topic of 1,000 partitions: on real brokers, and on fakes that open no logs."""
    bounds = (Bound(statistic="max", at_most=2_000),)
    with running(Controllers, controllers=3, brokers=3) as cluster:
        decided = asyncio.run(_create_on_fakes(cluster, times=2 if quick else 5))
    with running(controllers=3, brokers=3) as cluster:
        created = asyncio.run(_create_on_brokers(cluster, times=1 if quick else 3))
    return [
        Figure(name="create_1000_partitions_ms", samples=created, bounds=bounds),
        Figure(name="create_1000_without_logs_ms", samples=decided, bounds=bounds),
    ]


def thousand(name: str, partitions: int = _PARTITIONS) -> CreateTopicRequest:
    return CreateTopicRequest(topic=name, partitions=partitions, replication_factor=3, if_not_exists=True)


async def _create_on_fakes(cluster: LocalCluster, *, times: int) -> list[float]:
    taken = []
    async with ControllerClient(cluster) as client, fake_brokers(cluster) as fakes:
        active = await client.active()
        for i in range(times):
            before = min(fake.offset for fake in fakes)
            started = time.perf_counter()
            await client.create_topic([active], thousand(f"many-{i}"))
            taken.append((time.perf_counter() - started) * 1000)
            async with asyncio.timeout(30):
                while min(fake.offset for fake in fakes) <= before:
                    await asyncio.sleep(0.01)
    return taken


async def _create_on_brokers(cluster: LocalCluster, *, times: int) -> list[float]:
    taken = []
    async with Admin(cluster.bootstrap, timeout_ms=60_000) as admin:
        for i in range(times):
            started = time.perf_counter()
            await admin.create_topic(f"many-{i}", partitions=_PARTITIONS, replication_factor=3)
            taken.append((time.perf_counter() - started) * 1000)
            await admin.delete_topic(f"many-{i}")
            await asyncio.sleep(2)  # Brokers delete the logs in the background.
    return taken
