"""A log that starts over frees the blocks of its files in a worker thread: gigabytes take long."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from pathlib import Path

import pytest
from replica_support import Solo

from raftlog.errors import DiskFullError
from raftlog.partition.storage.log import PartitionLog
from raftlog.record import NewRecord, build_batch

SEGMENTS = {"min_insync_replicas": 1, "segment_bytes": 4096}


async def filled(folder: Path) -> Solo:
    """Return a follower with several segments."""
    solo = Solo(folder, isr=(1,), **SEGMENTS)
    for _ in range(10):
        await solo.replica.append(build_batch([NewRecord(b"x" * 900, timestamp=1)]), acks=-1, timeout_ms=5_000)
    solo.change(leader=2, leader_epoch=1)
    return solo


async def settled(solo: Solo) -> None:
    await asyncio.gather(*solo.tasks._tasks)


def records(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "t-0").iterdir() if ".log" in path.name)


async def test_files_of_records_are_removed_in_a_worker_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    real, threads = os.unlink, list[bool]()

    def unlink(path: str | Path, **options: object) -> None:
        is_of_records = ".log" in str(path)
        real(path, **options)  # type: ignore[arg-type]
        if is_of_records:
            threads.append(threading.current_thread() is threading.main_thread())

    solo = await filled(tmp_path)
    count = solo.replica.log.segment_count
    assert count > 1
    monkeypatch.setattr(os, "unlink", unlink)
    solo.replica.start_over_at(40)
    await settled(solo)
    assert threads == [False] * count
    assert records(tmp_path) == [f"{40:020d}.log"]
    await solo.close()


async def test_a_full_disk_has_room_again_although_the_log_could_not_start_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    solo, spared, real = await filled(tmp_path), iter([True]), os.open

    def full(path: Path, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_CREAT and not next(spared, False):
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(path, flags, mode)

    monkeypatch.setattr(os, "open", full)
    with pytest.raises(DiskFullError):
        solo.replica.start_over_at(40)
    await settled(solo)
    assert records(tmp_path) == []
    monkeypatch.undo()
    solo.replica.finish_starting_over()
    assert solo.replica.log.log_start_offset == 40
    await solo.close()


async def test_a_process_that_ends_before_leaves_them_to_the_next_start(tmp_path: Path):
    solo = await filled(tmp_path)
    config = solo.replica.config
    solo.tasks.cancel()
    solo.replica.start_over_at(40)
    assert len(records(tmp_path)) > 1
    await solo.close()
    PartitionLog.open(tmp_path / "t-0", config).close()
    assert records(tmp_path) == [f"{40:020d}.log"]
