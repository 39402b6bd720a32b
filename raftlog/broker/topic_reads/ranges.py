"""Parts of an answer: where each piece lies in it, so that one can be made again without the others.

Lazy readers ask for a file's size or for its end, then for what they need, and name no version of it. So a URL whose
end is open must not give them other bytes when records have come meanwhile: its file only grows. What was laid out once
stays where it is, what is new comes behind it, and only the footer is another.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from weakref import WeakValueDictionary

from raftlog.broker.topic_reads.stream import Part, Spans, TopicStream
from raftlog.errors import ErrorCode, InvalidRequestError, RaftlogError
from raftlog.wire.codec import Buffer

DIVISIBLE = ("parquet", "ndjson", "csv")
"""Forms whose pieces do not depend on each other."""
MAX_REMEMBERED_BYTES = 16 << 20
"""Footers and places of all files that are remembered."""
LAY_OUT_S = 30.0
"""A file that takes longer is given as a whole only: its readers do not wait for so long."""
RESPITE_S = 60.0
"""So long after a file was laid out anew, none of its parts are given: a reader may still go by what was before."""
_PART_BYTES = 200
_RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Where everything lies in one file."""

    spans: Spans
    head: bytes
    parts: tuple[tuple[int, Part], ...]
    """Each piece: its first byte, and what it holds; without the bytes."""
    footer: bytes
    size: int

    @property
    def memory_bytes(self) -> int:
        return len(self.footer) + _PART_BYTES * len(self.parts)


class Layouts:
    """Files that were laid out, by a name that does not depend on their end; the one used longest ago goes first."""

    def __init__(self, max_bytes: int = MAX_REMEMBERED_BYTES) -> None:
        self._max_bytes = max_bytes
        self._known: OrderedDict[str, Layout] = OrderedDict()
        self._forgotten: dict[str, float] = {}
        """When, by the loop's clock."""
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def known(self, name: str) -> Layout | None:
        """Return what readers of a file go by."""
        if (layout := self._known.get(name)) is not None:
            self._known.move_to_end(name)
        return layout

    async def newest(self, name: str, stream: TopicStream) -> Layout | None:
        """Lay a file out as far as `stream` goes now.

        None: it takes too long, or the file's beginning has changed: parts of it must wait.
        """
        # One after another: what two lay out at once would not continue each other.
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
        self._known[name] = layout
        self._known.move_to_end(name)
        while sum(known.memory_bytes for known in self._known.values()) > self._max_bytes:
            self._forget(next(iter(self._known)))

    def _forget(self, name: str) -> None:
        del self._known[name]
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
    at, parts = len(head), list[tuple[int, Part]]()
    async for part, data in stream.parts_after([part for _, part in before.parts] if before else []):
        if data:
            parts.append((at, part))
        at += len(data)
    footer = await stream.end()
    return Layout(spans=stream.spans, head=head, parts=tuple(parts), footer=footer, size=at + len(footer))


async def pieces_between(layout: Layout, stream: TopicStream, first: int, last: int) -> AsyncGenerator[Buffer, None]:
    """Return bytes `first` to `last`, inclusive.

    Raises:
        RaftlogError: what was laid out cannot be read any more.
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
                    f"partition {part.partition}: offsets {part.begin} to {part.end} are not what they were; read anew"
                )
            yield cut(start, data)
    yield cut(layout.size - len(layout.footer), layout.footer)


def parse_range(text: str, size: int) -> tuple[int, int] | None:
    """Return the first and last byte of a `Range` header (RFC 9110, 14.2); None: it is none that must be heeded.

    Raises:
        RangeNotSatisfiableError: nothing of it is in the answer.
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
            f"Range: the answer has {size} bytes, received {text!r:.80}", code=ErrorCode.OFFSET_OUT_OF_RANGE
        )
    return first, last


def begins_a_read(text: str | None) -> bool:
    """Tell whether a `Range` header (None: there is none) is of a reader who knows nothing of the file yet."""
    return text is None or text.strip().startswith(("bytes=-", "bytes=0-"))


class RangeNotSatisfiableError(InvalidRequestError):
    """Nothing that was asked for is in the answer."""
