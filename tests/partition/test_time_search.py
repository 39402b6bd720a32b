"""Searches by time: what they find, in which thread they decode, and what happens when the log changes meanwhile."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from replica_support import Solo

from raftlog.broker.offsets import describe_offsets
from raftlog.errors import StaleRouteError
from raftlog.partition import time_search
from raftlog.partition.storage import batch_reads
from raftlog.partition.storage.batch_reads import FoundRecord
from raftlog.partition.time_search import newest_record, record_at
from raftlog.record import NewRecord, build_batch
from raftlog.serving.workers import in_worker
from raftlog.wire.data import EpochStart
from raftlog.wire.transactions import TransactionMarker


@pytest.fixture
async def solo(tmp_path: Path) -> AsyncIterator[Solo]:
    made = Solo(tmp_path)
    yield made
    await made.close()


async def write(solo: Solo, *times: int) -> None:
    """Append one batch, and let both followers have it."""
    await solo.replica.append(build_batch([NewRecord(b"x", timestamp=at) for at in times]), acks=1, timeout_ms=5_000)
    solo.follow(2, 3)


async def offset_since(solo: Solo, timestamp_us: int) -> int:
    found, end = await record_at(solo.replica, timestamp_us)
    return end if found is None else found.offset


@pytest.fixture
def before_the_read(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """What happens, once, after the event loop has found a batch and before the worker thread reads it."""
    happens: list[Callable[[], object]] = []

    async def worker(work: Callable[..., Any], *args: Any) -> Any:
        if happens:
            await asyncio.sleep(0)  # Other searches begin, and wait for this one.
            happens.pop()()
        return await in_worker(work, *args)

    monkeypatch.setattr(time_search, "in_worker", worker)
    return happens


async def test_the_first_record_since_a_time_and_the_newest(solo: Solo):
    await write(solo, 5_000, 1_000, 2_000)
    await write(solo, 3_000, 9_000, 9_000)
    await write(solo, 4_000)
    assert [await offset_since(solo, at) for at in (0, 5_000, 5_001, 9_000, 9_001)] == [0, 0, 4, 4, 7]
    assert await newest_record(solo.replica) == FoundRecord(4, 9_000, 0)


async def test_a_record_that_was_deleted_does_not_count(solo: Solo):
    await write(solo, 50_000, 1_000)
    await write(solo, 2_000)
    await write(solo, 30_000)
    solo.replica.log.advance_log_start(1, high_watermark=4)
    assert [await offset_since(solo, at) for at in (0, 1_001, 20_000, 30_001)] == [1, 2, 3, 4]


async def test_batches_are_decoded_in_a_worker_thread_one_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    solos = [Solo(tmp_path, partition=number) for number in range(8)]
    for solo in solos:
        await write(solo, *range(1_000, 21_000))
    decode, threads, running = batch_reads.to_arrow_with_offsets, list[int](), list[int]()

    def watched(*args: Any, **named: Any) -> Any:
        threads.append(threading.get_ident())
        running.append(1)
        assert len(running) == 1
        rows = decode(*args, **named)
        running.pop()
        return rows

    monkeypatch.setattr(batch_reads, "to_arrow_with_offsets", watched)
    began = time.thread_time()
    found = await asyncio.gather(*(describe_offsets(solo.replica, "20", "read_uncommitted") for solo in solos))
    assert [one.offset for one in found] == [19_000] * 8
    assert len(threads) == 8
    assert threading.get_ident() not in threads
    assert time.thread_time() - began < 0.05
    for solo in solos:
        await solo.close()


async def test_a_log_that_is_cut_meanwhile_is_searched_again(solo: Solo, before_the_read: list[Callable[[], object]]):
    """Replicas may lose what is above the high watermark: the search has seen it, and must not call it damaged."""
    await write(solo, 1_000)
    await write(solo, 2_000)
    before_the_read.append(lambda: solo.replica.log.truncate_to(1))
    assert (await record_at(solo.replica, 1_500), solo.replica.damage) == ((None, 2), None)
    assert await record_at(solo.replica, 500) == (FoundRecord(0, 1_000, 0), 2)


async def test_a_log_that_is_cut_during_the_read_is_not_damaged(solo: Solo, monkeypatch: pytest.MonkeyPatch):
    await write(solo, 1_000)
    await write(solo, *[2_000] * 100)
    read, cut = type(solo.replica.log.segments[0].file).pread, [lambda: solo.replica.log.truncate_to(1)]

    def pread(file: Any, length: int, position: int) -> bytes:
        if threading.current_thread() is not threading.main_thread() and cut:
            cut.pop()()
        return read(file, length, position)

    monkeypatch.setattr(type(solo.replica.log.segments[0].file), "pread", pread)
    assert (await record_at(solo.replica, 1_500), solo.replica.damage) == ((None, 101), None)
    assert not cut


async def test_a_replica_that_is_closed_meanwhile_leads_no_more(
    solo: Solo, before_the_read: list[Callable[[], object]]
):
    await write(solo, 1_000)
    before_the_read.append(solo.replica.close)
    with pytest.raises(StaleRouteError, match="does not lead"):
        await record_at(solo.replica, 500)
    assert solo.replica.damage is None


async def test_a_replica_that_is_closed_while_its_search_waits_for_others(
    solo: Solo, tmp_path: Path, before_the_read: list[Callable[[], object]]
):
    await write(solo, 1_000)
    other = Solo(tmp_path, partition=1)
    await write(other, 1_000)
    before_the_read.append(other.replica.close)
    searches = (record_at(one.replica, 500) for one in (solo, other))
    found, refused = await asyncio.gather(*searches, return_exceptions=True)
    assert found == (FoundRecord(0, 1_000, 0), 1)
    assert isinstance(refused, StaleRouteError)
    await other.tasks.close()


async def test_records_that_arrive_during_the_search_are_not_skipped(
    solo: Solo, before_the_read: list[Callable[[], object]]
):
    """A reader that begins at the end must get them: the end is that of the beginning."""
    await write(solo, 1_000)
    await write(solo, 3_000, 1_000)
    solo.replica.log.advance_log_start(2, high_watermark=3)
    arrived: list[asyncio.Task[None]] = []
    before_the_read.append(lambda: arrived.append(asyncio.ensure_future(write(solo, 9_000))))
    assert await record_at(solo.replica, 2_000) == (None, 3)
    await arrived[0]
    assert await record_at(solo.replica, 2_000) == (FoundRecord(3, 9_000, 0), 4)


async def test_a_damaged_batch_is_noted_and_answered(solo: Solo):
    await write(solo, 1_000)
    path = solo.replica.log.segments[0].path
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(StaleRouteError, match="it is being repaired"):
        await record_at(solo.replica, 500)
    assert solo.replica.damage is not None


async def mark(solo: Solo, count: int) -> None:
    """Append markers of transactions, each a second later, and let both followers have them."""
    for _ in range(count):
        solo.clock.now_ms += 1_000
        producer = 1_000 + solo.replica.log.log_end_offset
        marker = TransactionMarker(producer_id=producer, producer_epoch=0, coordinator_epoch=1, committed=True)
        writing = asyncio.ensure_future(solo.replica.append_marker(marker, timeout_ms=5_000))
        await asyncio.sleep(0)
        solo.follow(2, 3)
        await writing
    solo.follow(2, 3)


@pytest.mark.parametrize("headers", [1, 2, 3, 1_000])
async def test_the_newest_record_before_markers_of_transactions(
    solo: Solo, headers: int, monkeypatch: pytest.MonkeyPatch
):
    """Markers have the time of their append, which is later than that of the records."""
    monkeypatch.setattr(time_search, "_HEADERS_IN_A_TURN", headers)
    solo.clock.now_ms = 1_000_000
    await mark(solo, 1)
    assert await newest_record(solo.replica) is None
    await write(solo, 5_000, 9_000)
    await mark(solo, 2)
    await write(solo, 7_000)
    await mark(solo, 3)
    assert await newest_record(solo.replica) == FoundRecord(2, 9_000, 0)
    assert [await offset_since(solo, at) for at in (0, 5_001, 9_001)] == [1, 2, 9]


async def test_searches_over_many_markers_let_others_take_turns(solo: Solo, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(time_search, "_HEADERS_IN_A_TURN", 10)
    solo.clock.now_ms = 1_000_000
    await write(solo, 5_000)
    await mark(solo, 100)
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    watching = asyncio.ensure_future(other())
    assert await offset_since(solo, 6_000) == 101
    watching.cancel()
    assert turns >= 9


async def test_an_answer_names_the_logs_latest_leader_epochs(solo: Solo):
    await write(solo, 1_000, 2_000)
    assert (await describe_offsets(solo.replica, "latest", "read_uncommitted")).epochs == (
        EpochStart(leader_epoch=0, start_offset=0),
    )
    for number in range(1, 120):
        solo.replica.log.epochs.assign(number, number + 1)
    named = (await describe_offsets(solo.replica, "1", "read_uncommitted")).epochs
    assert [(each.leader_epoch, each.start_offset) for each in named] == [(n, n + 1) for n in range(20, 120)]
