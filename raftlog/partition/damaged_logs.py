"""Damaged logs of a broker, open or not, as their repair sees them (`repair.py`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from raftlog.config import TopicConfig
from raftlog.errors import DamagedDataError, StorageError
from raftlog.model import BrokerId, LeaderEpoch, Offset, PartitionAssignment, TopicIdPartition
from raftlog.partition.core.damage import is_relied_upon, may_refetch
from raftlog.partition.damage import DamageTracker
from raftlog.partition.rebuild import Ask, rebuild
from raftlog.partition.replica import Replica
from raftlog.partition.storage.files import FailedSyncError
from raftlog.partition.storage.log_files import is_of_the_disk
from raftlog.partition.storage.log_start import drop_deleted, move_log_start
from raftlog.partition.storage.rebuilt_log import RebuiltLog
from raftlog.partition.storage.repair import ClosedLog, OpenLog

Failed = tuple[PartitionAssignment, StorageError]


class Reopen(Protocol):
    """Open a log that could not be opened before; see `ReplicaManager`."""

    async def __call__(self, key: TopicIdPartition, *, unrepairable: bool = False, rebuilt: bool = False) -> bool: ...


class DamagedOpenLog:
    """The damaged log of an open replica, which stays in use meanwhile.

    Args:
        find: returns the open replica of a partition.
        on_disk_failure: called when the whole disk turns out to have failed.
    """

    is_open = True

    def __init__(
        self,
        key: TopicIdPartition,
        replica: Replica,
        *,
        find: Callable[[TopicIdPartition], Replica | None],
        keeper: DamageTracker,
        on_disk_failure: Callable[[StorageError], None],
    ) -> None:
        self.key = key
        self.folder = replica.log.folder
        self._replica = replica
        self._find = find
        self._keeper = keeper
        self._on_disk_failure = on_disk_failure
        self._tried = list[Offset]()
        """The damaged places that the current attempt began with."""

    @property
    def assignment(self) -> PartitionAssignment | None:
        return self._replica.assignment if self._find(self.key) is self._replica else None

    def begin(self) -> OpenLog:
        replica = self._replica
        if replica.log.failure is not None:
            raise replica.log.failure
        self._tried = list(replica.suspects)
        return OpenLog(replica.log, tuple(self._tried), compacts=replica.config.compacts)

    async def finished(self) -> bool:
        if self._replica.repaired(self._tried):
            self._keeper.repaired(self.key)
            self._replica.data_notifier.fire()
            self._replica.visible_notifier.fire()
        return True

    async def unrepairable(self) -> bool:
        self._keeper.mark_unrepairable(self.key)
        failure = self._replica.log.failure
        if failure is not None and is_of_the_disk(failure):
            self._on_disk_failure(failure)
        return False

    def on_attempt_done(self, lost: tuple[Offset, ...]) -> None:
        self._replica.note_repair_attempt(self._tried, lost=bool(lost))

    def drop_deleted(self, damaged: Offset) -> bool:  # noqa: ARG002
        return False

    def move_start(self, start: Offset, epoch: LeaderEpoch) -> bool:  # noqa: ARG002
        return False

    async def rebuild(self, ask: Ask, ask_others: Sequence[Ask]) -> bool:  # noqa: ARG002
        """Do nothing: it leads, or follows a leader. Once another replica may lead, it resigns leadership."""
        return False


class DamagedClosedLog:
    """A log that could not be opened.

    Args:
        config: of the topic.
        broker_id: this broker.
        closed: returns assignment and error of a replica that could not be opened.
        on_disk_failure: called when the whole disk turns out to have failed.
    """

    is_open = False

    def __init__(
        self,
        key: TopicIdPartition,
        folder: Path,
        config: TopicConfig,
        *,
        broker_id: BrokerId,
        closed: Callable[[TopicIdPartition], Failed | None],
        reopen: Reopen,
        on_disk_failure: Callable[[StorageError], None],
    ) -> None:
        self.key = key
        self.folder = folder
        self._on_disk_failure = on_disk_failure
        self._config = config
        self._broker_id = broker_id
        self._closed = closed
        self._reopen = reopen

    @property
    def assignment(self) -> PartitionAssignment | None:
        failed = self._closed(self.key)
        return failed[0] if failed is not None else None

    def begin(self) -> ClosedLog:
        failed = self._closed(self.key)
        at = failed[1].details.get("damaged_at") if failed is not None else None
        return ClosedLog(self.folder, at if isinstance(at, int) else None, compacts=self._config.compacts)

    async def finished(self) -> bool:
        return await self._reopen(self.key)

    async def unrepairable(self) -> bool:
        failed = self._closed(self.key)
        if failed is None or not isinstance(failed[1], DamagedDataError):
            return True
        if not may_refetch(failed[0].state, self._broker_id):
            return False
        return await self._reopen(self.key, unrepairable=True)

    def on_attempt_done(self, lost: tuple[Offset, ...]) -> None:
        """Do nothing: the batches that no replica has are listed by the repair itself."""

    def drop_deleted(self, damaged: Offset) -> bool:
        return drop_deleted(self.folder, damaged)

    def move_start(self, start: Offset, epoch: LeaderEpoch) -> bool:
        return move_log_start(self.folder, start, epoch)

    async def rebuild(self, ask: Ask, ask_others: Sequence[Ask]) -> bool:
        assignment = self.assignment
        if assignment is None:
            return True
        if not is_relied_upon(assignment.state, self._broker_id):
            return False  # It is fetched again, once another replica leads.
        log, is_complete = await asyncio.to_thread(RebuiltLog, self.folder, self._config), False
        try:
            is_complete = await rebuild(log, ask, ask_others)
        except FailedSyncError as error:
            self._on_disk_failure(error)
            raise
        finally:
            if not is_complete:
                await asyncio.to_thread(log.abandon)
        if not is_complete:
            return False
        is_open = await self._reopen(self.key, rebuilt=True)
        # Not if this is cancelled: the thread that puts the log in place may be running.
        await asyncio.to_thread(log.abandon)
        return is_open
