"""Topics that are created again with fewer partitions, and consumers without a group that read them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from raftlog import Admin, Consumer, Producer
from raftlog.cli.local_cluster import LocalCluster
from raftlog.client.connection import METADATA_MAX_AGE_S
from raftlog.errors import NotFoundError, OffsetOutOfRangeError
from raftlog.model import TopicPartition

pytestmark = pytest.mark.cluster


@pytest.fixture
async def url(shared_cluster: LocalCluster, topic_name: str) -> str:
    """Return where a cluster is that has a topic with 4 partitions, each with a record."""
    async with Admin(shared_cluster.bootstrap) as admin:
        await admin.create_topic(topic_name, partitions=4)
    await fill(shared_cluster.bootstrap, topic_name, 4)
    return shared_cluster.bootstrap


async def fill(url: str, topic: str, partitions: int) -> None:
    async with Producer(url) as producer:
        for number in range(partitions):
            await producer.send(topic, b"%d" % number, partition=number)


async def shrink(url: str, topic: str) -> None:
    """Create the topic again with one partition."""
    async with Admin(url) as admin:
        await admin.delete_topic(topic)
        await admin.create_topic(topic, partitions=1)


async def poll(consumer: Consumer, until: Callable[[], bool]) -> list[tuple[int, int]]:
    """Return (partition, offset) of what a consumer gets until something holds."""
    found = []
    async with asyncio.timeout(40):
        while not until():
            found += [(one.partition, one.offset) for one in await consumer.fetch(max_wait_ms=50)]
    return found


async def read(consumer: Consumer, count: int) -> list[tuple[int, int]]:
    """Return (partition, offset) of some records."""
    found: list[tuple[int, int]] = []
    async with asyncio.timeout(40):
        while len(found) < count:
            found += [(one.partition, one.offset) for one in await consumer.fetch(max_wait_ms=50)]
    return found


async def test_partitions_that_are_no_longer_there_are_dropped(
    url: str, topic_name: str, caplog: pytest.LogCaptureFixture
):
    options: Any = {"start": "earliest", "on_out_of_range": "earliest"}
    async with Consumer(url, topic_name, **options) as consumer:
        assert sorted(await read(consumer, 4)) == [(number, 0) for number in range(4)]
        await shrink(url, topic_name)
        with caplog.at_level(logging.WARNING):
            assert await poll(consumer, lambda: len(consumer.assignment) == 1) == []
        told = [record.getMessage() for record in caplog.records if "no longer read" in record.getMessage()]
        assert len(told) == 1
        assert f"{topic_name}-1, {topic_name}-2, {topic_name}-3" in told[0]
        await consumer.seek_to("earliest")
        await fill(url, topic_name, 1)
        assert await read(consumer, 1) == [(0, 0)]
        async with Admin(url) as admin:
            await admin.alter_topic(topic_name, partitions=2)
        await fill(url, topic_name, 2)
        consumer._connection._refreshed_at[topic_name] -= METADATA_MAX_AGE_S
        assert sorted(await read(consumer, 2)) == [(0, 1), (1, 0)], "a partition that comes back is read from its start"


async def test_an_error_for_the_position_comes_once_and_only_of_what_is_there(url: str, topic_name: str):
    async with Consumer(url, topic_name, start="earliest") as consumer:
        await read(consumer, 4)
        await shrink(url, topic_name)
        with pytest.raises(OffsetOutOfRangeError, match="was deleted and recreated"):
            await poll(consumer, lambda: False)
        assert consumer.assignment == [TopicPartition(topic_name, 0)]
        await consumer.seek_to("earliest")
        await fill(url, topic_name, 1)
        assert await read(consumer, 1) == [(0, 0)]


@pytest.mark.parametrize("policy", ["earliest", "error"])
async def test_partitions_that_were_asked_for_by_number_raise(url: str, topic_name: str, policy: Any):
    options: Any = {"start": "earliest", "on_out_of_range": policy, "partitions": [0, 3]}
    async with Consumer(url, topic_name, **options) as consumer:
        await read(consumer, 2)
        await shrink(url, topic_name)
        for _ in range(3):
            with pytest.raises(NotFoundError, match=f"topic '{topic_name}' has partitions 0 to 0 now, not 3"):
                await poll(consumer, lambda: False)
        await consumer.seek(topic_name, 3, 0)
        with pytest.raises(NotFoundError, match="not 3"):
            await poll(consumer, lambda: False)


async def test_a_member_of_a_group_goes_on(url: str, topic_name: str):
    options: Any = {"group_id": topic_name, "auto_offset_reset": "earliest"}
    async with Consumer(url, topic_name, **options) as consumer:
        await read(consumer, 4)
        await shrink(url, topic_name)
        await poll(consumer, lambda: consumer.assignment == [TopicPartition(topic_name, 0)])
        await fill(url, topic_name, 1)
        assert await read(consumer, 1) == [(0, 0)]
