"""Kafka's clients of both protocols in one group, and raftlog's: groups are converted while they have members."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import aiokafka
import confluent_kafka
import pytest
from kafka import KafkaConsumer
from test_kafka_groups import PATIENCE_S, SETTINGS, Member, addresses, describe, topic_with, until, write

from raftlog.blocking import Admin, Consumer
from raftlog.cli.local_cluster import LocalCluster

pytestmark = [pytest.mark.cluster, pytest.mark.kafka, pytest.mark.slow]
NEW = {"group.protocol": "consumer"}
STRATEGIES = pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("converted") / "cluster", port=0, extra=SETTINGS) as cluster:
        yield cluster


@pytest.fixture
def own(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path / "cluster", port=0, extra=SETTINGS) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def no_member_outlives_its_test() -> Iterator[None]:
    yield
    for member in list(Member.running):
        member.stop()


class Watched(Member):
    """A member whose partitions must be no other member's at the same time."""

    lock: ClassVar[threading.Lock] = threading.Lock()
    twice: ClassVar[list[str]] = []

    def _assigned(self, consumer: confluent_kafka.Consumer, listed: list[confluent_kafka.TopicPartition]) -> None:
        with self.lock:
            mine = {one.partition for one in listed}
            for other in self.running:
                if other is not self and isinstance(other, Watched) and other.partitions & mine:
                    self.twice.append(f"{other.partitions & mine}")
            super()._assigned(consumer, listed)

    def _revoked(self, consumer: confluent_kafka.Consumer, listed: list[confluent_kafka.TopicPartition]) -> None:
        with self.lock:
            super()._revoked(consumer, listed)

    def stop(self) -> None:
        super().stop()
        self.partitions = set()


@pytest.fixture(autouse=True)
def no_partition_has_two_readers() -> Iterator[None]:
    Watched.twice.clear()
    yield
    assert Watched.twice == []


def shares(*members: Member) -> list[int]:
    return [len(one.partitions) for one in members]


def unexpected(*members: Member) -> list[str]:
    """Return errors, but no commits that were sent just before their member's next epoch (KIP-848)."""
    return [error for one in members for error in one.errors if "STALE_MEMBER_EPOCH" not in error]


def read_by(*members: Member) -> set[int]:
    return {number for one in members for number in one.seen}


@STRATEGIES
def test_a_group_is_upgraded_and_downgraded_while_it_reads(shared: LocalCluster, strategy: str):
    topic, group = topic_with(shared, 60), f"updown-{strategy}"
    old = {"partition.assignment.strategy": strategy}
    classic = [Watched(shared, group, topic, **old) for _ in range(2)]
    until(lambda: shares(*classic) == [3, 3] and len(read_by(*classic)) == 60, lambda: [one.errors for one in classic])
    new = Watched(shared, group, topic, **NEW)
    until(lambda: shares(*classic, new) == [2, 2, 2], lambda: (shares(*classic, new), new.errors))
    described = describe(shared, group)
    assert (described.type.name, described.state.name, len(described.members)) == ("CONSUMER", "STABLE", 3)
    with Admin(shared.bootstrap) as admin:
        seen = admin.describe_group(group)
        assert sorted(one.kind for one in seen.members) == ["classic", "classic", "consumer"]
    write(shared, topic, range(60, 120))
    until(lambda: len(read_by(*classic, new)) == 120)
    new.stop()
    until(lambda: shares(*classic) == [3, 3], lambda: (shares(*classic), [one.errors for one in classic]))
    assert describe(shared, group).type.name == "CLASSIC"
    write(shared, topic, range(120, 180))
    until(lambda: len(read_by(*classic, new)) == 180)
    assert unexpected(*classic, new) == []


@STRATEGIES
def test_members_are_replaced_one_by_one(shared: LocalCluster, strategy: str):
    topic, group = topic_with(shared, 60), f"rolling-{strategy}"
    members = [Watched(shared, group, topic, **{"partition.assignment.strategy": strategy}) for _ in range(3)]
    until(lambda: shares(*members) == [2, 2, 2])
    everyone = list(members)
    for number in range(3):
        members[number].stop()
        members[number] = Watched(shared, group, topic, **NEW)
        everyone.append(members[number])
        until(lambda: shares(*members) == [2, 2, 2], lambda: (shares(*members), [one.errors for one in members]))
    write(shared, topic, range(60, 120))
    until(lambda: len(read_by(*everyone)) == 120)
    assert unexpected(*everyone) == []


