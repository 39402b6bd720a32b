"""`make soak HOURS=8`: a cluster under steady load for hours; the resources of its processes must not grow.

The load: a bulk writer, and an Arrow reader that checks every record (`bulk`); topics that are created and deleted;
groups whose members churn; transactions; and single records that are timed. Half-way through each hour every node is
restarted, one after another. In the end a table shows memory, file descriptors, threads, tasks, disk and p99 by the
hour (by ten minutes in a short run) for each process; a figure that grew fails the run. HOURS may be a fraction; LOAD
is the bulk load's records a second.
"""

from __future__ import annotations

import asyncio
import os
import resource
import shutil
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from chaos.bulk_load import NODE_SETTINGS, BulkLoad, BulkLoadError, judge_bulk
from chaos.node_logs import internal_errors
from chaos.sessions import open_session
from chaos.shutdown import end, stop_all
from chaos.site import BrokenPromiseError
from chaos.soak_samples import Sample, growths, judged_lives, look, p99, table, unjudged
from chaos.soak_work import SoakWork, without_success
from raftlog.cli.local_cluster import ClusterError, LocalCluster
from raftlog.errors import RaftlogError
from raftlog.model import Address
from raftlog.wire import paths

FOLDER = Path("build") / "soak"
DEFAULT_LOAD = 5_000
SAMPLE_EACH_S = 10.0
SHORT_PERIOD_S, HOUR_S = 600.0, 3_600.0
ASK_TIMEOUT_MS = 2_000
READY_WITHIN_S = 120.0
IN_SYNC_WITHIN_S = 120.0
TASKS = "raftlog_asyncio_tasks "
MAX_OPEN_FILES = 8_192


@dataclass(slots=True)
class Soak:
    """One soak, and its measurements."""

    cluster: LocalCluster
    bulk: BulkLoad
    work: SoakWork
    seconds: float
    samples: list[Sample] = field(default_factory=list)
    restarts: int = 0
    restarting: list[tuple[float, float]] = field(default_factory=list)
    """When restarts of all nodes began and ended, in seconds since the beginning."""
    started: float = field(default_factory=time.monotonic)

    async def run(self) -> None:
        """Load and restart until HOURS are over."""
        async with self.bulk, asyncio.TaskGroup() as group:
            tasks = [group.create_task(self.work.run()), group.create_task(self._look())]
            for hour in range(max(1, round(self.seconds / HOUR_S))):
                await self._rest_until(min(self.seconds / 2, HOUR_S / 2) + hour * HOUR_S)
                await self.restart_all()
            await self._rest_until(self.seconds)
            for task in tasks:
                task.cancel()

    async def restart_all(self) -> None:
        """Restart every node in order; each one is in every ISR again before the next one stops.

        Raises:
            BrokenPromiseError: one has exited before, does not exit as it should, or is not in sync again.
        """
        begun = time.monotonic()
        for name in self.cluster.names:
            self._require_alive()
            if wrong := await asyncio.to_thread(end, self.cluster, [name]):
                raise BrokenPromiseError("; ".join(wrong))
            await asyncio.to_thread(self.cluster.restart, name)
            await asyncio.to_thread(self.cluster.wait_ready, READY_WITHIN_S)
            await self._until_in_sync()
            self.restarts += 1
        self.restarting.append((begun - self.started, time.monotonic() - self.started))

    async def _until_in_sync(self) -> None:
        """Wait until every broker reports zero under-replicated partitions."""
        deadline = time.monotonic() + IN_SYNC_WITHIN_S
        while time.monotonic() < deadline:
            pages = [await self._metrics(name) for name in self.cluster.brokers]
            if all(_metric(page, "raftlog_under_replicated_partitions ") == 0 for page in pages):
                return
            await asyncio.sleep(0.5)
        raise BrokenPromiseError(f"not every replica is in sync within {IN_SYNC_WITHIN_S:g} s of a restart")

    async def _rest_until(self, second: float) -> None:
        while (left := self.started + second - time.monotonic()) > 0:
            await asyncio.sleep(min(left, 5.0))
            self._require_alive()

    def _require_alive(self) -> None:
        for name in self.cluster.names:
            if self.cluster.pid(name) is None:
                raise BrokenPromiseError(f"{name} exited by itself:\n{self.cluster.log_tail(name)}")

    async def _look(self) -> None:
        while True:
            at = time.monotonic() - self.started
            for name in self.cluster.names:
                if (pid := self.cluster.pid(name)) is not None:
                    tasks = _metric(await self._metrics(name), TASKS)
                    await self._take(name, pid, at, folder=self.cluster.node(name).folder, tasks=tasks)
            for name, pid in self.bulk.pids.items():
                await self._take(f"bulk {name}", pid, at)
            await self._take("clients", os.getpid(), at)
            await asyncio.sleep(SAMPLE_EACH_S)

    async def _take(self, name: str, pid: int, at: float, *, folder: Path | None = None, tasks: float = -1) -> None:
        sample = await asyncio.to_thread(look, name, pid, at, folder=folder, tasks=tasks)
        if sample is not None:
            self.samples.append(sample)

    async def _metrics(self, name: str) -> str:
        """Return a node's metrics page, or an empty string while it does not answer."""
        address = self.cluster.node(name).health
        assert isinstance(address, Address)
        with suppress(RaftlogError):
            async with open_session() as session:
                answer = await session.request("GET", address, paths.METRICS, timeout_ms=ASK_TIMEOUT_MS)
                return bytes(answer.body).decode()
        return ""


