"""Periodic work on every replica, leader or follower: checkpoints and retention."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from raftlog.errors import RaftlogError, StorageError
from raftlog.partition.metrics import PartitionMetrics
from raftlog.partition.replica import Replica
from raftlog.partition.storage.files import FailedSyncError
from raftlog.runtime import Clock, in_slices

_log = logging.getLogger(__name__)


class LogMaintenance:
    """Writes checkpoints and applies retention for all replicas of a broker."""

    def __init__(
        self,
        *,
        replicas: Callable[[], Sequence[Replica]],
        clock: Clock,
        checkpoint_interval_ms: int,
        retention_check_interval_ms: int,
        metrics: PartitionMetrics,
    ) -> None:
        self._metrics = metrics
        self._replicas = replicas
        self._clock = clock
        self._checkpoint_interval_s = checkpoint_interval_ms / 1000
        self._retention_check_interval_s = retention_check_interval_ms / 1000

    async def checkpoint_regularly(self) -> None:
        """Write checkpoints until cancelled, in a worker thread, so that requests never wait for these syncs."""
        while True:
            await asyncio.sleep(self._checkpoint_interval_s)
            planned = [(replica, _plan_checkpoint(replica)) async for replica in in_slices(self._replicas(), 256)]
            due = [(replica, write) for replica, write in planned if write is not None]
            if due:
                for replica, failed in await asyncio.to_thread(_write_checkpoints, due):
                    replica.on_storage_failure(failed)
            async for replica in in_slices(self._replicas(), 256):
                replica.sync_soon()

    async def retain_regularly(self) -> None:
        """Delete segments beyond retention until cancelled."""
        while True:
            await asyncio.sleep(self._retention_check_interval_s)
            for replica in self._replicas():
                try:
                    self._retain(replica)
                except (RaftlogError, OSError) as error:
                    _log.warning("%s: %s", replica.assignment.topic_partition, error)
                    if isinstance(error, FailedSyncError):
                        replica.on_storage_failure(error)
                await asyncio.sleep(0)  # Each may sync a small file: let requests run in between.

    def _retain(self, replica: Replica) -> None:
        dropped = replica.log.apply_retention(self._clock.wall_us(), replica.high_watermark)
        if dropped:
            self._metrics.retained_segments += dropped
            replica.data_notifier.fire()  # Sends followers the new log start offset.
            _log.info("%s: retention dropped %d segments", replica.assignment.topic_partition, dropped)


def sync_and_checkpoint(replica: Replica) -> bool:
    """Sync a log and write its last checkpoint; return whether that succeeded. Blocks; for a worker thread."""
    try:
        replica.log.fsync()
        if (write := replica.plan_checkpoint(closing=True)) is not None:
            write()
    except StorageError as error:
        _log.error("%s: %s", replica.assignment.topic_partition, error.message)
        return False
    return True


def _plan_checkpoint(replica: Replica) -> Callable[[], None] | None:
    try:
        return replica.plan_checkpoint()
    except (RaftlogError, OSError) as error:
        _log.warning("%s: %s", replica.assignment.topic_partition, error)
        return None


def _write_checkpoints(due: Sequence[tuple[Replica, Callable[[], None]]]) -> list[tuple[Replica, FailedSyncError]]:
    """Write checkpoints; return the replicas whose sync failed."""
    failed = []
    for replica, write in due:
        try:
            write()
        except (RaftlogError, OSError) as error:
            _log.warning("%s: %s", replica.assignment.topic_partition, error)
            if isinstance(error, FailedSyncError):
                failed.append((replica, error))
    return failed
