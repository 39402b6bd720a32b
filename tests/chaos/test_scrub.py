"""Reading every replica where it is: what no consumer asks for is found too, and heals."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from chaos.cluster import ChaosCluster
from chaos.scrub import read_every_replica
from raftlog import Admin, Producer
from raftlog.record.batch import HEADER_BYTES

pytestmark = pytest.mark.cluster


async def test_damage_of_a_follower_is_found_and_heals(tmp_path: Path):
    async with ChaosCluster(tmp_path) as cluster:
        async with Admin(cluster.bootstrap) as admin:
            await admin.create_topic("t", partitions=1, replication_factor=3)
        async with Producer(cluster.bootstrap) as producer:
            await producer.send("t", b"a value")
            await producer.send("t", b"the newest one, which brokers have in memory, too")
        assert await read_every_replica(cluster, "t") == []

        (follower, *_) = {1, 2, 3} - {(await cluster.describe("t")).partitions[0].leader}
        flip_a_value(cluster.data_dir(f"broker-{follower}"))

        problems = await read_every_replica(cluster, "t")
        assert [problem.partition(":")[0] for problem in problems] == [f"t-0 on broker-{follower}"]
        async with asyncio.timeout(60):
            while await read_every_replica(cluster, "t"):
                await asyncio.sleep(0.1)


def flip_a_value(data_dir: Path) -> None:
    (log,) = data_dir.glob("partitions/t-0-*/*.log")
    with log.open("r+b") as file:
        content = file.read()
        file.seek(HEADER_BYTES + content[HEADER_BYTES:].index(b"a value"))
        file.write(b"A")
