"""Where records go, how many are sent at once, and what the clients count, on a real cluster."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest
from unreliable_proxy import UnreliableProxy, unreliable

from raftlog import Admin, Consumer, Producer
from raftlog.cli.local_cluster import LocalCluster
from raftlog.errors import ErrorCode, InvalidRequestError, NotFoundError, RaftlogError
from raftlog.model import TopicPartition
from raftlog.record.partitioner import partition_for_key

pytestmark = pytest.mark.cluster


@pytest.fixture
def url(shared_cluster: LocalCluster) -> str:
    return shared_cluster.bootstrap


async def create(url: str, topic: str, partitions: int, **configs: object) -> None:
    async with Admin(url) as admin:
        await admin.create_topic(topic, partitions=partitions, replication_factor=3, configs=configs)


async def test_a_partitioner_chooses_and_what_is_no_partition_fails_alone(url: str, topic_name: str):
    await create(url, topic_name, 3)
    asked: list[tuple[object, ...]] = []

    def by_value(topic: str, key: bytes | None, value: bytes | None, partitions: int) -> int | None:
        asked.append((topic, key, value, partitions))
        return {b"two": 2, b"zero": 0, b"far": 3, b"below": -1, b"true": True, b"text": "1"}.get(value or b"")  # type: ignore[return-value]

    async with Producer(url, partitioner=by_value) as producer:
        values = [b"two", b"far", b"zero", b"below", b"true", b"text"]
        outcomes = await asyncio.gather(
            *(producer.send_nowait(topic_name, value) for value in values), return_exceptions=True
        )
        by_key = await producer.send(topic_name, b"neither", key=b"k")
        named = await producer.send(topic_name, b"two", partition=1)
        many = await producer.send_many(topic_name, [b"two", b"zero", b"two"])

    errors = {value: outcome for value, outcome in zip(values, outcomes, strict=True) if isinstance(outcome, Exception)}
    assert list(errors) == [b"far", b"below", b"true", b"text"]
    assert all(isinstance(error, InvalidRequestError) for error in errors.values())
    assert str(errors[b"far"]) == (
        f"partitioner: expected a partition of topic '{topic_name}', 0 to 2, or None, received 3"
    )
    assert [outcome.partition for outcome in outcomes if not isinstance(outcome, BaseException)] == [2, 0]
    assert (by_key.partition, named.partition) == (partition_for_key(b"k", 3), 1)
    assert [metadata.partition for metadata in many] == [2, 0, 2]
    assert asked[0] == (topic_name, None, b"two", 3)
    assert (topic_name, b"k", b"neither", 3) in asked


async def test_a_partitioner_that_fails_is_named(url: str, topic_name: str):
    await create(url, topic_name, 1)
    async with Producer(url, partitioner=lambda _topic, _key, value, count: (value or b"")[9] % count) as producer:
        with pytest.raises(InvalidRequestError, match=r"partitioner: failed for a record .*IndexError") as failed:
            await producer.send(topic_name, b"short")
        assert isinstance(failed.value.__cause__, IndexError)
        assert (await producer.send(topic_name, b"long enough")).offset == 0
        metrics = producer.metrics()
    assert (metrics.records_failed, metrics.records_acknowledged) == (1, 1)


async def test_many_values_are_stored_in_order_and_told_in_order(url: str, topic_name: str):
    await create(url, topic_name, 2)
    values = [b"%d" % number for number in range(5_000)]
    async with Producer(url, batch_bytes=20_000) as producer:
        without = await producer.send_many(topic_name, values)
        keyed = await producer.send_many(topic_name, [*values[:10], None], key=b"k")
    async with Consumer(url, topic_name, start="earliest") as consumer:
        stored: dict[tuple[int, int], bytes | None] = {}
        while len(stored) < 5_011:
            stored |= {(record.partition, record.offset): record.value for record in await consumer.fetch()}

    assert [stored[at.partition, at.offset] for at in without] == values
    assert {at.partition for at in without} == {0, 1}
    assert [stored[at.partition, at.offset] for at in keyed] == [*values[:10], None]
    assert {at.partition for at in keyed} == {partition_for_key(b"k", 2)}
    assert (len(without), without[-1], without[2:4]) == (5_000, list(without)[-1], list(without)[2:4])


async def test_many_values_of_which_one_is_too_large(url: str, topic_name: str):
    await create(url, topic_name, 1, max_message_bytes=4_096)
    values = [b"%d " % number + b"x" * (10_000 if number == 7 else 900) for number in range(20)]
    async with Producer(url, linger_ms=50) as producer:
        with pytest.raises(RaftlogError) as refused:
            await producer.send_many(topic_name, values)
        metrics = producer.metrics()
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE
    assert (metrics.records_failed, metrics.records_acknowledged) == (1, 19)


async def test_many_values_for_a_topic_that_is_not_there(url: str, topic_name: str):
    async with Producer(url, max_block_ms=2_000) as producer:
        with pytest.raises(NotFoundError):
            await producer.send_many(topic_name, [b"x"] * 3)


async def test_a_producer_counts_what_becomes_of_records(url: str, topic_name: str, shared_cluster: LocalCluster):
    await create(url, topic_name, 1)
    async with Producer(url) as first:
        await first.send(topic_name, b"ready")  # The leader of a new topic may ask for another attempt.
    async with AsyncExitStack() as stack:
        proxies: list[UnreliableProxy] = []
        dial: dict[str, str] = {}
        for broker in (1, 2, 3):
            address = shared_cluster.node(f"broker-{broker}").public
            assert address is not None
            proxy, one = await stack.enter_async_context(unreliable(address, "/v1/produce"))
            proxies.append(proxy)
            dial |= one
        # One batch at a time: those of several connections may overtake each other, and are sent again.
        async with Producer(url, dial=dial, batch_bytes=1_000, request_timeout_ms=5_000, max_in_flight=1) as producer:
            assert producer.metrics().request_latency_ms.max == 0.0
            await producer.send_many(topic_name, [b"x" * 68] * 100)
            quiet = producer.metrics()
            for proxy in proxies:
                proxy.lose = 1
            await producer.send(topic_name, b"again")
            noisy = producer.metrics()

    assert (quiet.records_sent, quiet.records_acknowledged, quiet.retries) == (100, 100, 0)
    assert (quiet.records_failed, quiet.records_unknown, quiet.buffered_bytes) == (0, 0, 0)
    assert quiet.batches_sent >= 10
    assert 0.5 < quiet.batch_fill <= 1.0
    assert quiet.bytes_sent > 6_800
    assert 0 < quiet.requests <= quiet.batches_sent
    assert quiet.requests_in_flight == 0
    assert 0 <= quiet.request_latency_ms.p50 <= quiet.request_latency_ms.p99 <= quiet.request_latency_ms.max
    assert (noisy.records_sent, noisy.records_acknowledged) == (101, 101)
    assert noisy.retries >= 1
    assert noisy.requests > quiet.requests


async def test_a_consumer_counts_what_it_reads(url: str, topic_name: str):
    await create(url, topic_name, 1)
    async with Producer(url) as producer:
        await producer.send_many(topic_name, [b"x"] * 30)
    options = {"group_id": f"of-{topic_name}", "auto_offset_reset": "earliest", "enable_auto_commit": False}
    async with Consumer(url, topic_name, **options) as consumer:  # type: ignore[arg-type]
        assert consumer.metrics().records_read == 0
        read = 0
        while read < 10:
            read += len(await consumer.fetch(max_records=10 - read))
        await consumer.commit()
        metrics = consumer.metrics()
    partition = TopicPartition(topic_name, 0)
    assert (metrics.records_read, metrics.lag, metrics.commits) == (10, {partition: 20}, 1)
    assert (metrics.commits_failed, metrics.rebalances) == (0, 1)
    assert metrics.fetches >= 1
    assert metrics.bytes_fetched >= metrics.buffered_bytes > 0
