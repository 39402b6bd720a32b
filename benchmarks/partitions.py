"""10, 100 and 1,000 partitions of three replicas: their throughput and memory."""

from __future__ import annotations

import time

from benchmarks.loads import broker_pids, loaded, memory_mb
from benchmarks.report import Bound, Effort, Figure, repeat
from raftlog.blocking import Admin, Producer

_TOPIC = "many"
_COUNTS = (10, 100, 1_000)
_IDLE_S = 5.0
_BATCH_BYTES = 64 << 10
"""Small, so that a producer without keys sends to every partition."""
_FIRST_SYNC_S = 10.0
"""Two rounds of checkpoints."""


def throughput(effort: Effort) -> list[Figure]:
    """The same records over more partitions, each count on a new cluster; round by round, for the ratio."""
    rates: dict[int, list[float]] = {count: [] for count in _COUNTS}
    peaks: dict[int, list[float]] = {count: [] for count in _COUNTS}
    first: list[float] = []
    for _ in repeat(effort.pick(5, quick=1), "10, 100 and 1,000 partitions"):
        for count in _COUNTS:
            begun_ms, rate, most = _measured(effort, count)
            rates[count].append(rate)
            peaks[count] += most
            if count == _COUNTS[-1]:
                first.append(begun_ms)
    ratios = [many / few for few, many in zip(rates[10], rates[1_000], strict=True)]
    enough, little = Bound(statistic="median", at_least=0.8), Bound(statistic="max", at_most=250)
    return [
        *(
            Figure(name=f"partitions_{count}_records_per_s", samples=found, better="more")
            for count, found in rates.items()
        ),
        Figure(name="throughput_1000_over_10", samples=ratios, bounds=(enough,)),
        Figure(name="first_record_of_a_partition_ms", samples=first, notes={"of": "1,000, written to at once"}),
        *(
            Figure(
                name=f"broker_{count}_partitions_loaded_mb",
                samples=found,
                bounds=(little,),
                better="less_whatever_speed",
                notes={"of": "the most that each broker ever had"},
            )
            for count, found in peaks.items()
        ),
    ]


def _measured(effort: Effort, count: int) -> tuple[float, float, list[float]]:
    """Return ms for each partition's first record, records per second with `count` of them, and the brokers' peaks."""
    with loaded(effort) as load:
        begun_ms = _begin_each(load.cluster.bootstrap, count)
        options = {"producer": {"batch_bytes": _BATCH_BYTES}, "exists": True}
        result = load.run(topic=_TOPIC, work="produce", partitions=count, max_bytes=128 << 20, options=options)
        return begun_ms, float(result["records_per_s"]), memory_mb(broker_pids(load.cluster), "VmHWM")


def _begin_each(bootstrap: str, count: int) -> float:
    """Write one record to each partition: the first one has files made and synced, which happens only once.

    A log's first sync, of its file and two folders, follows with the next checkpoints: it is waited for, too.
    """
    with Admin(bootstrap) as admin, Producer(bootstrap) as producer:
        admin.create_topic(_TOPIC, partitions=count, replication_factor=3, configs={"flush": "os"})
        producer.send(_TOPIC, b"first", partition=0)
        begun = time.perf_counter()
        for delivery in [producer.send_nowait(_TOPIC, b"first", partition=number) for number in range(count)]:
            delivery.result()
        took_ms = 1_000 * (time.perf_counter() - begun) / count
    time.sleep(_FIRST_SYNC_S)
    return took_ms


def idle_memory(effort: Effort) -> list[Figure]:
    """Resident memory of each broker of an unused cluster."""
    with loaded(effort) as load:
        time.sleep(_IDLE_S)  # Temporary memory of the start is freed by then.
        resident, own = (memory_mb(broker_pids(load.cluster), field) for field in ("VmRSS", "Pss"))
    bounds = (Bound(statistic="max", at_most=80),)
    note = {"without_others_share_mb": max(own)}
    return [Figure(name="idle_broker_mb", samples=resident, bounds=bounds, better="less_whatever_speed", notes=note)]


FIGURES = {"throughput": throughput, "idle_memory": idle_memory}
