"""Nodes that crash, do not exit, or have internal errors fail a scenario, though the cluster heals."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from chaos import shutdown
from chaos.cluster import ChaosCluster
from chaos.history import History
from chaos.node_logs import internal_errors
from chaos.quorum_nemesis import Nemesis, Schedule
from chaos.site import BrokenPromiseError, Site
from raftlog.cli.launcher import Launcher, collect_all
from raftlog.cli.local_cluster import ClusterError
from raftlog.cli.processes import ProcessIdentity

EVENT = "2026-01-02T03:04:05.678 INFO raftlog.broker: ready\n"
FAILED = "2026-01-02T03:04:06.000 ERROR raftlog.runtime: task t failed\n"


def log_of(tmp_path: Path, *lines: str) -> dict[str, Path]:
    file = tmp_path / "log.txt"
    file.write_text("".join(lines))
    return {"broker-1": file, "broker-2": tmp_path / "nowhere"}


def traceback(error: str) -> str:
    return f"  | Traceback (most recent call last):\n  |   File x, line 1\n  | {error}\n"


def test_a_log_without_internal_errors_is_clean(tmp_path: Path):
    assert internal_errors(log_of(tmp_path, EVENT, EVENT)) == []


def test_a_traceback_is_shown_with_the_nodes_name_and_its_event(tmp_path: Path):
    (found,) = internal_errors(log_of(tmp_path, EVENT, FAILED, traceback("KeyError: 1"), EVENT, FAILED))

    assert found.splitlines()[:2] == ["broker-1 had an internal error:", FAILED.strip()]
    assert "KeyError: 1" in found
    assert EVENT.strip() not in found


@pytest.mark.parametrize("error", ["raftlog.errors.StorageError: no", "OSError: [Errno 5] Input/output error"])
def test_errors_of_storage_are_expected_of_failing_disks_alone(error: str, tmp_path: Path):
    logs = log_of(tmp_path, EVENT, FAILED, traceback(error))

    assert internal_errors(logs, disk_faults=True) == []
    assert len(internal_errors(logs)) == 1


def test_another_error_after_one_of_storage_is_found(tmp_path: Path):
    logs = log_of(tmp_path, FAILED, traceback("OSError: no"), FAILED, traceback("KeyError: 1"))

    (found,) = internal_errors(logs, disk_faults=True)
    assert "KeyError" in found


def test_a_task_whose_error_nobody_retrieved_is_found(tmp_path: Path):
    logs = log_of(tmp_path, "2026-01-02T03:04:06.000 ERROR asyncio: Task exception was never retrieved\n")
    assert len(internal_errors(logs, disk_faults=True)) == 1


def test_a_traceback_in_json_is_found(tmp_path: Path):
    line = '{"time": "2026-01-02T03:04:06Z", "traceback": "Traceback (most recent call last):\\nKeyError: 1"}\n'
    assert len(internal_errors(log_of(tmp_path, line))) == 1


PRELUDE = "import signal, sys, time"
OBEDIENT = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); ready(); time.sleep(60)"
FAILING = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(3)); ready(); time.sleep(60)"
STUBBORN = "signal.signal(signal.SIGTERM, signal.SIG_IGN); ready(); time.sleep(60)"


class Nodes:
    """Processes of two nodes, which never were a cluster."""

    def __init__(self, folder: Path) -> None:
        self.brokers, self.controllers = ["broker-1"], ["controller-101"]
        self.names = [*self.controllers, *self.brokers]
        self._folder = folder
        self.processes = dict[str, ProcessIdentity]()

    def run(self, name: str, code: str) -> None:
        """Run code as a node, and wait until it calls `ready`."""
        fifo = self._folder / f"{name}.fifo"
        os.mkfifo(fifo)
        plan: Any = SimpleNamespace(config_path="", log_path=self._folder / f"{name}.txt")
        command = [sys.executable, "-c", f"{PRELUDE}\nready = lambda: open({str(fifo)!r}, 'w').close()\n{code}"]
        self.processes[name] = Launcher(command).launch(plan)
        fifo.read_text()

    def process(self, name: str) -> ProcessIdentity | None:
        return self.processes.get(name)

    def pid(self, name: str) -> int | None:
        process = self.processes.get(name)
        return process.pid if process is not None and process.alive else None

    def log_tail(self, name: str) -> str:
        return f"the end of {name}"

    def stop(self) -> list[str]:
        for process in self.processes.values():
            process.send(signal.SIGKILL)
            process.wait_gone(10)
        collect_all()
        return []


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    running = Nodes(tmp_path)
    yield running
    running.stop()


def a_cluster(nodes: Any) -> ChaosCluster:
    cluster = ChaosCluster.__new__(ChaosCluster)
    cluster.nodes, cluster.down, cluster.disk_faults = nodes, set(), False
    quiet: Any = SimpleNamespace(refuse=lambda *_: None, heal=lambda: None)
    cluster.links, cluster.shim, cluster.disks = quiet, None, None
    return cluster


def a_site(cluster: ChaosCluster) -> Site:
    nothing: Any = SimpleNamespace(history=History())
    return Site(cluster, nothing, nothing, "chaos")


@pytest.mark.parametrize(
    ("code", "wrong"),
    [
        (OBEDIENT, []),
        (FAILING, ["broker-1 ended with exit code 3 after SIGTERM"]),
        (STUBBORN, ["broker-1 has not exited within 0.5 s of SIGTERM"]),
    ],
)
def test_a_shutdown_ends_in_time_and_with_0(code: str, wrong: list[str], nodes: Any):
    nodes.run("controller-101", OBEDIENT)
    nodes.run("broker-1", code)

    assert shutdown.stop_all(nodes, within_s=0.5 if code is STUBBORN else 10) == wrong
    assert nodes.pid("broker-1") is None


async def test_a_node_that_got_sigterm_must_exit_unless_its_fault_excuses_it(nodes: Any):
    nodes.kill = lambda *_: pytest.fail("a node that ends in time is signalled once")
    nodes.run("broker-1", FAILING)
    nodes.run("controller-101", FAILING)
    cluster = a_cluster(nodes)

    await cluster.kill("controller-101", sig=signal.SIGTERM, excused={"controller-101"})
    with pytest.raises(ClusterError, match="broker-1 ended with exit code 3 after SIGTERM"):
        await cluster.kill("broker-1", sig=signal.SIGTERM)


async def test_healing_restarts_a_node_that_crashed_and_tells(nodes: Any, monkeypatch: pytest.MonkeyPatch):
    cluster, started = a_cluster(nodes), list[str]()
    cluster.down.add("controller-101")

    async def start(name: str) -> None:
        started.append(name)

    monkeypatch.setattr(cluster, "start", start)
    with pytest.raises(BrokenPromiseError, match="broker-1 exited by itself; its log ends with:\nthe end of broker-1"):
        await a_site(cluster).heal()
    assert started == ["controller-101", "broker-1"]

    cluster.down.add("broker-1")
    await a_site(cluster).heal()


async def test_a_fault_may_end_a_node(nodes: Any, monkeypatch: pytest.MonkeyPatch):
    cluster = a_cluster(nodes)

    async def start(_: str) -> None:
        pass

    monkeypatch.setattr(cluster, "start", start)
    site = a_site(cluster)
    site.may_end.update(nodes.names)
    await site.heal()


async def test_the_quorums_nemesis_does_not_restart_what_crashed(nodes: Any, monkeypatch: pytest.MonkeyPatch):
    cluster, started = a_cluster(nodes), list[str]()

    async def start(*names: str) -> None:
        started.extend(names)

    async def active() -> None:
        return None

    monkeypatch.setattr(cluster, "start", start)
    nemesis = Nemesis(cluster, Schedule(1, targets=["broker-1"]), active=active, note=lambda _: None)
    cluster.down.add("controller-101")
    with pytest.raises(ClusterError, match="broker-1 exited by itself"):
        await nemesis.heal()
    cluster.down.add("broker-1")
    await nemesis.heal()


@pytest.mark.parametrize("name", ["broker-1", "controller-101"])
async def test_a_controller_alone_gets_an_empty_disk_after_damage(
    name: str, nodes: Any, monkeypatch: pytest.MonkeyPatch
):
    cluster, wiped = a_cluster(nodes), list[str]()

    async def start(_: str) -> None:
        if not wiped:
            raise ClusterError("damaged")

    monkeypatch.setattr(cluster, "start", start)
    site = a_site(cluster)
    monkeypatch.setattr(site, "_wipe", wiped.append)
    monkeypatch.setattr(site, "_damaged", {name})
    cluster.down.add(name)
    cluster.nodes.names = [name]
    if name == "broker-1":
        with pytest.raises(BrokenPromiseError, match="broker-1 does not start again"):
            await site.heal()
        assert wiped == []
    else:
        await site.heal()
        assert wiped == [name]
