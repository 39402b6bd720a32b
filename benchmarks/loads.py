"""A real cluster, and client processes that load it: shared by the end to end suites."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.clusters import running
from benchmarks.drivers.shape import Job
from benchmarks.report import Effort, Figure, repeat
from raftlog.cli.local_cluster import LocalCluster

_GRACE_S = 120
_LOADS = itertools.count(1)
_COST = ("server_cpu_s", "client_cpu_s")


class Load:
    """Gives jobs to client processes, one after another.

    Args:
        environment: more variables of the clients.
    """

    def __init__(self, cluster: LocalCluster, effort: Effort, environment: Mapping[str, str] | None = None) -> None:
        self.cluster = cluster
        self.effort = effort
        self._environment = {**os.environ, **(environment or {})}
        self._made = next(_LOADS)
        self._count = 0

    def run(self, *, topic: str = "", driver: str = "raftlog_client", **more: Any) -> dict[str, Any]:
        """Let a new client do one job, with a topic of its own unless one is named; return its measurements.

        Args:
            driver: a module of `benchmarks.drivers`.

        Raises:
            RuntimeError: it failed; the message contains its output.
        """
        self._count += 1
        job = Job(
            bootstrap=self.cluster.bootstrap,
            topic=topic or f"load-{self._made}-{self._count}",
            server_pids=tuple(broker_pids(self.cluster)),
            **{"seconds": 1.5 if self.effort.quick else 4.0, "warmup_s": 0.5 if self.effort.quick else 1.0, **more},
        )
        command = [sys.executable, "-m", f"benchmarks.drivers.{driver}", json.dumps(dataclasses.asdict(job))]
        timeout_s = job.seconds + job.warmup_s + _GRACE_S
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout_s, check=False, env=self._environment
        )
        if done.returncode != 0:
            raise RuntimeError(f"the client failed at its {job.work} job: {done.stderr[-2_000:]}")
        result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return result

    def throughput(self, name: str, **more: Any) -> Figure:
        """Repeat a job; return its records per second, and the cost of a megabyte."""
        results = [self.run(**more) for _ in repeat(self.effort.pick(5, quick=2), name)]
        rates = [float(result["records_per_s"]) for result in results]
        return Figure(name=f"{name}_records_per_s", samples=rates, better="more", notes=costs(results))


@contextmanager
def loaded(effort: Effort, **options: Any) -> Iterator[Load]:
    """Run three controllers and three brokers, unless the options of the cluster say otherwise."""
    with running(**options) as cluster:
        yield Load(cluster, effort)


def costs(results: list[dict[str, Any]]) -> dict[str, float]:
    """Return megabytes per second (of values), and the CPU time of a megabyte, at all brokers and at the client."""
    volume = sum(result["mb_per_s"] * result["seconds"] for result in results)
    spent = {name: sum(result[name] for result in results) for name in _COST}
    seconds = sum(result["seconds"] for result in results)
    per_mb = {f"{name}_per_MB": round(total / volume, 5) for name, total in spent.items()}
    return {"MBps": round(volume / seconds, 2), **per_mb}


def broker_pids(cluster: LocalCluster) -> list[int]:
    found = [cluster.pid(name) for name in cluster.brokers]
    return [pid for pid in found if pid is not None]


def memory_mb(pids: list[int], field: str = "VmRSS") -> list[float]:
    """Return each process' resident memory now, with VmHWM the most it ever had.

    Pss divides memory that processes share (mostly libraries) among them.
    """
    found = []
    for pid in pids:
        lines = Path(f"/proc/{pid}/{'smaps_rollup' if field == 'Pss' else 'status'}").read_text().splitlines()
        found.append(next(int(line.split()[1]) / 1_000 for line in lines if line.startswith(f"{field}:")))
    return found
