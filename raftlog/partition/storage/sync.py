"""The segments with unsynced bytes, and the durable end of the log: the state shared with the sync thread.

The first sync of a log also syncs its folder and the parent folder: synced files are lost if their names are. Until
then no record was acknowledged.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from raftlog.model import Offset
from raftlog.partition.storage.files import fsync_dir, sync_data
from raftlog.partition.storage.segment import Segment


class Syncer:
    """Guards fsync against truncation: a durable end that was computed before a truncation must not count after it."""

    def __init__(self, folder: Path, *, durable_end_offset: Offset, named: bool) -> None:
        """Begin.

        Args:
            named: the names of the folder and its files are known to be durable.
        """
        self.durable_end_offset = durable_end_offset
        self._folder = folder
        self._named = named
        self._busy = threading.Lock()
        """Locked while files are synced or removed."""
        self._unsynced: list[Segment] = []

    def wrote(self, segment: Segment) -> None:
        """Record that `segment` has unsynced bytes."""
        if segment not in self._unsynced:
            self._unsynced.append(segment)
        segment.file.unsynced = True

    def sync(self, log_end_offset: Callable[[], Offset]) -> Offset:
        """Make everything written before the call durable; return the durable end.

        A writer first writes, then calls `wrote`, then advances its log end. So every record below the log end read
        here is in a segment of the list taken next, or of an earlier one.

        Raises:
            SyncError: from fdatasync or fsync.
            OSError: a file cannot be opened; what was not synced is left for the next call.
        """
        with self._busy:
            end = log_end_offset()
            if self._unsynced or end > self.durable_end_offset:
                self.name()
            segments, self._unsynced = self._unsynced, []
            for number, segment in enumerate(segments):
                try:
                    descriptor = segment.file.pool.acquire(segment.file)
                except OSError:
                    for left in segments[number:]:
                        self.wrote(left)
                    raise
                try:
                    segment.file.unsynced = False  # Before the sync: a write during it sets it again.
                    sync_data(descriptor)
                finally:
                    segment.file.pool.release(segment.file, descriptor)
            self.durable_end_offset = max(self.durable_end_offset, end)
            return self.durable_end_offset

    def name(self) -> None:
        """Make the names of the folder and its files durable; the caller excludes syncs.

        Raises:
            OSError: from fsync.
        """
        if not self._named:
            fsync_dir(self._folder)
            fsync_dir(self._folder.parent)
            self._named = True

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Wait for a running sync and exclude the next one, while files are truncated or removed."""
        with self._busy:
            yield

    def truncated(self, log_end_offset: Offset, active: Segment) -> None:
        """Record that the log ends earlier, and that its new end is unsynced."""
        self.durable_end_offset = min(self.durable_end_offset, log_end_offset)
        self.wrote(active)

    def forget(self, segment: Segment) -> None:
        """Drop `segment`, which is being removed."""
        if segment in self._unsynced:
            self._unsynced.remove(segment)
