"""LocalCluster against a fake server: processes are started, found again, killed, paused and ended, and never leak."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from raftlog.cli import cluster_plan
from raftlog.cli.cluster_plan import PORTS_USED, PortInUseError, free_base_port
from raftlog.cli.cluster_state import ClusterState
from raftlog.cli.launcher import Launcher
from raftlog.cli.local_cluster import ClusterError, LocalCluster, NodeExitedError
from raftlog.cli.processes import ProcessIdentity
from raftlog.config import NodeConfig
from raftlog.errors import ConfigError
from raftlog.model import Address

FAKE = (sys.executable, str(Path(__file__).parent / "fake_server.py"))
Build = Callable[..., LocalCluster]


@pytest.fixture
def build(tmp_path: Path) -> Iterator[Build]:
    built = []

    def make(**options: Any) -> LocalCluster:
        options = {"controllers": 1, "brokers": 2, "port": 0, "launcher": Launcher(FAKE), **options}
        cluster = LocalCluster(options.pop("data", tmp_path / "data"), **options)
        built.append(cluster)
        return cluster

    yield make
    for cluster in built:
        cluster.stop(2.0)


def states(cluster: LocalCluster) -> dict[str, str]:
    return {node.name: node.state for node in cluster.status()}


def test_a_whole_life(build: Build):
    cluster = build()
    with cluster:
        assert cluster.names == ["controller-101", "broker-1", "broker-2"]
        assert states(cluster) == dict.fromkeys(cluster.names, "ready")
        first = cluster.pid("broker-1")

        cluster.kill("broker-1")
        assert states(cluster)["broker-1"] == "stopped"
        cluster.restart("broker-1")
        cluster.wait_ready(10, names=["broker-1"])
        assert cluster.pid("broker-1") not in {None, first}

        cluster.pause("broker-2")
        assert states(cluster)["broker-2"] == "paused"
        cluster.resume("broker-2")
        cluster.wait_ready(10)
        pids = [cluster.process(name) for name in cluster.names]
    assert cluster.running() == []
    assert not any(process.alive for process in pids if process)
    assert "listening on" in cluster.log_tail("broker-1")


def test_ports_and_files_follow_the_plan(build: Build):
    cluster = build(controllers=3, brokers=3, extra={
        "broker-1": {"dial": {"127.0.0.1:1": "127.0.0.1:2"}},
        "*": {"broker": {"num_partitions": 4}}, "broker-2": {"rack": "b", "broker": {"fetch_max_bytes": 5_000_000}},
    }, hosts={"broker-3": "127.0.0.9"})  # fmt: skip
    with cluster:
        base = cluster.node("broker-1").listeners["public"].port
        loaded = {name: NodeConfig.load(cluster.node(name).config_path) for name in cluster.names}
        mode = (cluster.data / "quorum.key").stat().st_mode
    assert loaded["broker-2"].listeners.public == Address("127.0.0.1", base + 1)
    assert loaded["broker-2"].internal == Address("127.0.0.1", base + 11)
    assert loaded["broker-3"].internal == Address("127.0.0.9", base + 12)
    assert loaded["controller-103"].internal == Address("127.0.0.1", base + 22)
    voter = loaded["broker-1"].quorum.voters[2]
    assert (voter.node_id, voter.quorum) == (103, Address("127.0.0.1", base + 32))
    assert loaded["broker-1"].dial == {"127.0.0.1:1": "127.0.0.1:2"}
    assert (loaded["broker-2"].rack, loaded["broker-2"].broker.fetch_max_bytes) == ("b", 5_000_000)
    assert {config.broker.num_partitions for config in loaded.values()} == {4}
    assert {config.cluster_id for config in loaded.values()} == {cluster.cluster_id}
    assert stat.S_IMODE(mode) == 0o600
    assert len((cluster.data / "quorum.key").read_bytes()) >= 32
    assert loaded["controller-101"].quorum.key_file.endswith("quorum.key")
    assert Path(loaded["controller-101"].quorum.key_file).exists()


def test_a_folder_is_used_again(build: Build):
    with build() as cluster:
        key = (cluster.data / "quorum.key").read_bytes()
    again = build(controllers=None, brokers=None, port=None)
    assert (again.cluster_id, again.bootstrap) == (cluster.cluster_id, cluster.bootstrap)
    with again:
        assert (cluster.data / "quorum.key").read_bytes() == key
    grown = build(controllers=None, brokers=3, port=None)
    assert len(grown.brokers) == 3
    with pytest.raises(ConfigError, match="holds a cluster of 1 controllers, which cannot change here; received 3"):
        build(controllers=3, port=None)
    with pytest.raises(ConfigError, match="2 brokers, which may keep records; received 1"):
        build(brokers=1, port=None)


def test_another_process_finds_and_drives_the_nodes(build: Build):
    with build() as cluster:
        seen = LocalCluster.open(cluster.data, launcher=Launcher(FAKE, detach=True))
        assert states(seen) == dict.fromkeys(cluster.names, "ready")
        with pytest.raises(ClusterError, match="running already"):
            seen.start()
        seen.kill("broker-1")
        seen.restart("broker-2")
        seen.wait_ready(10, names=["broker-2"])
        assert cluster.pid("broker-1") is None
        assert cluster.pid("broker-2") == seen.pid("broker-2")
    assert seen.stop() == []


def test_a_taken_port_is_named_and_nothing_starts(build: Build):
    cluster = build()
    taken = cluster.node("broker-2").listeners["internal"]
    message = f"port {taken.port} .*broker-2 needs for its internal .*--port"
    with socket.create_server((taken.host, taken.port)), pytest.raises(PortInUseError, match=message):
        cluster.start()
    assert cluster.running() == []
    assert not cluster.data.exists()


def test_a_node_that_ends_early_shows_its_log(build: Build):
    cluster = build(extra={"broker-1": {"rack": "fails"}})
    with pytest.raises(NodeExitedError, match=r"(?s)broker-1 ended with exit code 3.*the disk is on fire"), cluster:
        pass
    assert cluster.running() == []


def test_a_node_that_is_never_ready_is_named(build: Build):
    cluster = build(extra={"broker-2": {"rack": "never-ready"}})
    cluster.start()
    cluster.wait_ready(10, names=["controller-101", "broker-1"])
    with pytest.raises(ClusterError, match=r"(?s)not ready within 0\.3 s: broker-2; .*still thinking"):
        cluster.wait_ready(0.3)
    assert states(cluster)["broker-2"] == "not ready"


def test_a_node_deaf_to_sigterm_is_killed(build: Build):
    cluster = build(extra={"broker-1": {"rack": "deaf"}})
    cluster.start()
    cluster.wait_ready(10)
    assert cluster.stop(0.5) == ["broker-1"]
    assert cluster.running() == []


def no_space(state: ClusterState, data: Path) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_keeps_no_node_running(build: Build, monkeypatch: pytest.MonkeyPatch):
    """The error of the first broker left the controllers running, at each attempt."""
    cluster = build()
    cluster.start()
    processes = [cluster.process(name) for name in cluster.names]
    with monkeypatch.context() as patch:
        patch.setattr(ClusterState, "save", no_space)
        with pytest.raises(OSError, match="No space left"):
            cluster.stop(10)
    assert [process.alive for process in processes if process] == [False] * 3
    assert cluster.stop() == []


def test_a_node_that_cannot_be_recorded_is_ended(build: Build, monkeypatch: pytest.MonkeyPatch):
    """No later command would have known of it."""
    cluster = build()
    cluster.start()
    cluster.kill("broker-1")
    launch, launched = Launcher.launch, []
    monkeypatch.setattr(Launcher, "launch", lambda *given: launched.append(launch(*given)) or launched[-1])
    with monkeypatch.context() as patch:
        patch.setattr(ClusterState, "save", no_space)
        with pytest.raises(OSError, match="No space left"):
            cluster.start_node("broker-1")
    assert [process.alive for process in launched] == [False]


def test_a_paused_node_ends_too(build: Build):
    cluster = build()
    cluster.start()
    cluster.wait_ready(10)
    cluster.pause("broker-1")
    assert cluster.stop(5) == []


def test_a_node_killed_from_outside_has_died(build: Build):
    with build() as cluster:
        process = cluster.process("broker-1")
        assert process is not None
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait_gone(5)
        assert states(cluster)["broker-1"] == "died"
        with pytest.raises(NodeExitedError, match="broker-1 was ended by SIGKILL"):
            cluster.wait_ready(5)
        with pytest.raises(ClusterError, match="broker-1 is not running: cannot send SIGKILL"):
            cluster.kill("broker-1")
        cluster.restart("broker-1")
        cluster.wait_ready(10)


def test_starting_a_running_node_is_refused(build: Build):
    with build() as cluster, pytest.raises(ClusterError, match="broker-1 is running already"):
        cluster.start_node("broker-1")


def test_configure_holds_from_the_next_start(build: Build):
    with build() as cluster:
        cluster.configure("broker-1", dial={"127.0.0.1:1": "127.0.0.1:2"}, rack="z")
        with pytest.raises(ConfigError, match="broker-1: nonsense: unknown name"):
            cluster.configure("broker-1", nonsense={"a": 1})
        cluster.restart("broker-1")
        cluster.wait_ready(10)
        config = NodeConfig.load(cluster.node("broker-1").config_path)
    assert (config.rack, dict(config.dial)) == ("z", {"127.0.0.1:1": "127.0.0.1:2"})
    stored = ClusterState.load(cluster.data)
    assert stored is not None
    assert stored.settings["broker-1"]["rack"] == "z"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"controllers": 2}, "controllers: expected an odd number from 1 to 9, received 2"),
        ({"brokers": 0}, "brokers: expected 1 to 10, received 0"),
        ({"port": 65530}, "port: expected 1 to 65496 .*received 65530"),
        ({"hosts": {"broker-7": "127.0.0.1"}}, "no node is named 'broker-7'; the nodes are controller-101, broker-1"),
        ({"extra": {"broker-7": {}}}, "no node is named 'broker-7'"),
    ],
)
def test_bad_options_are_refused(build: Build, options: dict[str, Any], message: str):
    with pytest.raises(ConfigError, match=message):
        build(**options)


def test_an_unknown_setting_is_refused_before_anything_starts(build: Build):
    cluster = build(extra={"*": {"broker": {"no_such": 1}}})
    with pytest.raises(ConfigError, match=r"controller-101: broker\.no_such: unknown name"):
        cluster.start()
    assert not cluster.data.exists()


def test_there_is_no_cluster_to_open(tmp_path: Path):
    with pytest.raises(ConfigError, match="holds no cluster; start one with: raftlog dev up --data"):
        LocalCluster.open(tmp_path)


@pytest.mark.parametrize("text", ["{", json.dumps({"version": 9}), json.dumps({"version": 1}), "[]"])
def test_a_damaged_state_file_is_refused(tmp_path: Path, text: str):
    (tmp_path / "cluster.json").write_text(text)
    with pytest.raises(ConfigError, match=r"cluster\.json"):
        LocalCluster.open(tmp_path)


_PARENT = """
import sys
from pathlib import Path
from raftlog.cli.launcher import Launcher
from raftlog.cli.local_cluster import LocalCluster
launcher = Launcher(sys.argv[3:], detach=sys.argv[2] == "detach")
cluster = LocalCluster(Path(sys.argv[1]), controllers=1, brokers=1, port=0, launcher=launcher)
cluster.start()
cluster.wait_ready(10)
print("up", flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(("mode", "alive"), [("attach", False), ("detach", True)])
def test_nodes_die_with_their_parent_unless_detached(tmp_path: Path, mode: str, alive: bool):
    command = [sys.executable, "-c", _PARENT, str(tmp_path), mode, *FAKE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "up\n"
        parent.kill()
    cluster = LocalCluster.open(tmp_path)
    processes = [cluster.process(name) for name in cluster.names]
    try:
        gone = [process.wait_gone(0.3 if alive else 10) for process in processes if process is not None]
        assert gone == [not alive] * 2
    finally:
        cluster.stop(5)
    assert cluster.running() == []


def test_a_reused_pid_is_not_ours(tmp_path: Path):
    ours = ProcessIdentity.of(os.getpid())
    assert ours is not None
    stranger = ProcessIdentity(pid=ours.pid, start_ticks=ours.start_ticks - 1)
    assert stranger.state == "gone"
    assert stranger.send(signal.SIGKILL) is False
    assert stranger.wait_gone(5) is True


def test_a_process_is_not_gone_before_its_last_thread_is():
    """One that is killed while a thread waits for its disk looks like a zombie, and still holds its ports and files."""
    first_thread_ends = (
        "import ctypes, platform, threading, time\n"
        "threading.Thread(target=time.sleep, args=(60,)).start()\n"
        "ctypes.CDLL(None).syscall({'x86_64': 60, 'aarch64': 93}[platform.machine()], 0)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", first_thread_ends])
    try:
        process = ProcessIdentity.of(child.pid)
        assert process is not None
        zombie = Path(f"/proc/{child.pid}/stat")
        deadline = time.monotonic() + 10
        while ") Z " not in zombie.read_text():
            assert time.monotonic() < deadline
            time.sleep(0.01)

        assert process.state == "running"
        assert process.wait_gone(0.1) is False
        assert process.send(signal.SIGKILL) is True
        assert process.wait_gone(10) is True
        assert process.state == "gone"
    finally:
        child.kill()
        child.wait()


def test_no_cluster_gets_a_port_that_browsers_refuse(monkeypatch: pytest.MonkeyPatch):
    """The console was on port 10080 in one of 550 clusters: ERR_UNSAFE_PORT."""
    tried = list[int]()

    def in_use(address: Address) -> str:
        tried.append(address.port)
        return "in use"

    monkeypatch.setattr(cluster_plan, "_cannot_bind", in_use)
    with pytest.raises(PortInUseError):
        free_base_port()
    assert not {10_080} & {port + place for port in tried for place in range(PORTS_USED)}
    assert len(tried) == 549
