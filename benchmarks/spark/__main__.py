"""Measure Spark over raftlog, Parquet and Kafka with the same records and queries; the last line is one JSON object.

python -m benchmarks.spark                              # 5,000,000 records of 100 bytes, 6 partitions
python -m benchmarks.spark --records 300000 --rounds 2  # small
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median

from pyspark.sql import SparkSession

from benchmarks.report import Bound, Figure, conclude, console, repeat
from benchmarks.spark.ceiling import ceiling
from benchmarks.spark.memory import WorkerMemory
from benchmarks.spark.stores import (
    CORES,
    PARTITIONS,
    KafkaStore,
    ParquetStore,
    RaftlogStore,
    Store,
    make_records,
    session_settings,
    timed,
)

BUILD = Path("build") / "bench"
QUERIES: dict[str, tuple[str, tuple[str, ...]]] = {
    "count": ("select count(*) from {rows}", ("offset",)),
    "aggregate": (
        "select sum(bytes) from (select partition, sum(length(value)) bytes from {rows} group by partition)",
        ("partition", "value"),
    ),
}
"""The queries, and the columns that they need."""
Times = dict[str, list[float]]
Targets = dict[tuple[str, str], float | None]
"""The least ratio of two stores; None: no target."""


def main() -> int:
    """Measure; exit 1 when a bound is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark", description=__doc__)
    parser.add_argument("--records", type=int, default=5_000_000)
    parser.add_argument(
        "--rounds", type=int, default=5, help="how often each query runs, after one that does not count"
    )
    parser.add_argument("--stores", nargs="+", default=["raftlog", "parquet", "kafka"])
    parser.add_argument("--folder", type=Path, help="where data goes; it needs 12 times the records' size")
    given = parser.parse_args()
    kinds: list[type[Store]] = []
    for kind in (RaftlogStore, ParquetStore, KafkaStore):
        if kind.name in given.stores:
            if reason := kind.missing():
                console.print(f"[yellow]without {kind.name}: {reason}[/yellow]")
            else:
                kinds.append(kind)
    with tempfile.TemporaryDirectory(dir=given.folder, prefix="raftlog-spark-") as folder, ExitStack() as stack:
        stores = [kind(Path(folder)) for kind in kinds]
        for store in stores:
            stack.enter_context(store.start())
        spark = start_session(Path(folder))
        stack.callback(spark.stop)
        return conclude("spark", measure(spark, stores, given.records, given.rounds), folder=BUILD)


