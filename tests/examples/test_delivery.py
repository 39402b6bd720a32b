"""At least once and at most once: the examples on a real cluster, killed in the middle of what they process."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import pytest

from raftlog import Admin, Producer
from raftlog.cli.local_cluster import LocalCluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]
ROOT = Path(__file__).parents[2]
PROCESS = Path(__file__).parent / "crashing_process.py"
RECORDS, LAST = 300, 299
KILLS = (5, 150)
"""Values after which the process dies: within the first of what it takes at once, and within a later one."""
BATCH = 100
"""As many records do the examples take at once."""


def processed(file: Path) -> list[int]:
    return [int(line) for line in file.read_text().splitlines()] if file.exists() else []


@contextmanager
def example(name: str, cluster: LocalCluster, topic: str, file: Path, *, until: int):
    arguments = [str(ROOT / "examples" / name), cluster.bootstrap, topic, str(file), str(until)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([sys.executable, str(PROCESS), *arguments], env=environment)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def life_after_life(name: str, cluster: LocalCluster, topic: str, file: Path) -> list[int]:
    """Run an example again and again: to die after each of `KILLS`, and then to the last record."""
    async with Admin(cluster.bootstrap) as admin, Producer(cluster.bootstrap) as producer:
        await admin.create_topic(topic, partitions=1, replication_factor=3)
        await producer.send_many(topic, [b"%d" % number for number in range(RECORDS)])
    async with asyncio.timeout(240):
        for kill in (*KILLS, LAST):
            if LAST in processed(file):
                break
            before = len(processed(file))
            with example(name, cluster, topic, file, until=kill) as process:
                while process.poll() is None and max(processed(file)[before:], default=0) < LAST:
                    await asyncio.sleep(0.05)
                assert process.poll() in (None, -signal.SIGKILL)
    return processed(file)


async def test_at_least_once_loses_nothing_and_repeats_what_was_not_committed(
    tmp_path: Path, shared_cluster: LocalCluster, topic_name: str
):
    found = await life_after_life("at_least_once.py", shared_cluster, topic_name, tmp_path / "out")

    assert set(found) == set(range(RECORDS))
    times = Counter(found)
    again = sum(times.values()) - RECORDS
    assert all(times[kill] >= 2 for kill in KILLS)  # Processed, but killed before the commit.
    assert again <= BATCH * len(KILLS)


async def test_at_most_once_repeats_nothing_and_loses_what_was_committed_and_not_processed(
    tmp_path: Path, shared_cluster: LocalCluster, topic_name: str
):
    found = await life_after_life("at_most_once.py", shared_cluster, topic_name, tmp_path / "out")

    assert found == sorted(set(found)), "a record was processed twice"
    lost = set(range(RECORDS)) - set(found)
    assert KILLS[0] + 1 in lost  # Committed, but killed before it was processed.
    assert len(lost) <= BATCH * len(KILLS)
