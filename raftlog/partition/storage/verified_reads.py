"""Reads of whole batches with verified checksums, in one pass over the segment file.

Small results are returned as bytes. Large results stay in the file as a `FileRange`, which sendfile(2) writes to a
socket without copying it through this process. For readers that verify payloads themselves (ADR 0016), only the headers
of large batches are verified.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from raftlog.checksum import crc32c
from raftlog.errors import CorruptBatchError
from raftlog.model import Offset
from raftlog.partition.storage.batch_scan import Read
from raftlog.partition.storage.behind_damage import position_behind
from raftlog.partition.storage.files import is_unreadable
from raftlog.partition.storage.index import INTERVAL_BYTES
from raftlog.partition.storage.segment import Segment
from raftlog.record.batch import HEADER_BYTES, MAGIC

WINDOW_BYTES = 256 << 10
"""Bytes of one read: fits into the CPU cache, and malloc needs no system call for it."""
MOST_BATCHES = 1_024
"""Batches of one read, whatever their size: each takes 2 to 5 µs here, and up to 10 µs at the follower that gets it."""
MOST_CHECKED_BYTES = 4 << 20
"""Bytes of one read whose payloads are verified: 1 ms each MiB here, of the event loop's time."""
SENDFILE_BYTES = 64 << 10
"""From this size on, sendfile is cheaper than read and write."""
HEADER_READ_BYTES = 4 << 10
LARGE_BYTES = 32 << 10
"""After a batch of this size, and without payload verification, only `HEADER_READ_BYTES` are read."""
_HEADER = struct.Struct("<qI4xIBxxxI28xI4x")
assert _HEADER.size == HEADER_BYTES
_CRC_AT, _AFTER_CRC = 16, 20


class FileRange:
    """Whole batches in a segment's file, verified here or by the reader.

    `on_damage` is called with a description, in the reader's thread, when the file is unreadable or too short.
    """

    __slots__ = ("_cuts", "_length", "_position", "_segment", "on_damage")

    def __init__(self, segment: Segment, position: int, length: int) -> None:
        self._segment = segment
        self._cuts = segment.cuts
        self._position = position
        self._length = length
        self.on_damage: Callable[[str], None] | None = None

    def __len__(self) -> int:
        return self._length

    @property
    def is_there(self) -> bool:
        """Whether its bytes are still in the file: the log was not truncated there, compacted or closed."""
        return self._segment.cuts == self._cuts

    def read(self, start: int = 0, count: int | None = None) -> bytes:
        """Return `count` bytes from `start` on, fewer at the end; all that follow if None.

        Raises:
            OSError: they cannot be read any more.
        """
        self._require_there()
        left = max(0, self._length - start)
        wanted = left if count is None else min(count, left)
        try:
            data = self._segment.file.pread(wanted, self._position + start)
        except OSError as error:
            self._note(error)
            raise
        self._require_there()  # A worker thread reads while the log's owner may truncate it.
        if len(data) != wanted:
            raise self._short()
        return data

    def send(self, descriptor: int, start: int) -> int:
        """Write the bytes from `start` on to a socket with sendfile; return how many were written.

        Raises:
            BlockingIOError: the socket's buffer is full.
            OSError: a system call failed, or the log was truncated meanwhile.
        """
        self._require_there()
        try:
            with self._segment.file.use() as source:
                sent = os.sendfile(descriptor, source, self._position + start, self._length - start)
        except OSError as error:
            self._note(error)
            raise
        if sent == 0:
            raise self._short()
        return sent

    def _require_there(self) -> None:
        if not self.is_there:
            raise ConnectionAbortedError(f"{self._segment.path} was cut or closed while it was being read")

    def _note(self, error: OSError) -> None:
        """Report an unreadable disk; errors of the socket are no damage."""
        if self.on_damage is not None and is_unreadable(error):
            self.on_damage(f"the disk cannot read byte {self._position} and what follows: {error.strerror}")

    def _short(self) -> ConnectionAbortedError:
        problem = f"{self._segment.path} ends before byte {self._position + self._length}"
        if self.on_damage is not None:
            self.on_damage(problem)
        return ConnectionAbortedError(problem)


@dataclass(frozen=True, slots=True)
class VerifiedBatches:
    """The result of a read: whole batches with valid checksums, and the problem of the next batch, if it has one."""

    data: bytes | FileRange = b""
    end_offset: Offset = -1
    """After the last record of the last batch; -1 if there is none."""
    problem: str = ""
    count: int = 0
    """The number of batches."""


def find_verified(
    segment: Segment, offset: Offset, max_bytes: int, limit_offset: Offset, *, check_crcs: bool = True
) -> VerifiedBatches:
    """Return whole batches: from the one that holds `offset`, below `limit_offset`, about `max_bytes` long.

    The first one is returned even if it alone exceeds `max_bytes`. At most `MOST_BATCHES` are returned, and at most
    `MOST_CHECKED_BYTES` with `check_crcs`. If an earlier batch is damaged, the result has its problem, too.

    Args:
        check_crcs: verify every payload; otherwise only those of small batches, which are read anyway.

    Raises:
        OSError: the file cannot be read.
        CorruptBatchError: its index had to be rebuilt, and the log is damaged.
    """
    if check_crcs:
        max_bytes = min(max_bytes, MOST_CHECKED_BYTES)
    with segment.reading() as read:
        walk = _Walk(read, segment.position_near(offset), segment.size, check_crcs=check_crcs)
        if not walk.stands_at_or_before(offset):
            # Either the index or the log is wrong; `position_before` verifies the index.
            try:
                walk = _Walk(read, segment.position_before(offset), segment.size, check_crcs=check_crcs)
            except CorruptBatchError:
                if not walk.lost:
                    raise
        found = _find(segment, walk, offset, max_bytes, limit_offset)
        if not walk.lost or found.data or (behind := position_behind(segment, read, walk.position, offset)) is None:
            return found
        walk = _Walk(read, behind, segment.size, check_crcs=check_crcs)
        return replace(_find(segment, walk, offset, max_bytes, limit_offset), problem=found.problem)


