"""Transactions of Kafka's clients at the public port: each record once, and none of an aborted transaction."""

from __future__ import annotations

import asyncio
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import confluent_kafka
import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from kafka import KafkaProducer

from raftlog.blocking import Admin
from raftlog.cli.local_cluster import LocalCluster
from tests.broker.kafka.committed_records import committed_records, servers
from tests.broker.kafka.java_support import JAVA, TOOLS_LIBS, needs

pytestmark = [pytest.mark.cluster, pytest.mark.kafka]
SOON_S = 30


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, stall_file: Path) -> Iterator[LocalCluster]:
    assert stall_file.exists()
    with LocalCluster(tmp_path_factory.mktemp("kafka") / "cluster", controllers=1, brokers=3, port=0) as cluster:
        yield cluster


def a_topic(cluster: LocalCluster, name: str, partitions: int = 2) -> str:
    with Admin(cluster.bootstrap) as admin:
        admin.create_topic(name, partitions=partitions, replication_factor=3)
    return name


def producer(cluster: LocalCluster, name: str, **settings: Any) -> confluent_kafka.Producer:
    made = confluent_kafka.Producer(
        {"bootstrap.servers": servers(cluster), "transactional.id": name, "linger.ms": 2} | settings
    )
    made.init_transactions(SOON_S)
    return made


def committed(cluster: LocalCluster, topic: str, partitions: int = 2) -> list[bytes]:
    """Return the values that a consumer with `read_committed` finds, sorted."""
    return sorted(message.value() for message in committed_records(cluster, topic, partitions))


def test_confluent_commits_and_aborts_many_transactions_in_one_epoch(cluster: LocalCluster):
    topic, sender, expected = a_topic(cluster, "many"), producer(cluster, "many"), []
    for number in range(20):
        sender.begin_transaction()
        for one in range(10):
            sender.produce(topic, b"%d-%d" % (number, one), partition=one % 2)
        if number % 3 == 2:
            sender.abort_transaction(SOON_S)
        else:
            sender.commit_transaction(SOON_S)
            expected += [b"%d-%d" % (number, one) for one in range(10)]
    assert committed(cluster, topic) == sorted(expected)


def test_a_partition_that_was_not_in_every_transaction_goes_on(cluster: LocalCluster):
    topic, sender = a_topic(cluster, "seldom"), producer(cluster, "seldom")
    for number in range(7):
        sender.begin_transaction()
        sender.produce(topic, b"0-%d" % number, partition=0)
        if number % 3 == 0:
            sender.produce(topic, b"1-%d" % number, partition=1)
        sender.commit_transaction(SOON_S)
    again = producer(cluster, "seldom")  # Its sequences begin at 0.
    again.begin_transaction()
    again.produce(topic, b"2", partition=1)
    again.produce(topic, b"2", partition=0)
    again.commit_transaction(SOON_S)
    assert committed(cluster, topic) == sorted([*(b"0-%d" % n for n in range(7)), b"1-0", b"1-3", b"1-6", b"2", b"2"])


def test_a_second_producer_fences_the_first_and_aborts_its_transaction(cluster: LocalCluster):
    topic, first = a_topic(cluster, "zombie"), producer(cluster, "zombie")
    first.begin_transaction()
    first.produce(topic, b"first", partition=0)
    first.flush(SOON_S)
    second = producer(cluster, "zombie")
    second.begin_transaction()
    second.produce(topic, b"second", partition=0)
    second.commit_transaction(SOON_S)
    with pytest.raises(KafkaException) as fenced:
        first.commit_transaction(SOON_S)
    assert fenced.value.args[0].code() in (KafkaError._FENCED, KafkaError.PRODUCER_FENCED)
    assert committed(cluster, topic) == [b"second"]


async def test_aiokafka_and_kafka_python_commit_and_abort(cluster: LocalCluster):
    topic = a_topic(cluster, "others")
    async with AIOKafkaProducer(bootstrap_servers=servers(cluster), transactional_id="aio") as sender:
        for number in range(4):
            await sender.begin_transaction()
            for one in range(2):
                await sender.send_and_wait(topic, b"aio-%d" % number, partition=one)
            await (sender.abort_transaction() if number == 1 else sender.commit_transaction())

    def with_python() -> None:
        sender = KafkaProducer(bootstrap_servers=servers(cluster), transactional_id="python")
        sender.init_transactions()
        for number in range(4):
            sender.begin_transaction()
            for one in range(2):
                sender.send(topic, b"python-%d" % number, partition=one)
            sender.abort_transaction() if number == 1 else sender.commit_transaction()
        sender.close()

    await asyncio.to_thread(with_python)
    expected = [b"%s-%d" % (name, number) for name in (b"aio", b"python") for number in (0, 2, 3) for _ in range(2)]
    assert await asyncio.to_thread(committed, cluster, topic) == sorted(expected)


