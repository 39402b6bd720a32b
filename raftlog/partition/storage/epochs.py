"""The leader epochs of one log: which epoch wrote which offsets. Divergence is resolved by them (KIP-101, KIP-279).

- An epoch is added before its first batch is appended. An epoch without a batch is not in the table: an entry at the
  log's end, whose append failed, does not count.
- A missing or unreadable table is rebuilt from the batches, whose headers have their epochs. A table that contradicts
  them is damage.
- Additions are synced with the first batch of their epoch (`sync`). Without it, a damaged last batch could not be
  repaired after a power loss: its epoch, which tells it apart from other replicas' batches, would be unknown.
- Removals must not be undone, and are synced at once.
"""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

from raftlog.errors import CorruptBatchError, DamagedDataError
from raftlog.model import NO_LEADER_EPOCH, LeaderEpoch, Offset
from raftlog.partition.storage.files import fsync_dir, read_json, storage_error, sync_path, write_json
from raftlog.partition.storage.segment import Segment
from raftlog.record.batch import BatchHeader

_log = logging.getLogger(__name__)
FILE_NAME = "leader-epochs.json"


class EpochTable:
    """Epochs with their start offsets; both increase strictly."""

    def __init__(self, folder: Path, *, counts: bool = True) -> None:
        """Read the table; a damaged one is empty until `complete` rebuilds it.

        Args:
            counts: False: the file belongs to the log before this one. The table is empty until something is written.

        Raises:
            StorageError: it cannot be read.
        """
        self._path = folder / FILE_NAME
        try:
            self._entries = read_epochs(folder) if counts else []
        except DamagedDataError as error:
            _log.warning("%s", error.message)
            self._entries = []
        self._unsynced = False

    @property
    def entries(self) -> tuple[tuple[LeaderEpoch, Offset], ...]:
        return tuple(self._entries)

    def assign(self, epoch: LeaderEpoch, start_offset: Offset) -> None:
        """Add `epoch` at `start_offset`, the log's end; epochs that wrote no batch are removed, durably.

        Raises:
            StorageError: a disk operation failed; the table is unchanged.
        """
        kept = [entry for entry in self._entries if entry[1] < start_offset]
        if len(kept) == 1 and kept[0][0] >= epoch:
            # It is of deleted records, and the log is empty: the same epoch goes on, or another history follows.
            kept.clear()
        assert not kept or kept[-1][0] < epoch, f"{self._path}: epoch {epoch} at {start_offset}, after {kept[-1]}"
        if self._entries != (entries := [*kept, (epoch, start_offset)]):
            self._replace(entries, durable=len(kept) < len(self._entries))

    def end_offset_for(self, epoch: LeaderEpoch, log_end_offset: Offset) -> tuple[LeaderEpoch, Offset]:
        """Return the largest epoch at or below `epoch`, and its end offset.

        `NO_LEADER_EPOCH` with the first start offset means that `epoch` is older than every entry.
        """
        position = bisect_right(self._entries, epoch, key=lambda entry: entry[0])
        end = self._entries[position][1] if position < len(self._entries) else log_end_offset
        return (self._entries[position - 1][0] if position else NO_LEADER_EPOCH), end

    def epoch_at(self, offset: Offset) -> LeaderEpoch:
        """Return the epoch that wrote `offset`, or `NO_LEADER_EPOCH`."""
        position = bisect_right(self._entries, offset, key=lambda entry: entry[1])
        return self._entries[position - 1][0] if position else NO_LEADER_EPOCH

    def complete(self, batches: Iterable[BatchHeader], log_start_offset: Offset) -> None:
        """Rebuild the table from every batch of the log, durably. The epoch of the last deleted record stays.

        Raises:
            DamagedDataError: the table contradicts the batches; it is unchanged.
            StorageError: a disk operation failed.
        """
        built = list[tuple[LeaderEpoch, Offset]]()
        for header in batches:
            if not built or header.leader_epoch != built[-1][0]:
                built.append((header.leader_epoch, max(header.base_offset, log_start_offset)))
        if built and self._contradicts(built):
            raise DamagedDataError(f"{self._path} says {self._entries}, the batches say {built}")
        _log.warning("%s lacked epochs: %s; built again from the log: %s", self._path, self._entries, built)
        before = [entry for entry in self._entries if built and entry[1] < built[0][1]][-1:]
        kept = [entry for entry in before if entry[0] < built[0][0]]
        self._replace([*kept, *built])

    def _contradicts(self, built: list[tuple[LeaderEpoch, Offset]]) -> bool:
        grows = all(earlier[0] < later[0] for earlier, later in pairwise(built))
        inside = [entry for entry in self._entries if entry[1] > built[0][1]]
        first = self.epoch_at(built[0][1])
        if self._entries and self._entries[-1][0] < built[0][0] and self._entries[-1][1] < built[0][1]:
            # It is of deleted records: what the next leader added was not synced before a power loss.
            first = NO_LEADER_EPOCH
        return not grows or first not in (NO_LEADER_EPOCH, built[0][0]) or not set(inside) <= set(built)

    def truncate_from(self, offset: Offset) -> None:
        """Remove, durably, epochs that start at or after `offset`, the new log end."""
        kept = [entry for entry in self._entries if entry[1] < offset]
        if kept != self._entries:
            self._replace(kept)

    def truncate_before(self, offset: Offset) -> None:
        """Remove epochs that ended before `offset`, the new log start, apart from that of the last deleted record.

        By that one, a follower whose log ends at the new log start is known to have the same history.
        """
        position = bisect_left(self._entries, offset, key=lambda entry: entry[1])
        if position:
            epoch = self._entries[position - 1][0]
            kept = [(epoch, offset - 1), *self._entries[position:]]
            if kept != self._entries:
                self._replace(kept)

    def clear(self) -> None:
        """Remove all epochs, durably."""
        self._replace([])

    def sync(self) -> None:
        """Make additions durable. Safe in a worker thread, while others are added.

        Raises:
            SyncError: from fsync.
            OSError: the table cannot be opened.
        """
        if not self._unsynced:
            return
        self._unsynced = False  # Before the sync: an addition during it sets it again.
        try:
            sync_path(self._path)
            fsync_dir(self._path.parent)
        except OSError:
            self._unsynced = True
            raise

    def write_again(self) -> None:
        """Write the table durably: a sync of the process before may have failed.

        Raises:
            StorageError: a disk operation failed.
        """
        if self._entries:
            self._replace(self._entries)

    def _replace(self, entries: list[tuple[LeaderEpoch, Offset]], *, durable: bool = True) -> None:
        write_json(self._path, {"version": 1, "epochs": entries}, durable=durable)
        self._entries = entries
        self._unsynced = not durable


