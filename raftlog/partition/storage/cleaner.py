"""One compaction pass over the files of one log, in steps, in a worker thread while the log is in use.

It opens its own descriptors, writes each compacted file (`.cleaned`), syncs it, and yields it. Only the log's owner
replaces segments by it (`PartitionLog.swap`), and at the end records how far the log is compacted (`cleaner.json`).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from raftlog.errors import CorruptBatchError, StorageError
from raftlog.model import Offset
from raftlog.partition.core.compaction import CleaningRules, Compactor, LastOffsets
from raftlog.partition.storage.files import read_json, sync_file, unlink_quietly, write_fully, write_json
from raftlog.partition.storage.segment import Segment
from raftlog.partition.storage.segment_replacement import cleaned_path, open_cleaned
from raftlog.record.batch import HEADER_BYTES, BatchHeader, parse_header, verify_payload_crc

STATE_FILE = "cleaner.json"
_CHUNK_BYTES = 1 << 20
_log = logging.getLogger(__name__)


class CleanerState:
    """How far one log is compacted: `cleaner.json` in its folder."""

    def __init__(self, folder: Path, log_end_offset: Offset) -> None:
        """Read it; if it cannot be read, the log counts as never compacted, which costs only time.

        Raises:
            StorageError: a disk operation failed.
        """
        self._path = folder / STATE_FILE
        try:
            document = read_json(self._path) or {}
        except StorageError as error:
            _log.warning("%s; the whole log is compacted again", error.message)
            document = {}
        self.cleaned_below: Offset = int(document.get("cleaned_below", 0))
        self.oldest_tombstone_s = int(document.get("oldest_tombstone_s", 0))
        self.truncated_to(log_end_offset)  # A torn tail may have been cut.

    def finished(self, cleaned_below: Offset, oldest_tombstone_s: int) -> None:
        """Record the result of a pass, durably."""
        self._save(cleaned_below, oldest_tombstone_s)

    def truncated_to(self, offset: Offset) -> None:
        """Reset the state to `offset`, durably: other records may be appended there."""
        if offset < self.cleaned_below:
            self._save(offset, self.oldest_tombstone_s)

    def _save(self, cleaned_below: Offset, oldest_tombstone_s: int) -> None:
        plain = {"version": 1, "cleaned_below": cleaned_below, "oldest_tombstone_s": oldest_tombstone_s}
        write_json(self._path, plain)
        self.cleaned_below, self.oldest_tombstone_s = cleaned_below, oldest_tombstone_s


@dataclass(frozen=True, slots=True)
class Moved:
    """Bytes read and written since the last step; the caller throttles."""

    count: int


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A synced file that replaces these segments. The caller puts it in place, or discards it."""

    replaced: tuple[Segment, ...]
    fresh: Segment

    def discard(self) -> None:
        """Remove the file, because the log has changed meanwhile."""
        self.fresh.close()
        unlink_quietly(self.fresh.path)


