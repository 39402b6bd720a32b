"""The bare processes for batches: three files get the same bytes, and nothing is left of them once a client leaves."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.peers.bare import Bare

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
