"""One partition's log on disk: appending and reading.

One owner calls it. Only `fsync` and the function that `plan_checkpoint` returns may run in worker threads. Appending is
one write of whole, stamped batches, durable after the next `fsync`.
"""

from __future__ import annotations

import logging
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from raftlog.config import TopicConfig
from raftlog.errors import CorruptBatchError, DamagedDataError, OffsetOutOfRangeError, StorageError
from raftlog.model import NO_LEADER_EPOCH, AbortedTransaction, LeaderEpoch, Offset
from raftlog.partition.storage.batch_reads import (
    FoundRecord,
    Skipped,
    TimedBatch,
    batch_since,
    newest_of_records,
    newest_timestamp,
    read_batches,
)
from raftlog.partition.storage.file_pool import FilePool
from raftlog.partition.storage.files import is_unreadable, storage_error
from raftlog.partition.storage.log_segments import SegmentedLog
from raftlog.partition.storage.segment import Segment
from raftlog.partition.storage.sync_failures import fails_on_sync_error
from raftlog.partition.storage.verified_reads import VerifiedBatches, find_verified
from raftlog.record.batch import BatchHeader, Buffer, iter_batches
from raftlog.record.control import Marker, parse_marker

_log = logging.getLogger(__name__)


class PartitionLog(SegmentedLog):
    """A log from `log_start_offset` to `log_end_offset` (exclusive).

    - Offsets are contiguous, and leader epochs never decrease.
    - Everything below `durable_end_offset` survives a power loss.
    - After a `failure`, the log accepts no more changes.
    """

    refusal: StorageError | None = None
    """The error of the last append, if it failed."""

    @classmethod
    def open(
        cls, folder: Path, config: TopicConfig, *, pool: FilePool | None = None, power_lost: bool = False
    ) -> PartitionLog:
        """Open a log: create it, or recover it after any shutdown.

        Args:
            pool: shared with other logs; it bounds how many files are open.
            power_lost: the machine went down since the log was used, so unsynced writes may be missing.

        Raises:
            DamagedDataError: records that were on disk are missing or corrupt; nothing was changed.
            StorageError: the disk refused.
        """
        return cls(folder, config, pool=pool or FilePool(), power_lost=power_lost)

    @property
    def last_epoch(self) -> LeaderEpoch:
        """The epoch of the last batch; `NO_LEADER_EPOCH` for an empty log."""
        if self.log_end_offset == self.log_start_offset:
            return NO_LEADER_EPOCH
        return self.epochs.epoch_at(self.log_end_offset - 1)

    @fails_on_sync_error
    def append(self, batches: Buffer, headers: Sequence[BatchHeader] | None = None) -> None:
        """Write stamped batches that continue the log.

        Args:
            headers: those of all batches, if the caller has read them.

        Raises:
            DiskFullError: nothing was appended; of several batches, none beyond the log end offset.
            StorageError: as DiskFullError, or the log has failed: see `failure`.
            CorruptBatchError: the batches do not continue the log; nothing was appended.
        """
        self._require_sound()
        try:
            self._append(memoryview(batches), headers or [header for header, _ in iter_batches(batches)])
        except StorageError as error:
            if self.refusal is None:
                _log.error("%s", error.message)  # Once: followers and producers try again many times a second.
            self.refusal = error
            raise
        if self.refusal is not None:
            _log.info("%s takes appends again", self.folder)
            self.refusal = None

    def _append(self, view: memoryview, headers: Sequence[BatchHeader]) -> None:
        start, group, epoch = 0, list[BatchHeader](), self.last_epoch
        self._require_contiguous(headers)
        position = 0
        for header in headers:
            self._begin()
            if header.leader_epoch > epoch:
                self._write(view[start:position], group)
                start, group, epoch = position, [], header.leader_epoch
                self.epochs.truncate_before(self.log_start_offset)  # A full disk may have prevented this before.
                self.epochs.assign(header.leader_epoch, header.base_offset)
            if self._must_roll(position - start, header):
                self._write(view[start:position], group)
                start, group = position, []
                self.roll()
            group.append(header)
            position += header.batch_length
        self._write(view[start:position], group)

    def read(self, offset: Offset, max_bytes: int, *, limit_offset: Offset) -> bytes:
        """Return whole batches from the one that holds `offset`, all below `limit_offset`.

        The first batch is returned even if it alone exceeds `max_bytes`.

        Raises:
            OffsetOutOfRangeError: `offset` is below the log start or above the log end.
            StorageError: the batches cannot be read, or are damaged.
        """
        self._require_in_range(offset)
        if offset >= min(limit_offset, self.log_end_offset):
            return b""
        try:
            return read_batches(self._segment_of(offset), offset, max_bytes, limit_offset)
        except (CorruptBatchError, OSError) as error:
            raise StorageError(f"{self.folder} cannot be read at offset {offset}: {error}") from error

    def find_verified(
        self, offset: Offset, max_bytes: int, *, limit_offset: Offset, check_crcs: bool = True
    ) -> VerifiedBatches:
        """Like `read`, for batches with valid checksums, up to the first that is damaged or unreadable.

        Args:
            check_crcs: see `verified_reads.find_verified`.

        Raises:
            OffsetOutOfRangeError: `offset` is below the log start or above the log end.
            StorageError: the disk refused.
        """
        self._require_in_range(offset)
        if offset >= min(limit_offset, self.log_end_offset):
            return VerifiedBatches()
        segment = self._segment_of(offset)
        if (newest := segment.newest(offset)) and segment.next_offset <= limit_offset:
            return VerifiedBatches(newest, segment.next_offset, count=1)
        try:
            return find_verified(segment, offset, max_bytes, limit_offset, check_crcs=check_crcs)
        except (CorruptBatchError, OSError) as error:
            problem = f"{self.folder} cannot be read at offset {offset}: {error}"
            if isinstance(error, CorruptBatchError) or is_unreadable(error):
                return VerifiedBatches(problem=problem)
            raise StorageError(problem) from error

    def batch_since(
        self, timestamp_us: int, from_offset: Offset, *, limit_offset: Offset, max_headers: int = sys.maxsize
    ) -> TimedBatch | Skipped | None:
        """Return the first batch in [from_offset, limit_offset) that may have a record at or after a time.

        It reads at most `max_headers` headers.

        Raises:
            CorruptBatchError: a header is damaged.
            OSError: a file cannot be read.
        """
        start = max(self.log_start_offset, self._segments[0].base_offset, from_offset)
        return batch_since(self._segments, timestamp_us, start, limit_offset, max_headers)

    def record_since(self, timestamp_us: int, from_offset: Offset = 0, *, limit_offset: Offset) -> FoundRecord | None:
        """Return the first record in [from_offset, limit_offset) at or after a time (us since 1970).

        It decodes whole batches in this thread.

        Raises:
            CorruptBatchError: a batch is damaged.
            OSError: a file cannot be read.
        """
        while (batch := self.batch_since(timestamp_us, from_offset, limit_offset=limit_offset)) is not None:
            if isinstance(batch, TimedBatch) and (found := batch.find(timestamp_us)) is not None:
                return found if found.offset < limit_offset else None
            from_offset = batch.next_offset
        return None

    def newest_timestamp(self, *, limit_offset: Offset) -> int:
        """Return the newest time (us since 1970) of the batches below `limit_offset`; `NO_TIMESTAMP` without batches.

        Raises:
            CorruptBatchError: a header is damaged.
            OSError: a file cannot be read.
        """
        return newest_timestamp(self._segments, limit_offset)

    def segment_ends(self) -> list[Offset]:
        """Return the offset after each segment, the newest first."""
        return [segment.next_offset for segment in reversed(self._segments)]

    def newest_of_records(
        self, newest: int, end: Offset, from_offset: Offset, *, limit_offset: Offset, max_headers: int
    ) -> tuple[int, Offset | None]:
        """Return the newest time of `newest` and of the records of a segment; see `batch_reads.newest_of_records`.

        Args:
            end: the offset after the segment. If there is no such segment any more, its records do not count.

        Raises:
            CorruptBatchError: a header is damaged.
            OSError: a file cannot be read.
        """
        segment = next((one for one in self._segments if one.base_offset < end <= one.next_offset), None)
        if segment is None:
            return newest, None
        return newest_of_records(
            segment, newest, max(from_offset, self.log_start_offset), min(end, limit_offset), max_headers
        )

    def scan(
        self, from_offset: Offset | None = None, end: Offset | None = None
    ) -> Iterator[tuple[BatchHeader, Marker | None]]:
        """Iterate over each batch with records at or after `from_offset`: its header, and the payload of a marker.

        Args:
            end: batches that begin there, or later, do not count, and may be damaged; None: the log's end.
        """
        start = self.log_start_offset if from_offset is None else from_offset
        limit = sys.maxsize if end is None else end
        for segment in list(self._segments):
            if segment.next_offset <= start or segment.base_offset >= limit:
                continue  # Its file need not be opened.
            for position, header in segment.headers(start):
                if header.base_offset >= limit:
                    return
                if header.last_offset >= start:
                    yield header, segment.marker_at(position, header) if header.is_control else None
                if header.next_offset >= limit:
                    return

    @property
    def has_aborted(self) -> bool:
        """Whether any transaction in the log was aborted."""
        return any(segment.aborted_count for segment in self._segments)

    def aborted_transactions(self, start: Offset, end: Offset) -> list[AbortedTransaction]:
        """Return every aborted transaction that may have records in [`start`, `end`), below the last stable offset.

        Raises:
            DamagedDataError: their index is built again from the log, and a batch is damaged.
            StorageError: the index of aborted transactions cannot be read.
        """
        try:
            return list(self._aborted_transactions(start, end))
        except (CorruptBatchError, OSError) as error:
            is_damage = isinstance(error, CorruptBatchError) or is_unreadable(error)
            family = DamagedDataError if is_damage else StorageError
            raise family(f"{self.folder}: its aborted transactions cannot be read: {error}") from error

    def _aborted_transactions(self, start: Offset, end: Offset) -> Iterator[AbortedTransaction]:
        for segment in self._segments[self._number_of(start) :]:
            entries = segment.load_aborted() if segment.aborted_count else []
            first = bisect_left(entries, start, key=lambda entry: entry.last_offset)
            for entry in islice(entries, first, None):
                if entry.first_offset < end:
                    yield AbortedTransaction(
                        producer_id=entry.producer_id, first_offset=entry.first_offset, last_offset=entry.last_offset
                    )
                if entry.stable_offset >= end:
                    return

    def _must_roll(self, pending: int, header: BatchHeader) -> bool:
        active = self._segments[-1]
        if active.size + pending == 0:
            return False
        first = active.first_timestamp if active.first_timestamp is not None else header.max_timestamp
        return (
            active.size + pending + header.batch_length > self.config.segment_bytes
            or header.max_timestamp - first > self.config.segment_ms * 1000
        )

    def _write(self, content: memoryview, headers: list[BatchHeader]) -> None:
        if not headers:
            return
        active = self._segments[-1]
        try:
            # Before the write: after it, `learn` must not fail.
            active.load_index()
            active.load_aborted()
            markers = _markers(content, headers)
            with active.file.use():  # One use: to remove a partial write needs no free descriptor.
                self._write_whole(active, content)
        except CorruptBatchError as error:
            raise DamagedDataError(f"{self.folder} is damaged; nothing was appended: {error.message}") from error
        except OSError as error:
            raise storage_error(error, f"cannot append to {self.folder}; nothing was appended") from error
        self._syncer.wrote(active)  # Before the log end moves: see `Syncer.sync`.
        for header, marker in zip(headers, markers, strict=True):
            active.learn(header, marker)
        if len(headers) == 1:
            active.keep_newest(headers[0].base_offset, content)

    def _write_whole(self, active: Segment, content: memoryview) -> None:
        """Write batches; if that fails, remove the part that was written."""
        try:
            active.write(content)
        except OSError as error:
            try:
                active.cut(active.size)
            except OSError as second:
                raise self._fail(second, "cannot remove a partial write") from error
            raise

    def _segment_of(self, offset: Offset) -> Segment:
        return self._segments[self._number_of(offset)]

    def _number_of(self, offset: Offset) -> int:
        return max(0, bisect_right(self._segments, offset, key=lambda segment: segment.base_offset) - 1)

    def _require_in_range(self, offset: Offset) -> None:
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRangeError(
                f"offset {offset} is outside the log: it holds {self.log_start_offset} to {self.log_end_offset}",
                details={"log_start_offset": self.log_start_offset, "log_end_offset": self.log_end_offset},
            )

    def _require_contiguous(self, headers: Sequence[BatchHeader]) -> None:
        expected, epoch = self.log_end_offset, self.last_epoch
        for header in headers:
            if header.base_offset != expected or header.leader_epoch < epoch:
                raise CorruptBatchError(
                    f"{self.folder}: expected a batch at offset {expected} of epoch {epoch} or later, "
                    f"received offset {header.base_offset} of epoch {header.leader_epoch}"
                )
            expected, epoch = header.next_offset, header.leader_epoch


def _markers(content: memoryview, headers: list[BatchHeader]) -> list[Marker | None]:
    """Return the marker of each control batch, None for other batches.

    Raises:
        CorruptBatchError: a control batch is not a valid marker.
    """
    markers, position = list[Marker | None](), 0
    for header in headers:
        batch = content[position : position + header.batch_length]
        markers.append(parse_marker(header, batch) if header.is_control else None)
        position += header.batch_length
    return markers
