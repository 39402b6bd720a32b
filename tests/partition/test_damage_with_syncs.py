"""Damage that keeps a log from being truncated, and syncs of that log: only a failed disk ends the broker."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from replica_support import Solo

from raftlog.config import ReplicationConfig
from raftlog.errors import DamagedDataError, DiskFullError, UnreachableError
from raftlog.model import Address
from raftlog.partition import follower_replica
from raftlog.partition.core.producers import ProducerStates
from raftlog.partition.fetcher import LeaderFetcher
from raftlog.partition.storage.retention import DelayedDeletes
from raftlog.record import NewRecord, build_batch, stamp


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not holds():
            await asyncio.sleep(0.005)


def batch_at(offset: int) -> bytearray:
    batch = bytearray(build_batch([NewRecord(b"x" * 100)]))
    stamp(batch, base_offset=offset, leader_epoch=0)
    return batch


def damage(folder: Path, number: int = 0) -> None:
    """Change a bit of a batch's header, of batches from `batch_at`."""
    segment = next((folder / "t-0").glob("*.log"))
    content = bytearray(segment.read_bytes())
    content[number * len(batch_at(0)) + 8] ^= 1
    segment.write_bytes(content)


class SlowSync:
    """Syncs wait until `go`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.began, self.go = 0, threading.Event()
        real = os.fdatasync

        def fdatasync(descriptor: int) -> None:
            self.began += 1
            assert self.go.wait(10)
            real(descriptor)

        monkeypatch.setattr(os, "fdatasync", fdatasync)


async def test_a_former_leader_that_syncs_on_and_cannot_be_truncated_ends_no_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Found by seed 832 of the simulator: a leader was paused; as a follower it met damage while its sync went on."""
    solo, slow = Solo(tmp_path), SlowSync(monkeypatch)
    await solo.append("x", acks=0)
    await until(lambda: slow.began == 1)
    await solo.append("y", acks=0)  # It waits for another sync.
    damage(tmp_path)
    solo.change(leader=2, leader_epoch=1)
    with pytest.raises(DamagedDataError, match="cannot be truncated"):
        solo.replica.truncate_to(1)
    slow.go.set()
    await until(lambda: not solo.tasks._tasks)  # The sync has ended.
    assert solo.replica.damage is not None
    assert solo.failures == []
    await solo.close()


async def test_damage_above_a_truncation_does_not_matter(tmp_path: Path):
    solo = Solo(tmp_path, leader=2)
    for offset in range(4):
        solo.replica.log.append(batch_at(offset))
    damage(tmp_path, 3)
    solo.replica.truncate_to(2)
    assert (solo.replica.log.log_end_offset, solo.replica.damage, solo.failures) == (2, None, [])
    await solo.close()


async def test_a_replica_whose_producers_are_unknown_at_a_truncation_acknowledges_no_repeat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """It kept the states of before: as the next leader it would have called a removed batch a repeat."""
    solo = Solo(tmp_path, leader=2)
    for offset in range(2):
        solo.replica.log.append(batch_at(offset))

    def damaged(*_: object, **__: object) -> ProducerStates:
        raise DamagedDataError("a batch is damaged")

    with monkeypatch.context() as patched:
        patched.setattr(follower_replica, "recover_producers", damaged)
        with pytest.raises(DamagedDataError, match=r"the producers of .* are unknown: a batch is damaged"):
            solo.replica.truncate_to(1)
    assert (solo.replica.log.log_end_offset, solo.failures) == (2, []), "it was not cut"
    assert solo.replica.damage is not None, "it is repaired or fetched again"
    with pytest.raises(DamagedDataError):
        solo.replica.log.append(batch_at(1))
    await solo.close()


class Silent:
    """A leader that cannot be reached; notes which partitions are requested."""

    def __init__(self) -> None:
        self.requested: list[int] = []

    async def call_frame(self, *_: Any, message: Any, **__: Any) -> Any:
        self.requested.append(len(message.partitions))
        raise UnreachableError("no such broker")


