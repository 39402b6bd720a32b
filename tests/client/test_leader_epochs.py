"""Commits contain the leader epoch of the read, so that the next member notices a truncated log (KIP-320)."""

from __future__ import annotations

import asyncio

import pytest

from raftlog import Admin, Consumer, OffsetAndMetadata, OffsetOutOfRangeError, Producer
from raftlog.cli.local_cluster import LocalCluster
from raftlog.model import TopicPartition

pytestmark = pytest.mark.cluster


@pytest.fixture
def url(shared_cluster: LocalCluster) -> str:
    return shared_cluster.bootstrap


async def leader_epoch(admin: Admin, topic: str) -> int:
    return (await admin.describe_topic(topic)).partitions[0].leader_epoch


async def two_epochs(url: str, topic: str) -> tuple[int, int]:
    """Write five records in one leader epoch and five in a later one; return both."""
    async with Admin(url) as admin, Producer(url) as producer:
        await admin.create_topic(topic, partitions=1, replication_factor=3)
        await producer.send_many(topic, [b"%d" % number for number in range(5)])
        before = await leader_epoch(admin, topic)
        replicas = (await admin.describe_topic(topic)).partitions[0].replicas
        await admin.reassign_partitions({(topic, 0): [*replicas[1:], replicas[0]]})
        async with asyncio.timeout(30):
            while await leader_epoch(admin, topic) == before:
                await admin.elect_leaders([(topic, 0)])
                await asyncio.sleep(0.1)
        await producer.send_many(topic, [b"%d" % number for number in range(5, 10)])
        return before, await leader_epoch(admin, topic)


async def read(consumer: Consumer, count: int) -> list[int]:
    offsets: list[int] = []
    async with asyncio.timeout(30):
        while len(offsets) < count:
            offsets += [record.offset for record in await consumer.fetch(max_records=count - len(offsets))]
    return offsets


async def test_a_commit_says_in_which_epoch_was_read_and_who_goes_on_notices_that_the_log_was_cut(
    url: str, topic_name: str
):
    first, second = await two_epochs(url, topic_name)
    partition = TopicPartition(topic_name, 0)
    group = {"group_id": f"of-{topic_name}", "enable_auto_commit": False}
    async with Consumer(url, topic_name, auto_offset_reset="earliest", **group) as consumer:  # type: ignore[arg-type]
        epochs = {}
        for count in (4, 5):
            await read(consumer, count)
            await consumer.commit()
            epochs[consumer.position(topic_name, 0)] = (await consumer.committed())[partition]
    assert epochs == {
        4: OffsetAndMetadata(offset=4, leader_epoch=first),
        9: OffsetAndMetadata(offset=9, leader_epoch=second),
    }

    async with Consumer(url, topic_name, auto_offset_reset="none", **group) as consumer:  # type: ignore[arg-type]
        assert await read(consumer, 1) == [9]  # What it has read is what is there.
        # As if the offsets 5 to 7 had been of the first epoch when they were read, and were cut away since.
        await consumer.commit({partition: OffsetAndMetadata(offset=8, leader_epoch=first)})
    async with Consumer(url, topic_name, auto_offset_reset="none", **group) as consumer:  # type: ignore[arg-type]
        with pytest.raises(OffsetOutOfRangeError, match=r"was truncated .* the log differs from offset 5 on") as told:
            await read(consumer, 1)
        assert told.value.details == {"diverging_offset": 5, "leader_epoch": first}
    async with Consumer(url, topic_name, auto_offset_reset="latest", **group) as consumer:  # type: ignore[arg-type]
        assert await read(consumer, 5) == [5, 6, 7, 8, 9]  # Not "latest": only what was cut is read anew.


async def test_a_bare_offset_is_committed_with_the_epoch_of_the_record_before_it(url: str, topic_name: str):
    first, second = await two_epochs(url, topic_name)
    partition = TopicPartition(topic_name, 0)
    group = {"group_id": f"of-{topic_name}", "enable_auto_commit": False}
    async with Consumer(url, topic_name, auto_offset_reset="earliest", **group) as consumer:  # type: ignore[arg-type]
        await read(consumer, 10)
        found = {}
        for offset in (3, 5, 6, 10, 11):
            await consumer.commit({partition: offset})
            committed = (await consumer.committed())[partition]
            assert committed is not None
            found[offset] = committed.leader_epoch
        assert found == {3: first, 5: first, 6: second, 10: second, 11: -1}

        async with Producer(url, transactional_id=topic_name) as producer, producer.transaction() as transaction:
            await producer.send(topic_name, b"made of them")
            await transaction.send_offsets({partition: 4}, consumer.group_metadata)
        assert (await consumer.committed())[partition] == OffsetAndMetadata(offset=4, leader_epoch=first)
