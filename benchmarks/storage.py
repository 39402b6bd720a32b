"""Opening logs: after a kill, a thousand at once, and the cost of an idle one.

Each figure is measured on this machine's disk, under `build/bench`; notes contain the bytes read.
"""

from __future__ import annotations

import asyncio
import gc
import shutil
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.report import Bound, Effort, Figure, progress
from raftlog.config import TopicConfig
from raftlog.model import PartitionAssignment, PartitionState
from raftlog.partition.core.producers import ProducerLimits
from raftlog.partition.local_broker import LocalBroker
from raftlog.partition.replica_manager import ReplicaManager
from raftlog.partition.settings import ReplicaPorts, ReplicaSettings
from raftlog.partition.storage.data_dir import DataDir
from raftlog.partition.storage.log import PartitionLog
from raftlog.partition.storage.producer_snapshots import recover_producers
from raftlog.record import NewRecord, build_batch, stamp
from raftlog.record.batch import parse_header
from raftlog.runtime import SystemClock
from raftlog.transport import HttpSession

FOLDER = Path("build") / "bench" / "storage"
_GIB = 1 << 30


@contextmanager
def _fresh_folder() -> Iterator[Path]:
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    try:
        yield FOLDER
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)


def _append(log: PartitionLog, template: bytearray) -> None:
    stamp(template, base_offset=log.log_end_offset, leader_epoch=0)
    log.append(template)


def _batch(size: int) -> bytearray:
    return build_batch([NewRecord(b"x" * (size // 100), timestamp=1_700_000_000_000_000) for _ in range(100)])


def _opening(folder: Path) -> float:
    started = time.perf_counter()
    log = PartitionLog.open(folder, TopicConfig())
    recover_producers(log, limits=ProducerLimits(), now_ms=0)
    took = time.perf_counter() - started
    log.close()
    return took


def recovery(effort: Effort) -> list[Figure]:
    """A partition of 1 GiB whose process was killed seconds after a checkpoint; and the same without its indexes."""
    size = _GIB // 8 if effort.quick else _GIB
    with _fresh_folder() as folder:
        log, template = PartitionLog.open(folder / "p", TopicConfig()), _batch(64 << 10)
        with progress() as bar:
            task = bar.add_task("writing", total=size // len(template))
            for number in range(size // len(template)):
                _append(log, template)
                bar.advance(task)
                if number == (size - (16 << 20)) // len(template):
                    log.fsync()
                    log.checkpoint(log.log_end_offset)
        log.fsync()
        note = {"bytes": log.size_bytes, "unchecked_tail_bytes": (16 << 20)}
        # As after a kill: no more writes, and the page cache survives. An abandoned log is not closed.
        killed = [_reopened(folder / "p", folder / "copy") for _ in range(1 if effort.quick else 3)]
        for path in (folder / "p").glob("*.index"):
            path.unlink()
        bare = [_reopened(folder / "p", folder / "copy")]
        del log
    bound = (Bound(statistic="max", at_most=2.0),)
    return [
        Figure(name="recovery_s", samples=killed, bounds=bound, notes=note),
        Figure(name="recovery_without_indexes_s", samples=bare, notes=note),
    ]


def _reopened(folder: Path, copy: Path) -> float:
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy)
    return _opening(copy)


def _assignments(count: int) -> list[PartitionAssignment]:
    state = PartitionState(replicas=(1,), isr=(1,), leader=1, leader_epoch=0, partition_epoch=0)
    return [PartitionAssignment(topic="t", topic_id="a" * 32, partition=number, state=state) for number in range(count)]


def _fill(data_dir: DataDir, count: int) -> None:
    template = _batch(4 << 10)
    for number in range(count):
        log = PartitionLog.open(data_dir.partition_folder("t", number, "a" * 32), TopicConfig(segment_bytes=64 << 10))
        for _ in range(40):  # Two closed segments, and one that is written.
            _append(log, template)
        log.fsync()
        log.checkpoint(log.log_end_offset, closing=True)
        log.close()


async def _start(data_dir: DataDir, count: int, measure: Callable[[], float]) -> tuple[float, float, int]:
    """Open all partitions; return how long that took, and the result of `measure` once they have been idle."""
    session = HttpSession()
    manager = ReplicaManager(
        LocalBroker(1, 1),
        data_dir,
        ReplicaSettings(),
        ReplicaPorts(session=session, controller=None, clock=SystemClock()),  # type: ignore[arg-type]
    )
    assignments = _assignments(count)
    before, started = measure(), time.perf_counter()
    await manager.apply(assignments, {})
    took = time.perf_counter() - started
    for _ in range(3):
        for replica in manager.replicas:
            if (write := replica.plan_checkpoint()) is not None:
                write()
    gc.collect()
    opened, cost = len(list(manager.replicas)), measure() - before
    await manager.close()
    await session.close()
    return took, cost, opened


def start(effort: Effort) -> list[Figure]:
    """A broker with 1,000 partitions of three segments each, and the memory of an idle one."""
    count = 200 if effort.quick else 1_000
    with _fresh_folder() as folder:
        data_dir = DataDir.open(folder / "d", cluster_id="c", node_id=1)
        _fill(data_dir, count)
        starts = []
        for _ in range(1 if effort.quick else 3):
            took, _, opened = asyncio.run(_start(data_dir, count, lambda: 0.0))
            starts.append(took)
        tracemalloc.start()
        _, cost, _ = asyncio.run(_start(data_dir, count, lambda: float(tracemalloc.get_traced_memory()[0])))
        tracemalloc.stop()
        data_dir.close()
    note = {"partitions": opened}
    return [
        Figure(name="start_s", samples=starts, bounds=(Bound(statistic="median", at_most=5.0),), notes=note),
        Figure(
            name="idle_partition_kB",
            samples=[cost / count / 1000],
            bounds=(Bound(statistic="max", at_most=20.0),),
            notes=note,
        ),
    ]


def appending(effort: Effort) -> list[Figure]:
    """Appends of 64 KiB batches without a sync: the cost of indexes and rolling."""
    size, template = (_GIB // 16 if effort.quick else _GIB // 4), _batch(64 << 10)
    header = parse_header(template)
    with _fresh_folder() as folder:
        log = PartitionLog.open(folder / "p", TopicConfig(segment_bytes=32 << 20))
        started = time.perf_counter()
        for _ in range(size // header.batch_length):
            _append(log, template)
        took = time.perf_counter() - started
        log.close()
    return [Figure(name="append_MBps", samples=[size / took / 1e6])]


FIGURES = {"recovery": recovery, "start": start, "appending": appending}