class CleaningPass:
    """One pass over `segments`, all of which may be compacted.

    Args:
        cleaned_below: below it, every key has at most one record, which records above may replace.
        is_apart: whether a segment may not be merged with the first of several; see `ages.are_apart`.
    """

    def __init__(
        self,
        folder: Path,
        segments: Sequence[Segment],
        *,
        cleaned_below: Offset,
        rules: CleaningRules,
        segment_bytes: int,
        dedupe_buffer_bytes: int,
        is_apart: Callable[[Segment, Segment], bool],
    ) -> None:
        self.last = LastOffsets(max(cleaned_below, segments[0].base_offset), dedupe_buffer_bytes, rules.aborted)
        self._folder = folder
        self._segments = segments
        self._segment_bytes = segment_bytes
        self._is_apart = is_apart
        self._compactor = Compactor(self.last, rules)

    @property
    def oldest_tombstone_s(self) -> int:
        """`cleaned_at_s` of the oldest kept tombstone; valid after the last step."""
        return self._compactor.oldest_tombstone_s

    def steps(self) -> Iterator[Moved | Rewritten]:
        """Compact in steps, oldest segments first: a tombstone is never removed before the records that it deletes.

        Raises:
            OSError: a system call failed; files yielded before are valid.
            CorruptBatchError: a segment is damaged; it is unchanged.
        """
        yield from self._learn()
        yield from self._rewrite()

    def _learn(self) -> Iterator[Moved]:
        for segment in self._segments:
            if segment.next_offset > self.last.start_offset and not self.last.is_full:
                yield from self._learn_from(segment)

    def _learn_from(self, segment: Segment) -> Iterator[Moved]:
        moved = 0
        for header, batch in _walk(segment):
            if header.next_offset > self.last.start_offset:
                self.last.learn(header, batch)
            moved += header.batch_length
            if self.last.is_full:
                break
            if moved >= _CHUNK_BYTES:
                yield Moved(moved)
                moved = 0
        yield Moved(moved)

    def _rewrite(self) -> Iterator[Moved | Rewritten]:
        group: list[Segment] = []
        output: _Output | None = None
        try:
            for segment in self._segments:
                if segment.base_offset >= self.last.end_offset:
                    break
                is_full = output is not None and output.size + segment.size > self._segment_bytes
                if output is not None and (is_full or self._is_apart(group[0], segment)):
                    yield from self._hand_over(group, output)
                    group, output = [], None
                output = output or _Output(cleaned_path(self._folder, segment.base_offset))
                group.append(segment)
                yield from self._copy(segment, output)
            if output is not None:
                yield from self._hand_over(group, output)
        finally:
            if output is not None:
                output.abandon()

    def _copy(self, segment: Segment, output: _Output) -> Iterator[Moved]:
        moved = 0
        for header, batch in _walk(segment):
            content = self._compactor.clean(header, batch)
            output.write(content)
            moved += header.batch_length + len(content)
            if moved >= _CHUNK_BYTES:
                yield Moved(moved)
                moved = 0
        yield Moved(moved)

    def _hand_over(self, group: list[Segment], output: _Output) -> Iterator[Rewritten]:
        output.write(self._compactor.finish())
        changed, self._compactor.changed = self._compactor.changed, False
        if len(group) == 1 and not changed:
            output.abandon()
            return
        output.finish(written_us=max(segment.written_us() for segment in group))
        try:
            fresh = open_cleaned(output.path, group[0].base_offset, group[0].file.pool)
        except BaseException:  # No descriptor is free, say.
            unlink_quietly(output.path)
            raise
        yield Rewritten(tuple(group), fresh)


class _Output:
    """A compacted file that is being written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        self._buffer = bytearray()
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        self._descriptor = os.open(path, flags, 0o644)

    def write(self, content: bytes) -> None:
        self._buffer += content
        self.size += len(content)
        if len(self._buffer) >= _CHUNK_BYTES:
            self._flush()

    def finish(self, *, written_us: int) -> None:
        """Sync and close the file; `abandon` no longer removes it.

        Args:
            written_us: last write to the segments that it replaces: compaction must not make records look newer.
        """
        self._flush()
        os.utime(self._descriptor, ns=(written_us * 1_000, written_us * 1_000))
        sync_file(self._descriptor)
        self._close()

    def abandon(self) -> None:
        """Remove it, unless it is finished."""
        if self._descriptor >= 0:
            self._close()
            unlink_quietly(self.path)

    def _flush(self) -> None:
        write_fully(self._descriptor, self._buffer, self.size - len(self._buffer))
        self._buffer.clear()

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        os.close(descriptor)


def _walk(segment: Segment) -> Iterator[tuple[BatchHeader, memoryview]]:
    """Iterate over a segment's batches through a separate descriptor: the owner may close its own at any time."""
    size, position = segment.size, 0
    descriptor = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        while position < size:
            window = memoryview(os.pread(descriptor, min(_CHUNK_BYTES, size - position), position))
            length = parse_header(window).batch_length
            if length > len(window):
                window = memoryview(os.pread(descriptor, min(length, size - position), position))
            taken = 0
            for header, batch in _whole_batches(window):
                verify_payload_crc(header, batch)
                yield header, batch
                taken += header.batch_length
            if taken == 0:
                raise CorruptBatchError(f"{segment.path}: the batch at byte {position} is not whole")
            position += taken
    finally:
        os.close(descriptor)


def _whole_batches(window: memoryview) -> Iterator[tuple[BatchHeader, memoryview]]:
    at = 0
    while len(window) - at >= HEADER_BYTES:
        header = parse_header(window, at)
        if at + header.batch_length > len(window):
            return
        yield header, window[at : at + header.batch_length]
        at += header.batch_length
