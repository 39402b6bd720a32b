"""Client metrics in a Prometheus registry: every metric occurs, fed by real clients, and no client harms the page."""

from __future__ import annotations

import asyncio
import gc
import threading
from dataclasses import fields
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from raftlog import Admin, ConfigError, Consumer, Producer, blocking
from raftlog.cli.local_cluster import LocalCluster
from raftlog.client.metrics import ConsumerMetrics, ProducerMetrics
from raftlog.prometheus import CONSUMER, PRODUCER, TABLE, ClientCollector

NOWHERE = "http://127.0.0.1:1"


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def samples(registry: CollectorRegistry) -> dict[tuple[str, ...], float]:
    """Return a page's samples, read as Prometheus reads them: by name and label values."""
    families = text_string_to_metric_families(generate_latest(registry).decode())
    return {(each.name, *each.labels.values()): each.value for family in families for each in family.samples}


def test_every_field_is_shown_once():
    for table, cls in ((PRODUCER, ProducerMetrics), (CONSUMER, ConsumerMetrics)):
        assert [metric.field for metric in table] == [field.name for field in fields(cls)]
        assert all(metric.name.endswith("_total") == metric.is_counter for metric in table)


@pytest.mark.cluster
async def test_real_clients_feed_every_metric(
    shared_cluster: LocalCluster, topic_name: str, registry: CollectorRegistry
):
    collector = ClientCollector(registry)
    async with Admin(shared_cluster.bootstrap) as admin:
        await admin.create_topic(topic_name, partitions=1)
    async with (
        Producer(shared_cluster.bootstrap) as producer,
        Consumer(shared_cluster.bootstrap, topic_name, group_id=topic_name, auto_offset_reset="earliest") as consumer,
    ):
        collector.add(producer, 'or"ders\n')
        collector.add(consumer, "reader")
        for value in (b"a", b"b", b"c"):
            await producer.send(topic_name, value, partition=0)
        read = 0
        async with asyncio.timeout(20):
            while read < 3:
                read += len(await consumer.fetch())
        await consumer.commit()

        found = samples(registry)

        assert found["raftlog_producer_records_acknowledged_total", 'or"ders\n'] == 3
        assert 0 < found["raftlog_producer_request_latency_seconds", 'or"ders\n', "0.5"] < 5
        assert found["raftlog_consumer_records_read_total", "reader"] == 3
        assert found["raftlog_consumer_commits_total", "reader"] == 1
        assert found["raftlog_consumer_lag_records", "reader", "0", topic_name] == 0
        names = {name for name, *_ in found}
        assert names >= {f"raftlog_{kind}_{metric.name}" for kind, table in TABLE.items() for metric in table}


@pytest.mark.cluster
def test_a_blocking_client_that_is_busy_does_not_keep_the_page_waiting(
    shared_cluster: LocalCluster, topic_name: str, registry: CollectorRegistry
):
    held, entered = threading.Event(), threading.Event()

    def hold() -> None:
        entered.set()
        held.wait(20)

    with blocking.Admin(shared_cluster.bootstrap) as admin, blocking.Producer(shared_cluster.bootstrap) as producer:
        admin.create_topic(topic_name, partitions=1)
        producer.send(topic_name, b"a")
        ClientCollector(registry).add(producer, "busy")
        asker = threading.Thread(target=lambda: producer._ask(hold))
        asker.start()
        try:
            assert entered.wait(20)
            assert samples(registry)["raftlog_producer_records_acknowledged_total", "busy"] == 1
        finally:
            held.set()
            asker.join()


async def test_names_are_unique_for_each_kind_and_free_again(registry: CollectorRegistry):
    collector = ClientCollector(registry)
    first, second = Producer(NOWHERE), Producer(NOWHERE)
    collector.add(first, "one")
    collector.add(first, "one")
    with pytest.raises(ConfigError, match="another producer is shown as 'one'"):
        collector.add(second, "one")
    collector.add(Consumer(NOWHERE, "t"), "one")  # Of the other kind.
    collector.remove(first)
    collector.remove(first)
    collector.add(second, "one")
    assert samples(registry)["raftlog_producer_requests_total", "one"] == 0
    await second.close()
    assert samples(registry)["raftlog_producer_requests_total", "one"] == 0

    del second
    gc.collect()
    assert ("raftlog_producer_requests_total", "one") not in samples(registry)
    await first.close()
    with pytest.raises(ConfigError, match="expected a producer or a consumer, received str"):
        collector.add("text", "x")  # type: ignore[arg-type]


async def test_a_client_that_cannot_be_read_is_left_out(
    registry: CollectorRegistry, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    collector = ClientCollector(registry)
    well, broken = Producer(NOWHERE), Producer(NOWHERE)
    collector.add(well, "well")
    collector.add(broken, "broken")
    calls = 0

    def metrics() -> Any:
        nonlocal calls
        calls += 1
        raise RuntimeError("dictionary changed size during iteration")

    monkeypatch.setattr(broken, "metrics", metrics)
    for _ in range(3):
        found = samples(registry)
        assert ("raftlog_producer_requests_total", "well") in found
        assert ("raftlog_producer_requests_total", "broken") not in found
    assert calls == 15
    assert [record.message for record in caplog.records].count(
        "the metrics of producer broken cannot be read: dictionary changed size during iteration"
    ) == 1
    await well.close()
    await broken.close()


def test_a_registry_refuses_a_second_collector(registry: CollectorRegistry):
    ClientCollector(registry)
    with pytest.raises(ValueError, match="Duplicated timeseries"):
        ClientCollector(registry)
