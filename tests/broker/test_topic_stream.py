"""A read of a topic without a cluster: batches that arrive damaged, partitions without a leader, and long silence."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from itertools import compress
from typing import Any

import orjson
import pytest

from raftlog.broker.topic_reads import source, tail
from raftlog.broker.topic_reads import stream as streaming
from raftlog.broker.topic_reads.query import parse
from raftlog.broker.topic_reads.source import Data, Loaded, Position, TopicSource
from raftlog.broker.topic_reads.stream import TopicStream
from raftlog.broker.topic_reads.tail import Tail
from raftlog.errors import CorruptBatchError, ErrorCode, NotFoundError, RaftlogError, StaleRouteError
from raftlog.record import NewRecord, build_batch, iter_batches, stamp
from raftlog.record.formats import encoder
from raftlog.wire.data import FetchResult
from raftlog.wire.errors import WireError


def batch_at(offset: int, *values: str) -> bytes:
    batch = build_batch([NewRecord(value.encode(), timestamp=1_700_000_000_000_000) for value in values])
    stamp(batch, base_offset=offset, leader_epoch=0)
    return bytes(batch)


class Logs:
    """Partitions in memory, each with or without a leader; in place of `TopicSource`."""

    def __init__(self, *partitions: Sequence[bytes]) -> None:
        self.logs = {number: list(batches) for number, batches in enumerate(partitions)}
        self.leaders: dict[int, int] = dict.fromkeys(self.logs, 1)
        self.errors: list[RaftlogError] = []
        self.damaged = False
        self.repairs = True
        """Whether the broker has whole what it did not check."""
        self.asked: list[tuple[int, int]] = []
        self.news = asyncio.Event()
        self.waits = True
        self.most = 1_000
        """Batches that one read brings: a segment's end cuts it short."""

    def _found(self, at: Position) -> Data:
        self.asked.append((at.partition, at.offset))
        behind = [header.next_offset > at.offset for header, _ in iter_batches(b"".join(self.logs[at.partition]))]
        data = b"".join(list(compress(self.logs[at.partition], behind))[: self.most])
        return FetchResult(topic="t", partition=at.partition, length=len(data)), data

    async def read(self, at: Position, *, check_crcs: bool = False) -> Data:
        result, data = self._found(at)
        wrong = self.damaged and not (check_crcs and self.repairs)
        return result, bytes(data[:-1]) + b"\xff" if wrong else data

    def by_leader(self, positions: Sequence[Position]) -> list[list[Position]]:
        led = [position for position in positions if self.leaders[position.partition] >= 0]
        return [[position] for position in led]

    async def fetch(self, positions: Sequence[Position], *, max_wait_ms: int, check_crcs: bool = False) -> list[Data]:
        assert max_wait_ms > 0
        assert not check_crcs
        if self.errors:
            error = self.errors.pop()
            return [(FetchResult(topic="t", partition=0, error=WireError.of(error)), b"")]
        found = [self._found(position) for position in positions]
        if not any(data for _, data in found):
            await (self.news.wait() if self.waits else asyncio.sleep(0.001))
            found = [self._found(position) for position in positions]
        return found

    @staticmethod
    def may_pass(error: RaftlogError) -> bool:
        return isinstance(error, StaleRouteError)


class Steady(Logs):
    """A partition to which another record is appended every millisecond."""

    async def fetch(self, positions: Sequence[Position], *, max_wait_ms: int, check_crcs: bool = False) -> list[Data]:
        await asyncio.sleep(0.001)
        (at,) = positions
        self.logs[0] = [batch_at(at.offset, "other")]
        return await super().fetch(positions, max_wait_ms=max_wait_ms, check_crcs=check_crcs)


def stream(logs: Logs, **query: str) -> TopicStream:
    asked = parse(query)
    spans: dict[int, Any] = dict.fromkeys(logs.logs, (0, None if asked.follow else 2))
    return TopicStream(logs, lambda: encoder("ndjson"), asked, topic="t", spans=spans)  # type: ignore[arg-type]


