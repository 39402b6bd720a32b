"""Repair of a log's files: finds damaged batches, and overwrites them with the correct bytes (docs/adr/0017).

- Batches are written where they were, so the file keeps its length and every index stays valid.
- Nothing outside the damage is written.
- The recovery point is above the damage before the first write: after a power loss the place counts as damaged, never
  as a torn write that recovery may truncate.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from raftlog.errors import CorruptBatchError
from raftlog.model import NO_LEADER_EPOCH, LeaderEpoch, Offset
from raftlog.partition.core.repair import Accepted, DamagedBatch
from raftlog.partition.storage.batch_scan import Read, find_sound_header, iter_headers
from raftlog.partition.storage.checkpoint import Checkpoint
from raftlog.partition.storage.cleaner import STATE_FILE
from raftlog.partition.storage.epochs import EpochTable
from raftlog.partition.storage.files import fsync_dir, list_names, storage_error, sync_file, write_fully
from raftlog.partition.storage.log import PartitionLog
from raftlog.partition.storage.recovery import segment_bases
from raftlog.partition.storage.repair_source import zeros_if_unreadable
from raftlog.partition.storage.segment import Segment, segment_path
from raftlog.record.batch import ALIGNMENT, HEADER_BYTES, BatchHeader, parse_header, verify_payload_crc

_MAX_UNSOUND_BYTES = 1 << 20


class RepairTarget(Protocol):
    """A log with damaged batches. Every method blocks; for a worker thread."""

    def find(self) -> DamagedBatch | None:
        """Return the next damaged batch; None if there is none left."""
        ...

    def write(self, damaged: DamagedBatch, accepted: Accepted) -> bool:
        """Overwrite a damaged batch, durably; return False if the log has changed meanwhile."""
        ...

    def skip(self, damaged: DamagedBatch) -> None:
        """Continue after a damaged batch that cannot be repaired now."""
        ...


@dataclass(slots=True)
class Walk:
    """Position up to which the batches of one segment file were verified."""

    position: int
    offset: Offset
    epoch: LeaderEpoch = NO_LEADER_EPOCH
    """Leader epoch of the batch before."""


@dataclass(frozen=True, slots=True)
class Extent:
    """One segment file, and the part of it that must be intact."""

    path: Path
    until: Offset
    """Every batch that begins below it must be intact."""
    end_position: int | None
    """Where the file ends, if it is known to be long enough."""
    end_offset: Offset | None
    """Where the next file begins, if there is one."""
    epochs: EpochTable
    exact_fit: bool
    after: BatchHeader | None = None
    """Header of the first batch of the next file, if that is sound."""


def find_damaged(read: Read, size: int, walk: Walk, extent: Extent) -> DamagedBatch | None:
    """Step over intact batches; return the first damaged one, with `walk` at its position."""
    while walk.offset < extent.until:
        header = _header(read, walk, size)
        if header is None or not _is_whole(read, walk, header, size):
            return _describe(read, size, walk, extent, header)
        walk.position += header.batch_length
        walk.offset, walk.epoch = header.next_offset, header.leader_epoch
    return None


def _header(read: Read, walk: Walk, size: int) -> BatchHeader | None:
    """Return the header at the walk's position, if it is valid and has the expected offset and epoch."""
    if walk.position + HEADER_BYTES > size:
        return None
    try:
        header = parse_header(read(HEADER_BYTES, walk.position))
    except CorruptBatchError:
        return None
    return header if header.base_offset == walk.offset and header.leader_epoch >= walk.epoch else None


def _is_whole(read: Read, walk: Walk, header: BatchHeader, size: int) -> bool:
    if walk.position + header.batch_length > size:
        return False
    try:
        verify_payload_crc(header, read(header.batch_length, walk.position))
    except CorruptBatchError:
        return False
    return True


def _describe(read: Read, size: int, walk: Walk, extent: Extent, header: BatchHeader | None) -> DamagedBatch:
    damaged = DamagedBatch(
        position=walk.position,
        offset=walk.offset,
        leader_epoch=NO_LEADER_EPOCH if header is None else header.leader_epoch,
        header=header,
        end_position=extent.end_position,
        end_offset=extent.end_offset,
        unsound_bytes=_unsound_bytes(read, size, walk),
        exact_fit=extent.exact_fit,
    )
    if header is not None:
        return damaged
    following = _following(read, size, walk)
    after = extent.after if following is None else following[1]
    epoch, *later = _epochs_of(walk, extent, after)
    damaged = replace(damaged, leader_epoch=epoch[0], later_epochs=tuple(later), following=after)
    if following is not None:
        damaged = replace(damaged, following_position=following[0])
        if extent.exact_fit or damaged.leader_epoch == NO_LEADER_EPOCH:
            damaged = replace(damaged, end_position=following[0], end_offset=following[1].base_offset)
    if after is not None and after.is_compacted:  # By an earlier policy of the topic.
        damaged = damaged.as_compacted()
    return replace(damaged, inner=tuple(_inner(read, walk, damaged))) if damaged.exact_fit else damaged


