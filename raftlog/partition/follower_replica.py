"""What a replica does as a follower: take what the leader sends, cut what it does not have, learn its marks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from raftlog.errors import CorruptBatchError, DamagedDataError, DiskFullError, StorageError
from raftlog.model import Offset, PartitionAssignment
from raftlog.partition.core.leader import UNKNOWN_OFFSET
from raftlog.partition.core.producers import ProducerStates
from raftlog.partition.readable_replica import OnDamage, ReadableReplica
from raftlog.partition.storage.cleaner import CleanerState
from raftlog.partition.storage.log import PartitionLog
from raftlog.partition.storage.log_files import LogClosedError
from raftlog.partition.storage.producer_snapshots import recover_producers
from raftlog.partition.waiters import Pulse
from raftlog.record import iter_batches, parse_header, parse_marker, verify_payload_crc
from raftlog.record.batch import Buffer
from raftlog.record.compacted import begin_at, is_filler
from raftlog.runtime import Clock

_log = logging.getLogger(__name__)


class FollowerReplica(ReadableReplica):
    """A replica that can follow.

    Args:
        on_disk_failure: called when a sync has failed, whatever its errno: nobody knows what is on disk.
    """

    def __init__(
        self,
        *,
        broker_id: int,
        assignment: PartitionAssignment,
        log: PartitionLog,
        producers: ProducerStates,
        clock: Clock,
        on_damage: OnDamage,
        on_disk_failure: Callable[[StorageError], None],
    ) -> None:
        super().__init__(broker_id=broker_id, assignment=assignment, log=log, producers=producers, on_damage=on_damage)
        self.visible_pulse = Pulse()
        """Fires when consumers may find more."""
        self.cleaned = CleanerState(log.folder, log.log_end_offset)
        self.replicated_offset: Offset = UNKNOWN_OFFSET
        """Every assigned replica holds all records below it, says the leader."""
        self._clock = clock
        self._on_disk_failure = on_disk_failure

    def append_fetched(self, batches: Buffer) -> None:
        """Append what the leader sent; it is held once a sync has followed.

        Raises:
            CorruptBatchError: it was damaged on the way, or does not continue the log; nothing was appended.
            StorageError: the disk refused.
        """
        headers = []
        batches = self._continuing(batches)
        for header, batch in iter_batches(batches):
            verify_payload_crc(header, batch)
            headers.append((header, parse_marker(header, batch) if header.is_control else None))
        start, now_ms = self.log.log_end_offset, self._clock.wall_us() // 1000
        try:
            with self._ending_on_a_bad_disk(), self.noticing_damage():
                self.log.append(batches)
        finally:
            # A disk that fills up in the middle leaves the first of them in the log.
            for header, marker in headers:
                if start <= header.base_offset < self.log.log_end_offset:
                    self.producers.on_appended(header, now_ms, marker=marker)

    def _continuing(self, batches: Buffer) -> Buffer:
        """Return batches that begin at the log's end. They come whole, and this log may end inside the first one.

        So it does below a filler, or where the leader's log start, at which this empty log begins, is inside a batch.
        """
        first, end = parse_header(batches), self.log.log_end_offset
        if first.base_offset < end <= first.last_offset and is_filler(first):
            return begin_at(first, end) + bytes(batches[first.batch_length :])
        if first.base_offset < end == self.log.log_start_offset:
            self.start_over_at(first.base_offset)
        return batches

    def truncate_to(self, offset: Offset) -> None:
        """Cut the log where it diverges from the leader's."""
        _log.info("%s: truncating from %d to %d", self.assignment.topic_partition, self.log.log_end_offset, offset)
        with self._ending_on_a_bad_disk(), self.noticing_damage():
            # First, and where the log will end: a batch goes as a whole, and other records come in its place.
            self.cleaned.truncated_to(self.log.end_if_cut_at(offset))
            self.log.truncate_to(offset)
            self._after_truncation()

    def start_over_at(self, offset: Offset) -> None:
        """Drop the log, which the leader no longer continues, and go on at `offset`."""
        _log.warning("%s: starting over at offset %d", self.assignment.topic_partition, offset)
        with self._ending_on_a_bad_disk():
            self.cleaned.truncated_to(0)
            self.log.reset_to(offset)
        self._after_truncation()

    def learn_marks(self, high_watermark: Offset, *, log_start_offset: Offset, replicated_offset: Offset) -> None:
        """Learn the leader's marks, as a follower; what the leader has deleted is deleted here too.

        Raises:
            StorageError: the disk refused.
        """
        known = min(high_watermark, self.log.log_end_offset)
        if known > self._follower_high_watermark:
            self._follower_high_watermark = known
            self.visible_pulse.fire()
        self.replicated_offset = replicated_offset
        self.delete_before(min(log_start_offset, self._follower_high_watermark), self._follower_high_watermark)

    def delete_before(self, offset: Offset, high_watermark: Offset) -> None:
        """Delete, durably, every record below `offset`; see `SegmentedLog.advance_log_start`."""
        with self._ending_on_a_bad_disk():
            self.log.advance_log_start(offset, high_watermark)

    @contextmanager
    def _ending_on_a_bad_disk(self) -> Iterator[None]:
        """Who can write nothing any more must not stay: others can lead. A full disk may have room again.

        Damage is another matter: it concerns this log alone, and the log is fetched anew.
        """
        try:
            yield
        except (DiskFullError, DamagedDataError, LogClosedError):
            raise
        except StorageError as error:
            if not isinstance(error.__cause__, CorruptBatchError):
                self.on_storage_failure(error)
            raise

    def on_storage_failure(self, error: StorageError) -> None:
        """Have this broker end: nobody knows what its disk holds."""
        _log.error("%s: %s", self.assignment.topic_partition, error.message)
        self._on_disk_failure(error)

    def _after_truncation(self) -> None:
        self.producers = recover_producers(self.log, limits=self.producers.limits, now_ms=self._clock.wall_us() // 1000)
        self._follower_high_watermark = min(self._follower_high_watermark, self.log.log_end_offset)
