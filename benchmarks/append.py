"""Appending batches to one partition's log, by their size, with and without a sync after each."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from benchmarks.report import Effort, Figure, repeat
from raftlog.config import TopicConfig
from raftlog.partition.storage.log import PartitionLog
from raftlog.record import NewRecord, build_batch, stamp

FOLDER = Path("build") / "bench" / "append"
_SIZES = {"1KB": 1 << 10, "64KB": 64 << 10, "1MB": 1 << 20}
_VOLUME = 64 << 20
_MAX_APPENDS = 10_000
_SYNCED_APPENDS = 200


def _batch(size: int) -> bytearray:
    return build_batch([NewRecord(bytes(size), timestamp=1_700_000_000_000_000)])


def _append(log: PartitionLog, batch: bytearray) -> None:
    stamp(batch, base_offset=log.log_end_offset, leader_epoch=0)
    log.append(batch)


def _volume_per_s(size: int, number: int) -> float:
    log, batch = PartitionLog.open(FOLDER / f"{size}-{number}", TopicConfig()), _batch(size)
    started = time.perf_counter()
    count = min(_MAX_APPENDS, _VOLUME // size)
    for _ in range(count):
        _append(log, batch)
    took = time.perf_counter() - started
    log.close()
    shutil.rmtree(FOLDER / f"{size}-{number}")
    return count * size / took / 1e6


def unsynced(effort: Effort) -> list[Figure]:
    """Into the page cache: what a broker's appends cost."""
    figures = []
    for name, size in _SIZES.items():
        samples = [_volume_per_s(size, number) for number in repeat(effort.pick(5, quick=2), f"append {name}")]
        figures.append(Figure(name=f"append_{name}_MBps", samples=samples, better="more"))
    return figures


def synced(effort: Effort) -> list[Figure]:
    """With a sync after each append: the rate of one producer that waits for each batch."""
    figures = []
    for name, size in _SIZES.items():
        log, batch, samples = PartitionLog.open(FOLDER / f"synced-{size}", TopicConfig()), _batch(size), []
        for _ in repeat(effort.pick(_SYNCED_APPENDS, quick=50), f"append and sync {name}"):
            started = time.perf_counter()
            _append(log, batch)
            log.fsync()
            samples.append(1_000 * (time.perf_counter() - started))
        log.close()
        shutil.rmtree(FOLDER / f"synced-{size}")
        figures.append(Figure(name=f"append_and_sync_{name}_ms", samples=samples, better="less"))
    return figures


FIGURES = {"unsynced": unsynced, "synced": synced}
