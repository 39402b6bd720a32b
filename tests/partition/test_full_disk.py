"""A full disk: the leader refuses and keeps its log, a follower leaves the ISR and comes back when there is room."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from replication_support import World

from raftlog.broker.metrics import Metrics, exposition
from raftlog.errors import DiskFullError, ErrorCode, RaftlogError, StorageError, UnknownOutcomeError


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


def metrics(world: World, broker: int) -> str:
    return exposition(Metrics(), world.brokers[broker].manager)


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
        assert 'raftlog_refusing_replicas{reason="INSUFFICIENT_STORAGE"} 1' in metrics(world, 1)
        assert world.state.leader == 1

        disk.full = False
        assert await world.produce("after") == (1, False)
        assert "raftlog_refusing_replicas{" not in metrics(world, 1)
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
        assert 'raftlog_refusing_replicas{reason="INSUFFICIENT_STORAGE"} 1' in metrics(world, 3)
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
        assert 'raftlog_refusing_replicas{reason="INSUFFICIENT_STORAGE"} 1' in metrics(world, 2)

        full = False
        assert await world.produce("y", broker=2) == (1, False)
        assert world.brokers[2].replica.log.epochs.entries == ((0, 0), (1, 1))
        await world.until(lambda: all(b.values() == ["x", "y"] for b in world.brokers.values()))


class FailingSync:
    """While it fails, syncs of segments below some folders fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, number: int, *folders: Path) -> None:
        self.failing = False
        self.failed = 0
        real = os.fdatasync

        def fdatasync(descriptor: int) -> None:
            path = str(Path(f"/proc/self/fd/{descriptor}").readlink())
            if self.failing and path.endswith(".log") and path.startswith(tuple(f"{folder}/" for folder in folders)):
                self.failed += 1
                raise OSError(number, os.strerror(number))
            real(descriptor)

        monkeypatch.setattr(os, "fdatasync", fdatasync)


SYNC_ERRORS = pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EDQUOT], ids=errno.errorcode.get)


@SYNC_ERRORS
async def test_followers_whose_sync_fails_acknowledge_nothing_whatever_the_reason(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Quotas, NFS and thin volumes say ENOSPC or EDQUOT first when they sync: then the bytes may be gone."""
    disk = FailingSync(monkeypatch, number, tmp_path / "2", tmp_path / "3")
    async with World(tmp_path) as world:
        await world.produce("before")
        disk.failing = True
        with pytest.raises(RaftlogError) as caught:
            await world.produce("held by the leader alone", timeout_ms=4_000)
        assert disk.failed > 0
        assert not isinstance(caught.value, DiskFullError)
        assert world.brokers[1].replica.high_watermark == 1
        for broker in (2, 3):
            assert world.brokers[broker].replica.log.durable_end_offset == 1


@SYNC_ERRORS
async def test_a_leader_whose_sync_fails_acknowledges_nothing_whatever_the_reason(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    disk = FailingSync(monkeypatch, number, tmp_path / "1")
    async with World(tmp_path) as world:
        await world.produce("before")
        disk.failing = True
        with pytest.raises(UnknownOutcomeError, match="the leader's disk failed"):
            await world.produce("unsynced", timeout_ms=4_000)
        disk.failing = False
        failure = world.brokers[1].replica.log.failure
        assert failure is not None
        assert not isinstance(failure, DiskFullError)
        with pytest.raises(StorageError):  # A later sync would succeed without having written what was dropped.
            await world.produce("after")
        assert world.brokers[1].replica.high_watermark == 1


async def test_a_follower_whose_log_was_closed_promises_nothing_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
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
