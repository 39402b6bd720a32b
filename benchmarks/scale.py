"""1, 2 and 4 brokers on one machine, at the same total work: partitions spread over processes.

Four client processes at once send the same volume to 12 partitions of one replica each, so that every cluster writes
each record once. With more cores than brokers, rates grow with the brokers; on fewer, the cost of a record shows what
another process costs.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from benchmarks.drivers.shape import cpu_s
from benchmarks.loads import Load, broker_pids, loaded
from benchmarks.report import Effort, Figure, repeat
from raftlog.blocking import Admin, Producer

_TOPIC = "spread"
_COUNTS = (1, 2, 4)
_CLIENTS = 4
_PARTITIONS = 12
_BATCH_BYTES = 64 << 10
"""Small: a broker's event loop, not the copying of bytes, is what is to be spread."""
_MOST_BYTES = 256 << 20
"""Of each client's values."""


def scale(effort: Effort) -> list[Figure]:
    """Round by round, each number of brokers on a new cluster; the ratios are those of the rounds."""
    rates: dict[int, list[float]] = {count: [] for count in _COUNTS}
    costs_us: dict[int, list[float]] = {count: [] for count in _COUNTS}
    busiest: dict[int, list[float]] = {count: [] for count in _COUNTS}
    for _ in repeat(effort.pick(5, quick=1), "1, 2 and 4 brokers"):
        for count in _COUNTS:
            rate, cost_us, share = _measured(effort, count)
            rates[count].append(rate)
            costs_us[count].append(cost_us)
            busiest[count].append(share)
    figures = []
    for count in _COUNTS:
        name = f"brokers_{count}"
        notes = {"busiest_broker_cpu_share": max(busiest[count]), "cores": os.cpu_count()}
        figures.append(Figure(name=f"{name}_records_per_s", samples=rates[count], better="more", notes=notes))
        figures.append(Figure(name=f"{name}_broker_cpu_us", samples=costs_us[count], better="less"))
    ratios = {
        count: [many / one for many, one in zip(rates[count], rates[1], strict=True)] for count in _COUNTS if count > 1
    }
    return [*figures, *(Figure(name=f"{count}_brokers_over_1", samples=found) for count, found in ratios.items())]


def _measured(effort: Effort, count: int) -> tuple[float, float, float]:
    """Return records per second, the brokers' CPU time of a record in us, and the busiest one's share of it."""
    with (
        loaded(effort, brokers=count, controllers=1) as load,
        ThreadPoolExecutor(_CLIENTS) as pool,
        Admin(load.cluster.bootstrap) as admin,
    ):
        _create(load, admin)
        pids = broker_pids(load.cluster)
        before_s, written = {pid: cpu_s([pid]) for pid in pids}, _written(admin)
        results = _at_once(load, pool)
        spent_s = {pid: cpu_s([pid]) - before_s[pid] for pid in pids}
        written = _written(admin) - written
    total_s = sum(spent_s.values())
    rate = sum(float(result["records_per_s"]) for result in results)
    return rate, total_s * 1e6 / written, round(max(spent_s.values()) / total_s, 2)


def _create(load: Load, admin: Admin) -> None:
    admin.create_topic(_TOPIC, partitions=_PARTITIONS, replication_factor=1, configs={"flush": "os"})
    with Producer(load.cluster.bootstrap) as producer:
        for delivery in [producer.send_nowait(_TOPIC, b"first", partition=number) for number in range(_PARTITIONS)]:
            delivery.result()


def _written(admin: Admin) -> int:
    """Return the number of all records, those of the clients' warming up, too: brokers spend CPU time on each."""
    return sum(found.offset for found in admin.list_offsets(_TOPIC))


def _at_once(load: Load, pool: ThreadPoolExecutor) -> list[dict[str, Any]]:
    """Let all clients send at once; they start within some tenths of a second, and warm up for longer."""
    options = {"producer": {"batch_bytes": _BATCH_BYTES}, "exists": True}
    job: dict[str, Any] = {"work": "produce", "max_bytes": _MOST_BYTES, "options": options}
    return list(pool.map(lambda _: load.run(topic=_TOPIC, **job), range(_CLIENTS)))


FIGURES = {"scale": scale}
