"""10, 100 and 1,000 partitions of three replicas: what they cost in throughput and in memory."""

from __future__ import annotations

import asyncio
import time

import raftlog
from benchmarks.loads import Load, broker_pids, loaded, memory_mb
from benchmarks.report import Bound, Effort, Figure, repeat

_COUNTS = (10, 100, 1_000)
_IDLE_S = 5.0
_BATCH_BYTES = 64 << 10
"""Small, so that a producer without keys comes by every partition."""


def throughput(effort: Effort) -> list[Figure]:
    """The same records over more partitions, all topics there from the start; round by round, for the ratio."""
    with loaded(effort) as load:
        for count in _COUNTS:
            asyncio.run(_create(load, count))
        rounds = [
            {count: _rate(load, count) for count in _COUNTS}
            for _ in repeat(effort.pick(5, quick=2), "10, 100 and 1,000 partitions")
        ]
        peaks = memory_mb(broker_pids(load.cluster), "VmHWM")
    rates = [
        Figure(name=f"partitions_{count}_records_per_s", samples=[each[count] for each in rounds], better="more")
        for count in _COUNTS
    ]
    ratio = Figure(
        name="throughput_1000_over_10",
        samples=[each[1_000] / each[10] for each in rounds],
        bounds=(Bound(statistic="median", at_least=0.8),),
    )
    memory = Figure(
        name="broker_1110_partitions_loaded_mb",
        samples=peaks,
        bounds=(Bound(statistic="max", at_most=250),),
        better="less_whatever_speed",
        notes={"of": "the most each broker ever had"},
    )
    return [*rates, ratio, memory]


async def _create(load: Load, count: int) -> None:
    async with raftlog.Admin(load.cluster.bootstrap, timeout_ms=60_000) as admin:
        configs: dict[str, str | int | float | bool] = {"flush": "os"}
        await admin.create_topic(f"of-{count}", partitions=count, replication_factor=3, configs=configs)


def _rate(load: Load, count: int) -> float:
    options = {"exists": True, "producer": {"batch_bytes": _BATCH_BYTES}}
    result = load.run(work="produce", topic=f"of-{count}", max_bytes=128 << 20, options=options)
    return float(result["records_per_s"])


def idle_memory(effort: Effort) -> list[Figure]:
    """Resident memory of each broker of a cluster that nobody has used."""
    with loaded(effort) as load:
        time.sleep(_IDLE_S)  # What a start needs for a moment is given back by then.
        samples = memory_mb(broker_pids(load.cluster))
    bounds = (Bound(statistic="max", at_most=80),)
    return [Figure(name="idle_broker_mb", samples=samples, bounds=bounds, better="less_whatever_speed")]


FIGURES = {"throughput": throughput, "idle_memory": idle_memory}
