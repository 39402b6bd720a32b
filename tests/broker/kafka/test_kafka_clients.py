"""Kafka's clients, as they are, at the public port of a cluster: beside raftlog's own, with TLS, and with rules."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as Position
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonPosition

from raftlog.blocking import Admin, Consumer, Producer
from raftlog.cli.local_cluster import LocalCluster
from raftlog.model import Acl

sys.path.append(str(Path(__file__).parents[2] / "tls"))
from tls_support import Authority, section

pytestmark = pytest.mark.cluster
KEY = "k" * 40
SOON_S = 30


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, stall_file: Path) -> Iterator[LocalCluster]:
    assert stall_file.exists()
    with LocalCluster(tmp_path_factory.mktemp("kafka") / "cluster", controllers=1, brokers=3, port=0) as cluster:
        yield cluster


def places(cluster: LocalCluster) -> str:
    return cluster.bootstrap.replace("https://", "").replace("http://", "")


def a_topic(cluster: LocalCluster, name: str, partitions: int = 3, **configs: int) -> str:
    with Admin(cluster.bootstrap) as admin:
        admin.create_topic(name, partitions=partitions, replication_factor=3, configs=configs)
    return name


def produce(settings: dict[str, Any], topic: str, values: list[bytes]) -> list[str]:
    """Produce with confluent-kafka; return the errors of deliveries."""
    errors: list[str] = []
    producer = confluent_kafka.Producer({"linger.ms": 5} | settings)
    for number, value in enumerate(values):
        producer.produce(topic, value, b"%d" % number, on_delivery=lambda e, _: errors.append(str(e)) if e else None)
    assert producer.flush(SOON_S) == 0
    return errors


def consume(settings: dict[str, Any], topic: str, count: int, partitions: int = 3) -> list[bytes]:
    """Read every partition from its beginning with confluent-kafka, without a group."""
    consumer = confluent_kafka.Consumer({"group.id": "none", "enable.auto.commit": False} | settings)
    consumer.assign([TopicPartition(topic, one, confluent_kafka.OFFSET_BEGINNING) for one in range(partitions)])
    found: list[bytes] = []
    while len(found) < count:
        messages = consumer.consume(min(1_000, count - len(found)), timeout=SOON_S)
        assert messages, f"{len(found)} of {count} records came"
        for message in messages:
            assert message.error() is None, message.error()
            found.append(message.value())
    consumer.close()
    return found


def test_every_client_reads_what_every_other_wrote(cluster: LocalCluster):
    topic, values = a_topic(cluster, "mixed"), [b"%d" % number for number in range(3_000)]
    assert produce({"bootstrap.servers": places(cluster)}, topic, values[:1_000]) == []
    python = KafkaProducer(bootstrap_servers=places(cluster), acks="all")
    for value in values[1_000:2_000]:
        python.send(topic, value, key=b"k")
    python.flush()
    python.close()
    with Producer(cluster.bootstrap) as producer:
        producer.send_many(topic, values[2_000:])
    assert sorted(consume({"bootstrap.servers": places(cluster)}, topic, 3_000)) == sorted(values)
    reader = KafkaConsumer(
        bootstrap_servers=places(cluster), enable_auto_commit=False, consumer_timeout_ms=SOON_S * 1_000
    )
    reader.assign([PythonPosition(topic, one) for one in range(3)])
    reader.seek_to_beginning()
    assert sorted(next(reader).value for _ in range(3_000)) == sorted(values)
    reader.close()
    with Consumer(cluster.bootstrap, topic, start="earliest") as consumer:
        own: list[bytes | None] = []
        while len(own) < 3_000:
            own += [record.value for record in consumer.fetch(max_records=3_000, max_wait_ms=1_000)]
    assert sorted(own) == sorted(values)


async def test_aiokafka_and_its_offsets(cluster: LocalCluster):
    topic = a_topic(cluster, "aio", partitions=1)
    producer = AIOKafkaProducer(bootstrap_servers=places(cluster), enable_idempotence=True)
    await producer.start()
    sent = [
        await producer.send_and_wait(topic, b"%d" % number, timestamp_ms=1_000_000 + number) for number in range(20)
    ]
    await producer.stop()
    assert [one.offset for one in sent] == list(range(20))
    consumer = AIOKafkaConsumer(bootstrap_servers=places(cluster), isolation_level="read_committed")
    await consumer.start()
    where = Position(topic, 0)
    consumer.assign([where])
    assert (await consumer.beginning_offsets([where]), await consumer.end_offsets([where])) == ({where: 0}, {where: 20})
    found = (await consumer.offsets_for_times({where: 1_000_007}))[where]
    assert (found.offset, found.timestamp) == (7, 1_000_007)
    consumer.seek(where, 15)
    assert (await consumer.getone()).value == b"15"
    await consumer.stop()


def test_metadata_names_the_public_ports(cluster: LocalCluster):
    topic = a_topic(cluster, "named")
    admin = AdminClient({"bootstrap.servers": places(cluster).split(",")[0]})
    found = admin.list_topics(timeout=SOON_S)
    assert {f"{one.host}:{one.port}" for one in found.brokers.values()} == set(places(cluster).split(","))
    assert found.cluster_id == cluster.cluster_id
    assert len(found.topics[topic].partitions) == 3
    assert "never made" not in found.topics
    missing = admin.list_topics("never-made", timeout=SOON_S).topics["never-made"].error
    assert missing.code() == confluent_kafka.KafkaError.UNKNOWN_TOPIC_OR_PART
    described = admin.describe_cluster(request_timeout=SOON_S).result()
    assert sorted(node.id for node in described.nodes) == [1, 2, 3]


@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")
def test_kcat(cluster: LocalCluster):
    topic = a_topic(cluster, "kcat", partitions=1)
    lines = "".join(f"line {number}\n" for number in range(500))
    common = ["kcat", "-b", places(cluster), "-q"]
    subprocess.run([*common, "-P", "-t", topic, "-p", "0"], input=lines, text=True, timeout=SOON_S, check=True)
    reading = [*common, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e"]
    read = subprocess.run(reading, capture_output=True, text=True, timeout=SOON_S, check=True)
    assert read.stdout == lines
    listed = subprocess.run([*common, "-L", "-t", topic], capture_output=True, text=True, timeout=SOON_S, check=True)
    assert "3 brokers" in listed.stdout


def test_an_acks_0_producer_and_a_large_record(cluster: LocalCluster):
    topic = a_topic(cluster, "large", partitions=1, max_message_bytes=1_000_000)
    settings = {"bootstrap.servers": places(cluster), "message.max.bytes": 2_000_000}
    assert produce(settings | {"acks": 0}, topic, [b"a"]) == []
    assert produce(settings, topic, [b"x" * 900_000]) == []
    (refused,) = produce(settings, topic, [b"x" * 1_500_000])
    assert "too large" in refused.lower()
    assert [len(one) for one in consume(settings, topic, 2, partitions=1)] == [1, 900_000]


# TLS, and rules.


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory, stall_file: Path) -> Iterator[tuple[LocalCluster, Authority]]:
    """Return a cluster with TLS. Its rules let the user `writer` write to `t`, and all senders read `open`."""
    assert stall_file.exists()
    authority = Authority.new(tmp_path_factory.mktemp("ca"))
    folder = tmp_path_factory.mktemp("secure") / "cluster"
    folder.mkdir()
    (folder / "cluster.key").write_text(KEY)
    security = {"super_users": ["User:admin"], "cluster_key_file": "../cluster.key"}
    tls = section(authority.issue("node"), public="required", client_auth="optional")
    with LocalCluster(
        folder, controllers=1, brokers=1, port=0, extra={"*": {"security": security, "tls": tls}}
    ) as nodes:
        from raftlog import Security  # noqa: PLC0415  (only here)

        with Admin(nodes.bootstrap, security=Security(ca_file=authority.ca_file)) as admin:
            for topic in ("t", "open"):
                admin.create_topic(topic, partitions=1, replication_factor=1)
            admin.create_acls(
                [
                    Acl(principal="writer", operation="write", resource_type="topic", resource_name="t"),
                    Acl(principal="writer", operation="describe", resource_type="topic", resource_name="open"),
                    Acl(principal="*", operation="read", resource_type="topic", resource_name="open"),
                ]
            )
        for name in nodes.names:
            nodes.configure(name, security=security | {"authorizer": "acl"})
            nodes.restart(name)
        nodes.wait_ready()
        yield nodes, authority


def with_tls(nodes: LocalCluster, authority: Authority, user: str = "") -> dict[str, Any]:
    settings = {
        "bootstrap.servers": places(nodes),
        "security.protocol": "ssl",
        "ssl.ca.location": authority.ca_file,
        "message.timeout.ms": 10_000,
    }
    if user:
        files = authority.issue(user)
        settings |= {"ssl.certificate.location": files.cert_file, "ssl.key.location": files.key_file}
    return settings


def test_a_client_with_a_certificate_has_its_users_rights(secure: tuple[LocalCluster, Authority]):
    writer = with_tls(*secure, "writer")
    assert produce(writer, "t", [b"a", b"b"]) == []
    assert produce(writer | {"enable.idempotence": True}, "t", [b"c"]) == []
    (refused,) = produce(writer, "open", [b"a"])
    assert "authorization" in refused.lower()
    topics = AdminClient(writer).list_topics(timeout=SOON_S).topics
    assert sorted(topics) == ["open", "t"]
    assert consume(with_tls(*secure, "admin"), "t", 3, partitions=1) == [b"a", b"b", b"c"]


def test_a_client_without_a_certificate_has_the_rights_of_everyone(secure: tuple[LocalCluster, Authority]):
    nodes, authority = secure
    assert produce(with_tls(*secure, "admin"), "open", [b"a"]) == []
    anyone = with_tls(nodes, authority)
    assert consume(anyone, "open", 1, partitions=1) == [b"a"]
    assert sorted(AdminClient(anyone).list_topics(timeout=SOON_S).topics) == ["open"]
    errors = produce(anyone, "t", [b"a"])
    assert errors
    plain = {"bootstrap.servers": places(nodes), "message.timeout.ms": 2_000}
    assert produce(plain, "t", [b"a"]), "this port speaks TLS only"