def read_epochs(folder: Path) -> list[tuple[LeaderEpoch, Offset]]:
    """Return the entries of a log's epoch table; none if there is no file.

    Raises:
        DamagedDataError: it is damaged.
        StorageError: it cannot be read.
    """
    path = folder / FILE_NAME
    document = read_json(path) or {}
    try:
        entries = [(int(epoch), int(start)) for epoch, start in document.get("epochs", [])]
    except (TypeError, ValueError) as error:
        raise DamagedDataError(f"{path}: expected pairs of numbers: {error}") from error
    if any(earlier[0] >= later[0] or earlier[1] >= later[1] for earlier, later in pairwise(entries)):
        raise DamagedDataError(f"{path}: epochs do not grow: {entries}")
    return entries


def require_epochs(table: EpochTable, segments: Sequence[Segment], log_start_offset: Offset) -> None:
    """Rebuild the epoch table if it lacks the epoch of the log's first or last record: it was lost, or is outdated.

    Raises:
        DamagedDataError: table and log contradict each other, or the log is damaged.
        StorageError: a disk operation failed.
    """
    try:
        last = _last_batch(segments)
        if last is None or last.next_offset <= log_start_offset:
            return
        if table.epoch_at(log_start_offset) == NO_LEADER_EPOCH or table.epoch_at(last.last_offset) != last.leader_epoch:
            headers = (header for segment in segments for _, header in segment.headers(log_start_offset))
            table.complete((header for header in headers if header.next_offset > log_start_offset), log_start_offset)
    except CorruptBatchError as error:
        raise DamagedDataError(f"{segments[0].path.parent} is damaged: {error.message}") from error
    except OSError as error:
        raise storage_error(error, f"cannot read {segments[0].path.parent}") from error


def _last_batch(segments: Sequence[Segment]) -> BatchHeader | None:
    last = next((segment for segment in reversed(segments) if segment.size), None)
    found = None
    for _, header in last.headers(last.next_offset - 1) if last is not None else ():
        found = header
    return found
