"""Quotas on a real cluster: the rates that clients reach, changes at runtime, forwarding, and what is never lost."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest

from raftlog import Admin, Consumer, Producer
from raftlog.cli.local_cluster import LocalCluster

pytestmark = pytest.mark.cluster
MB = 1_000_000
VALUE = b"v" * 5_000


@asynccontextmanager
async def limited(cluster: LocalCluster, client_id: str = "", **limits: float) -> AsyncIterator[str]:
    """Yield a client id with limits; remove them afterwards."""
    client_id = client_id or f"client-{uuid.uuid4().hex[:8]}"
    async with Admin(cluster.bootstrap) as admin:
        await change(admin, client_id, **limits)
        try:
            yield client_id
        finally:
            await admin.alter_quota(dict.fromkeys(limits), client_id=client_id)


async def change(admin: Admin, client_id: str, **limits: float) -> None:
    """Set limits, and wait until each broker has them."""
    await admin.alter_quota(limits, client_id=client_id)
    for broker in (await admin.describe_cluster()).brokers:
        async with Admin(broker.url) as one:
            while client_id not in [quota.client_id for quota in await one.quotas(local=True) if _has(quota, limits)]:
                await asyncio.sleep(0.02)


def _has(quota: object, limits: dict[str, float]) -> bool:
    return all(quota.limits.get(name) == value for name, value in limits.items())  # type: ignore[attr-defined]


async def sent_for(seconds: float, producer: Producer, topic: str) -> int:
    """Send for some seconds; return how many bytes were acknowledged within them."""
    end, acknowledged = time.monotonic() + seconds, 0

    async def send_on() -> None:
        nonlocal acknowledged
        while time.monotonic() < end:
            await producer.send_many(topic, [VALUE] * 10)
            if time.monotonic() < end:
                acknowledged += 10 * len(VALUE)

    await asyncio.gather(*(send_on() for _ in range(4)))
    return acknowledged


async def test_a_producer_reaches_its_rate_and_another_is_not_slowed(shared_cluster: LocalCluster, topic_name: str):
    async with Admin(shared_cluster.bootstrap) as admin:
        await admin.create_topic(topic_name, partitions=1)
    async with (
        limited(shared_cluster, producer_byte_rate=MB) as client_id,
        Producer(shared_cluster.bootstrap, client_id=client_id, batch_bytes=50_000) as slow,
        Producer(shared_cluster.bootstrap, client_id="another") as quick,
    ):
        await slow.send_many(topic_name, [VALUE] * 150)  # Uses the credit.
        (acknowledged, took) = await asyncio.gather(sent_for(6, slow, topic_name), self_paced(quick, topic_name))
        assert acknowledged / 6 == pytest.approx(MB, rel=0.1)
        assert max(took) < 1.0
        assert slow.metrics().throttled > 5
        assert 1 < slow.metrics().throttle_ms.p50 < 5_000
        assert quick.metrics().throttled == 0
    async with Consumer(shared_cluster.bootstrap, topic_name, start="earliest") as consumer:
        count, expected = 0, slow.metrics().records_acknowledged + quick.metrics().records_acknowledged
        while count < expected:
            count += len(await consumer.fetch(max_records=10_000, max_wait_ms=5_000))
        assert count == expected


async def self_paced(producer: Producer, topic: str) -> list[float]:
    """Send some records; return how long each took."""
    took = []
    for _ in range(40):
        began = time.monotonic()
        await producer.send(topic, b"quick")
        took.append(time.monotonic() - began)
        await asyncio.sleep(0.1)
    return took


async def test_a_consumer_reaches_its_rate(shared_cluster: LocalCluster, topic_name: str):
    async with Admin(shared_cluster.bootstrap) as admin, Producer(shared_cluster.bootstrap) as producer:
        await admin.create_topic(topic_name, partitions=1)
        await producer.send_many(topic_name, [b"v" * 10_000] * 1_000)
    async with (
        limited(shared_cluster, consumer_byte_rate=MB) as client_id,
        Consumer(shared_cluster.bootstrap, topic_name, start="earliest", client_id=client_id) as consumer,
    ):
        while consumer.metrics().throttled < 1:  # The credit is used.
            await consumer.fetch(max_records=100)
        began, before = time.monotonic(), consumer.metrics().bytes_fetched
        while time.monotonic() - began < 6:
            await consumer.fetch(max_records=50, max_wait_ms=100)
        rate = (consumer.metrics().bytes_fetched - before) / (time.monotonic() - began)
        assert rate == pytest.approx(MB, rel=0.2)  # Of answers of a quarter of a MB.
        assert consumer.metrics().fetches_failed == 0


async def test_a_client_without_our_library_reaches_its_rate(shared_cluster: LocalCluster, topic_name: str):
    """JSON goes to any broker, which forwards it: that counts at the first broker only."""
    async with Admin(shared_cluster.bootstrap) as admin:
        await admin.create_topic(topic_name, partitions=3)
    record, url = {"value": "v" * 49_900}, shared_cluster.bootstrap.split(",")[0]
    async with limited(shared_cluster, producer_byte_rate=MB) as client_id, aiohttp.ClientSession() as session:
        headers = {"Raftlog-Client-Id": client_id}

        async def send() -> float:
            async with session.post(
                f"{url}/v1/topics/{topic_name}/records", json={"records": [record]}, headers=headers
            ) as answer:
                assert answer.status == 200, await answer.text()
                return float(answer.headers.get("Raftlog-Throttle-Ms", 0))

        while not await send():
            pass
        began, count, throttles = time.monotonic(), 0, []
        while time.monotonic() - began < 5:
            throttles.append(await send())
            count += 1
        assert count * 50_000 / (time.monotonic() - began) == pytest.approx(MB, rel=0.12)
        assert max(throttles) < 1_000


async def test_a_change_takes_effect_within_a_second(shared_cluster: LocalCluster, topic_name: str):
    async with Admin(shared_cluster.bootstrap) as admin:
        await admin.create_topic(topic_name, partitions=1)
        async with (
            limited(shared_cluster, producer_byte_rate=100_000) as client_id,
            Producer(shared_cluster.bootstrap, client_id=client_id, batch_bytes=20_000) as producer,
        ):
            await producer.send_many(topic_name, [VALUE] * 20)
            await change(admin, client_id, producer_byte_rate=2 * MB)
            await asyncio.sleep(1)
            assert await sent_for(3, producer, topic_name) > 1 * MB  # The former quota allows 0.3 MB.
            await change(admin, client_id, producer_byte_rate=200_000)
            await asyncio.sleep(1)
            assert await sent_for(4, producer, topic_name) < 1.2 * MB


async def test_metrics_show_what_quotas_do(shared_cluster: LocalCluster, topic_name: str):
    async with Admin(shared_cluster.bootstrap) as admin, aiohttp.ClientSession() as session:
        await admin.create_topic(topic_name, partitions=1)
        assert await admin.quotas_enforced_for() == "anonymous"
        async with (
            limited(shared_cluster, producer_byte_rate=50_000) as client_id,
            Producer(shared_cluster.bootstrap, client_id=client_id) as producer,
        ):
            await producer.send_many(topic_name, [VALUE] * 12)
        texts = [await (await session.get(f"{url}/metrics")).text() for url in shared_cluster.bootstrap.split(",")]
        found = [line for text in texts for line in text.splitlines() if line.startswith("raftlog_thrott")]
        assert any(line.startswith('raftlog_throttled_total{limit="produce"}') for line in found), found
        assert any(line.startswith('raftlog_throttle_seconds_total{limit="produce"}') for line in found), found
