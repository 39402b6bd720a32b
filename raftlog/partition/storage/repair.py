"""Finding the damaged batches of a log, and putting the right bytes in their place (docs/adr/0017).

Batches are put back where they were, so the file keeps its length and every index stays right. Before the first byte is
written the recovery point lies above the place: whatever a power cut leaves there is damage that is known, never a torn
write that may be cut. Nothing outside the damaged place is written.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from raftlog.errors import CorruptBatchError
from raftlog.model import NO_LEADER_EPOCH, LeaderEpoch, Offset
from raftlog.partition.core.repair import Accepted, DamagedBatch
from raftlog.partition.storage.batch_scan import Read, find_sound_header
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
    """A log that may hold damaged batches. Every method may take long, and is for a worker thread."""

    def find(self) -> DamagedBatch | None:
        """Return the next damaged batch; None if there is none any more."""
        ...

    def write(self, damaged: DamagedBatch, accepted: Accepted) -> bool:
        """Put bytes in the place of a damaged batch, durably; False if the log has changed meanwhile."""
        ...

    def skip(self, damaged: DamagedBatch) -> None:
        """Go on after a damaged batch that cannot be repaired now."""
        ...


@dataclass(slots=True)
class Walk:
    """How far the batches of one segment file were checked."""

    position: int
    offset: Offset
    epoch: LeaderEpoch = NO_LEADER_EPOCH
    """Of the batch before."""


@dataclass(frozen=True, slots=True)
class Extent:
    """One segment file, as far as it has to be sound."""

    path: Path
    until: Offset
    """Every batch that begins below it has to be sound."""
    end_position: int | None
    """Where the file ends, if it is known to be long enough."""
    end_offset: Offset | None
    """Where the next file begins, if there is one."""
    epoch_at: Callable[[Offset], LeaderEpoch]
    exact_fit: bool
    epoch_after: LeaderEpoch = NO_LEADER_EPOCH
    """Of the first batch of the next file, if that is sound."""


def find_damaged(read: Read, size: int, walk: Walk, extent: Extent) -> DamagedBatch | None:
    """Step over sound batches; return the first one that is not, with `walk` standing before it."""
    while walk.offset < extent.until:
        header = _header(read, walk, size)
        if header is None or not _is_whole(read, walk, header, size):
            return _describe(read, size, walk, extent, header)
        walk.position += header.batch_length
        walk.offset, walk.epoch = header.next_offset, header.leader_epoch
    return None


def _header(read: Read, walk: Walk, size: int) -> BatchHeader | None:
    """Return the header at which a walk stands, if it is the one that belongs there."""
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
    damaged = replace(damaged, leader_epoch=_epoch_of(walk, extent, following and following[1]))
    if following is None or not extent.exact_fit:
        return damaged
    return replace(damaged, end_position=following[0], end_offset=following[1].base_offset)


def _epoch_of(walk: Walk, extent: Extent, following: BatchHeader | None) -> LeaderEpoch:
    """Return of which epoch the batch is at which a walk stands; NO_LEADER_EPOCH if nobody can say.

    Epochs never fall, so the batches around are certain where they agree. A loss of power may have brought an earlier
    table of epochs back: it is believed only if it knows of what follows.
    """
    after = extent.epoch_after if following is None else following.leader_epoch
    after_offset = extent.end_offset if following is None else following.base_offset
    if after == max(0, walk.epoch):
        return after
    said = extent.epoch_at(walk.offset)
    knows = after == NO_LEADER_EPOCH or (after_offset is not None and extent.epoch_at(after_offset) == after)
    return said if knows and said >= walk.epoch else NO_LEADER_EPOCH


def _unsound_bytes(read: Read, size: int, walk: Walk) -> int:
    """Return how many bytes from here on are not sound, as far as `_MAX_UNSOUND_BYTES`."""
    if walk.position >= size:
        return _MAX_UNSOUND_BYTES
    end = min(size, walk.position + _MAX_UNSOUND_BYTES)
    found = find_sound_header(read, walk.position + ALIGNMENT, end, min_offset=walk.offset + 1)
    return (found[0] if found else end) - walk.position


def _following(read: Read, size: int, walk: Walk) -> tuple[int, BatchHeader] | None:
    """Return where the next sound batch lies whose offsets come later."""
    return find_sound_header(read, walk.position + ALIGNMENT, size, min_offset=walk.offset + 1)


def _step_over(read: Read, size: int, walk: Walk, damaged: DamagedBatch) -> bool:
    """Move a walk past a damaged batch; False if nothing sound follows."""
    if damaged.header is not None:
        walk.position += damaged.header.batch_length
        walk.offset, walk.epoch = damaged.header.next_offset, damaged.header.leader_epoch
        return walk.position < size
    if (following := _following(read, size, walk)) is None:
        return False
    walk.position, walk.offset = following[0], following[1].base_offset
    return True


class OpenLog:
    """A log that is in use: appends, reads, cuts and retention go on beside."""

    def __init__(self, log: PartitionLog, suspects: Iterable[Offset], *, compacts: bool) -> None:
        """Begin.

        Args:
            suspects: at each of them, or later, something is damaged.
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
        """Something was found in the present segment."""

    def find(self) -> DamagedBatch | None:
        """See `RepairTarget`."""
        while self._segments:
            segment = self._segments[0]
            walk = self._walk = self._walk or Walk(0, segment.base_offset)
            extent = self._extent(segment)
            with segment.reading() as read:
                found = find_damaged(zeros_if_unreadable(read), segment.file_size(), walk, extent)
            if self._log.cuts != self._cuts or segment not in self._log.segments:
                return None  # It was cut, compacted or dropped meanwhile: what is damaged now will be found again.
            if found is not None:
                self._is_damaged = True
                return found
            self._next()
        return None

    def _next(self) -> None:
        """Go on with the next segment that is suspect: the one after this, if nothing was found here."""
        done = self._segments.pop(0)
        if not self._is_damaged:
            following = [segment for segment in self._log.segments if segment.base_offset >= done.next_offset][:1]
            self._segments = [*(segment for segment in following if segment not in self._segments), *self._segments]
        self._walk, self._is_damaged = None, False

    def _extent(self, segment: Segment) -> Extent:
        end, position = segment.next_offset, segment.size
        return Extent(segment.path, end, position, end, self._log.epochs.epoch_at, self._exact_fit)

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
    """A log that could not be opened."""

    def __init__(self, folder: Path, damaged_at: Offset | None, *, compacts: bool) -> None:
        """Begin.

        Args:
            damaged_at: where it is known to be damaged; None if it is not known: then all that was synced is checked.

        Raises:
            DamagedDataError: its checkpoint is damaged, too: where it starts and how far it was synced is not known.
            StorageError: the disk refused.
        """
        self._folder = folder
        self._checkpoint = Checkpoint.load(folder)
        self._until = self._checkpoint.recovery_point if damaged_at is None else damaged_at + 1
        self._epochs = EpochTable(folder)
        self._exact_fit = compacts or (folder / STATE_FILE).exists()
        bases = [base for base in segment_bases(list_names(folder)) if _holds_something(folder, base)]
        start = max(self._checkpoint.log_start_offset, damaged_at or 0)
        # One file before the damage, if its records are still wanted: its last batch says which epoch came before.
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
        """Go on with the next file. The records of one that is missing were put at the end of the one before it."""
        self._bases = [base for base in self._bases[1:] if base >= self._walk.offset]
        self._walk = Walk(0, self._bases[0] if self._bases else self._walk.offset, self._walk.epoch)

    def _extent(self) -> Extent:
        following = self._bases[1] if len(self._bases) > 1 else None
        until = self._until if following is None else min(self._until, following)
        path = segment_path(self._folder, self._bases[0])
        after = NO_LEADER_EPOCH if following is None else _epoch_of_first(segment_path(self._folder, following))
        return Extent(path, until, None, following, self._epochs.epoch_at, self._exact_fit, after)

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
        """Have damage below `end` taken for damage from now on, whatever it looks like."""
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


def _epoch_of_first(path: Path) -> LeaderEpoch:
    with _reading(path) as (read, size):
        header = _header(read, Walk(0, int(path.stem)), size)
    return NO_LEADER_EPOCH if header is None else header.leader_epoch


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
