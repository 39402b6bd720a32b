"""An idempotent producer whose sequence the cluster does not know any more goes on by itself, on real processes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_producer_delivery import create, proxies, read_all

from raftlog import Admin, Producer
from raftlog.cli.local_cluster import LocalCluster
from raftlog.client.addresses import parse_bootstrap
from raftlog.errors import ErrorCode, InvalidRequestError
from raftlog.model import TopicPartition
from raftlog.record import NewRecord, build_batch
from raftlog.transport import HttpSession
from raftlog.wire import media, paths
from raftlog.wire.data import ProducerIdResponse

pytestmark = pytest.mark.cluster
SOON_MS, LATE_MS = 5_000, 86_400_000
"""The first leaves time to send again what was not answered: a producer that is forgotten before that writes twice."""


@pytest.fixture
def cluster(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """Return brokers that forget a producer after so many ms."""
    settings = {"*": {"broker": {"producer_id_expiration_ms": request.param, "checkpoint_interval_ms": 100}}}
    with LocalCluster(tmp_path / "cluster", controllers=1, port=0, extra=settings) as running:
        yield running


async def leader_of(cluster: LocalCluster, topic: str) -> str:
    async with Admin(cluster.bootstrap) as admin:
        return f"broker-{(await admin.describe_topic(topic)).partitions[0].leader}"


async def until_forgotten(cluster: LocalCluster, topic: str) -> None:
    """Write as another producer, and wait until the leader takes any sequence of it: it wrote last, so it goes last."""

    async def offer(sequence: int) -> bool:
        batch = build_batch([NewRecord(b"probe")], producer_id=somebody, producer_epoch=0, base_sequence=sequence)
        (leader,) = parse_bootstrap(cluster.public_url(await leader_of(cluster, topic)))
        path = f"{paths.fill(paths.BATCHES, topic=topic, partition=0)}?acks=all"
        try:
            await session.request("POST", leader, path, timeout_ms=5_000, body=batch, content_type=media.BATCHES)
        except InvalidRequestError as error:
            if error.code is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                raise
            return False
        return True

    async with HttpSession() as session, asyncio.timeout(30):
        (broker,) = parse_bootstrap(cluster.bootstrap.split(",")[0])
        given = await session.call(ProducerIdResponse, "POST", broker, paths.PRODUCERS, timeout_ms=5_000)
        somebody = given.producer_id
        assert await offer(0)
        while not await offer(100):
            await asyncio.sleep(0.1)


async def send_all(producer: Producer, topic: str, numbers: range) -> list[int]:
    sent = [producer.send_nowait(topic, b"%d" % number, partition=0) for number in numbers]
    return [metadata.offset for metadata in await asyncio.gather(*sent)]


def epoch_of(producer: Producer, topic: str) -> int:
    identity = producer._sender._accumulator._queues[TopicPartition(topic, 0)].identity
    assert identity is not None
    return identity.producer_epoch


async def values(cluster: LocalCluster, topic: str) -> list[int]:
    return [int(value) for value in await read_all(cluster.bootstrap, topic) if value is not None and value != b"probe"]


@pytest.mark.parametrize("cluster", [SOON_MS], indirect=True)
async def test_a_producer_that_was_forgotten_goes_on_without_loss_or_duplicates(cluster: LocalCluster, topic_name: str):
    """Its records are deleted, its state expires, answers are lost, and the leader is killed."""
    await create(cluster.bootstrap, topic_name)
    async with (
        proxies(cluster, "/v1/produce") as (found, dial),
        Producer(cluster.bootstrap, dial=dial, linger_ms=0, batch_bytes=100) as producer,
        Admin(cluster.bootstrap) as admin,
    ):
        for number in range(20):
            await producer.send(topic_name, b"%d" % number)
        await admin.delete_records(topic_name, 0, before=20)
        await until_forgotten(cluster, topic_name)
        for proxy in found:
            proxy.lose = 3
        await send_all(producer, topic_name, range(20, 60))
        await until_forgotten(cluster, topic_name)
        leader = await leader_of(cluster, topic_name)
        await asyncio.to_thread(cluster.kill, leader)
        await send_all(producer, topic_name, range(60, 100))
        await asyncio.to_thread(cluster.start_node, leader)
        await asyncio.to_thread(cluster.wait_ready)

    assert await values(cluster, topic_name) == list(range(20, 100))


@pytest.mark.parametrize("cluster", [LATE_MS], indirect=True)
async def test_a_sequence_that_is_lost_with_its_leader_begins_a_new_epoch(cluster: LocalCluster, topic_name: str):
    """acks=1, and only the leader has the last records when it dies: those are lost, and no others."""
    await create(cluster.bootstrap, topic_name)
    async with Producer(cluster.bootstrap, acks=1, linger_ms=0) as producer:
        await send_all(producer, topic_name, range(10))
        leader = await leader_of(cluster, topic_name)
        followers = [name for name in cluster.brokers if name != leader]
        async with asyncio.timeout(20):
            while len(await values(cluster, topic_name)) < 10:  # What can be read, the followers have.
                await asyncio.sleep(0.05)
        for name in followers:
            await asyncio.to_thread(cluster.pause, name)
        for number in range(10, 15):
            assert (await producer.send(topic_name, b"%d" % number)).offset == number
        await asyncio.to_thread(cluster.kill, leader)
        for name in followers:
            await asyncio.to_thread(cluster.resume, name)
        again = await send_all(producer, topic_name, range(15, 40))
        epoch = epoch_of(producer, topic_name)
        await asyncio.to_thread(cluster.start_node, leader)
        await asyncio.to_thread(cluster.wait_ready)

    first = again[0]
    assert first in (10, 11), "the followers' parked fetches may have been answered with one record, and no more"
    assert again == list(range(first, first + 25))
    assert epoch == 1
    assert await values(cluster, topic_name) == [*range(first), *range(15, 40)]
