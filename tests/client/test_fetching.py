"""The consumer's background half, against leaders that a test plays."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import AbstractAsyncContextManager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from raftlog.client import fetching
from raftlog.client.fetching import RETRY_REST_S, Fetcher
from raftlog.client.reader import PartitionReader
from raftlog.errors import CorruptBatchError, InvalidRequestError, OffsetOutOfRangeError, StaleRouteError
from raftlog.model import Address, TopicPartition
from raftlog.record import NewRecord, build_batch
from raftlog.record.batch import stamp
from raftlog.transport import PeerAnswerError
from raftlog.transport.throttles import Throttles
from raftlog.wire.data import FetchRequest, FetchResponse, FetchResult
from raftlog.wire.errors import WireError

LEADER = Address("127.0.0.1", 1)
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Leader:
    """Leads every partition; says which of them it was asked for, and then that it leads none."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []
        self.session = self
        self.throttles = Throttles()
        self.timeout_ms = 60_000
        self.is_silent = False
        """Whether no broker names a leader."""
        self.is_old = False
        """Whether it is long ago that a broker named one."""

    async def call_frame(self, *_: object, message: FetchRequest, **__: object) -> Any:
        self.asked.append([part.partition for part in message.partitions])
        raise StaleRouteError("not any more")

    async def refresh(self, topics: list[str], *, max_age_s: float) -> None:
        assert not self.is_silent

    def is_stale(self, topic: str) -> bool:
        return self.is_silent or self.is_old

    def must_refresh(self, topic: str) -> bool:
        return self.is_silent

    def forget_leader_of(self, topics: object) -> None: ...

    def while_leading(self, *_: object, **__: object) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    def leader(self, topic: str, partition: int) -> Address:
        return LEADER

    def cached_topic(self, topic: str) -> SimpleNamespace:
        return SimpleNamespace(topic_id="f" * 32)


async def test_a_partition_that_is_taken_away_just_when_a_fetch_begins_stops_no_other():
    leader = Leader()
    fetcher = Fetcher(leader, max_wait_ms=1, min_bytes=1, max_bytes=1, partition_max_bytes=1)  # type: ignore[arg-type]
    fetcher.seek(TopicPartition("t", 0), 0)
    fetcher.seek(TopicPartition("t", 1), 0)

    fetcher._start_fetches()
    fetcher.forget(TopicPartition("t", 0))
    async with asyncio.timeout(10):
        while [1] not in leader.asked:
            await fetcher.wait(100)
    await fetcher.close()


class Log(Leader):
    """Leads partitions that hold two records in each batch, and answers with one batch of each that it is asked for.

    Args:
        waits: at the end of the log, as a long poll does; otherwise that is an error.
        room: for so many batches an answer has room, as by `fetch_max_bytes`.
    """

    def __init__(self, *, end: int, waits: bool = False, room: int = 1_000) -> None:
        super().__init__()
        self.end = end
        self.room = room
        self.damaged: list[int] = []
        """At which byte the first batch is damaged, the next times that it is asked for."""
        self.checked: dict[int, list[bool]] = defaultdict(list)
        """By offset: whether the broker was to check the batch, each time that it was asked for."""
        self.waits = waits
        self.positions: list[dict[int, int]] = []
        """The requested partitions, in each request."""

    async def call_frame(self, *_: object, message: FetchRequest, **__: object) -> tuple[FetchResponse, memoryview]:
        self.positions.append({part.partition: part.offset for part in message.partitions})
        results, body = [], bytearray()
        for number, part in enumerate(message.partitions):
            if number >= self.room:
                results.append(FetchResult(topic="t", partition=part.partition))
                continue
            if part.offset >= self.end:
                if self.waits:
                    await asyncio.Event().wait()
                error = WireError.of(OffsetOutOfRangeError(f"the log ends at {self.end}"))
                results.append(FetchResult(topic="t", partition=part.partition, error=error))
                continue
            batch = build_batch([NewRecord(b"v%d" % n) for n in (part.offset, part.offset + 1)])
            stamp(batch, base_offset=part.offset, leader_epoch=0)
            self.checked[part.offset].append(part.check_crcs)
            if part.offset == 0 and self.damaged:
                batch[self.damaged.pop()] ^= 1
            results.append(FetchResult(topic="t", partition=part.partition, length=len(batch)))
            body += batch
        return FetchResponse(partitions=tuple(results)), memoryview(body)


