"""Periodic work on every replica, leader or follower: checkpoints and retention."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from raftlog.errors import RaftlogError, StorageError
from raftlog.model import NO_LEADER
from raftlog.partition.metrics import PartitionMetrics
from raftlog.partition.replica import Replica
from raftlog.partition.storage.files import FailedSyncError
from raftlog.partition.storage.log_files import LogClosedError
from raftlog.partition.storage.producer_snapshots import remove_kept
from raftlog.partition.storage.reserve import data_folder_of, make_reserve, with_reserve
from raftlog.partition.storage.retention import MOST_DROPPED, remove_files
from raftlog.runtime import Clock, in_slices

_log = logging.getLogger(__name__)
REPLICAS_AT_ONCE = 256
"""Replicas whose checkpoints are planned in one turn of the event loop, if they have few producers."""
PRODUCERS_PER_REPLICA = 40
"""To copy the state of so many producers takes as long as to plan a checkpoint."""


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
            await self._write_due_checkpoints()
            async for replica in in_slices(self._replicas(), 256):
                replica.sync_soon()

    async def _write_due_checkpoints(self) -> None:
        """Write the checkpoints that are due, those of some replicas at a time.

        A replica copies the state of its producers for its checkpoint. So the copies of all would take long, and much
        memory until the last one is written.
        """
        for some in _in_groups(self._replicas()):
            planned = [(replica, _plan_checkpoint(replica)) for replica in some]
            due = [(replica, write) for replica, write in planned if write is not None]
            if due:
                for replica, failed in await asyncio.to_thread(_write_checkpoints, due):
                    replica.on_storage_failure(failed)
            await asyncio.sleep(0)

    async def retain_regularly(self) -> None:
        """Delete segments beyond retention until cancelled."""
        while True:
            await asyncio.to_thread(_make_reserves, [one.log.folder for one in self._replicas()])
            await asyncio.sleep(self._retention_check_interval_s)
            for replica in self._replicas():
                if replica.state.leader == NO_LEADER:
                    continue  # The replicas that may lead may need its batches for their repair.
                try:
                    await self._retain(replica)
                except Exception as error:  # noqa: BLE001  (too little memory, or a bug: other logs are not kept waiting)
                    _note(replica, error)
                    if isinstance(error, FailedSyncError):
                        replica.on_storage_failure(error)
                await asyncio.sleep(0)  # Each may sync a small file: let requests run in between.

    async def _retain(self, replica: Replica) -> None:
        total, dropped = 0, MOST_DROPPED
        while dropped == MOST_DROPPED:
            if files := replica.log.take_deleted(self._clock.wall_us()):
                await asyncio.to_thread(remove_files, files)  # To free the blocks of large files takes long.
            if isinstance(replica.log.failure, LogClosedError):
                return  # Another replica may own the folder by now.
            dropped = with_reserve(
                data_folder_of(replica.log.folder),
                lambda: replica.log.apply_retention(
                    self._clock.wall_us(), replica.high_watermark, before=replica.keep_producers
                ),
            )
            if dropped:  # At once: after a pause another replica may own the folder.
                remove_kept(replica.log.folder, replica.log.log_start_offset)
            total += dropped
            await asyncio.sleep(0)
        if total:
            self._metrics.retained_segments += total
            replica.data_notifier.fire()  # Sends followers the new log start offset.
            _log.info("%s: retention dropped %d segments", replica.assignment.topic_partition, total)


def _make_reserves(log_folders: Iterable[Path]) -> None:
    """Make the reserves of the data folders of some logs. For a worker thread: a broker may have thousands of logs."""
    for folder in {data_folder_of(log_folder) for log_folder in log_folders}:
        if folder.is_dir():
            make_reserve(folder)


def _in_groups(replicas: Iterable[Replica]) -> Iterator[list[Replica]]:
    """Group replicas so that the checkpoints of each group are planned in a few milliseconds."""
    group, work = list[Replica](), 0
    for replica in replicas:
        group.append(replica)
        work += 1 + len(replica.producers) // PRODUCERS_PER_REPLICA
        if work >= REPLICAS_AT_ONCE:
            yield group
            group, work = [], 0
    if group:
        yield group


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
    if replica.log.failure is not None:
        return None  # It may have been closed while the checkpoints of others were written.
    try:
        return replica.plan_checkpoint()
    except Exception as error:  # noqa: BLE001  (as above)
        _note(replica, error)
        return None


def _note(replica: Replica, error: Exception) -> None:
    said = error if isinstance(error, RaftlogError | OSError) else repr(error)
    _log.warning("%s: %s", replica.assignment.topic_partition, said, exc_info=said is not error)


def _write_checkpoints(due: Sequence[tuple[Replica, Callable[[], None]]]) -> list[tuple[Replica, FailedSyncError]]:
    """Write checkpoints; return the replicas whose sync failed."""
    failed = []
    for replica, write in due:
        try:
            write()
        except Exception as error:  # noqa: BLE001  (as above)
            _note(replica, error)
            if isinstance(error, FailedSyncError):
                failed.append((replica, error))
    return failed
