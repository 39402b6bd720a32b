"""Reading topics by URL while readers are slow or vanish, or leaders die: no other client and no answer is harmed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import orjson
import pytest
from broker_support import http_to

import raftlog
from raftlog.cli.local_cluster import LocalCluster

pytestmark = pytest.mark.cluster
MB = 1 << 20
VALUE = b"x" * 1_000


def memory_mb(cluster: LocalCluster) -> float:
    lines = Path(f"/proc/{cluster.pid('broker-1')}/status").read_text().splitlines()
    return int(dict(line.split(":", 1) for line in lines)["VmRSS"].split()[0]) / 1024


async def fill(cluster: LocalCluster, topic: str, records: int) -> None:
    async with raftlog.Admin(cluster.bootstrap) as admin:
        await admin.create_topic(topic, partitions=2)
    async with raftlog.Producer(cluster.bootstrap) as producer:
        for partition in range(2):
            await asyncio.gather(*(producer.send(topic, VALUE, partition=partition) for _ in range(records // 2)))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Return a cluster for all; the last test kills a broker of it."""
    with LocalCluster(tmp_path_factory.mktemp("read"), controllers=1, brokers=3, port=0) as running:
        yield running


async def test_slow_readers_hold_little_memory_and_hinder_nobody(cluster: LocalCluster, topic_name: str):
    await fill(cluster, topic_name, 40_000)
    url = cluster.public_url("broker-1")
    before = memory_mb(cluster)
    async with http_to(url) as http, aiohttp.ClientSession() as session:
        path = f"{url}/v1/topics/{topic_name}/records?format=ndjson"
        readers = [await session.get(path) for _ in range(16)]
        for _ in range(20):
            assert (await http.produce(topic_name, "y")).status == 200
        grown = memory_mb(cluster) - before
        for reader in readers:
            reader.close()
    assert grown < 16 * 16


async def test_a_read_whose_records_are_deleted_ends_broken_and_not_short(cluster: LocalCluster, topic_name: str):
    await fill(cluster, topic_name, 60_000)
    url = f"{cluster.public_url('broker-1')}/v1/topics/{topic_name}/records"
    async with asyncio.timeout(60), aiohttp.ClientSession(read_bufsize=MB) as session, session.get(url) as response:
        await response.content.readline()
        async with raftlog.Admin(cluster.bootstrap) as admin:
            for partition in range(2):
                await admin.delete_records(topic_name, partition)
        with pytest.raises(aiohttp.ClientPayloadError):
            await response.read()


async def test_a_read_outlives_the_leader(cluster: LocalCluster, topic_name: str):
    await fill(cluster, topic_name, 40_000)
    async with raftlog.Admin(cluster.bootstrap) as admin:
        leaders = [partition.leader for partition in (await admin.describe_topic(topic_name)).partitions]
    reader = next(broker for broker in (1, 2, 3) if broker != leaders[1])
    url = f"{cluster.public_url(f'broker-{reader}')}/v1/topics/{topic_name}/records?columns=partition,offset,value"
    seen: list[tuple[int, int]] = []
    async with asyncio.timeout(60), aiohttp.ClientSession(read_bufsize=MB) as session, session.get(url) as response:
        async for line in response.content:
            told = orjson.loads(line)
            seen.append((told["partition"], told["offset"]))
            if len(seen) == 10_000:
                cluster.kill(f"broker-{leaders[1]}")
    assert seen == [(partition, offset) for partition in range(2) for offset in range(20_000)]
