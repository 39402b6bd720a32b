"""Consumers that read a follower in their own rack, on real processes: their records, and the return to the leader."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from raftlog import Admin, Consumer, Producer
from raftlog.cli.local_cluster import LocalCluster

pytestmark = pytest.mark.cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    planned = LocalCluster(tmp_path / "c", controllers=1, brokers=3, port=0)
    for name in planned.brokers:
        planned.configure(name, rack=f"rack-of-{name}")
    with planned as running:
        yield running


async def bytes_out(cluster: LocalCluster, broker: str) -> int:
    async with aiohttp.ClientSession() as http, http.get(f"{cluster.public_url(broker)}/metrics") as response:
        lines = (await response.text()).splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("raftlog_bytes_out_total ")))


async def read(consumer: Consumer, count: int) -> list[bytes]:
    values: list[bytes] = []
    async with asyncio.timeout(30):
        while len(values) < count:
            values += [record.value or b"" for record in await consumer.fetch()]
    return values


async def test_a_consumer_reads_the_follower_in_its_rack_and_falls_back_to_the_leader(cluster: LocalCluster):
    async with Admin(cluster.bootstrap) as admin:
        info = await admin.create_topic("near", partitions=1, replication_factor=3)
    leader = f"broker-{info.partitions[0].leader}"
    near = next(name for name in cluster.brokers if name != leader)
    async with (
        Producer(cluster.bootstrap) as producer,
        Consumer(cluster.bootstrap, "near", start="earliest", client_rack=f"rack-of-{near}") as consumer,
    ):
        values = [b"%d" % number for number in range(50)]
        for value in values:
            await producer.send("near", value)
        assert await read(consumer, 50) == values
        assert await bytes_out(cluster, leader) == 0
        assert await bytes_out(cluster, near) > 0

        await asyncio.to_thread(cluster.kill, near)
        await producer.send("near", b"after")
        assert await read(consumer, 1) == [b"after"]
        assert await bytes_out(cluster, leader) > 0


async def test_curl_is_sent_to_the_leader_unless_any_replica_will_do(cluster: LocalCluster):
    async with Admin(cluster.bootstrap) as admin, Producer(cluster.bootstrap) as producer:
        info = await admin.create_topic("curled", partitions=1, replication_factor=2)
        await producer.send("curled", b"x")
    first, second = info.partitions[0].replicas
    leader = info.partitions[0].leader
    follower = first if leader == second else second
    (stranger,) = {1, 2, 3} - {first, second}
    path = "/v1/topics/curled/partitions/0/records"
    async with aiohttp.ClientSession() as http:

        async def get(broker: int, query: str) -> tuple[int, dict]:
            url = f"{cluster.public_url(f'broker-{broker}')}{path}?{query}"
            async with http.get(url, allow_redirects=False) as response:
                return response.status, await response.json()

        assert (await get(follower, "offset=0"))[0] == 307
        assert (await get(stranger, "offset=0&replica=any"))[0] == 307
        async with asyncio.timeout(10):
            while (answer := await get(follower, "offset=0&replica=any"))[1].get("high_watermark") != 1:
                assert answer[0] == 200
        assert [record["value"] for record in answer[1]["records"]] == ["x"]
        status, refused = await get(follower, "offset=5&replica=any")
        assert (status, refused["error"]["code"]) == (503, "OFFSET_NOT_AVAILABLE")
        assert (await get(follower, "replica=nearest"))[0] == 400
