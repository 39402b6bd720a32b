"""A full disk: the leader refuses appends, a follower leaves the ISR; both continue once there is space."""

from __future__ import annotations

import errno
import os
import resource
from contextlib import suppress
from pathlib import Path
from unittest.mock import Mock

import pytest
from replication_support import World

from raftlog.broker.metrics.replica_figures import show_replicas
from raftlog.config import TopicConfig
from raftlog.errors import DiskFullError, ErrorCode, RetriableError, StaleRouteError, UnknownOutcomeError
from raftlog.metrics import TABLE, Page
from raftlog.partition.metrics import PartitionMetrics
from raftlog.partition.storage.file_pool import FilePool
from raftlog.partition.storage.files import fsync_dir
from raftlog.partition.storage.log import PartitionLog
from raftlog.record import NewRecord, build_batch, stamp


class FullDisk:
    """While `full`, writes of segments below a folder fail, half-way."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.full = False
        real = os.pwrite

        def pwrite(descriptor: int, data: memoryview, position: int) -> int:
            path = str(Path(f"/proc/self/fd/{descriptor}").readlink())
            if self.full and path.startswith(f"{folder}/") and path.endswith(".log"):
                real(descriptor, data[: len(data) // 2], position)
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(descriptor, data, position)

        monkeypatch.setattr(os, "pwrite", pwrite)


async def metrics(world: World, broker: int) -> str:
    page = Page(TABLE)
    await show_replicas(page, world.brokers[broker].manager, PartitionMetrics(), detail=False)
    return page.text()


async def test_a_leader_without_room_appends_nothing_says_so_and_goes_on_when_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    disk = FullDisk(monkeypatch, tmp_path / "1")
    async with World(tmp_path) as world:
        await world.produce("before")
        disk.full = True
        with pytest.raises(DiskFullError) as caught:
            await world.produce("refused")
        assert (caught.value.code, caught.value.http_status) == (ErrorCode.INSUFFICIENT_STORAGE, 507)
        assert 'raftlog_refusing_replicas{reason="INSUFFICIENT_STORAGE"} 1' in await metrics(world, 1)
        assert world.state.leader == 1

        disk.full = False
        assert await world.produce("after") == (1, False)
        assert "raftlog_refusing_replicas{" not in await metrics(world, 1)
        await world.until(lambda: all(b.values() == ["before", "after"] for b in world.brokers.values()))


async def test_a_follower_without_room_leaves_the_isr_and_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    disk = FullDisk(monkeypatch, tmp_path / "3")
    async with World(tmp_path) as world:
        await world.produce("before")
        await world.until(lambda: world.brokers[3].replica.log.log_end_offset == 1)
        disk.full = True
        assert await world.produce("while it is full", timeout_ms=8_000) == (1, False)
        await world.until(lambda: world.state.isr == (1, 2) or set(world.state.isr) == {1, 2})
        assert world.brokers[3].values() == ["before"]
        assert 'raftlog_refusing_replicas{reason="INSUFFICIENT_STORAGE"} 1' in await metrics(world, 3)
        assert "No space left on device" in caplog.text

        disk.full = False
        await world.until(lambda: 3 in world.state.isr)
        assert world.brokers[3].values() == ["before", "while it is full"]


async def test_a_new_leader_without_room_for_its_epoch_appends_nothing_until_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    full = True
    real = os.replace

    def replace(source: Path, target: Path) -> None:
        if full and str(target).startswith(f"{tmp_path}/2/") and target.name == "leader-epochs.json":
            raise OSError(errno.ENOSPC, "No space left on device")
        real(source, target)

    async with World(tmp_path) as world:
        await world.produce("x")
        await world.until(lambda: all(b.replica.log.log_end_offset == 1 for b in world.brokers.values()))
        monkeypatch.setattr(os, "replace", replace)
        await world.elect(2, (1, 2, 3))
        with pytest.raises(DiskFullError):
            await world.produce("refused", broker=2)
        assert 'raftlog_refusing_replicas{reason="INSUFFICIENT_STORAGE"} 1' in await metrics(world, 2)

        full = False
        assert await world.produce("y", broker=2) == (1, False)
        assert world.brokers[2].replica.log.epochs.entries == ((0, 0), (1, 1))
        await world.until(lambda: all(b.values() == ["x", "y"] for b in world.brokers.values()))


class FailingSync:
    """While `number` is set, syncs of segments below these folders fail with it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *folders: Path) -> None:
        self.number = 0
        self.failed = 0
        real = os.fdatasync

        def fdatasync(descriptor: int) -> None:
            path = Path(f"/proc/self/fd/{descriptor}").readlink()
            if self.number and path.suffix == ".log" and any(path.is_relative_to(folder) for folder in folders):
                self.failed += 1
                raise OSError(self.number, os.strerror(self.number))
            real(descriptor)

        monkeypatch.setattr(os, "fdatasync", fdatasync)


SYNC_ERRORS = (errno.EIO, errno.ENOSPC, errno.EDQUOT)


