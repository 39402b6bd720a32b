"""Logs and folders of deleted topics, on a full disk or without a free descriptor: they are tried again."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from replication_support import World

from raftlog.errors import DamagedDataError, DiskFullError, StorageError
from raftlog.model import PartitionAssignment
from raftlog.partition import replica_manager
from raftlog.partition.log_opener import LogOpener
from raftlog.partition.storage import data_dir
from raftlog.partition.storage.data_dir import DataDir


def refusal(number: int) -> Mock:
    return Mock(side_effect=OSError(number, os.strerror(number)))


@pytest.mark.parametrize(
    ("call", "number"),
    [("rename", errno.ENOSPC), ("rename", errno.EMFILE), ("listdir", errno.EMFILE), ("listdir", errno.ENFILE)],
)
@pytest.mark.parametrize("stray", [False, True])
async def test_a_folder_that_cannot_be_set_aside_now_is_tried_again_and_logged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog, call: str, number: int, stray: bool
):
    """The broker ended, as if its disk had failed."""
    async with World(tmp_path) as world:
        await world.produce("x")
        if stray:
            await world.stop(1)
            await world.start(1)
        else:
            await world.push(complete=True)
        manager, folder = world.brokers[1].manager, tmp_path / "1" / "partitions"
        with monkeypatch.context() as patched:
            patched.setattr(data_dir.os, call, refusal(number))
            for _ in range(3):
                await manager.apply([], world.registrations(), complete=True)
        assert manager.has_unfinished
        assert caplog.text.count(os.strerror(number)) == 1
        assert [path.name for path in folder.iterdir()] == [f"t-0-{world.topic_id}"]

        await manager.apply([], world.registrations(), complete=True)
        assert not manager.has_unfinished
        left = [f"t-0-{world.topic_id}.stray"] if stray else []
        await world.until(lambda: [path.name for path in folder.iterdir()] == left)


async def test_a_log_that_a_full_disk_kept_closed_is_opened_again_without_new_metadata(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Found by seed 3233 of the simulator: the metadata did not change after the disk had room, for 90 s."""
    monkeypatch.setattr(replica_manager, "RETRY_S", 0.05)
    async with World(tmp_path) as world:
        await world.produce("x")
        await world.stop(3)
        is_full, real = True, LogOpener.open

        async def opened(self: LogOpener, *arguments: Any) -> Any:
            if is_full:
                raise DiskFullError("No space left on device")
            return await real(self, *arguments)

        monkeypatch.setattr(LogOpener, "open", opened)
        await world.start(3)
        await world.push(to={3})
        manager = world.brokers[3].manager
        assert len(manager.offline) == 1
        is_full = False
        await world.until(lambda: not manager.offline)
        await world.until(lambda: world.brokers[3].values() == ["x"])


async def test_a_folder_that_could_not_be_set_aside_goes_without_new_metadata(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async with World(tmp_path) as world:
        await world.produce("x")
        await world.push(complete=True)
        manager, folder = world.brokers[1].manager, tmp_path / "1" / "partitions"
        with monkeypatch.context() as patched:
            patched.setattr(data_dir.os, "rename", refusal(errno.ENOSPC))
            await manager.apply([], world.registrations(), complete=True)
        assert manager.has_unfinished
        await manager._retry()
        assert not manager.has_unfinished
        await world.until(lambda: not any(folder.iterdir()))


async def test_a_disk_that_fails_at_a_retry_ends_the_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async with World(tmp_path) as world:
        await world.produce("x")
        await world.push(complete=True)
        broker = world.brokers[1]
        with monkeypatch.context() as patched:
            patched.setattr(data_dir.os, "rename", refusal(errno.ENOSPC))
            await broker.manager.apply([], world.registrations(), complete=True)
            patched.setattr(data_dir.os, "rename", refusal(errno.EIO))
            await broker.manager._retry()
        assert len(broker.disk_failures) == 1


@pytest.mark.parametrize("call", ["rename", "listdir"])
async def test_a_disk_that_cannot_set_a_folder_aside_ends_the_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
):
    async with World(tmp_path) as world:
        await world.produce("x")
        await world.push(complete=True)
        with monkeypatch.context() as patched:
            patched.setattr(data_dir.os, call, refusal(errno.EIO))
            with pytest.raises(StorageError, match="Input/output error"):
                await world.brokers[1].manager.apply([], world.registrations(), complete=True)


async def test_a_damaged_log_that_cannot_be_set_aside_now_is_offline_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    real, refused = DataDir.quarantine, list[str]()

    def quarantine(self: DataDir, folder: Path) -> Path:
        refused.append(folder.name)
        with monkeypatch.context() as patched:
            if len(refused) == 1:
                patched.setattr(data_dir.os, "listdir", refusal(errno.EMFILE))
            return real(self, folder)

    async with World(tmp_path) as world:
        await world.produce("x")
        await world.stop(3)
        await world.start(3)
        manager = world.brokers[3].manager
        monkeypatch.setattr(DataDir, "quarantine", quarantine)
        opened = LogOpener.open

        async def damaged(self: LogOpener, *arguments: object) -> object:
            if len(refused) < 2:
                raise DamagedDataError("damaged")
            return await opened(self, *arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(LogOpener, "open", damaged)
        state = replace(world.state, isr=(1, 2))
        assignment = PartitionAssignment(topic="t", topic_id=world.topic_id, partition=0, state=state)
        await manager._open(assignment, unrepairable=True)
        assert "Too many open files" in str(manager.offline[assignment.key])
        await manager._open(assignment, unrepairable=True)
        assert list(manager.offline) == []
