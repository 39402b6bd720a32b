"""Produce with and without a sync before each acknowledgement, alternating: what fsync costs, and nothing else.

One cluster has both topics, and every round measures both, the order changing from round to round. Two tables of
different minutes would also compare the page cache, the disk and the host's other work of those minutes.
"""

from __future__ import annotations

import asyncio
import os
import time

from benchmarks.clusters import running
from benchmarks.datapath import cluster_cpu_s
from benchmarks.report import Bound, Effort, Figure, repeat
from raftlog.cli.local_cluster import LocalCluster
from raftlog.client import Admin, Producer

_FLUSH = {"unsynced": "os", "synced": "batch"}
_BATCH_BYTES, _BUFFER_BYTES = 4 << 20, 32 << 20
_CHUNK = 1_000
_SENDERS = 48


async def _produced(cluster: LocalCluster, effort: Effort, record_bytes: int) -> list[Figure]:
    rates: dict[str, list[float]] = {name: [] for name in _FLUSH}
    costs: dict[str, list[float]] = {name: [] for name in _FLUSH}
    async with Admin(cluster.bootstrap) as admin:
        for name, flush in _FLUSH.items():
            await admin.create_topic(f"{name}-{record_bytes}", partitions=1, configs={"flush": flush})
    async with Producer(cluster.bootstrap, batch_bytes=_BATCH_BYTES, buffer_bytes=_BUFFER_BYTES) as producer:
        for number in repeat(1 + effort.pick(9, quick=2), f"produce {record_bytes} B"):
            for name in sorted(_FLUSH, reverse=bool(number % 2)):
                began, cpu = time.perf_counter(), cluster_cpu_s(cluster)
                count = await _send(producer, f"{name}-{record_bytes}", record_bytes, effort.pick(3, quick=1))
                if number:  # The first round warms up.
                    rates[name].append(count / (time.perf_counter() - began))
                    costs[name].append((cluster_cpu_s(cluster) - cpu) * 1e6 / count)
    ratios = [unsynced / synced for unsynced, synced in zip(*rates.values(), strict=True)]
    return [
        *(Figure(name=f"{name}_{record_bytes}b_records_per_s", samples=samples) for name, samples in rates.items()),
        *(Figure(name=f"{name}_{record_bytes}b_cluster_cpu_us", samples=samples) for name, samples in costs.items()),
        Figure(
            name=f"unsynced_over_synced_{record_bytes}b",
            samples=ratios,
            bounds=(Bound(statistic="median", at_least=1.0),),
        ),
    ]


async def _send(producer: Producer, topic: str, record_bytes: int, seconds: float) -> int:
    """Send for some time; return how many records were acknowledged."""
    values, until, sent = [os.urandom(record_bytes) for _ in range(_CHUNK)], time.perf_counter() + seconds, 0

    async def send() -> None:
        nonlocal sent
        while time.perf_counter() < until:
            deliveries = await producer.send_many(topic, values)
            sent += len(deliveries)

    async with asyncio.TaskGroup() as group:
        for _ in range(_SENDERS):
            group.create_task(send())
    return sent


def produce(effort: Effort) -> list[Figure]:
    """Records of 100 B and 1 KB, three replicas, acks=all."""
    with running() as cluster:
        return [figure for size in (100, 1_000) for figure in asyncio.run(_produced(cluster, effort, size))]


FIGURES = {"produce": produce}