def _reader(log: Leader) -> PartitionReader:
    fetcher = Fetcher(log, max_wait_ms=1, min_bytes=1, max_bytes=1, partition_max_bytes=1)  # type: ignore[arg-type]
    return PartitionReader(log, fetcher, on_out_of_range=None)  # type: ignore[arg-type]


async def test_the_next_answer_is_asked_for_when_the_last_one_is_begun_and_no_further():
    log = Log(end=100)
    reader = _reader(log)
    reader.begin({T0: 0})

    chunk = await reader.next_completed(5_000)
    assert chunk is not None
    assert log.positions == [{0: 0}, {0: 2}]
    assert [record.offset for record in reader.take(chunk, 1)] == [0]
    assert await reader.next_completed(5_000) is chunk
    assert [record.offset for record in reader.take(chunk, None)] == [1]
    assert log.positions == [{0: 0}, {0: 2}]

    assert [record.offset for record in reader.take(await reader.next_completed(5_000), None)] == [2, 3]  # type: ignore[arg-type]
    assert log.positions == [{0: 0}, {0: 2}, {0: 4}]
    await reader.fetcher.close()


async def test_a_leader_is_asked_for_all_its_partitions_at_once_when_all_of_its_answer_was_begun():
    log = Log(end=100)
    reader = _reader(log)
    reader.begin({T0: 0, T1: 0})

    reader.take(await reader.next_completed(5_000), None)  # type: ignore[arg-type]
    assert log.positions == [{0: 0, 1: 0}]
    reader.take(await reader.next_completed(5_000), None)  # type: ignore[arg-type]
    assert log.positions == [{0: 0, 1: 0}, {0: 2, 1: 2}]

    everything = reader.take_arrow(await reader.next_completed(5_000, all_ready=True))
    assert everything.column("offset").to_pylist() == [2, 3, 2, 3, 4, 5, 4, 5]
    assert log.positions[2:] == [{0: 4, 1: 4}]
    await reader.fetcher.close()


async def test_partitions_take_turns_when_an_answer_has_no_room_for_all():
    """Otherwise the last ones are read only once the first ones are read to their end, which may be never."""
    log = Log(end=1_000, room=2)
    reader = _reader(log)
    reader.begin({TopicPartition("t", number): 0 for number in range(5)})
    found: dict[int, list[int]] = defaultdict(list)
    for _ in range(10):
        for record in reader.take(await reader.next_completed(5_000), None):  # type: ignore[arg-type]
            found[record.partition].append(record.offset)

    assert found == {number: [0, 1, 2, 3] for number in range(5)}
    await reader.fetcher.close()


