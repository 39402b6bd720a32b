"""Cutting a log's end, and starting over at another offset: durably, and so that a crash at any point leaves a log.

What speaks of more than will be left goes first: the checkpoint, then the files, then the table of epochs.
"""

from __future__ import annotations

from raftlog.errors import CorruptBatchError, DiskFullError, StorageError
from raftlog.model import Offset
from raftlog.partition.storage.files import fsync_dir, storage_error
from raftlog.partition.storage.log_files import PRODUCERS_SUFFIX, LogFiles
from raftlog.partition.storage.segment import Segment, segment_path
from raftlog.partition.storage.sync_failures import fails_on_sync_error


class TruncatableLog(LogFiles):
    """Truncation, and starting over."""

    def end_if_cut_at(self, offset: Offset) -> Offset:
        """Return where the log ends once every batch that holds `offset` or more is gone: `offset`, or below it.

        Raises:
            StorageError: the log is damaged there, or the disk refused.
        """
        if not self.log_start_offset < offset < self.log_end_offset:
            return min(offset, self.log_end_offset)
        holder = next(segment for segment in reversed(self._segments) if segment.base_offset <= offset)
        try:
            end = next(header.base_offset for _, header in holder.headers(offset) if header.last_offset >= offset)
        except CorruptBatchError as error:
            raise self._fail(error, "is damaged, and cannot be truncated") from error
        except OSError as error:
            raise self._fail(error, "cannot truncate") from error
        # The log may start inside that batch: it is empty then, and still starts there.
        return max(end, self.log_start_offset)

    @fails_on_sync_error
    def truncate_to(self, offset: Offset) -> None:
        """Remove, durably, every batch that holds `offset` or more: the log may end below `offset`.

        Raises:
            DiskFullError: nothing was removed; it can be tried again.
            StorageError: see `failure`.
        """
        self._require_sound()
        if offset < self.log_end_offset:
            end = self.end_if_cut_at(offset)
            if end <= self.log_start_offset:
                self.reset_to(end)
            else:
                with self._changing:
                    self._truncate_inside(end)

    def _truncate_inside(self, offset: Offset) -> None:
        """Cut where a batch begins."""
        self._cuts += 1
        if self.recovery_point > offset or self.high_watermark_checkpoint > offset:
            # Before the cut: a process that is killed after it must not look for what was cut.
            point, high_watermark = min(self.recovery_point, offset), min(self.high_watermark_checkpoint, offset)
            self._save_checkpoint(recovery_point=point, high_watermark=high_watermark)
        try:
            with self._syncer.paused():
                while self._segments[-1].base_offset >= offset:
                    # The last one first: a crash in between leaves no gap.
                    self._remove(self._segments[-1])
                    self._segments.pop()
                self._segments[-1].truncate_to(offset)
                self._syncer.truncated(self.log_end_offset, self._segments[-1])
            self._remove_files(PRODUCERS_SUFFIX, above=self.log_end_offset)
            fsync_dir(self.folder)
        except OSError as error:
            raise self._fail(error, "cannot truncate") from error
        except CorruptBatchError as error:
            # It ends nobody knows where: nothing may be appended to it, or promised.
            raise self._fail(error, "is damaged, and cannot be truncated") from error
        try:
            self.epochs.truncate_from(self.log_end_offset)
        except StorageError as error:
            # Epochs that the log does not have would mislead followers: not even a full disk is waited for.
            raise self._fail(error, "cannot cut the leader epochs") from error
        self.fsync()

    @fails_on_sync_error
    def reset_to(self, offset: Offset) -> None:
        """Remove everything, durably; the log is empty and goes on at `offset`.

        Raises:
            DiskFullError: it can be tried again; with a `failure` nothing else can.
            StorageError: the disk refused.
        """
        with self._changing:
            if not self._starting_over:
                self._require_sound()
                self._cuts += 1
                self._begin()
                # First, what makes an empty folder right: a crash in between must not look like lost records.
                self._save_checkpoint(recovery_point=self.log_start_offset, high_watermark=self.log_start_offset)
            self._reset_to(offset)
            self._failure, self._starting_over = None, False

    def _reset_to(self, offset: Offset) -> None:
        try:
            with self._syncer.paused():
                for segment in reversed(self._segments):
                    self._remove(segment)
                # They would look like the past once the log has grown that far again.
                self._remove_files(PRODUCERS_SUFFIX)
                fsync_dir(self.folder)
                self.epochs.clear()
                self._save_checkpoint(log_start_offset=offset, recovery_point=offset, high_watermark=offset)
                self._segments = [Segment.create(segment_path(self.folder, offset), offset, self._pool)]
                self._syncer.truncated(offset, self._segments[-1])
                self._syncer.name()  # Others count on where it starts.
            fsync_dir(self.folder)
        except (OSError, StorageError) as error:
            self._failure = (
                error if isinstance(error, StorageError) else storage_error(error, f"{self.folder} cannot start over")
            )
            self._starting_over = isinstance(self._failure, DiskFullError)
            raise self._failure from error
        self._syncer.durable_end_offset = offset
