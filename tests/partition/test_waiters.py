"""Parked requests and group commit: woken by events, ended by deadlines, never left behind."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest
from replica_support import Solo

from raftlog.errors import ErrorCode, StaleRouteError, StorageError, UnknownOutcomeError
from raftlog.partition.waiters import Notifier, OffsetWaiters, listening, wait_until


async def test_waiters_are_woken_by_the_mark_above_their_offset():
    waiters = OffsetWaiters()
    waits = [asyncio.ensure_future(waiters.wait(offset, timeout_ms=20_000)) for offset in (0, 1, 2)]
    await asyncio.sleep(0)
    waiters.passed(2)
    await asyncio.wait(waits[:2])
    assert [wait.done() for wait in waits] == [True, True, False]
    waiters.passed(3)
    await asyncio.gather(*waits)

    assert not waiters._waiting


async def test_waiters_end_by_their_deadline_by_failure_and_by_cancellation():
    waiters = OffsetWaiters()
    with pytest.raises(UnknownOutcomeError, match="appended at offset 4, but not acknowledged within 1 ms") as late:
        await waiters.wait(4, timeout_ms=1)
    assert late.value.code is ErrorCode.REQUEST_TIMED_OUT
    failed = asyncio.ensure_future(waiters.wait(0, timeout_ms=20_000))
    cancelled = asyncio.ensure_future(waiters.wait(0, timeout_ms=20_000))
    await asyncio.sleep(0)
    cancelled.cancel()
    waiters.fail(UnknownOutcomeError("resigned"))
    outcomes = await asyncio.gather(failed, cancelled, return_exceptions=True)

    assert [type(outcome) for outcome in outcomes] == [UnknownOutcomeError, asyncio.CancelledError]
    assert not waiters._waiting


async def test_an_event_is_set_by_any_of_its_notifiers_and_not_afterwards():
    notifiers = [Notifier(), Notifier()]
    loop = asyncio.get_running_loop()
    with listening(notifiers) as event:
        assert not await wait_until(event, loop.time() - 1)
        assert not await wait_until(event, loop.time() + 0.001)
        notifiers[1].fire()
        assert await wait_until(event, loop.time() + 5)

    assert [notifier._listeners for notifier in notifiers] == [{}, {}]


async def test_appends_during_a_sync_share_the_next_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    solo = Solo(tmp_path, isr=(1,), min_insync_replicas=1)
    log, release, syncs = solo.replica.log, threading.Event(), []
    real = log.fsync

    def fsync() -> int:
        end = real()
        syncs.append(end)
        assert release.wait(20)  # What is appended from here on was not in this sync.
        return end

    async with asyncio.timeout(5):
        while log.durable_end_offset < log.log_end_offset or solo.tasks._tasks:
            await asyncio.sleep(0.001)
    monkeypatch.setattr(log, "fsync", fsync)
    first = asyncio.ensure_future(solo.append("a"))
    async with asyncio.timeout(5):
        while not syncs:
            await asyncio.sleep(0.001)
    others = [asyncio.ensure_future(solo.append(value)) for value in "bcdefg"]
    await asyncio.sleep(0)
    assert not first.done()
    release.set()
    results = await asyncio.gather(first, *others)

    assert [result.base_offset for result in results] == list(range(7))
    assert syncs == [1, 7]
    await solo.close()


async def test_a_failed_sync_fails_every_waiting_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    solo = Solo(tmp_path, isr=(1,), min_insync_replicas=1)

    def fsync() -> int:
        raise StorageError("Input/output error")

    monkeypatch.setattr(solo.replica.log, "fsync", fsync)
    outcomes = await asyncio.gather(
        solo.append("all", acks=-1), solo.append("held", acks=1), solo.append("none", acks=0), return_exceptions=True
    )

    assert [isinstance(outcome, UnknownOutcomeError) for outcome in outcomes] == [True, True, False]
    assert solo.failures
    monkeypatch.undo()
    await solo.close()


async def test_acks_0_1_and_all_wait_for_nothing_the_disk_and_the_followers(tmp_path: Path):
    solo = Solo(tmp_path)
    none = await solo.append("none", acks=0)
    held = await solo.append("held", acks=1)
    assert (none.base_offset, held.base_offset, solo.replica.high_watermark) == (0, 1, 0)
    assert solo.replica.log.durable_end_offset == 2
    everyone = asyncio.ensure_future(solo.append("all"))
    await asyncio.sleep(0)
    solo.follow(2)
    await asyncio.sleep(0)
    assert not everyone.done()
    solo.follow(3)

    assert ((await everyone).base_offset, solo.replica.high_watermark) == (2, 3)
    await solo.close()


async def test_with_flush_os_no_request_waits_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    solo = Solo(tmp_path, isr=(1,), min_insync_replicas=1, flush="os")
    monkeypatch.setattr(solo.replica._commit, "request", lambda: pytest.fail("a sync was asked for"))

    assert (await solo.append("a")).base_offset == 0
    assert (await solo.append("b", acks=1)).base_offset == 1
    monkeypatch.undo()
    await solo.close()


async def test_a_repeat_of_a_batch_in_flight_waits_for_the_first_ones_fate(tmp_path: Path):
    """Else a producer would take for safe what one log alone holds."""
    solo = Solo(tmp_path)
    identity = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
    first = asyncio.ensure_future(solo.append("x", **identity))
    await asyncio.sleep(0)
    repeat = asyncio.ensure_future(solo.append("x", **identity))
    async with asyncio.timeout(5):
        while solo.replica.log.durable_end_offset < 1:
            await asyncio.sleep(0.001)
    await asyncio.sleep(0)
    assert (first.done(), repeat.done(), solo.replica.log.log_end_offset) == (False, False, 1)
    solo.follow(2, 3)

    assert [(r.base_offset, r.duplicate) for r in await asyncio.gather(first, repeat)] == [(0, False), (0, True)]
    await solo.close()


async def test_a_leader_that_resigns_tells_waiting_producers_at_once(tmp_path: Path):
    solo = Solo(tmp_path)
    waiting = asyncio.ensure_future(solo.append("x", timeout_ms=60_000))
    await asyncio.sleep(0)
    solo.change(leader=2, leader_epoch=1)

    with pytest.raises(UnknownOutcomeError, match="broker 2 leads it now, in epoch 1"):
        await waiting
    with pytest.raises(StaleRouteError) as moved:
        await solo.append("y")
    assert moved.value.details == {"leader": 2, "leader_epoch": 1}
    await solo.close()


async def test_a_partition_without_a_leader_says_so(tmp_path: Path):
    solo = Solo(tmp_path)
    solo.change(leader=-1, leader_epoch=1)

    with pytest.raises(StaleRouteError) as nobody:
        await solo.append("y")
    assert nobody.value.code is ErrorCode.LEADER_NOT_AVAILABLE
    await solo.close()


async def test_metadata_that_comes_late_takes_no_role_back(tmp_path: Path):
    solo = Solo(tmp_path)
    old = solo.replica.state
    solo.change(leader=2, leader_epoch=1)
    solo.replica.apply_state(old)

    assert solo.replica.core is None
    assert solo.replica.state.leader == 2
    await solo.close()