async def test_more_partitions_than_a_request_may_have_take_turns_also_without_records(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(fetching, "MAX_REQUEST_PARTITIONS", 2)
    log = Log(end=10, room=0)
    reader = _reader(log)
    reader.begin({TopicPartition("t", number): 0 for number in range(5)})
    async with asyncio.timeout(10):
        while len(log.positions) < 5:
            await reader.fetcher.wait(100)
    assert [sorted(asked) for asked in log.positions[:5]] == [[0, 1], [2, 3], [0, 4], [1, 2], [3, 4]]
    await reader.fetcher.close()


async def test_what_a_fetch_ahead_failed_with_comes_after_what_was_fetched_before_it():
    log = Log(end=2)
    reader = _reader(log)
    reader.begin({T0: 0})

    for offset in range(2):
        chunk = await reader.next_completed(5_000)
        await asyncio.sleep(0)
        assert log.positions == [{0: 0}, {0: 2}]
        assert [record.offset for record in reader.take(chunk, 1)] == [offset]  # type: ignore[arg-type]
    with pytest.raises(OffsetOutOfRangeError, match="ends at 2"):
        await reader.next_completed(5_000)
    await reader.fetcher.close()


async def test_a_seek_leaves_behind_what_a_fetch_ahead_failed_with():
    log = Log(end=2)
    reader = _reader(log)
    reader.begin({T0: 0})
    await reader.next_completed(5_000)
    async with asyncio.timeout(10):
        while not reader.fetcher.failures:
            await asyncio.sleep(0)

    reader.begin({T0: 0})

    chunk = await reader.next_completed(5_000)
    assert [record.offset for record in reader.take(chunk, None)] == [0, 1]  # type: ignore[arg-type]
    await reader.fetcher.close()


async def test_a_seek_does_not_wait_for_what_was_asked_before_it():
    log = Log(end=2, waits=True)
    reader = _reader(log)
    reader.begin({T0: 0})
    reader.take(await reader.next_completed(5_000), None)  # type: ignore[arg-type]
    assert log.positions == [{0: 0}, {0: 2}]

    reader.begin({T0: 0})

    async with asyncio.timeout(5):
        chunk = await reader.next_completed(60_000)
    assert [record.offset for record in reader.take(chunk, None)] == [0, 1]  # type: ignore[arg-type]
    await reader.fetcher.close()


class Slow(Log):
    """A log whose answers come once `go` is set."""

    def __init__(self) -> None:
        super().__init__(end=100)
        self.go = asyncio.Event()

    async def call_frame(self, *arguments: object, **options: Any) -> tuple[FetchResponse, memoryview]:
        answer = await super().call_frame(*arguments, **options)
        await self.go.wait()
        return answer


async def test_pausing_ends_no_fetch_of_other_partitions():
    """A loop that pauses a partition while its records are processed must not starve the others."""
    log = Slow()
    reader = _reader(log)
    reader.begin({T0: 0, T1: 0})
    for _ in range(3):
        reader.pause([T0])
        await reader.fetcher.wait(1)
    assert log.positions == [{1: 0}]

    reader.resume([T0])
    log.go.set()
    fetched = {(await reader.next_completed(5_000)).partition}  # type: ignore[union-attr]
    assert fetched == {T1}
    await reader.fetcher.close()


async def test_what_was_on_its_way_when_a_partition_is_paused_is_not_read():
    log = Slow()
    reader = _reader(log)
    reader.begin({T0: 0, T1: 0})
    await reader.fetcher.wait(1)
    reader.pause([T0])
    log.go.set()
    found = reader.take(await reader.next_completed(5_000), None)  # type: ignore[arg-type]
    assert log.positions[0] == {0: 0, 1: 0}
    assert [(record.partition, record.offset) for record in found] == [(1, 0), (1, 1)]
    reader.resume([T0])
    async with asyncio.timeout(5):
        while (found := reader.take(await reader.next_completed(5_000), None))[0].partition:  # type: ignore[arg-type]
            pass
    assert [record.offset for record in found] == [0, 1]
    await reader.fetcher.close()


async def test_a_seek_just_when_a_fetch_begins_does_not_end_fetching():
    log = Log(end=100)
    reader = _reader(log)
    reader.begin({T0: 0})

    reader.fetcher._start_fetches()
    reader.begin({T0: 2})

    async with asyncio.timeout(5):
        chunk = await reader.next_completed(60_000)
    assert [record.offset for record in reader.take(chunk, None)] == [2, 3]  # type: ignore[arg-type]
    await reader.fetcher.close()


async def test_what_is_ready_is_not_held_back_to_hear_whom_to_ask_next():
    log = Log(end=100)
    reader = _reader(log)
    reader.begin({T0: 0})
    await reader.fetcher.wait(5_000)

    log.is_silent = True

    chunk = await reader.next_completed(5_000)
    assert [record.offset for record in reader.take(chunk, None)] == [0, 1]  # type: ignore[arg-type]
    assert log.positions == [{0: 0}]
    await reader.fetcher.close()


class Partly(Log):
    """Leads all partitions but some, until `elected`."""

    def __init__(self, *leaderless: int, **options: Any) -> None:
        super().__init__(**options)
        self.leaderless, self.elected = {*leaderless}, False
        self.refreshed = list[float]()

    async def refresh(self, topics: list[str], *, max_age_s: float) -> None:
        self.refreshed.append(max_age_s)
        if self.elected:
            self.leaderless.clear()

    def leader(self, topic: str, partition: int) -> Address | None:  # type: ignore[override]
        return None if partition in self.leaderless else LEADER

    def forget_leader_of(self, topics: object) -> None:
        raise AssertionError("the topic's other partitions have leaders")


@pytest.mark.parametrize("leaderless", [0, 1, 2])
async def test_a_partition_without_a_leader_stops_no_other_of_its_topic(leaderless: int):
    log = Partly(leaderless, end=40)
    reader = _reader(log)
    reader.begin({TopicPartition("t", number): 0 for number in range(3)})
    async with asyncio.timeout(10):
        while len(log.positions) < 20:
            chunk = await reader.next_completed(5_000)
            reader.take(chunk, None)  # type: ignore[arg-type]
    asked = {number for one in log.positions for number in one}
    assert asked == {0, 1, 2} - {leaderless}
    assert len(log.refreshed) < 20, "metadata is requested at intervals"
    log.elected = True
    async with asyncio.timeout(10):
        while leaderless not in {number for one in log.positions for number in one}:
            await reader.fetcher.wait(1_000)
            reader.fetcher.completed.clear()
            reader.fetcher.failures.clear()
    await reader.fetcher.close()


@pytest.mark.parametrize("at", [30, -1], ids=["header", "payload"])
async def test_what_arrives_damaged_is_asked_for_again_once_and_checked(at: int):
    log = Log(end=100)
    reader = _reader(log)
    reader.begin({T0: 0})

    async def read() -> list[int]:
        async with asyncio.timeout(10):
            while True:
                chunk = await reader.next_completed(5_000)
                if chunk is not None and (records := reader.take(chunk, None)):
                    return [record.offset for record in records]

    log.damaged = [at]
    assert await read() == [0, 1]
    assert log.checked[0] == [False, True]

    reader.begin({T0: 0})
    log.damaged = [at, at]
    log.checked.clear()
    with pytest.raises(CorruptBatchError):
        await read()
    assert await read() == [0, 1]
    assert log.checked[0] == [False, True, True]
    await reader.fetcher.close()


async def test_a_call_for_records_ends_with_an_error_when_another_task_closes_the_consumer():
    log = Log(end=100, waits=True)
    reader = _reader(log)
    reader.begin({T0: 100})
    waiting = asyncio.create_task(reader.fetcher.wait(60_000))
    async with asyncio.timeout(10):
        while not log.positions:
            await asyncio.sleep(0)
        await reader.fetcher.close()
        with pytest.raises(InvalidRequestError, match="was closed while a call for records waited"):
            await waiting


class Paging(Log):
    """Answers with a page that is none of its own, until `records_after` fetches."""

    records_after = 1_000_000

    async def call_frame(self, *arguments: object, **options: Any) -> tuple[FetchResponse, memoryview]:
        if len(self.asked) < self.records_after:
            self.asked.append([])
            raise PeerAnswerError("status 404 without an error body: '<html>'")
        return await super().call_frame(*arguments, **options)


def paged() -> tuple[Paging, Fetcher]:
    leader = Paging(end=10)
    fetcher = Fetcher(leader, max_wait_ms=1, min_bytes=1, max_bytes=1, partition_max_bytes=1)  # type: ignore[arg-type]
    fetcher.seek(T0, 0)
    return leader, fetcher


async def test_a_page_in_place_of_records_is_no_error_and_no_busy_loop():
    leader, fetcher = paged()
    began = asyncio.get_running_loop().time()
    while len(leader.asked) < 3 and not fetcher.failures:
        await fetcher.wait(100)
    assert not fetcher.failures
    assert asyncio.get_running_loop().time() - began >= 2 * RETRY_REST_S
    await fetcher.close()


async def test_pages_in_place_of_records_are_logged_when_they_begin_and_when_they_end(caplog: pytest.LogCaptureFixture):
    leader, fetcher = paged()
    leader.records_after = 3
    while not fetcher.completed:
        await fetcher.wait(100)
    await fetcher.close()
    assert [record.getMessage() for record in caplog.records if record.name.startswith("raftlog")] == [
        "an answer of 127.0.0.1:1 cannot be read; asking again. The error: status 404 without an error body: '<html>'",
        "127.0.0.1:1 answers again, after 3 answers that could not be read",
    ]


async def test_an_answer_that_can_never_be_read_is_an_error_in_the_end():
    """Such as one that is too large, or one that a proxy encodes: the application waits for records that never come."""
    leader, fetcher = paged()
    leader.timeout_ms = int(2.5 * RETRY_REST_S * 1000)
    reader = PartitionReader(leader, fetcher, on_out_of_range=None)  # type: ignore[arg-type]
    reader.begin({T0: 0})
    for most in (10, 1):  # Later, each fetch is the last one.
        leader.asked.clear()
        async with asyncio.timeout(10):
            with pytest.raises(PeerAnswerError, match="status 404"):  # noqa: PT012
                while True:
                    await reader.next_completed(100)
        assert 1 <= len(leader.asked) <= most
    assert not fetcher.failures
    await fetcher.close()
