"""A full disk keeps no records from being deleted: the reserve gives room for the files that a deletion writes."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from replication_support import World

from raftlog.errors import DiskFullError
from raftlog.partition import log_maintenance
from raftlog.partition.storage import data_dir, producer_snapshots, reserve
from raftlog.partition.storage.checkpoint import Checkpoint
from raftlog.partition.storage.data_dir import DataDir
from raftlog.partition.storage.files import storage_error
from raftlog.partition.storage.reserve import MOST_SLICES, RESERVE_BYTES, SLICE_BYTES, make_reserve, with_reserve


@pytest.fixture(autouse=True)
def room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a test's disk have room, whatever the machine's has."""
    monkeypatch.setattr(reserve, "FREE_FOR_RESERVE_BYTES", 0)


def fill_the_disk(monkeypatch: pytest.MonkeyPatch, *reserves: Path) -> None:
    """Refuse small files as long as a reserve takes the blocks that it takes now."""
    sizes = {path: path.stat().st_size for path in reserves}

    def full_until_freed(real: Callable[..., Any]) -> Callable[..., Any]:
        def write(*args: Any, **options: Any) -> Any:
            if any(path.exists() and path.stat().st_size >= size for path, size in sizes.items()):
                raise DiskFullError("no space left on device")
            return real(*args, **options)

        return write

    monkeypatch.setattr(Checkpoint, "save", full_until_freed(Checkpoint.save))
    monkeypatch.setattr(producer_snapshots, "atomic_write", full_until_freed(producer_snapshots.atomic_write))
    monkeypatch.setattr(data_dir, "write_json", full_until_freed(data_dir.write_json))


def numbers(producer: int, sequence: int) -> dict[str, int]:
    """Return the numbers of a batch; -1: of a producer that is not idempotent."""
    return {} if producer < 0 else {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence}


def test_the_reserve_has_its_blocks(tmp_path: Path):
    make_reserve(tmp_path)
    assert (tmp_path / "reserve").stat().st_blocks * 512 >= RESERVE_BYTES


def test_a_disk_that_is_nearly_full_has_no_reserve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reserve, "FREE_FOR_RESERVE_BYTES", shutil.disk_usage(tmp_path).total + 1)
    make_reserve(tmp_path)
    assert not (tmp_path / "reserve").exists()


def test_a_reserve_that_is_half_made_or_half_used_is_completed(tmp_path: Path):
    for size in (0, SLICE_BYTES):
        (tmp_path / "reserve").write_bytes(bytes(size))
        make_reserve(tmp_path)
        assert (tmp_path / "reserve").stat().st_blocks * 512 >= RESERVE_BYTES


def test_the_reserve_lasts_for_many_steps_although_appends_take_what_each_leaves(tmp_path: Path):
    make_reserve(tmp_path)
    path, steps = tmp_path / "reserve", 0

    def needs_a_slice() -> None:
        if path.exists() and path.stat().st_size >= full_at:
            raise DiskFullError("no space left on device")

    while path.exists():
        full_at = path.stat().st_size
        with_reserve(tmp_path, needs_a_slice)
        steps += 1
    assert steps == RESERVE_BYTES // SLICE_BYTES


def test_one_step_may_not_use_all_of_the_reserve(tmp_path: Path):
    make_reserve(tmp_path)

    def step() -> None:
        raise DiskFullError("no space left on device")

    with pytest.raises(DiskFullError):
        with_reserve(tmp_path, step)
    assert (tmp_path / "reserve").stat().st_size == RESERVE_BYTES - MOST_SLICES * SLICE_BYTES


def test_a_lack_of_descriptors_frees_nothing(tmp_path: Path):
    make_reserve(tmp_path)

    def step() -> None:
        error = OSError(errno.EMFILE, "too many open files")
        raise storage_error(error, "cannot write") from error

    with pytest.raises(DiskFullError):
        with_reserve(tmp_path, step)
    assert (tmp_path / "reserve").stat().st_size == RESERVE_BYTES


