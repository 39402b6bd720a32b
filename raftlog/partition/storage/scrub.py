"""Verification of one segment on disk, in slices, and the state of a log's scrub."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from raftlog.errors import CorruptBatchError, StorageError
from raftlog.model import NO_LEADER_EPOCH, LeaderEpoch, Offset
from raftlog.partition.storage.batch_scan import scan_batches
from raftlog.partition.storage.files import is_unreadable, read_json, write_json
from raftlog.partition.storage.segment import Segment

_log = logging.getLogger(__name__)
STATE_FILE = "scrub.json"
STEP_BYTES = 1 << 20
LEAST_BATCH_BYTES = 4 << 10
"""Smallest size that a batch counts for: small batches cost CPU rather than disk reads."""


class ScrubState:
    """When a log was checked last, and the progress of the present pass: `scrub.json` in its folder."""

    def __init__(self, folder: Path, *, now_ms: int) -> None:
        """Read it. Blocks; for a worker thread.

        A log without the file was never checked: its first check is due one interval from now.
        """
        self._path = folder / STATE_FILE
        try:
            document = read_json(self._path)
        except StorageError as error:
            _log.warning("%s; the log is checked from its beginning", error.message)
            document = {}
        self.checked_below: Offset = int((document or {}).get("checked_below", 0))
        self.finished_ms = int((document or {}).get("finished_ms", 0))
        if document is None:
            self.finished_ms = now_ms
            self.save()

    def save(self) -> None:
        """Write it; for a worker thread. If it is lost, the log is checked again."""
        plain = {"version": 1, "checked_below": self.checked_below, "finished_ms": self.finished_ms}
        try:
            write_json(self._path, plain, durable=False)
        except StorageError as error:
            _log.warning("%s; after a restart this log is checked again", error.message)


class SegmentScrub:
    """Verifies one segment, up to its size at the start."""

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.offset: Offset = segment.base_offset
        """Every batch below it is intact."""
        self.epoch: LeaderEpoch = NO_LEADER_EPOCH
        self.problem = ""
        """The damage at `offset`, which ends the check; empty if there is none."""
        self.done = segment.size == 0
        self._batches = scan_batches(self._read, 0, segment.size, verify=True, name=segment.path.name)

    def step(self) -> int:
        """Verify about `STEP_BYTES`; return the bytes that count for the rate limit. For a worker thread.

        Raises:
            OSError: the file cannot be read, for a reason other than the disk's state.
        """
        count = 0
        while not self.done and count < STEP_BYTES:
            try:
                count += self._next()
            except StopIteration:
                self.done = True
            except CorruptBatchError as error:
                self.problem, self.done = str(error), True
            except OSError as error:
                if not is_unreadable(error):
                    raise
                self.problem, self.done = f"it cannot be read: {error}", True
        return count

    def _next(self) -> int:
        _, header = next(self._batches)
        if header.base_offset != self.offset or header.leader_epoch < self.epoch:
            raise CorruptBatchError(
                f"a batch of offset {header.base_offset} and epoch {header.leader_epoch} lies where offset "
                f"{self.offset} belongs, after epoch {self.epoch}"
            )
        self.offset, self.epoch = header.next_offset, header.leader_epoch
        return max(header.batch_length, LEAST_BATCH_BYTES)

    def _read(self, length: int, position: int) -> bytes:
        """Read from the disk, bypassing the page cache, and leave the page cache as it was."""
        with self.segment.file.use() as descriptor:
            cached = _is_cached(descriptor, position)
            if cached:
                _evict(descriptor, position, length)
            data = os.pread(descriptor, length, position)
            if not cached:
                _evict(descriptor, position, length)
            return data


def _is_cached(descriptor: int, position: int) -> bool:
    """Return whether a position of a file is in the page cache."""
    try:
        return os.preadv(descriptor, [bytearray(1)], position, os.RWF_NOWAIT) == 1
    except OSError:  # Not cached, or the file system does not support RWF_NOWAIT.
        return False


def _evict(descriptor: int, position: int, length: int) -> None:
    os.posix_fadvise(descriptor, position, length, os.POSIX_FADV_DONTNEED)
