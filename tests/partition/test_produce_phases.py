"""Where the time of a produce request goes: the append, the leader's sync, replication. And what followers copy."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from replica_support import Solo

from raftlog.errors import UnknownOutcomeError
from raftlog.model import ACKS_ALL, Acks
from raftlog.partition.metrics import PartitionMetrics
from raftlog.record import NewRecord, build_batch

SLOW_S = 0.2


@pytest.fixture
async def solo(tmp_path: Path) -> AsyncIterator[Solo]:
    solo = Solo(tmp_path)
    yield solo
    await solo.close()


def metrics_of(solo: Solo) -> PartitionMetrics:
    return solo.replica._metrics


def counts(metrics: PartitionMetrics) -> tuple[int, int, int]:
    produce = metrics.produce
    return produce.append.count, produce.sync.count, produce.replication.count


def slow_syncs(solo: Solo, monkeypatch: pytest.MonkeyPatch) -> None:
    fsync = solo.replica.log.fsync

    def slow() -> int:
        time.sleep(SLOW_S)
        return fsync()

    monkeypatch.setattr(solo.replica.log, "fsync", slow)


async def append(solo: Solo, acks: Acks) -> None:
    await solo.replica.append(bytes(build_batch([NewRecord(b"x", timestamp=1)])), acks=acks, timeout_ms=20_000)


async def test_each_kind_of_acknowledgement_waits_for_its_own_phases(solo: Solo):
    await append(solo, 0)
    assert counts(metrics_of(solo)) == (1, 0, 0)
    await append(solo, 1)
    assert counts(metrics_of(solo)) == (2, 1, 0)
    waiting = asyncio.ensure_future(append(solo, ACKS_ALL))
    await until_synced(solo)
    solo.follow(2, 3)
    await waiting
    assert counts(metrics_of(solo)) == (3, 2, 1)


async def test_a_topic_without_syncs_has_no_sync_phase(tmp_path: Path):
    solo = Solo(tmp_path, flush="os")
    await append(solo, 1)
    assert counts(metrics_of(solo)) == (1, 0, 0)
    await solo.close()


async def test_a_slow_disk_and_slow_followers_are_told_apart(solo: Solo, monkeypatch: pytest.MonkeyPatch):
    slow_syncs(solo, monkeypatch)
    waiting = asyncio.ensure_future(append(solo, ACKS_ALL))
    await until_synced(solo)
    solo.follow(2, 3)
    await waiting
    disk = metrics_of(solo).produce
    assert disk.sync.total >= SLOW_S
    assert disk.replication.total < SLOW_S

    monkeypatch.undo()
    waiting = asyncio.ensure_future(append(solo, ACKS_ALL))
    await until_synced(solo)
    await asyncio.sleep(SLOW_S)
    solo.follow(2, 3)
    await waiting
    assert disk.replication.total >= SLOW_S
    assert metrics_of(solo).sync.count >= 2


async def test_a_request_that_fails_has_an_append_only(solo: Solo):
    with pytest.raises(UnknownOutcomeError, match="not acknowledged within"):
        await solo.replica.append(bytes(build_batch([NewRecord(b"x", timestamp=1)])), acks=ACKS_ALL, timeout_ms=1)
    assert counts(metrics_of(solo)) == (1, 0, 0)


async def until_synced(solo: Solo) -> None:
    """Wait until the appended batch is synced, and the event loop has learned of it."""
    log = solo.replica.log
    async with asyncio.timeout(20):
        await asyncio.sleep(0)
        while not solo.replica._commit.ended_at(log.log_end_offset - 1):
            await asyncio.sleep(0.005)
