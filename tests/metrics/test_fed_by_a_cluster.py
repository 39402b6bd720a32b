"""Every metric of the table is shown, and fed, by a real cluster under load; none outside the table is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from raftlog import Admin, Consumer, Producer
from raftlog.cli.local_cluster import LocalCluster
from raftlog.errors import RaftlogError
from raftlog.metrics import METRICS, TABLE

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

FAULTS = {
    "raftlog_offline_replicas": "tests/broker/test_replica_figures.py",
    "raftlog_refusing_replicas": "tests/broker/test_replica_figures.py",
    "raftlog_quarantined_logs": "tests/broker/test_replica_figures.py",
    "raftlog_corrupt_replicas": "tests/broker/test_replica_figures.py",
    "raftlog_repairing_replicas": "tests/broker/test_replica_figures.py",
    "raftlog_repaired_batches_total": "tests/broker/test_replica_figures.py",
    "raftlog_lost_batches": "tests/broker/test_replica_figures.py",
    "raftlog_scrub_damage_found_total": "tests/broker/test_replica_figures.py",
    "raftlog_access_refusals_total": "tests/security/test_metrics_access.py",
    "raftlog_audit_lost_lines_total": "tests/security/test_audited_cluster.py",
    "raftlog_audit_waiting_lines": "tests/security/test_audited_cluster.py",
    "raftlog_connections_refused_total": "tests/metrics/test_request_metrics.py",
    "raftlog_event_loop_stalls_total": "tests/serving/test_node_metrics.py",
    "raftlog_gc_seconds_total": "tests/serving/test_node_metrics.py",
    "raftlog_gc_collections_total": "tests/serving/test_node_metrics.py",
    "raftlog_quorum_waiting_decisions": "tests/metrics/test_controller_figures.py",
    "raftlog_unclean_elections_total": "tests/metrics/test_controller_figures.py",
    "raftlog_throttled_total": "tests/metrics/test_throttling.py",
    "raftlog_throttle_seconds_total": "tests/metrics/test_throttling.py",
    "raftlog_quota_refusals_total": "tests/metrics/test_throttling.py",
    "raftlog_quota_buckets": "tests/metrics/test_throttling.py",
}
"""Figures that a healthy cluster leaves at 0, or that last for milliseconds; and the tests that see another value."""
ONLY_WITH_A_FAULT = {
    "raftlog_audit_lost_lines_total",
    "raftlog_audit_waiting_lines",
    "raftlog_offline_replicas",
    "raftlog_refusing_replicas",
    "raftlog_throttled_total",
    "raftlog_throttle_seconds_total",
}
"""Figures that appear with a fault or a quota, or with an audit log."""
SETTINGS = {
    "*": {
        "broker": {"log_cleaner_backoff_ms": 100, "retention_check_interval_ms": 200, "log_scrub_interval_ms": 1_000},
        "controller": {
            "broker_session_timeout_ms": 60_000,
            "snapshot_min_entries": 10,
            "leader_imbalance_check_interval_ms": 600_000,
        },
    }
}
PERIODIC = {
    "raftlog_compactions_total",
    "raftlog_compaction_removed_bytes_total",
    "raftlog_retention_segments_total",
    "raftlog_scrubbed_bytes_total",
    "raftlog_quorum_snapshot_bytes",
    "raftlog_quorum_snapshot_age_seconds",
    "raftlog_isr_expands_total",
}
SMALL = {"segment_bytes": 65_536}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder = tmp_path_factory.mktemp("measured")
    with LocalCluster(folder, controllers=3, brokers=2, port=0, extra=SETTINGS) as running:
        yield running


class Seen:
    """What the nodes have shown: by metric, the greatest value of any sample."""

    def __init__(self, cluster: LocalCluster, http: aiohttp.ClientSession) -> None:
        self.greatest: dict[str, float] = {}
        self.problems: list[str] = []
        self._http = http
        self.away = set[str]()
        """Nodes that are not looked at: they are paused."""
        self._urls = {
            **{name: cluster.public_url(name) for name in cluster.brokers},
            **{name: f"http://{cluster.node(name).internal}" for name in cluster.controllers},
        }

    async def look_until(self, *names: str) -> None:
        """Look at all nodes until each of these metrics has been above 0."""
        while not all(self.greatest.get(name) for name in names):
            await self.look()

    async def look(self) -> None:
        for url in [url for name, url in self._urls.items() if name not in self.away]:
            for query in ("", "?detail=partitions"):
                try:
                    async with self._http.get(f"{url}/metrics{query}") as answer:
                        assert answer.status == 200
                        self._read(await answer.text())
                except (aiohttp.ClientConnectionError, TimeoutError):
                    continue  # A node that the test has killed or paused.

    def _read(self, text: str) -> None:
        for family in text_string_to_metric_families(text):
            name = f"{family.name}_total" if family.type == "counter" else family.name
            metric = METRICS.get(name)
            if metric is None:
                self.problems.append(f"{name} is not in the table")
                continue
            if (family.type, family.documentation) != (metric.kind, metric.help):
                self.problems.append(f"{name}: {family.type}, {family.documentation!r}")
            for sample in family.samples:
                if set(sample.labels) - {"le"} != set(metric.labels):
                    self.problems.append(f"{name}: labels {sorted(sample.labels)}")
                self.greatest[name] = max(self.greatest.get(name, 0.0), abs(sample.value))


@asynccontextmanager
async def looking(cluster: LocalCluster) -> AsyncIterator[Seen]:
    timeout = aiohttp.ClientTimeout(total=2)
    async with aiohttp.ClientSession(timeout=timeout) as http:
        yield Seen(cluster, http)


@pytest.mark.timeout(240)
async def test_every_metric_exists_and_is_fed(cluster: LocalCluster):
    async with looking(cluster) as seen, asyncio.timeout(200):
        await create_topics(cluster)
        await load(cluster, seen)
        await lose_a_broker(cluster, seen)
        await settle(seen)
        await lose_controllers(cluster, seen)

    assert seen.problems == []
    shown = seen.greatest.keys()
    assert {metric.name for metric in TABLE} - shown == ONLY_WITH_A_FAULT
    assert {name for name, value in seen.greatest.items() if not value} <= FAULTS.keys()


def test_every_figure_that_needs_a_fault_is_tested_elsewhere():
    root = Path(__file__).parents[2]

    assert FAULTS.keys() <= METRICS.keys()
    assert [name for name, page in FAULTS.items() if name not in (root / page).read_text("utf-8")] == []


async def create_topics(cluster: LocalCluster) -> None:
    async with Admin(cluster.bootstrap) as admin:
        await admin.create_topic("loaded", partitions=4, replication_factor=2, configs={"min_insync_replicas": 2})
        await admin.create_topic("single", partitions=4, replication_factor=1)
        compact = {"cleanup_policy": "compact", "max_compaction_lag_ms": 1, "min_cleanable_dirty_ratio": 0.0, **SMALL}
        await admin.create_topic("compacted", partitions=1, replication_factor=2, configs=compact)
        await admin.create_topic("short", partitions=1, replication_factor=2, configs={"retention_bytes": 1, **SMALL})


async def load(cluster: LocalCluster, seen: Seen) -> None:
    """Produce, consume in a group, and hold a transaction open; look at the metrics meanwhile."""
    async with Producer(cluster.bootstrap) as producer:
        for topic in ("loaded", "single", "compacted", "short"):
            for number in range(600):
                producer.send_nowait(topic, b"%d" % number + bytes(500), key=b"%d" % (number % 20))
        await producer.flush()
    consumer = Consumer(
        cluster.bootstrap,
        "loaded",
        "single",
        group_id="readers",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    writer = Producer(cluster.bootstrap, transactional_id="open-one")
    async with consumer, writer:
        got = 0
        while got < 100:
            got += len(await consumer.fetch(max_records=20))
        await consumer.commit()
        async with writer.transaction() as transaction:
            await writer.send("loaded", b"in a transaction")
            await writer.send("loaded", b"and another", key=b"k")
            waiting = asyncio.ensure_future(consume_all(consumer))
            await seen.look()
            await transaction.send_offsets({("loaded", 0): 1}, consumer.group_metadata)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)


async def consume_all(consumer: Consumer) -> None:
    while True:
        await consumer.fetch(max_wait_ms=2_000)


async def lose_a_broker(cluster: LocalCluster, seen: Seen) -> None:
    """Pause a broker under load, kill it, and start it again: lag, ISR changes, elections."""
    async with Producer(cluster.bootstrap, acks="1", delivery_timeout_ms=10_000) as producer:
        await asyncio.to_thread(cluster.pause, "broker-2")
        seen.away.add("broker-2")
        sending = asyncio.gather(*(keep_sending(producer, partition) for partition in range(4)))
        await seen.look_until("raftlog_follower_max_lag_records", "raftlog_isr_shrinks_total")
        await asyncio.to_thread(cluster.kill, "broker-2")
        await seen.look_until("raftlog_cluster_offline_partitions", "raftlog_under_min_isr_partitions")
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
    await asyncio.to_thread(cluster.start_node, "broker-2")
    seen.away.clear()
    await asyncio.to_thread(cluster.wait_ready)


async def lose_controllers(cluster: LocalCluster, seen: Seen) -> None:
    """Pause a standby under load; then kill all controllers, so that a broker that starts stays fenced."""
    async with Admin(cluster.bootstrap) as admin:
        active = (await admin.describe_cluster()).controller.controller_id
        standby = next(name for name in cluster.controllers if name != f"controller-{active}")
        await asyncio.to_thread(cluster.pause, standby)
        seen.away.add(standby)
        await admin.create_topic("one-more", partitions=1, replication_factor=2)
    await seen.look_until("raftlog_quorum_voter_lag_entries")
    for name in ("broker-2", *cluster.controllers):
        await asyncio.to_thread(cluster.kill, name)
    await asyncio.to_thread(cluster.start_node, "broker-2")
    await seen.look_until("raftlog_broker_fenced")


async def keep_sending(producer: Producer, partition: int) -> None:
    while True:
        try:
            await producer.send("loaded", b"without the second replica", partition=partition)
        except RaftlogError:
            await asyncio.sleep(0.05)


async def settle(seen: Seen) -> None:
    """Look until the periodic work has run: compaction, retention, a snapshot, an expanded ISR."""
    with suppress(TimeoutError):
        async with asyncio.timeout(20):
            await seen.look_until(*PERIODIC)
