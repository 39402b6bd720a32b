"""What a command says when no broker answers: in one sentence, soon, without a library's own text."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from raftlog.cli.local_cluster import LocalCluster
from raftlog.cli.main import cli


def run(bootstrap: str, *arguments: str) -> tuple[Result, float]:
    begun = time.monotonic()
    done = CliRunner(env={"RAFTLOG_BOOTSTRAP": bootstrap}).invoke(cli, arguments)
    return done, time.monotonic() - begun


@pytest.fixture(scope="module", autouse=True)
def modules() -> None:
    """Have the commands' modules loaded: how long that takes on a busy machine is not measured here."""
    run("http://127.0.0.1:1", "topics", "list")


@pytest.fixture
def free_address() -> Iterator[str]:
    """Return an address at which nothing listens; no other test gets its port meanwhile."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{reserved.getsockname()[1]}"


@pytest.mark.parametrize(
    "command",
    [
        ("topics", "list"),
        ("consume", "t"),
        ("produce", "t"),
        ("groups", "list"),
        ("cluster", "describe"),
        ("quorum", "describe"),
    ],
    ids=" ".join,
)
def test_without_a_cluster_every_command_says_so_within_two_seconds(command: tuple[str, ...], free_address: str):
    done, seconds = run(free_address, *command)
    assert done.exit_code == 1
    assert f"no broker listens at http://{free_address}" in done.stderr
    assert "raftlog dev up" in done.stderr
    assert "RAFTLOG_BOOTSTRAP" in done.stderr
    assert "aiohttp" not in done.stderr
    assert "Errno" not in done.stderr
    assert seconds < 2.5


@pytest.fixture
def web_server() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<html>It works!</html>")

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_another_web_server_is_called_one(web_server: str):
    done, seconds = run(web_server, "topics", "list")
    assert done.exit_code == 1
    assert f"http://{web_server} is not a broker's public listener" in done.stderr
    assert seconds < 2.5


def test_a_server_that_never_answers_is_not_waited_for():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        done, seconds = run(address, "topics", "list")
    assert f"the server at http://{address} does not answer within 1.5 s" in done.stderr
    assert seconds < 2.5


@pytest.mark.cluster
def test_a_controllers_and_a_quorum_port_are_called_what_they_are(shared_cluster: LocalCluster):
    node = shared_cluster.node(shared_cluster.controllers[0])
    done, _ = run(str(node.internal), "topics", "list")
    assert f"http://{node.internal} is a controller" in done.stderr
    done, seconds = run(str(node.quorum), "topics", "list")
    assert (
        f"at {node.quorum} does not speak HTTP" in done.stderr or f"http://{node.quorum} does not answer" in done.stderr
    )
    assert seconds < 2.5


@pytest.mark.cluster
def test_one_broker_that_answers_is_enough_and_the_scheme_may_be_left_out(
    shared_cluster: LocalCluster, free_address: str
):
    broker = shared_cluster.public_url(shared_cluster.brokers[0]).removeprefix("http://")
    done, _ = run(f"{free_address},{broker}", "cluster", "describe")
    assert done.exit_code == 0, done.output


def test_with_json_errors_are_json(free_address: str):
    done, _ = run(free_address, "topics", "list", "--json")
    assert done.exit_code == 1
    error = json.loads(done.stderr)["error"]
    assert error["code"] == "BROKER_NOT_AVAILABLE"
    assert "raftlog dev up" in error["message"]

    done, _ = run(free_address, "topics", "describe", "--json")
    assert done.exit_code == 2
    error = json.loads(done.stderr)["error"]
    assert error["code"] == "USAGE"
    assert "Missing argument" in error["message"]


def test_a_full_disk_behind_standard_output_is_one_line():
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "raftlog", "completion", "bash"], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert done.returncode == 1
    assert done.stderr.decode().strip() == "Error: cannot write: No space left on device; free some space and try again"
