"""The files of one partition's log: opening, syncing and checkpointing them.

Order of every durable step: write, flush, rename, sync the folder, acknowledge. Truncation and checkpointing exclude
each other: a checkpoint that a worker thread writes must not describe the log before a truncation.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from raftlog.config import TopicConfig
from raftlog.errors import CorruptBatchError, DamagedDataError, DiskFullError, StorageError
from raftlog.model import Offset
from raftlog.partition.storage.checkpoint import Checkpoint
from raftlog.partition.storage.epochs import EpochTable, require_epochs
from raftlog.partition.storage.file_pool import FilePool
from raftlog.partition.storage.files import (
    FailedSyncError,
    SyncError,
    fsync_dir,
    lacks_descriptor,
    list_names,
    make_dir,
    storage_error,
    unlink_quietly,
)
from raftlog.partition.storage.recovery import open_segments, segment_bases
from raftlog.partition.storage.retention import DelayedDeletes
from raftlog.partition.storage.segment import Segment, segment_path, unlink_indexes
from raftlog.partition.storage.sync import Syncer
from raftlog.partition.storage.sync_failures import fails_on_sync_error

_INSTANCES = itertools.count()
_log = logging.getLogger(__name__)
PRODUCERS_SUFFIX = ".producers"
KEPT_PRODUCERS_SUFFIX = ".kept-producers"
"""Snapshots of producer state, named by the offset below which they cover the log: see `producer_snapshots`."""
INDEX_EVERY_BYTES = 4 << 20
"""The active segment's index is written after this much growth, or once it has stopped growing."""


class LogClosedError(StorageError):
    """The log was closed on purpose; no disk failure."""


def is_of_the_disk(error: StorageError) -> bool:
    """Return whether an error means that a disk has failed: not a full one, nor damage or the end of one log."""
    return not isinstance(error, LogClosedError | DiskFullError | DamagedDataError)


