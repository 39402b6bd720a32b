"""One segment: a file of concatenated batches, with a sparse index in memory that is rebuilt when it is opened."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

from raftlog.errors import CorruptBatchError
from raftlog.model import Offset
from raftlog.partition.storage.files import write_fully
from raftlog.record.batch import HEADER_BYTES, BatchHeader, parse_header, verify_payload_crc

SUFFIX = ".log"
INDEX_INTERVAL_BYTES = 16 << 10
_SCAN_BYTES = 1 << 20


def segment_path(folder: Path, base_offset: Offset) -> Path:
    """Return the file of the segment whose first record has `base_offset`."""
    return folder / f"{base_offset:020d}{SUFFIX}"


class Segment:
    """An open segment file. `next_offset` and `size` are what is known to be sound."""

    def __init__(self, path: Path, base_offset: Offset) -> None:
        self.path = path
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.size = 0
        self.max_timestamp = -(2**63)
        self.first_timestamp: int | None = None
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._index_offsets: list[Offset] = []
        self._index_positions: list[int] = []

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def file_size(self) -> int:
        return os.fstat(self.descriptor).st_size

    def write(self, content: bytes | bytearray | memoryview) -> None:
        """Write batches at `size`; then `learn` each of them.

        Raises:
            OSError: the file may hold part of them; call `cut(self.size)` to remove it.
        """
        write_fully(self.descriptor, content, self.size)

    def learn(self, header: BatchHeader) -> None:
        """Take note of the batch that lies at `size`."""
        if not self._index_positions or self.size - self._index_positions[-1] >= INDEX_INTERVAL_BYTES:
            self._index_offsets.append(header.base_offset)
            self._index_positions.append(self.size)
        if self.first_timestamp is None:
            self.first_timestamp = header.max_timestamp
        self.max_timestamp = max(self.max_timestamp, header.max_timestamp)
        self.size += header.batch_length
        self.next_offset = header.next_offset

    def cut(self, size: int) -> None:
        """Remove bytes from `size` on. Bookkeeping is unchanged: see `truncate_to` for that."""
        os.ftruncate(self.descriptor, size)

    def truncate_to(self, offset: Offset) -> None:
        """Remove every batch that holds `offset` or more; rebuild what is known of the rest."""
        kept = [header for _, header in self.headers() if header.last_offset < offset]
        self.size, self.next_offset, self.max_timestamp = 0, self.base_offset, -(2**63)
        self.first_timestamp = None
        self._index_offsets.clear()
        self._index_positions.clear()
        for header in kept:
            self.learn(header)
        self.cut(self.size)

    def position_of(self, offset: Offset) -> int:
        """Return where a batch starts that lies at or before the batch that holds `offset`."""
        at = bisect_right(self._index_offsets, offset)
        return self._index_positions[at - 1] if at else 0

    def headers(self, offset: Offset = 0) -> Iterator[tuple[int, BatchHeader]]:
        """Walk over (position, header) of sound batches, from the one that holds `offset`, or one shortly before.

        Raises:
            CorruptBatchError: the disk no longer holds what was written.
        """
        yield from self.scan(self.position_of(offset), self.size, verify=False)

    def scan(self, position: int, end: int, *, verify: bool) -> Iterator[tuple[int, BatchHeader]]:
        """Walk over (position, header) of the batches in [position, end); `verify` checks payloads too.

        Raises:
            CorruptBatchError: at the first batch that is not sound or not whole; what came before is.
        """
        while position < end:
            window = os.pread(self.descriptor, min(_SCAN_BYTES, end - position), position)
            header = parse_header(window)
            if header.batch_length > end - position:
                raise CorruptBatchError(f"{self.path.name}: the batch at byte {position} is not whole")
            if header.batch_length > len(window):
                window = os.pread(self.descriptor, header.batch_length, position)
            at = 0
            while True:
                if verify:
                    verify_payload_crc(header, memoryview(window)[at:])
                yield position, header
                position, at = position + header.batch_length, at + header.batch_length
                if len(window) - at < HEADER_BYTES or position >= end:
                    break
                header = parse_header(window, at)
                if header.batch_length > len(window) - at:
                    break

    def read_at(self, position: int, length: int) -> bytes:
        """Return up to `length` bytes of sound batches from `position`."""
        return os.pread(self.descriptor, min(length, self.size - position), position)
