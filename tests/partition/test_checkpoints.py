"""Checkpoints are written by a worker thread, and only where something is new."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from raftlog.errors import StaleRouteError, StorageError
from raftlog.model import PartitionAssignment, PartitionState
from raftlog.partition.core import producers
from raftlog.partition.local_broker import LocalBroker
from raftlog.partition.log_maintenance import LogMaintenance
from raftlog.partition.metrics import PartitionMetrics
from raftlog.partition.replica_manager import ReplicaManager
from raftlog.partition.settings import ReplicaPorts, ReplicaSettings
from raftlog.partition.storage.checkpoint import Checkpoint
from raftlog.partition.storage.data_dir import DataDir
from raftlog.partition.storage.log import PartitionLog
from raftlog.record import NewRecord, build_batch
from raftlog.runtime import SystemClock
from raftlog.transport import HttpSession

TOPIC_ID = "a" * 32
ALONE = PartitionState(replicas=(1,), isr=(1,), leader=1, leader_epoch=0, partition_epoch=0)


@asynccontextmanager
async def broker(
    folder: Path, partitions: int, failures: list[StorageError] | None = None, **options: int
) -> AsyncIterator[ReplicaManager]:
    failures = [] if failures is None else failures
    data_dir = DataDir.open(folder, cluster_id="c", node_id=1)
    session = HttpSession()
    manager = ReplicaManager(
        LocalBroker(1),
        data_dir,
        ReplicaSettings(**options),
        ReplicaPorts(
            session=session,
            controller=None,  # type: ignore[arg-type]
            clock=SystemClock(),
            on_disk_failure=failures.append,
        ),
    )
    await manager.start()
    await manager.apply(
        [PartitionAssignment(topic="t", topic_id=TOPIC_ID, partition=n, state=ALONE) for n in range(partitions)], {}
    )
    try:
        yield manager
    finally:
        await manager.close()
        await session.close()
        data_dir.close()


async def produce(manager: ReplicaManager, partition: int, value: str = "x") -> None:
    await manager.produce("t", partition, build_batch([NewRecord(value.encode())]), acks=-1, timeout_ms=5_000)


def checkpoint(folder: Path, partition: int) -> Checkpoint:
    return Checkpoint.load(folder / "partitions" / f"t-{partition}-{TOPIC_ID}")


async def until(holds) -> None:
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.005)


def spying(real: Callable[[int], None], threads: set[int]) -> Callable[[int], None]:
    def spied(descriptor: int) -> None:
        threads.add(threading.get_ident())
        real(descriptor)

    return spied


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_no_sync_of_a_checkpoint_runs_on_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    threads = set[int]()
    async with broker(tmp_path, 5, checkpoint_interval_ms=10) as manager:
        for partition in range(5):
            await produce(manager, partition)
        for name in ("fsync", "fdatasync"):
            monkeypatch.setattr(os, name, spying(getattr(os, name), threads))
        for partition in range(5):
            await produce(manager, partition)
        await until(lambda: all(checkpoint(tmp_path, n).recovery_point == 2 for n in range(5)))
        await until(lambda: all(checkpoint(tmp_path, n).high_watermark == 2 for n in range(5)))
        monkeypatch.undo()

    assert threads
    assert threading.get_ident() not in threads


async def test_snapshots_of_producers_are_made_in_a_worker_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """With 1,000 producers in each of 256 partitions, the event loop made all of them in one turn."""
    threads, to_plain = set[int](), producers._to_plain
    monkeypatch.setattr(producers, "_to_plain", lambda *one: threads.add(threading.get_ident()) or to_plain(*one))
    async with broker(tmp_path, 1, checkpoint_interval_ms=10) as manager:
        for producer in range(3):
            built = build_batch([NewRecord(b"x")], producer_id=producer, producer_epoch=0, base_sequence=0)
            await manager.produce("t", 0, built, acks=-1, timeout_ms=5_000)
        await until(lambda: list((tmp_path / "partitions").rglob("*.producers")))

    assert threads
    assert threading.get_ident() not in threads


async def test_few_checkpoints_with_many_producers_are_planned_in_one_turn():
    turn, planned = 0, list[int]()

    def replica() -> SimpleNamespace:
        return SimpleNamespace(
            producers=range(10_000),
            log=SimpleNamespace(failure=None),
            plan_checkpoint=lambda: planned.append(turn),
            sync_soon=lambda: None,
        )

    replicas = [replica() for _ in range(40)]
    work = LogMaintenance(
        replicas=lambda: replicas,  # type: ignore[arg-type, return-value]
        clock=SystemClock(),
        checkpoint_interval_ms=1,
        retention_check_interval_ms=1,
        metrics=PartitionMetrics(),
    )
    running = asyncio.create_task(work.checkpoint_regularly())
    async with asyncio.timeout(10):
        while len(planned) < 40:
            turn += 1
            await asyncio.sleep(0)
    running.cancel()
    assert max(Counter(planned).values()) <= 2


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
async def test_a_checkpoint_that_cannot_be_synced_ends_the_broker(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    failures: list[StorageError] = []
    async with broker(tmp_path, 1, failures, checkpoint_interval_ms=20) as manager:
        await produce(manager, 0)
        await until(lambda: checkpoint(tmp_path, 0).recovery_point == 1)
        with monkeypatch.context() as failing:
            failing.setattr(os, "fsync", Mock(side_effect=OSError(number, os.strerror(number))))
            await produce(manager, 0)  # That one is `fdatasync`.
            await until(lambda: failures)
        (replica,) = manager.replicas
        assert replica.log.failure is failures[0]


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
async def test_the_broker_shuts_down_if_an_opened_log_cannot_be_synced(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """To open it again would take for written what the system has only failed to write."""
    async with broker(tmp_path, 1) as manager:
        await produce(manager, 0)
        (replica,) = manager.replicas
        replica.log.close()  # It ends without a checkpoint.
    failures: list[StorageError] = []
    with monkeypatch.context() as failing:
        failing.setattr(os, "fdatasync", Mock(side_effect=OSError(number, os.strerror(number))))
        async with broker(tmp_path, 1, failures) as manager:
            assert len(manager.offline) == len(failures) == 1


async def test_what_has_not_changed_is_not_written_again(tmp_path: Path):
    async with broker(tmp_path, 3, checkpoint_interval_ms=10) as manager:
        for partition in range(3):
            await produce(manager, partition)
        index = tmp_path / "partitions" / f"t-2-{TOPIC_ID}" / f"{0:020d}.index"
        await until(index.exists)
        await until(lambda: all(replica.plan_checkpoint() is None for replica in manager.replicas))
        files = [path for path in (tmp_path / "partitions").rglob("*") if path.is_file()]
        before = {path: path.stat().st_mtime_ns for path in files}

        await produce(manager, 0)
        await until(lambda: checkpoint(tmp_path, 0).recovery_point == 2)
        await until(lambda: all(replica.plan_checkpoint() is None for replica in manager.replicas))

        changed = {path.parent.name for path in files if path.exists() and path.stat().st_mtime_ns != before[path]}
        assert changed == {f"t-0-{TOPIC_ID}"}


async def test_a_clean_end_leaves_nothing_to_scan_and_producers_are_known_again(tmp_path: Path):
    async with broker(tmp_path, 1) as manager:
        for sequence in range(3):
            built = build_batch([NewRecord(b"x")], producer_id=5, producer_epoch=0, base_sequence=sequence)
            await manager.produce("t", 0, built, acks=-1, timeout_ms=5_000)
    folder = tmp_path / "partitions" / f"t-0-{TOPIC_ID}"
    assert sorted(path.suffix for path in folder.iterdir()) == [".index", ".json", ".json", ".log", ".producers"]

    async with broker(tmp_path, 1) as manager:
        repeated = build_batch([NewRecord(b"x")], producer_id=5, producer_epoch=0, base_sequence=2)
        result = await manager.produce("t", 0, repeated, acks=-1, timeout_ms=5_000)
        assert (result.duplicate, result.base_offset) == (True, 2)


async def test_requests_for_many_offline_partitions_find_each_of_them_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A request for 5,000 partitions of a lost disk looked at 5,000 for each."""
    looks, many, real = 0, 100, PartitionAssignment.topic_partition.fget

    def counted(assignment: PartitionAssignment) -> object:
        nonlocal looks
        looks += 1
        return real(assignment)

    monkeypatch.setattr(PartitionLog, "open", Mock(side_effect=StorageError("the disk is gone")))
    async with broker(tmp_path, many) as manager:
        monkeypatch.setattr(PartitionAssignment, "topic_partition", property(counted))
        for number in range(many):
            with pytest.raises(StaleRouteError, match="the disk is gone"):
                manager.replica("t", number)
        assert looks <= 3 * many
        with pytest.raises(StaleRouteError):
            manager.replica("t", many)
        await manager.apply([], {})
        with pytest.raises(StaleRouteError):
            manager.replica("t", 0)


async def test_few_files_are_open_however_many_partitions_there_are(tmp_path: Path):
    async with broker(tmp_path, 40, max_open_segments=8) as manager:
        before = open_files()
        for partition in range(40):
            await produce(manager, partition)
        for partition in range(40):
            replica = manager.leader("t", partition)
            assert replica.read(0, 1 << 20).data
        assert open_files() <= before + 8
