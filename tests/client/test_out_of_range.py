"""Positions that are not in the log, and what the application does while the reader asks where to go on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from test_fetching import T0, Log

from raftlog.client.fetching import Failure, Fetcher
from raftlog.client.reader import PartitionReader
from raftlog.errors import OffsetOutOfRangeError
from raftlog.wire.data import OffsetResponse


class SlowLog(Log):
    """Answers where it ends once the test lets it."""

    def __init__(self) -> None:
        super().__init__(end=4, waits=True)
        self.was_asked = asyncio.Event()
        self.may_answer = asyncio.Event()

    def cached_topic(self, topic: str) -> SimpleNamespace:
        return SimpleNamespace(topic_id="f" * 32, partitions=("partition 0",))

    async def at_leader(self, *_: object, **__: object) -> OffsetResponse:
        self.was_asked.set()
        await self.may_answer.wait()
        return OffsetResponse(topic="t", partition=0, offset=self.end, log_start_offset=0)


def _seek(reader: PartitionReader) -> None:
    reader.begin({T0: 2})


def _seek_to_where_it_was(reader: PartitionReader) -> None:
    reader.begin({T0: 50})


def _end(reader: PartitionReader) -> None:
    reader.end([T0])


def _take_again(reader: PartitionReader) -> None:
    reader.end([T0])
    reader.begin({T0: 2}, is_chosen=False)


@pytest.mark.parametrize(
    ("meanwhile", "position"),
    [(lambda _: None, 4), (_seek, 2), (_seek_to_where_it_was, 50), (_end, None), (_take_again, 2)],
    ids=["nothing", "seek", "seek to where it was", "end", "take again"],
)
async def test_what_the_application_chooses_during_a_lookup_stays(
    meanwhile: Callable[[PartitionReader], None], position: int | None
):
    log = SlowLog()
    fetcher = Fetcher(log, max_wait_ms=1, min_bytes=1, max_bytes=1, partition_max_bytes=1)  # type: ignore[arg-type]
    reader = PartitionReader(log, fetcher, on_out_of_range="latest")  # type: ignore[arg-type]
    reader.begin({T0: 50})
    async with asyncio.timeout(10):
        deciding = asyncio.create_task(reader._decide(Failure(T0, OffsetOutOfRangeError("it is not in the log"))))
        await log.was_asked.wait()
        meanwhile(reader)
        log.may_answer.set()
        await deciding
    assert reader.positions.get(T0) == position
    assert [one.offset for one in fetcher.positions.values()] == ([] if position is None else [position])