@pytest.mark.parametrize("number", SYNC_ERRORS)
async def test_a_follower_whose_sync_failed_never_acknowledges_the_records(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Both followers' syncs fail: acks=all is not answered, whatever the reason, and the brokers are told to end."""
    disk = FailingSync(monkeypatch, tmp_path / "2", tmp_path / "3")
    async with World(tmp_path) as world:
        await world.produce("before")
        disk.number = number
        with pytest.raises(UnknownOutcomeError):
            await world.produce("nobody else holds it", timeout_ms=1_000)
        disk.number = 0
        known = world.brokers[1].replica.core
        assert known is not None
        assert (known.high_watermark, {name: f.end_offset for name, f in known.followers.items()}) == (1, {2: 1, 3: 1})
        assert disk.failed == 2, "a sync that failed is not tried again"
        for follower in (2, 3):
            (failure,) = world.brokers[follower].disk_failures
            assert not isinstance(failure, DiskFullError)
            assert world.brokers[follower].replica.log.failure is failure


@pytest.mark.parametrize("number", SYNC_ERRORS)
async def test_a_leader_whose_sync_has_failed_acknowledges_nothing_more(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    disk = FailingSync(monkeypatch, tmp_path / "1")
    async with World(tmp_path) as world:
        await world.produce("before")
        disk.number = number
        with pytest.raises(UnknownOutcomeError):
            await world.produce("not synced", timeout_ms=5_000)
        disk.number = 0
        with pytest.raises(StaleRouteError, match="nothing was appended") as refused:
            await world.produce("after")
        assert refused.value.code is ErrorCode.LEADER_NOT_AVAILABLE, "producers send it to the next leader"
        assert disk.failed == 1
        assert all(failure is refused.value.__cause__ for failure in world.brokers[1].disk_failures)
        assert world.brokers[1].disk_failures
        assert world.brokers[1].replica.high_watermark == 1


@pytest.mark.parametrize("undone", [True, False])
async def test_a_producer_sends_again_what_a_leader_could_not_write(
    *, undone: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The batch is not in the log for certain only if the partial write was removed. The producer's error was final."""
    async with World(tmp_path) as world:
        await world.produce("before")
        gone = Mock(side_effect=OSError(errno.EIO, "Input/output error"))
        with monkeypatch.context() as patched:
            patched.setattr(os, "pwrite", gone)
            if not undone:
                patched.setattr(os, "ftruncate", gone)
            with pytest.raises(RetriableError) as refused:
                await world.produce("after")
        assert isinstance(refused.value, StaleRouteError if undone else UnknownOutcomeError), refused.value
        assert (world.brokers[1].replica.log.log_end_offset, len(world.brokers[1].disk_failures)) == (1, 1)


async def test_a_follower_acknowledges_nothing_after_its_log_was_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The partition was deleted here, or the broker stops, between an append and its sync."""
    async with World(tmp_path) as world:
        await world.produce("before")
        follower = world.brokers[2].replica
        await world.until(lambda: world.brokers[2].replica.log.durable_end_offset == 1)
        real = follower.append_fetched

        def append_and_close(batches: memoryview) -> None:
            real(batches)
            follower.log.close()

        monkeypatch.setattr(follower, "append_fetched", append_and_close, raising=False)
        core = world.brokers[1].replica.core
        assert core is not None
        with pytest.raises(UnknownOutcomeError):
            await world.produce("x", timeout_ms=500)
        assert (follower.log.log_end_offset, follower.log.durable_end_offset) == (2, 1)
        assert core.followers[2].end_offset == 1


async def test_a_broker_without_a_free_descriptor_syncs_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """It ended: the first sync of a log opens its folder, and thousands of logs were written to at once."""
    refused, opened = list[str](), os.open

    def few(path: os.PathLike[str] | str, flags: int, *mode: int) -> int:
        if flags & os.O_DIRECTORY and len(refused) < 5:
            refused.append(str(path))
            raise OSError(errno.EMFILE, "Too many open files")
        return opened(path, flags, *mode)

    async with World(tmp_path) as world:
        with monkeypatch.context() as patched:
            patched.setattr(os, "open", few)
            assert await world.produce("x", timeout_ms=10_000) == (0, False)
        await world.until(lambda: all(one.values() == ["x"] for one in world.brokers.values()))
        assert len(refused) == 5
        assert [one.disk_failures for one in world.brokers.values()] == [[], [], []]


def test_what_lacked_a_descriptor_is_synced_by_the_next_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    log = PartitionLog.open(tmp_path / "p", TopicConfig())
    log.append(first := build_batch([NewRecord(b"x")]))
    log.fsync()
    second = bytearray(first)
    stamp(second, base_offset=1, leader_epoch=0)
    log.append(second)
    with monkeypatch.context() as patched:
        patched.setattr(FilePool, "acquire", Mock(side_effect=OSError(errno.EMFILE, "Too many open files")))
        with pytest.raises(DiskFullError):
            log.fsync()
    assert (log.durable_end_offset, log.failure) == (1, None)
    synced, fdatasync = [], os.fdatasync
    monkeypatch.setattr(os, "fdatasync", lambda descriptor: synced.append(descriptor) or fdatasync(descriptor))
    assert log.fsync() == 2
    assert len(synced) == 1
    log.close()


def test_a_folder_is_synced_while_no_descriptor_is_free(tmp_path: Path):
    """Files with unsynced bytes stay open: if they hold all descriptors, only their syncs can free some."""
    fsync_dir(tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = list[int]()
    try:
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (max(int(path.name) for path in Path("/proc/self/fd").iterdir()) + 10, hard)
        )
        with suppress(OSError):
            while True:
                held.append(os.open(tmp_path, os.O_RDONLY))
        for _ in range(3):
            fsync_dir(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for descriptor in held:
            os.close(descriptor)
    assert held
