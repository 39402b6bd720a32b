"""confluent-kafka at the public port, beside raftlog's own client: one partition, three replicas, acks=all."""

from __future__ import annotations

from typing import Any

from benchmarks.loads import Load, costs, loaded
from benchmarks.report import Effort, Figure, repeat

_DRIVERS = {"confluent": "confluent", "raftlog": "raftlog_client"}
_SIZES = {"100B": 100, "1KB": 1024}


def produce(effort: Effort) -> list[Figure]:
    """How many records are acknowledged in a second; the clients alternate."""
    with loaded(effort) as load:
        return [
            figure
            for name, size in _SIZES.items()
            for figure in _beside(load, f"produce_{name}", work="produce", record_bytes=size)
        ]


def consume(effort: Effort) -> list[Figure]:
    """How many records are read in a second, as objects, of a topic that raftlog's client has written."""
    figures = []
    with loaded(effort) as load:
        for name, size in _SIZES.items():
            topic, seconds = f"filled-{name}", 3.0 if effort.quick else 12.0
            filled = load.run(work="fill", topic=topic, record_bytes=size, seconds=seconds, warmup_s=0.0)
            reading = {"work": "consume", "topic": topic, "record_bytes": size, "records": filled["records"]}
            figures += _beside(load, f"consume_{name}", **reading)
    return figures


def _beside(load: Load, name: str, **job: Any) -> list[Figure]:
    results: dict[str, list[dict[str, Any]]] = {client: [] for client in _DRIVERS}
    for _ in repeat(load.effort.pick(5, quick=2), name):
        for client, driver in _DRIVERS.items():
            results[client].append(load.run(driver=driver, **job))
    return [_figure(f"{name}_{client}", found) for client, found in results.items()]


def _figure(name: str, results: list[dict[str, Any]]) -> Figure:
    rates = [float(result["records_per_s"]) for result in results]
    records = sum(result["records_per_s"] * result["seconds"] for result in results)
    cpu_us = 1e6 * sum(result["server_cpu_s"] for result in results) / records
    notes = costs(results) | {"server_cpu_us_per_record": round(cpu_us, 3)}
    return Figure(name=f"{name}_records_per_s", samples=rates, better="more", notes=notes)


FIGURES = {"produce": produce, "consume": consume}
