"""The bare processes for batches: three files get the same bytes, and nothing is left of them once a client leaves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from benchmarks.peers.bare import Bare
from benchmarks.peers.server import LOOPBACK, free_ports, listens

VOLUME = 9 << 20
"""Two whole batches and a part of one."""


@pytest.fixture(scope="module", params=[False, True], ids=["unsynced", "synced"])
def bare(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bare]:
    with Bare(tmp_path_factory.mktemp("bare") / "bare", durable=request.param) as server:
        yield server


def run(bare: Bare, work: str, **more: object) -> dict[str, float]:
    job = {"work": work, "bootstrap": bare.bootstrap, "topic": "t", "options": bare.client_options, "warmup_s": 0.0}
    command = [sys.executable, "-m", "benchmarks.drivers.bare", json.dumps({**job, **more})]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def written(bare: Bare) -> list[int]:
    """Return the bytes that each process has written to files and sockets."""
    lines = [Path(f"/proc/{pid}/io").read_text() for pid in bare.pids]
    return [int(text.split("wchar: ")[1].split()[0]) for text in lines]


def stored(pid: int) -> int:
    """Return the size of a process's deleted files: each replica's log is one."""
    files = [entry for entry in Path(f"/proc/{pid}/fd").iterdir() if "(deleted)" in str(entry.readlink())]
    return sum(entry.stat().st_size for entry in files)


def test_three_replicas_write_each_batch(bare: Bare):
    before = written(bare)
    result = run(bare, "produce", record_bytes=1024, max_bytes=VOLUME, seconds=30.0)
    assert result["records"] == VOLUME // 1024
    more = [now - then for now, then in zip(written(bare), before, strict=True)]
    assert sum(size >= VOLUME for size in more) == 3


def test_a_log_is_dropped_once_its_client_has_left(bare: Bare):
    for _ in range(2):
        run(bare, "produce", record_bytes=1000, max_bytes=VOLUME, seconds=30.0)
    run(bare, "produce", record_bytes=1000, max_bytes=1, seconds=30.0)  # Once it is served, those before are gone.
    assert all(stored(pid) <= 1 << 20 for pid in bare.pids)


def test_single_records_have_a_leader_of_their_own(bare: Bare):
    result = run(bare, "latency", rate=200, seconds=0.5)
    assert result["records"] == 100


def test_a_client_that_is_early_waits_for_the_followers(tmp_path: Path):
    port = free_ports(1)[0]
    bare = [sys.executable, "-m", "benchmarks.bare_bulk"]
    job = {"work": "produce", "bootstrap": LOOPBACK, "topic": "t", "options": {"ports": {"batches": port}}}
    job |= {"warmup_s": 0.0, "max_bytes": 1000, "seconds": 30.0}
    with ExitStack() as stack:
        start = partial(_started, stack, tmp_path)
        start([*bare, "leader", str(port)])
        while not listens(port):
            time.sleep(0.05)
        client = start([sys.executable, "-m", "benchmarks.drivers.bare", json.dumps(job)])
        while not _is_connected(client.pid, port):
            assert client.poll() is None
            time.sleep(0.05)
        for _ in range(2):
            start([*bare, "follower", str(port)])
        output, _ = client.communicate(timeout=60)
    assert json.loads(output)["records"] > 0


def _started(stack: ExitStack, folder: Path, command: list[str]) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(Path.cwd())}
    )
    stack.enter_context(process)
    stack.callback(process.kill)
    return process


def _is_connected(pid: int, port: int) -> bool:
    """Return whether a process has an established connection to a port: its row in the table of sockets."""
    lines = Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]
    return any(line.split()[2].endswith(f":{port:04X}") and line.split()[3] == "01" for line in lines)
