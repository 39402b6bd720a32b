"""Byte ranges of a response: the position of each piece, so that one piece can be rendered without the others.

Lazy readers request a file's size or end, then the parts that they need, without a version. So the bytes behind a URL
with an open end must not change when records arrive: the file only grows. Existing pieces keep their positions, new
pieces follow, and only the footer changes.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from weakref import WeakValueDictionary

from raftlog.broker.topic_reads.stream import Spans, StreamPart, TopicStream
from raftlog.errors import ErrorCode, InvalidRequestError, RaftlogError
from raftlog.wire.codec import Buffer

DIVISIBLE = ("parquet", "ndjson", "csv")
"""Formats whose pieces are independent of each other."""
MAX_REMEMBERED_BYTES = 16 << 20
"""The most bytes of cached layouts (footers and positions)."""
LAY_OUT_S = 30.0
"""A file whose layout takes longer is returned only as a whole."""
RESPITE_S = 60.0
"""After a layout was discarded, parts are refused for this long: a reader may still use the old layout."""
_LAYOUT_BYTES, _PART_BYTES, _SPAN_BYTES = 1_000, 200, 150
"""Memory of a layout without its footer, of each piece, and of each partition."""
_RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The positions of all pieces of one file."""

    spans: Spans
    head: bytes
    parts: tuple[tuple[int, StreamPart], ...]
    """(first byte, content) of each piece."""
    footer: bytes
    size: int

    @property
    def memory_bytes(self) -> int:
        """What it takes, about: filtered files without rows count, too."""
        variable = len(self.head) + len(self.footer)
        return _LAYOUT_BYTES + variable + _PART_BYTES * len(self.parts) + _SPAN_BYTES * len(self.spans)


class Layouts:
    """A cache of layouts, by a name that does not depend on a file's end; the least recently used is evicted."""

    def __init__(self, max_bytes: int = MAX_REMEMBERED_BYTES) -> None:
        self._max_bytes = max_bytes
        self._known: OrderedDict[str, Layout] = OrderedDict()
        self._bytes = 0
        """Of all names and layouts."""
        self._forgotten: dict[str, float] = {}
        """The loop time at which each layout was discarded."""
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def known(self, name: str) -> Layout | None:
        """Return the cached layout of a file."""
        if (layout := self._known.get(name)) is not None:
            self._known.move_to_end(name)
        return layout

    async def newest(self, name: str, stream: TopicStream) -> Layout | None:
        """Extend a file's layout to the current end of `stream`.

        None: it takes too long, or the file's beginning has changed, so that parts of it are refused for now.
        """
        # One at a time: two concurrent layouts would not continue each other.
        lock = self._locks.setdefault(name, asyncio.Lock())
        async with lock:
            before = self.known(name)
            if before is not None and before.spans == stream.spans:
                return before
            if before is not None and not _continues(before.spans, stream.spans):
                self._forget(name)
                before = None
            if self._rests(name):
                return None
            try:
                async with asyncio.timeout(LAY_OUT_S):
                    layout = await _lay_out(stream, before)
            except TimeoutError:
                return None
            self._remember(name, layout)
            return layout

    def _remember(self, name: str, layout: Layout) -> None:
        if (before := self._known.get(name)) is not None:
            self._bytes -= len(name) + before.memory_bytes
        self._known[name] = layout
        self._known.move_to_end(name)
        self._bytes += len(name) + layout.memory_bytes
        while self._bytes > self._max_bytes:
            self._forget(next(iter(self._known)))

    def _forget(self, name: str) -> None:
        self._bytes -= len(name) + self._known.pop(name).memory_bytes
        self._forgotten[name] = asyncio.get_running_loop().time()

    def _rests(self, name: str) -> bool:
        now = asyncio.get_running_loop().time()
        self._forgotten = {name: at for name, at in self._forgotten.items() if now - at < RESPITE_S}
        return name in self._forgotten


def _continues(before: Spans, now: Spans) -> bool:
    return before.keys() == now.keys() and all(
        before[partition][0] == begin and (before[partition][1] or 0) <= (end or 0)
        for partition, (begin, end) in now.items()
    )


async def _lay_out(stream: TopicStream, before: Layout | None) -> Layout:
    head = stream.begin()
    at, parts = len(head), list[tuple[int, StreamPart]]()
    async for part, data in stream.parts_after([part for _, part in before.parts] if before else []):
        if data:
            parts.append((at, part))
        at += len(data)
    footer = await stream.end()
    return Layout(spans=stream.spans, head=head, parts=tuple(parts), footer=footer, size=at + len(footer))


async def pieces_between(layout: Layout, stream: TopicStream, first: int, last: int) -> AsyncGenerator[Buffer, None]:
    """Return bytes `first` to `last`, inclusive.

    Raises:
        RaftlogError: a piece of the layout can no longer be read.
    """

    def cut(start: int, data: Buffer) -> Buffer:
        return data[max(0, first - start) : max(0, last + 1 - start)]

    yield cut(0, layout.head)
    ends = [start for start, _ in layout.parts[1:]] + [layout.size - len(layout.footer)]
    for (start, part), end in zip(layout.parts, ends, strict=True):
        if start <= last and first < end:
            data = await stream.part_again(part)
            if len(data) != end - start:
                raise RaftlogError(
                    f"partition {part.partition}: offsets {part.begin} to {part.end} have changed; read again"
                )
            yield cut(start, data)
    yield cut(layout.size - len(layout.footer), layout.footer)


def parse_range(text: str, size: int) -> tuple[int, int] | None:
    """Return the first and last byte of a `Range` header (RFC 9110, 14.2); None: a header to ignore.

    Raises:
        RangeNotSatisfiableError: the range is outside the response.
    """
    match = _RANGE.fullmatch(text.strip())
    if match is None or match[1] == match[2] == "":
        return None
    if match[1] == "":
        first, last = size - int(match[2]), size - 1
    else:
        first, last = int(match[1]), int(match[2]) if match[2] else size - 1
        if last < first and match[2]:
            return None
    first, last = max(0, first), min(last, size - 1)
    if first > last:
        raise RangeNotSatisfiableError(
            f"Range: the response has {size} bytes, received {text!r:.80}", code=ErrorCode.OFFSET_OUT_OF_RANGE
        )
    return first, last


def begins_a_read(text: str | None) -> bool:
    """Return whether a `Range` header (None: no header) starts a read: the reader has no part of the file yet."""
    return text is None or text.strip().startswith(("bytes=-", "bytes=0-"))


class RangeNotSatisfiableError(InvalidRequestError):
    """The requested range is outside the response (HTTP 416)."""
