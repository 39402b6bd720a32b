"""The committed records of one compacted partition: the newest record of every key stays, and no other one changes.

Each replica compacts its own files, so batches differ; the check compares records. A record of a transaction counts as
its key's newest once the transaction has committed; those of an aborted one may be removed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from zlib import crc32

from raftlog.model import NO_PRODUCER_ID, Offset, ProducerId
from raftlog.partition.replica import Replica
from raftlog.record import iter_batches, verify_payload_crc
from raftlog.record.batch import BatchHeader
from raftlog.record.control import parse_marker
from raftlog.record.reading import read_records
from simulation.cluster.ledger import PIECE_BYTES, Entry, Ledger


@dataclass(frozen=True, slots=True)
class KeyedEntry(Entry):
    """One committed record, or the marker that ends a transaction."""

    key: bytes = b""
    is_tombstone: bool = False
    transaction_of: ProducerId = NO_PRODUCER_ID
    """The producer of the transaction that it belongs to."""
    commits: bool | None = None
    """Of a marker, whether it commits; None: a record."""

    def __str__(self) -> str:
        if self.commits is not None:
            return f"the marker at offset {self.base_offset}"
        return f"{'the tombstone' if self.is_tombstone else 'the record'} of {self.key!r} at offset {self.base_offset}"


class KeyedLedger(Ledger):
    """The committed records of one compacted partition."""

    def __init__(self) -> None:
        super().__init__()
        self._newest: dict[bytes, Offset] = {}
        """By key, the offset of the newest record that is known to be committed."""
        self._open: dict[ProducerId, list[KeyedEntry]] = defaultdict(list)
        """By producer, the records of its transaction that no marker has ended."""
        self._aborted = set[Offset]()

    def extend(self, replica: Replica, high_watermark: Offset) -> str | None:
        """Record what a replica reports as committed; records compacted before the first look are unknown."""
        known = len(self._entries)
        wrong = super().extend(replica, high_watermark)
        for entry in self._entries[known:]:
            assert isinstance(entry, KeyedEntry)
            self._count(entry)
        self.end = max(self.end, high_watermark)
        return wrong

    def _count(self, entry: KeyedEntry) -> None:
        if entry.commits is not None:
            for one in self._open.pop(entry.transaction_of, ()):
                if entry.commits:
                    self._newest[one.key] = max(one.base_offset, self._newest.get(one.key, -1))
                else:
                    self._aborted.add(one.base_offset)
        elif entry.transaction_of != NO_PRODUCER_ID:
            self._open[entry.transaction_of].append(entry)
        else:
            self._newest[entry.key] = entry.base_offset

    def differs(self, replica: Replica, end: Offset) -> str | None:
        """Compare a replica's records below `end` with those that were committed."""
        start, end = replica.log.log_start_offset, min(end, self.end)
        found = {entry.base_offset: entry for entry in self.read(replica, start, end)}
        at = bisect_left(self._entries, start, key=lambda entry: entry.base_offset)
        known = {entry.base_offset: entry for entry in self._entries[at:] if entry.base_offset < end}
        for offset, entry in found.items():
            if known.get(offset) != entry:
                return f"it holds {entry} where {known.get(offset)} was committed"
        oldest = dict[bytes, Offset]()
        for offset, entry in found.items():
            if isinstance(entry, KeyedEntry) and entry.commits is None and offset not in self._aborted:
                oldest.setdefault(entry.key, offset)
        for offset, entry in known.items():
            if offset not in found and (wrong := self._must_stay(entry, replica.log.log_end_offset, oldest)):
                return wrong
        return None

    def _must_stay(self, entry: Entry, log_end: Offset, oldest: dict[bytes, Offset]) -> str | None:
        """Return why a record that a replica lacks had to stay, or None.

        Args:
            oldest: by key, the oldest record in the log that is not of an aborted transaction.
        """
        assert isinstance(entry, KeyedEntry)
        if entry.base_offset >= log_end:
            return f"it ends at {log_end}, and {entry} was committed"
        if entry.commits is not None or entry.base_offset in self._aborted:
            return None
        if entry in self._open.get(entry.transaction_of, ()):
            return f"it does not hold {entry}, whose transaction is open"
        if self._newest[entry.key] != entry.base_offset:
            return None  # A later record of the key replaced it.
        if not entry.is_tombstone:
            return f"it does not hold {entry}, the newest of its key"
        is_undone = oldest.get(entry.key, entry.base_offset) < entry.base_offset
        return f"it does not hold {entry}, and holds what that deleted" if is_undone else None

    def read(self, replica: Replica, start: Offset, end: Offset) -> Iterator[Entry]:
        """Yield a log's records and markers between two offsets."""
        offset = start
        while offset < end:
            piece = replica.log.read(offset, PIECE_BYTES, limit_offset=end)
            if not piece:
                return
            for header, batch in iter_batches(piece):
                verify_payload_crc(header, batch)
                yield from _entries(header, batch, offset)
                offset = header.next_offset


def _entries(header: BatchHeader, batch: memoryview, from_offset: Offset) -> Iterator[Entry]:
    """Yield the records of a batch at or above an offset, or its marker."""
    if header.is_control:
        commits, offset = parse_marker(header, batch).committed, header.base_offset
        yield KeyedEntry(
            offset, offset + 1, header.leader_epoch, 0, 0, transaction_of=header.producer_id, commits=commits
        )
        return
    transaction_of = header.producer_id if header.is_transactional else NO_PRODUCER_ID
    for record in read_records(bytes(batch), topic="", partition=0, from_offset=from_offset):
        yield KeyedEntry(
            record.offset,
            record.offset + 1,
            header.leader_epoch,
            crc32(repr((record.key, record.value)).encode()),
            0,
            record.key or b"",
            record.value is None,
            transaction_of,
        )
