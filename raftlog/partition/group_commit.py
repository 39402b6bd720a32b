"""Group commit: one fsync at a time in a worker thread; batches appended meanwhile share the next one."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable

from raftlog.errors import DiskFullError, StorageError
from raftlog.metrics import Histogram
from raftlog.model import Offset
from raftlog.partition.storage.log import PartitionLog
from raftlog.partition.storage.log_files import LogClosedError
from raftlog.runtime import Tasks

_log = logging.getLogger(__name__)
_REMEMBERED = 64
_RETRY_S = 0.1


class GroupCommit:
    """Syncs one log. `on_durable(end)` and `on_failure(error)` are called on the event loop.

    Args:
        times: observes each sync, in seconds.
    """

    def __init__(
        self,
        log: PartitionLog,
        tasks: Tasks,
        *,
        on_durable: Callable[[Offset], None],
        on_failure: Callable[[StorageError], None],
        times: Histogram,
    ) -> None:
        self._log = log
        self._tasks = tasks
        self._on_durable = on_durable
        self._on_failure = on_failure
        self._times = times
        self._ends: deque[tuple[Offset, float]] = deque(maxlen=_REMEMBERED)
        """The durable end after each of the newest syncs, and when that sync ended (`time.perf_counter`)."""
        self._wanted = False
        self._waits = False
        """The last sync had no free descriptor."""
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
                end, seconds = await asyncio.to_thread(self._sync)
            except LogClosedError:
                return
            except StorageError as error:
                if not isinstance(error, DiskFullError) or self._log.failure is not None:
                    self._on_failure(error)
                    return
                # No descriptor is free: nothing was synced, and nothing is lost.
                if not self._waits:
                    _log.warning("%s; it is tried again", error.message)
                self._wanted = self._waits = True
                await asyncio.sleep(_RETRY_S)
                continue
            except Exception:  # noqa: BLE001  (no memory or thread: acknowledgements would wait for the next append)
                _log.exception("%s was not synced; it is tried again", self._log.folder.name)
                self._wanted = True
                await asyncio.sleep(_RETRY_S)
                continue
            self._waits = False
            self._times.observe(seconds)
            self._ends.append((end, time.perf_counter()))
            self._on_durable(end)

    def _sync(self) -> tuple[Offset, float]:
        began = time.perf_counter()
        return self._log.fsync(), time.perf_counter() - began

    def ended_at(self, offset: Offset) -> float:
        """Return when the sync that covered `offset` ended (`time.perf_counter`); 0 if that is not known any more."""
        found = 0.0
        for end, at in reversed(self._ends):
            if end <= offset:
                break
            found = at
        return found