def _inner(read: Read, walk: Walk, damaged: DamagedBatch) -> Iterator[tuple[int, BatchHeader]]:
    """Yield position and header of further damaged batches of which the header is intact."""
    offset, epoch, end = walk.offset + 1, walk.epoch, damaged.end_offset
    for at, header in iter_headers(read, walk.position + ALIGNMENT, walk.position + damaged.unsound_bytes):
        is_later = header.base_offset >= offset and header.leader_epoch >= epoch
        if is_later and (end is None or header.next_offset <= end):
            offset, epoch = header.next_offset, header.leader_epoch
            yield at, header


def _epochs_of(walk: Walk, extent: Extent, after: BatchHeader | None) -> list[tuple[LeaderEpoch, Offset]]:
    """Return the epochs of the batches from the walk's position up to `after`, with their first offsets.

    Only NO_LEADER_EPOCH if they are unknown. Epochs never decrease, so they are certain if the batches before and after
    have the same. If they differ, the epoch table says them, if it has the epoch of the batch after. An epoch is added
    to the table with its first batch, and is synced before that batch is, so such a table has every earlier epoch. Any
    other table may be an earlier one.
    """
    before, said = max(0, walk.epoch), extent.epochs.epoch_at(walk.offset)
    if after is None:
        is_known = said >= walk.epoch
    elif after.leader_epoch == before:
        return [(before, walk.offset)]
    else:
        is_known = extent.epochs.epoch_at(after.base_offset) == after.leader_epoch >= said >= before
    if not is_known:
        return [(NO_LEADER_EPOCH, walk.offset)]
    later = (entry for entry in extent.epochs.entries if entry[1] > walk.offset)
    return [(said, walk.offset), *(entry for entry in later if after is None or entry[1] < after.base_offset)]


def _unsound_bytes(read: Read, size: int, walk: Walk) -> int:
    """Return how many bytes from the walk's position on are damaged, at most `_MAX_UNSOUND_BYTES`."""
    if walk.position >= size:
        return _MAX_UNSOUND_BYTES
    end = min(size, walk.position + _MAX_UNSOUND_BYTES)
    found = find_sound_header(read, walk.position + ALIGNMENT, end, min_offset=walk.offset + 1)
    return (found[0] if found else end) - walk.position


def _following(read: Read, size: int, walk: Walk) -> tuple[int, BatchHeader] | None:
    """Return position and header of the next intact batch with later offsets."""
    return find_sound_header(read, walk.position + ALIGNMENT, size, min_offset=walk.offset + 1)


def _step_over(read: Read, size: int, walk: Walk, damaged: DamagedBatch) -> bool:
    """Move a walk past a damaged batch; return False if no intact batch follows."""
    if damaged.header is not None:
        walk.position += damaged.header.batch_length
        walk.offset, walk.epoch = damaged.header.next_offset, damaged.header.leader_epoch
        return walk.position < size
    if (following := _following(read, size, walk)) is None:
        return False
    walk.position, walk.offset = following[0], following[1].base_offset
    return True


class OpenLog:
    """Repair target for an open log, while appends, reads, truncation and retention go on."""

    def __init__(self, log: PartitionLog, suspects: Iterable[Offset], *, compacts: bool) -> None:
        """Begin.

        Args:
            suspects: offsets at or after which something is damaged.
        """
        self._log = log
        self._exact_fit = compacts or (log.folder / STATE_FILE).exists()
        self._cuts = log.cuts
        self._segments = [
            segment
            for segment in log.segments
            if any(
                segment.base_offset <= max(offset, log.log_start_offset) < segment.next_offset for offset in suspects
            )
        ]
        self._walk: Walk | None = None
        self._is_damaged = False
        """Whether damage was found in the present segment."""

    def find(self) -> DamagedBatch | None:
        """See `RepairTarget`."""
        while self._segments:
            segment = self._segments[0]
            walk = self._walk = self._walk or Walk(0, segment.base_offset)
            extent = self._extent(segment)
            with segment.reading() as read:
                found = find_damaged(zeros_if_unreadable(read), segment.file_size(), walk, extent)
            if self._log.cuts != self._cuts or segment not in self._log.segments:
                return None  # Truncated, compacted or deleted meanwhile: remaining damage will be found again.
            if found is not None:
                self._is_damaged = True
                return found
            self._next()
        return None

    def _next(self) -> None:
        """Continue with the next suspect segment; if no damage was found here, with the following segment."""
        done = self._segments.pop(0)
        if not self._is_damaged:
            following = [segment for segment in self._log.segments if segment.base_offset >= done.next_offset][:1]
            self._segments = [*(segment for segment in following if segment not in self._segments), *self._segments]
        self._walk, self._is_damaged = None, False

    def _extent(self, segment: Segment) -> Extent:
        end, position = segment.next_offset, segment.size
        later = [other for other in self._log.segments if other.base_offset == end and other is not segment]
        after = _first_header(later[0].path) if later else None
        return Extent(segment.path, end, position, end, self._log.epochs, self._exact_fit, after)

    def write(self, damaged: DamagedBatch, accepted: Accepted) -> bool:
        """See `RepairTarget`."""
        segment = self._segments[0]
        return self._log.rewrite(
            segment, damaged.position, accepted.data, end_offset=accepted.next_offset, cuts=self._cuts
        )

    def skip(self, damaged: DamagedBatch) -> None:
        """See `RepairTarget`."""
        segment, walk = self._segments[0], self._walk
        assert walk is not None
        with segment.reading() as read:
            if not _step_over(zeros_if_unreadable(read), segment.size, walk, damaged):
                self._next()


