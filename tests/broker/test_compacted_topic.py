"""A compacted topic on a cluster of real processes: cleaned while it is written, read in every form, refetched."""

from __future__ import annotations

import asyncio
import random
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from broker_support import Http, http_to

from pyspark_raftlog.fetch import Chunk, records_in
from pyspark_raftlog.offsets import OffsetRange
from raftlog import Consumer, Producer
from raftlog.cli.local_cluster import LocalCluster
from raftlog.errors import ErrorCode, InvalidRequestError
from raftlog.record import iter_batches

pytestmark = pytest.mark.cluster
UPDATES, KEYS = 4_000, 50
CONFIGS = {"cleanup_policy": "compact", "segment_bytes": 65_536, "max_compaction_lag_ms": 1, "delete_retention_ms": 0}
Rows = list[tuple[int, bytes | None, bytes | None]]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    settings = {"*": {"broker": {"log_cleaner_backoff_ms": 100}}}
    folder = tmp_path_factory.mktemp("compacting")
    with LocalCluster(folder, controllers=1, brokers=3, port=0, extra=settings) as running:
        yield running


@pytest.fixture
async def http(cluster: LocalCluster) -> AsyncIterator[Http]:
    async with http_to(cluster.public_url("broker-1")) as http:
        yield http


async def write(bootstrap: str, topic: str) -> dict[bytes, tuple[int, bytes]]:
    """Update keys at random and delete a few; return the last (offset, value) of each that is left."""
    draw, last = random.Random(7), dict[bytes, tuple[int, bytes]]()
    async with Producer(bootstrap) as producer:
        sent = []
        for number in range(UPDATES):
            key = b"key-%d" % draw.randrange(KEYS)
            value = None if draw.random() < 0.1 else b"%d" % number * 10
            sent.append((key, value, asyncio.ensure_future(producer.send(topic, value, key=key))))
            if number % 100 == 99:
                await sent[-1][2]
        for key, value, future in sent:
            offset = (await future).offset
            if value is None:
                last.pop(key, None)
            else:
                last[key] = (offset, value)
    return last


async def read_pages(http: Http, topic: str, accept: str) -> AsyncIterator[Any]:
    """Read a partition as curl would: page by page, by the header that says where to go on."""
    offset, end = "0", await http.end(topic)
    while int(offset) < end:
        path = f"/v1/topics/{topic}/partitions/0/records?offset={offset}&max_bytes=20000"
        reply = await http("GET", path, headers={"Accept": accept})
        assert reply.status == 200, reply.body
        assert int(reply.headers["Raftlog-Next-Offset"]) > int(offset)
        offset = reply.headers["Raftlog-Next-Offset"]
        yield reply


async def by_json(http: Http, topic: str) -> Rows:
    return [
        (record["offset"], record["key"].encode(), record["value"] and record["value"].encode())
        async for reply in read_pages(http, topic, "application/json")
        for record in reply.json["records"]
    ]


def rows_of(table: pa.Table | pa.RecordBatch) -> Rows:
    columns = (table.column(name).to_pylist() for name in ("offset", "key", "value"))
    return list(zip(*columns, strict=True))


async def by_arrow(http: Http, topic: str) -> Rows:
    rows: Rows = []
    async for reply in read_pages(http, topic, "application/vnd.apache.arrow.stream"):
        with pa.ipc.open_stream(reply.body) as stream:
            rows += rows_of(stream.read_all())
    return rows


async def by_spark(http: Http, topic: str) -> Rows:
    wanted = OffsetRange(topic, 0, 0, await http.end(topic))
    pages = [page.body async for page in read_pages(http, topic, "application/vnd.raftlog.batches")]
    chunks = [Chunk(0, list(iter_batches(page))) for page in pages]
    return [row for chunk in chunks for batch in records_in(wanted, chunk) for row in rows_of(batch)]


async def by_client(bootstrap: str, topic: str, *, arrow: bool) -> Rows:
    rows: Rows = []
    async with Consumer(bootstrap, topic, start="earliest") as consumer:
        (end,) = (await consumer.end_offsets()).values()
        while consumer.position(topic, 0) < end:
            if arrow:
                rows += rows_of(await consumer.fetch_arrow())
            else:
                rows += [(record.offset, record.key, record.value) for record in await consumer.fetch()]
    return rows


