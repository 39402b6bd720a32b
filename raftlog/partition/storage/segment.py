"""One segment: a file of concatenated batches, and its sparse index.

Files are open, and indexes in memory, only while they are used (`FilePool`): an idle partition needs neither.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from raftlog.errors import CorruptBatchError
from raftlog.model import Offset
from raftlog.partition.storage.batch_scan import scan_batches
from raftlog.partition.storage.file_pool import FilePool, PooledFile
from raftlog.partition.storage.files import is_unreadable, unlink_quietly, write_fully
from raftlog.partition.storage.index import (
    NO_TIMESTAMP,
    SegmentFacts,
    SparseIndex,
    read_index,
    write_index,
)
from raftlog.partition.storage.index import SUFFIX as INDEX_SUFFIX
from raftlog.partition.storage.transaction_index import SUFFIX as ABORTED_SUFFIX
from raftlog.partition.storage.transaction_index import AbortedEntry, entry_of, read_aborted, write_aborted
from raftlog.record.batch import HEADER_BYTES, BatchHeader, Buffer, parse_header
from raftlog.record.control import Marker, parse_marker

SUFFIX = ".log"
_NONE = (-1, b"")
_CHUNK_BYTES = 1 << 20
_RECENT_BATCHES = 4
NEWEST_BYTES = 4 << 10
"""The newest batch stays in memory if it is at most this long, and its segment in use."""


def segment_path(folder: Path, base_offset: Offset) -> Path:
    """Return the file of the segment whose first record has `base_offset`."""
    return folder / f"{base_offset:020d}{SUFFIX}"


def unlink_indexes(path: Path) -> None:
    """Remove the index files of a segment, if there are any."""
    unlink_quietly(path.with_suffix(INDEX_SUFFIX))
    unlink_quietly(path.with_suffix(ABORTED_SUFFIX))


class Segment:
    """A segment file. `next_offset` and `size` cover the part that is known to be intact."""

    __slots__ = (
        "_aborted",
        "_index",
        "_newest",
        "_recent",
        "_used",
        "aborted_count",
        "base_offset",
        "cuts",
        "file",
        "first_timestamp",
        "indexed_size",
        "max_timestamp",
        "next_offset",
        "path",
        "size",
    )

    def __init__(self, path: Path, base_offset: Offset, pool: FilePool | None = None) -> None:
        self.path = path
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.size = 0
        self.max_timestamp = NO_TIMESTAMP
        self.first_timestamp: int | None = None
        self.file = PooledFile(pool or FilePool(), path)
        self.cuts = 0
        """How often it was truncated or closed: a `FileRange` from before is invalid."""
        self.indexed_size = -1
        """The index file covers this many bytes; -1: there is none."""
        self._index: SparseIndex | None = SparseIndex()
        self.aborted_count = 0
        """How many aborted transactions have their marker in this segment."""
        self._aborted: list[AbortedEntry] | None = []
        self._used = True
        self._recent: tuple[tuple[Offset, int], ...] = ()
        """Base offset and position of the newest batches, newest first: followers and consumers at the log's end read
        there, and need not step over up to 16 KiB of batches from an index entry on."""
        self._newest: tuple[Offset, bytes] = _NONE
        """The newest batch and its base offset, if it was appended alone and is small: followers wait for it."""

    @classmethod
    def create(cls, path: Path, base_offset: Offset, pool: FilePool) -> Segment:
        """Make an empty segment; the caller syncs the folder.

        Raises:
            OSError: from the system; an empty file may be there.
        """
        unlink_indexes(path)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644))
        return cls(path, base_offset, pool)

    def moved_to(self, path: Path) -> None:
        """Record that the file was renamed; an open descriptor stays valid."""
        self.path = self.file.path = path

    @property
    def index_path(self) -> Path:
        return self.path.with_suffix(INDEX_SUFFIX)

    @property
    def facts(self) -> SegmentFacts:
        """The facts that an index file of the present segment contains."""
        first = NO_TIMESTAMP if self.first_timestamp is None else self.first_timestamp
        return SegmentFacts(
            self.base_offset, self.size, self.next_offset, self.max_timestamp, first, self.aborted_count
        )

    def close(self) -> None:
        self.cuts += 1
        self.forget_recent()
        self.file.close()

    def file_size(self) -> int:
        with self.file.use() as descriptor:
            return os.fstat(descriptor).st_size

    def written_us(self) -> int:
        """Return when the file was last written to, in us since 1970.

        Raises:
            OSError: from the system.
        """
        return os.stat(self.path).st_mtime_ns // 1_000

    def load_facts(
        self, facts: SegmentFacts, index: SparseIndex | None = None, aborted: list[AbortedEntry] | None = None
    ) -> None:
        """Load verified facts of an index file; an index that is not given is read on use."""
        self.size, self.next_offset, self.max_timestamp = facts.size, facts.next_offset, facts.max_timestamp
        self.first_timestamp = None if facts.size == 0 else facts.first_timestamp
        self.indexed_size, self._index = facts.size, index
        self.forget_recent()
        self.aborted_count, self._aborted = facts.aborted, aborted

    def write(self, content: bytes | bytearray | memoryview) -> None:
        """Write batches at `size`; the caller then calls `learn` for each.

        Raises:
            OSError: the file may hold part of them; call `cut(self.size)` to remove it.
        """
        with self.file.use() as descriptor:
            write_fully(descriptor, content, self.size)

    def write_again(self, offset: Offset) -> None:
        """Rewrite the same bytes in place, from the batch that has `offset` on.

        Raises:
            CorruptBatchError: a batch is damaged.
            OSError: from the system.
        """
        position = self.position_before(max(offset, self.base_offset))
        with self.file.use() as descriptor:
            while position < self.size:
                content = self.read(min(_CHUNK_BYTES, self.size - position), position)
                write_fully(descriptor, content, position)
                position += len(content)

    def learn(self, header: BatchHeader, marker: Marker | None = None) -> None:
        """Add the batch at `size` to the segment's state and index.

        Args:
            marker: the payload of a control batch; read from the file if not given.
        """
        if header.is_control:
            self._learn_marker(header, marker or self.marker_at(self.size, header))
        self.load_index().add(header.base_offset, self.size, self.max_timestamp)
        self._recent = ((header.base_offset, self.size), *self._recent[: _RECENT_BATCHES - 1])
        self._newest = _NONE
        if self.first_timestamp is None:
            self.first_timestamp = header.max_timestamp
        self.max_timestamp = max(self.max_timestamp, header.max_timestamp)
        self.size += header.batch_length
        self.next_offset = header.next_offset

    def keep_newest(self, base_offset: Offset, batch: Buffer) -> None:
        """Keep the bytes of the batch that `learn` has just added, if they are few."""
        if len(batch) <= NEWEST_BYTES:
            self._newest = (base_offset, bytes(batch))

    def newest(self, offset: Offset) -> bytes:
        """Return the newest batch as it was written, if it begins at `offset` and is in memory; else nothing."""
        base_offset, batch = self._newest
        return batch if base_offset == offset else b""

    def forget_recent(self) -> None:
        """Read everything from the file from now on."""
        self._recent, self._newest = (), _NONE

    def _learn_marker(self, header: BatchHeader, marker: Marker) -> None:
        if (entry := entry_of(header, marker)) is not None:
            self.load_aborted().append(entry)
            self.aborted_count += 1

    def cut(self, size: int) -> None:
        """Truncate the file to `size` bytes. The segment's state is unchanged: see `truncate_to`."""
        self.cuts += 1
        self.forget_recent()
        with self.file.use() as descriptor:
            os.ftruncate(descriptor, size)

    def truncate_to(self, offset: Offset) -> None:
        """Remove every batch with records at or after `offset`.

        Raises:
            OSError: a system call failed; the file may be unchanged.
        """
        self.forget_index()
        self.forget_recent()
        cut_at = next((at for at, header in self.headers(offset) if header.last_offset >= offset), self.size)
        index, aborted = self.load_index(), self.load_aborted()
        index.cut(cut_at)
        newest = index.newest_before[-1] if len(index) else NO_TIMESTAMP
        kept = list(self.scan(index.positions[-1], cut_at, verify=False)) if len(index) else []
        self.max_timestamp = max([newest, *(header.max_timestamp for _, header in kept)])
        self.next_offset = kept[-1][1].next_offset if kept else self.base_offset
        self.first_timestamp = self.first_timestamp if kept else None
        self._aborted = [entry for entry in aborted if entry.last_offset < self.next_offset]
        self.aborted_count = len(self._aborted)
        self.size = cut_at
        self.cut(cut_at)

    def save_index(self) -> None:
        """Write the index file, unless it is up to date.

        Raises:
            StorageError: a disk operation failed; the earlier file is unchanged.
        """
        if self.indexed_size != self.size:
            self.write_index(self.facts, self.load_index(), self.load_aborted())

    def write_index(self, facts: SegmentFacts, index: SparseIndex, aborted: Sequence[AbortedEntry]) -> None:
        """Write the index files from what `copy_index` returned."""
        write_aborted(self.path, facts.base_offset, facts.size, aborted)
        write_index(self.index_path, facts, index)
        self.indexed_size = facts.size

    def copy_index(self) -> tuple[SegmentFacts, SparseIndex, Sequence[AbortedEntry]]:
        """Return a copy of the arguments of `write_index`, for a worker thread while appends go on."""
        copy = SparseIndex()
        for mine, its in zip(self.load_index().columns, copy.columns, strict=True):
            its.extend(mine)
        return self.facts, copy, tuple(self.load_aborted())

    def forget_index(self) -> None:
        """Remove the index files, before a change that makes them wrong."""
        self.load_index()
        self.load_aborted()
        unlink_indexes(self.path)
        self.indexed_size = -1

    def release_if_idle(self) -> None:
        """Release descriptor and index, if the segment was not used since the last call and its index is on disk."""
        if not self._used:
            self.file.release_if_idle()
            self.forget_recent()
            if self.indexed_size == self.size and self.size:
                self._index = self._aborted = None
        self._used = False

    def headers(self, offset: Offset = 0) -> Iterator[tuple[int, BatchHeader]]:
        """Iterate over (position, header), starting at or shortly before the batch that has `offset`.

        Raises:
            CorruptBatchError: a batch is damaged.
        """
        yield from self.scan(self.position_before(offset), self.size, verify=False)

    def position_before(self, offset: Offset) -> int:
        """Return the position of a batch at or shortly before the one that has `offset`, verified.

        Raises:
            CorruptBatchError: the index had to be rebuilt, and a batch is damaged.
        """
        self._used = True
        entry = self.load_index().entry_for(offset)
        if entry is None:
            return 0
        return entry[1] if self.lands_on(entry) else self._rebuilt().entry_for(offset)[1]  # type: ignore[index]

    def position_near(self, offset: Offset) -> int:
        """Like `position_before`, as memory or the index has it, without verification."""
        self._used = True
        for base_offset, position in self._recent:
            if base_offset <= offset:
                return position
        entry = self.load_index().entry_for(offset)
        return 0 if entry is None else entry[1]

    @contextmanager
    def reading(self) -> Iterator[Callable[[int, int], bytes]]:
        """Keep the file open for several reads, each of (length, position).

        Raises:
            OSError: the file cannot be opened.
        """
        with self.file.use() as descriptor:
            yield lambda length, position: os.pread(descriptor, length, position)

    def headers_since(self, timestamp: int, offset: Offset) -> Iterator[tuple[int, BatchHeader]]:
        """Iterate over (position, header), starting after batches that are older than `timestamp` or below `offset`."""
        older = self.load_index().offset_before_time(timestamp) or self.base_offset
        yield from self.headers(max(older, offset))

    def scan(self, position: int, end: int, *, verify: bool) -> Iterator[tuple[int, BatchHeader]]:
        """Iterate over (position, header) of the batches in [position, end); `verify` checks payloads, too.

        Raises:
            CorruptBatchError: at the first batch that is damaged, unreadable or incomplete.
            OSError: the file cannot be read, for a reason other than the disk's state.
        """
        self._used = True
        name, following = self.path.name, position
        try:
            for at, header in scan_batches(self.file.pread, position, end, verify=verify, name=name):
                yield at, header
                following = at + header.batch_length
            return
        except OSError as error:
            if not is_unreadable(error):
                raise
        # Batch by batch: those before the block that cannot be read are intact.
        yield from scan_batches(self.read, following, end, verify=verify, name=name, window_bytes=HEADER_BYTES)

    def read(self, length: int, position: int) -> bytes:
        """Read up to `length` bytes; a block that the disk cannot read is damage like a wrong checksum (docs/adr/0011).

        Raises:
            CorruptBatchError: the disk cannot read a block.
            OSError: the file cannot be read, for another reason.
        """
        try:
            return self.file.pread(length, position)
        except OSError as error:
            if not is_unreadable(error):
                raise
            problem = f"{self.path.name}: the disk cannot read {length} bytes from byte {position} on: {error.strerror}"
            raise CorruptBatchError(problem) from error

    def read_at(self, position: int, length: int) -> bytes:
        """Return up to `length` bytes from `position`, within `size`."""
        self._used = True
        return self.file.pread(min(length, self.size - position), position)

    def lands_on(self, entry: tuple[Offset, int]) -> bool:
        """Return whether a batch with the offset of an index entry is at its position."""
        offset, position = entry
        try:
            return parse_header(self.read(HEADER_BYTES, position)).base_offset == offset
        except CorruptBatchError:
            return False  # Either the index or the log is wrong; rebuilding the index shows which.

    def load_index(self) -> SparseIndex:
        """Return the index, read from its file or rebuilt.

        Raises:
            OSError: the log cannot be read.
            CorruptBatchError: a batch is damaged.
        """
        self._used = True
        if self._index is None:
            read = read_index(self.index_path)
            self._index = read[1] if read is not None and read[0] == self.facts else self._rebuilt()
        return self._index

    def load_aborted(self) -> list[AbortedEntry]:
        """Return the aborted transactions whose marker is in this segment, read from their file or rebuilt.

        Raises:
            OSError: the log cannot be read.
            CorruptBatchError: a batch is damaged.
        """
        self._used = True
        if self._aborted is None:
            read = read_aborted(self.path, self.base_offset, self.indexed_size, self.aborted_count)
            if read is None:
                read, self.indexed_size = self._collected_aborted(), -1
            self._aborted = read
        return self._aborted

    def marker_at(self, position: int, header: BatchHeader) -> Marker:
        """Read the marker of the control batch at `position`.

        Raises:
            CorruptBatchError: the batch is damaged.
        """
        return parse_marker(header, self.read(header.batch_length, position))

    def _collected_aborted(self) -> list[AbortedEntry]:
        markers = (
            entry_of(header, self.marker_at(position, header))
            for position, header in self.scan(0, self.size, verify=False)
            if header.is_control
        )
        return [entry for entry in markers if entry is not None]

    def _rebuilt(self) -> SparseIndex:
        """Rebuild the index from the log, which is intact up to `size`."""
        index, newest = SparseIndex(), NO_TIMESTAMP
        for position, header in self.scan(0, self.size, verify=False):
            index.add(header.base_offset, position, newest)
            newest = max(newest, header.max_timestamp)
        self._index, self.indexed_size = index, -1
        return index