def test_a_reserve_that_did_not_fit_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What it had would be given up for nothing, and it would never be made again."""
    full = OSError(errno.ENOSPC, "No space left on device")
    with monkeypatch.context() as patched:
        patched.setattr(os, "posix_fallocate", Mock(side_effect=full))
        make_reserve(tmp_path)
    assert not (tmp_path / "reserve").exists()
    (tmp_path / "reserve").write_bytes(bytes(SLICE_BYTES))
    with monkeypatch.context() as patched:
        patched.setattr(os, "posix_fallocate", Mock(side_effect=full))
        make_reserve(tmp_path)
    assert (tmp_path / "reserve").stat().st_size == SLICE_BYTES  # What is left of one stays.
    make_reserve(tmp_path)
    assert (tmp_path / "reserve").exists()


async def test_a_reserve_that_was_freed_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    looked, loop, real = asyncio.Queue[None](), asyncio.get_running_loop(), log_maintenance._make_reserves

    def making(folders: Iterable[Path]) -> None:
        real(folders)
        loop.call_soon_threadsafe(looked.put_nowait, None)

    monkeypatch.setattr(log_maintenance, "_make_reserves", making)
    async with World(tmp_path) as world, asyncio.timeout(10):
        upkeep = world.brokers[1].manager._upkeep
        upkeep._retention_check_interval_s = 0.001
        regularly = asyncio.create_task(upkeep.retain_regularly())
        for _ in range(2):
            while not (tmp_path / "1" / "reserve").exists():
                await looked.get()
            (tmp_path / "1" / "reserve").unlink()
        regularly.cancel()


def test_without_a_reserve_the_step_is_refused(tmp_path: Path):
    def step() -> None:
        raise DiskFullError("no space left on device")

    with pytest.raises(DiskFullError):
        with_reserve(tmp_path, step)


@pytest.mark.parametrize("producer", [7, -1], ids=["idempotent", "other"])
async def test_retention_goes_on_where_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, producer: int):
    """Without an idempotent producer the checkpoint is the first file that does not fit."""
    async with World(tmp_path, configs={"segment_bytes": 4096, "retention_bytes": 4096}) as world:
        for number in range(12):
            await world.produce("x" * 1000, **numbers(producer, number))
        replica = world.brokers[1].replica
        log_maintenance._make_reserves([replica.log.folder])
        fill_the_disk(monkeypatch, tmp_path / "1" / "reserve")
        await world.brokers[1].manager._upkeep._retain(replica)
        assert replica.log.log_start_offset > 0


@pytest.mark.parametrize("retention", [{"retention_bytes": 4096}, {"retention_ms": 1}])
async def test_without_a_reserve_retention_uses_the_space_of_indexes(
    retention: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Nothing is written to free it. The active segment has expired, too, in the second case."""
    async with World(tmp_path, configs={"segment_bytes": 4096} | retention) as world:
        for number in range(12):
            await world.produce("x" * 1000, producer_id=7, producer_epoch=0, base_sequence=number)
        replica = world.brokers[1].replica
        replica.log.checkpoint(replica.high_watermark, closing=True)
        first = replica.log.segments[0]
        fill_the_disk(monkeypatch, first.index_path)
        await world.brokers[1].manager._upkeep._retain(replica)
        assert replica.log.log_start_offset > 0


async def test_without_reserve_and_indexes_nothing_is_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async with World(tmp_path, configs={"segment_bytes": 4096, "retention_bytes": 4096}) as world:
        for number in range(12):
            await world.produce("x" * 1000, producer_id=7, producer_epoch=0, base_sequence=number)
        replica = world.brokers[1].replica
        replica.log.checkpoint(replica.high_watermark, closing=True)
        fill_the_disk(monkeypatch, tmp_path)
        for _ in range(2):
            with pytest.raises(DiskFullError):
                await world.brokers[1].manager._upkeep._retain(replica)
        assert replica.log.log_start_offset == 0
        assert len(world.brokers[1].values()) == 12
        monkeypatch.undo()
        await world.brokers[1].manager._upkeep._retain(replica)
        assert replica.log.log_start_offset > 0


@pytest.mark.parametrize("producer", [7, -1], ids=["idempotent", "other"])
async def test_records_are_deleted_where_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, producer: int
):
    async with World(tmp_path) as world:
        await world.produce("a", **numbers(producer, 0))
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
