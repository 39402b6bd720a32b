"""Opens the logs of a broker's replicas, and quarantines damaged ones."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from pathlib import Path

from raftlog.config import TopicConfig
from raftlog.errors import DiskFullError, StorageError
from raftlog.model import PartitionAssignment, TopicIdPartition
from raftlog.partition.core.producers import ProducerLimits, ProducerStates
from raftlog.partition.storage.data_dir import lacks_rebuilt, put_rebuilt
from raftlog.partition.storage.file_pool import FilePool
from raftlog.partition.storage.files import atomic_write, storage_error, unlink_quietly
from raftlog.partition.storage.log import PartitionLog
from raftlog.partition.storage.log_dirs import NodeFolders
from raftlog.partition.storage.producer_snapshots import recover_producers
from raftlog.runtime import Clock

_log = logging.getLogger(__name__)
POWER_LOST_FILE = "power-lost"
"""In the folder of a damaged log that was not opened since a power loss: its next start still knows of it."""


class LogOpener:
    """The logs in one broker's data folder.

    Args:
        max_open_segments: how many segment files may be open at once.
    """

    def __init__(
        self, folders: NodeFolders, *, max_open_segments: int, producer_limits: ProducerLimits, clock: Clock
    ) -> None:
        self._folders = folders
        self._files = FilePool(max_open_segments)
        self._producer_limits = producer_limits
        self._clock = clock
        self._power_lost: dict[TopicIdPartition, Path] = {}
        """Damaged logs not yet opened since a power loss, and their folders: their tails may be torn in any way."""

    @property
    def open_files(self) -> int:
        """How many segment files are open."""
        return self._files.open_files

    def folder_of(self, assignment: PartitionAssignment) -> Path:
        """Return the folder of a partition's log."""
        return self._folders.partition_folder(assignment.topic, assignment.partition, assignment.topic_id)

    async def open(
        self, key: TopicIdPartition, folder: Path, config: TopicConfig
    ) -> tuple[PartitionLog, ProducerStates]:
        """Open a log, or make an empty one.

        Raises:
            DamagedDataError: the log has lost records.
            StorageError: the disk refused.
        """
        return await asyncio.to_thread(self._open, key, folder, config)

    def _open(self, key: TopicIdPartition, folder: Path, config: TopicConfig) -> tuple[PartitionLog, ProducerStates]:
        try:
            is_lacking, marker = lacks_rebuilt(folder), folder / POWER_LOST_FILE
            power_lost = self._folders.power_lost or key in self._power_lost or marker.exists()
        except OSError as error:
            raise storage_error(error, f"cannot look for {folder}") from error
        if is_lacking:
            # An empty log must not be opened here: this replica may lead.
            raise StorageError(f"{folder}: the log that was rebuilt for it is not in place; restart the broker")
        log = PartitionLog.open(folder, config, pool=self._files, power_lost=power_lost)
        try:
            now_ms = self._clock.wall_us() // 1000
            producers = recover_producers(log, limits=self._producer_limits, now_ms=now_ms)
            if power_lost:
                _forget_power_loss(marker)
            return log, producers
        except BaseException:
            log.close()
            raise

    def opened(self, key: TopicIdPartition) -> None:
        """Note that a replica uses its log: a later tail is not torn by an earlier power loss."""
        self._power_lost.pop(key, None)

    def refused(self, key: TopicIdPartition, folder: Path) -> None:
        """Note that a log is damaged: it is opened again after its repair, as after a power loss if there was one."""
        if self._folders.power_lost:
            self._power_lost[key] = folder

    async def settle_power_loss(self) -> None:
        """Record durably that every log but the damaged ones was opened since a power loss; later, on a full disk.

        Raises:
            StorageError: the disk refused.
        """
        await asyncio.to_thread(self._settle_power_loss, list(self._power_lost.values()))

    def _settle_power_loss(self, damaged: Iterable[Path]) -> None:
        if not self._folders.power_lost:
            return
        try:
            for folder in damaged:
                if folder.is_dir():
                    atomic_write(folder / POWER_LOST_FILE, b"")
        except DiskFullError as error:
            _log.warning("%s; every log stays one that may have lost writes", error)
            return
        self._folders.settle_power_loss()

    async def put_rebuilt(self, assignment: PartitionAssignment) -> None:
        """Put the log that was rebuilt for a damaged one in its place.

        Raises:
            StorageError: the disk refused.
        """
        aside = await asyncio.to_thread(put_rebuilt, self.folder_of(assignment))
        _log.error(
            "%s was rebuilt from another replica's log and its own last records; its damaged log is kept at %s",
            assignment.topic_partition,
            aside,
        )

    async def quarantine(self, assignment: PartitionAssignment, reason: str) -> None:
        """Move a damaged log aside.

        Raises:
            StorageError: the disk refused.
        """
        aside = await asyncio.to_thread(self._folders.quarantine, self.folder_of(assignment))
        _log.error(
            "%s is fetched again from broker %d; its damaged log is kept at %s: %s",
            assignment.topic_partition,
            assignment.state.leader,
            aside,
            reason,
        )


def _forget_power_loss(marker: Path) -> None:
    try:
        unlink_quietly(marker)
    except OSError as error:
        raise storage_error(error, f"cannot remove {marker}") from error