def test_static_members_are_replaced_one_by_one_and_back(shared: LocalCluster):
    """A classic static member does not leave, and its place is given to the process of the other protocol at once."""
    topic, group = topic_with(shared, 60), "rolling-static"
    old = {"partition.assignment.strategy": "range"}
    members = [Watched(shared, group, topic, **old, **{"group.instance.id": name}) for name in "ab"]
    until(lambda: shares(*members) == [3, 3])
    everyone = list(members)
    for settings in (NEW, old):
        for number, name in enumerate("ab"):
            members[number].stop()
            members[number] = Watched(shared, group, topic, **settings, **{"group.instance.id": name})
            everyone.append(members[number])
            until(lambda: shares(*members) == [3, 3], lambda: (shares(*members), [one.errors for one in members]))
    assert describe(shared, group).type.name == "CLASSIC"
    write(shared, topic, range(60, 120))
    until(lambda: len(read_by(*everyone)) == 120)


def test_kafka_python_and_a_client_of_raftlog_share_a_group(shared: LocalCluster):
    topic, group = topic_with(shared, 30), "with-raftlog"
    found: list[int] = []
    ends, joined = threading.Event(), threading.Event()

    def kafka_python() -> None:
        settings = {"group_id": group, "auto_offset_reset": "earliest", "enable_auto_commit": False}
        consumer = KafkaConsumer(topic, bootstrap_servers=addresses(shared), **settings)
        while not ends.is_set():
            for records in consumer.poll(timeout_ms=200).values():
                found.extend(int(record.value) for record in records)
                consumer.commit()
            if consumer.assignment():
                joined.set()
        consumer.close()

    thread = threading.Thread(target=kafka_python, daemon=True)
    thread.start()
    assert joined.wait(PATIENCE_S)
    with Consumer(shared.bootstrap, topic, group_id=group, auto_offset_reset="earliest") as ours:
        until(lambda: bool(ours.fetch(max_wait_ms=100) or len(ours.assignment) == 3), lambda: ours.assignment)
        write(shared, topic, range(30, 60))
        until(
            lambda: bool(
                found.extend(int(one.value or b"") for one in ours.fetch(max_wait_ms=100)) or len({*found}) == 60
            ),
            lambda: sorted(found),
        )
        ours.commit()
    write(shared, topic, range(60, 90))
    until(lambda: len({*found}) == 90, lambda: sorted(found))
    assert describe(shared, group).type.name == "CLASSIC"
    ends.set()
    thread.join(PATIENCE_S)


def test_aiokafka_shares_a_group_with_a_member_of_the_consumer_protocol(shared: LocalCluster):
    topic, group = topic_with(shared, 60), "with-aiokafka"
    found: list[int] = []
    ends = threading.Event()
    partitions: list[int] = []

    async def aio() -> None:
        settings = {"group_id": group, "auto_offset_reset": "earliest", "enable_auto_commit": False}
        consumer = aiokafka.AIOKafkaConsumer(topic, bootstrap_servers=addresses(shared), **settings)
        await consumer.start()
        while not ends.is_set():
            for records in (await consumer.getmany(timeout_ms=200)).values():
                found.extend(int(record.value) for record in records)
            partitions[:] = [one.partition for one in consumer.assignment()]
        await consumer.stop()

    thread = threading.Thread(target=lambda: asyncio.run(aio()), daemon=True)
    thread.start()
    until(lambda: len(partitions) == 6)
    new = Watched(shared, group, topic, **NEW)
    until(lambda: (len(partitions), len(new.partitions)) == (3, 3), lambda: (partitions, new.partitions, new.errors))
    assert not new.partitions & {*partitions}
    write(shared, topic, range(60, 120))
    until(lambda: {*found} | read_by(new) == {*range(120)})
    new.stop()
    until(lambda: len(partitions) == 6, lambda: partitions)
    write(shared, topic, range(120, 150))
    until(lambda: {*range(120, 150)} <= {*found})
    ends.set()
    thread.join(PATIENCE_S)


@STRATEGIES
def test_a_coordinator_dies_in_the_middle_of_a_conversion(own: LocalCluster, strategy: str):
    topic, group = topic_with(own, 60), "killed"
    old: dict[str, Any] = {"partition.assignment.strategy": strategy, "session.timeout.ms": 30_000}
    classic = [Watched(own, group, topic, **old) for _ in range(2)]
    until(lambda: shares(*classic) == [3, 3] and len(read_by(*classic)) == 60)
    with Admin(own.bootstrap) as admin:
        coordinator = admin.find_coordinator("group", group)
        new = Watched(own, group, topic, **NEW)
        until(lambda: admin.describe_group(group).kind == "consumer")
    own.kill(f"broker-{coordinator.broker_id}")
    until(lambda: shares(*classic, new) == [2, 2, 2], lambda: (shares(*classic, new), new.errors))
    with Admin(own.bootstrap) as admin:
        assert admin.find_coordinator("group", group).broker_id != coordinator.broker_id
        write(own, topic, range(60, 120))
        until(lambda: len(read_by(*classic, new)) == 120)
        new.stop()
        until(lambda: admin.describe_group(group).kind == "classic")
    until(lambda: shares(*classic) == [3, 3], lambda: [one.errors for one in classic])
