"""The tools that people read a URL with, each as its user would call it."""

from __future__ import annotations

import asyncio
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

import raftlog
from raftlog import blocking
from raftlog.cli.local_cluster import LocalCluster

pytestmark = pytest.mark.cluster
COUNT = 2_000


@pytest.fixture(scope="module")
def url(shared_cluster: LocalCluster) -> Iterator[str]:
    """Return the URL of a topic's records: 2,000 of them in two partitions, the values JSON."""
    topic = "url-readers"
    with blocking.Admin(shared_cluster.bootstrap) as admin:
        admin.create_topic(topic, partitions=2)

    async def fill() -> None:
        async with raftlog.Producer(shared_cluster.bootstrap) as producer:
            sends = (
                producer.send(topic, b'{"n": %d, "text": "a, \\"b\\""}' % n, key=b"k%d" % n, partition=n % 2)
                for n in range(COUNT)
            )
            await asyncio.gather(*sends)

    asyncio.run(fill())
    return f"{shared_cluster.public_url('broker-3')}/v1/topics/{topic}/records"


def check(offsets: list[int], values: list[str | bytes]) -> None:
    texts = [value.decode() if isinstance(value, bytes) else value for value in values]
    assert offsets == [*range(COUNT // 2), *range(COUNT // 2)]
    assert texts[1] == '{"n": 2, "text": "a, \\"b\\""}'


def test_polars_stream(url: str):
    with urllib.request.urlopen(f"{url}?format=arrow") as answer:
        frame = pl.read_ipc_stream(answer.read())
    check(frame["offset"].to_list(), frame["value"].to_list())


def test_polars_by_url(url: str):
    frame = pl.read_ipc_stream(f"{url}?format=arrow")
    check(frame["offset"].to_list(), frame["value"].to_list())


def test_polars_ndjson(url: str):
    frame = pl.read_ndjson(f"{url}?format=ndjson")
    check(frame["offset"].to_list(), frame["value"].to_list())


def test_polars_parquet(url: str):
    frame = pl.read_parquet(f"{url}?format=parquet")
    check(frame["offset"].to_list(), frame["value"].to_list())


def test_polars_scans_a_fixed_range_of_parquet(url: str):
    half = COUNT // 2
    lazy = pl.scan_parquet(f"{url}?format=parquet&from=0:0,1:0&until=0:{half},1:{half}")
    assert lazy.select(pl.len()).collect().item() == COUNT
    some = lazy.filter(pl.col("offset") < 3).select("partition", "offset").collect()
    assert some.rows() == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]


def test_pandas(url: str):
    lines = pd.read_json(f"{url}?format=ndjson", lines=True)
    check(lines["offset"].to_list(), lines["value"].to_list())
    assert (pd.Timestamp.now("UTC") - lines["timestamp"].dt.tz_localize("UTC").max()).total_seconds() < 3_600
    rows = pd.read_csv(f"{url}?format=csv")
    check(rows["offset"].to_list(), rows["value"].to_list())
    parquet = pd.read_parquet(f"{url}?format=parquet")
    check(parquet["offset"].to_list(), parquet["value"].to_list())


def test_pyarrow(url: str):
    with urllib.request.urlopen(f"{url}?format=arrow") as answer, pa.ipc.open_stream(answer) as stream:
        table = stream.read_all()
    check(table.column("offset").to_pylist(), table.column("value").to_pylist())


def test_duckdb_over_arrow_and_over_a_file(url: str, tmp_path: Path):
    with urllib.request.urlopen(f"{url}?format=arrow") as answer, pa.ipc.open_stream(answer) as stream:
        connection = duckdb.connect()
        connection.register("records", stream)
        found = connection.execute('select count(*), max("offset") from records').fetchall()
    assert found == [(COUNT, COUNT // 2 - 1)]
    file = tmp_path / "topic.parquet"
    urllib.request.urlretrieve(f"{url}?format=parquet", file)
    query = f"select sum((decode(value)::json->>'n')::bigint) from '{file}' where \"partition\" = 0"
    assert duckdb.execute(query).fetchall() == [(sum(range(0, COUNT, 2)),)]
    assert pq.read_metadata(file).num_rows == COUNT


def test_curl_and_jq(url: str):
    command = f"curl -sSf '{url}?max_records=3&columns=offset,value' | jq -c '[.offset, (.value | fromjson | .n)]'"
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[0,0]", "[1,2]", "[2,4]"]


def test_curl_goes_on_with_a_download_that_was_cut(url: str, tmp_path: Path):
    half = COUNT // 2
    file, fixed = tmp_path / "t.parquet", f"{url}?format=parquet&from=0:0,1:0&until=0:{half},1:{half}"
    subprocess.run(["curl", "-sSf", "-r", "0-999", "-o", file, fixed], check=True)
    subprocess.run(["curl", "-sSf", "-C", "-", "-o", file, fixed], check=True)
    assert pq.read_table(file).num_rows == COUNT
