"""Recovery: opens a log after a clean or unclean shutdown, truncates a torn tail, and raises on damage.

- Below the recovery point everything was synced. Its segments are loaded from their index files, if size and checksums
  match; only the rest is scanned. Anything invalid there is damage.
- Above it, a killed process may have left an incomplete write: the file ends inside a batch, and the log ends before
  it. Any other invalid batch is damage: truncating it could lose acknowledged records.
- A block that the disk cannot read is damage, also above the recovery point: what it holds is not known.
- Only after a power loss may the last batch be invalid in any way, and an invalid batch before intact ones be a write
  that never reached the disk, if it looks like one (`write_was_lost`).
"""

from __future__ import annotations

import logging
import os
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from raftlog.errors import CorruptBatchError, DamagedDataError, StorageError
from raftlog.model import Offset
from raftlog.partition.storage.batch_scan import ends_amid_batch, sound_batch_after, write_was_lost
from raftlog.partition.storage.file_pool import FilePool
from raftlog.partition.storage.files import fsync_dir, is_unreadable, list_names, storage_error
from raftlog.partition.storage.index import SegmentFacts, read_facts, read_index
from raftlog.partition.storage.segment import SUFFIX, Segment, segment_path, unlink_indexes
from raftlog.partition.storage.segment_replacement import remove_unfinished
from raftlog.partition.storage.transaction_index import read_aborted

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Recovered:
    """The segments of a log. `new`: there was none, and the one here has no file yet."""

    segments: list[Segment]
    new: bool


def open_segments(
    folder: Path, *, log_start_offset: Offset, recovery_point: Offset, pool: FilePool, power_lost: bool
) -> Recovered:
    """Open every segment of a log; the last one is the active one.

    Raises:
        DamagedDataError: records that were on disk are missing or damaged; nothing was changed.
        StorageError: a disk operation failed.
    """
    try:
        return _Recovery(folder, log_start_offset, recovery_point, pool, power_lost).run()
    except OSError as error:
        raise storage_error(error, f"cannot open the log in {folder}") from error


def segment_bases(names: Iterable[str]) -> list[Offset]:
    """Return the base offsets of the segment files among these names, sorted."""
    stems = (name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX))
    return sorted(int(stem) for stem in stems if stem.isdecimal())