async def until_compacted(http: Http, topic: str, expected: Rows) -> None:
    async with asyncio.timeout(60):
        while await by_json(http, topic) != expected:
            await asyncio.sleep(0.05)


async def in_sync(http: Http, topic: str) -> Any:
    return (await http("GET", f"/v1/topics/{topic}")).json["partitions"][0]


async def test_updates_are_compacted_and_every_reader_sees_the_same(cluster: LocalCluster, http: Http, topic_name: str):
    created = await http.create(topic_name, replication_factor=3, configs=CONFIGS)
    last = await write(cluster.bootstrap, topic_name)
    expected = sorted((offset, key, value) for key, (offset, value) in last.items())
    assert len(expected) > KEYS / 2

    await until_compacted(http, topic_name, expected)

    assert await http.end(topic_name) == UPDATES
    assert await by_arrow(http, topic_name) == expected
    assert await by_spark(http, topic_name) == expected
    assert await by_client(cluster.bootstrap, topic_name, arrow=False) == expected
    assert await by_client(cluster.bootstrap, topic_name, arrow=True) == expected
    (offset, _, _) = expected[3]
    async with Consumer(cluster.bootstrap, topic_name) as consumer:
        await consumer.seek(topic_name, 0, expected[2][0] + 1)
        assert (await consumer.fetch(max_records=1, max_wait_ms=5_000))[0].offset == offset

    # A follower whose disk was lost gets the cleaned log, and leads with it.
    leader = created["partitions"][0]["leader"]
    lost = next(broker for broker in (2, 3) if broker != leader)
    await asyncio.to_thread(lose_replica, cluster, f"broker-{lost}", topic_name)
    async with asyncio.timeout(60):
        while lost not in (await in_sync(http, topic_name))["isr"]:
            await asyncio.sleep(0.05)
    others = [broker for broker in created["partitions"][0]["replicas"] if broker != lost]
    move = {"topic": topic_name, "partition": 0, "replicas": [lost, *others]}
    await http("POST", "/v1/reassignments", json={"partitions": [move]})
    elect = {"partitions": [{"topic": topic_name, "partition": 0}]}
    async with asyncio.timeout(60):
        while (await in_sync(http, topic_name))["leader"] != lost:
            await http("POST", "/v1/leader-elections", json=elect)
            await asyncio.sleep(0.05)
    await until_compacted(http, topic_name, expected)
    assert await by_arrow(http, topic_name) == expected
    produced = await http.produce(topic_name, "next", key="k")
    assert produced.json["offsets"] == [{"partition": 0, "offset": UPDATES}]


def lose_replica(cluster: LocalCluster, name: str, topic: str) -> None:
    cluster.kill(name)
    (folder,) = Path(cluster.data).glob(f"**/{name}/**/partitions/{topic}-0-*")
    shutil.rmtree(folder)
    cluster.restart(name)
    cluster.wait_ready(names=[name])


async def test_a_compacted_topic_takes_no_record_without_a_key(cluster: LocalCluster, http: Http, topic_name: str):
    await http.create(topic_name, replication_factor=3, configs=CONFIGS)

    refused = await http.produce(topic_name, "no key")
    async with Producer(cluster.bootstrap) as producer:
        with pytest.raises(InvalidRequestError, match="every record needs a key") as caught:
            await producer.send(topic_name, b"no key")

    assert (refused.status, refused.code) == (422, "INVALID_RECORD")
    assert caught.value.code is ErrorCode.INVALID_RECORD
    assert (await http.produce(topic_name, "x", key="k")).status == 200
    path = f"/v1/topics/{topic_name}"
    wrong = await http("PATCH", path, json={"configs": {"cleanup_policy": "shrink"}})
    assert (wrong.status, wrong.code) == (400, "INVALID_CONFIG")
    changed = await http("PATCH", path, json={"configs": {"cleanup_policy": "compact,delete"}})
    assert changed.json["configs"]["cleanup_policy"] == "compact,delete"