@needs(TOOLS_LIBS)
def test_java_adds_partitions_by_its_batches_and_gets_a_new_epoch_from_each_end(cluster: LocalCluster):
    """Java 4 has transactions of the second kind (KIP-890, TV2)."""
    topic = a_topic(cluster, "java")
    program = [str(Path(__file__).with_name("Transactional.java")), servers(cluster), topic, "java"]
    done = subprocess.run([*JAVA, *program], capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    expected = [b"%d-%d" % (number, one) for number in range(20) if number % 3 < 2 for one in range(10)]
    assert committed(cluster, topic) == sorted(expected)
    consumer = confluent_kafka.Consumer({"bootstrap.servers": servers(cluster), "group.id": "java"})
    (offset,) = consumer.committed([TopicPartition(topic, 0)], SOON_S)
    assert offset.offset == 19
    consumer.close()


def transform(cluster: LocalCluster, source: str, target: str, group: str, stop_at: int, **settings: Any) -> int:
    """Copy `source` to `target`, with the offsets in each transaction; return how many transactions were committed."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": servers(cluster),
            "group.id": group,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([source])
    sender, done, count = producer(cluster, f"{group}-sender", **settings), 0, 0
    deadline = time.monotonic() + 60
    while done < stop_at and time.monotonic() < deadline:
        messages = [one for one in consumer.consume(10, timeout=2) if one.error() is None]
        if not messages:
            continue
        sender.begin_transaction()
        for one in messages:
            sender.produce(target, one.value(), partition=one.partition())
        sender.send_offsets_to_transaction(
            consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), SOON_S
        )
        count += 1
        if count % 4 == 3:
            sender.abort_transaction(SOON_S)
            for one in consumer.committed(consumer.assignment(), SOON_S):
                consumer.seek(TopicPartition(one.topic, one.partition, max(one.offset, 0)))
            continue
        sender.commit_transaction(SOON_S)
        done += len(messages)
    consumer.close()
    return count


def test_consume_transform_produce_copies_each_record_once(cluster: LocalCluster):
    source, target = a_topic(cluster, "source"), a_topic(cluster, "target")
    plain = confluent_kafka.Producer({"bootstrap.servers": servers(cluster)})
    values = [b"%03d" % number for number in range(200)]
    for number, value in enumerate(values):
        plain.produce(source, value, partition=number % 2)
    assert plain.flush(SOON_S) == 0
    assert transform(cluster, source, target, "copying", 100) >= 10
    transform(cluster, source, target, "copying", 100)  # Another producer and another consumer go on.
    assert committed(cluster, target) == values


def coordinator_of(cluster: LocalCluster, transactional_id: str) -> str:
    """Return the name of the node that coordinates a transactional id."""
    name = quote(transactional_id, safe="")
    for node in cluster.brokers:
        try:
            urllib.request.urlopen(f"{cluster.public_url(node)}/v1/transactions/{name}", timeout=10).close()
        except urllib.error.HTTPError:
            continue
        return node
    raise AssertionError("there is no coordinator")


def test_no_commit_is_lost_or_half_visible_when_its_coordinator_is_killed(cluster: LocalCluster):
    topic, sender, expected = a_topic(cluster, "killed"), producer(cluster, "killed"), set[int]()
    unknown = set[int]()
    for number in range(24):
        sender.begin_transaction()
        for one in range(2):
            sender.produce(topic, b"%02d" % number, partition=one)
        if number in (5, 12):
            killed = coordinator_of(cluster, "killed")
            cluster.kill(killed)
        try:
            sender.commit_transaction(60)
            expected.add(number)
        except KafkaException as error:
            unknown.add(number)
            if error.args[0].txn_requires_abort():
                sender.abort_transaction(60)
            else:
                sender = producer(cluster, "killed")
        if number in (8, 15):
            cluster.start_node(killed)
            cluster.wait_ready()
    found = committed(cluster, topic)
    numbers = {int(value) for value in found}
    assert found == sorted([b"%02d" % number for number in numbers] * 2)
    assert expected <= numbers <= expected | unknown
