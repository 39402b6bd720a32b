"""Group commit: one fsync at a time in a worker thread; batches appended meanwhile share the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from raftlog.errors import StorageError
from raftlog.model import Offset
from raftlog.partition.storage.log import PartitionLog
from raftlog.partition.storage.log_files import LogClosedError
from raftlog.runtime import Tasks


class GroupCommit:
    """Syncs one log. `on_durable(end)` and `on_failure(error)` are called on the event loop."""

    def __init__(
        self,
        log: PartitionLog,
        tasks: Tasks,
        *,
        on_durable: Callable[[Offset], None],
        on_failure: Callable[[StorageError], None],
    ) -> None:
        self._log = log
        self._tasks = tasks
        self._on_durable = on_durable
        self._on_failure = on_failure
        self._wanted = False
        self._running: asyncio.Task[None] | None = None

    def request(self) -> None:
        """Start a sync of everything appended so far, or schedule one after the sync that is running."""
        self._wanted = True
        if self._running is None or self._running.done():
            self._running = self._tasks.spawn(self._run(), name=f"fsync {self._log.folder.name}")

    async def _run(self) -> None:
        while self._wanted:
            self._wanted = False
            try:
                end = await asyncio.to_thread(self._log.fsync)
            except LogClosedError:
                return
            except StorageError as error:
                self._on_failure(error)
                return
            self._on_durable(end)
