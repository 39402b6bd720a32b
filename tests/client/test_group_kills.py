"""A group of three processes: one is killed in the middle, then the broker that coordinates the group."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from raftlog import Admin, Producer
from raftlog.cli.local_cluster import LocalCluster
from raftlog.model import TopicPartition

pytestmark = pytest.mark.cluster
WORKER = Path(__file__).parent / "group_worker.py"
ROOT = Path(__file__).parents[2]
PARTITIONS = 6


@dataclass(frozen=True, order=True)
class Event:
    at_ns: int
    worker: int
    kind: str
    partition: int
    offset: int


class Workers:
    def __init__(self, folder: Path, bootstrap: str, topic: str) -> None:
        self.files = [folder / f"worker-{number}.txt" for number in range(3)]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        self.processes = [
            subprocess.Popen([sys.executable, WORKER, bootstrap, topic, "g", file], env=environment)
            for file in self.files
        ]

    def events(self) -> list[Event]:
        return sorted(event for number, file in enumerate(self.files) for event in _events(number, file))

    def processed(self) -> set[tuple[int, int]]:
        return {(event.partition, event.offset) for event in self.events() if event.kind == "P"}


def _events(worker: int, file: Path) -> Iterator[Event]:
    for line in file.read_text().splitlines() if file.exists() else ():
        kind, *numbers = line.split(" ")
        if len(numbers) == 3 and numbers[2]:  # A killed process may leave half a line.
            partition, offset, at_ns = map(int, numbers)
            yield Event(at_ns, worker, kind, partition, offset)


@contextmanager
def working(folder: Path, bootstrap: str, topic: str) -> Iterator[Workers]:
    workers = Workers(folder, bootstrap, topic)
    try:
        yield workers
    finally:
        for process in workers.processes:
            process.kill()
            process.wait()


async def produce(bootstrap: str, topic: str, count: int) -> None:
    async with Producer(bootstrap) as producer:
        await asyncio.gather(
            *[producer.send_nowait(topic, b"x", partition=number % PARTITIONS) for number in range(count)]
        )


async def share(admin: Admin, workers: Workers) -> None:
    """Wait until all three have joined, and each has its part."""
    async with asyncio.timeout(60):
        while sum(event.kind == "J" for event in workers.events()) < 3:
            await asyncio.sleep(0.1)
        while (await admin.describe_group("g")).phase != "Stable":
            await asyncio.sleep(0.1)


async def reach(workers: Workers, count: int) -> None:
    async with asyncio.timeout(60):
        while len(workers.processed()) < count:
            await asyncio.sleep(0.1)


def judge(events: list[Event]) -> int:
    """Check every promise; return how often a record was processed once more."""
    processed: dict[int, set[int]] = defaultdict(set)
    committed: dict[int, int] = defaultdict(int)
    again = 0
    for event in events:
        if event.kind == "P":
            if event.offset in processed[event.partition]:
                again += 1
                assert event.offset >= committed[event.partition], f"processed although it was committed: {event}"
            processed[event.partition].add(event.offset)
        elif event.kind == "C":
            missing = set(range(event.offset)) - processed[event.partition]
            assert not missing, f"committed, but not processed: {missing}"
            assert event.offset >= committed[event.partition], f"a commit went back: {event}"
            committed[event.partition] = event.offset
    return again


@pytest.mark.timeout(240)
async def test_nothing_committed_is_processed_again_and_nothing_is_left_out(tmp_path: Path, topic_name: str):
    with LocalCluster(tmp_path / "c", controllers=1, port=0) as cluster:
        url = cluster.bootstrap
        async with Admin(url) as admin:
            await admin.create_topic(topic_name, partitions=PARTITIONS, replication_factor=3)
            with working(tmp_path, url, topic_name) as workers:
                await share(admin, workers)
                await produce(url, topic_name, 600)
                await reach(workers, 200)
                workers.processes[0].kill()
                await produce(url, topic_name, 300)
                await reach(workers, 500)
                found = await admin.find_coordinator("group", "g")
                await asyncio.to_thread(cluster.kill, f"broker-{found.broker_id}")
                await reach(workers, 900)
                assert [process.poll() for process in workers.processes] == [-9, None, None]
                events = workers.events()
            offsets = await admin.group_offsets("g")
            lag = await admin.group_lag("g")
    assert {event.worker for event in events if event.kind == "P"} == {0, 1, 2}
    again = judge(events)
    assert again <= 100, again
    assert set(offsets) == set(lag) == {TopicPartition(topic_name, number) for number in range(PARTITIONS)}
    assert all(offset + lag[partition] == 150 for partition, offset in offsets.items())
