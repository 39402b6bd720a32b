"""The broker's cleaner: compacts one log at a time, the dirtiest first, in a worker thread at a limited rate.

Leaders and followers clean their own files independently. All replicas return the same records at the same offsets.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from heapq import nlargest

from raftlog.errors import CorruptBatchError, DamagedDataError, DiskFullError, RaftlogError, StorageError
from raftlog.model import Offset, TopicIdPartition
from raftlog.partition.core.ages import are_apart
from raftlog.partition.core.compaction import CleaningRules, LogToClean, cleanable_end, has_waited_too_long, measure
from raftlog.partition.metrics import PartitionMetrics
from raftlog.partition.replica import Replica
from raftlog.partition.storage.cleaner import CleaningPass, Moved, Rewritten
from raftlog.partition.storage.files import FailedSyncError
from raftlog.partition.storage.log_files import LogClosedError
from raftlog.record.control import AbortedBatches
from raftlog.runtime import Clock, in_slices

_log = logging.getLogger(__name__)
LOGS_PER_LOOK = 64
"""The most logs that are compacted before all are measured again: to measure thousands takes long."""
_REST_BACKOFFS = 10
"""A log whose compaction failed is skipped for this many back-offs, so that others are not delayed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerSettings:
    """The broker's settings; see `BrokerConfig`."""

    enable: bool = True
    backoff_ms: int = 15_000
    io_max_bytes_per_second: int = -1
    dedupe_buffer_bytes: int = 128 << 20


