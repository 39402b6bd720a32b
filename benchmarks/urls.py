"""Reading a whole topic by its URL, in every form, beside a Parquet file of the same records; one broker process."""

from __future__ import annotations

import asyncio
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq

import raftlog
from benchmarks.report import Bound, Effort, Figure
from raftlog.cli.local_cluster import LocalCluster

_VALUE_BYTES = 100
_CHUNK = 50_000
GOALS = {"arrow": 5_000_000, "parquet": 3_000_000, "ndjson": 1_000_000, "csv": None, "json": None}
"""Records per second."""


async def _fill(cluster: LocalCluster, records: int) -> None:
    async with raftlog.Admin(cluster.bootstrap) as admin:
        await admin.create_topic("records", partitions=1, replication_factor=1)
    async with raftlog.Producer(cluster.bootstrap) as producer:
        for first in range(0, records, _CHUNK):
            values = [b"%0*d" % (_VALUE_BYTES, number * 2_654_435_761) for number in range(first, first + _CHUNK)]
            await producer.send_many("records", values)


@contextmanager
def _topic(records: int) -> Iterator[str]:
    with (
        tempfile.TemporaryDirectory(prefix="raftlog-urls-") as folder,
        LocalCluster(Path(folder), controllers=1, brokers=1, port=0) as cluster,
    ):
        asyncio.run(_fill(cluster, records))
        yield f"{cluster.public_url('broker-1')}/v1/topics/records/records"


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def whole_topic(effort: Effort) -> list[Figure]:
    """Every format, to curl, which drops the bytes; and pyarrow's own read of the Parquet file."""
    records = effort.pick(5_000_000, quick=500_000)
    figures = []
    with _topic(records) as url, tempfile.NamedTemporaryFile(suffix=".parquet") as file:

        def download(form: str, to: str = "/dev/null") -> None:
            subprocess.run(["curl", "-sSf", "-o", to, f"{url}?format={form}"], check=True)

        for form, goal in GOALS.items():
            samples = [records / _seconds(partial(download, form)) for _ in range(effort.pick(5, quick=2))]
            bounds = () if goal is None or effort.quick else (Bound(statistic="max", at_least=goal),)
            figures.append(Figure(name=f"{form}_records_per_s", samples=samples, bounds=bounds, better="more"))
        download("parquet", file.name)
        samples = [records / _seconds(lambda: pq.read_table(file.name)) for _ in range(effort.pick(5, quick=2))]
        size = Path(file.name).stat().st_size / records
        notes = {"bytes_per_record": round(size, 1)}
        figures.append(Figure(name="parquet_file_records_per_s", samples=samples, notes=notes))
    return figures


FIGURES = {"whole_topic": whole_topic}
