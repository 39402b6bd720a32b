"""A damaged log that a full disk keeps from being put aside is fetched again once there is room."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path
from unittest.mock import AsyncMock, Mock

import pytest
from replication_support import World

from raftlog.errors import DiskFullError, StorageError
from raftlog.model import NO_LEADER
from raftlog.partition import replica_manager
from raftlog.partition.damage import Damage
from raftlog.partition.replica_manager import ReplicaManager
from raftlog.partition.storage import data_dir
from raftlog.partition.storage.data_dir import quarantine, quarantined_logs

FULL = OSError(errno.ENOSPC, "No space left on device")


def damaged_log(folder: Path) -> Path:
    folder.mkdir()
    (folder / "0.log").write_bytes(b"damaged")
    return folder


def test_a_quarantine_that_a_full_disk_interrupted_goes_on(tmp_path: Path):
    folder = damaged_log(tmp_path / "t-0")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Path, "mkdir", Mock(side_effect=FULL))
        with pytest.raises(DiskFullError):
            quarantine(folder)
    assert not folder.exists()
    aside = quarantine(folder)
    assert (aside / "0.log").read_bytes() == b"damaged"
    assert (quarantined_logs(folder), list(folder.iterdir())) == ([aside], [])


def test_a_log_that_is_not_there_is_not_quarantined(tmp_path: Path):
    with pytest.raises(StorageError, match="cannot put"):
        quarantine(tmp_path / "t-0")


def test_old_quarantined_logs_that_cannot_be_listed_keep_no_log_from_being_put_aside(tmp_path: Path):
    folder = damaged_log(tmp_path / "t-0")
    real, listed = data_dir.quarantined_logs, list[Path]()

    def failing(folder: Path) -> list[Path]:
        listed.append(folder)
        if len(listed) > 1:
            raise OSError(errno.EIO, "Input/output error")
        return real(folder)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(data_dir, "quarantined_logs", failing)
        assert quarantine(folder).exists()
    assert len(listed) == 2


@pytest.mark.parametrize("changes", [0, 1], ids=["retried", "retried-after-metadata"])
async def test_a_replica_whose_log_could_not_be_put_aside_is_fetched_again_once_there_is_room(
    changes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A full disk had no room for the new folder: the replica stayed offline until the broker was restarted."""
    monkeypatch.setattr(replica_manager, "RETRY_S", 0.05)
    async with World(tmp_path) as world:
        await world.produce("value")
        await world.until(lambda: all(broker.replica.log.log_end_offset == 1 for broker in world.brokers.values()))
        manager, key = world.brokers[3].manager, world.brokers[3].replica.assignment.key
        manager.damage.note(key, Damage(0, 0, "no replica has it"))
        manager.damage.mark_unrepairable(key)
        with monkeypatch.context() as patched:
            patched.setattr(Path, "mkdir", Mock(side_effect=FULL))
            await world.elect(1, (1, 2))
            for _ in range(changes):
                world.state = replace(world.state, partition_epoch=world.state.partition_epoch + 1)
                await world.push()
            assert isinstance(manager.offline[key], DiskFullError)
        await world.until(lambda: 3 in world.state.isr)
        assert world.brokers[3].values() == ["value"]
        assert (manager.quarantined, len(manager.damage), dict(manager.offline)) == (1, 0, {})


async def without_room(world: World, patched: pytest.MonkeyPatch) -> ReplicaManager:
    """Return the manager of broker 3, whose damaged log a full disk keeps from being put aside."""
    await world.produce("value")
    await world.until(lambda: all(broker.replica.log.log_end_offset == 1 for broker in world.brokers.values()))
    manager, key = world.brokers[3].manager, world.brokers[3].replica.assignment.key
    manager.damage.note(key, Damage(0, 0, "no replica has it"))
    manager.damage.mark_unrepairable(key)
    patched.setattr(manager._logs, "quarantine", AsyncMock(side_effect=DiskFullError("no space left on device")))
    await world.elect(1, (1, 2))
    assert isinstance(manager.offline[key], DiskFullError)
    return manager


async def test_a_damaged_log_is_not_opened_while_there_is_no_room_to_put_it_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async with World(tmp_path) as world:
        with monkeypatch.context() as patched:
            manager = await without_room(world, patched)
            await manager._retry()
            assert (list(manager.replicas), len(manager.offline), len(manager.damage)) == ([], 1, 1)


async def test_a_log_that_is_relied_upon_again_is_not_put_aside_once_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async with World(tmp_path) as world:
        with monkeypatch.context() as patched:
            manager = await without_room(world, patched)
            world.state = replace(
                world.state, leader=NO_LEADER, isr=(), elr=(3,), partition_epoch=world.state.partition_epoch + 1
            )
            await world.push()
        await manager._retry()
        assert (manager.quarantined, len(manager.offline)) == (0, 1)
