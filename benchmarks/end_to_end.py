"""Three controllers, three brokers and a client of its own process: one partition, three replicas, acks=all."""

from __future__ import annotations

from benchmarks.loads import Load, costs, loaded
from benchmarks.report import Effort, Figure, repeat

_RATES = (100, 1_000, 5_000)
_TOPIC = "filled"


def produce(effort: Effort) -> list[Figure]:
    """How many records are acknowledged in a second, with `send_many` and with `send_nowait`, synced and not."""
    with loaded(effort) as load:
        return [
            load.throughput("produce_100B", work="produce"),
            load.throughput("produce_1KB", work="produce", record_bytes=1024),
            load.throughput("produce_each_100B", work="produce", options={"each": True}),
            load.throughput("produce_synced_100B", work="produce", durable=True),
            load.throughput("produce_synced_1KB", work="produce", record_bytes=1024, durable=True),
        ]


def consume(effort: Effort) -> list[Figure]:
    """How many records of 100 B are read in a second, as Python objects and as Arrow."""
    with loaded(effort) as load:
        filled = load.run(work="fill", topic=_TOPIC, seconds=5.0 if effort.quick else 20.0, warmup_s=0.0)
        reading = {"work": "consume", "topic": _TOPIC, "records": filled["records"]}
        return [
            load.throughput("consume_objects_100B", **reading),
            load.throughput("consume_arrow_100B", **reading, options={"arrow": True}),
        ]


def latency(effort: Effort) -> list[Figure]:
    """From the call until every replica has the record, at a pace that does not wait for acknowledgements."""
    with loaded(effort) as load:
        figures = []
        for durable in (False, True):
            for rate in _RATES:
                figures += _at(load, rate, durable=durable)
        return figures


def _at(load: Load, rate: int, *, durable: bool) -> list[Figure]:
    name = f"latency{'_synced' if durable else ''}_{rate}_per_s"
    times = repeat(load.effort.pick(5, quick=2), name)
    results = [load.run(work="latency", rate=rate, durable=durable) for _ in times]
    note = {"late_p99_ms": max(result["late_p99_ms"] for result in results)}
    return [
        Figure(
            name=f"{name}_{percentile}",
            samples=[float(result[percentile]) for result in results],
            better="less",
            notes=note,
        )
        for percentile in ("p50_ms", "p99_ms", "p99_9_ms")
    ]


def acknowledgements(effort: Effort) -> list[Figure]:
    """The same records with acks=1: the difference is the cost of replication before the acknowledgement."""
    with loaded(effort) as load:
        runs = repeat(effort.pick(5, quick=2), "acks")
        pairs = [
            [load.run(work="produce", options={"producer": {"acks": acks}}) for acks in ("all", "1")] for _ in runs
        ]
    rates = [[float(result["records_per_s"]) for result in results] for results in zip(*pairs, strict=True)]
    ratios = [with_all / with_one for with_all, with_one in zip(*rates, strict=True)]
    notes = [costs(list(results)) for results in zip(*pairs, strict=True)]
    return [
        Figure(name="acks_all_records_per_s", samples=rates[0], better="more", notes=notes[0]),
        Figure(name="acks_1_records_per_s", samples=rates[1], better="more", notes=notes[1]),
        Figure(name="acks_all_over_acks_1", samples=ratios),
    ]


FIGURES = {"produce": produce, "consume": consume, "latency": latency, "acknowledgements": acknowledgements}
