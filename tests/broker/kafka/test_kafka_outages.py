"""Kafka's clients while brokers die: nothing is lost, nothing is there twice; no event loop blocks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from kafka import KafkaConsumer, TopicPartition

from raftlog.blocking import Admin, Consumer
from raftlog.cli.local_cluster import LocalCluster

pytestmark = [pytest.mark.cluster, pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture
def cluster(tmp_path: Path, stall_file: Path) -> Iterator[tuple[LocalCluster, str]]:
    """Return a cluster with its Kafka addresses."""
    assert stall_file.exists()
    with LocalCluster(tmp_path / "cluster", port=0) as cluster:
        yield cluster, cluster.bootstrap.replace("http://", "")


def test_an_idempotent_producer_outlives_each_leader(cluster: tuple[LocalCluster, str]):
    nodes, addresses = cluster
    with Admin(nodes.bootstrap) as admin:
        admin.create_topic("t", partitions=3, replication_factor=3)
    failed: list[str] = []
    sent: list[bytes] = []
    settings = {"bootstrap.servers": addresses, "enable.idempotence": True, "linger.ms": 5, "retry.backoff.ms": 50}
    producer = confluent_kafka.Producer(settings)

    def note(error: confluent_kafka.KafkaError | None, _: object) -> None:
        if error is not None:
            failed.append(str(error))

    def produce(seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for _ in range(20):
                sent.append(b"%d" % len(sent) + b"." * (len(sent) % 500))
                producer.produce("t", sent[-1], partition=len(sent) % 3, on_delivery=note)
            producer.poll(0.02)

    produce(1)
    for name in nodes.brokers:
        nodes.kill(name)
        produce(2)
        nodes.start_node(name)
        nodes.wait_ready(names=[name])
        produce(1)
    assert producer.flush(60) == 0
    assert failed == []
    with Consumer(nodes.bootstrap, "t", start="earliest") as consumer:
        found = _all(consumer, len(sent))
    assert sorted(found) == sorted(sent), "each record is there once"
    assert sorted(_read_by_kafka_python(addresses, len(sent))) == sorted(sent)


def _all(consumer: Consumer, count: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    end = time.monotonic() + 30
    while len(found) < count and time.monotonic() < end:
        found += [record.value for record in consumer.fetch(max_records=10_000, max_wait_ms=500)]
    return found + [record.value for record in consumer.fetch(max_records=10_000, max_wait_ms=200)]


def _read_by_kafka_python(addresses: str, count: int) -> list[bytes]:
    consumer = KafkaConsumer(bootstrap_servers=addresses, enable_auto_commit=False)
    consumer.assign([TopicPartition("t", number) for number in range(3)])
    consumer.seek_to_beginning()
    found: list[bytes] = []
    end = time.monotonic() + 30
    while len(found) < count and time.monotonic() < end:
        for records in consumer.poll(timeout_ms=500).values():
            found += [record.value for record in records]
    consumer.close()
    return found


def test_large_batches_leave_the_event_loop_free(cluster: tuple[LocalCluster, str]):
    """The fixture of all tests fails this one if a node's event loop blocks."""
    nodes, addresses = cluster
    with Admin(nodes.bootstrap) as admin:
        admin.create_topic("t", partitions=3, replication_factor=3)
    settings = {"bootstrap.servers": addresses, "linger.ms": 100, "batch.size": 4_000_000, "compression.type": "zstd"}
    producer = confluent_kafka.Producer(settings | {"queue.buffering.max.kbytes": 1 << 20})
    values = [b"%d" % number + b"x" * (number % 2_000) for number in range(60_000)]
    for number, value in enumerate(values):
        producer.produce("t", value, b"key", partition=number % 3, headers=[("h", b"v")])
    assert producer.flush(60) == 0
    assert len(_read_by_kafka_python(addresses, len(values))) == len(values)