class LogFiles:
    """Segments, leader epochs and checkpoint of a log; see `log_truncation` for truncation."""

    def __init__(self, folder: Path, config: TopicConfig, *, pool: FilePool, power_lost: bool) -> None:
        self.folder = folder
        self.config = config
        self._pool = pool
        self._failure: StorageError | None = None
        self._changing = threading.RLock()
        """Locked while files are truncated, removed or checkpointed."""
        self._cuts = 0
        """How often the log was truncated: work planned before a truncation is discarded."""
        self.instance = next(_INSTANCES)
        """Differs for every log that this process opens."""
        self.swaps = 0
        """How often compacted segments replaced others."""
        self._restarts_at: Offset | None = None
        self._checkpointed_end: Offset = -1
        self._checkpoint = Checkpoint.load(folder)
        self._checkpoint_lasts = True
        """Whether the checkpoint's rename is durable: the previous one cannot reappear after a power loss."""
        self.epochs = EpochTable(folder, counts=not self._checkpoint.restarts)
        if self._checkpoint.restarts:
            self._remove_all_files()
        recovered = open_segments(
            folder,
            log_start_offset=self.log_start_offset,
            recovery_point=self.recovery_point,
            pool=pool,
            power_lost=power_lost,
        )
        self._segments = recovered.segments
        self._begun = not recovered.new
        """Whether folder and files exist: they are created with the first record."""
        # Without a checkpoint, the log starts where its first segment does.
        start = max(self.log_start_offset, self._segments[0].base_offset)
        self._checkpoint = Checkpoint(
            log_start_offset=start,
            recovery_point=max(start, self.recovery_point),
            high_watermark=self.high_watermark_checkpoint,
            restarts=self._checkpoint.restarts,
        )
        self._doomed = DelayedDeletes()
        # A recovery point proves a sync; an earlier process may have exited before its first one.
        named = self.recovery_point > 0 and self._begun
        self._syncer = Syncer(folder, durable_end_offset=self.recovery_point, named=named)
        try:
            self._settle()
        except BaseException:
            # Also unsynced files, which the pool keeps open: the next attempt writes their bytes again.
            for segment in self._segments:
                segment.close()
            raise

    def _settle(self) -> None:
        """Bring the epochs and the files in line with the segments, and sync what is not known to be synced."""
        self.epochs.truncate_from(self.log_end_offset)
        self.epochs.truncate_before(self.log_start_offset)
        require_epochs(self.epochs, self._segments, self.log_start_offset)
        try:
            self._doomed.remove_all(self.folder)
        except OSError as error:
            raise storage_error(error, f"cannot remove old segments of {self.folder}") from error
        self._sync_unchecked()

    @property
    def log_start_offset(self) -> Offset:
        return self._checkpoint.log_start_offset

    @property
    def recovery_point(self) -> Offset:
        return self._checkpoint.recovery_point

    @property
    def high_watermark_checkpoint(self) -> Offset:
        return self._checkpoint.high_watermark

    @property
    def log_end_offset(self) -> Offset:
        return self._segments[-1].next_offset

    @property
    def durable_end_offset(self) -> Offset:
        """Everything below it survives a power loss."""
        return self._syncer.durable_end_offset

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self._segments)

    @property
    def segment_count(self) -> int:
        return len(self._segments)

    @property
    def failure(self) -> StorageError | None:
        """The error after which the log accepts no more changes; None while it is usable."""
        return self._failure

    @property
    def restarts_at(self) -> Offset | None:
        """Where a `reset_to` continues the log that a full disk interrupted; until it succeeds, nothing else may.

        The files are partly removed, so the log holds nothing, and its end proves nothing to a leader.
        """
        return self._restarts_at

    def fail(self, failure: StorageError) -> None:
        """Refuse all further changes; the first failure is kept."""
        self._failure = self._failure or failure

    def fsync(self) -> Offset:
        """Make everything appended so far durable; return the durable end. Safe in a worker thread.

        Raises:
            LogClosedError: the log is closed: its partition was deleted, or the broker stops.
            DiskFullError: no descriptor is free, so nothing was synced; it can be retried.
            StorageError: writes since the last fsync may be lost, so the log accepts no more appends.
        """
        self._require_sound()
        try:
            return self._syncer.sync(self._end_of_synced_epochs)
        except OSError as error:
            if isinstance(self._failure, LogClosedError):
                raise self._failure from None  # Closed between the check and the sync.
            if lacks_descriptor(error):
                raise storage_error(error, f"cannot sync {self.folder} yet") from error
            # A failed fsync drops dirty pages: a second one would succeed without having written them.
            raise self._fail(error, "cannot fsync") from error

    def _end_of_synced_epochs(self) -> Offset:
        """Return the log's end, once the epoch of every batch below it is durable in the epoch table."""
        end = self.log_end_offset
        self.epochs.sync()
        return end

    @property
    def index_due(self) -> bool:
        """Whether enough was appended, or appending has stopped, since the active segment's index was written."""
        grown = self._unindexed_bytes
        return grown != 0 and (grown >= INDEX_EVERY_BYTES or self.log_end_offset == self._checkpointed_end)

    @property
    def _unindexed_bytes(self) -> int:
        active = self._segments[-1]
        return active.size - max(active.indexed_size, 0)

    def plan_checkpoint(
        self, high_watermark: Offset, *, closing: bool = False, beside: Callable[[], None] | None = None
    ) -> Callable[[], None] | None:
        """Return a function that writes a checkpoint, so that the next start scans less; None if nothing is new.

        The function may run in a worker thread while appends go on; after a truncation it does nothing.

        Args:
            closing: nothing is appended any more: write everything.
            beside: writes other state of the log up to its present end.
        """
        active, cuts = self._segments[-1], self._cuts
        if not self._begun:
            return None
        index = active.copy_index() if self.index_due or (closing and self._unindexed_bytes != 0) else None
        marks = (self.durable_end_offset, high_watermark)
        self._checkpointed_end = self.log_end_offset
        behind = [full for full in self._segments[:-1] if full.indexed_size != full.size]
        for segment in self._segments:
            segment.release_if_idle()
        known = marks == (self.recovery_point, self.high_watermark_checkpoint) and (
            self._checkpoint_lasts or not closing
        )
        if index is None and not behind and known:
            return None

        def write() -> None:
            with self._changing:
                if self._failure is not None or self._cuts != cuts:
                    return
                # An older checkpoint is still valid: changes that must survive write a checkpoint of their own.
                point = self.durable_end_offset
                self._save_checkpoint(recovery_point=point, high_watermark=high_watermark, lasting=closing)
                if index is not None and active.indexed_size < index[0].size:  # A roll may have written a newer index.
                    active.write_index(*index)
                for full in behind:
                    if full in self._segments:  # Retention may have dropped it meanwhile.
                        full.save_index()
                if beside is not None:
                    beside()

        return write

    def checkpoint(self, high_watermark: Offset, *, closing: bool = False) -> None:
        """Write a checkpoint durably."""
        if (write := self.plan_checkpoint(high_watermark, closing=closing)) is not None:
            write()

    def close(self) -> None:
        """Close every file; nothing is flushed. Waits for an `fsync` under way."""
        with self._changing, self._syncer.paused():
            for segment in self._segments:
                segment.close()
            self._restarts_at = None
            self._failure = self._failure or LogClosedError(f"{self.folder} is closed")

    def _begin(self) -> None:
        """Create the folder and the first file, unless they exist. The first sync makes their names durable.

        Raises:
            StorageError: they cannot be created.
        """
        if self._begun:
            return
        if self._checkpoint.restarts:  # From here on, what the files say is about this log.
            self.epochs.clear()
            self._save_checkpoint(recovery_point=self.recovery_point, high_watermark=self.high_watermark_checkpoint)
        try:
            if not self.folder.parent.is_dir():
                make_dir(self.folder.parent)
            self.folder.mkdir(exist_ok=True)
            first = self._segments[0]
            self._segments = [Segment.create(first.path, first.base_offset, self._pool)]
        except OSError as error:
            raise storage_error(error, f"cannot begin the log in {self.folder}") from error
        self._begun = True

    def _sync_unchecked(self) -> None:
        """Rewrite and sync everything that the last process may have left unsynced.

        One of its syncs may have failed. The kernel then still shows the pages from its cache, and reports success for
        every later sync. Only rewritten pages are known to reach the disk.
        """
        unsynced = [segment for segment in self._segments if segment.next_offset > self.recovery_point]
        for segment in unsynced:
            try:
                segment.write_again(self.recovery_point)
            except CorruptBatchError as error:
                raise DamagedDataError(f"{segment.path} is damaged: {error.message}") from error
            except OSError as error:
                raise storage_error(error, f"{segment.path} cannot be written again") from error
            self._syncer.wrote(segment)
        if unsynced:
            self.epochs.write_again()
            self.fsync()

    def _remove_files(self, suffix: str, *, above: Offset = -1) -> None:
        for name in list_names(self.folder):
            if name.endswith(suffix) and (above < 0 or int(name.removesuffix(suffix)) > above):
                unlink_quietly(self.folder / name)

    def _remove_all_files(self) -> None:
        """Finish, durably, the removal of a log that was starting over when its process ended.

        Raises:
            StorageError: a disk operation failed.
        """
        try:
            for base in segment_bases(list_names(self.folder)):
                path = segment_path(self.folder, base)
                unlink_indexes(path)
                unlink_quietly(path)
            # Once the log has grown that far again, old snapshots would look valid.
            self._remove_files(PRODUCERS_SUFFIX)
            self._remove_files(KEPT_PRODUCERS_SUFFIX, above=self.log_start_offset)
            fsync_dir(self.folder)  # Before a later checkpoint lets segments count again.
        except OSError as error:
            raise storage_error(error, f"{self.folder} cannot start over") from error

    def _remove(self, segment: Segment, *, blocks_later: bool = False) -> None:
        """Remove the files of a segment.

        Args:
            blocks_later: the caller of `take_deleted` frees the blocks of its records, which takes long.
        """
        self._syncer.forget(segment)
        segment.close()
        unlink_indexes(segment.path)
        if blocks_later and segment.size:
            with suppress(FileNotFoundError):  # An earlier attempt has removed it.
                self._doomed.add(segment.path, 0)
        else:
            unlink_quietly(segment.path)

    @fails_on_sync_error
    def _save_checkpoint(
        self,
        *,
        recovery_point: Offset,
        high_watermark: Offset,
        log_start_offset: Offset | None = None,
        lasting: bool = True,
        restarts: bool = False,
    ) -> None:
        start = self.log_start_offset if log_start_offset is None else log_start_offset
        # Deleted segments need no sync any more.
        point = max(start, recovery_point)
        checkpoint = Checkpoint(
            log_start_offset=start, recovery_point=point, high_watermark=high_watermark, restarts=restarts
        )
        checkpoint.save(self.folder, lasting=lasting)
        self._checkpoint, self._checkpoint_lasts = checkpoint, lasting

    def _require_sound(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _fail(self, error: Exception, what: str) -> StorageError:
        """Mark the log as failed and return the error: the content of the files is unknown."""
        family = StorageError
        if isinstance(error, CorruptBatchError):
            family = DamagedDataError
        elif isinstance(error, SyncError | FailedSyncError):
            family = FailedSyncError
        reason = error.strerror if isinstance(error, OSError) else None
        self._failure = family(f"{self.folder}: {what}; the log takes no more appends: {reason or error}")
        return self._failure