def main() -> int:
    """Soak for HOURS, print the table, and return whether every check passed."""
    seconds = 3_600 * float(os.environ.get("HOURS") or 8)
    rate = int(os.environ.get("LOAD") or DEFAULT_LOAD)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, MAX_OPEN_FILES)), hard))
    shutil.rmtree(FOLDER, ignore_errors=True)
    extra: dict[str, Mapping[str, Any]] = {"broker-1": {}, "broker-2": {}, "broker-3": {}}
    for name in extra:
        extra[name] = {"broker": dict(NODE_SETTINGS)}
    cluster = LocalCluster(FOLDER / "cluster", port=0, brokers=3, controllers=3, extra=extra)
    report = asyncio.run(_soak(cluster, seconds, rate))
    sys.stdout.write(orjson.dumps(report).decode() + "\n")
    return 0 if report["ok"] else 1


async def _soak(cluster: LocalCluster, seconds: float, rate: int) -> dict[str, Any]:
    console, broken, figures, lasted = Console(stderr=True), "", dict[str, Any](), 0.0
    bootstrap = cluster.bootstrap.split(",")
    work = SoakWork(bootstrap)
    bulk = BulkLoad(bootstrap, {}, FOLDER / "bulk", rate=rate)
    soak = Soak(cluster, bulk, work, seconds)
    await asyncio.to_thread(cluster.start)
    try:
        await asyncio.to_thread(cluster.wait_ready)
        await bulk.create_topic(replication_factor=3, configs={})
        await work.prepare()
        soak.started = work.started = time.monotonic()
        with _progress(console) as progress:
            shown = asyncio.create_task(_show(progress, soak))
            try:
                await soak.run()
            finally:
                shown.cancel()
        lasted = time.monotonic() - soak.started
        await judge_bulk(bulk, figures)
    except* (BrokenPromiseError, BulkLoadError, ClusterError, RaftlogError) as errors:
        broken = "; ".join(f"{type(error).__name__}: {error}" for error in errors.exceptions)
    finally:
        bulk.kill()
        wrong = await asyncio.to_thread(stop_all, cluster)
    period_s = HOUR_S if seconds >= 3 * HOUR_S else SHORT_PERIOD_S
    grown = growths(soak.samples)
    text = table(soak.samples, work.probes, period_s=period_s)
    sys.stdout.write(text + "\n")
    (FOLDER / "table.txt").write_text(text + "\n")
    short = work.counts["brief records short"]
    wrong += internal_errors({name: cluster.node(name).log_path for name in cluster.names})
    idle = without_success(work.successes, soak.restarting, lasted)
    skipped = unjudged(soak.samples, cluster.names) if seconds >= HOUR_S else []
    return {
        "ok": not (broken or grown or short or wrong or idle or skipped),
        "seconds": round(time.monotonic() - soak.started),
        "broken_promise": broken,
        "grown": [str(growth) for growth in grown],
        "nodes": wrong,
        "work_without_success": idle,
        "never_judged": skipped,
        "lives_judged": len(judged_lives(soak.samples)),
        "restarts": soak.restarts,
        "p99_ms": round(p99([ms for _, ms in work.probes]), 1),
        "counts": dict(work.counts),
        "errors_while_nodes_restarted": dict(work.errors),
        **figures,
    }


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("soak"), BarColumn(), TimeElapsedColumn(), TextColumn("{task.fields[told]}"), console=console
    )


async def _show(progress: Progress, soak: Soak) -> None:
    shown = progress.add_task("soak", total=soak.seconds, told="")
    while True:
        told = f"{soak.work.counts['topics']} topics, {soak.work.counts['members']} members, {soak.restarts} restarts"
        progress.update(shown, completed=time.monotonic() - soak.started, told=told)
        await asyncio.sleep(1.0)


def _metric(page: str, name: str) -> float:
    """Return a metric without labels from a metrics page, or -1."""
    for line in page.splitlines():
        if line.startswith(name):
            return float(line.rpartition(" ")[2])
    return -1


if __name__ == "__main__":
    sys.exit(main())
