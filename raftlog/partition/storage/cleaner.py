"""One pass of compaction over one log's files. Runs beside the log, in a worker thread, step by step.

It opens files of its own, writes each compacted file beside (`.cleaned`), syncs it, and hands it over. Only the log's
owner puts it in place (`PartitionLog.swap`), and notes at the end how far the log is compacted (`cleaner.json`).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
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
    """How far one log is compacted: `cleaner.json` beside its segments."""

    def __init__(self, folder: Path, log_end_offset: Offset) -> None:
        """Read it; where it cannot be read, the log counts as never compacted, which costs work and nothing else.

        Raises:
            StorageError: the disk refused.
        """
        self._path = folder / STATE_FILE
        try:
            document = read_json(self._path) or {}
        except StorageError as error:
            _log.warning("%s; the whole log is compacted anew", error.message)
            document = {}
        self.cleaned_below: Offset = int(document.get("cleaned_below", 0))
        self.oldest_tombstone_s = int(document.get("oldest_tombstone_s", 0))
        self.truncated_to(log_end_offset)  # A torn tail may have been cut.

    def finished(self, cleaned_below: Offset, oldest_tombstone_s: int) -> None:
        """Note, durably, what a pass has done."""
        self._save(cleaned_below, oldest_tombstone_s)

    def truncated_to(self, offset: Offset) -> None:
        """Forget, durably, what was compacted from `offset` on: other records may come there."""
        if offset < self.cleaned_below:
            self._save(offset, self.oldest_tombstone_s)

    def _save(self, cleaned_below: Offset, oldest_tombstone_s: int) -> None:
        plain = {"version": 1, "cleaned_below": cleaned_below, "oldest_tombstone_s": oldest_tombstone_s}
        write_json(self._path, plain)
        self.cleaned_below, self.oldest_tombstone_s = cleaned_below, oldest_tombstone_s


@dataclass(frozen=True, slots=True)
class Moved:
    """So many bytes were read and written: time for a break."""

    count: int


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A file that is ready to replace these segments. Whoever takes it swaps it in, or discards it."""

    replaced: tuple[Segment, ...]
    fresh: Segment

    def discard(self) -> None:
        """Remove it: the log has changed meanwhile."""
        self.fresh.close()
        unlink_quietly(self.fresh.path)


class CleaningPass:
    """One pass over `segments`, all of which may be compacted.

    Args:
        cleaned_below: below it, every key has one record at most, which may be replaced by what comes above.
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
    ) -> None:
        self.last = LastOffsets(max(cleaned_below, segments[0].base_offset), dedupe_buffer_bytes, rules.aborted)
        self._folder = folder
        self._segments = segments
        self._segment_bytes = segment_bytes
        self._compactor = Compactor(self.last, rules)

    @property
    def oldest_tombstone_s(self) -> int:
        """Since when the oldest tombstone waits that was kept; known after the last step."""
        return self._compactor.oldest_tombstone_s

    def steps(self) -> Iterator[Moved | Rewritten]:
        """Do the work, a piece at each step. Oldest segments first: a tombstone never goes before what it deletes.

        Raises:
            OSError: from the system; what was handed over before is sound.
            CorruptBatchError: a segment is damaged; it is left as it is.
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
                if output is not None and output.size + segment.size > self._segment_bytes:
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
        yield Rewritten(tuple(group), open_cleaned(output.path, group[0].base_offset, group[0].file.pool))


class _Output:
    """A file that is being written."""

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
        """Make it durable; from here on it is whoever's takes it.

        Args:
            written_us: when what it replaces was last written to: compaction makes no record newer.
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
    """Read a segment's batches by a descriptor of our own: its owner may close its own at any time."""
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