def _find(segment: Segment, walk: _Walk, offset: Offset, max_bytes: int, limit_offset: Offset) -> VerifiedBatches:
    start, stop, end_offset, count = -1, -1, -1, 0
    while count < MOST_BATCHES and (header := walk.header()) is not None:
        if header.last_offset >= limit_offset and header.last_offset >= offset:
            break
        if header.last_offset < offset:
            walk.skip(header)
            continue
        if start >= 0 and walk.position + header.length - start > max_bytes:
            break
        begins = walk.position
        if not walk.check(header):
            break
        start = begins if start < 0 else start
        stop, end_offset, count = walk.position, header.last_offset + 1, count + 1
    if start < 0:
        return VerifiedBatches(problem=walk.problem)
    data = walk.held(start, stop) if stop - start < SENDFILE_BYTES else None
    return VerifiedBatches(data or FileRange(segment, start, stop - start), end_offset, walk.problem, count)


class _Header(NamedTuple):
    base_offset: Offset
    last_offset: Offset
    length: int
    payload_crc: int


class _Walk:
    """Steps over the batches of a file, one window at a time. `problem` is set when it stops before the end.

    It decodes only what it needs: every record that a broker sends passes through it.
    """

    def __init__(self, read: Read, position: int, end: int, *, check_crcs: bool) -> None:
        self.position = position
        self.problem = ""
        self.lost = False
        """Whether the header at `position` is damaged, so that the next batch may begin anywhere."""
        self._read = read
        self._end = end
        self._check_crcs = check_crcs
        self._window = b""
        self._window_at = position
        self._window_bytes = WINDOW_BYTES if check_crcs else SENDFILE_BYTES + INTERVAL_BYTES

    def header(self) -> _Header | None:
        """Return the header of the batch at `position`; None at the end, or if the header is damaged."""
        if self.position >= self._end or self.problem:
            return None
        if self.position + HEADER_BYTES > self._window_at + len(self._window):
            self._load(self.position)
        window, at = self._window, self.position - self._window_at
        if len(window) - at < HEADER_BYTES:
            self.problem = self.problem or f"the file ends amid the batch at byte {self.position}"
            return None
        base_offset, length, crc, magic, payload_crc, last_delta = _HEADER.unpack_from(window, at)
        checked = window[at : at + _CRC_AT] + window[at + _AFTER_CRC : at + HEADER_BYTES]
        if crc32c(checked) != crc or magic != MAGIC:
            self.problem, self.lost = f"the header checksum of the batch at byte {self.position} is wrong", True
            return None
        if not HEADER_BYTES <= length <= self._end - self.position:
            self.problem = f"the batch at byte {self.position} is not whole"
            return None
        return _Header(base_offset, base_offset + last_delta, length, payload_crc)

    def stands_at_or_before(self, offset: Offset) -> bool:
        """Return whether a valid batch header is at `position`, with a base offset at or before `offset`."""
        header = self.header()
        return header is not None and header.base_offset <= offset

    def skip(self, header: _Header) -> None:
        """Step over the batch at `position`."""
        self.position += header.length

    def check(self, header: _Header) -> bool:
        """Step over the batch at `position` if its payload is valid, or large and verified by the reader."""
        if not self._check_crcs and self.position + header.length > self._window_at + len(self._window):
            self._window_bytes = HEADER_READ_BYTES if header.length >= LARGE_BYTES else WINDOW_BYTES
            self.position += header.length
            return True
        crc = 0
        for piece in self._pieces(self.position + HEADER_BYTES, self.position + header.length):
            crc = crc32c(piece, crc)
        if self.problem or crc != header.payload_crc:
            self.problem = self.problem or f"the payload checksum of the batch at byte {self.position} is wrong"
            return False
        self.position += header.length
        return True

    def held(self, start: int, stop: int) -> bytes | None:
        """Return bytes [start, stop) if they are in the window, else None."""
        if start < self._window_at or stop > self._window_at + len(self._window):
            return None
        return self._window[start - self._window_at : stop - self._window_at]

    def _pieces(self, start: int, stop: int) -> Iterator[memoryview]:
        while start < stop:
            if start >= self._window_at + len(self._window):
                self._load(start)
            if not self._window:
                self.problem = self.problem or f"the file ends at byte {start}, amid a batch"
                return
            first, last = start - self._window_at, min(stop - self._window_at, len(self._window))
            yield memoryview(self._window)[first:last]
            start = self._window_at + last

    def _load(self, position: int) -> None:
        self._window_at, self._window = position, b""
        try:
            self._window = self._read(min(self._window_bytes, self._end - position), position)
        except OSError as error:
            if not is_unreadable(error):
                raise
            self.problem = f"the disk cannot read byte {position} and what follows: {error.strerror}"
