"""`raftlog doctor` against real clusters, and against servers that mean no good."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
from click.testing import CliRunner, Result
from hostile_broker import Hostile, serving

from raftlog import Admin
from raftlog.cli.doctor import dialling
from raftlog.cli.local_cluster import LocalCluster
from raftlog.cli.main import cli

MACHINES_OWN = {"free space", "disk speed", "file system", "open files", "memory", "swap", "congestion control", "CPUs"}
"""Checks whose result depends on the machine that runs the tests."""


def doctor(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["doctor", *arguments])


def problems(done: Result) -> set[tuple[str, str]]:
    """Return the checks with a warning or an error, and where; of a result with --json."""
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return {
        (each["check"], each["where"])
        for each in json.loads(done.stdout)["findings"]
        if each["severity"] in ("warning", "error") and each["check"] not in MACHINES_OWN
    }


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, stall_file: Path) -> Iterator[LocalCluster]:
    assert stall_file.exists()
    with LocalCluster(tmp_path_factory.mktemp("doctor"), controllers=1, brokers=2, port=0) as cluster:
        asyncio.run(create_topic(cluster))
        yield cluster


async def create_topic(cluster: LocalCluster) -> None:
    async with Admin(cluster.bootstrap) as admin:
        await admin.create_topic("flights", partitions=2, replication_factor=2)


@contextmanager
def paused(cluster: LocalCluster, name: str) -> Iterator[None]:
    cluster.kill(name, signal.SIGSTOP)
    try:
        yield
    finally:
        cluster.kill(name, signal.SIGCONT)


@pytest.mark.cluster
def test_a_healthy_cluster_has_no_problem_apart_from_the_machines(cluster: LocalCluster):
    config = cluster.node("broker-1").config_path
    done = doctor("--bootstrap", cluster.bootstrap, "--config", str(config), "--json")
    document = json.loads(done.stdout)
    assert problems(done) == set()
    checks = {each["check"] for each in document["findings"]}
    assert checks >= {"brokers", "quorum", "partitions", "clock", "versions", "addresses", "replicas", "disk speed"}
    assert document["counts"]["ok"] >= 8
    assert done.exit_code == {"ok": 0, "note": 0, "warning": 1, "error": 2}[document["severity"]]

    alone = doctor("--bootstrap", cluster.bootstrap)
    assert "flights" not in alone.stdout
    assert "ok       quorum: the cluster: controller 101 leads" in alone.stdout
    assert alone.stdout.splitlines()[-1].startswith("0 errors, ")


@pytest.mark.cluster
def test_a_controllers_machine_dials_the_raft_listeners(cluster: LocalCluster, tmp_path: Path, free_ports: Any):
    config = cluster.node("controller-101").config_path
    healthy = doctor("--bootstrap", cluster.bootstrap, "--config", str(config), "--json")
    assert problems(healthy) == set()
    texts = [each["found"] for each in json.loads(healthy.stdout)["findings"] if each["check"] == "addresses"]
    assert texts == ["all 6 advertised addresses can be dialled from here"]

    (port,) = free_ports(1)
    wrong = tmp_path / "node.toml"
    wrong.write_text(config.read_text().replace(str(cluster.node("controller-101").quorum), f"127.0.0.1:{port}"))
    done = doctor("--bootstrap", cluster.bootstrap, "--config", str(wrong), "--json")
    assert ("addresses", "controller 101, quorum listener") in problems(done)


@pytest.mark.cluster
def test_a_hung_broker_is_found_before_the_deadline(cluster: LocalCluster):
    urls = ",".join(reversed(cluster.bootstrap.split(",")))
    with paused(cluster, "broker-2"):
        begun = time.monotonic()
        done = doctor("--bootstrap", urls, "--timeout", "6", "--json")
        assert time.monotonic() - begun < 20
    assert {("addresses", "broker 2, public listener"), ("bootstrap", cluster.public_url("broker-2"))} <= problems(done)
    assert done.exit_code == 2
    cluster.wait_ready()


@pytest.mark.cluster
def test_a_hung_controller_is_found_before_the_deadline(cluster: LocalCluster):
    with paused(cluster, "controller-101"):
        begun = time.monotonic()
        done = doctor("--bootstrap", cluster.bootstrap, "--timeout", "6", "--json")
        assert time.monotonic() - begun < 20
    assert ("quorum", "the cluster") in problems(done)
    assert done.exit_code == 2
    cluster.wait_ready()


@pytest.mark.cluster
def test_a_killed_broker_is_found(cluster: LocalCluster):
    cluster.kill("broker-2")
    deadline = time.monotonic() + 60
    while ("brokers", "broker 2") not in problems(done := doctor("--bootstrap", cluster.bootstrap, "--json")):
        assert time.monotonic() < deadline
    found = problems(done)
    assert ("addresses", "broker 2, public listener") in found
    assert ("partitions", "flights-0, flights-1") in found
    assert done.exit_code == 2
    cluster.start_node("broker-2")
    cluster.wait_ready()


@pytest.mark.cluster
def test_a_wrong_advertised_address_and_an_ended_certificate_are_found(tmp_path: Path, free_ports: Any):
    ca = trustme.CA()
    ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    (wrong,) = free_ports(1)
    tls = {"public": "required", "cert_file": str(tmp_path / "n.pem"), "key_file": str(tmp_path / "n.key")}
    extra = {"broker-1": {"advertised": {"public": f"127.0.0.1:{wrong}"}}, "broker-2": {"tls": tls}}
    write_ended_certificate(ca, tmp_path)
    with LocalCluster(tmp_path / "c", controllers=1, brokers=2, port=0, extra=extra) as cluster:
        plain, encrypted = cluster.public_url("broker-1"), cluster.public_url("broker-2")
        given = ["--ca-file", str(tmp_path / "ca.pem"), "--json"]
        done = doctor("--bootstrap", plain, "--config", str(cluster.node("broker-2").config_path), *given)
        alone = doctor("--bootstrap", encrypted, *given)
    found = problems(done)
    assert ("addresses", "broker 1, public listener") in found
    assert ("addresses", "broker 2, public listener") in found
    assert ("certificates", f"broker 2, {encrypted}") in found
    assert ("certificates", f"tls.cert_file ({tmp_path / 'n.pem'})") in found
    texts = {each["where"]: each["found"] for each in json.loads(done.stdout)["findings"]}
    assert texts["broker 1, public listener"] == f"http://127.0.0.1:{wrong}: cannot connect: Connection refused"
    assert "not valid now" in texts["broker 2, public listener"]
    assert problems(alone) == {("bootstrap", encrypted), ("certificates", encrypted)}


def write_ended_certificate(ca: trustme.CA, folder: Path) -> None:
    import datetime as dt  # noqa: PLC0415

    ended = dt.datetime.now(dt.UTC) - dt.timedelta(days=2)
    issued = ca.issue_cert("127.0.0.1", not_after=ended, not_before=ended - dt.timedelta(days=9))
    issued.cert_chain_pems[0].write_to_path(folder / "n.pem")
    issued.private_key_pem.write_to_path(folder / "n.key")


# Without a cluster.


def test_no_cluster_is_an_error_and_the_machine_is_still_checked(tmp_path: Path, free_ports: Any):
    (port,) = free_ports(1)
    done = doctor("--bootstrap", f"http://127.0.0.1:{port}", "--data", str(tmp_path), "--json")
    assert problems(done) == {("bootstrap", f"http://127.0.0.1:{port}")}
    assert "disk speed" in done.stdout
    assert done.exit_code == 2


def test_offline_connects_to_nothing(tmp_path: Path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        done = doctor("--offline", "--bootstrap", url, "--data", str(tmp_path), "--json")
        server.settimeout(0)
        with pytest.raises(BlockingIOError):
            server.accept()
    assert problems(done) == set()


def test_a_wrong_node_file_is_an_error(tmp_path: Path):
    (tmp_path / "node.toml").write_text("node_id = 1\nnonsense = 2\n")
    done = doctor("--offline", "--config", str(tmp_path / "node.toml"), "--json")
    assert ("settings", "this machine") in problems(done)
    assert done.exit_code == 2


def test_credentials_that_cannot_be_read_are_an_error(tmp_path: Path):
    done = doctor("--ca-file", str(tmp_path / "none.pem"), "--json")
    assert problems(done) == {("credentials", "this command")}


@pytest.mark.parametrize("endless", [False, True])
def test_a_hostile_broker_neither_hangs_nor_floods_nor_writes_to_the_terminal(
    endless: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(dialling, "MIDDLE_BYTES", 300_000)
    with serving(type("One", (Hostile,), {"endless": endless})) as url:
        begun = time.monotonic()
        done = doctor("--bootstrap", url, "--timeout", "8")
        assert time.monotonic() - begun < 40
    assert done.exit_code == 2, done.output
    assert len(done.stdout) < 500_000
    assert all(line.isprintable() for line in done.stdout.splitlines())
    assert ("more than 300000 bytes" in " ".join(done.stdout.split())) == endless
    assert "203 nodes beyond the limit were not looked at" in done.stdout


def test_a_server_that_never_answers_is_not_waited_for():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        begun = time.monotonic()
        done = doctor("--bootstrap", url, "--timeout", "2", "--json")
        assert time.monotonic() - begun < 15
    assert problems(done) == {("bootstrap", url)}


def test_a_name_server_that_is_silent_is_not_waited_for(monkeypatch: pytest.MonkeyPatch):
    release = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: release.wait(60))
    try:
        begun = time.monotonic()
        done = doctor("--bootstrap", "http://broker.example:9400", "--timeout", "2", "--json")
        assert time.monotonic() - begun < 15
    finally:
        release.set()
    assert problems(done) == {("bootstrap", "http://broker.example:9400")}


def test_a_closed_pipe_is_no_traceback(tmp_path: Path):
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "raftlog", "doctor", "--offline", "--data", str(tmp_path)]
    with os.fdopen(writing, "wb") as closed:
        done = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, check=False, timeout=60)
    assert b"Traceback" not in done.stderr
