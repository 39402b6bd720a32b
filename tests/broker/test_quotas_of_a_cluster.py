"""Quotas on a real cluster: the rates that clients reach, changes at runtime, forwarding, and what is never lost."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import orjson
import pytest

from raftlog import Admin, Consumer, Producer
from raftlog.cli.local_cluster import LocalCluster
from raftlog.wire import media

pytestmark = pytest.mark.cluster
MB = 1_000_000
VALUE = b"v" * 5_000
MEASURED_S = 10


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


async def test_a_throttled_producer_slows_no_other_and_loses_nothing(shared_cluster: LocalCluster, topic_name: str):
    async with Admin(shared_cluster.bootstrap) as admin:
        await admin.create_topic(topic_name, partitions=1)
    async with (
        limited(shared_cluster, producer_byte_rate=MB) as client_id,
        Producer(shared_cluster.bootstrap, client_id=client_id, batch_bytes=50_000) as slow,
        Producer(shared_cluster.bootstrap, client_id="another") as quick,
    ):
        await slow.send_many(topic_name, [VALUE] * 150)  # Uses the credit.
        _, took = await asyncio.gather(sent_for(4, slow, topic_name), self_paced(quick, topic_name))
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


async def test_clients_reach_their_rates_within_a_tenth_over_10_s(shared_cluster: LocalCluster, topic_name: str):
    """From the first request on, so the credit after a pause and the size of a single request count, too."""
    async with Admin(shared_cluster.bootstrap) as admin, Producer(shared_cluster.bootstrap, batch_bytes=50_000) as sent:
        await admin.create_topic(topic_name, partitions=1)
        await admin.create_topic(f"{topic_name}-read", partitions=1)
        await sent.send_many(f"{topic_name}-read", [b"v" * 10_000] * 1_300)
    async with (
        limited(shared_cluster, producer_byte_rate=MB) as produces,
        limited(shared_cluster, consumer_byte_rate=MB) as consumes,
        limited(shared_cluster, producer_byte_rate=MB) as sends_json,
        limited(shared_cluster, request_rate=40) as asks,
    ):
        rates = await asyncio.gather(
            produced(shared_cluster, topic_name, produces),
            consumed(shared_cluster, f"{topic_name}-read", consumes),
            sent_as_json(shared_cluster, topic_name, sends_json),
            asked(shared_cluster, asks),
        )
    for rate, quota in zip(rates, (MB, MB, MB, 40), strict=True):
        assert rate == pytest.approx(quota, rel=0.1), rates


async def produced(cluster: LocalCluster, topic: str, client_id: str) -> float:
    """Return a producer's bytes a second."""
    async with Producer(cluster.bootstrap, client_id=client_id, batch_bytes=50_000) as producer:
        return await sent_for(MEASURED_S, producer, topic) / MEASURED_S


async def consumed(cluster: LocalCluster, topic: str, client_id: str) -> float:
    """Return a consumer's bytes a second."""
    async with Consumer(cluster.bootstrap, topic, start="earliest", client_id=client_id) as consumer:
        end = time.monotonic() + MEASURED_S
        while time.monotonic() < end:
            await consumer.fetch(max_records=50, max_wait_ms=100)
        assert consumer.metrics().fetches_failed == 0
        return consumer.metrics().bytes_fetched / MEASURED_S


async def sent_as_json(cluster: LocalCluster, topic: str, client_id: str) -> float:
    """Return the bytes a second of a client without our library, which does not know the leaders.

    Four requests are on their way, so the quota is what limits it: one alone waits 50 ms for its quota, and on a busy
    machine longer than that for its forwarding and its replicas.
    """
    body, throttles = orjson.dumps({"records": [{"value": "v" * 49_900}]}), [0.0]
    headers = {"Raftlog-Client-Id": client_id, "Content-Type": media.JSON}
    urls = [cluster.public_url(name) for name in cluster.brokers]
    async with aiohttp.ClientSession(headers=headers) as session, Admin(cluster.bootstrap) as admin:
        leader = (await admin.describe_topic(topic)).partitions[0].leader
        url = next(url for url, name in zip(urls, cluster.brokers, strict=True) if name != f"broker-{leader}")
        end = time.monotonic() + MEASURED_S

        async def send_on() -> int:
            count = 0
            while time.monotonic() < end:
                async with session.post(f"{url}/v1/topics/{topic}/records", data=body) as answer:
                    assert answer.status == 200, await answer.text()
                    throttles.append(float(answer.headers.get(media.THROTTLE_MS, 0)))
                count += time.monotonic() < end
            return count

        count = sum(await asyncio.gather(*(send_on() for _ in range(4))))
    assert max(throttles) < 1_000
    return count * len(body) / MEASURED_S


async def asked(cluster: LocalCluster, client_id: str) -> float:
    """Return a client's requests a second. One is always on its way, however long the others in this process take."""
    url, end = cluster.public_url(cluster.brokers[0]), time.monotonic() + MEASURED_S

    async def ask(session: aiohttp.ClientSession) -> int:
        count = 0
        while time.monotonic() < end:
            async with session.get(f"{url}/v1/brokers") as answer:
                assert answer.status == 200, await answer.text()
            count += time.monotonic() < end
        return count

    async with aiohttp.ClientSession(headers={"Raftlog-Client-Id": client_id}) as session:
        return sum(await asyncio.gather(*(ask(session) for _ in range(4)))) / MEASURED_S


async def test_two_clients_of_one_quota_get_the_same(shared_cluster: LocalCluster, topic_name: str):
    async with Admin(shared_cluster.bootstrap) as admin:
        await admin.create_topic(topic_name, partitions=1)
    async with (
        limited(shared_cluster, producer_byte_rate=MB) as client_id,
        Producer(shared_cluster.bootstrap, client_id=client_id, batch_bytes=25_000) as one,
        Producer(shared_cluster.bootstrap, client_id=client_id, batch_bytes=25_000) as other,
    ):
        shares = await asyncio.gather(sent_for(6, one, topic_name), sent_for(6, other, topic_name))
    assert sum(shares) / 6 == pytest.approx(MB, rel=0.15)  # The credit of half a second included.
    assert min(shares) > 0.4 * sum(shares)


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
