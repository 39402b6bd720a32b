"""`raftlog dev` with a fake server: up, status, kill, restart and down, in one terminal or several."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from raftlog.cli import dev as dev_commands
from raftlog.cli.cluster_plan import free_base_port
from raftlog.cli.launcher import Launcher
from raftlog.cli.local_cluster import LocalCluster
from raftlog.cli.main import cli

FAKE = (sys.executable, str(Path(__file__).parent / "fake_server.py"))


def dev(data: Path, *arguments: str) -> Result:
    return CliRunner().invoke(cli, ["dev", *arguments, "--data", str(data)])


def use(monkeypatch: pytest.MonkeyPatch, **options: object) -> None:
    """Give the clusters of the commands other defaults."""
    defaults = {**(LocalCluster.__init__.__kwdefaults__ or {}), **options}
    monkeypatch.setattr(LocalCluster.__init__, "__kwdefaults__", defaults)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(Launcher.__init__, "__defaults__", (FAKE,))
    yield tmp_path / "data"
    if (tmp_path / "data" / "cluster.json").exists():
        LocalCluster.open(tmp_path / "data").stop(2.0)


def test_a_detached_cluster(data: Path):
    port = free_base_port()
    up = dev(data, "up", "--detach", "--controllers", "1", "--brokers", "2", "--port", str(port))
    assert up.exit_code == 0, up.output
    assert f"export RAFTLOG_BOOTSTRAP=http://127.0.0.1:{port}" in up.stdout
    assert "echo hello | raftlog produce greetings" in up.stdout
    assert [line.split()[:2] for line in up.stdout.splitlines()[1:4]] == [
        ["controller-101", "ready"], ["broker-1", "ready"], ["broker-2", "ready"],
    ]  # fmt: skip

    assert "running already" in dev(data, "up").output
    assert dev(data, "kill", "broker-1").stdout == "broker-1: ended by SIGKILL\n"
    states = {node["name"]: node["state"] for node in json.loads(dev(data, "status", "--json").stdout)}
    assert states == {"controller-101": "ready", "broker-1": "stopped", "broker-2": "ready"}
    assert dev(data, "restart", "broker-1").stdout == "broker-1: ready\n"
    assert dev(data, "kill", "broker-2", "--signal", "STOP").stdout == "broker-2: SIGSTOP sent\n"
    assert "paused" in dev(data, "status").stdout
    assert dev(data, "down").stdout == "ended 3 nodes\n"
    assert dev(data, "down").stdout == "nothing was running\n"


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM])
def test_a_cluster_in_the_foreground_ends_when_asked(tmp_path: Path, sig: signal.Signals):
    program = f"""
import sys
from raftlog.cli.launcher import Launcher
from raftlog.cli.main import cli
Launcher.__init__.__defaults__ = ({FAKE!r},)
cli(["dev", "up", "--controllers", "1", "--brokers", "1", "--port", "{free_base_port()}", "--data", sys.argv[1]])
"""
    command = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "Ctrl-C stops the cluster" in line:
                break
        cluster = LocalCluster.open(tmp_path)
        assert len(cluster.running()) == 2
        cluster.kill("broker-1")
        process.send_signal(sig)
        assert process.wait(20) == 0
        assert process.stderr is not None
        assert "Stopping the cluster." in process.stderr.read()
    assert cluster.running() == []


def test_a_signal_that_is_ignored_stays_ignored():
    """With `nohup`, the cluster is to outlive its terminal."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with dev_commands._interruptible():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            assert signal.getsignal(signal.SIGTERM) is signal.default_int_handler
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("detached", [True, False])
def test_a_closed_pipe_ends_no_node(tmp_path: Path, detached: bool):
    """As in `raftlog dev up --detach | head -1`."""
    data = tmp_path / "data"
    program = f"""
import sys
from raftlog.cli.launcher import Launcher
from raftlog.cli.main import cli
Launcher.__init__.__defaults__ = ({FAKE!r},)
cli(["dev", "up", "--data", {str(data)!r}, "--controllers", "1", "--brokers", "1", "--port", {str(free_base_port())!r}]
    + ["--detach"] * {detached})
"""
    up = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=Path(__file__).parents[2]
    )
    assert up.stdout is not None
    up.stdout.close()  # Before anything is printed: each line meets a closed pipe.
    try:
        if detached:
            assert up.wait(60) == 0
            assert LocalCluster.open(data).running() == ["controller-101", "broker-1"]
        else:
            deadline = time.monotonic() + 60
            while not (data / "cluster.json").exists() or len(LocalCluster.open(data).running()) < 2:
                assert up.poll() is None, up.communicate()
                assert time.monotonic() < deadline
                time.sleep(0.05)
            LocalCluster.open(data).wait_ready(60)
            with pytest.raises(subprocess.TimeoutExpired):
                up.wait(2)  # It has greeted, and goes on.
            assert LocalCluster.open(data).running() == ["controller-101", "broker-1"]
            up.send_signal(signal.SIGTERM)
            assert up.wait(30) == 0
            assert LocalCluster.open(data).running() == []
    finally:
        up.kill()
        up.communicate()
        if (data / "cluster.json").exists():
            LocalCluster.open(data).stop(2.0)


def test_a_taken_port_says_how_to_choose_another(data: Path):
    port = free_base_port()
    with socket.create_server(("127.0.0.1", port)):
        result = dev(data, "up", "--port", str(port))
    assert result.exit_code == 1
    assert f"port {port} on 127.0.0.1, which broker-1 needs" in result.stderr
    assert "raftlog dev up --port 9500" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["status"], 1, "holds no cluster; start one with: raftlog dev up --data"),
        (["down"], 1, "holds no cluster"),
        (["up", "--controllers", "2"], 1, "controllers: expected an odd number from 1 to 9, received 2"),
        (["up", "--brokers", "x"], 2, "'x' is not a valid integer"),
        (["kill"], 2, "Missing argument 'NODE'"),
        (["kill", "broker-1", "--signal", "HUP"], 2, "'HUP' is not one of 'KILL', 'TERM', 'STOP', 'CONT'"),
        (["nonsense"], 2, "No such command 'nonsense'"),
    ],
)
def test_mistakes(data: Path, arguments: list[str], code: int, message: str):
    result = dev(data, *arguments)
    assert (result.exit_code, message in result.stderr) == (code, True), result.stderr


def test_an_unknown_node_is_named(data: Path):
    up = dev(data, "up", "--detach", "--controllers", "1", "--brokers", "1", "--port", str(free_base_port()))
    assert up.exit_code == 0
    result = dev(data, "kill", "broker-9")
    assert result.exit_code == 1
    assert "no node is named 'broker-9'; the nodes are controller-101, broker-1" in result.stderr


def test_a_cluster_that_fails_to_start_shows_why(data: Path, monkeypatch: pytest.MonkeyPatch):
    use(monkeypatch, extra={"broker-1": {"rack": "fails"}})
    result = dev(data, "up", "--controllers", "1", "--brokers", "1", "--port", str(free_base_port()))
    assert result.exit_code == 1
    assert "broker-1 ended with exit code 3" in result.stderr
    assert "the disk is on fire" in result.stderr
    assert LocalCluster.open(data).running() == []