class ClosedLog:
    """Repair target for a log that could not be opened."""

    def __init__(self, folder: Path, damaged_at: Offset | None, *, compacts: bool) -> None:
        """Begin.

        Args:
            damaged_at: the offset of the damage; None if unknown: then everything synced is verified.

        Raises:
            DamagedDataError: its checkpoint is damaged, too, so log start and recovery point are unknown.
            StorageError: a disk operation failed.
        """
        self._folder = folder
        self._checkpoint = Checkpoint.load(folder)
        self._until = self._checkpoint.recovery_point if damaged_at is None else damaged_at + 1
        self._epochs = EpochTable(folder)
        self._exact_fit = compacts or (folder / STATE_FILE).exists()
        bases = [base for base in segment_bases(list_names(folder)) if _holds_something(folder, base)]
        start = max(self._checkpoint.log_start_offset, damaged_at or 0)
        # Start one file before the damage, if it is above the log start: its last batch has the epoch before.
        first = sum(base <= self._checkpoint.log_start_offset for base in bases) - 1
        self._bases = bases[max(0, first, sum(base <= start for base in bases) - 2) :]
        if not self._bases or self._bases[0] > start:
            self._bases.insert(0, start)
        self._walk = Walk(0, self._bases[0])

    def find(self) -> DamagedBatch | None:
        """See `RepairTarget`."""
        while self._bases and self._bases[0] < self._until:
            extent = self._extent()
            with _reading(extent.path) as (read, size):
                found = find_damaged(read, size, self._walk, extent)
            if found is not None:
                return found
            self._next()
        return None

    def _next(self) -> None:
        """Continue with the next file. Records of a missing file were written at the end of the one before it."""
        self._bases = [base for base in self._bases[1:] if base >= self._walk.offset]
        self._walk = Walk(0, self._bases[0] if self._bases else self._walk.offset, self._walk.epoch)

    def _extent(self) -> Extent:
        following = self._bases[1] if len(self._bases) > 1 else None
        until = self._until if following is None else min(self._until, following)
        path = segment_path(self._folder, self._bases[0])
        after = None if following is None else _first_header(segment_path(self._folder, following))
        return Extent(path, until, None, following, self._epochs, self._exact_fit, after)

    def write(self, damaged: DamagedBatch, accepted: Accepted) -> bool:
        """See `RepairTarget`."""
        try:
            self._cover(accepted.next_offset)
            path = segment_path(self._folder, self._bases[0])
            missing = not path.exists()
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                write_fully(descriptor, accepted.data, damaged.position)
                sync_file(descriptor)
            finally:
                os.close(descriptor)
            if missing:
                fsync_dir(self._folder)
        except OSError as error:
            raise storage_error(error, f"cannot repair {self._folder}") from error
        return True

    def _cover(self, end: Offset) -> None:
        """Move the recovery point to `end` or above, so that recovery takes anything invalid below it for damage."""
        if end <= self._checkpoint.recovery_point:
            return
        for base in self._bases_on_disk():
            if base < end:
                _sync(segment_path(self._folder, base))
        self._checkpoint = replace(self._checkpoint, recovery_point=end)
        self._checkpoint.save(self._folder)

    def _bases_on_disk(self) -> list[Offset]:
        return segment_bases(list_names(self._folder))

    def skip(self, damaged: DamagedBatch) -> None:
        """See `RepairTarget`."""
        with _reading(self._extent().path) as (read, size):
            if not _step_over(read, size, self._walk, damaged):
                self._bases, self._walk = self._bases[1:], Walk(0, self._bases[1] if len(self._bases) > 1 else 0)


def _first_header(path: Path) -> BatchHeader | None:
    with _reading(path) as (read, size):
        return _header(read, Walk(0, int(path.stem)), size)


def _holds_something(folder: Path, base: Offset) -> bool:
    return os.stat(segment_path(folder, base)).st_size > 0


@contextmanager
def _reading(path: Path) -> Iterator[tuple[Read, int]]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield (lambda *_: b""), 0
        return
    except OSError as error:
        raise storage_error(error, f"cannot read {path}") from error
    try:
        yield (
            zeros_if_unreadable(lambda length, position: os.pread(descriptor, length, position)),
            os.fstat(descriptor).st_size,
        )
    finally:
        os.close(descriptor)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        sync_file(descriptor)
    finally:
        os.close(descriptor)
