"""Batches and logs for storage tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from raftlog.config import TopicConfig
from raftlog.partition.storage.file_pool import FilePool
from raftlog.partition.storage.log import PartitionLog
from raftlog.record import BatchHeader, NewRecord, build_batch, read_records, stamp


def batch(base_offset: int, *values: str, epoch: int = 0, timestamp: int = 0) -> bytes:
    records = [
        NewRecord(value.encode(), timestamp=timestamp or 1_000 + base_offset + i) for i, value in enumerate(values)
    ]
    built = build_batch(records)
    stamp(built, base_offset=base_offset, leader_epoch=epoch)
    return bytes(built)


def open_log(folder: Path, *, power_lost: bool = False, pool: FilePool | None = None, **config: object) -> PartitionLog:
    return PartitionLog.open(folder, TopicConfig().with_overrides(config), power_lost=power_lost, pool=pool)


def fill(log: PartitionLog, count: int, *, epoch: int = 0, size: int = 10) -> None:
    for _ in range(count):
        offset = log.log_end_offset
        log.append(batch(offset, f"{offset}".ljust(size), epoch=epoch))


def names_of_syncs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that receives the name of each file and folder that is synced from now on."""
    synced: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return synced


def headers(log: PartitionLog, from_offset: int | None = None) -> list[BatchHeader]:
    return [header for header, _ in log.scan(from_offset)]


def values(log: PartitionLog, offset: int | None = None) -> list[str]:
    position, found = log.log_start_offset if offset is None else offset, []
    while data := log.read(position, 1 << 20, limit_offset=log.log_end_offset):
        records = read_records(data, topic="t", partition=0, from_offset=position)
        found += [(record.value or b"").decode().strip() for record in records]
        position = records[-1].offset + 1
    return found


def offset_since(log: PartitionLog, timestamp_us: int, *, limit: int) -> int | None:
    found = log.record_since(timestamp_us, limit_offset=limit)
    return None if found is None else found.offset
