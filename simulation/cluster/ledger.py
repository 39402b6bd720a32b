"""The committed batches of one partition, as its leaders first reported them: they may never change."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from raftlog.errors import StorageError
from raftlog.model import LeaderEpoch, Offset, PartitionState
from raftlog.partition.readable_replica import in_memory
from raftlog.partition.replica import Replica
from raftlog.record import iter_batches
from raftlog.record.batch import BatchHeader

PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Entry:
    """One committed batch."""

    base_offset: Offset
    next_offset: Offset
    leader_epoch: LeaderEpoch
    payload_crc: int
    max_timestamp: int

    def __str__(self) -> str:
        return f"offsets {self.base_offset} to {self.next_offset - 1} of epoch {self.leader_epoch}"


class Ledger:
    """The committed batches of one partition."""

    def __init__(self) -> None:
        self.start: Offset = 0
        """Batches below it may have been removed."""
        self.end: Offset = 0
        self.last_leader_epoch: LeaderEpoch = -1
        """The latest epoch whose leader reported anything as committed."""
        self.partition_epoch = -1
        """The latest partition epoch that such a leader had."""
        self._entries: list[Entry] = []
        self._known_from: Offset = 0
        """Batches below it were removed before the first look."""

    def extend(self, replica: Replica, high_watermark: Offset) -> str | None:
        """Record what a replica, leader or follower, reports as committed; return what is wrong with it."""
        state = self.told_by(replica)
        if (start := replica.log.log_start_offset) > self.end:
            self._entries.clear()
            self.end = self._known_from = start
        for entry in self.read(replica, self.end, high_watermark):
            if self._entries and entry.leader_epoch < self._entries[-1].leader_epoch:
                return f"{entry} come after {self._entries[-1]}"
            if entry.leader_epoch > state.leader_epoch:
                return f"a replica of epoch {state.leader_epoch} calls {entry} committed"
            self._entries.append(entry)
            self.end = entry.next_offset
        self.last_leader_epoch = max(state.leader_epoch, self.last_leader_epoch)
        self.partition_epoch = max(state.partition_epoch, self.partition_epoch)
        return None

    def begin_again(self, held: Sequence[Entry]) -> None:
        """Keep what the leader of an unclean election stores: the rest is not committed any more."""
        kept = next((at for at, pair in enumerate(zip(self._entries, held, strict=False)) if pair[0] != pair[1]), None)
        kept = min(len(self._entries), len(held)) if kept is None else kept
        del self._entries[kept:]
        self.end = self._entries[-1].next_offset if self._entries else 0

    @staticmethod
    def told_by(replica: Replica) -> PartitionState:
        """Return the partition state of a replica's high watermark; for a follower, the latest possible one."""
        return replica.state if replica.core is None else replica.core.state

    def differs(self, replica: Replica, end: Offset) -> str | None:
        """Compare a replica's log below `end` with the committed batches; return where they differ."""
        start, log_end = max(replica.log.log_start_offset, self._known_from), replica.log.log_end_offset
        if log_end < start <= end:
            return f"it ends at {log_end}, and everything below {start} was committed"
        position = bisect_left(self._entries, start, key=lambda entry: entry.next_offset - 1)
        committed = iter(self._entries[position:])
        for found in self.read(replica, start, min(end, self.end)):
            known = next(committed, None)
            if known != found:
                return f"it holds {found} where {known} were committed"
        missing = next(committed, None)
        if missing is not None and missing.base_offset < end:
            return f"it does not hold {missing}, which were committed"
        return None

    def read(self, replica: Replica, start: Offset, end: Offset) -> Iterator[Entry]:
        """Yield the ledger's entries of a log between two offsets."""
        return entries(replica, start, end)

    def newest_timestamp(self, start: Offset, end: Offset) -> int:
        """Return the newest timestamp (us since 1970) of the known committed batches from `start` to `end`."""
        first = bisect_left(self._entries, start, key=lambda entry: entry.next_offset - 1)
        last = bisect_left(self._entries, end, key=lambda entry: entry.base_offset)
        return max((entry.max_timestamp for entry in self._entries[first:last]), default=0)


def headers(replica: Replica, start: Offset, end: Offset) -> Iterator[BatchHeader]:
    """Yield the batch headers of a log between two offsets.

    Raises:
        StorageError, CorruptBatchError: the log is damaged there.
    """
    offset = start
    while offset < end:
        found = replica.log.find_verified(offset, PIECE_BYTES, limit_offset=end)
        if found.problem and not found.data:
            raise StorageError(f"offset {offset} of {replica.log.folder.name} cannot be read: {found.problem}")
        if not found.data:
            return
        for header, _ in iter_batches(in_memory(found.data)):
            yield header
            offset = header.next_offset


def entries(replica: Replica, start: Offset, end: Offset) -> Iterator[Entry]:
    """Yield the ledger's entries of batches."""
    for header in headers(replica, start, end):
        yield Entry(
            header.base_offset, header.next_offset, header.leader_epoch, header.payload_crc32c, header.max_timestamp
        )


def wrong_epochs(replica: Replica) -> str | None:
    """Return where a log's leader-epoch table differs from its batches."""
    table, start = replica.log.epochs, replica.log.log_start_offset
    for header in headers(replica, start, replica.log.log_end_offset):
        if (said := table.epoch_at(max(header.base_offset, start))) != header.leader_epoch:  # Or in a batch.
            return f"offset {header.base_offset} is of epoch {header.leader_epoch}, its table says {said}"
    return None
