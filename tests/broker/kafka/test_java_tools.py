"""Kafka's command-line tools (kafka-topics, kafka-configs, kafka-acls, and so on) on a cluster."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from raftlog.cli.local_cluster import LocalCluster
from tests.broker.kafka.committed_records import servers
from tests.broker.kafka.java_support import JAVA, TOOLS_LIBS, needs

TOOLS = {
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
}
pytestmark = [
    pytest.mark.cluster,
    pytest.mark.kafka,
    pytest.mark.timeout(240),
    needs(TOOLS_LIBS),
]


class Tools:
    """Runs the tools."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.servers = servers(cluster)

    def __call__(self, line: str, *more: str, fails: bool = False, types: str = "") -> str:
        """Run a tool with its arguments and input; return what it writes."""
        name, *arguments = line.split()
        command = [*JAVA, TOOLS[name], "--bootstrap-server", self.servers, *arguments, *more]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, input=types)
        written = done.stdout + done.stderr
        failed = done.returncode != 0 or "Exception" in written
        assert failed == fails, written
        return written


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    extra = {"*": {"broker": {"offsets_topic_num_partitions": 2}}}
    folder = tmp_path_factory.mktemp("cluster")
    with LocalCluster(folder / "data", controllers=1, brokers=3, port=0, extra=extra) as cluster:
        yield Tools(cluster)


def test_topics(tools: Tools):
    tools("kafka-topics --create --topic t1 --partitions 3 --replication-factor 3 --config retention.ms=60000")
    tools("kafka-topics --create --topic t2 --replica-assignment 1:2,2:3")
    found = tools("kafka-topics --describe --topic t2")
    assert "Replicas: 1,2" in found
    assert "Replicas: 2,3" in found
    tools("kafka-topics --alter --topic t1 --partitions 5")
    assert "PartitionCount: 5" in tools("kafka-topics --describe --topic t1")
    refused = tools("kafka-topics --create --topic t3 --config compression.type=zstd", fails=True)
    assert "set compression.type of the producers" in refused
    tools("kafka-topics --delete --topic t[12]")
    assert "t1" not in tools("kafka-topics --list")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_the_quick_start_of_kafka(tools: Tools, protocol: str):
    """Its console producer and consumer, in a group of either protocol."""
    topic = f"quickstart-events-{protocol}"
    tools(f"kafka-topics --create --topic {topic}")
    tools(f"kafka-console-producer --topic {topic}", types="This is my first event\nThis is my second event\n")
    reading = f"kafka-console-consumer --topic {topic} --from-beginning --max-messages 2 --group g-{protocol}"
    found = tools(f"{reading} --consumer-property group.protocol={protocol}")
    assert found.splitlines()[:2] == ["This is my first event", "This is my second event"]
    assert "Processed a total of 2 messages" in found
    described = tools(f"kafka-consumer-groups --describe --group g-{protocol}")
    assert [line.split()[3:6] for line in described.splitlines() if topic in line] == [["2", "2", "0"]]


def test_configs(tools: Tools):
    tools("kafka-topics --create --topic c1 --config cleanup.policy=compact")
    tools("kafka-configs --alter --topic c1 --add-config retention.ms=70000 --delete-config cleanup.policy")
    found = tools("kafka-configs --describe --topic c1")
    assert "retention.ms=70000" in found
    assert "cleanup.policy" not in found
    assert "compression.type=producer" in tools("kafka-configs --describe --all --topic c1")
    tools("kafka-configs --alter --entity-type brokers --entity-name 1 --add-config log.retention.ms=80000")
    assert "log.retention.ms=80000" in tools("kafka-configs --describe --entity-type brokers --entity-name 1")


def test_users_and_quotas(tools: Tools):
    users = "kafka-configs --alter --entity-type users --entity-name u1"
    tools(users, "--add-config", "SCRAM-SHA-256=[iterations=100000,password=some-secret]")
    assert "iterations=100000" in tools(users, "--add-config", "SCRAM-SHA-256=[password=other-secret]", fails=True)
    tools(users, "--add-config", "SCRAM-SHA-512=[iterations=120000,password=some-secret]")
    assert "iterations=100000" in tools(users, "--add-config", "SCRAM-SHA-512=[password=other-secret]", fails=True)
    tools(users, "--add-config", "producer_byte_rate=1024")
    found = tools("kafka-configs --describe --entity-type users --entity-name u1")
    assert "producer_byte_rate=1024" in found
    assert "SCRAM-SHA-256=iterations=100000" in found
    assert "SCRAM-SHA-512=iterations=120000" in found
    tools(users, "--delete-config", "SCRAM-SHA-256")
    found = tools("kafka-configs --describe --entity-type users --entity-name u1")
    assert "SCRAM-SHA-256" not in found
    assert "SCRAM-SHA-512=iterations=120000" in found
    tools(users, "--delete-config", "SCRAM-SHA-512")


def test_rules(tools: Tools):
    tools("kafka-acls --add --allow-principal User:alice --operation Read --topic a1 --group g")
    tools("kafka-acls --add --allow-principal User:alice --producer --topic pre --resource-pattern-type prefixed")
    assert "name=pre, patternType=PREFIXED" in tools("kafka-acls --list")
    tools("kafka-acls --remove --force --topic pre-x --resource-pattern-type match")
    found = tools("kafka-acls --list")
    assert "name=pre" not in found
    assert "name=a1, patternType=LITERAL" in found


def test_the_cluster(tools: Tools):
    tools("kafka-topics --create --topic d1 --partitions 1 --replication-factor 2")
    assert '"partition":"d1-0"' in tools("kafka-log-dirs --describe --topic-list d1")
    assert "LeaderId:" in tools("kafka-metadata-quorum describe --status")
    tools("kafka-leader-election --election-type preferred --all-topic-partitions")
    found = tools("kafka-leader-election --election-type unclean --topic d1 --partition 0")
    assert "Valid replica already elected" in found


def test_reassignments(tools: Tools, tmp_path: Path):
    tools("kafka-topics --create --topic r1 --replica-assignment 1:2")
    wanted = {"version": 1, "partitions": [{"topic": "r1", "partition": 0, "replicas": [2, 3]}]}
    (tmp_path / "r.json").write_text(json.dumps(wanted))
    plan = f"kafka-reassign-partitions --reassignment-json-file {tmp_path / 'r.json'}"
    assert "Successfully started" in tools(f"{plan} --execute")
    assert "r1-0" in tools(f"{plan} --verify")
    tools("kafka-reassign-partitions --list")
