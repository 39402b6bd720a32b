"""MirrorMaker 2 moves topics and groups from one cluster to another, as docs/how-to/come-from-kafka.md says."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka import TopicPartition

from raftlog.blocking import Admin
from raftlog.cli.local_cluster import LocalCluster
from tests.broker.kafka.committed_records import committed_records, servers
from tests.broker.kafka.java_support import TOOLS_LIBS, JavaProcess, needs, wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.kafka, pytest.mark.timeout(240), needs(TOOLS_LIBS)]
PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "come-from-kafka.md"
Row = tuple[int, bytes, bytes, list[tuple[str, bytes]], int]


@pytest.fixture
def clusters(tmp_path: Path, stall_file: Path) -> Iterator[tuple[LocalCluster, LocalCluster]]:
    """Return the old cluster, of one broker, and the new one, of three."""
    assert stall_file.exists()
    with (
        LocalCluster(tmp_path / "old", controllers=1, brokers=1, port=0) as old,
        LocalCluster(tmp_path / "new", controllers=1, brokers=3, port=0) as new,
    ):
        yield old, new


def settings_of_the_page(old: LocalCluster, new: LocalCluster) -> str:
    (block,) = [part for part in PAGE.read_text().split("```") if part.startswith("text\nclusters = ")]
    settings = block.removeprefix("text\n")
    settings = settings.replace("kafka:9092", servers(old)).replace("127.0.0.1:9400", servers(new))
    return settings.replace("seconds = 10", "seconds = 1").replace("seconds = 60", "seconds = 5")


def rows(cluster: LocalCluster) -> list[Row]:
    found = committed_records(cluster, "flights", 3)
    return sorted((one.partition(), one.key(), one.value(), one.headers(), one.timestamp()[1]) for one in found)


def produce(cluster: LocalCluster, first: int, count: int) -> list[Row]:
    producer, now_ms = confluent_kafka.Producer({"bootstrap.servers": servers(cluster)}), time.time_ns() // 1_000_000
    sent = [
        (number % 3, b"key-%d" % number, b"value-%d" % number, [("n", b"%d" % number)], now_ms - number)
        for number in range(first, first + count)
    ]
    for partition, key, value, headers, timestamp in sent:
        producer.produce("flights", value, key, partition, timestamp=timestamp, headers=headers)
    assert producer.flush(60) == 0
    return sent


def committed_by_group(cluster: LocalCluster) -> int:
    """Return how many records the group has consumed, by its committed offsets."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": servers(cluster), "group.id": "readers"})
    found = consumer.committed([TopicPartition("flights", number) for number in range(3)], 30)
    consumer.close()
    return sum(max(one.offset, 0) for one in found)


def consume(cluster: LocalCluster, until: set[bytes]) -> set[bytes]:
    """Consume as a member of the group until all of these values have come; commit; return what came."""
    settings = {"bootstrap.servers": servers(cluster), "group.id": "readers", "enable.auto.commit": False}
    consumer = confluent_kafka.Consumer(settings | {"auto.offset.reset": "earliest"})
    consumer.subscribe(["flights"])
    found, deadline = set[bytes](), time.monotonic() + 60
    while not until <= found:
        assert time.monotonic() < deadline, f"{len(until - found)} records did not come"
        found |= {message.value() for message in consumer.consume(1_000, timeout=1) if message.error() is None}
    consumer.commit(asynchronous=False)
    consumer.close()
    return found


def test_topics_and_groups_move(clusters: tuple[LocalCluster, LocalCluster], tmp_path: Path):
    old, new = clusters
    with Admin(old.bootstrap) as admin:
        admin.create_topic("flights", partitions=3, replication_factor=1, configs={"retention_ms": 10**10})
    sent = produce(old, 0, 600)
    first = {value for _, _, value, _, _ in sent}
    assert consume(old, first) == first
    path = tmp_path / "mirror.properties"
    path.write_text(settings_of_the_page(old, new))
    with JavaProcess(tmp_path / "mirror.log", "org.apache.kafka.connect.mirror.MirrorMaker", str(path)) as mirror:

        def copied() -> bool:
            with Admin(new.bootstrap) as admin:
                if "flights" not in [topic.topic for topic in admin.list_topics()]:
                    return False
            return len(rows(new)) >= len(sent)

        wait_until("the first records", copied, mirror)
        sent += produce(old, 600, 300)
        wait_until("records that were produced meanwhile", copied, mirror)
        assert rows(new) == sorted(sent)
        wait_until("the group's offsets", lambda: committed_by_group(new) > 0, mirror)
    with Admin(new.bootstrap) as admin:
        topic = admin.describe_topic("flights")
    assert topic.configs["retention_ms"] == 10**10
    assert {len(partition.replicas) for partition in topic.partitions} == {3}
    then = {value for _, _, value, _, _ in sent} - first
    again = consume(new, then) - then
    assert len(again) < len(first), "the group goes on near its old position"
