"""Truncation of a log's end, and reset to another offset: durable, and safe against a crash at any step.

Order: first the checkpoint, which refers to the part to be removed, then the files, then the epoch table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from raftlog.errors import CorruptBatchError, DiskFullError, StorageError
from raftlog.model import Offset
from raftlog.partition.storage.files import fsync_dir, lacks_descriptor, storage_error
from raftlog.partition.storage.log_files import KEPT_PRODUCERS_SUFFIX, PRODUCERS_SUFFIX, LogFiles
from raftlog.partition.storage.segment import Segment, segment_path
from raftlog.partition.storage.sync_failures import fails_on_sync_error


class TruncatableLog(LogFiles):
    """Adds truncation and reset."""

    def end_if_cut_at(self, offset: Offset) -> Offset:
        """Return the log end offset after `truncate_to(offset)`: `offset`, or less if it is inside a batch.

        Raises:
            DiskFullError: no descriptor is free; it can be retried.
            StorageError: the log is damaged there, or a disk operation failed.
        """
        if not self.log_start_offset < offset < self.log_end_offset:
            return min(offset, self.log_end_offset)
        holder = next(segment for segment in reversed(self._segments) if segment.base_offset <= offset)
        with self._before_a_cut():
            end = next(header.base_offset for _, header in holder.headers(offset) if header.last_offset >= offset)
        # If the log starts inside that batch, it becomes empty and keeps its start.
        return max(end, self.log_start_offset)

    @contextmanager
    def _before_a_cut(self) -> Iterator[None]:
        """Translate errors of the reads before a truncation: nothing was changed yet."""
        try:
            yield
        except CorruptBatchError as error:
            raise self._fail(error, "is damaged, and cannot be truncated") from error
        except OSError as error:
            if lacks_descriptor(error):
                raise storage_error(error, f"cannot truncate {self.folder} yet") from error
            raise self._fail(error, "cannot truncate") from error

    @fails_on_sync_error
    def truncate_to(self, offset: Offset) -> None:
        """Remove, durably, every batch with records at or after `offset`; the log may end below `offset`.

        Raises:
            DiskFullError: nothing was removed; it can be retried.
            StorageError: see `failure`.
        """
        self._require_sound()
        if offset < self.log_end_offset:
            end = self.end_if_cut_at(offset)
            if end <= self.log_start_offset:
                self.reset_to(end)
            else:
                last = next(segment for segment in reversed(self._segments) if segment.base_offset < end)
                with self._changing, ExitStack() as held:
                    with self._before_a_cut():
                        # All that needs a free descriptor, so that nothing later fails for lack of one.
                        held.enter_context(last.file.use())
                        last.load_index()
                        last.load_aborted()
                        self._remove_files(PRODUCERS_SUFFIX, above=end)
                    self._truncate_inside(end)

    def _truncate_inside(self, offset: Offset) -> None:
        """Truncate at the start of a batch."""
        self._cuts += 1
        if self.recovery_point > offset or self.high_watermark_checkpoint > offset:
            # Before the truncation: after a crash, recovery must not expect the removed records.
            point, high_watermark = min(self.recovery_point, offset), min(self.high_watermark_checkpoint, offset)
            self._save_checkpoint(recovery_point=point, high_watermark=high_watermark)
        try:
            with self._syncer.paused():
                while self._segments[-1].base_offset >= offset:
                    # The last segment first: a crash in between leaves no gap.
                    self._remove(self._segments[-1])
                    self._segments.pop()
                self._segments[-1].truncate_to(offset)
                self._syncer.truncated(self.log_end_offset, self._segments[-1])
            fsync_dir(self.folder)
        except OSError as error:
            raise self._fail(error, "cannot truncate") from error
        except CorruptBatchError as error:
            # Its end is unknown: nothing may be appended or acknowledged.
            raise self._fail(error, "is damaged, and cannot be truncated") from error
        try:
            self.epochs.truncate_from(self.log_end_offset)
        except StorageError as error:
            # Epochs that the log does not have would mislead followers, so even a full disk fails the log.
            raise self._fail(error, "cannot cut the leader epochs") from error
        try:
            self.fsync()
        except DiskFullError as error:
            raise self._fail(error, "cannot sync a truncation") from error  # It would count as durable.

    @fails_on_sync_error
    def reset_to(self, offset: Offset, *, before: Callable[[], None] | None = None) -> None:
        """Remove all records, durably; the empty log continues at `offset`.

        `take_deleted` returns their files, which only have another name yet.

        Args:
            before: writes what is known of batches below `offset`, durably, before anything is removed.

        Raises:
            DiskFullError: it can be retried; with a `failure` no other change is possible.
            StorageError: a disk operation failed.
        """
        with self._changing:
            if self._restarts_at is None:
                self._require_sound()
            # Also at a further attempt: a checkpoint that was planned since the last one describes the earlier log.
            self._cuts += 1
            if self._restarts_at is None:
                self._begin()
                self._name()  # Before the checkpoint: its recovery point tells a restart that the log is named.
                if offset > self.log_start_offset:
                    # Written for log starts that were planned, by a history that may have diverged.
                    self._remove_files(KEPT_PRODUCERS_SUFFIX, above=self.log_start_offset)
            if before is not None:
                before()
            # First: after a crash in between, the log is empty and begins at the offset, as its leader was told.
            self._save_checkpoint(log_start_offset=offset, recovery_point=offset, high_watermark=offset, restarts=True)
            self._reset_to(offset)
            self._failure, self._restarts_at = None, None

    def _name(self) -> None:
        try:
            with self._syncer.paused():
                self._syncer.name()
        except OSError as error:
            raise storage_error(error, f"{self.folder} cannot start over") from error

    def _reset_to(self, offset: Offset) -> None:
        try:
            with self._syncer.paused():
                for segment in reversed(self._segments):
                    self._remove(segment, blocks_later=True)
                self._segments = [Segment(segment_path(self.folder, offset), offset, self._pool)]  # Has no file yet.
                self._syncer.durable_end_offset = offset
                # Once the log has grown that far again, old snapshots would look valid.
                self._remove_files(PRODUCERS_SUFFIX)
                # What deleted batches say still holds if the log starts where it did.
                self._remove_files(KEPT_PRODUCERS_SUFFIX, above=offset)
                fsync_dir(self.folder)
                self.epochs.clear()
                self._save_checkpoint(log_start_offset=offset, recovery_point=offset, high_watermark=offset)
                self._segments = [Segment.create(segment_path(self.folder, offset), offset, self._pool)]
                self._syncer.truncated(offset, self._segments[-1])
            fsync_dir(self.folder)
        except (OSError, StorageError) as error:
            self._failure = (
                error if isinstance(error, StorageError) else storage_error(error, f"{self.folder} cannot start over")
            )
            self._restarts_at = offset if isinstance(self._failure, DiskFullError) else None
            raise self._failure from error
        self._syncer.durable_end_offset = offset
