"""The command line against a real cluster, in processes of its own, as a user would."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from raftlog.cli.local_cluster import LocalCluster

pytestmark = [pytest.mark.cluster, pytest.mark.slow]
RAFTLOG = [sys.executable, "-m", "raftlog"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("cluster"), port=0) as running:
        yield running


@pytest.fixture
def environment(cluster: LocalCluster) -> dict[str, str]:
    return {**os.environ, "RAFTLOG_BOOTSTRAP": cluster.bootstrap}


@pytest.fixture
def raftlog(environment: dict[str, str]):
    """Return a function that runs the command with some input and returns what it did."""

    def run(*arguments: str, stdin: str = "", code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*RAFTLOG, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            env=environment,
            check=False,
        )
        assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    return run


def test_hello(raftlog):
    raftlog("topics", "create", "hello")
    produced = raftlog("produce", "hello", stdin="hello\n")
    assert (produced.stdout, produced.stderr) == ("", "1 record acknowledged\n")
    consumed = raftlog("consume", "hello", "--from-beginning", "--max-records", "1")
    assert (consumed.stdout, consumed.stderr) == ("hello\n", "")


def test_topics(raftlog):
    created = json.loads(
        raftlog("topics", "create", "a", "--partitions", "2", "--config", "retention_ms=1000", "--json").stdout
    )
    assert (created["topic"], len(created["partitions"]), created["configs"]) == (
        "a",
        2,
        {"min_insync_replicas": 2, "flush": "batch", "retention_ms": 1000},
    )
    assert "TOPIC_ALREADY_EXISTS" in raftlog("topics", "create", "a", code=1).stderr
    raftlog("topics", "create", "a", "--if-not-exists")
    assert "a" in [topic["topic"] for topic in json.loads(raftlog("topics", "list", "--json").stdout)]
    assert raftlog("topics", "list").stdout.split()[:4] == ["topic", "partitions", "replicas", "health"]
    described = raftlog("topics", "describe", "a").stdout
    assert "retention_ms=1000" in described
    assert len(described.splitlines()) == 4
    assert json.loads(raftlog("topics", "describe", "a", "--json").stdout)["topic_id"] == created["topic_id"]
    assert "no_such" in raftlog("topics", "create", "b", "--config", "no_such=1", code=1).stderr
    raftlog("topics", "delete", "a")
    assert "UNKNOWN_TOPIC_OR_PARTITION" in raftlog("topics", "describe", "a", code=1).stderr


def test_the_cluster_is_described(raftlog, cluster: LocalCluster):
    document = json.loads(raftlog("cluster", "describe", "--json").stdout)
    assert document["cluster_id"] == cluster.cluster_id
    assert [broker["url"] for broker in document["brokers"]] == cluster.bootstrap.split(",")
    assert cluster.cluster_id in raftlog("cluster", "describe").stdout


def test_json_goes_in_and_comes_out(raftlog):
    raftlog("topics", "create", "json", "--partitions", "3")
    lines = [
        {"key": f"k{i}", "value": f"v{i}", "headers": [{"key": "n", "value": str(i)}], "partition": i} for i in range(3)
    ]
    raftlog("produce", "json", "--format", "json", stdin="\n".join(map(json.dumps, lines)))
    text = raftlog("consume", "json", "--from-beginning", "--max-records", "3", "--format", "json").stdout
    read = sorted(map(json.loads, text.splitlines()), key=lambda record: record["partition"])
    assert [{name: record[name] for name in lines[0]} for record in read] == lines
    assert {record["offset"] for record in read} == {0}
    raftlog("produce", "json", "--format", "json", stdin=text)
    again = raftlog("consume", "json", "--partition", "1", "--offset", "1", "--timeout", "1", "--format", "json").stdout
    assert [json.loads(line)["value"] for line in again.splitlines()] == ["v1"]


def test_many_lines_and_a_start_in_time(raftlog):
    raftlog("topics", "create", "many")
    lines = [f"line {i}" for i in range(20_000)]
    assert raftlog("produce", "many", stdin="\n".join(lines)).stderr == "20,000 records acknowledged\n"
    assert raftlog("consume", "many", "--from-beginning", "--max-records", "20000").stdout.splitlines() == lines
    assert len(raftlog("consume", "many", "--since", "1h", "--max-records", "20000").stdout.splitlines()) == 20_000
    assert raftlog("consume", "many", "--since", "2999-01-01", "--timeout", "0.5").stdout == ""
    assert "OFFSET_OUT_OF_RANGE" in raftlog("consume", "many", "--offset", "99999", "--timeout", "5", code=1).stderr


def test_a_topic_that_is_not_there(raftlog):
    for arguments in (["produce", "nope"], ["consume", "nope"]):
        done = raftlog(*arguments, stdin="hello\n", code=1)
        assert "topic 'nope' does not exist; create it with: raftlog topics create nope" in done.stderr


def test_an_interrupted_produce_reports_what_is_safe(raftlog, environment: dict[str, str]):
    raftlog("topics", "create", "interrupted")
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE, "stdout": subprocess.PIPE}
    follow = ["consume", "interrupted", "--max-records", "2", "--from-beginning"]
    with (
        subprocess.Popen([*RAFTLOG, *follow], text=True, env=environment, **pipes) as consumer,
        subprocess.Popen([*RAFTLOG, "produce", "interrupted"], text=True, env=environment, **pipes) as producer,
    ):
        assert producer.stdin is not None
        assert consumer.stdout is not None
        producer.stdin.write("one\ntwo\n")
        producer.stdin.flush()
        assert consumer.stdout.read() == "one\ntwo\n"
        producer.send_signal(signal.SIGINT)
        assert producer.wait(20) == 1
        assert producer.stderr is not None
        assert producer.stderr.read().splitlines() == [
            "2 records acknowledged",
            "interrupted: the rest of the input was not sent",
        ]


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_consume_has_ended_well(raftlog, environment: dict[str, str], sig: signal.Signals):
    topic = f"follow-{sig.name}"
    raftlog("topics", "create", topic)
    raftlog("produce", topic, stdin="one\n")
    command = [*RAFTLOG, "consume", topic, "--from-beginning"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "one\n"
        process.send_signal(sig)
        assert process.wait(20) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_a_closed_pipe_is_a_quiet_end(raftlog, environment: dict[str, str]):
    raftlog("topics", "create", "piped")
    raftlog("produce", "piped", stdin="\n".join(["x" * 1000] * 1000))
    command = [*RAFTLOG, "consume", "piped", "--from-beginning"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(20) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_a_killed_node_comes_back(raftlog, cluster: LocalCluster):
    raftlog("topics", "create", "killed", "--partitions", "3")
    raftlog("produce", "killed", stdin="before\n")
    for name in ("broker-1", "controller-101"):
        cluster.kill(name)
        assert raftlog("produce", "killed", stdin=f"{name} is down\n").stderr == "1 record acknowledged\n"
        cluster.restart(name)
        cluster.wait_ready(60, names=[name])
    read = raftlog("consume", "killed", "--from-beginning", "--max-records", "3").stdout
    assert sorted(read.splitlines()) == ["before", "broker-1 is down", "controller-101 is down"]


def test_a_foreign_data_folder_is_refused(cluster: LocalCluster, tmp_path: Path):
    config = cluster.node("broker-2").config_path.read_text().replace(cluster.cluster_id, "another")
    cluster.kill("broker-2", signal.SIGTERM)
    try:
        foreign = cluster.node("broker-2").folder / "foreign.toml"
        foreign.write_text(config)
        done = subprocess.run(
            [*RAFTLOG, "server", "start", "--config", str(foreign)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 1
        assert f"of cluster {cluster.cluster_id}" in done.stderr
        assert "Traceback" not in done.stderr
    finally:
        cluster.restart("broker-2")
        cluster.wait_ready(60, names=["broker-2"])


@pytest.mark.parametrize(
    ("name", "data_dir", "message"),
    [
        ("broker-1", "data", "is in use by another process"),
        ("broker-1", "other", r"127\.0\.0\.1:\d+.* in use"),
        ("controller-101", "other", r"127\.0\.0\.1:\d+.* in use"),
    ],
)
def test_what_another_node_has_is_refused(cluster: LocalCluster, name: str, data_dir: str, message: str):
    node = cluster.node(name)
    config = node.folder / "again.toml"
    config.write_text(node.config_path.read_text().replace('data_dir = "data"', f'data_dir = "{data_dir}"'))
    command = [*RAFTLOG, "server", "start", "--config", str(config)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert re.search(message, done.stderr), done.stderr
    assert "Traceback" not in done.stderr
