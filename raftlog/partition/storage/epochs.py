"""Leader epochs of one log: which epoch wrote which offsets. What divergence is resolved by (KIP-101, KIP-279).

An epoch is written down here before the first batch of that epoch is appended. A leader that writes nothing leaves
nothing here: an entry at the log's end, whose append failed, does not count.

Without its epochs a log would send followers back to its start: what is missing, or cannot be read, is built again from
the batches, which name theirs. What they contradict is damage. So what is added needs no sync, which each partition's
first batch would wait for: after a loss of power an earlier table is there, or a torn one. What is taken away must not
come back, and is synced.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

from raftlog.errors import CorruptBatchError, DamagedDataError
from raftlog.model import NO_LEADER_EPOCH, LeaderEpoch, Offset
from raftlog.partition.storage.files import read_json, storage_error, write_json
from raftlog.partition.storage.segment import Segment
from raftlog.record.batch import BatchHeader

_log = logging.getLogger(__name__)
FILE_NAME = "leader-epochs.json"


class EpochTable:
    """Epochs in growing order, each with its start offset; both grow strictly."""

    def __init__(self, folder: Path) -> None:
        """Read the table; one that is damaged is empty until it is completed.

        Raises:
            StorageError: it cannot be read.
        """
        self._path = folder / FILE_NAME
        try:
            self._entries = read_epochs(folder)
        except DamagedDataError as error:
            _log.warning("%s", error.message)
            self._entries = []

    @property
    def entries(self) -> tuple[tuple[LeaderEpoch, Offset], ...]:
        return tuple(self._entries)

    def assign(self, epoch: LeaderEpoch, start_offset: Offset) -> None:
        """Record that `epoch` writes from `start_offset`, the log's end, on; what wrote nothing is forgotten, durably.

        Raises:
            StorageError: the disk refused; the table is as it was.
        """
        kept = [entry for entry in self._entries if entry[1] < start_offset]
        assert not kept or kept[-1][0] < epoch, f"{self._path}: epoch {epoch} at {start_offset}, after {kept[-1]}"
        if self._entries != (entries := [*kept, (epoch, start_offset)]):
            self._replace(entries, durable=len(kept) < len(self._entries))

    def end_offset_for(self, epoch: LeaderEpoch, log_end_offset: Offset) -> tuple[LeaderEpoch, Offset]:
        """Return the largest epoch at or below `epoch`, and where it ends.

        `NO_LEADER_EPOCH` with the first start offset means that `epoch` is older than everything here.
        """
        position = bisect_right(self._entries, epoch, key=lambda entry: entry[0])
        end = self._entries[position][1] if position < len(self._entries) else log_end_offset
        return (self._entries[position - 1][0] if position else NO_LEADER_EPOCH), end

    def epoch_at(self, offset: Offset) -> LeaderEpoch:
        """Return the epoch that wrote `offset`, or `NO_LEADER_EPOCH`."""
        position = bisect_right(self._entries, offset, key=lambda entry: entry[1])
        return self._entries[position - 1][0] if position else NO_LEADER_EPOCH

    def complete(self, batches: Iterable[BatchHeader], log_start_offset: Offset) -> None:
        """Build the table again, durably, from every batch of the log.

        Raises:
            DamagedDataError: it says what the batches contradict; it is as it was.
            StorageError: the disk refused.
        """
        built = list[tuple[LeaderEpoch, Offset]]()
        for header in batches:
            if not built or header.leader_epoch != built[-1][0]:
                built.append((header.leader_epoch, max(header.base_offset, log_start_offset)))
        if built and self._contradicts(built):
            raise DamagedDataError(f"{self._path} says {self._entries}, the batches say {built}")
        _log.warning("%s lacked epochs: %s; built again from the log: %s", self._path, self._entries, built)
        self._replace(built)

    def _contradicts(self, built: list[tuple[LeaderEpoch, Offset]]) -> bool:
        grows = all(earlier[0] < later[0] for earlier, later in pairwise(built))
        inside = [entry for entry in self._entries if entry[1] > built[0][1]]
        first = self.epoch_at(built[0][1])
        return not grows or first not in (NO_LEADER_EPOCH, built[0][0]) or not set(inside) <= set(built)

    def truncate_from(self, offset: Offset) -> None:
        """Forget, durably, epochs that start at or after `offset`: the log now ends there."""
        kept = [entry for entry in self._entries if entry[1] < offset]
        if kept != self._entries:
            self._replace(kept)

    def truncate_before(self, offset: Offset) -> None:
        """Forget epochs that ended before `offset`: the log now starts there."""
        position = bisect_right(self._entries, offset, key=lambda entry: entry[1])
        if position > 1 or (position == 1 and self._entries[0][1] < offset):
            epoch = self._entries[position - 1][0]
            self._replace([(epoch, offset), *self._entries[position:]])

    def clear(self) -> None:
        """Forget everything, durably."""
        self._replace([])

    def _replace(self, entries: list[tuple[LeaderEpoch, Offset]], *, durable: bool = True) -> None:
        write_json(self._path, {"version": 1, "epochs": entries}, durable=durable)
        self._entries = entries


def read_epochs(folder: Path) -> list[tuple[LeaderEpoch, Offset]]:
    """Return what a log's table says; nothing if it has none.

    Raises:
        DamagedDataError: it is not what was written.
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
    """See to it that a log knows the epochs that its first and last records are of: a table is lost whole, or is old.

    Raises:
        DamagedDataError: table and log contradict each other, or the log is damaged.
        StorageError: the disk refused.
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
