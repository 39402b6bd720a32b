"""The cache of files' layouts: bounded by what layouts take, also those of files without rows."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast

from raftlog.broker.topic_reads.ranges import Layouts

PARTITIONS = 1_000


class Empty:
    """A stream without rows, of a topic with many partitions; in place of `TopicStream`."""

    def __init__(self, end: int = 0) -> None:
        self.spans = dict.fromkeys(range(PARTITIONS), (0, end))

    def begin(self) -> bytes:
        return b""

    async def parts_after(self, parts: list[Any]) -> AsyncIterator[Any]:
        for part in parts:
            yield part

    async def end(self) -> bytes:
        return b""


async def test_layouts_of_files_without_rows_are_evicted_too():
    layouts = Layouts(max_bytes=1 << 20)
    for number in range(50):
        await layouts.newest(f"file {number}", cast("Any", Empty()))

    known = [number for number in range(50) if layouts.known(f"file {number}") is not None]
    assert known == list(range(50 - len(known), 50))
    assert 1 <= len(known) < 10


async def test_a_layout_that_grows_is_counted_once():
    layouts = Layouts(max_bytes=1 << 20)
    for end in range(100):
        await layouts.newest("file", cast("Any", Empty(end)))
    await layouts.newest("other", cast("Any", Empty()))

    assert layouts.known("file") is not None
    assert layouts.known("other") is not None
    for number in range(10):
        await layouts.newest(f"file {number}", cast("Any", Empty()))
    assert layouts.known("file") is None
