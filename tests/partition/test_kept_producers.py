"""What deleted batches say of their producers outlives a loss of power: a repeat is never appended."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from replica_support import Solo

from raftlog.config import TopicConfig
from raftlog.errors import InvalidRequestError, StorageError
from raftlog.partition import follower_replica
from raftlog.partition.core.producers import MOST_KEPT, ProducerLimits, ProducerStates
from raftlog.partition.storage.log import PartitionLog
from raftlog.partition.storage.log_files import KEPT_PRODUCERS_SUFFIX, PRODUCERS_SUFFIX, LogClosedError
from raftlog.partition.storage.producer_snapshots import plan_kept, recover_producers, remove_kept
from raftlog.record import NewRecord, build_batch, stamp
from raftlog.record.batch import parse_header

SEGMENTS = {"min_insync_replicas": 1, "segment_bytes": 4096, "retention_bytes": 4096, "retention_ms": -1}


def batch(producer: int, sequence: int, size: int = 900) -> bytes:
    records = [NewRecord(b"%d" % sequence * size, timestamp=1)]
    return build_batch(records, producer_id=producer, producer_epoch=0, base_sequence=sequence)


async def filled(folder: Path, **configs: object) -> Solo:
    """Return a replica with a batch of producer 7, and many of producer 8 after it."""
    solo = Solo(folder, isr=(1,), **(SEGMENTS | configs))
    await solo.replica.append(batch(7, 0), acks=-1, timeout_ms=5_000)
    for sequence in range(20):
        await solo.replica.append(batch(8, sequence), acks=-1, timeout_ms=5_000)
    return solo


def after_power_loss(solo: Solo, folder: Path) -> ProducerStates:
    """Return the producers that a start finds when no unsynced snapshot has survived."""
    config = solo.replica.config
    for path in folder.glob(f"*{PRODUCERS_SUFFIX}"):
        path.write_bytes(b"")
    log = PartitionLog.open(folder, config, power_lost=True)
    try:
        return recover_producers(log, limits=ProducerLimits(), now_ms=0)
    finally:
        log.close()


def is_repeat(states: ProducerStates, repeated: bytes) -> bool:
    return states.check(parse_header(repeated), now_ms=0) is not None


@pytest.mark.parametrize("by", ["retention", "deletion"])
async def test_a_repeat_of_a_deleted_batch_is_known_after_a_loss_of_power(by: str, tmp_path: Path):
    solo = await filled(tmp_path)
    if by == "retention":
        assert solo.replica.log.apply_retention(1, 21, before=solo.replica.keep_producers)
    else:
        solo.replica.delete_before(15, 21)
    start = solo.replica.log.log_start_offset
    assert start > 5
    await solo.close()
    states = after_power_loss(solo, tmp_path / "t-0")
    assert is_repeat(states, batch(7, 0))
    assert is_repeat(states, batch(8, 19))
    assert not is_repeat(states, batch(8, 20))
    assert len(list((tmp_path / "t-0").glob(f"*{KEPT_PRODUCERS_SUFFIX}"))) == 1


async def test_a_batch_that_is_cut_later_is_not_taken_for_a_known_one(tmp_path: Path):
    """The file has nothing from the log start on: those batches may be truncated, and others replace them."""
    solo = await filled(tmp_path)
    await solo.replica.append(batch(9, 0), acks=-1, timeout_ms=5_000)
    solo.replica.delete_before(15, 15)
    solo.change(leader=2, leader_epoch=1)
    solo.replica.truncate_to(18)
    await solo.close()
    states = after_power_loss(solo, tmp_path / "t-0")
    assert is_repeat(states, batch(7, 0))
    assert is_repeat(states, batch(8, 16))
    assert not is_repeat(states, batch(8, 17))
    assert not states.knows(9)


async def test_a_log_that_starts_over_forgets_them(tmp_path: Path):
    solo = await filled(tmp_path)
    solo.replica.delete_before(15, 21)
    solo.change(leader=2, leader_epoch=1)
    solo.replica.start_over_at(40)
    await solo.close()
    assert len(after_power_loss(solo, tmp_path / "t-0")) == 0


async def test_a_disk_that_refuses_the_file_keeps_the_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    solo = await filled(tmp_path)

    def refuse(*_: object, **__: object) -> None:
        raise StorageError("refused")

    monkeypatch.setattr("raftlog.partition.storage.producer_snapshots.atomic_write", refuse)
    with pytest.raises(StorageError, match="refused"):
        solo.replica.delete_before(15, 21)
    with pytest.raises(StorageError, match="refused"):
        solo.replica.log.apply_retention(1, 21, before=solo.replica.keep_producers)
    assert solo.replica.log.log_start_offset == 0
    monkeypatch.undo()
    await solo.close()


@pytest.mark.parametrize("in_thread", [False, True])
async def test_a_partition_that_is_deleted_meanwhile_ends_no_broker(
    in_thread: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """DeleteRecords and the deletion of the topic at the same time: the folder is gone when the file is written."""
    solo = await filled(tmp_path)

    def delete_topic() -> None:
        solo.replica.log.close()
        shutil.rmtree(tmp_path / "t-0")

    def late(*arguments: Any) -> Callable[[], None]:
        write = plan_kept(*arguments)

        def deleted_first() -> None:
            delete_topic()
            write()

        return deleted_first

    if in_thread:
        monkeypatch.setattr(follower_replica, "plan_kept", late)
        with pytest.raises(LogClosedError):
            await solo.replica.keep_producers_in_thread(15)
    else:
        delete_topic()
        with pytest.raises(LogClosedError):
            solo.replica.delete_before(15, 21)
    assert solo.failures == []


def test_what_was_kept_for_a_start_that_the_log_did_not_take_hides_no_open_transaction(tmp_path: Path):
    """A crash came before the checkpoint. Readers of committed records would get those of an open transaction."""
    log = PartitionLog.open(tmp_path, TopicConfig())
    states = ProducerStates()
    for sequence in range(9):
        one = build_batch(
            [NewRecord(b"x", timestamp=1)],
            producer_id=7,
            producer_epoch=0,
            base_sequence=sequence,
            transactional=True,
        )
        stamp(one, base_offset=sequence, leader_epoch=0)
        log.append(bytes(one))
        states.on_appended(parse_header(one), 0)
    log.fsync()
    plan_kept(tmp_path, 8, states, now_ms=0)()
    found = recover_producers(log, limits=ProducerLimits(), now_ms=0)
    assert found.transactions.to_plain()["ongoing"] == [(7, 0)]
    assert list(tmp_path.glob(f"*{KEPT_PRODUCERS_SUFFIX}")) == []
    log.close()


@pytest.mark.parametrize("by", ["truncation", "starting over"])
async def test_a_log_that_is_emptied_where_it_starts_still_knows_deleted_batches(by: str, tmp_path: Path):
    solo = await filled(tmp_path)
    solo.replica.delete_before(21, 21)
    await solo.replica.append(batch(9, 0), acks=0, timeout_ms=5_000)
    solo.change(leader=2, leader_epoch=1)
    if by == "truncation":
        solo.replica.truncate_to(21)
    else:
        solo.replica.start_over_at(21)
    for states in (solo.replica.producers, after_power_loss(solo, tmp_path / "t-0")):
        assert is_repeat(states, batch(7, 0))
        assert is_repeat(states, batch(8, 19))
        assert not states.knows(9)
    await solo.close()


async def test_retention_keeps_what_a_deletion_to_the_same_start_has_kept(tmp_path: Path):
    """What it would keep itself is of batches above the start, which may be cut: the producer would be unknown."""
    solo = await filled(tmp_path)
    replica = solo.replica
    replica.delete_before(21, 21)
    for sequence in range(20, 25):  # As many as may be in flight.
        await replica.append(batch(8, sequence), acks=0, timeout_ms=5_000)
    assert replica.log.apply_retention(1, 21, before=replica.keep_producers)
    solo.change(leader=2, leader_epoch=1)
    replica.truncate_to(21)
    solo.change(leader=1, leader_epoch=2)

    assert is_repeat(replica.producers, batch(8, 19))
    with pytest.raises(InvalidRequestError):  # A batch is missing.
        replica.producers.check(parse_header(batch(8, 21)), 0)
    await solo.close()


def test_without_producers_no_file_is_written_and_an_old_one_goes(tmp_path: Path):
    states = ProducerStates()
    states.on_appended(parse_header(batch(7, 0)), 0)
    plan_kept(tmp_path, 5, states, now_ms=0)()
    remove_kept(tmp_path, 5)
    assert [path.name for path in tmp_path.iterdir()] == [f"{5:020d}{KEPT_PRODUCERS_SUFFIX}"]
    plan_kept(tmp_path, 9, ProducerStates(), now_ms=0)()
    remove_kept(tmp_path, 9)
    assert list(tmp_path.iterdir()) == []


def test_producers_that_send_no_repeat_any_more_are_not_kept_and_the_others_are_limited():
    states = ProducerStates()
    for producer in range(MOST_KEPT + 5):
        one = build_batch([NewRecord(b"x", timestamp=1)], producer_id=producer, producer_epoch=0, base_sequence=0)
        stamp(one, base_offset=producer, leader_epoch=0)
        states.on_appended(parse_header(one), producer)
    kept = states.plan_below(10_000, since_ms=0)()["producers"]
    assert [entry[0] for entry in kept] == list(range(5, MOST_KEPT + 5))
    kept = states.plan_below(10_000, since_ms=MOST_KEPT)()["producers"]
    assert [entry[0] for entry in kept] == list(range(MOST_KEPT, MOST_KEPT + 5))


async def test_deletions_at_the_same_time_keep_what_the_last_one_needs(tmp_path: Path):
    """What was kept for the farther start is written by a thread already when the nearer one takes effect."""
    solo = await filled(tmp_path)
    await solo.replica.keep_producers_in_thread(15)
    solo.replica.delete_before(10, 21)
    solo.replica.delete_before(15, 21, are_producers_kept=True)
    await solo.close()
    states = after_power_loss(solo, tmp_path / "t-0")
    assert is_repeat(states, batch(7, 0))
    assert len(list((tmp_path / "t-0").glob(f"*{KEPT_PRODUCERS_SUFFIX}"))) == 1


def test_what_was_kept_for_a_start_that_the_log_takes_later_without_producers_goes(tmp_path: Path):
    """A start was planned by a history that the log has lost since."""
    states = ProducerStates()
    states.on_appended(parse_header(batch(7, 0)), 0)
    plan_kept(tmp_path, 9, states, now_ms=0)()
    plan_kept(tmp_path, 9, ProducerStates(), now_ms=0)()
    assert list(tmp_path.iterdir()) == []


async def test_two_deletions_to_the_same_offset_at_the_same_time_end_no_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Each writes the same file: one renamed the other's, which then was not there."""
    solo = await filled(tmp_path)
    replace, both = os.replace, threading.Barrier(2)

    def replacing(old: Path, new: Path) -> None:
        with suppress(threading.BrokenBarrierError):
            both.wait(0.1)
        replace(old, new)

    monkeypatch.setattr(os, "replace", replacing)
    await asyncio.gather(solo.replica.keep_producers_in_thread(15), solo.replica.keep_producers_in_thread(15))
    assert solo.failures == []
    await solo.close()