class LogCleaner:
    """Compacts the logs of one broker until cancelled."""

    def __init__(
        self,
        settings: CleanerSettings,
        *,
        replicas: Callable[[], Iterable[Replica]],
        clock: Clock,
        metrics: PartitionMetrics | None = None,
    ) -> None:
        self._metrics = metrics or PartitionMetrics()
        self._settings = settings
        self._replicas = replicas
        self._clock = clock
        self._retry_at_ms: dict[TopicIdPartition, int] = {}
        self._free_at = 0.0

    async def run(self) -> None:
        """Clean until cancelled; sleep for one back-off when no log needs it."""
        while True:
            if not await self.clean_dirtiest(LOGS_PER_LOOK):
                await asyncio.sleep(self._settings.backoff_ms / 1000)

    async def clean_dirtiest(self, most: int = 1) -> bool:
        """Compact the dirtiest logs; return False if no log needs it, or compaction failed.

        Args:
            most: how many logs are compacted at most.
        """
        cleaned = False
        for replica in await self._dirtiest(most):
            try:
                if (end := self._cleanable(replica)) is not None:
                    cleaned = await self._clean(replica, end) or cleaned
            except Exception as error:  # noqa: BLE001  (too little memory, or a bug: the cleaner must go on)
                self._give_up(replica, error)
                return False
        return cleaned

    def _give_up(self, replica: Replica, error: Exception) -> None:
        """Skip a log for a while; report a disk failure if it has failed. Unfinished files are discarded."""
        if isinstance(replica.log.failure, LogClosedError):
            return  # Another replica may own its files by now, or they were deleted.
        if isinstance(error, CorruptBatchError | DamagedDataError):
            replica.note_damage(replica.log.log_start_offset, error.message)
        said = error if isinstance(error, RaftlogError | OSError) else repr(error)
        _log.warning("%s cannot be compacted: %s", replica.assignment.topic_partition, said, exc_info=said is not error)
        rest_ms = _REST_BACKOFFS * self._settings.backoff_ms
        self._retry_at_ms[replica.assignment.key] = self._clock.monotonic_ms() + rest_ms
        failed = replica.log.failure is not None or isinstance(error, FailedSyncError)
        if failed and isinstance(error, StorageError):
            replica.on_storage_failure(error)

    async def _dirtiest(self, most: int) -> list[Replica]:
        """Return the replicas whose logs need compaction, the dirtiest first, at most `most`."""
        now_ms = self._clock.monotonic_ms()
        self._retry_at_ms = {key: until for key, until in self._retry_at_ms.items() if until > now_ms}
        found = list[tuple[float, Replica]]()
        async for replica in in_slices(self._replicas()):
            if not replica.config.compacts or replica.log.failure or replica.assignment.key in self._retry_at_ms:
                continue
            try:
                dirt, _ = self._measure(replica)
            except (RaftlogError, OSError) as error:
                self._give_up(replica, error)  # Rolling a segment fails when the disk is full.
                continue
            if dirt.should_compact(replica.config):
                found.append((dirt.ratio, replica))
        return [replica for _, replica in nlargest(most, found, key=lambda each: each[0])]

    def _cleanable(self, replica: Replica) -> Offset | None:
        """Return the end of the part to compact; None if the log has changed, and needs no compaction any more."""
        if not replica.config.compacts or replica.log.failure:
            return None
        dirt, end = self._measure(replica)
        return end if dirt.should_compact(replica.config) else None

    def _measure(self, replica: Replica) -> tuple[LogToClean, Offset]:
        log, now_us = replica.log, self._clock.wall_us()
        if log.log_end_offset <= replica.last_stable_offset and has_waited_too_long(
            log.segments[-1], now_us, log.config
        ):
            log.roll()
        limit = min(replica.last_stable_offset, log.durable_end_offset)
        end = cleanable_end(log.segments, limit, now_us, log.config)
        dirt = measure(log.segments, replica.cleaned.cleaned_below, end, now_us, log.config)
        if dirt.overdue or not self._tombstones_are_due(replica):
            return dirt, end
        return LogToClean(dirt.clean_bytes, dirt.dirty_bytes, overdue=True), end

    def _tombstones_are_due(self, replica: Replica) -> bool:
        cleaned = replica.cleaned
        if not cleaned.oldest_tombstone_s or _replicated_offset(replica) < cleaned.cleaned_below:
            return False
        due_ms = cleaned.oldest_tombstone_s * 1000 + replica.config.delete_retention_ms
        return due_ms <= _now_s(self._clock) * 1000

    async def _clean(self, replica: Replica, end: Offset) -> bool:
        log, cleaned_below = replica.log, replica.cleaned.cleaned_below
        cuts = log.cuts
        segments = [segment for segment in log.segments[:-1] if log.log_start_offset < segment.next_offset <= end]
        if not segments:
            return False
        rules = CleaningRules(
            now_s=_now_s(self._clock),
            delete_retention_ms=replica.config.delete_retention_ms,
            replicated_below=_replicated_offset(replica),
            producer_batches=replica.producers.remembered_offsets(),
            aborted=AbortedBatches(log.aborted_transactions(segments[0].base_offset, end)),
        )
        work = CleaningPass(
            log.folder,
            segments,
            cleaned_below=cleaned_below,
            rules=rules,
            segment_bytes=replica.config.segment_bytes,
            dedupe_buffer_bytes=self._settings.dedupe_buffer_bytes,
            is_apart=partial(are_apart, config=replica.config),
        )
        before = sum(segment.size for segment in segments)
        steps = work.steps()
        while (step := await asyncio.to_thread(next, steps, None)) is not None:
            if isinstance(step, Moved):
                await self._throttle(step.count)
            elif not self._take(replica, step, cuts):
                return False
        if log.cuts != cuts or log.failure is not None:
            return False  # The log was truncated meanwhile.
        replica.cleaned.finished(work.last.end_offset, work.oldest_tombstone_s)
        after = sum(s.size for s in log.segments if s.next_offset <= segments[-1].next_offset)
        self._metrics.compactions += 1
        self._metrics.compaction_read += before
        self._metrics.compaction_removed += max(0, before - after)
        _log.info("%s: compacted %d bytes to %d", replica.assignment.topic_partition, before, after)
        return True

    @staticmethod
    def _take(replica: Replica, step: Rewritten, cuts: int) -> bool:
        """Replace segments by a compacted file, unless the log was truncated, trimmed or closed meanwhile."""
        try:
            is_in_place = replica.log.swap(step.replaced, step.fresh, cuts=cuts)
        except DiskFullError:  # At the checkpoint before it. After any other error, the file may be in place.
            step.discard()
            raise
        if not is_in_place:
            step.discard()
        return is_in_place

    async def _throttle(self, count: int) -> None:
        rate = self._settings.io_max_bytes_per_second
        if rate > 0:
            now = asyncio.get_running_loop().time()
            self._free_at = max(now, self._free_at) + count / rate
            await asyncio.sleep(self._free_at - now)


def _replicated_offset(replica: Replica) -> Offset:
    return replica.core.replicated_offset if replica.core is not None else replica.replicated_offset


def _now_s(clock: Clock) -> int:
    return clock.wall_us() // 1_000_000
