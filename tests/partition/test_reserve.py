"""A full disk keeps no records from being deleted: the reserve gives room for the files that a deletion writes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from replication_support import World

from raftlog.errors import DiskFullError
from raftlog.partition import log_maintenance
from raftlog.partition.storage import data_dir, producer_snapshots, reserve
from raftlog.partition.storage.checkpoint import Checkpoint
from raftlog.partition.storage.data_dir import DataDir
from raftlog.partition.storage.reserve import RESERVE_BYTES, make_reserve, with_reserve


@pytest.fixture(autouse=True)
def room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a test's disk have room, whatever the machine's has."""
    monkeypatch.setattr(reserve, "FREE_FOR_RESERVE_BYTES", 0)


def fill_the_disk(monkeypatch: pytest.MonkeyPatch, *reserves: Path) -> None:
    """Refuse small files as long as a reserve takes the last blocks."""

    def full_until_freed(real: Callable[..., Any]) -> Callable[..., Any]:
        def write(*args: Any, **options: Any) -> Any:
            if any(path.exists() for path in reserves):
                raise DiskFullError("no space left on device")
            return real(*args, **options)

        return write

    monkeypatch.setattr(Checkpoint, "save", full_until_freed(Checkpoint.save))
    monkeypatch.setattr(producer_snapshots, "atomic_write", full_until_freed(producer_snapshots.atomic_write))
    monkeypatch.setattr(data_dir, "write_json", full_until_freed(data_dir.write_json))


def test_the_reserve_has_its_blocks(tmp_path: Path):
    make_reserve(tmp_path)
    assert (tmp_path / "reserve").stat().st_blocks * 512 >= RESERVE_BYTES


def test_a_disk_that_is_nearly_full_has_no_reserve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reserve, "FREE_FOR_RESERVE_BYTES", shutil.disk_usage(tmp_path).total + 1)
    make_reserve(tmp_path)
    assert not (tmp_path / "reserve").exists()


def test_without_a_reserve_the_step_is_refused(tmp_path: Path):
    def step() -> None:
        raise DiskFullError("no space left on device")

    with pytest.raises(DiskFullError):
        with_reserve(tmp_path, step)


async def test_retention_goes_on_where_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async with World(tmp_path, configs={"segment_bytes": 4096, "retention_bytes": 4096}) as world:
        for number in range(12):
            await world.produce("x" * 1000, producer_id=7, producer_epoch=0, base_sequence=number)
        replica = world.brokers[1].replica
        log_maintenance._make_reserves({tmp_path / "1"})
        fill_the_disk(monkeypatch, tmp_path / "1" / "reserve")
        await world.brokers[1].manager._upkeep._retain(replica)
        assert replica.log.log_start_offset > 0


async def test_records_are_deleted_where_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async with World(tmp_path) as world:
        await world.produce("a", producer_id=7, producer_epoch=0, base_sequence=0)
        await world.produce("b")
        make_reserve(tmp_path / "1")
        fill_the_disk(monkeypatch, tmp_path / "1" / "reserve")
        world.brokers[1].replica.delete_before(1, 2)
        assert world.brokers[1].values() == ["b"]


def test_a_broker_starts_where_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    DataDir.open(tmp_path / "d", cluster_id="c", node_id=1).close()
    make_reserve(tmp_path / "d")
    fill_the_disk(monkeypatch, tmp_path / "d" / "reserve")
    DataDir.open(tmp_path / "d", cluster_id="c", node_id=1).close()
