"""Followers alone: how fast a restarted broker catches up with 256 MB, until it is in sync again."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import raftlog
from benchmarks.loads import Load, loaded
from benchmarks.report import Effort, Figure, repeat

_TOPIC = "behind"
_PARTITIONS = 6
_TIMEOUT_S = 120
_POLL_S = 0.02


def catch_up(effort: Effort) -> list[Figure]:
    """A broker is killed, others write, it restarts; the time begins when it is ready."""
    volume = (32 if effort.quick else 256) << 20
    with loaded(effort) as load:
        times = repeat(effort.pick(3, quick=1), "kill, write, catch up")
        samples = [_caught_up_MBps(load, f"{_TOPIC}-{number}", volume) for number in times]
    note = {"volume_mb": volume / 1e6, "partitions": _PARTITIONS}
    return [Figure(name="catch_up_MBps", samples=samples, better="more", notes=note)]


def _caught_up_MBps(load: Load, topic: str, volume: int) -> float:  # noqa: N802  (the unit's own spelling)
    cluster = load.cluster
    behind = cluster.brokers[-1]
    job: dict[str, Any] = {"topic": topic, "partitions": _PARTITIONS, "record_bytes": 1024, "max_bytes": volume}
    load.run(work="fill", seconds=0.1, warmup_s=0.0, **job)
    cluster.kill(behind)
    written = load.run(work="fill", seconds=60.0, warmup_s=0.0, **job, options={"exists": True})
    cluster.start_node(behind)
    cluster.wait_ready(names=[behind])
    started = time.perf_counter()
    asyncio.run(_in_sync(cluster.bootstrap, topic))
    return float(written["records"]) * 1024 / (time.perf_counter() - started) / 1e6


async def _in_sync(bootstrap: str, topic: str) -> None:
    async with raftlog.Admin(bootstrap) as admin, asyncio.timeout(_TIMEOUT_S):
        while True:
            partitions = (await admin.describe_topic(topic)).partitions
            if all(len(partition.isr) == len(partition.replicas) for partition in partitions):
                return
            await asyncio.sleep(_POLL_S)


FIGURES = {"catch_up": catch_up}
