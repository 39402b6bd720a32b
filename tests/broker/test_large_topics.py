"""Topics of as many partitions as allowed: no event loop blocks (`event_loops_keep_turning`)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import aiohttp
import orjson
import pytest

from raftlog import Admin, Producer
from raftlog.cli.local_cluster import LocalCluster
from raftlog.metadata_quorum.controller.topics import MAX_PARTITIONS

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.fixture
def cluster(tmp_path: Path, stall_file: Path) -> Iterator[LocalCluster]:
    assert stall_file.exists()
    with LocalCluster(tmp_path / "c", controllers=1, brokers=1, port=0) as cluster:
        yield cluster


async def read_by_url(url: str) -> None:
    async with aiohttp.ClientSession() as session:
        async with session.get(url) as response:
            lines = [orjson.loads(line) for line in (await response.read()).splitlines()]
        async with session.get(f"{url}?follow=true") as response:
            refused = await response.json()
    assert [line["partition"] for line in lines] == [0, MAX_PARTITIONS - 1]
    assert "expected at most 1000 with follow=true" in refused["error"]["message"]


async def read_metadata(broker: str) -> None:
    """Read descriptions of the topic; a repeated name counts once."""
    repeated = "&".join(["topic=large"] * 600)
    async with aiohttp.ClientSession() as session:
        for path in (f"metadata?{repeated}", "metadata", "topics"):
            async with session.get(f"{broker}/v1/{path}") as response:
                topics = orjson.loads(await response.read())["topics"]
            assert [len(topic["partitions"]) for topic in topics if topic["topic"] == "large"] == [MAX_PARTITIONS]
        async with session.get(f"{broker}/v1/topics/large") as response:
            assert len(orjson.loads(await response.read())["partitions"]) == MAX_PARTITIONS


async def test_a_topic_of_10_000_partitions_is_created_written_changed_and_deleted(cluster: LocalCluster):
    async with Admin(cluster.bootstrap, timeout_ms=60_000) as admin, Producer(cluster.bootstrap) as producer:
        await admin.create_topic("large", partitions=MAX_PARTITIONS, replication_factor=1)
        for partition in (0, MAX_PARTITIONS - 1):
            assert (await producer.send("large", b"x", partition=partition)).offset == 0
        await read_by_url(f"{cluster.public_url('broker-1')}/v1/topics/large/records")
        await read_metadata(cluster.public_url("broker-1"))
        await admin.create_topic("small", partitions=1, replication_factor=1)
        await admin.alter_topic("large", configs={"retention_ms": 1_000_000})
        await producer.send("small", b"x", partition=0)
        await admin.delete_topic("large")
        await producer.send("small", b"x", partition=0)
