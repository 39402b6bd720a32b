"""Consumer groups of Kafka's clients on a cluster: rebalances, static members, a killed coordinator, both protocols."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

import aiokafka
import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer

from raftlog.blocking import Admin, Consumer, Producer
from raftlog.cli.local_cluster import LocalCluster
from raftlog.errors import NotFoundError
from raftlog.model import CONSUMER_OFFSETS

pytestmark = [pytest.mark.cluster, pytest.mark.kafka, pytest.mark.slow]
PARTITIONS = 6
PATIENCE_S = 40
SETTINGS = {"*": {"group": {"initial_rebalance_delay_ms": 300}}}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("groups") / "cluster", port=0, extra=SETTINGS) as cluster:
        yield cluster


@pytest.fixture
def own(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path / "cluster", port=0, extra=SETTINGS) as cluster:
        yield cluster


def addresses(cluster: LocalCluster) -> str:
    return cluster.bootstrap.replace("http://", "")


def topic_with(cluster: LocalCluster, records: int) -> str:
    name = f"t{uuid4().hex[:8]}"
    with Admin(cluster.bootstrap) as admin:
        admin.create_topic(name, partitions=PARTITIONS, replication_factor=3)
    write(cluster, name, range(records))
    return name


def write(cluster: LocalCluster, topic: str, numbers: range) -> None:
    with Producer(cluster.bootstrap) as producer:
        for number in numbers:
            producer.send(topic, b"%d" % number, partition=number % PARTITIONS)
        producer.flush()


@pytest.fixture(autouse=True)
def no_member_outlives_its_test() -> Iterator[None]:
    yield
    for member in list(Member.running):
        member.stop()


class Member:
    """A consumer of librdkafka in a thread of its own, which commits what it has read."""

    running: ClassVar[list[Member]] = []

    def __init__(self, cluster: LocalCluster, group: str, topic: str, **settings: Any) -> None:
        self.seen: list[int] = []
        self.partitions: set[int] = set()
        self.rebalances = 0
        self.errors: list[str] = []
        self._ends = threading.Event()
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": addresses(cluster),
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **settings,
            }
        )
        self._consumer.subscribe([topic], on_assign=self._assigned, on_revoke=self._revoked)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self.running.append(self)

    def _assigned(self, consumer: confluent_kafka.Consumer, listed: list[confluent_kafka.TopicPartition]) -> None:
        self.rebalances += 1
        self.partitions |= {one.partition for one in listed}

    def _revoked(self, consumer: confluent_kafka.Consumer, listed: list[confluent_kafka.TopicPartition]) -> None:
        self.partitions -= {one.partition for one in listed}

    def _run(self) -> None:
        while not self._ends.is_set():
            message = self._consumer.poll(0.2)
            if message is None:
                continue
            if message.error():
                self.errors.append(str(message.error()))
                continue
            self.seen.append(int(message.value()))
            try:
                self._consumer.commit(message=message, asynchronous=False)
            except confluent_kafka.KafkaException as error:
                self.errors.append(str(error))

    def stop(self) -> None:
        self.running.remove(self)
        self._ends.set()
        self._thread.join(PATIENCE_S)
        self._consumer.close()


def until(holds: Callable[[], bool], what: Callable[[], object] = str) -> None:
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end, what()
        time.sleep(0.05)


def describe(cluster: LocalCluster, group: str) -> confluent_kafka.admin.ConsumerGroupDescription:
    admin = AdminClient({"bootstrap.servers": addresses(cluster)})
    return admin.describe_consumer_groups([group])[group].result(PATIENCE_S)


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_two_members_share_and_the_one_that_stays_gets_all(shared: LocalCluster, strategy: str):
    topic, group = topic_with(shared, 60), f"g-{strategy}"
    first = Member(shared, group, topic, **{"partition.assignment.strategy": strategy})
    until(lambda: len(first.seen) == 60, lambda: (first.seen, first.errors))
    second = Member(shared, group, topic, **{"partition.assignment.strategy": strategy})
    until(lambda: len(first.partitions) == len(second.partitions) == PARTITIONS // 2)
    assert first.partitions.isdisjoint(second.partitions)
    write(shared, topic, range(60, 120))
    until(lambda: len(first.seen) + len(second.seen) == 120)
    described = describe(shared, group)
    assert described.state.name == "STABLE"
    assert {part.partition for one in described.members for part in one.assignment.topic_partitions} == set(range(6))
    with Admin(shared.bootstrap) as admin:
        seen = admin.describe_group(group)
        assert (seen.kind, seen.phase, seen.assignor, len(seen.members)) == ("classic", "Stable", strategy, 2)
        assert sum(len(part.partitions) for one in seen.members for part in one.assignment) == PARTITIONS
        assert group in {one.group_id for one in admin.list_groups()}
    second.stop()
    until(lambda: first.partitions == set(range(PARTITIONS)))
    first.stop()
    assert sorted(first.seen + second.seen) == list(range(120))
    assert first.errors + second.errors == []


def test_a_static_member_restarts_without_a_rebalance(shared: LocalCluster):
    topic, group = topic_with(shared, 12), "g-static"
    first = Member(shared, group, topic, **{"group.instance.id": "a"})
    second = Member(shared, group, topic, **{"group.instance.id": "b"})
    until(lambda: len(first.partitions) == len(second.partitions) == PARTITIONS // 2)
    rebalances, owned = first.rebalances, set(second.partitions)
    second.stop()  # A static member does not leave.
    again = Member(shared, group, topic, **{"group.instance.id": "b"})
    until(lambda: again.partitions == owned)
    assert first.rebalances == rebalances
    first.stop()
    again.stop()


def test_a_stable_group_outlives_its_coordinator_without_a_rebalance(own: LocalCluster):
    topic, group = topic_with(own, 60), "g-failover"
    members = [Member(own, group, topic, **{"session.timeout.ms": 30_000}) for _ in range(2)]
    until(lambda: all(len(one.partitions) == PARTITIONS // 2 for one in members))
    until(lambda: sum(len(one.seen) for one in members) == 60)
    rebalances = [one.rebalances for one in members]
    with Admin(own.bootstrap) as admin:
        coordinator = admin.find_coordinator("group", group)
        before = admin.describe_group(group)
    assert coordinator.topic == CONSUMER_OFFSETS
    own.kill(f"broker-{coordinator.broker_id}")
    with Admin(own.bootstrap) as admin:
        until(lambda: admin.find_coordinator("group", group).broker_id != coordinator.broker_id)
        write(own, topic, range(60, 120))
        until(
            lambda: len({number for one in members for number in one.seen}) == 120, lambda: [o.errors for o in members]
        )
        after = admin.describe_group(group)
    assert (after.epoch, after.phase) == (before.epoch, "Stable")
    assert [one.rebalances for one in members] == rebalances
    for one in members:
        one.stop()


def test_kafka_python_and_aiokafka_and_librdkafka_share_a_group(shared: LocalCluster):
    topic, group = topic_with(shared, 60), "g-mixed"
    found: list[int] = []
    ends = threading.Event()
    common = {"group_id": group, "auto_offset_reset": "earliest", "enable_auto_commit": False}

    def kafka_python() -> None:
        consumer = KafkaConsumer(topic, bootstrap_servers=addresses(shared), **common)
        while not ends.is_set():
            for records in consumer.poll(timeout_ms=200).values():
                found.extend(int(record.value) for record in records)
                consumer.commit()
        consumer.close()

    async def aio() -> None:
        consumer = aiokafka.AIOKafkaConsumer(topic, bootstrap_servers=addresses(shared), **common)
        await consumer.start()
        while not ends.is_set():
            for records in (await consumer.getmany(timeout_ms=200)).values():
                found.extend(int(record.value) for record in records)
                await consumer.commit()
        await consumer.stop()

    threads = [threading.Thread(target=run, daemon=True) for run in (kafka_python, lambda: asyncio.run(aio()))]
    for thread in threads:
        thread.start()
    third = Member(shared, group, topic, **{"partition.assignment.strategy": "range,roundrobin"})
    with Admin(shared.bootstrap) as admin:
        until(lambda: _shares(admin, group) == [2, 2, 2], lambda: _shares(admin, group))
    write(shared, topic, range(60, 120))
    until(lambda: set(found + third.seen) == set(range(120)))
    ends.set()
    for thread in threads:
        thread.join(PATIENCE_S)
    third.stop()


def _shares(admin: Admin, group: str) -> list[int]:
    try:
        members = admin.describe_group(group).members
    except NotFoundError:  # No member has joined yet.
        return []
    return sorted(sum(len(part.partitions) for part in one.assignment) for one in members)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_is_continued_by_a_client_of_raftlog_and_back(shared: LocalCluster, protocol: str):
    topic, group = topic_with(shared, 30), f"g-continued-{protocol}"
    settings = {} if protocol == "classic" else {"group.protocol": "consumer"}
    first = Member(shared, group, topic, **settings)
    until(lambda: len(first.seen) == 30, lambda: first.errors)
    first.stop()
    write(shared, topic, range(30, 60))
    with Consumer(shared.bootstrap, topic, group_id=group, auto_offset_reset="earliest") as consumer:
        read: list[int] = []
        until(lambda: bool(read.extend(int(one.value or b"") for one in consumer.fetch()) or len(read) >= 30))
        consumer.commit()
    assert sorted(read) == list(range(30, 60))
    write(shared, topic, range(60, 90))
    last = Member(shared, group, topic, **settings)
    until(lambda: len(last.seen) == 30, lambda: (last.seen, last.errors))
    last.stop()
    assert sorted(last.seen) == list(range(60, 90))


def test_members_of_the_consumer_protocol_share(shared: LocalCluster):
    topic, group = topic_with(shared, 60), "g-848"
    members = [Member(shared, group, topic, **{"group.protocol": "consumer"}) for _ in range(2)]
    until(
        lambda: all(len(one.partitions) == PARTITIONS // 2 for one in members), lambda: [one.errors for one in members]
    )
    until(lambda: sum(len(one.seen) for one in members) == 60)
    described = describe(shared, group)
    assert (described.state.name, described.type.name, len(described.members)) == ("STABLE", "CONSUMER", 2)
    for one in members:
        one.stop()


def test_administrators_list_reset_and_delete(shared: LocalCluster):
    topic, group = topic_with(shared, 12), "g-admin"
    admin = AdminClient({"bootstrap.servers": addresses(shared)})
    member = Member(shared, group, topic)
    until(lambda: len(member.seen) == 12)
    classic = {confluent_kafka.ConsumerGroupType.CLASSIC}
    listed = admin.list_consumer_groups(types=classic).result()
    assert (group, "STABLE") in {(one.group_id, one.state.name) for one in listed.valid}
    with pytest.raises(confluent_kafka.KafkaException, match=r"(?i)not empty|non.empty"):
        admin.delete_consumer_groups([group])[group].result()
    member.stop()
    part = confluent_kafka.TopicPartition(topic, 0, 1)
    wanted = [confluent_kafka.ConsumerGroupTopicPartitions(group, [part])]
    admin.alter_consumer_group_offsets(wanted)[group].result()
    asked = [confluent_kafka.ConsumerGroupTopicPartitions(group, None)]
    found = admin.list_consumer_group_offsets(asked)[group].result().topic_partitions
    assert {one.partition: one.offset for one in found} == {0: 1, **dict.fromkeys(range(1, 6), 2)}
    admin.delete_consumer_groups([group])[group].result()
    with Admin(shared.bootstrap) as ours:
        assert group not in {one.group_id for one in ours.list_groups()}
