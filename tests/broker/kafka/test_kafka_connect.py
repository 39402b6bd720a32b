"""Kafka Connect: files are copied into a topic and out of it, by one worker and by two that share the work."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from raftlog.blocking import Admin
from raftlog.cli.local_cluster import LocalCluster
from tests.broker.kafka.committed_records import committed_records, servers
from tests.broker.kafka.java_support import TOOLS_LIBS, JavaProcess, needs, wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.kafka, pytest.mark.timeout(300), needs(TOOLS_LIBS)]
CONVERTERS = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
}
SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"


@pytest.fixture
def cluster(tmp_path: Path, stall_file: Path) -> Iterator[LocalCluster]:
    assert stall_file.exists()
    extra = {"*": {"broker": {"offsets_topic_num_partitions": 2, "transaction_state_log_num_partitions": 2}}}
    with LocalCluster(tmp_path / "cluster", port=0, extra=extra) as cluster:
        yield cluster


def properties(path: Path, settings: dict[str, Any]) -> str:
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return str(path)


def append(path: Path, lines: list[str]) -> list[str]:
    with path.open("a") as file:
        file.writelines(f"{line}\n" for line in lines)
    return lines


def values(cluster: LocalCluster, topic: str) -> list[str]:
    return [message.value().decode() for message in committed_records(cluster, topic, 1)]


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def test_the_quick_start_of_connect(cluster: LocalCluster, tmp_path: Path, free_ports: Callable[[int], list[int]]):
    """A standalone worker copies a file to a topic and on to another file; a restart goes on where it was."""
    source, sink = tmp_path / "test.txt", tmp_path / "test.sink.txt"
    (port,) = free_ports(1)
    worker = {
        "bootstrap.servers": servers(cluster),
        "listeners": f"http://127.0.0.1:{port}",
        "offset.storage.file.filename": tmp_path / "connect.offsets",
        "offset.flush.interval.ms": 500,
    } | CONVERTERS
    with Admin(cluster.bootstrap) as admin:
        admin.create_topic("connect-test", partitions=1, replication_factor=3)
    arguments = [
        properties(tmp_path / "worker.properties", worker),
        properties(
            tmp_path / "source.properties",
            {"name": "in", "connector.class": SOURCE, "file": source, "topic": "connect-test"},
        ),
        properties(
            tmp_path / "sink.properties",
            {"name": "out", "connector.class": SINK, "file": sink, "topics": "connect-test"},
        ),
    ]
    expected = append(source, ["foo", "bar"])
    with JavaProcess(tmp_path / "connect.log", "org.apache.kafka.connect.cli.ConnectStandalone", *arguments) as connect:
        wait_until("the first lines", lambda: lines_of(sink) == expected, connect)
        expected += append(source, ["Another line"])
        wait_until("another line", lambda: lines_of(sink) == expected, connect)
        connect.end()
        expected += append(source, ["after the restart"])
        connect.start()
        wait_until("the line after the restart", lambda: lines_of(sink) == expected, connect)
        assert values(cluster, "connect-test") == expected
        with Admin(cluster.bootstrap) as admin:
            assert "connect-out" in [group.group_id for group in admin.list_groups()]


class Worker(JavaProcess):
    """A worker of a distributed Connect cluster, with its own REST port."""

    def __init__(self, cluster: LocalCluster, folder: Path, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        settings = {
            "bootstrap.servers": servers(cluster),
            "group.id": "workers",
            "listeners": self.url,
            "exactly.once.source.support": "enabled",
            "offset.flush.interval.ms": 500,
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 500,
            "scheduled.rebalance.max.delay.ms": 0,
        }
        for topic in ("config", "offset", "status"):
            settings |= {f"{topic}.storage.topic": f"connect-{topic}", f"{topic}.storage.replication.factor": 3}
        settings |= {"offset.storage.partitions": 2, "status.storage.partitions": 1}
        path = properties(folder / f"{port}.properties", settings | CONVERTERS)
        super().__init__(folder / f"{port}.log", "org.apache.kafka.connect.cli.ConnectDistributed", path)

    def call(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """Return the answer of the REST API, or None while it cannot answer: the worker starts or rebalances."""
        request = urllib.request.Request(
            self.url + path,
            None if body is None else json.dumps(body).encode(),
            {"Content-Type": "application/json"},
            method="GET" if body is None else "PUT",
        )
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return json.load(answer)
        except OSError:
            return None

    def runs(self, connector: str, tasks: int, on: list[Worker]) -> bool:
        """Return whether the connector and its tasks run, each on one of these workers."""
        status = self.call(f"/connectors/{connector}/status")
        if status is None or len(status["tasks"]) != tasks:
            return False
        places = {worker.url.removeprefix("http://") for worker in on}
        parts = [status["connector"], *status["tasks"]]
        assert all(part["state"] != "FAILED" for part in parts), status
        return all(part["state"] == "RUNNING" and part["worker_id"] in places for part in parts)


def test_two_workers_copy_a_file_exactly_once_when_one_is_killed(
    cluster: LocalCluster, tmp_path: Path, free_ports: Callable[[int], list[int]]
):
    """The source is exactly once (KIP-618): lines and their offsets are one transaction; a killed worker is fenced."""
    source, sink = tmp_path / "in.txt", tmp_path / "out.txt"
    expected = append(source, [f"line-{number}" for number in range(300)])
    with Admin(cluster.bootstrap) as admin:
        admin.create_topic("lines", partitions=1, replication_factor=3)
    ports = free_ports(2)
    with (
        Worker(cluster, tmp_path, ports[0]) as first,
        Worker(cluster, tmp_path, ports[1]) as second,
    ):
        both = [first, second]
        wait_until("the workers", lambda: all(worker.call("/connectors") == [] for worker in both), *both)
        reading = {"connector.class": SOURCE, "file": str(source), "topic": "lines", "tasks.max": 1}
        writing = {"connector.class": SINK, "file": str(sink), "topics": "lines", "tasks.max": 2}
        wait_until("the source", lambda: first.call("/connectors/in/config", reading) is not None, *both)
        wait_until("the sink", lambda: second.call("/connectors/out/config", writing) is not None, *both)
        wait_until("tasks", lambda: first.runs("in", 1, both) and first.runs("out", 2, both), *both)
        wait_until("the first lines", lambda: set(lines_of(sink)) == set(expected), *both)
        place = first.call("/connectors/in/status")["tasks"][0]["worker_id"]
        killed, other = (first, second) if first.url.endswith(place) else (second, first)
        expected += append(source, [f"line-{number}" for number in range(300, 600)])
        killed.kill()
        expected += append(source, [f"line-{number}" for number in range(600, 900)])
        wait_until("the other worker", lambda: other.runs("in", 1, [other]) and other.runs("out", 2, [other]), other)
        cluster.kill(cluster.brokers[0])
        expected += append(source, [f"line-{number}" for number in range(900, 1_200)])
        wait_until("all lines", lambda: set(lines_of(sink)) == set(expected), other)
        cluster.start_node(cluster.brokers[0])
        cluster.wait_ready()
        assert values(cluster, "lines") == expected, "each line is in the topic once and in order"
        with Admin(cluster.bootstrap) as admin:
            assert {"workers", "connect-out"} <= {group.group_id for group in admin.list_groups()}
            assert {"connect-config", "connect-offset", "connect-status"} <= {
                topic.topic for topic in admin.list_topics()
            }
