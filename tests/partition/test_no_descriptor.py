"""A process without a free file descriptor refuses writes and continues: nothing was written, and nothing is lost."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from unittest.mock import Mock

import pytest
from replica_support import Solo

from raftlog.errors import DiskFullError
from raftlog.partition.storage.file_pool import FilePool, PooledFile
from raftlog.partition.storage.files import fsync_dir
from raftlog.record import NewRecord, build_batch, stamp


def batch_at(offset: int, epoch: int = 0) -> bytearray:
    batch = bytearray(build_batch([NewRecord(b"x" * 1000)]))
    stamp(batch, base_offset=offset, leader_epoch=epoch)
    return batch


@contextmanager
def no_descriptor() -> Iterator[None]:
    """Let no file of a log be opened that is closed now."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(FilePool, "_opened", Mock(side_effect=OSError(errno.EMFILE, "Too many open files")))
        yield


@contextmanager
def all_descriptors_taken(folder: Path) -> Iterator[None]:
    """Take every descriptor of this process, apart from the spare one."""
    fsync_dir(folder)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = list[int]()
    try:
        most = max(int(path.name) for path in Path("/proc/self/fd").iterdir())
        resource.setrlimit(resource.RLIMIT_NOFILE, (most + 10, hard))
        with suppress(OSError):
            while True:
                held.append(os.open(folder, os.O_RDONLY))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in held:
            os.close(descriptor)


def close_files(solo: Solo) -> None:
    for segment in solo.replica.log.segments:
        segment.file.pool.close(segment.file)


async def test_a_leader_without_a_free_descriptor_appends_nothing_and_continues(tmp_path: Path):
    solo = Solo(tmp_path, flush="os")
    await solo.append("a", acks=1)
    close_files(solo)
    with no_descriptor(), pytest.raises(DiskFullError, match="nothing was appended"):
        await solo.append("b", acks=1)
    assert (solo.failures, solo.replica.log.failure) == ([], None)
    assert (await solo.append("c", acks=1)).base_offset == 1
    await solo.close()


async def test_a_partial_write_is_removed_although_no_descriptor_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    solo, real, release = Solo(tmp_path, flush="os"), os.pwrite, FilePool.release
    await solo.append("a", acks=1)
    size = solo.replica.log.size_bytes
    close_files(solo)

    def half(descriptor: int, data: memoryview, position: int) -> int:
        real(descriptor, data[: len(data) // 2], position)
        patched.setattr(FilePool, "_opened", Mock(side_effect=OSError(errno.EMFILE, "Too many open files")))
        raise OSError(errno.ENOSPC, "No space left on device")

    def close(pool: FilePool, file: PooledFile, descriptor: int) -> None:
        """Close a file at the end of its last use."""
        release(pool, file, descriptor)
        if not file.users:
            pool.close(file)

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", half)
        patched.setattr(FilePool, "release", close)
        with pytest.raises(DiskFullError):
            await solo.append("b", acks=1)
    assert (solo.failures, solo.replica.log.failure) == ([], None)
    assert solo.replica.log.segments[-1].path.stat().st_size == size
    await solo.close()


@pytest.mark.parametrize("synced", [False, True])
@pytest.mark.parametrize("end", [1, 3])
async def test_a_follower_without_a_free_descriptor_truncates_later(tmp_path: Path, end: int, synced: bool):
    solo = Solo(tmp_path, leader=2, segment_bytes=4096)
    log = solo.replica.log
    for offset in range(6):
        log.append(batch_at(offset))
    if synced:
        log.fsync()
        log.checkpoint(0)
    assert log.segment_count > 2
    close_files(solo)
    with no_descriptor(), pytest.raises(DiskFullError, match="cannot truncate"):
        solo.replica.truncate_to(end)
    assert (solo.failures, log.failure, log.log_end_offset) == ([], None, 6)
    solo.replica.truncate_to(end)
    assert (log.log_end_offset, log.durable_end_offset) == (end, end)
    await solo.close()


async def test_a_follower_truncates_while_other_files_hold_every_descriptor(tmp_path: Path):
    """Its checkpoint, its epochs and its producers need a descriptor for a moment each."""
    solo = Solo(tmp_path, leader=2, segment_bytes=4096)
    log = solo.replica.log
    for offset in range(6):
        log.append(batch_at(offset, epoch=offset))
    log.fsync()
    log.checkpoint(0)
    with all_descriptors_taken(tmp_path):
        solo.replica.truncate_to(4)
    assert (solo.failures, log.failure, log.durable_end_offset, log.last_epoch) == ([], None, 4, 3)
    await solo.close()
