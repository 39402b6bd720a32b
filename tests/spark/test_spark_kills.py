"""The exactly-once sink under kills: of a driver, of an executor, of a task, and of the sink's coordinator."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import orjson
import pytest

import raftlog.blocking
from raftlog.cli.local_cluster import LocalCluster
from raftlog.wire import paths

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(600)]

DRIVER = Path(__file__).with_name("exactly_once_driver.py")
RECORDS = 2_800


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path / "cluster", port=0) as running:
        with (
            raftlog.blocking.Admin(running.bootstrap) as admin,
            raftlog.blocking.Producer(running.bootstrap) as producer,
        ):
            for topic in ("in", "copy"):
                admin.create_topic(topic, partitions=4)
            producer.send_many("in", [b"%d" % number for number in range(RECORDS)])
        yield running


def test_each_row_counts_once_whoever_dies(cluster, tmp_path: Path):
    """Killed: the driver before a commit, the driver after one, an executor, a task; then the sink's coordinator."""
    killed, runs, returncode = "", 0, -signal.SIGKILL
    while returncode == -signal.SIGKILL:
        runs += 1
        killed, returncode = run_driver(cluster, tmp_path, killed, runs)
    cluster.restart(killed)
    cluster.wait_ready()

    assert (returncode, runs) == (0, 3), (tmp_path / f"run-{runs}.txt").read_text()[-3_000:]
    assert sorted(committed(cluster, "copy")) == list(range(RECORDS))


def run_driver(cluster: LocalCluster, folder: Path, killed: str, run: int) -> tuple[str, int]:
    """Run it to its end; kill the coordinator once, after the last fault; return that broker, and the result."""
    with (folder / f"run-{run}.txt").open("wb") as output:
        driver = subprocess.Popen(
            [sys.executable, str(DRIVER), cluster.bootstrap, str(folder)],
            stdout=output, stderr=output, start_new_session=True,
        )  # fmt: skip
        try:
            while driver.poll() is None:
                if not killed and (folder / "task").exists():
                    killed = coordinator_of(cluster, folder)
                    cluster.kill(killed)
                time.sleep(0.05)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(driver.pid, signal.SIGKILL)
    return killed, driver.wait()


def coordinator_of(cluster: LocalCluster, folder: Path) -> str:
    """Return the broker that coordinates what the query in `folder` writes."""
    query = orjson.loads((folder / "checkpoint" / "metadata").read_bytes())["id"]
    path = paths.fill(paths.COORDINATOR, kind="transaction", key=f"spark-{query}")
    with urllib.request.urlopen(f"{cluster.bootstrap.split(',')[0]}{path}") as answer:
        return f"broker-{orjson.loads(answer.read())['broker_id']}"


def committed(cluster: LocalCluster, topic: str) -> list[int]:
    """Return what a reader of committed records sees, until nothing more comes."""
    numbers, deadline = list[int](), time.monotonic() + 60
    with raftlog.blocking.Consumer(cluster.bootstrap, topic, start="earliest", isolation="read_committed") as consumer:
        while (records := consumer.fetch(max_wait_ms=1_000)) or len(numbers) < RECORDS:
            assert time.monotonic() < deadline, f"{len(numbers)} records of {RECORDS}"
            numbers += [int(record.value or b"") for record in records]
    return numbers
