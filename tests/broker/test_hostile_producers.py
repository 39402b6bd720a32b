"""Clients that use the producer ids of others: no record is lost or written twice because of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from broker_support import Http, Reply, http_to

from raftlog import Consumer, Producer
from raftlog.cli.local_cluster import LocalCluster
from raftlog.client.core.pending_batch import ProducerIdentity
from raftlog.model import MAX_PRODUCER_EPOCH, TopicPartition
from raftlog.record import NewRecord, build_batch
from raftlog.wire import media

pytestmark = pytest.mark.cluster
MOST_PRODUCERS = 4


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Return a cluster whose partitions remember few producers."""
    settings = {"*": {"broker": {"max_producer_ids": MOST_PRODUCERS}}}
    folder: Path = tmp_path_factory.mktemp("small") / "cluster"
    with LocalCluster(folder, controllers=1, brokers=1, port=0, extra=settings) as running:
        yield running


def first(cluster: LocalCluster) -> str:
    return cluster.bootstrap.split(",")[0]


async def given(http: Http) -> int:
    return int((await http("POST", "/v1/producers")).json["producer_id"])


async def write(
    http: Http, topic: str, producer: int, sequence: int, *values: str, epoch: int = 0, partition: int = 0
) -> Reply:
    records = [NewRecord(value.encode(), timestamp=1) for value in values]
    batch = build_batch(records, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)
    path = f"/v1/topics/{topic}/partitions/{partition}/batches"
    return await http("POST", path, data=bytes(batch), headers={"Content-Type": media.BATCHES})


async def values(cluster: LocalCluster, topic: str, count: int) -> list[bytes | None]:
    async with Consumer(cluster.bootstrap, topic, start="earliest") as consumer:
        return [(await anext(consumer)).value for _ in range(count)]


def identity_of(producer: Producer, topic: str) -> ProducerIdentity:
    identity = producer._sender._accumulator._queues[TopicPartition(topic, 0)].identity
    assert identity is not None
    return identity


async def test_other_records_under_the_next_sequence_are_no_duplicate(shared_cluster: LocalCluster, topic_name: str):
    async with http_to(first(shared_cluster)) as http:
        await http.create(topic_name, replication_factor=3)
        victim = await given(http)
        assert (await write(http, topic_name, victim, 0, "a")).json["base_offset"] == 0
        assert (await write(http, topic_name, victim, 1, "stranger's")).status == 200
        refused = await write(http, topic_name, victim, 1, "victim's")
        assert (refused.status, refused.code) == (409, "DUPLICATE_SEQUENCE_NUMBER")
        assert "was not appended" in refused.message
        again = await write(http, topic_name, victim, 0, "a")
        assert (again.json["base_offset"], again.json["duplicate"]) == (0, True)


@pytest.mark.parametrize("epochs", [0, 1, MAX_PRODUCER_EPOCH])
@pytest.mark.parametrize("count", [1, 3])
async def test_a_producer_goes_on_when_a_stranger_writes_under_its_id(
    shared_cluster: LocalCluster, topic_name: str, epochs: int, count: int
):
    async with (
        http_to(first(shared_cluster)) as http,
        Producer(shared_cluster.bootstrap, linger_ms=0, delivery_timeout_ms=5_000) as producer,
    ):
        await http.create(topic_name, replication_factor=3)
        await producer.send(topic_name, b"before")
        identity, stranger = identity_of(producer, topic_name), ["stranger's"] * count
        sequence = 0 if epochs else 1
        wrote = await write(http, topic_name, identity.producer_id, sequence, *stranger, epoch=epochs)
        assert wrote.status == 200, wrote.body
        for value in (b"x", b"y", b"z"):
            await producer.send(topic_name, value)
    read = await values(shared_cluster, topic_name, 4 + count)
    assert [value for value in read if value != b"stranger's"] == [b"before", b"x", b"y", b"z"]


async def test_ids_that_the_cluster_never_gave_are_refused(shared_cluster: LocalCluster, topic_name: str):
    async with http_to(first(shared_cluster)) as http:
        await http.create(topic_name, replication_factor=3)
        mine = await given(http)
        assert mine < 2**53, "JSON's readers keep it exact"
        for invented in (0, 7, mine - 2, mine + 2, mine ^ 1 << 30, 2**52, 2**53 - 2, 2**62, 2**63 - 1, -2):
            refused = await write(http, topic_name, invented, 0, "x")
            assert (refused.status, refused.code) == (409, "UNKNOWN_PRODUCER_ID"), (invented, refused.body)
            assert "POST /v1/producers" in refused.message
        assert await http.end(topic_name) == 0
        assert (await write(http, topic_name, mine, 0, "x")).status == 200


async def test_every_broker_knows_an_id_at_once(shared_cluster: LocalCluster, topic_name: str):
    async with http_to(first(shared_cluster)) as http:
        await http.create(topic_name, replication_factor=3, partitions=6)
        for broker in shared_cluster.brokers:
            async with http_to(shared_cluster.public_url(broker)) as other:
                fresh = await given(other)
                replies = [await write(http, topic_name, fresh, 0, "x", partition=n) for n in range(6)]
            assert [reply.status for reply in replies] == [200] * 6


@pytest.mark.parametrize("epoch", [0, 1, MAX_PRODUCER_EPOCH])
async def test_nobody_fences_a_transactional_producer_by_a_batch(
    shared_cluster: LocalCluster, topic_name: str, epoch: int
):
    async with http_to(first(shared_cluster)) as http:
        await http.create(topic_name, replication_factor=3)
        async with Producer(shared_cluster.bootstrap, transactional_id=topic_name) as producer:
            async with producer.transaction():
                await producer.send(topic_name, b"a")
            refused = await write(http, topic_name, identity_of(producer, topic_name).producer_id, 0, "x", epoch=epoch)
            assert (refused.status, refused.code) == (409, "INVALID_TXN_STATE")
            async with producer.transaction():
                await producer.send(topic_name, b"b")
    read = await values(shared_cluster, topic_name, 2)
    assert read == [b"a", b"b"]


async def test_strangers_push_nobody_out(small: LocalCluster, topic_name: str):
    async with http_to(first(small)) as http:
        await http.create(topic_name, replication_factor=1)
        victim = await given(http)
        assert (await write(http, topic_name, victim, 0, "once")).json["base_offset"] == 0
        replies = [await write(http, topic_name, await given(http), 0, "s") for _ in range(3 * MOST_PRODUCERS)]
        assert [reply.status for reply in replies].count(200) == MOST_PRODUCERS - 1
        assert {reply.code for reply in replies if reply.status != 200} == {"THROTTLING_QUOTA_EXCEEDED"}
        repeated = await write(http, topic_name, victim, 0, "once")
        assert (repeated.json["base_offset"], repeated.json["duplicate"]) == (0, True)
        assert await http.end(topic_name) == MOST_PRODUCERS
