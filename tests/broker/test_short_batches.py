"""Records that are alone in their batches, on a real cluster: short on disk, and like others for every reader."""

from __future__ import annotations

import csv
import io
import json

import aiohttp
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from raftlog import Admin, Consumer, Producer
from raftlog.cli.local_cluster import LocalCluster
from raftlog.record import iter_batches
from raftlog.wire import media

pytestmark = pytest.mark.cluster
VALUES = [bytes([65 + number]) * 100 for number in range(5)]


def url_of(cluster: LocalCluster) -> str:
    return cluster.public_url("broker-1")


@pytest.fixture
async def topic(shared_cluster: LocalCluster, topic_name: str) -> str:
    """Return a topic of six batches: five of one record, and one of two."""
    async with Admin(shared_cluster.bootstrap) as admin:
        await admin.create_topic(topic_name, partitions=1, replication_factor=3)
    async with Producer(shared_cluster.bootstrap) as producer:
        for number, value in enumerate(VALUES[:3]):
            await producer.send(topic_name, value, key=b"key" if number else None)
        await producer.send_many(topic_name, [b"two", b"records"])
    async with aiohttp.ClientSession() as session:
        for value in VALUES[3:]:
            body = {"records": [{"value": value.decode(), "key": "key"}]}
            async with session.post(f"{url_of(shared_cluster)}/v1/topics/{topic_name}/records", json=body) as answer:
                assert answer.status == 200, await answer.text()
    return topic_name


EXPECTED = [*VALUES[:3], b"two", b"records", *VALUES[3:]]


async def test_what_is_stored_is_short(shared_cluster: LocalCluster, topic: str):
    url = f"{url_of(shared_cluster)}/v1/topics/{topic}/partitions/0/records?offset=0"
    async with aiohttp.ClientSession() as session, session.get(url, headers={"Accept": media.BATCHES}) as answer:
        headers = [header for header, _ in iter_batches(await answer.read())]
    assert [header.is_short for header in headers] == [True, True, True, False, True, True]
    assert max(header.batch_length for header in headers if header.is_short) <= 184


@pytest.mark.parametrize("form", ["arrow", "parquet", "ndjson", "csv", "json"])
async def test_a_url_has_them(shared_cluster: LocalCluster, topic: str, form: str):
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{url_of(shared_cluster)}/v1/topics/{topic}/records?format={form}&columns=value") as answer,
    ):
        body = await answer.read()
        assert answer.status == 200, body
    if form in ("arrow", "parquet"):
        table = pa.ipc.open_stream(body).read_all() if form == "arrow" else pq.read_table(io.BytesIO(body))
        found = [bytes(value) if isinstance(value, bytes) else value.encode() for value in table["value"].to_pylist()]
    elif form == "csv":
        found = [row["value"].encode() for row in csv.DictReader(io.StringIO(body.decode()))]
    else:
        rows = json.loads(body) if form == "json" else [json.loads(line) for line in body.splitlines()]
        found = [row["value"].encode() for row in rows]
    assert found == EXPECTED


async def test_consumers_have_them(shared_cluster: LocalCluster, topic: str):
    async with Consumer(shared_cluster.bootstrap, topic, start="earliest") as consumer:
        records = [await anext(consumer) for _ in EXPECTED]
    assert [record.value for record in records] == EXPECTED
    assert [record.key for record in records[:3]] == [None, b"key", b"key"]
    async with Consumer(shared_cluster.bootstrap, topic, start="earliest") as consumer:
        tables = list[pa.Table]()
        while sum(table.num_rows for table in tables) < len(EXPECTED):
            tables.append(await consumer.fetch_arrow())
    assert pa.concat_tables(tables)["value"].to_pylist() == EXPECTED
