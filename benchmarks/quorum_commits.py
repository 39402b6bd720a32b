"""How fast the quorum commits: three voters as processes, the load generated in the leader's."""

from __future__ import annotations

import os
import select
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import orjson

from benchmarks.report import Bound, Effort, Figure, console, repeat
from raftlog.cli.cluster_plan import free_base_port

T = TypeVar("T")
_VOTERS = 3
_ATTEMPTS = 5
_DEPTH = 256
_ELECTION_S = 15.0
_RUN_S = 120.0
"""Longer than any load takes: a voter that hangs must not block the benchmark."""


class Voters:
    """Three voter processes, and their leader."""

    def __init__(self, folder: Path, *, profile: str | None = None) -> None:
        base = free_base_port()
        settings = {"ports": [base + i for i in range(_VOTERS)], "folder": str(folder), "profile": profile}
        self.processes = [
            subprocess.Popen(
                [sys.executable, "-m", "benchmarks.voter", orjson.dumps({"node_id": i + 1, **settings}).decode()],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                bufsize=0,  # So that `select` sees all output.
            )
            for i in range(_VOTERS)
        ]

    def leader(self) -> subprocess.Popen[bytes]:
        """Wait until one voter reports that it leads."""
        with selectors.DefaultSelector() as selector:
            for process in self.processes:
                assert process.stdout is not None
                selector.register(process.stdout, selectors.EVENT_READ, process)
            ready = selector.select(_ELECTION_S)
        if not ready:
            raise RuntimeError(f"no leader within {_ELECTION_S:g} s")
        leader: subprocess.Popen[bytes] = ready[0][0].data
        self._read(leader)
        return leader

    def run(self, leader: subprocess.Popen[bytes], **request: Any) -> dict[str, Any]:
        """Let the leader run one load; return its report."""
        assert leader.stdin is not None
        leader.stdin.write(orjson.dumps(request) + b"\n")
        leader.stdin.flush()
        while "leads" in (answer := self._read(leader)):
            pass  # Elected again meanwhile.
        if "lost" in answer:
            raise LeadershipLostError(answer["lost"])
        return answer

    def close(self) -> None:
        for process in self.processes:
            assert process.stdin is not None
            process.stdin.close()
        for process in self.processes:
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            assert process.stdout is not None
            process.stdout.close()

    def _read(self, process: subprocess.Popen[bytes]) -> dict[str, Any]:
        assert process.stdout is not None
        poller = select.poll()  # Unlike `select.select`, it takes descriptors of any number.
        poller.register(process.stdout, select.POLLIN)
        if not poller.poll(_RUN_S * 1000):
            raise RuntimeError(f"no output of a voter for {_RUN_S:g} s")
        line = process.stdout.readline()
        if not line:
            raise RuntimeError("a voter exited; its log is above")
        answer: dict[str, Any] = orjson.loads(line)
        return answer


class LeadershipLostError(Exception):
    """The machine was so busy that the voters elected another leader: the measurement is void."""


def measured(measure: Callable[[Voters, subprocess.Popen[bytes]], T], *, profile: str | None = None) -> T:
    """Measure on new voters with the same leader throughout."""
    for left in reversed(range(_ATTEMPTS)):
        with voters(profile=profile) as running:
            try:
                return measure(running, running.leader())
            except LeadershipLostError as lost:
                if not left:
                    raise
                console.print(f"  measuring again: {lost}")
    raise AssertionError("unreachable")


@contextmanager
def voters(*, profile: str | None = None) -> Iterator[Voters]:
    """Run voters in a folder of their own, under the working directory: /tmp may be memory."""
    Path("build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir="build", prefix="voters-") as folder:
        running = Voters(Path(folder).absolute(), profile=profile)
        try:
            yield running
        finally:
            running.close()


def fdatasync_ms(count: int = 200) -> Figure:
    """Measure the disk alone: append a record, make it durable."""
    Path("build").mkdir(exist_ok=True)
    taken = []
    with tempfile.NamedTemporaryFile(dir="build") as file:
        for _ in range(count):
            started = time.perf_counter()
            os.write(file.fileno(), b"x" * 250)
            os.fdatasync(file.fileno())
            taken.append((time.perf_counter() - started) * 1000)
    return Figure(name="fdatasync_ms", samples=taken)


def commit_ms(effort: Effort) -> Figure:
    """Time proposals of 200 B, one at a time."""

    def measure(running: Voters, leader: subprocess.Popen[bytes]) -> list[float]:
        running.run(leader, run="latency", count=100, size=200)
        taken: list[float] = []
        for _ in repeat(effort.pick(6, quick=1), "500 commits"):
            taken += running.run(leader, run="latency", count=500, size=200)["ms"]
        return taken

    taken = measured(measure)
    return Figure(name="commit_ms", samples=taken, bounds=(Bound(statistic="p99", at_most=5),))


def commits_per_s(effort: Effort, *, count: int = 40_000, depth: int = _DEPTH, profile: str | None = None) -> Figure:
    """Count commits of small commands per second, with `depth` of them in flight."""

    def measure(running: Voters, leader: subprocess.Popen[bytes]) -> list[dict[str, Any]]:
        running.run(leader, run="rate", count=min(count, 2_000), size=50, depth=depth)
        return [
            running.run(leader, run="rate", count=count, size=50, depth=depth)
            for _ in repeat(effort.pick(5, quick=2), f"{count:,} commits")
        ]

    answers = measured(measure, profile=profile)
    return Figure(
        name="commits_per_s",
        samples=[answer["per_s"] for answer in answers],
        bounds=(Bound(statistic="median", at_least=20_000),),
        notes={"leader_cpu_us_per_commit": round(min(answer["leader_cpu_us"] for answer in answers), 1)},
    )
