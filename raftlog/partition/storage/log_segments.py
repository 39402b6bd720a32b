"""Operations on whole segments of a log: roll, delete, repair in place, replace by compacted ones.

They exclude truncation (`TruncatableLog`) and checkpointing (`LogFiles`). A truncation discards compaction under way.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Callable, Sequence
from pathlib import Path

from raftlog.errors import DiskFullError, StorageError
from raftlog.model import Offset
from raftlog.partition.storage.files import fsync_dir, storage_error, sync_file, unlink_quietly, write_fully
from raftlog.partition.storage.log_truncation import TruncatableLog
from raftlog.partition.storage.retention import active_has_expired, expired_segments, remove_files
from raftlog.partition.storage.segment import Segment, segment_path, unlink_indexes
from raftlog.partition.storage.segment_replacement import put_in_place, remove_indexes, remove_replaced
from raftlog.partition.storage.sync_failures import fails_on_sync_error

_log = logging.getLogger(__name__)


class SegmentedLog(TruncatableLog):
    """Adds rolling, retention, deletion by offset, repair in place, and replacement by compacted segments."""

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The segments, oldest first; the last one is the active segment."""
        return tuple(self._segments)

    @property
    def cuts(self) -> int:
        """How often the log was truncated: a worker that read it before must start over."""
        return self._cuts

    @fails_on_sync_error
    def roll(self) -> None:
        """Close the active segment and begin the next one, unless it is empty.

        Raises:
            StorageError: the disk refused; nothing was changed.
        """
        if not self._segments[-1].size:
            return
        full, path = self._segments[-1], segment_path(self.folder, self.log_end_offset)
        try:
            segment = Segment.create(path, self.log_end_offset, self._pool)
            fsync_dir(self.folder)
        except OSError as error:
            try:
                unlink_quietly(path)
            except OSError as second:
                _log.warning("cannot remove the empty segment %s: %s; the next start does", path, second)
            raise storage_error(error, f"cannot add a segment to {self.folder}; nothing was appended") from error
        self._segments.append(segment)
        if self._changing.acquire(
            blocking=False
        ):  # Otherwise a checkpoint is being written; the next one saves the index.
            try:
                full.save_index()
            except StorageError as error:
                _log.warning("%s; it is rebuilt when it is needed", error.message)
            finally:
                self._changing.release()

    def take_deleted(self, now_us: int) -> list[Path]:
        """Return the files of dropped segments that are to be removed now, which the caller does (`remove_files`)."""
        return self._doomed.take_due(now_us)

    @fails_on_sync_error
    def apply_retention(
        self, now_us: int, high_watermark: Offset, *, before: Callable[[Offset], None] = lambda _: None
    ) -> int:
        """Delete whole segments below the high watermark that exceed retention; return how many.

        One call deletes at most `MOST_DROPPED`. Files whose time has come are removed, unless `take_deleted` took them.
        Files are removed `file_delete_delay_ms` later, so that reads in progress finish.

        Args:
            before: called with the next log start, if it moves, before anything is deleted.

        Raises:
            StorageError: a disk operation failed; files left over are removed at the next start.
        """
        with self._changing:
            try:
                try:
                    return self._apply_retention(now_us, high_watermark, before)
                except DiskFullError:
                    if not self._free_indexes(now_us, high_watermark):
                        raise
                    return self._apply_retention(now_us, high_watermark, before)
            except OSError as error:
                raise storage_error(error, f"cannot remove old segments of {self.folder}") from error

    def _free_indexes(self, now_us: int, high_watermark: Offset) -> bool:
        """Remove index files of the segments to be deleted, for the small files that come first; False: none is there.

        Nothing has to be written for that, and an index can be built again.
        """
        start, active = self.log_start_offset, self._segments[-1]
        doomed = self._segments[: expired_segments(self._segments, self.config, now_us, high_watermark, start)]
        if active_has_expired(active, self.config, now_us, high_watermark, start):
            doomed.append(active)
        indexed = [segment for segment in doomed if segment.indexed_size >= 0]
        if indexed:
            remove_indexes(indexed)
        return bool(indexed)

    def _apply_retention(self, now_us: int, high_watermark: Offset, before: Callable[[Offset], None]) -> int:
        remove_files(self.take_deleted(now_us))
        start = self.log_start_offset
        if self._failure is None and active_has_expired(self._segments[-1], self.config, now_us, high_watermark, start):
            self.roll()
        count = expired_segments(self._segments, self.config, now_us, high_watermark, start)
        if count == 0:
            return 0
        if (start := max(start, self._segments[count].base_offset)) > self.log_start_offset:
            before(start)
        with self._syncer.paused():
            self._syncer.name()  # After a power loss, this log must not be found empty and start at 0 again.
        self._save_checkpoint(
            log_start_offset=start,
            recovery_point=max(start, self.durable_end_offset),
            high_watermark=max(start, high_watermark),
        )
        dropped, self._segments = self._segments[:count], self._segments[count:]
        with self._syncer.paused():
            for segment in dropped:
                self._syncer.forget(segment)
                segment.close()
                unlink_indexes(segment.path)
                self._doomed.add(segment.path, now_us + self.config.file_delete_delay_ms * 1000)
        fsync_dir(self.folder)
        self.epochs.truncate_before(self.log_start_offset)
        return count

    @fails_on_sync_error
    def advance_log_start(self, offset: Offset, high_watermark: Offset) -> None:
        """Delete, durably, every record below `offset`, which is not above the high watermark.

        Raises:
            StorageError: a disk operation failed; nothing was deleted, or only the epoch table still has older entries.
        """
        assert offset <= high_watermark
        if offset <= self.log_start_offset:
            return
        self._require_sound()
        if offset > self.durable_end_offset:
            # Otherwise a power loss could leave a log that ends below its start, which looks damaged.
            self.fsync()
        with self._changing:
            self._save_checkpoint(
                log_start_offset=offset, recovery_point=self.durable_end_offset, high_watermark=high_watermark
            )
            self.epochs.truncate_before(offset)

    @fails_on_sync_error
    def rewrite(self, segment: Segment, position: int, batches: bytes, *, end_offset: Offset, cuts: int) -> bool:
        """Overwrite damaged batches durably; return False if the log has changed. Blocks; for a worker thread.

        Args:
            end_offset: the offset after the last batch.
            cuts: value of `cuts` before the damage was found.

        Raises:
            StorageError: a disk operation failed: the batches are as damaged as before, or the log has failed.
        """
        if end_offset > self.recovery_point:
            self.fsync()
        with self._changing:
            self._require_sound()
            end = position + len(batches)
            if self._cuts != cuts or segment not in self._segments or end > segment.size:
                return False
            if end_offset > self.recovery_point or not self._checkpoint_lasts:
                # After a power loss, remains of this write must not look like a torn tail.
                self._save_checkpoint(
                    recovery_point=self.durable_end_offset, high_watermark=self.high_watermark_checkpoint
                )
            segment.forget_recent()  # A compacted topic's other replicas have the same records in other bytes.
            with segment.file.use() as descriptor:
                try:
                    write_fully(descriptor, batches, position)
                except OSError as error:
                    raise storage_error(error, f"cannot repair {segment.path}") from error
                try:
                    sync_file(descriptor)
                except OSError as error:
                    raise self._fail(error, "cannot sync a repaired batch") from error
            return True

    @fails_on_sync_error
    def swap(self, replaced: Sequence[Segment], fresh: Segment, *, cuts: int) -> bool:
        """Replace consecutive segments by one compacted segment; return False if the log has changed.

        Args:
            cuts: value of `cuts` before they were read.

        Raises:
            DiskFullError: nothing was replaced.
            StorageError: a disk operation failed; the folder is consistent after every step.
        """
        with self._changing:
            at = bisect_left(self._segments, replaced[0].base_offset, key=lambda segment: segment.base_offset)
            as_they_were = self._cuts == cuts and self._segments[at : at + len(replaced)] == list(replaced)
            if self._failure is not None or not as_they_were or replaced[0].next_offset <= self.log_start_offset:
                return False
            if fresh.next_offset > self.recovery_point or not self._checkpoint_lasts:
                # Recovery must not take damage in the synced compacted file for a torn tail.
                self._save_checkpoint(
                    recovery_point=self.durable_end_offset, high_watermark=self.high_watermark_checkpoint
                )
            try:
                with self._syncer.paused():
                    self._swap(at, replaced, fresh)
            except OSError as error:
                raise self._fail(error, "cannot put a compacted segment in place") from error
            return True

    def _swap(self, at: int, replaced: Sequence[Segment], fresh: Segment) -> None:
        remove_indexes(replaced)
        self.swaps += 1
        put_in_place(fresh, replaced)
        self._segments[at : at + len(replaced)] = [fresh]  # Its index file is written with the next checkpoint.
        for segment in replaced:
            self._syncer.forget(segment)
            segment.close()
        remove_replaced(replaced)
