"""The follower's side of a replica: append fetched batches, truncate diverging ones, follow the high watermark."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from raftlog.errors import DamagedDataError, DiskFullError, StorageError
from raftlog.model import Offset, PartitionAssignment
from raftlog.partition.core.leader import UNKNOWN_OFFSET
from raftlog.partition.core.producers import ProducerStates
from raftlog.partition.environment import ReplicaEnvironment
from raftlog.partition.readable_replica import ReadableReplica
from raftlog.partition.sent_producers import received_producers
from raftlog.partition.storage.cleaner import CleanerState
from raftlog.partition.storage.log import PartitionLog
from raftlog.partition.storage.log_files import LogClosedError, is_of_the_disk
from raftlog.partition.storage.producer_snapshots import plan_kept, recover_producers, remove_kept
from raftlog.partition.storage.reserve import data_folder_of, with_reserve
from raftlog.partition.storage.retention import remove_files
from raftlog.partition.waiters import Notifier
from raftlog.record import iter_batches, parse_header, parse_marker, verify_payload_crc
from raftlog.record.batch import BatchHeader, Buffer
from raftlog.record.compacted import begin_at, is_filler

_log = logging.getLogger(__name__)


class FollowerReplica(ReadableReplica):
    """A replica that can follow; `Replica` adds leading."""

    def __init__(
        self,
        *,
        assignment: PartitionAssignment,
        log: PartitionLog,
        producers: ProducerStates,
        environment: ReplicaEnvironment,
    ) -> None:
        super().__init__(assignment=assignment, log=log, producers=producers, environment=environment)
        self.visible_notifier = Notifier()
        """Fires when consumers may read more."""
        self.cleaned = CleanerState(log.folder, log.log_end_offset)
        self.replicated_offset: Offset = UNKNOWN_OFFSET
        """Every assigned replica has persisted all records below it, as the leader reported."""
        self._clock = environment.clock
        self._tasks = environment.tasks
        self._keeping = threading.Lock()
        """Locked while a file of kept producers is written: two deletions to one offset write the same."""

    def append_fetched(self, batches: Buffer) -> None:
        """Append batches that the leader sent; they count as persisted after the next sync.

        Raises:
            CorruptBatchError: a batch was damaged in transit, or does not continue the log; nothing was appended.
            StorageError: the disk refused.
        """
        found = list(iter_batches(batches))
        first = found[0][0] if found else parse_header(batches)
        if first.base_offset < self.log.log_end_offset:
            batches = self._continuing(batches, first)
            found = list(iter_batches(batches))
        for header, batch in found:
            verify_payload_crc(header, batch)
        markers = [parse_marker(header, batch) if header.is_control else None for header, batch in found]
        headers = [header for header, _ in found]
        start, now_ms = self.log.log_end_offset, self._clock.wall_us() // 1000
        try:
            self._append_to_log(batches, headers)
        finally:
            # When the disk becomes full in the middle, the first batches stay in the log.
            for header, marker in zip(headers, markers, strict=True):
                if start <= header.base_offset < self.log.log_end_offset:
                    self.producers.on_appended(header, now_ms, marker=marker)

    def _continuing(self, batches: Buffer, first: BatchHeader) -> Buffer:
        """Return batches that begin at the log end offset. The leader sends whole ones; this log may end inside one.

        Two cases: the batch is a filler, or this log is empty and starts at the leader's log start offset.
        """
        end = self.log.log_end_offset
        if first.base_offset < end <= first.last_offset and is_filler(first):
            return begin_at(first, end) + bytes(batches[first.batch_length :])
        if first.base_offset < end == self.log.log_start_offset:
            self.start_over_at(first.base_offset, self.producers)
        return batches

    def truncate_to(self, offset: Offset) -> None:
        """Truncate the log where it diverges from the leader's."""
        _log.info("%s: truncating from %d to %d", self.assignment.topic_partition, self.log.log_end_offset, offset)
        with self._failing_on_disk_errors(), self.recording_damage():
            # Before the truncation, and with the final end: a whole batch is removed, and other records may replace it.
            end = self.log.end_if_cut_at(offset)
            producers = self._recovered(end) if end > self.log.log_start_offset else None
            self.cleaned.truncated_to(end)
            self.log.truncate_to(offset)
            self._limit_high_watermark()
            self.producers = self._recovered() if producers is None else producers

    def start_over_at(self, offset: Offset, producers: ProducerStates | None = None) -> None:
        """Remove all records and continue at `offset`: the leader's log no longer overlaps with this one.

        Args:
            producers: what is known of batches below `offset`.

        Raises:
            StorageError: the disk refused.
        """
        _log.warning("%s: starting over at offset %d", self.assignment.topic_partition, offset)
        with self._failing_on_disk_errors():
            self.cleaned.truncated_to(0)
            try:
                self.log.reset_to(offset, before=None if producers is None else self._keeper(offset, producers))
            finally:
                self._free_blocks()
        self._limit_high_watermark()
        if producers is not None:
            self.producers = producers
            return
        now_ms = self._clock.wall_us() // 1000
        self.producers = ProducerStates(limits=self.producers.limits, now_ms=now_ms)
        with suppress(StorageError):  # What was kept for this very log start still holds.
            self.producers = recover_producers(self.log, limits=self.producers.limits, now_ms=now_ms)

    def _free_blocks(self) -> None:
        """Remove the files of deleted records in a worker thread: to free the blocks of large ones takes long."""
        if not self._tasks.closed and (files := self.log.take_deleted(self._clock.wall_us())):
            name = f"remove files of {self.log.folder.name}"
            self._tasks.spawn(asyncio.to_thread(remove_files, files), name=name)

    def start_over_as_told(self, log_start: Offset, sent: Buffer) -> None:
        """Start over where the leader's log starts, with the producers that it sent; empty if it sent none.

        Raises:
            CorruptBatchError: they were damaged in transit, or no leader sends them; nothing was changed.
            StorageError: the disk refused.
        """
        now_ms = self._clock.wall_us() // 1000
        self.start_over_at(log_start, received_producers(sent, log_start, limits=self.producers.limits, now_ms=now_ms))

    def finish_starting_over(self) -> None:
        """Finish what a full disk interrupted; see `start_over_at`.

        Raises:
            StorageError: the disk refused.
        """
        if self.log.restarts_at is not None:
            self.start_over_at(self.log.restarts_at)

    def update_marks(self, high_watermark: Offset, *, log_start_offset: Offset, replicated_offset: Offset) -> None:
        """Take over the leader's high watermark and log start offset; records that the leader deleted are deleted here.

        The high watermark counts as far as this replica has persisted the log. It may lead next, also by an unclean
        election, and must then have what it calls committed.

        Raises:
            StorageError: the disk refused.
        """
        known = min(high_watermark, self.persisted_end_offset)
        if known > self._follower_high_watermark:
            self._follower_high_watermark = known
            self.visible_notifier.fire()
        self.replicated_offset = replicated_offset
        self.delete_before(min(log_start_offset, self._follower_high_watermark), self._follower_high_watermark)

    def delete_before(self, offset: Offset, high_watermark: Offset, *, are_producers_kept: bool = False) -> None:
        """Delete, durably, every record below `offset`; see `SegmentedLog.advance_log_start`.

        Args:
            are_producers_kept: `keep_producers_in_thread` has saved their state for this offset.
        """
        if offset <= self.log.log_start_offset:
            return
        with self._failing_on_disk_errors():
            if not are_producers_kept:
                self.keep_producers(offset)
            with_reserve(data_folder_of(self.log.folder), lambda: self.log.advance_log_start(offset, high_watermark))
            remove_kept(self.log.folder, offset)

    def keep_producers(self, log_start: Offset) -> None:
        """Save durably what batches say of producers that are about to be deleted.

        Raises:
            LogClosedError: the log is closed: its folder may be gone.
            StorageError: the disk refused.
        """
        if isinstance(self.log.failure, LogClosedError):
            raise self.log.failure
        self._plan_kept(log_start)()

    async def keep_producers_in_thread(self, log_start: Offset) -> None:
        """As `keep_producers`, in a worker thread."""
        with self._failing_on_disk_errors():
            try:
                await asyncio.to_thread(self._plan_kept(log_start))
            except StorageError:
                if isinstance(self.log.failure, LogClosedError):
                    raise self.log.failure from None  # Its partition was deleted meanwhile: no disk has failed.
                raise

    def _plan_kept(self, log_start: Offset) -> Callable[[], None]:
        write = self._keeper(log_start, self.producers)
        return lambda: with_reserve(data_folder_of(self.log.folder), write)

    def _keeper(self, log_start: Offset, producers: ProducerStates) -> Callable[[], None]:
        write = plan_kept(self.log.folder, log_start, producers, self._clock.wall_us() // 1000)

        def alone() -> None:
            with self._keeping:
                write()

        return alone

    def _append_to_log(self, batches: Buffer, headers: Sequence[BatchHeader]) -> None:
        """Append; report a failed disk, and damage. Only a failure enters the contexts, which are generators."""
        try:
            self.log.append(batches, headers)
        except StorageError:
            with self._failing_on_disk_errors(), self.recording_damage():
                raise

    @contextmanager
    def _failing_on_disk_errors(self) -> Iterator[None]:
        """Report a disk failure when a write fails."""
        try:
            yield
        except StorageError as error:
            if is_of_the_disk(error):
                self.on_storage_failure(error)
            raise

    def on_storage_failure(self, error: StorageError) -> None:
        """Report that a sync or write failed: the content of the disk is unknown, so the broker shuts down.

        A full disk does not end the broker: space may be freed. Nor does damage: it concerns this log only.
        """
        _log.error("%s: %s", self.assignment.topic_partition, error.message)
        if is_of_the_disk(error):
            self._observer.on_disk_failure(error)

    def _limit_high_watermark(self) -> None:
        self._follower_high_watermark = min(self._follower_high_watermark, self.log.log_end_offset)

    def _recovered(self, end: Offset | None = None) -> ProducerStates:
        """Return the states of the producers once the log is cut at `end`; None: it is cut.

        They are read before the cut if records stay, since that may take a descriptor for each file.

        Raises:
            DiskFullError: no descriptor is free; nothing was cut, and it can be retried.
            DamagedDataError: they are unknown, so the replica is fetched again.
        """
        now_ms = self._clock.wall_us() // 1000
        try:
            return recover_producers(self.log, limits=self.producers.limits, now_ms=now_ms, end=end)
        except StorageError as error:
            if isinstance(error, DiskFullError) and end is not None:
                raise
            # By the states of before, this replica would acknowledge repeats of removed batches.
            unknown = DamagedDataError(f"the producers of {self.log.folder} are unknown: {error.message}")
            self.log.fail(unknown)
            raise unknown from error