@pytest.mark.parametrize("form", ["parquet", "ndjson", "csv"])
async def test_an_answer_is_cut_in_the_same_places_whatever_its_reads_brought(
    monkeypatch: pytest.MonkeyPatch, form: str
):
    """Another leader's segments end elsewhere, and what a reader has of one broker must fit what another gives."""
    batches, offset = [], 0
    for number in range(40):
        values = [f"{number}-{row}-" * (number % 7 + 1) for row in range(number % 5 + 1)]
        batches.append(batch_at(offset, *values))
        offset += len(values)
    monkeypatch.setattr(streaming, "CHUNK_BYTES", 3 * len(batches[0]))
    cuts, bodies = set(), set()
    for most in (1, 2, 3, 5, 1_000):
        logs = Logs(batches)
        logs.most = most
        for begin, end in ((0, offset), (5, offset - 1)):
            reading = TopicStream(logs, lambda: encoder(form), parse({}), topic="t", spans={0: (begin, end)})  # type: ignore[arg-type]
            parts = [part async for part in reading.parts()]
            assert [part.end for part, _ in parts] == [part.begin for part, _ in parts[1:]] + [end]
            cuts.add(tuple(part for part, _ in parts))
            bodies.add(b"".join(bytes(data) for _, data in parts))
    assert len(cuts) == len(bodies) == 2
    assert all(len(parts) > 5 for parts in cuts)


async def all_lines(reading: TopicStream) -> list[Any]:
    body = b"".join([piece async for piece in reading.pieces()])
    return [orjson.loads(line)["value"] for line in body.splitlines()]


async def test_batches_that_arrive_damaged_are_asked_for_again():
    logs = Logs([batch_at(0, "a", "b")])
    logs.damaged = True
    assert await all_lines(stream(logs)) == ["a", "b"]


async def test_batches_that_stay_damaged_end_the_read():
    logs = Logs([batch_at(0, "a", "b")])
    logs.damaged = True
    logs.repairs = False
    with pytest.raises(CorruptBatchError):
        await all_lines(stream(logs))


class Leaders(TopicSource):
    """A partition whose new leader does not know at first how far readers of the one before saw."""

    def __init__(self, batches: bytes, *, learns_after: int) -> None:
        super().__init__(None, "t", "id", "read_uncommitted")  # type: ignore[arg-type] # no broker is asked
        self._batches = batches
        self._answers_nothing = learns_after

    async def fetch(self, positions: Sequence[Position], *, max_wait_ms: int, check_crcs: bool = False) -> list[Data]:
        self._answers_nothing -= 1
        data = self._batches if self._answers_nothing < 0 else b""
        return [(FetchResult(topic="t", partition=0, length=len(data)), data)]


