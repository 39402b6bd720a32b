"""One partition's log on disk.

One owner calls it; only `fsync` may run beside, in a worker thread. Appending is one write of whole, stamped batches:
they are durable after the next `fsync`. Order of every durable step: write, flush, rename, folder, acknowledge.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path

from raftlog.config import TopicConfig
from raftlog.errors import CorruptBatchError, OffsetOutOfRangeError, StorageError
from raftlog.model import LeaderEpoch, Offset
from raftlog.partition.storage.epochs import EpochTable
from raftlog.partition.storage.files import fsync_dir, make_dir, read_json, storage_error, write_json
from raftlog.partition.storage.reading import offset_for_timestamp, read_batches
from raftlog.partition.storage.recovery import open_segments
from raftlog.partition.storage.retention import DelayedDeletes, active_has_expired, expired_segments
from raftlog.partition.storage.segment import Segment, segment_path
from raftlog.partition.storage.swap import put_in_place
from raftlog.partition.storage.sync import Syncer
from raftlog.record.batch import BatchHeader, Buffer, iter_batches

CHECKPOINT = "checkpoint.json"


class LogClosedError(StorageError):
    """The log was closed on purpose: the disk is not to blame."""


class PartitionLog:
    """A log from `log_start_offset` to `log_end_offset` (exclusive)."""

    def __init__(self, folder: Path, config: TopicConfig) -> None:
        self.folder = folder
        self.config = config
        self._failure: StorageError | None = None
        try:
            make_dir(folder)
        except OSError as error:
            raise storage_error(error, f"cannot create {folder}") from error
        checkpoint = read_json(folder / CHECKPOINT) or {}
        self.log_start_offset: Offset = int(checkpoint.get("log_start_offset", 0))
        self.recovery_point: Offset = int(checkpoint.get("recovery_point", self.log_start_offset))
        self.high_watermark_checkpoint: Offset = int(checkpoint.get("high_watermark", self.log_start_offset))
        self.epochs = EpochTable(folder)
        self._segments = open_segments(
            folder, log_start_offset=self.log_start_offset, recovery_point=self.recovery_point
        )
        self._doomed = DelayedDeletes()
        self._doomed.remove_all(folder)
        self.epochs.truncate_from(self.log_end_offset)
        self._syncer = Syncer(durable_end_offset=self.recovery_point)
        self._syncer.wrote(self._segments[-1])
        self.fsync()

    @classmethod
    def open(cls, folder: Path, config: TopicConfig) -> PartitionLog:
        """Create a log, or recover the one that is there.

        Raises:
            StorageError: damage below the recovery point, or the disk refused.
        """
        return cls(folder, config)

    @property
    def log_end_offset(self) -> Offset:
        return self._segments[-1].next_offset

    @property
    def durable_end_offset(self) -> Offset:
        """Everything below it survives a power loss."""
        return self._syncer.durable_end_offset

    @property
    def last_epoch(self) -> LeaderEpoch:
        """The epoch of the last batch; `NO_LEADER_EPOCH` for an empty log."""
        return self.epochs.epoch_at(self.log_end_offset - 1) if self.log_end_offset > self.log_start_offset else -1

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self._segments)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """What the log is made of now, oldest first; the last one is the active segment."""
        return tuple(self._segments)

    @property
    def failure(self) -> StorageError | None:
        """Why the log takes no more appends, if so."""
        return self._failure

    def append(self, batches: Buffer) -> None:
        """Write stamped batches that continue the log.

        Raises:
            DiskFullError: nothing was appended.
            StorageError: the log is broken and takes no more appends.
            CorruptBatchError: the batches do not continue the log; nothing was appended.
        """
        self._require_sound()
        view, start, group = memoryview(batches), 0, list[BatchHeader]()
        self._require_contiguous(headers := [header for header, _ in iter_batches(view)])
        position = 0
        for header in headers:
            if header.leader_epoch > self.epochs.last_epoch:
                self._write(view[start:position], group)
                start, group = position, []
                self.epochs.assign(header.leader_epoch, header.base_offset)
            if self._must_roll(position - start, header):
                self._write(view[start:position], group)
                start, group = position, []
                self.roll()
            group.append(header)
            position += header.batch_length
        self._write(view[start:position], group)

    def fsync(self) -> Offset:
        """Make everything appended so far durable; return the durable end. Safe in a worker thread.

        Raises:
            LogClosedError: nobody waits for this any more: its partition was deleted, or the broker stops.
            StorageError: what was written since the last fsync may be lost, so the log takes no more appends.
        """
        self._require_sound()
        try:
            return self._syncer.sync(lambda: self.log_end_offset)
        except OSError as error:
            if isinstance(self._failure, LogClosedError):
                raise self._failure from None  # Closed between the check and the sync.
            # A failed fsync drops dirty pages: a second one would succeed without having written them.
            raise self._fail(error, "cannot fsync") from error

    def read(self, offset: Offset, max_bytes: int, *, limit_offset: Offset) -> bytes:
        """Return whole batches from the one that holds `offset`, all below `limit_offset`.

        The first batch is returned even if it alone exceeds `max_bytes`.

        Raises:
            OffsetOutOfRangeError: `offset` is below the log start or above the log end.
            StorageError: the disk no longer holds what was written.
        """
        self._require_in_range(offset)
        if offset >= min(limit_offset, self.log_end_offset):
            return b""
        try:
            return read_batches(self._segment_of(offset), offset, max_bytes, limit_offset)
        except (CorruptBatchError, OSError) as error:
            raise StorageError(f"{self.folder} cannot be read at offset {offset}: {error}") from error

    def truncate_to(self, offset: Offset) -> None:
        """Remove, durably, every batch that holds `offset` or more."""
        self._require_sound()
        if offset <= self.log_start_offset:
            self.reset_to(offset)
        elif offset < self.log_end_offset:
            self._truncate_inside(offset)

    def _truncate_inside(self, offset: Offset) -> None:
        if self.recovery_point > offset:
            self._save_checkpoint(recovery_point=offset, high_watermark=min(self.high_watermark_checkpoint, offset))
        try:
            with self._syncer.paused():
                while self._segments[-1].base_offset >= offset:
                    self._remove(self._segments.pop())
                self._segments[-1].truncate_to(offset)
                self._syncer.truncated(self.log_end_offset, self._segments[-1])
            fsync_dir(self.folder)
        except OSError as error:
            raise self._fail(error, "cannot truncate") from error
        self.epochs.truncate_from(self.log_end_offset)
        self.fsync()

    def reset_to(self, offset: Offset) -> None:
        """Remove everything, durably; the log is empty and goes on at `offset`."""
        try:
            with self._syncer.paused():
                for segment in self._segments:
                    self._remove(segment)
                fsync_dir(self.folder)
                self.epochs.clear()
                self.log_start_offset = offset
                self._save_checkpoint(recovery_point=offset, high_watermark=offset)
                self._segments = [Segment(segment_path(self.folder, offset), offset)]
                self._syncer.truncated(offset, self._segments[-1])
            fsync_dir(self.folder)
        except OSError as error:
            raise self._fail(error, "cannot start over") from error
        self._syncer.durable_end_offset = offset

    def offset_for_timestamp(self, timestamp_us: int, *, limit_offset: Offset) -> Offset | None:
        """Return the first offset below `limit_offset` whose record is at or after a time (us since 1970)."""
        start = max(self.log_start_offset, self._segments[0].base_offset)
        return offset_for_timestamp(self._segments, timestamp_us, start, limit_offset)

    def scan_headers(self, from_offset: Offset | None = None) -> Iterator[BatchHeader]:
        """Walk over the headers of every batch (that holds `from_offset` or more)."""
        start = self.log_start_offset if from_offset is None else from_offset
        for segment in list(self._segments):
            for _, header in segment.headers(start):
                if header.last_offset >= start:
                    yield header

    def apply_retention(self, now_us: int, high_watermark: Offset) -> int:
        """Drop whole segments below the high watermark that are too old or too much; return how many.

        Files disappear `file_delete_delay_ms` later.
        """
        self._doomed.remove_due(now_us)
        if self._failure is None and self._active_has_expired(now_us, high_watermark):
            self.roll()
        count = expired_segments(self._segments, self.config, now_us, high_watermark, self.log_start_offset)
        if count:
            self._drop_first(count, now_us, high_watermark)
        return count

    def _active_has_expired(self, now_us: int, high_watermark: Offset) -> bool:
        return active_has_expired(self._segments[-1], self.config, now_us, high_watermark, self.log_start_offset)

    def _drop_first(self, count: int, now_us: int, high_watermark: Offset) -> None:
        dropped, self._segments = self._segments[:count], self._segments[count:]
        self.log_start_offset = max(self.log_start_offset, self._segments[0].base_offset)
        self._save_checkpoint(recovery_point=self.durable_end_offset, high_watermark=high_watermark)
        with self._syncer.paused():
            for segment in dropped:
                self._syncer.forget(segment)
                segment.close()
                self._doomed.add(segment.path, now_us + self.config.file_delete_delay_ms * 1000)
        fsync_dir(self.folder)
        self.epochs.truncate_before(self.log_start_offset)

    def advance_log_start(self, offset: Offset, high_watermark: Offset) -> None:
        """Delete, durably, every record below `offset`, which is not above the high watermark."""
        assert offset <= high_watermark
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self._save_checkpoint(recovery_point=self.durable_end_offset, high_watermark=high_watermark)
            self.epochs.truncate_before(offset)

    def swap(self, replaced: Sequence[Segment], fresh: Segment) -> bool:
        """Put one compacted segment in the place of consecutive ones; False if they are not as they were."""
        at = bisect_left(self._segments, replaced[0].base_offset, key=lambda segment: segment.base_offset)
        as_they_were = self._segments[at : at + len(replaced)] == list(replaced)
        if self._failure is not None or not as_they_were or replaced[0].next_offset <= self.log_start_offset:
            return False
        try:
            with self._syncer.paused():
                put_in_place(fresh, replaced)
                self._segments[at : at + len(replaced)] = [fresh]
                for segment in replaced:
                    self._syncer.forget(segment)
                    segment.close()
        except OSError as error:
            raise self._fail(error, "cannot put a compacted segment in place") from error
        return True

    def checkpoint(self, high_watermark: Offset) -> None:
        """Record, durably, how far the log is known to be whole, so that the next start scans less."""
        if (self.durable_end_offset, high_watermark) != (self.recovery_point, self.high_watermark_checkpoint):
            self._save_checkpoint(recovery_point=self.durable_end_offset, high_watermark=high_watermark)

    def close(self) -> None:
        """Close every file; nothing is flushed. Waits for an `fsync` under way."""
        with self._syncer.paused():
            for segment in self._segments:
                segment.close()
            self._failure = self._failure or LogClosedError(f"{self.folder} is closed")

    def _must_roll(self, pending: int, header: BatchHeader) -> bool:
        active = self._segments[-1]
        if active.size + pending == 0:
            return False
        first = active.first_timestamp if active.first_timestamp is not None else header.max_timestamp
        return (
            active.size + pending + header.batch_length > self.config.segment_bytes
            or header.max_timestamp - first > self.config.segment_ms * 1000
        )

    def roll(self) -> None:
        """Close the active segment and begin the next one, unless it is empty."""
        if not self._segments[-1].size:
            return
        try:
            segment = Segment(segment_path(self.folder, self.log_end_offset), self.log_end_offset)
            fsync_dir(self.folder)
        except OSError as error:
            raise storage_error(error, f"cannot add a segment to {self.folder}") from error
        self._segments.append(segment)

    def _write(self, content: memoryview, headers: list[BatchHeader]) -> None:
        if not headers:
            return
        active = self._segments[-1]
        try:
            active.write(content)
        except OSError as error:
            try:
                active.cut(active.size)
            except OSError as second:
                raise self._fail(second, "cannot remove a partial write") from error
            raise storage_error(error, f"cannot append to {self.folder}; nothing was appended") from error
        self._syncer.wrote(active)  # Before the log end moves: see `Syncer.sync`.
        for header in headers:
            active.learn(header)

    def _remove(self, segment: Segment) -> None:
        self._syncer.forget(segment)
        segment.close()
        segment.path.unlink()

    def _save_checkpoint(self, *, recovery_point: Offset, high_watermark: Offset) -> None:
        document = {"version": 1, "log_start_offset": self.log_start_offset, "recovery_point": recovery_point}
        write_json(self.folder / CHECKPOINT, {**document, "high_watermark": high_watermark})
        self.recovery_point, self.high_watermark_checkpoint = recovery_point, high_watermark

    def _segment_of(self, offset: Offset) -> Segment:
        return self._segments[bisect_right(self._segments, offset, key=lambda segment: segment.base_offset) - 1]

    def _require_in_range(self, offset: Offset) -> None:
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRangeError(
                f"offset {offset} is outside the log: it holds {self.log_start_offset} to {self.log_end_offset}",
                details={"log_start_offset": self.log_start_offset, "log_end_offset": self.log_end_offset},
            )

    def _require_contiguous(self, headers: list[BatchHeader]) -> None:
        expected, epoch = self.log_end_offset, self.epochs.last_epoch
        for header in headers:
            if header.base_offset != expected or header.leader_epoch < epoch:
                raise CorruptBatchError(
                    f"{self.folder}: expected a batch at offset {expected} of epoch {epoch} or later, "
                    f"received offset {header.base_offset} of epoch {header.leader_epoch}"
                )
            expected, epoch = header.next_offset, header.leader_epoch

    def _require_sound(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _fail(self, error: OSError, what: str) -> StorageError:
        self._failure = storage_error(error, f"{self.folder}: {what}; the log takes no more appends")
        return self._failure
