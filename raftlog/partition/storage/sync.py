"""Which segments hold unsynced bytes, and how far the log is durable: the one thing that two threads share.

What is synced inside a folder whose name is lost is lost with it, so the first sync of a log names its folder and files
too; until then nothing in them was promised to anybody.
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
            named: the folder and its files are known to be found again after a loss of power.
        """
        self.durable_end_offset = durable_end_offset
        self._folder = folder
        self._named = named
        self._busy = threading.Lock()
        """Held while files are synced, or removed."""
        self._unsynced: list[Segment] = []

    def wrote(self, segment: Segment) -> None:
        """Note that `segment` has bytes that are not on disk."""
        if segment not in self._unsynced:
            self._unsynced.append(segment)
        segment.file.unsynced = True

    def sync(self, log_end_offset: Callable[[], Offset]) -> Offset:
        """Make everything written before the call durable; return the durable end.

        A writer first writes, then calls `wrote`, then moves its log end: so whatever lies below the log end that is
        read here is in the list taken next, or was in an earlier one.

        Raises:
            SyncError: from fdatasync or fsync.
            OSError: a file cannot be opened.
        """
        with self._busy:
            end = log_end_offset()
            if self._unsynced or end > self.durable_end_offset:
                self.name()
            segments, self._unsynced = self._unsynced, []
            for segment in segments:
                with segment.file.use() as descriptor:
                    segment.file.unsynced = False  # Before: what is written meanwhile sets it again.
                    sync_data(descriptor)
            self.durable_end_offset = max(self.durable_end_offset, end)
            return self.durable_end_offset

    def name(self) -> None:
        """Have the folder and its files be found again after a loss of power; the caller keeps syncs out.

        Raises:
            OSError: from fsync.
        """
        if not self._named:
            fsync_dir(self._folder)
            fsync_dir(self._folder.parent)
            self._named = True

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Wait for a sync under way and keep the next one out, while files are cut or removed."""
        with self._busy:
            yield

    def truncated(self, log_end_offset: Offset, active: Segment) -> None:
        """The log now ends earlier, and its new end must reach the disk."""
        self.durable_end_offset = min(self.durable_end_offset, log_end_offset)
        self.wrote(active)

    def forget(self, segment: Segment) -> None:
        """Note that `segment` is going away."""
        if segment in self._unsynced:
            self._unsynced.remove(segment)
