"""A log that is rebuilt beside a damaged, compacted one (docs/adr/0017).

It begins with another replica's whole log, and ends with the records of the damaged log that the other one lacks. Each
log alone is compacted correctly. Parts of both may be joined only there: a tombstone is removed only when every
assigned replica has stored it, so no tombstone beyond the other replica's end was removed here.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from raftlog.config import TopicConfig
from raftlog.errors import DiskFullError
from raftlog.model import NO_LEADER_EPOCH, Offset
from raftlog.partition.core.repair import continuation
from raftlog.partition.storage.checkpoint import Checkpoint
from raftlog.partition.storage.data_dir import CUT_SUFFIX, CUTTING_SUFFIX, discard_rebuilt
from raftlog.partition.storage.epochs import EpochTable
from raftlog.partition.storage.files import fsync_dir, storage_error
from raftlog.partition.storage.log import PartitionLog
from raftlog.partition.storage.repair_source import (
    SegmentAt,
    find_batches,
    intact_batch,
    last_header_below,
    log_end,
    segment_at,
)
from raftlog.record.batch import iter_batches
from raftlog.record.compacted import begin_at, is_filler
from raftlog.wire.repair import Holding

_READ_BYTES = 1 << 20


class RebuiltLog:
    """Every method blocks, for a worker thread, and raises StorageError if a disk operation fails."""

    def __init__(self, folder: Path, config: TopicConfig) -> None:
        """Measure the damaged log.

        Raises:
            DamagedDataError: its checkpoint is damaged, too.
        """
        self.folder = folder
        self._config = config
        self._checkpoint = Checkpoint.load(folder)
        self._beside = folder.with_name(folder.name + CUTTING_SUFFIX)
        self._log: PartitionLog | None = None
        self._start: Offset = 0
        self._known_end: Offset = 0
        try:
            end = log_end(folder)
        except OSError as error:
            raise storage_error(error, f"cannot read {folder}") from error
        self.end = max(end.offset, self._checkpoint.recovery_point, self._checkpoint.high_watermark)
        """Where the damaged log ends, by every valid header: records below it were stored, and may be acknowledged."""
        self.is_end_certain = end.is_certain
        """False: damaged batches may follow at the end. Then the rebuilt log ends where the other replica's does."""

    @property
    def next_offset(self) -> Offset:
        """Where the next batch must begin."""
        assert self._log is not None
        return self._log.log_end_offset

    def begin(self, first: Offset, log_start: Offset, end: Offset) -> None:
        """Begin with an empty log; what an earlier attempt left is removed.

        Args:
            first: the base offset of the other replica's first batch.
            log_start: where its log starts, in that batch or later.
            end: of the rebuilt log; `self.end`, or later if that is not certain.
        """
        self.abandon()
        self._known_end, self.end = self.end, end
        self._log = PartitionLog.open(self._beside, self._config)
        self._log.reset_to(first)
        self._start = max(self._checkpoint.log_start_offset, log_start)

    def append(self, data: bytes) -> bool:
        """Append the other replica's next batches; return False if none of them fits."""
        assert self._log is not None
        accepted = continuation(data, offset=self._log.log_end_offset, leader_epoch=self._log.last_epoch, end=self.end)
        if accepted is None:
            return False
        self._log.append(accepted.data)
        self._log.fsync()  # A file that is not synced keeps its descriptor.
        return True

    def complete(self, high_watermark: Offset) -> bool:
        """Append the damaged log's last batches, and make the log complete, durably.

        Args:
            high_watermark: of the other replica.

        Returns:
            False: the logs are not known to be equal below the join, or batches beyond it are damaged here.
        """
        log = self._log
        assert log is not None
        if not self._is_known_equal(log, high_watermark):
            return False
        while log.log_end_offset < self.end:
            if not self.append(self._own_batches(log.log_end_offset)):
                return False
        log.close()
        self._log = None
        mark = min(max(self._checkpoint.high_watermark, self._start), self.end)
        start = min(self._start, self.end)
        Checkpoint(log_start_offset=start, recovery_point=self.end, high_watermark=mark).save(self._beside)
        try:
            fsync_dir(self._beside)
            os.rename(self._beside, self._beside.with_suffix(CUT_SUFFIX))
            fsync_dir(self.folder.parent)
        except OSError as error:
            raise storage_error(error, f"cannot complete {self._beside}") from error
        return True

    def has_own_batches(self, offset: Offset) -> bool:
        """Return whether every batch of the damaged log from an offset on is intact, and there is room for a copy."""
        sizes = sum(path.stat().st_size for path in self.folder.glob("*.log"))
        if (free := shutil.disk_usage(self.folder).free) < sizes:
            raise DiskFullError(f"{self.folder}: to rebuild it needs {sizes} free bytes, there are {free}")
        while offset < self.end:
            if not (data := self._own_batches(offset)):
                return False
            offset = max(header.next_offset for header, _ in iter_batches(data))
        return True

    def abandon(self) -> None:
        """Remove it, complete or not. Kept if no log is in the damaged one's place: the next start puts it there."""
        if self._log is not None:
            self._log.close()
            self._log = None
        if self.folder.exists():
            discard_rebuilt(self.folder)

    def _is_known_equal(self, log: PartitionLog, high_watermark: Offset) -> bool:
        """Return whether the damaged log had the same records below the join (Raft's log matching).

        Where the last headers below the join are damaged here, the one before them must agree. The other replica must
        also know the records of the damaged ones to be committed: this replica had those. After an unclean election
        that does not follow, so the damaged log's epoch table must not contradict.
        """
        try:
            own = last_header_below(self.folder, log.log_end_offset)
        except OSError as error:
            raise storage_error(error, f"cannot read {self.folder}") from error
        if own is None:
            return False
        if own.next_offset < log.log_end_offset:
            said = EpochTable(self.folder).epoch_at(log.log_end_offset - 1)
            contradicts = said not in (NO_LEADER_EPOCH, log.last_epoch)
            if contradicts or high_watermark < min(log.log_end_offset, self._known_end):
                return False
        at = min(own.next_offset, log.log_end_offset) - 1
        there = next((header for header, _ in log.scan() if header.base_offset <= at <= header.last_offset), None)
        return there is not None and there.leader_epoch == own.leader_epoch

    def _own_batches(self, offset: Offset) -> bytes:
        """Return intact batches of the damaged log from an offset on; empty if there is none."""
        try:
            holding, data = find_batches([self.folder], offset, NO_LEADER_EPOCH, _READ_BYTES)
            if holding is not Holding.OTHER:
                return data
            with segment_at(self.folder, offset) as file:
                return b"" if file is None else _rest_of_filler(file, offset)
        except OSError as error:
            raise storage_error(error, f"cannot read {self.folder}") from error


def _rest_of_filler(file: SegmentAt, offset: Offset) -> bytes:
    """Return the part of a filler from an offset inside it on; empty if another batch is there."""
    found = intact_batch(file, offset)
    return begin_at(found[1], offset) if found is not None and is_filler(found[1]) else b""
