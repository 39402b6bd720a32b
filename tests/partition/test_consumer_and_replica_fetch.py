"""Answering fetches over several partitions: limits, errors of single partitions, epochs, waking."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from replica_support import EPOCHS, TOPIC_ID, Solo

from raftlog.errors import ErrorCode, FencedError, NotFoundError, RetriableError
from raftlog.model import Address, BrokerRegistration, TopicIdPartition
from raftlog.partition import consumer_fetch, replica_fetch_server
from raftlog.partition.consumer_fetch import serve_fetch
from raftlog.partition.local_broker import LocalBroker
from raftlog.partition.record_deletion import delete_records
from raftlog.partition.replica import Replica
from raftlog.partition.replica_fetch_server import ReplicaFetchServer
from raftlog.partition.storage import verified_reads
from raftlog.partition.storage.log import PartitionLog
from raftlog.partition.storage.verified_reads import VerifiedBatches
from raftlog.partition.waiters import Notifier, Wakeable
from raftlog.record import NewRecord, build_batch
from raftlog.wire.data import DivergingEpoch, FetchPartition, FetchRequest
from raftlog.wire.replication import ReplicaFetchPartition, ReplicaFetchRequest, ReplicaFetchResponse


def registrations() -> dict[int, BrokerRegistration]:
    here = Address("127.0.0.1", 1)
    return {
        broker: BrokerRegistration(
            broker_id=broker, incarnation_id="i", broker_epoch=epoch, public=here, internal=here, fenced=False
        )
        for broker, epoch in EPOCHS.items()
    }


class Answer(NamedTuple):
    response: ReplicaFetchResponse
    parts: list[bytes]

    @property
    def session(self) -> str:
        return self.response.session_id


class Shelf:
    """Three partitions that broker 1 leads, each with two records of one batch each."""

    def __init__(self, folder: Path) -> None:
        self.solos = [Solo(folder, isr=(1,), min_insync_replicas=1, partition=number) for number in range(3)]
        self.serve()

    def serve(self) -> None:
        self.server = ReplicaFetchServer(
            find=self.find_by_id,
            local=LocalBroker(1, EPOCHS[1], registrations()),
            clock=self.solos[0].clock,
            max_sessions=2,
        )

    async def fill(self) -> None:
        for solo in self.solos:
            for number in range(2):
                await solo.append(f"{number}".ljust(100))

    def find(self, topic: str, partition: int, topic_id: str) -> Replica:
        if topic != "t" or partition >= len(self.solos):
            raise NotFoundError(f"no {topic}-{partition}")
        return self.solos[partition].replica

    def find_by_id(self, key: TopicIdPartition) -> Replica:
        return self.find("t", key.partition, key.topic_id)

    async def fetch(self, *asked: tuple[int, int], **request: int):
        partitions = tuple(FetchPartition(topic="t", partition=p, offset=offset) for p, offset in asked)
        request = FetchRequest(**{"partitions": partitions, "max_wait_ms": 0, **request})
        return [(one.result, one.data) for one in await serve_fetch(self.find, request)]

    async def replica_fetch(self, *asked: tuple[int, int], epoch: int = 0, last: int = 0, **request: object):
        partitions = tuple(
            ReplicaFetchPartition(
                topic_id=TOPIC_ID, partition=p, leader_epoch=epoch, fetch_offset=offset, last_fetched_epoch=last
            )
            for p, offset in asked
        )
        asked_for = {"partitions": partitions, "max_wait_ms": 0, "replica_id": 2, "broker_epoch": EPOCHS[2], **request}
        return Answer(*await self.server.serve(ReplicaFetchRequest(**asked_for)))


@pytest.fixture
async def shelf(tmp_path: Path) -> AsyncIterator[Shelf]:
    shelf = Shelf(tmp_path)
    await shelf.fill()
    yield shelf
    for solo in shelf.solos:
        await solo.close()


async def test_a_consumer_reads_several_partitions_at_once(shelf: Shelf):
    pairs = await shelf.fetch((0, 0), (1, 1), (2, 2))
    sizes = [len(data) for _, data in pairs]

    assert sizes[0] == 2 * sizes[1] > 0
    assert sizes[2] == 0
    assert [(r.length, r.high_watermark, r.error) for r, _ in pairs] == [(size, 2, None) for size in sizes]


async def test_what_the_answer_has_no_space_for_is_not_read(shelf: Shelf, monkeypatch: pytest.MonkeyPatch):
    reads = list[int]()
    found = PartitionLog.find_verified

    def counted(log: PartitionLog, offset: int, max_bytes: int, **options: Any) -> VerifiedBatches:
        batches = found(log, offset, max_bytes, **options)
        reads.append(len(batches.data))
        return batches

    monkeypatch.setattr(PartitionLog, "find_verified", counted)
    pairs = await shelf.fetch((0, 0), (1, 0), (2, 9), max_bytes=1)

    assert [size > 0 for size in reads] == [True, False]
    assert [(len(data) > 0, result.high_watermark) for result, data in pairs[:2]] == [(True, 2), (False, 2)]
    assert pairs[2][0].error is not None
    assert pairs[2][0].error.code == "OFFSET_OUT_OF_RANGE"


class Space:
    """Memory for answers, of which there is none at first."""

    def __init__(self) -> None:
        self.free, self.taken, self.looks = 0, 0, 0

    def take(self, most: int) -> int:
        self.looks += 1
        self.taken = min(most, self.free)
        return self.taken

    def keep(self, most: int) -> None:
        self.taken = min(most, self.taken)


@pytest.mark.parametrize("is_freed", [True, False])
async def test_a_fetch_without_memory_looks_for_some_again(shelf: Shelf, *, is_freed: bool):
    """It waited for further records until its deadline, although those that were there would fit by then."""
    space, part = Space(), FetchPartition(topic="t", partition=0, offset=0, max_bytes=1 << 20)
    asked = FetchRequest(partitions=(part,), max_wait_ms=60_000)
    async with asyncio.timeout(20):
        fetching = asyncio.ensure_future(serve_fetch(shelf.find, asked, space=space))
        while not space.looks:
            await asyncio.sleep(0)
        space.free = 1 << 20 if is_freed else 0
        (served,) = await fetching
    assert (len(served.data) > 0, served.result.error) == (is_freed, None)


async def test_limits_hold_and_progress_is_always_made(shelf: Shelf):
    one = len((await shelf.fetch((0, 1)))[0][1])
    assert [len(d) for _, d in await shelf.fetch((0, 0), (1, 0), max_bytes=1)] == [one, 0]
    assert [len(d) for _, d in await shelf.fetch((0, 0), (1, 0), max_bytes=2 * one)] == [2 * one, 0]
    assert [len(d) for _, d in await shelf.fetch((0, 2), (1, 0), max_bytes=1)] == [0, one]


async def test_an_error_of_one_partition_is_returned_at_once_with_the_results_of_the_others(shelf: Shelf):
    async with asyncio.timeout(5):
        pairs = await shelf.fetch((0, 0), (7, 0), (1, 9), max_wait_ms=60_000, min_bytes=1 << 20)

    assert pairs[0][1]
    assert [r.error.code if r.error else None for r, _ in pairs] == [
        None,
        "UNKNOWN_TOPIC_OR_PARTITION",
        "OFFSET_OUT_OF_RANGE",
    ]


async def test_min_bytes_parks_a_fetch_until_enough_is_there_or_time_is_up(shelf: Shelf):
    one = len((await shelf.fetch((0, 1)))[0][1])
    parked = asyncio.ensure_future(shelf.fetch((0, 2), (1, 2), max_wait_ms=60_000, min_bytes=2 * one))
    await shelf.solos[0].append("2".ljust(100))
    await asyncio.sleep(0)
    assert not parked.done()
    await shelf.solos[1].append("2".ljust(100))
    async with asyncio.timeout(5):
        assert [len(data) for _, data in await parked] == [one, one]

    assert [len(d) for _, d in await shelf.fetch((0, 2), max_wait_ms=1, min_bytes=1 << 20)] == [one]


@pytest.fixture
def two_batches_a_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads return two batches at most, and a turn and a response end after four."""
    monkeypatch.setattr(verified_reads, "MOST_BATCHES", 2)
    monkeypatch.setattr(consumer_fetch, "_BATCH_BYTES", (8 << 20) // 4)
    monkeypatch.setattr(replica_fetch_server, "MOST_BATCHES", 4)


@pytest.mark.usefixtures("two_batches_a_read")
async def test_a_fetch_that_finds_less_than_there_is_does_not_wait_for_min_bytes(shelf: Shelf):
    await shelf.solos[0].append("2".ljust(100))
    one = len((await shelf.fetch((0, 2)))[0][1])
    async with asyncio.timeout(5):
        assert [len(d) for _, d in await shelf.fetch((0, 0), max_wait_ms=60_000, min_bytes=1 << 20)] == [2 * one]


@pytest.mark.usefixtures("two_batches_a_read")
async def test_a_turn_of_the_event_loop_has_a_limit_of_batches(shelf: Shelf):
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.ensure_future(count_turns())
    await asyncio.sleep(0)
    before = turns
    assert [r.length > 0 for r, _ in await shelf.fetch((0, 0), (1, 0), (2, 0))] == [True] * 3
    assert turns - before == 1
    counting.cancel()


@pytest.mark.usefixtures("two_batches_a_read")
async def test_a_followers_response_has_a_limit_of_batches(shelf: Shelf):
    first = await shelf.replica_fetch((0, 0), (1, 0), (2, 0), last=-1, session_epoch=0)
    assert [result.partition for result in first.response.partitions] == [0, 1]
    second = await shelf.replica_fetch(session_id=first.session, session_epoch=1)
    assert [result.partition for result in second.response.partitions] == [2]
    _, parts = await shelf.replica_fetch((0, 0), (1, 0), (2, 0), last=-1)  # Without a session.
    assert [len(part) > 0 for part in parts] == [True, True, False]


async def test_a_parked_consumer_is_answered_at_once_when_the_leader_resigns(shelf: Shelf):
    parked = asyncio.ensure_future(shelf.fetch((0, 2), max_wait_ms=60_000))
    await asyncio.sleep(0)
    shelf.solos[0].change(leader=2, leader_epoch=1)
    async with asyncio.timeout(5):
        ((result, _),) = await parked

    assert result.error is not None
    assert (result.error.code, result.error.details["leader"]) == ("NOT_LEADER_OR_FOLLOWER", 2)


async def test_a_consumer_that_hangs_up_leaves_no_listener_behind(shelf: Shelf):
    parked = asyncio.ensure_future(shelf.fetch((0, 2), max_wait_ms=60_000))
    await asyncio.sleep(0)
    parked.cancel()
    await asyncio.gather(parked, return_exceptions=True)

    assert not shelf.solos[0].replica.visible_notifier._listeners


async def test_followers_read_beyond_the_high_watermark_and_consumers_do_not(tmp_path: Path):
    solo = Solo(tmp_path)
    shelf = Shelf.__new__(Shelf)
    shelf.solos = [solo]
    shelf.serve()
    await solo.append("x", acks=1)
    ((consumed, _),) = await shelf.fetch((0, 0))
    response, parts = await shelf.replica_fetch((0, 0), last=-1)

    assert (consumed.high_watermark, consumed.length) == (0, 0)
    assert response.partitions[0].length == len(parts[0]) > 0
    await solo.close()


async def test_both_epochs_of_a_follower_are_checked(shelf: Shelf):
    shelf.solos[0].change(leader_epoch=3)
    codes = []
    for epoch in (2, 4):
        response, _ = await shelf.replica_fetch((0, 2), epoch=epoch)
        codes.append(response.partitions[0].error.code)  # type: ignore[union-attr]
    core = shelf.solos[0].replica.require_leader()
    assert codes == ["FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH"]
    assert core.followers[2].end_offset == -1

    await shelf.replica_fetch((0, 2), epoch=3)
    assert core.followers[2].end_offset == 2
    with pytest.raises(FencedError) as stale:
        await shelf.replica_fetch((0, 1), epoch=3, broker_epoch=EPOCHS[2] - 1)
    assert stale.value.code is ErrorCode.STALE_BROKER_EPOCH
    with pytest.raises(RetriableError, match="the newest metadata here has epoch 12, received broker 2 in epoch 13"):
        await shelf.replica_fetch((0, 1), epoch=3, broker_epoch=EPOCHS[2] + 1)
    with pytest.raises(RetriableError, match="has no such broker, received broker 9"):
        await shelf.replica_fetch((0, 1), epoch=3, replica_id=9)
    assert core.followers[2].end_offset == 2


async def test_a_follower_with_newer_metadata_than_the_leader_sends_its_position_again(shelf: Shelf):
    solo = shelf.solos[0]
    solo.change(replicas=(1, 3))
    early = await shelf.replica_fetch((0, 2), session_epoch=0, max_wait_ms=60_000)
    solo.change(replicas=(1, 2, 3), adding=(2,))
    await shelf.replica_fetch((0, 2), session_id=early.session, session_epoch=1)

    assert early.response.partitions[0].error.code == "UNKNOWN_LEADER_EPOCH"  # type: ignore[union-attr]
    assert solo.replica.require_leader().followers[2].end_offset == 2


async def test_a_follower_that_only_the_leader_saw_removed_and_added_again_counts(shelf: Shelf):
    solo = shelf.solos[0]
    session = (await shelf.replica_fetch((0, 2), session_epoch=0)).session
    parked = asyncio.ensure_future(shelf.replica_fetch(session_id=session, session_epoch=1, max_wait_ms=60_000))
    await asyncio.sleep(0)
    solo.change(replicas=(1, 3))
    solo.change(replicas=(1, 2, 3), adding=(2,))
    async with asyncio.timeout(5):
        while solo.replica.require_leader().followers[2].end_offset != 2:
            await asyncio.sleep(0)

    assert not parked.done()
    parked.cancel()


async def test_a_diverging_follower_gets_the_diverging_epoch_and_its_position_is_not_counted(shelf: Shelf):
    shelf.solos[0].change(leader_epoch=3)
    await shelf.solos[0].append("in epoch 3")
    response, parts = await shelf.replica_fetch((0, 5), epoch=3, last=1, max_wait_ms=60_000)
    diverging = response.partitions[0].diverging

    assert diverging is not None
    assert (diverging.epoch, diverging.end_offset, parts) == (0, 2, [b""])
    assert shelf.solos[0].replica.require_leader().followers[2].end_offset == -1


async def test_a_follower_beyond_the_log_gets_the_offset_range(shelf: Shelf):
    response, _ = await shelf.replica_fetch((0, 9), last=-1)
    error = response.partitions[0].error

    assert error is not None
    assert (error.code, dict(error.details)) == (
        "OFFSET_OUT_OF_RANGE",
        {"log_start_offset": 0, "log_end_offset": 2},
    )


async def test_a_follower_gets_each_high_watermark_once(shelf: Shelf):
    response, _ = await shelf.replica_fetch((0, 2), session_epoch=0, max_wait_ms=60_000)
    assert response.partitions[0].high_watermark == 2
    session = response.session_id
    parked = asyncio.ensure_future(shelf.replica_fetch(session_id=session, session_epoch=1, max_wait_ms=60_000))
    await asyncio.sleep(0)
    assert not parked.done()
    await shelf.solos[0].append("more")
    async with asyncio.timeout(5):
        response, parts = await parked

    assert response.partitions[0].length == len(parts[0]) > 0


async def parked_at_the_end(shelf: Shelf, *, max_wait_ms: int = 60_000) -> tuple[Solo, asyncio.Future[Answer]]:
    """Return a partition with a record that is not committed, and a follower's fetch that waits for more."""
    solo = shelf.solos[0]
    solo.change(isr=(1, 3))
    await solo.append("not committed", acks=1)
    session = (await shelf.replica_fetch((0, 3), session_epoch=0)).session
    parked = asyncio.ensure_future(shelf.replica_fetch(session_id=session, session_epoch=1, max_wait_ms=max_wait_ms))
    await asyncio.sleep(0)
    return solo, parked


async def test_a_high_watermark_goes_with_the_next_records(shelf: Shelf, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(replica_fetch_server, "MARKS_WAIT_S", 60)
    solo, parked = await parked_at_the_end(shelf)
    solo.follow(3)
    for _ in range(5):
        await asyncio.sleep(0)
    assert (solo.replica.high_watermark, parked.done()) == (3, False)
    await solo.append("next", acks=1)
    async with asyncio.timeout(5):
        (result,) = (await parked).response.partitions
    assert (result.high_watermark, result.length > 0) == (3, True)


async def test_a_high_watermark_without_records_waits_a_moment(shelf: Shelf):
    solo, parked = await parked_at_the_end(shelf)
    solo.follow(3)
    async with asyncio.timeout(5):
        (result,) = (await parked).response.partitions
    assert (result.high_watermark, result.length) == (3, 0)


@pytest.mark.parametrize("waits_for", ["news", "records to go with a high watermark"])
async def test_a_change_at_the_deadline_does_not_count_as_sent(shelf: Shelf, waits_for: str):
    solo, parked = await parked_at_the_end(shelf, max_wait_ms=10 if waits_for == "news" else 60_000)
    if waits_for != "news":
        solo.follow(3)
        for _ in range(5):
            await asyncio.sleep(0)
    batch = build_batch([NewRecord(b"just now", timestamp=1)])
    asyncio.get_running_loop().call_later(0.011, lambda: solo.replica.append_now(batch, acks=1))
    time.sleep(0.03)  # noqa: ASYNC251  (a busy loop: both are due in its next turn, the time limit first)
    async with asyncio.timeout(5):
        answer = await parked

    assert solo.replica.log.log_end_offset == 4
    assert answer.response.partitions[0].length == len(answer.parts[0]) > 0


async def test_an_acknowledgement_is_not_followed_by_a_look_at_the_log(shelf: Shelf, monkeypatch: pytest.MonkeyPatch):
    """A follower that has every record, and was sent every offset, waits at once."""
    session = (await shelf.replica_fetch((0, 2), session_epoch=0)).session
    solo, looks, look = shelf.solos[0], [], shelf.server._look
    monkeypatch.setattr(shelf.server, "_look", lambda *args: looks.append(args) or look(*args))
    parked = asyncio.ensure_future(shelf.replica_fetch((0, 2), session_id=session, session_epoch=1, max_wait_ms=60_000))
    await asyncio.sleep(0)
    assert (looks, parked.done(), solo.replica.require_leader().followers[2].end_offset) == ([], False, 2)
    await solo.append("more")
    async with asyncio.timeout(5):
        response, _ = await parked
    assert (len(looks), response.partitions[0].length > 0) == (1, True)


async def test_other_partitions_are_looked_at_although_the_named_one_is_up_to_date(shelf: Shelf):
    session = (await shelf.replica_fetch((0, 2), (1, 2), session_epoch=0)).session
    await shelf.solos[1].append("more")
    async with asyncio.timeout(5):
        answer = await shelf.replica_fetch((0, 2), session_id=session, session_epoch=1, max_wait_ms=60_000)
    assert [(result.partition, result.length > 0) for result in answer.response.partitions] == [(1, True)]


async def test_a_fetch_that_does_not_wait_gets_new_offsets(shelf: Shelf):
    solo = shelf.solos[0]
    solo.change(isr=(1, 3))
    await solo.append("not committed", acks=1)
    session = (await shelf.replica_fetch((0, 3), session_epoch=0)).session
    solo.follow(3)
    answer = await shelf.replica_fetch((0, 3), session_id=session, session_epoch=1, max_wait_ms=0)
    assert [result.high_watermark for result in answer.response.partitions] == [3]


async def test_a_new_log_start_offset_is_sent_at_once(shelf: Shelf, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(replica_fetch_server, "MARKS_WAIT_S", 60)
    solo, parked = await parked_at_the_end(shelf)
    solo.replica.log.advance_log_start(2, 2)
    solo.replica.data_notifier.fire()
    async with asyncio.timeout(5):
        (result,) = (await parked).response.partitions
    assert (result.log_start_offset, result.length) == (2, 0)


async def test_without_a_session_only_a_change_wakes_a_follower(shelf: Shelf):
    parked = asyncio.ensure_future(shelf.replica_fetch((0, 2), (1, 2), max_wait_ms=60_000))
    await asyncio.sleep(0)
    assert not parked.done()
    await shelf.solos[0].append("more")
    async with asyncio.timeout(5):
        response, parts = await parked

    assert [(r.partition, r.length) for r in response.partitions] == [(0, len(parts[0])), (1, 0)]
    assert not shelf.solos[0].replica.data_notifier._listeners
    assert not shelf.solos[0].replica.marks_notifier._listeners


async def test_a_followers_limits(shelf: Shelf):
    _, whole = await shelf.replica_fetch((0, 0), last=-1)
    one = len(whole[0]) // 2
    _, parts = await shelf.replica_fetch((0, 0), (1, 0), last=-1, max_bytes=1)
    assert [len(part) for part in parts] == [one, 0]
    _, parts = await shelf.replica_fetch((0, 0), (1, 0), last=-1, partition_max_bytes=1)
    assert [len(part) for part in parts] == [one, one]


async def test_a_pulse_has_one_partition_looked_at(shelf: Shelf, monkeypatch: pytest.MonkeyPatch):
    session = (await shelf.replica_fetch((0, 2), (1, 2), (2, 2), session_epoch=0)).session
    looked, real = [], shelf.server._result
    monkeypatch.setattr(
        shelf.server, "_result", lambda who, asked, most: looked.append(asked.partition) or real(who, asked, most)
    )
    parked = asyncio.ensure_future(shelf.replica_fetch(session_id=session, session_epoch=1, max_wait_ms=60_000))
    await asyncio.sleep(0)
    await shelf.solos[1].append("more")
    async with asyncio.timeout(5):
        response, _ = await parked

    assert [result.partition for result in response.partitions] == [1]
    assert set(looked) == {1}


async def test_what_does_not_fit_comes_first_in_the_next_answer(shelf: Shelf):
    first = await shelf.replica_fetch((0, 0), (1, 0), (2, 0), last=-1, session_epoch=0, max_bytes=1)
    second = await shelf.replica_fetch((0, 1), session_id=first.session, session_epoch=1, max_bytes=1)
    third = await shelf.replica_fetch((1, 1), session_id=first.session, session_epoch=2, max_bytes=1)

    assert [[r.partition for r in answer.response.partitions] for answer in (first, second, third)] == [[0], [1], [2]]


async def test_a_newer_request_ends_the_one_that_is_parked(shelf: Shelf):
    session = (await shelf.replica_fetch((0, 2), session_epoch=0)).session
    parked = asyncio.ensure_future(shelf.replica_fetch(session_id=session, session_epoch=1, max_wait_ms=60_000))
    await asyncio.sleep(0)
    await shelf.replica_fetch(session_id=session, session_epoch=2)
    with pytest.raises(RetriableError) as replaced:
        await parked
    parked = asyncio.ensure_future(shelf.replica_fetch(session_id=session, session_epoch=3, max_wait_ms=60_000))
    await asyncio.sleep(0)
    await shelf.replica_fetch((0, 2), session_epoch=0)
    with pytest.raises(RetriableError) as closed:
        await parked

    assert replaced.value.code is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert closed.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


async def test_a_closed_session_has_no_subscriptions_and_covers_no_follower(shelf: Shelf):
    session = (await shelf.replica_fetch((0, 2), (1, 2), session_epoch=0)).session
    followers = [solo.replica.require_leader().followers[2] for solo in shelf.solos]
    assert [follower.session is not None for follower in followers] == [True, True, False]
    await shelf.replica_fetch(session_id=session, session_epoch=1, forgotten=(TopicIdPartition(TOPIC_ID, 0),))
    assert [follower.session is not None for follower in followers] == [False, True, False]
    shelf.server.close()

    assert not any(solo.replica.data_notifier._listeners for solo in shelf.solos)
    assert not any(solo.replica.marks_notifier._listeners for solo in shelf.solos)
    assert not any(follower.session for follower in followers)


async def told(shelf: Shelf, offset: int, last_epoch: int, *, partition: int = 0, **asked: bool):
    part = FetchPartition(topic="t", partition=partition, offset=offset, last_fetched_epoch=last_epoch, **asked)
    ((result, data, *_),) = await serve_fetch(shelf.find, FetchRequest(partitions=(part,), max_wait_ms=0))
    return result.diverging or (result.error and result.error.code) or len(data)


async def test_a_consumer_gets_the_diverging_epoch_if_its_records_were_truncated(shelf: Shelf):
    solo = shelf.solos[0]
    solo.change(leader_epoch=3)
    await solo.append("2".ljust(100))
    size = await told(shelf, 2, -1)

    assert isinstance(size, int)
    assert [await told(shelf, 2, epoch) for epoch in (0, 3)] == [size, size]
    assert await told(shelf, 3, 3) == 0
    # It has read offset 2 in epoch 0, or up to 3 in epoch 3, or in epoch 2 of which nothing is here.
    assert await told(shelf, 3, 0) == DivergingEpoch(epoch=0, end_offset=2)
    assert await told(shelf, 4, 3) == DivergingEpoch(epoch=3, end_offset=3)
    assert await told(shelf, 2, 2) == DivergingEpoch(epoch=0, end_offset=2)


async def test_a_consumer_learns_that_the_new_log_has_no_record_of_its_epoch(shelf: Shelf, tmp_path: Path):
    """A leader that began on an empty disk: its log can be longer than what the consumer has read of another one."""
    other = Solo(tmp_path / "other", isr=(1,), min_insync_replicas=1, partition=3)
    shelf.solos.append(other)
    assert await told(shelf, 2, 0, partition=3) == DivergingEpoch(epoch=0, end_offset=0)
    other.change(leader_epoch=2)
    for number in range(3):
        await other.append(f"{number}".ljust(100))

    assert await told(shelf, 2, 0, partition=3) == DivergingEpoch(epoch=0, end_offset=0)
    assert await told(shelf, 2, 1, partition=3) == DivergingEpoch(epoch=1, end_offset=0)
    await delete_records(other.replica, 2, timeout_ms=1_000)
    # What was deleted below offset 2 may have been of epoch 1; offset 2 itself is not.
    assert isinstance(await told(shelf, 2, 1, partition=3), int)
    assert await told(shelf, 3, 1, partition=3) == DivergingEpoch(epoch=1, end_offset=2)


async def test_a_replica_that_cannot_know_reports_no_divergence(shelf: Shelf):
    solo = shelf.solos[0]
    assert await told(shelf, 2, 1) == ErrorCode.UNKNOWN_LEADER_EPOCH  # Of a leader after this one.
    assert await told(shelf, 1, 1, any_replica=True) not in (None, 0)
    solo.change(leader_epoch=2, leader=2)
    assert await told(shelf, 9, 0) == ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_long_fetches_that_wake_together_take_turns(shelf: Shelf):
    """Each is read in slices; twenty at once must not make one slice twenty times as long."""
    await shelf.fill()
    reads, since, longest = 0, 0, 0

    def find(topic: str, partition: int, topic_id: str) -> Replica:
        nonlocal reads
        reads += 1
        return shelf.find(topic, 0, topic_id)

    async def other() -> None:
        nonlocal since, longest
        while True:
            longest, since = max(longest, reads - since), reads
            await asyncio.sleep(0)

    asked = tuple(FetchPartition(topic="t", partition=number, offset=2) for number in range(1_000))
    watching = asyncio.ensure_future(other())
    answers = await asyncio.gather(
        *(serve_fetch(find, FetchRequest(partitions=asked, max_wait_ms=0)) for _ in range(20))
    )
    watching.cancel()
    assert [len(answer) for answer in answers] == [1_000] * 20
    assert longest <= 512, longest


async def test_long_fetches_that_begin_and_end_together_take_turns(shelf: Shelf, monkeypatch: pytest.MonkeyPatch):
    """Each waits for a thousand partitions, and stops at the same moment: at its deadline, or when it is cancelled."""
    await shelf.fill()
    steps, since, longest = Counter[str](), 0, 0

    def counted(name: str) -> Callable[[Notifier, Wakeable], None]:
        method = getattr(Notifier, name)

        def count(notifier: Notifier, listener: Wakeable) -> None:
            steps[name] += 1
            method(notifier, listener)

        return count

    for name in ("add", "remove"):
        monkeypatch.setattr(Notifier, name, counted(name))

    async def other() -> None:
        nonlocal since, longest
        while True:
            longest, since = max(longest, steps.total() - since), steps.total()
            await asyncio.sleep(0)

    watching = asyncio.ensure_future(other())
    asked = tuple(FetchPartition(topic="t", partition=number, offset=2) for number in range(1_000))
    for number, max_wait_ms in enumerate((50, 3_600_000), 1):
        request = FetchRequest(partitions=asked, max_wait_ms=max_wait_ms, min_bytes=1)
        fetches = [
            asyncio.ensure_future(serve_fetch(lambda topic, _, topic_id: shelf.find(topic, 0, topic_id), request))
            for _ in range(20)
        ]
        while steps["add"] < number * 20_000:
            await asyncio.sleep(0)
        if max_wait_ms > 50:
            for fetch in fetches:
                fetch.cancel()
        await asyncio.gather(*fetches, return_exceptions=True)
        assert steps["remove"] == steps["add"] == number * 20_000
    watching.cancel()
    assert longest <= 512, longest