async def pull(solo: Solo, leader: Silent) -> None:
    """Follow broker 2 until it was asked twice, or the replica is not followed any more."""
    fetcher = LeaderFetcher(
        SimpleNamespace(broker_id=2, internal=Address("127.0.0.1", 1)),  # type: ignore[arg-type]
        local=SimpleNamespace(broker_id=1, broker_epoch=7),  # type: ignore[arg-type]
        session=leader,  # type: ignore[arg-type]
        config=ReplicationConfig(replica_fetch_backoff_ms=1),
    )
    fetcher.follow([solo.replica])
    pulling = asyncio.create_task(fetcher.run())
    await until(lambda: len(leader.requested) > 1 or fetcher._positions.is_empty)
    pulling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await pulling


async def test_a_follower_with_an_unsynced_end_that_cannot_be_truncated_ends_no_broker(tmp_path: Path):
    solo, leader = Solo(tmp_path, leader=2), Silent()
    for offset in range(2):
        solo.replica.log.append(batch_at(offset))
    damage(tmp_path)
    with pytest.raises(DamagedDataError, match="cannot be truncated"):
        solo.replica.truncate_to(1)
    await pull(solo, leader)
    assert leader.requested == [], "its position would acknowledge records that are not synced"
    assert solo.failures == []
    await solo.close()


def refuse_all_but_one_file(patched: pytest.MonkeyPatch) -> None:
    """The one is the checkpoint that lets a log be emptied; for others there is no room."""
    real, written = os.replace, list[Path]()

    def replace_file(source: Path, target: Path) -> None:
        if written:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written.append(target)
        real(source, target)

    patched.setattr(os, "replace", replace_file)


def refuse_renamed_records(patched: pytest.MonkeyPatch) -> None:
    """The first step after that checkpoint: the log still ends where it did."""
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    patched.setattr(DelayedDeletes, "add", Mock(side_effect=full))


@pytest.mark.parametrize("refuse", [refuse_all_but_one_file, refuse_renamed_records])
async def test_a_leader_that_could_not_start_over_takes_records_when_there_is_room(
    refuse: Callable[[pytest.MonkeyPatch], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """It was elected while its disk was full. It refused all records until another leader epoch began."""
    solo = Solo(tmp_path, leader=2, isr=(1,), min_insync_replicas=1)
    solo.replica.log.append(batch_at(0))
    solo.replica.log.fsync()
    with monkeypatch.context() as patched:
        refuse(patched)
        with pytest.raises(DiskFullError):
            solo.replica.start_over_at(9)
        solo.change(leader=1, leader_epoch=1)
        with pytest.raises(DiskFullError):
            await solo.append("no room")

    result = await solo.append("room")

    assert (result.base_offset, solo.replica.log.log_start_offset, solo.replica.high_watermark) == (9, 9, 10)
    assert solo.failures == []
    await solo.close()


async def test_a_follower_that_cannot_start_over_claims_no_position_and_goes_on_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    solo, leader = Solo(tmp_path, leader=2), Silent()
    for offset in range(2):
        solo.replica.log.append(batch_at(offset))

    solo.replica.log.fsync()
    with monkeypatch.context() as patched:
        refuse_all_but_one_file(patched)
        with pytest.raises(DiskFullError):
            solo.replica.start_over_at(9)
        assert isinstance(solo.replica.log.failure, DiskFullError)
        assert solo.replica.persisted_end_offset == 9, "as after a start of the process: empty, and at its new start"
        await pull(solo, leader)
    assert set(leader.requested) == {0}, "the end that it had would acknowledge records that are gone"
    assert solo.failures == []
    leader.requested.clear()
    await pull(solo, leader)
    assert 1 in leader.requested
    assert (solo.replica.log.log_start_offset, solo.replica.log.log_end_offset) == (9, 9)
    await solo.close()