async def test_a_new_leader_that_has_to_learn_its_high_watermark_is_asked_again(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(source, "_RETRY_S", 0.001)
    leaders = Leaders(batch_at(0, "a", "b"), learns_after=3)
    reading = TopicStream(leaders, lambda: encoder("ndjson"), parse({}), topic="t", spans={0: (0, 2)})
    assert await all_lines(reading) == ["a", "b"]


async def test_what_no_leader_has_any_more_ends_the_read(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(source, "_RETRY_S", 0.001)
    monkeypatch.setattr(source, "PATIENCE_S", 0.01)
    leaders = Leaders(b"", learns_after=0)
    reading = TopicStream(leaders, lambda: encoder("ndjson"), parse({}), topic="t", spans={0: (0, 2)})
    with pytest.raises(RaftlogError, match="nothing at offset 0, which was below the end"):
        await all_lines(reading)


async def test_a_reader_who_leaves_takes_what_was_fetched_ahead_along():
    logs = Logs([batch_at(0, "a", "b")], [batch_at(0, "c", "d")])
    pieces = stream(logs).pieces()
    assert await anext(pieces) == b""
    assert b'"a"' in bytes(await anext(pieces))
    before = asyncio.all_tasks()
    await pieces.aclose()
    assert {task for task in before if not task.done()} == {asyncio.current_task()}


async def test_a_tail_goes_on_after_a_change_of_leader(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tail, "_REST_S", 0.001)
    logs = Logs([batch_at(0, "a")], [batch_at(0, "b")])
    logs.errors = [StaleRouteError("another leads")] * 3
    logs.leaders[1] = -1
    lines = stream(logs, follow="true").pieces()
    told = b""
    async with asyncio.timeout(5):
        while b'"a"' not in told:
            told += await anext(lines)
        logs.leaders[1] = 2
        while b'"b"' not in told:
            told += await anext(lines)
    await lines.aclose()
    assert told.count(b"\n") - told.count(b"\n\n") >= 2


class OneLeader(Logs):
    """Partitions that are fetched together."""

    def by_leader(self, positions: Sequence[Position]) -> list[list[Position]]:
        return [list(positions)] if positions else []


def bomb() -> bytes:
    """Return a batch of 1 KB that unpacks to 7 MB."""
    batch = build_batch([NewRecord(bytes(7_000_000), timestamp=1_700_000_000_000_000)], compression="zstd")
    stamp(batch, base_offset=0, leader_epoch=0)
    assert len(batch) < 2_000
    return bytes(batch)


async def test_a_tail_decodes_a_few_partitions_at_once():
    count, most_bytes = 20, 32 << 20
    logs = OneLeader(*[[bomb()]] * count)
    decode, held, seen = stream(logs, follow="true")._load, 0, set[int]()

    async def load(position: Position, data: Data) -> Loaded:
        nonlocal held
        loaded = await decode(position, data)
        held += loaded.rows.nbytes
        assert held <= most_bytes
        return loaded

    async with asyncio.timeout(20), aclosing(Tail(logs, dict.fromkeys(range(count), 0), load).updates()) as updates:  # type: ignore[arg-type]
        async for told in updates:
            assert told is not None
            position, loaded = told
            held -= loaded.rows.nbytes
            seen.add(position.partition)
            if len(seen) == count:
                break


async def test_partitions_behind_much_data_or_an_error_have_their_turn(monkeypatch: pytest.MonkeyPatch):
    """Partitions 0 and 1 always have more than is decoded at once, and partition 2 always an error."""
    monkeypatch.setattr(tail, "_MOST_LOADED_BYTES", 1)
    monkeypatch.setattr(tail, "_REST_S", 0.001)

    class Busy(OneLeader):
        def _found(self, at: Position) -> Data:
            if at.partition == 2:
                error = WireError.of(StaleRouteError("another leads"))
                return FetchResult(topic="t", partition=2, error=error), b""
            if at.partition < 2:
                self.logs[at.partition] = [batch_at(at.offset, "more")]
            return super()._found(at)

    lines = stream(Busy([], [], [], [batch_at(0, "seldom")]), follow="true").pieces()
    told = b""
    async with asyncio.timeout(5):
        while b"seldom" not in told:
            told += await anext(lines)
        told = b""
        while told.count(b"more") < 10:
            told += await anext(lines)
    await lines.aclose()


@pytest.mark.parametrize("leader", ["waits", "answers with nothing", "is gone"])
async def test_a_tail_says_something_while_nothing_comes(monkeypatch: pytest.MonkeyPatch, leader: str):
    monkeypatch.setattr(tail, "HEARTBEAT_S", 0.01)
    monkeypatch.setattr(tail, "_REST_S", 0.001)
    logs = Logs([])
    logs.waits = leader == "waits"
    logs.leaders[0] = -1 if leader == "is gone" else 1
    lines = stream(logs, follow="true").pieces()
    async with asyncio.timeout(5):
        assert [await anext(lines) for _ in range(3)] == [b"", b"\n", b"\n"]
    logs.logs[0].append(batch_at(0, "late"))
    logs.leaders[0] = 1
    logs.news.set()
    async with asyncio.timeout(5):
        while b'"late"' not in bytes(await anext(lines)):
            pass
    await lines.aclose()


async def test_a_tail_says_something_while_other_records_come(monkeypatch: pytest.MonkeyPatch):
    """Proxies cut a silent connection, and one whose reader has disappeared is noticed by writing to it."""
    monkeypatch.setattr(tail, "HEARTBEAT_S", 0.3)
    logs = Steady([])
    lines = stream(logs, follow="true", key="wanted").pieces()
    async with asyncio.timeout(5):
        while await anext(lines) != b"\n":
            pass
    await lines.aclose()
    assert len(logs.asked) > 1


async def test_a_tail_ends_when_asking_again_does_not_help():
    logs = Logs([batch_at(0, "a")])
    logs.errors = [NotFoundError("deleted", code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]
    with pytest.raises(NotFoundError):
        await all_lines(stream(logs, follow="true"))


async def test_a_tail_of_so_many_records_ends():
    logs = Logs([batch_at(0, "a", "b", "c")])
    assert await all_lines(stream(logs, follow="true", max_records="2")) == ["a", "b"]
