"""Kafka Streams: a word count of two partitions, through a repartition topic and a changelog that Streams creates."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest

from raftlog.blocking import Admin
from raftlog.cli.local_cluster import LocalCluster
from tests.broker.kafka.committed_records import committed_records, servers
from tests.broker.kafka.java_support import TOOLS_LIBS, JavaProcess, needs, wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.kafka, pytest.mark.timeout(300), needs(TOOLS_LIBS)]
LINES = [f"word-{number % 7} word-{number % 11} all" for number in range(1_500)]
WORDS = Counter(word for line in LINES for word in line.split())


@pytest.fixture
def cluster(tmp_path: Path, stall_file: Path) -> Iterator[LocalCluster]:
    assert stall_file.exists()
    extra = {"*": {"broker": {"offsets_topic_num_partitions": 2, "transaction_state_log_num_partitions": 2}}}
    with LocalCluster(tmp_path / "cluster", port=0, extra=extra) as cluster:
        with Admin(cluster.bootstrap) as admin:
            admin.create_topic("lines", partitions=2, replication_factor=3)
            admin.create_topic("counts", partitions=2, replication_factor=3)
        yield cluster


def word_count(cluster: LocalCluster, guarantee: str, folder: Path) -> JavaProcess:
    program = Path(__file__).with_name("WordCount.java")
    return JavaProcess(
        folder / "streams.log", str(program), servers(cluster), "lines", "counts", guarantee, str(folder / "state")
    )


def produce(cluster: LocalCluster, lines: list[str]) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": servers(cluster), "enable.idempotence": True})
    for number, line in enumerate(lines):
        producer.produce("lines", line.encode(), partition=number % 2)
    assert producer.flush(60) == 0


def by_word(cluster: LocalCluster) -> dict[str, list[int]]:
    """Return the counts of each word, in the order in which Streams wrote them."""
    found = defaultdict[str, list[int]](list)
    for message in committed_records(cluster, "counts", 2):
        found[message.key().decode()].append(int(message.value()))
    return found


def written(cluster: LocalCluster) -> int:
    return sum(map(len, by_word(cluster).values()))


def wait_for_all(cluster: LocalCluster, streams: JavaProcess) -> None:
    wait_until(
        "the last counts",
        lambda: {word: max(counts) for word, counts in by_word(cluster).items()} == WORDS,
        streams,
        seconds=120,
    )


def test_each_word_is_counted(cluster: LocalCluster, tmp_path: Path):
    with word_count(cluster, "at_least_once", tmp_path) as streams:
        produce(cluster, LINES)
        wait_for_all(cluster, streams)
        assert by_word(cluster) == {word: list(range(1, count + 1)) for word, count in WORDS.items()}
        with Admin(cluster.bootstrap) as admin:
            created = [topic.topic for topic in admin.list_topics() if topic.topic.startswith("words-")]
        assert len(created) == 2, "a repartition topic and a changelog"


def test_exactly_once_holds_when_streams_and_a_broker_are_killed(cluster: LocalCluster, tmp_path: Path):
    """Each count is written exactly once and in order: 1, 2, 3 and so on, for each word."""
    third = len(LINES) // 3
    with word_count(cluster, "exactly_once_v2", tmp_path) as streams:
        produce(cluster, LINES[:third])
        wait_until("the first counts", lambda: written(cluster) > 0, streams)
        streams.kill()
        produce(cluster, LINES[third : 2 * third])
        seen = written(cluster)
        streams.start()
        wait_until("counts after the kill", lambda: written(cluster) > seen, streams)
        cluster.kill(cluster.brokers[0])
        produce(cluster, LINES[2 * third :])
        cluster.start_node(cluster.brokers[0])
        wait_for_all(cluster, streams)
        assert by_word(cluster) == {word: list(range(1, count + 1)) for word, count in WORDS.items()}