def start_session(folder: Path) -> SparkSession:
    """Start a local Spark on two cores."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(f"local[{CORES}]").appName("raftlog benchmark")
    for name, value in session_settings(folder).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def measure(spark: SparkSession, stores: list[Store], records: int, rounds: int) -> list[Figure]:
    """Load every store with the same records, and run the same queries on each."""
    source = make_records(spark, records)
    figures = []
    for store in stores:
        seconds = timed(partial(store.write, source))
        figures.append(Figure(name=f"{store.name}_write_m_per_s", samples=[records / seconds / 1e6]))
    for query in QUERIES:
        figures += batch_figures(spark, stores, query, records, rounds)
    figures += stream_figures(spark, stores, records, rounds)
    raftlog = next((store for store in stores if isinstance(store, RaftlogStore)), None)
    return figures if raftlog is None else [*figures, *memory_figures(spark, raftlog, records)]


def batch_figures(spark: SparkSession, stores: list[Store], query: str, records: int, rounds: int) -> list[Figure]:
    """Query every store, round after round; raftlog also with the needed columns named."""
    ask, columns = QUERIES[query]
    frames = {store.name: store.read(spark) for store in stores}
    for store in stores:
        if isinstance(store, RaftlogStore):
            frames["raftlog_columns"] = store.read(spark, columns)
    if query == "count":
        frames["ceiling"] = ceiling(spark, records, CORES)

    def answer(name: str) -> int:
        return int(spark.sql(ask, rows=frames[name]).collect()[0][0])

    assert len({answer(name) for name in frames}) == 1  # The same records; and everything is warm.
    times: Times = {name: [] for name in frames}
    for _ in repeat(rounds, query):
        for name in frames:
            times[name].append(timed(partial(answer, name)))
    targets: Targets = {
        ("raftlog", "kafka"): 3.0,
        ("raftlog_columns", "kafka"): 3.0,
        ("raftlog", "parquet"): None,
        # Parquet counts by its footers; Spark requests each row from a Python source. The ceiling is the limit.
        ("raftlog_columns", "parquet"): None if query == "count" else 0.6,
        ("raftlog_columns", "ceiling"): 0.5,
        ("ceiling", "parquet"): None,
    }
    return [*speeds(query, times, records), *ratios(query, times, targets)]


def stream_figures(spark: SparkSession, stores: list[Store], records: int, rounds: int) -> list[Figure]:
    """Read everything as a stream of five batches into nothing. Only the batches count, not a stream's start."""
    with ExitStack() as stack:
        per_batch = records // 5 + records // 100  # A little more: the sink's transactions use offsets, too.
        streams = {store.name: stack.enter_context(store.streaming(spark, per_batch)) for store in stores}
        for store in stores:
            if isinstance(store, RaftlogStore):
                named = store.streaming(spark, per_batch, ("offset", "value"))
                streams["raftlog_columns"] = stack.enter_context(named)
        times: Times = {name: [] for name in streams}
        starts: Times = {name: [] for name in streams}
        for number in repeat(rounds + 1, "stream"):
            for name, run in streams.items():
                whole_s, batches_s = run()
                if number:  # The first one warms up.
                    times[name].append(batches_s)
                    starts[name].append(whole_s - batches_s)
    targets: Targets = {
        ("raftlog", "kafka"): 2.0,
        ("raftlog_columns", "kafka"): 2.0,
        ("raftlog", "parquet"): None,
        ("raftlog_columns", "parquet"): None,
    }
    begun = [Figure(name=f"stream_{name}_start_s", samples=seconds) for name, seconds in starts.items()]
    return [*speeds("stream", times, records), *begun, *ratios("stream", times, targets)]


def speeds(query: str, times: Times, records: int) -> list[Figure]:
    """Return millions of records per second."""
    return [
        Figure(name=f"{query}_{name}_m_per_s", samples=[records / seconds / 1e6 for seconds in taken])
        for name, taken in times.items()
    ]


def ratios(query: str, times: Times, targets: Targets) -> list[Figure]:
    """Return the ratio of two stores' speeds, round by round: both had the same machine then."""
    return [
        Figure(
            name=f"{query}_{fast}_vs_{slow}",
            samples=[there / here for here, there in zip(times[fast], times[slow], strict=True)],
            bounds=() if least is None else (Bound(statistic="median", at_least=least),),
            notes={"median_s": round(median(times[fast]), 3)},
        )
        for (fast, slow), least in targets.items()
        if fast in times and slow in times
    ]


def memory_figures(spark: SparkSession, store: RaftlogStore, records: int) -> list[Figure]:
    """Compare the largest Python worker while a tenth is read, and while everything is."""
    peaks = []
    for count in (records // 10, records):
        end = {str(partition): count // PARTITIONS for partition in range(PARTITIONS)}
        rows = store.read(spark).where(f"offset < {min(end.values())}")
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
        with WorkerMemory() as memory:
            rows.write.format("noop").mode("overwrite").save()
        peaks.append(memory.peak_mb)
    spark.conf.unset("spark.sql.python.filterPushdown.enabled")
    return [
        Figure(name="worker_rss_tenth_mb", samples=[peaks[0]]),
        Figure(
            name="worker_rss_whole_mb", samples=[peaks[1]], bounds=(Bound(statistic="max", at_most=peaks[0] + 100),)
        ),
    ]


if __name__ == "__main__":
    sys.exit(main())
