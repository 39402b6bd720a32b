"""Where the time of one acknowledged record goes, in the client, the leader and both followers.

A producer sends one record after another, three replicas, acks=all. First the processes run as always: that gives the
CPU time of each for a record. Then a tracer in each of them stamps what they do (`benchmarks.timeline`).
`build/bench` keeps the table and the timeline of one record as SVG.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

import orjson
from rich.table import Table

from benchmarks.clusters import running
from benchmarks.datapath import _cpu_s, _create
from benchmarks.report import Effort, Figure, console
from benchmarks.timeline import node
from benchmarks.timeline.picture import draw
from benchmarks.timeline.spans import LEGS, ProcessTrace, Record, Row, by_kind, legs, messages, records_of, table, turns
from benchmarks.timeline.targets import KINDS
from benchmarks.timeline.tracer import Tracer
from raftlog.cli.launcher import Launcher
from raftlog.cli.local_cluster import LocalCluster
from raftlog.client import Admin, Producer

FOLDER = Path("build") / "bench"
TRACED_NODE = (sys.executable, "-m", "benchmarks.timeline.node")
_VALUE = b"x" * 100
_ROWS = 14
"""Lines of the table for each process; the file has all."""


async def _send(producer: Producer, topic: str, count: int) -> list[tuple[int, int]]:
    """Send records one after another; return when each was sent and acknowledged."""
    times = []
    for _ in range(count):
        began = time.monotonic_ns()
        await producer.send(topic, _VALUE)
        times.append((began, time.monotonic_ns()))
    return times


async def _roles(cluster: LocalCluster, topic: str) -> dict[str, str]:
    """Return the node of each role."""
    async with Admin(cluster.bootstrap) as admin:
        leader = (await admin.describe_topic(topic)).partitions[0].leader
    first, second = (name for name in cluster.brokers if name != f"broker-{leader}")
    return {"leader": f"broker-{leader}", "follower 1": first, "follower 2": second}


def _pids(cluster: LocalCluster, roles: Mapping[str, str]) -> dict[str, int]:
    nodes = {**roles, "controller": cluster.controllers[0]}
    found = {role: pid for role, name in nodes.items() if (pid := cluster.pid(name)) is not None}
    return {"client": os.getpid(), **found}


async def _measured(producer: Producer, topic: str, pids: Mapping[str, int], effort: Effort) -> list[Figure]:
    """Return CPU time and latency without a tracer."""
    costs, latencies = {role: list[float]() for role in pids}, list[float]()
    for _ in range(effort.pick(9, quick=2)):
        count, before = effort.pick(400, quick=60), {role: _cpu_s(pid) for role, pid in pids.items()}
        times = await _send(producer, topic, count)
        for role, pid in pids.items():
            costs[role].append((_cpu_s(pid) - before[role]) * 1e6 / count)
        latencies += [(acknowledged - sent) / 1e6 for sent, acknowledged in times]
    everything = [sum(each) for each in zip(*costs.values(), strict=True)]
    return [
        Figure(name=f"{topic}_all_cpu_us", samples=everything),
        *(Figure(name=_name(topic, role, "cpu_us"), samples=cost) for role, cost in costs.items()),
        Figure(name=f"{topic}_latency_ms", samples=latencies),
    ]


async def _traced(
    cluster: LocalCluster, producer: Producer, topic: str, roles: Mapping[str, str], count: int
) -> tuple[list[ProcessTrace], list[Record]]:
    """Send records while every process stamps; return the stamps and the records."""
    tracer, folders = Tracer(), {role: cluster.node(name).config_path.parent for role, name in roles.items()}
    for role, folder in folders.items():
        cluster.kill(roles[role], node.START)
        await asyncio.to_thread(_wait_for, folder / node.STARTED)
    tracer.start()
    try:
        times = await _send(producer, topic, count)
    finally:
        tracer.stop()
    own = folders["leader"] / "client-trace.json"
    tracer.write(own)
    for role, folder in folders.items():
        cluster.kill(roles[role], node.STOP)
        await asyncio.to_thread(_wait_for, folder / node.STAMPS)
    files = {"client": own, **{role: folder / node.STAMPS for role, folder in folders.items()}}
    traces = [ProcessTrace.of(role, orjson.loads(file.read_bytes())) for role, file in files.items()]
    return traces, records_of(times[count // 10 :])


def _wait_for(file: Path) -> None:
    """Wait until a node has written a file: it has no other way to answer a signal."""
    deadline = time.monotonic() + 30
    while not file.exists():
        assert time.monotonic() < deadline, f"the node has not written {file}"
        time.sleep(0.01)


async def _run(cluster: LocalCluster, topic: str, flush: str, effort: Effort) -> list[Figure]:
    await asyncio.to_thread(FOLDER.mkdir, parents=True, exist_ok=True)
    await _create(cluster, topic, replicas=3, flush=flush)
    roles = await _roles(cluster, topic)
    async with Producer(cluster.bootstrap, linger_ms=0) as producer:
        await _send(producer, topic, effort.pick(300, quick=50))
        figures = await _measured(producer, topic, _pids(cluster, roles), effort)
        traces, records = await _traced(cluster, producer, topic, roles, effort.pick(400, quick=60))
    cpu_us = [next(f for f in figures if f.name == _name(topic, each.role, "cpu_us")) for each in traces]
    return figures + _report(topic, traces, records, [figure.measured["median"] for figure in cpu_us])


def _name(topic: str, role: str, what: str) -> str:
    return f"{topic}_{role.replace(' ', '_')}_{what}"


def _report(
    topic: str, traces: Sequence[ProcessTrace], records: Sequence[Record], cpu_us: Sequence[float]
) -> list[Figure]:
    """Print the tables, write them and the picture; return the figures of the traced records."""
    rows, sent, roles = table(traces, records), messages(traces), [trace.role for trace in traces]
    ways = [way for record in records if (way := legs(sent, record)) is not None]
    typical = sorted(records, key=lambda record: record.acknowledged - record.sent)[len(records) // 2]
    (FOLDER / f"trace-{topic}.svg").write_text(draw(traces, typical, sent))
    leg_us = {leg: median(times) / 1_000 for leg, times in zip(LEGS, zip(*ways, strict=True), strict=True)}
    content = {"rows": [row._asdict() for row in rows], "kinds": by_kind(rows), "legs_us": leg_us}
    (FOLDER / f"trace-{topic}.json").write_bytes(orjson.dumps(content, option=orjson.OPT_INDENT_2) + b"\n")
    for shown in (_kinds(topic, rows, roles, cpu_us), *(_functions(role, rows) for role in roles), _way(leg_us)):
        console.print(shown)
    console.print(f"the timeline of one record: {FOLDER / f'trace-{topic}.svg'}")
    return [
        Figure(name=f"{topic}_traced_latency_ms", samples=[(one.acknowledged - one.sent) / 1e6 for one in records]),
        *(
            Figure(name=_name(topic, trace.role, "turns"), samples=[float(n) for n in turns(trace, records)])
            for trace in traces
        ),
    ]


def _kinds(topic: str, rows: Sequence[Row], roles: Sequence[str], cpu_us: Sequence[float]) -> Table:
    shown, sums = Table("µs (calls) of a record", title=f"{topic}: own time by kind, medians"), by_kind(rows)
    for role in roles:
        shown.add_column(role, justify="right")
    for kind in KINDS:
        cells = [sums.get(kind, {}).get(role, (0.0, 0.0)) for role in roles]
        if any(own_us for _, own_us in cells):
            shown.add_row(kind, *(f"{own_us:,.0f} ({calls:g})" if calls or own_us else "" for calls, own_us in cells))
    total = [sum(row.own_us for row in rows if row.role == role) for role in roles]
    shown.add_row("all", *(f"{own_us:,.0f}" for own_us in total))
    shown.add_row("CPU without the tracer", *(f"{cost:,.0f}" for cost in cpu_us))
    return shown


def _functions(role: str, rows: Sequence[Row]) -> Table:
    shown = Table(role, "kind")
    for column in ("calls", "own µs"):
        shown.add_column(column, justify="right")
    for row in [row for row in rows if row.role == role][:_ROWS]:
        shown.add_row(row.label, row.kind, f"{row.calls:g}", f"{row.own_us:,.1f}")
    return shown


def _way(leg_us: Mapping[str, float]) -> Table:
    shown = Table("the way of a record, by the follower that acknowledges last")
    shown.add_column("µs", justify="right")
    for leg, took in leg_us.items():
        shown.add_row(leg, f"{took:,.0f}")
    return shown


def _figures(flush: str, topic: str, effort: Effort) -> list[Figure]:
    with running(controllers=1, launcher=Launcher(TRACED_NODE)) as cluster:
        return asyncio.run(_run(cluster, topic, flush, effort))


def unsynced(effort: Effort) -> list[Figure]:
    """Records that are acknowledged from the page cache of three replicas."""
    return _figures("os", "unsynced", effort)


def synced(effort: Effort) -> list[Figure]:
    """Records that each replica has synced."""
    return _figures("batch", "synced", effort)


FIGURES = {"unsynced": unsynced, "synced": synced}
