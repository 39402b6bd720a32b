"""A block that the disk cannot read is damage of one log, like a wrong checksum; a failed write or sync is not."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from replica_support import Solo
from replication_support import World

from raftlog.config import TopicConfig
from raftlog.errors import DamagedDataError, StorageError
from raftlog.partition.core.producers import ProducerLimits
from raftlog.partition.storage.log import PartitionLog
from raftlog.partition.storage.producer_snapshots import recover_producers, save_producers
from raftlog.record import NewRecord, build_batch, stamp

UNREADABLE = [errno.EIO, errno.ENODATA, errno.EUCLEAN, errno.EBADMSG]


def batch_at(offset: int) -> bytearray:
    batch = bytearray(build_batch([NewRecord(b"x" * 5_000)]))
    stamp(batch, base_offset=offset, leader_epoch=0)
    return batch


@contextmanager
def bad_block(position: int, number: int = errno.EIO, suffix: str = ".log", folder: str = "t-0") -> Iterator[None]:
    """Let every read that covers a byte of a file in a folder of this name fail."""
    real = os.pread

    def pread(descriptor: int, length: int, start: int) -> bytes:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if path.name.endswith(suffix) and path.parent.name == folder and start <= position < start + length:
            raise OSError(number, os.strerror(number))
        return real(descriptor, length, start)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(os, "pread", pread)
        yield


def follower(folder: Path) -> tuple[Solo, int]:
    """Return a follower with four batches, and the size of each."""
    solo = Solo(folder, leader=2)
    for offset in range(4):
        solo.replica.log.append(batch_at(offset))
    solo.replica.log.fsync()
    return solo, solo.replica.log.size_bytes // 4


@pytest.mark.parametrize("number", UNREADABLE)
async def test_a_block_that_keeps_a_log_from_being_truncated_is_damage_and_ends_no_broker(tmp_path: Path, number: int):
    solo, size = follower(tmp_path)
    with bad_block(2 * size, number), pytest.raises(DamagedDataError, match="cannot be truncated"):
        solo.replica.truncate_to(2)
    assert isinstance(solo.replica.log.failure, DamagedDataError)
    assert solo.replica.damage is not None
    assert solo.failures == []
    await solo.close()


async def test_a_write_that_fails_in_a_truncation_ends_the_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    solo, _ = follower(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(os, "ftruncate", Mock(side_effect=OSError(errno.EIO, "Input/output error")))
        with pytest.raises(StorageError, match="cannot truncate"):
            solo.replica.truncate_to(2)
    assert solo.replica.damage is None
    assert len(solo.failures) == 1
    await solo.close()


async def test_an_append_that_cannot_be_written_ends_the_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    solo, _ = follower(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", Mock(side_effect=OSError(errno.EIO, "Input/output error")))
        with pytest.raises(StorageError, match="nothing was appended"):
            solo.replica.append_fetched(batch_at(4))
    assert solo.replica.damage is None
    assert len(solo.failures) == 1
    await solo.close()


def reopened(folder: Path, *, power_lost: bool = False) -> PartitionLog:
    return PartitionLog.open(folder / "t-0", TopicConfig(), power_lost=power_lost)


@pytest.mark.parametrize("number", UNREADABLE)
@pytest.mark.parametrize("power_lost", [False, True])
@pytest.mark.parametrize(
    ("synced", "batch", "inside"),
    [(False, 1, 0), (False, 1, 4_500), (False, 3, 0), (False, 3, 4_500), (True, 1, 0), (True, 3, 0)],
)
async def test_a_log_with_a_block_that_cannot_be_read_does_not_open_and_is_repaired(
    tmp_path: Path, number: int, synced: bool, power_lost: bool, batch: int, inside: int
):
    """It was a failure of the disk, for which no repair begins. Nothing is cut, also not at the log's end."""
    solo, size = follower(tmp_path)
    if synced:
        solo.replica.log.checkpoint(0, closing=True)
    await solo.close()
    for index in (tmp_path / "t-0").glob("*.index"):
        index.unlink()
    segment = next((tmp_path / "t-0").glob("*.log"))
    whole = segment.read_bytes()
    with bad_block(batch * size + inside, number), pytest.raises(DamagedDataError) as caught:
        reopened(tmp_path, power_lost=power_lost)
    assert segment.read_bytes() == whole
    assert caught.value.details == {"damaged_at": batch}, "the repair begins there"
    log = reopened(tmp_path, power_lost=power_lost)
    assert log.log_end_offset == 4
    log.close()


@pytest.mark.parametrize("number", UNREADABLE)
async def test_a_table_of_epochs_that_cannot_be_read_is_rebuilt_from_the_log(tmp_path: Path, number: int):
    """As a table with a wrong checksum is."""
    solo, _ = follower(tmp_path)
    solo.replica.log.checkpoint(0, closing=True)
    await solo.close()
    with bad_block(0, number, suffix="leader-epochs.json"):
        log = reopened(tmp_path)
    assert (log.epochs.entries, log.log_end_offset) == (((0, 0),), 4)
    log.close()


async def test_a_replica_whose_checkpoint_cannot_be_read_is_fetched_again(tmp_path: Path):
    async with World(tmp_path) as world:
        await world.produce("a")
        await world.until(lambda: world.brokers[3].replica.high_watermark == 1)
        await world.stop(3)
        world.epochs[3] += 10
        world.state = replace(world.state, isr=(1, 2), partition_epoch=world.state.partition_epoch + 1)
        await world.start(3)
        manager = world.brokers[3].manager
        with bad_block(0, suffix="checkpoint.json", folder="t-0-" + world.topic_id):
            await world.push()
            await world.until(lambda: manager.quarantined == 1)
        await world.until(lambda: not manager.offline and world.brokers[3].values() == ["a"])


async def test_a_block_that_could_be_read_at_last_is_no_lost_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """After a power loss a batch with sectors of zeros looks like one. An intact batch may have them, too."""
    solo, size = follower(tmp_path)
    await solo.close()
    monkeypatch.setattr("raftlog.partition.storage.recovery.write_was_lost", lambda *_: True)
    with bad_block(3 * size), pytest.raises(DamagedDataError):
        reopened(tmp_path, power_lost=True)
    assert next((tmp_path / "t-0").glob("*.log")).stat().st_size == 4 * size


async def test_a_tail_that_cannot_be_read_again_is_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The batch was verified from the page cache, or in larger blocks; then it has to be written again."""
    solo, size = follower(tmp_path)
    await solo.close()
    monkeypatch.setattr("raftlog.partition.storage.segment._CHUNK_BYTES", 4_096)
    real, reads = os.pread, list[int]()

    def pread(descriptor: int, length: int, start: int) -> bytes:
        if length <= 4_096 and start > 3 * size:
            reads.append(start)
            raise OSError(errno.EIO, "Input/output error")
        return real(descriptor, length, start)

    with monkeypatch.context() as patched:
        patched.setattr(os, "pread", pread)
        with pytest.raises(DamagedDataError):
            reopened(tmp_path)
    assert reads


async def test_a_snapshot_that_cannot_be_read_is_rebuilt_from_the_log(tmp_path: Path):
    solo, _ = follower(tmp_path)
    log = solo.replica.log
    save_producers(log.folder, 4, solo.replica.producers.to_plain())
    with bad_block(0, suffix=".producers"):
        recover_producers(log, limits=ProducerLimits(), now_ms=0)
    assert list(log.folder.glob("*.producers")) == []
    await solo.close()
