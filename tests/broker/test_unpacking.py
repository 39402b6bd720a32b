"""Small batches that unpack to large ones: however many there are, a broker unpacks and renders a few at a time."""

from __future__ import annotations

import io
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Self

import aiohttp
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from broker_support import Http, http_to

from raftlog.blocking import Admin
from raftlog.cli.local_cluster import LocalCluster
from raftlog.record import NewRecord, build_batch
from raftlog.wire import media

pytestmark = pytest.mark.cluster
RECORDS, BATCHES = 250_000, 60
NOT_ENCODED = {"Accept-Encoding": "identity"}
MOST_GROWN_MB = 250
"""One batch is 7 MB unpacked, 26 MB of JSON, and some more while it is rendered. All of them are 1.6 GB of JSON."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("packed"), port=0, controllers=1, brokers=1) as cluster:
        yield cluster


@pytest.fixture
async def http(cluster: LocalCluster) -> AsyncIterator[Http]:
    async with http_to(cluster.bootstrap) as http:
        yield http


@pytest.fixture(scope="module")
def topic(cluster: LocalCluster) -> str:
    """Return a topic of 60 batches of 1 kB each, with 15 million records, which tests only read."""
    with Admin(cluster.bootstrap) as admin:
        admin.create_topic("packed", partitions=1, replication_factor=1)
    records = [NewRecord(b"", None, time.time_ns() // 1_000)] * RECORDS
    packed = bytes(build_batch(records, compression="zstd"))
    assert len(packed) < 2_000
    url = f"{cluster.bootstrap}/v1/topics/packed/partitions/0/batches"
    for _ in range(BATCHES):
        with urllib.request.urlopen(urllib.request.Request(url, packed, {"Content-Type": media.BATCHES})) as answer:
            assert answer.status == 200
    return "packed"


class Peak:
    """The most memory that a broker has while the block runs."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._process = Path(f"/proc/{cluster.pid('broker-1')}")

    def __enter__(self) -> Self:
        (self._process / "clear_refs").write_text("5")
        self._before = self._mb("VmRSS")
        return self

    def __exit__(self, *_: object) -> None:
        self.grown = self._mb("VmHWM") - self._before

    def _mb(self, field: str) -> float:
        lines = (self._process / "status").read_text().splitlines()
        return int(dict(line.split(":", 1) for line in lines)[field].split()[0]) / 1024


@pytest.mark.parametrize("form", [media.JSON, media.NDJSON, media.ARROW_STREAM])
async def test_one_answer_unpacks_one_such_batch(cluster: LocalCluster, http: Http, topic: str, form: str):
    with Peak(cluster) as peak:
        path = f"/v1/topics/{topic}/partitions/0/records?offset=100&max_bytes=50000000"
        reply = await http("GET", path, headers={"Accept": form})
    assert reply.status == 200
    assert (reply.headers[media.NEXT_OFFSET], reply.headers[media.MORE]) == (str(RECORDS), "true")
    assert peak.grown < MOST_GROWN_MB, f"{peak.grown:.0f} MB"
    if form == media.JSON:
        assert [record["offset"] for record in reply.json["records"]] == list(range(100, RECORDS))
    elif form == media.NDJSON:
        lines = reply.body.splitlines()
        assert (len(lines), orjson.loads(lines[-1])["offset"]) == (RECORDS - 100, RECORDS - 1)
    else:
        assert pa.ipc.open_stream(reply.body).read_all().num_rows == RECORDS - 100


async def test_raw_batches_are_answered_as_they_are(http: Http, topic: str):
    path = f"/v1/topics/{topic}/partitions/0/records?offset=0"
    reply = await http("GET", path, headers={"Accept": media.BATCHES})
    assert (reply.headers[media.NEXT_OFFSET], reply.headers[media.MORE]) == (str(RECORDS * BATCHES), "false")


@pytest.mark.parametrize("form", ["arrow", "parquet"])
async def test_a_whole_topic_is_unpacked_piece_by_piece(cluster: LocalCluster, topic: str, form: str):
    url = f"{cluster.bootstrap}/v1/topics/{topic}/records?format={form}&columns=offset"
    with Peak(cluster) as peak:
        async with aiohttp.ClientSession() as session, session.get(url, headers=NOT_ENCODED) as answer:
            assert answer.status == 200
            body = await answer.read()
    assert peak.grown < MOST_GROWN_MB, f"{peak.grown:.0f} MB"
    read = pa.ipc.open_stream(body).read_all() if form == "arrow" else pq.read_table(io.BytesIO(body))
    assert read.column("offset").to_numpy().tolist() == list(range(RECORDS * BATCHES))
