"""The committed records of one compacted partition: the newest record of every key stays, and no other one changes.

Each replica compacts its own files, so batches differ; the check compares records.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from zlib import crc32

from raftlog.model import Offset
from raftlog.partition.replica import Replica
from raftlog.record import iter_batches, verify_payload_crc
from raftlog.record.arrow import read_records
from simulation.cluster.ledger import PIECE_BYTES, Entry, Ledger


@dataclass(frozen=True, slots=True)
class KeyedEntry(Entry):
    """One committed record."""

    key: bytes
    is_tombstone: bool

    def __str__(self) -> str:
        return f"{'the tombstone' if self.is_tombstone else 'the record'} of {self.key!r} at offset {self.base_offset}"


class KeyedLedger(Ledger):
    """The committed records of one compacted partition."""

    def __init__(self) -> None:
        super().__init__()
        self._newest: dict[bytes, Offset] = {}
        """By key, the offset of the newest record that is known to be committed."""

    def extend(self, replica: Replica, high_watermark: Offset) -> str | None:
        """Record what a replica reports as committed; records compacted before the first look are unknown."""
        known = len(self._entries)
        wrong = super().extend(replica, high_watermark)
        for entry in self._entries[known:]:
            assert isinstance(entry, KeyedEntry)
            self._newest[entry.key] = entry.base_offset
        self.end = max(self.end, high_watermark)
        return wrong

    def differs(self, replica: Replica, end: Offset) -> str | None:
        """Compare a replica's records below `end` with those that were committed."""
        start, end = replica.log.log_start_offset, min(end, self.end)
        found = {entry.base_offset: entry for entry in self.read(replica, start, end)}
        at = bisect_left(self._entries, start, key=lambda entry: entry.base_offset)
        known = {entry.base_offset: entry for entry in self._entries[at:] if entry.base_offset < end}
        for offset, entry in found.items():
            if known.get(offset) != entry:
                return f"it holds {entry} where {known.get(offset)} was committed"
        held = {entry.key for entry in found.values() if isinstance(entry, KeyedEntry)}
        for offset, entry in known.items():
            if offset not in found and (wrong := self._must_stay(entry, replica.log.log_end_offset, held)):
                return wrong
        return None

    def _must_stay(self, entry: Entry, log_end: Offset, held: set[bytes]) -> str | None:
        """Return why a record that a replica lacks had to stay, or None."""
        assert isinstance(entry, KeyedEntry)
        if entry.base_offset >= log_end:
            return f"it ends at {log_end}, and {entry} was committed"
        if self._newest[entry.key] != entry.base_offset:
            return None  # A later record of the key replaced it.
        if not entry.is_tombstone:
            return f"it does not hold {entry}, the newest of its key"
        return f"it does not hold {entry}, and holds what that deleted" if entry.key in held else None

    def read(self, replica: Replica, start: Offset, end: Offset) -> Iterator[Entry]:
        """Yield a log's records between two offsets."""
        offset = start
        while offset < end:
            piece = replica.log.read(offset, PIECE_BYTES, limit_offset=end)
            if not piece:
                return
            for header, batch in iter_batches(piece):
                verify_payload_crc(header, batch)
                for record in read_records(bytes(batch), topic="", partition=0, from_offset=offset):
                    content = crc32(repr((record.key, record.value)).encode())
                    yield KeyedEntry(
                        record.offset,
                        record.offset + 1,
                        header.leader_epoch,
                        content,
                        0,
                        record.key or b"",
                        record.value is None,
                    )
                offset = header.next_offset