class _Recovery:
    def __init__(
        self, folder: Path, log_start_offset: Offset, recovery_point: Offset, pool: FilePool, power_lost: bool
    ) -> None:
        self._folder = folder
        self._log_start_offset = log_start_offset
        self._recovery_point = recovery_point
        self._pool = pool
        self._power_lost = power_lost
        self._changed = False
        self._opened: list[Segment] = []
        self._stale: list[Segment] = []
        """Segments whose index covers more than the file; it would look valid once the segment has grown again."""

    def run(self) -> Recovered:
        try:
            return self._run()
        except BaseException:
            for segment in self._opened:
                segment.close()
            raise

    def _run(self) -> Recovered:
        sizes = {base: os.stat(segment_path(self._folder, base)).st_size for base in self._bases()}
        newest = max(sizes, default=-1)
        bases, old = self._without_old([base for base in sizes if sizes[base] or base == newest])
        empty = [base for base in sizes if not sizes[base] and base != newest]  # Left by a roll that failed.
        if bases and bases[0] > self._log_start_offset < self._recovery_point:
            raise DamagedDataError(
                f"{self._folder}: no segment holds offset {self._log_start_offset}, where the log starts",
                details={"damaged_at": self._log_start_offset},
            )
        segments = list[Segment]()
        merged = list[Offset]()
        for number, base in enumerate(bases):
            if segments and base < segments[-1].next_offset:
                merged.append(base)  # Compaction has merged its records into the previous segment, which was synced.
                continue
            if segments and base != segments[-1].next_offset:
                self._end_before(bases[number:], sizes, segments[-1])
                break
            segments.append(self._open(base, [(later, sizes[later]) for later in bases[number:]]))
        self._require_durable(segments[-1].next_offset if segments else self._log_start_offset)
        self._remove([*empty, *old, *merged])
        for segment in self._stale:
            unlink_indexes(segment.path)
            segment.indexed_size = -1
            self._changed = True
        self._changed = remove_unfinished(self._folder) or self._changed
        if self._changed:
            fsync_dir(self._folder)
        return Recovered(segments or [self._segment(self._log_start_offset)], new=not segments)

    def _bases(self) -> list[Offset]:
        return segment_bases(list_names(self._folder))

    def _without_old(self, bases: list[Offset]) -> tuple[list[Offset], list[Offset]]:
        """Return the segments to open, and those that retention deleted without removing their files yet."""
        keep = sum(following <= self._log_start_offset for following in bases[1:])
        return bases[keep:], bases[:keep]

    def _segment(self, base: Offset) -> Segment:
        segment = Segment(segment_path(self._folder, base), base, self._pool)
        self._opened.append(segment)
        return segment

    def _open(self, base: Offset, files: Sequence[tuple[Offset, int]]) -> Segment:
        """Open a segment, the first of `files` (base offsets and sizes)."""
        (_, size), *later = files
        segment = self._segment(base)
        closed = bool(later) and later[0][0] <= self._recovery_point
        facts = indexed = read_facts(segment.index_path)
        if facts is not None and (facts.base_offset > base or facts.size > size):
            facts = None
        if closed and facts is not None and facts.size == size:
            segment.load_facts(facts)
            return segment
        if facts is not None:
            self._start_from_index(segment)
        self._scan(segment, size, later)
        if segment.facts == facts:
            segment.indexed_size = segment.size
        elif closed:
            _save_index(segment)
        elif indexed is not None and indexed.size > segment.size:
            self._stale.append(segment)
        return segment

    def _start_from_index(self, segment: Segment) -> None:
        """Load the index for the synced part of a segment, up to an entry that matches the file."""
        if (read := read_index(segment.index_path)) is None:
            return
        facts, index = read
        aborted = read_aborted(segment.path, facts.base_offset, facts.size, facts.aborted)
        if aborted is None:
            return
        at = bisect_right(index.offsets, self._recovery_point) - 1
        if at > 0 and segment.lands_on((index.offsets[at], index.positions[at])):
            offset, position, newest = (column[at] for column in index.columns)
            index.cut(position)
            before = [entry for entry in aborted if entry.last_offset < offset]
            segment.load_facts(
                SegmentFacts(facts.base_offset, position, offset, newest, facts.first_timestamp, len(before)),
                index,
                before,
            )

    def _scan(self, segment: Segment, size: int, later: Sequence[tuple[Offset, int]]) -> None:
        try:
            for position, header in segment.scan(segment.size, size, verify=False):
                if header.base_offset != segment.next_offset:
                    raise CorruptBatchError(f"expected offset {segment.next_offset}, found {header.base_offset}")
                if header.next_offset > self._recovery_point:
                    next(segment.scan(position, position + header.batch_length, verify=True))
                segment.learn(header)
        except CorruptBatchError as error:
            try:
                self._require_torn(segment, size, error, later)
            except CorruptBatchError as unreadable:
                raise DamagedDataError(
                    f"{segment.path} is damaged at offset {segment.next_offset}: {unreadable.message}",
                    details={"damaged_at": segment.next_offset},
                ) from unreadable
            _log.warning(
                "%s: cut from %d to %d bytes, log end offset %d: %s",
                segment.path,
                size,
                segment.size,
                segment.next_offset,
                error.message,
            )
            segment.cut(segment.size)
            self._changed = True

    def _require_torn(
        self, segment: Segment, size: int, error: CorruptBatchError, later: Sequence[tuple[Offset, int]]
    ) -> None:
        """Raise unless the invalid tail is a torn write: anything else may have been acknowledged.

        Raises:
            CorruptBatchError: a block cannot be read: what it holds is not known.
        """
        end = segment.next_offset
        if end < self._recovery_point:
            raise DamagedDataError(
                f"{segment.path} is damaged at offset {end}, below the recovery point {self._recovery_point}: "
                f"{error.message}",
                details={"damaged_at": end},
            ) from error
        if is_unreadable(error.__cause__):
            raise error
        if self._power_lost and write_was_lost(segment.read, segment.size, size):
            return
        sound = sound_batch_after(segment.read, segment.size, size, min_offset=end)
        if sound is not None or self._sound_segment(later, end) is not None:
            what = f"offset {sound.base_offset}" if sound else "in a later segment"
            raise DamagedDataError(
                f"{segment.path} is damaged at offset {end}, and sound batches follow ({what}): this is no torn "
                f"write: {error.message}",
                details={"damaged_at": end},
            ) from error
        if not self._power_lost and not ends_amid_batch(segment.read, segment.size, size):
            raise DamagedDataError(
                f"{segment.path} is damaged at offset {end}, and the file does not end there: this is no torn write: "
                f"{error.message}",
                details={"damaged_at": end},
            ) from error

    def _sound_segment(self, later: Sequence[tuple[Offset, int]], end: Offset) -> Offset | None:
        for base, size in later:
            segment = self._segment(base)
            try:
                sound = base >= end and sound_batch_after(segment.read, 0, size, min_offset=end) is not None
            except CorruptBatchError:
                sound = True  # The disk cannot read a block, which may hold records.
            segment.close()  # It may be removed: an open file would keep its disk space.
            if sound:
                return base
        return None

    def _end_before(self, bases: Sequence[Offset], sizes: dict[Offset, int], last: Segment) -> None:
        """End the log before segments that do not continue it; raise if records are missing in between."""
        end = last.next_offset
        if end < self._recovery_point:
            raise DamagedDataError(
                f"{self._folder}: no segment holds offset {end}, below the recovery point {self._recovery_point}",
                details={"damaged_at": end},
            )
        sound = None if self._power_lost else self._sound_segment([(base, sizes[base]) for base in bases], end)
        if sound is not None:
            raise DamagedDataError(
                f"{self._folder}: no segment holds offset {end}, and a sound segment follows at {sound}",
                details={"damaged_at": end},
            )
        _log.warning("%s: removed segments %s after the log end offset %d", self._folder, list(bases), end)
        self._remove(bases)

    def _require_durable(self, end: Offset) -> None:
        if end < self._recovery_point:
            raise DamagedDataError(
                f"{self._folder} ends at offset {end}, but everything below {self._recovery_point} was on disk once: "
                "records are missing",
                details={"damaged_at": end},
            )

    def _remove(self, bases: Iterable[Offset]) -> None:
        for base in bases:
            path = segment_path(self._folder, base)
            unlink_indexes(path)
            os.unlink(path)
            self._changed = True


def _save_index(segment: Segment) -> None:
    try:
        segment.save_index()
    except StorageError as error:
        _log.warning("%s; it is rebuilt at each start", error.message)
