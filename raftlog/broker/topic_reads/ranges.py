"""Parts of a Parquet answer: where each row group lies in it, so that one can be made again without the others.

Lazy readers ask for a file's size, then for its end (the footer), then for what they need. A range of offsets that is
fixed gives the same bytes each time: what is remembered of it is its footer, and which offsets each row group holds.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from raftlog.broker.topic_reads.stream import Part, TopicStream
from raftlog.errors import ErrorCode, InvalidRequestError, RaftlogError

MAX_REMEMBERED_BYTES = 16 << 20
"""Footers and places of all files that are remembered."""
_PART_BYTES = 200
_RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Where everything lies in one file."""

    head: bytes
    parts: tuple[tuple[int, Part], ...]
    """Each row group: its first byte, and what it holds; without the bytes."""
    footer: bytes
    size: int

    @property
    def memory_bytes(self) -> int:
        return len(self.footer) + _PART_BYTES * len(self.parts)


class Layouts:
    """Files that were laid out: those used longest ago are forgotten first."""

    def __init__(self, max_bytes: int = MAX_REMEMBERED_BYTES) -> None:
        self._max_bytes = max_bytes
        self._known: OrderedDict[str, Layout] = OrderedDict()

    async def of(self, etag: str, stream: TopicStream) -> Layout:
        """Return the layout of a file; it is made once, and only measured.

        Args:
            etag: names topic, offsets and columns.
        """
        layout = self._known.pop(etag, None) or await _lay_out(stream)
        if layout.memory_bytes <= self._max_bytes:
            self._known[etag] = layout
        while sum(known.memory_bytes for known in self._known.values()) > self._max_bytes:
            self._known.popitem(last=False)
        return layout


async def _lay_out(stream: TopicStream) -> Layout:
    head = stream.begin()
    at, parts = len(head), []
    async for part, data in stream.parts():
        if data:
            parts.append((at, part))
        at += len(data)
    footer = await stream.end()
    return Layout(head=head, parts=tuple(parts), footer=footer, size=at + len(footer))


async def pieces_between(layout: Layout, stream: TopicStream, first: int, last: int) -> AsyncGenerator[bytes, None]:
    """Return bytes `first` to `last`, inclusive.

    Raises:
        RaftlogError: what was laid out cannot be read any more.
    """

    def cut(start: int, data: bytes) -> bytes:
        return data[max(0, first - start) : max(0, last + 1 - start)]

    yield cut(0, layout.head)
    ends = [start for start, _ in layout.parts[1:]] + [layout.size - len(layout.footer)]
    for (start, part), end in zip(layout.parts, ends, strict=True):
        if start <= last and first < end:
            data = await stream.part_again(part)
            if len(data) != end - start:
                raise RaftlogError(
                    f"partition {part.partition}: offsets {part.begin} to {part.end} are not what they were"
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


class RangeNotSatisfiableError(InvalidRequestError):
    """Nothing that was asked for is in the answer."""
