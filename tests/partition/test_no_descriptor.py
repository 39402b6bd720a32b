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
from raftlog.partition.core.producers import ProducerLimits
from raftlog.partition.storage.file_pool import FilePool, PooledFile
from raftlog.partition.storage.files import fsync_dir
from raftlog.partition.storage.producer_snapshots import recover_producers, save_producers
from raftlog.record import NewRecord, build_batch, stamp


def batch_at(offset: int, epoch: int = 0, **producer: int) -> bytearray:
    batch = bytearray(build_batch([NewRecord(b"x" * 1000)], **producer))
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


async def test_a_follower_that_cannot_open_earlier_files_truncates_later(tmp_path: Path):
    """Its intact log was cut, and then counted as damaged: the states of its producers come from those files."""
    solo = Solo(tmp_path, leader=2, segment_bytes=4096)
    log = solo.replica.log
    for offset in range(6):
        solo.replica.append_fetched(batch_at(offset, producer_id=7, producer_epoch=0, base_sequence=offset))
    log.fsync()
    for segment in log.segments[:-1]:
        segment.file.pool.close(segment.file)
    assert log.segments[-1].base_offset < 5
    with no_descriptor(), pytest.raises(DiskFullError, match="cannot be read"):
        solo.replica.truncate_to(5)
    assert (solo.failures, log.failure, solo.replica.damage, log.log_end_offset) == ([], None, None, 6)
    solo.replica.truncate_to(5)
    assert (log.failure, log.log_end_offset, log.durable_end_offset) == (None, 5, 5)
    solo.replica.append_fetched(batch_at(5, producer_id=7, producer_epoch=0, base_sequence=5))
    ((producer, _, _, batches, *_),) = solo.replica.producers.to_plain()["producers"]
    assert (producer, [batch[0] for batch in batches][-2:]) == (7, [4, 5])
    await solo.close()


async def test_a_log_for_whose_files_no_descriptor_is_free_is_opened_later(tmp_path: Path):
    """It was an error that is not tried again: the replica stayed offline."""
    solo = Solo(tmp_path, segment_bytes=4096)
    solo.replica.log.append(batch_at(0))
    close_files(solo)
    with no_descriptor(), pytest.raises(DiskFullError, match="cannot be read"):
        recover_producers(solo.replica.log, limits=ProducerLimits(), now_ms=0)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "listdir", Mock(side_effect=OSError(errno.EMFILE, "Too many open files")))
        with pytest.raises(DiskFullError, match="snapshots of producers"):
            recover_producers(solo.replica.log, limits=ProducerLimits(), now_ms=0)
    await solo.close()


async def test_files_of_records_below_a_snapshot_are_not_opened_for_the_producers(tmp_path: Path):
    solo = Solo(tmp_path, segment_bytes=4096)
    log = solo.replica.log
    for offset in range(6):
        log.append(batch_at(offset))
    log.fsync()
    last = log.segments[-1]
    assert 0 < last.base_offset < 6
    save_producers(log.folder, last.base_offset, solo.replica.producers.to_plain())
    for segment in log.segments[:-1]:
        segment.file.pool.close(segment.file)
    with no_descriptor():
        recover_producers(log, limits=ProducerLimits(), now_ms=0)
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
