"""One partition's batches from a fetch response, decoded while the application reads (Kafka: `CompletedFetch`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from raftlog import record
from raftlog.errors import CorruptBatchError
from raftlog.model import NO_LEADER_EPOCH, LeaderEpoch, Offset, TopicPartition
from raftlog.record.short import read_short
from raftlog.record.unpacking import unpacked_bytes

MOST_UNPACKED_BYTES = 64 << 20
"""The most decompressed bytes of one call. A single larger batch is decompressed alone."""

if TYPE_CHECKING:
    import pyarrow as pa

    from raftlog.record import AbortedBatches, BatchHeader, Record


class CompletedFetch:
    """Whole batches of one partition; the first may begin below `position`.

    A batch's payload checksum is verified before a record of it is returned. Record objects are created only for
    the records that a caller requests: they cost many times the bytes, in memory and garbage collection.

    Args:
        batches: at least one.
        aborted: the batches that a `read_committed` reader skips.
        was_checked: the broker verified every payload before it sent it.
    """

    def __init__(
        self,
        partition: TopicPartition,
        batches: Sequence[tuple[BatchHeader, memoryview]],
        position: Offset,
        aborted: AbortedBatches,
        *,
        was_checked: bool = False,
    ) -> None:
        self.partition = partition
        self.was_checked = was_checked
        self.size = sum(header.batch_length for header, _ in batches)
        self.position = position
        """The offset of the next record."""
        self.ends_answer = False
        """Whether this is the last part of a response: when the reader reaches it, the next fetch starts."""
        self.leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
        """The leader epoch of the last batch that was read from; -1: none yet."""
        self.record_count = sum(header.record_count for header, _ in batches)
        """The records of all batches; of transactions that were aborted, too."""
        self._last = batches[-1][0]
        self._batches = record.readable_batches(batches, aborted, from_offset=position)
        self._next: tuple[BatchHeader, memoryview] | None = next(self._batches, None)
        """The first batch that is not decoded yet."""
        self._rows: pa.RecordBatch | None = None
        """The unread records of the batch that is decoded."""
        self._epoch_of_rows: LeaderEpoch = NO_LEADER_EPOCH
        self.arrow_bytes = 0
        """The decompressed size of the batches that the last `arrow` returned."""
        self._row_bytes = 0.0
        """The average decompressed size of that batch's records, in bytes."""

    @property
    def is_read(self) -> bool:
        """Whether every record was read."""
        return self.position == self._last.next_offset

    def take(self, count: int) -> list[Record]:
        """Remove and return the first `count` records; fewer before a damaged batch, or one of another leader epoch.

        It also stops once they exceed `MOST_UNPACKED_BYTES`.

        Raises:
            CorruptBatchError: the first batch's checksum is wrong.
        """
        records: list[Record] = []
        size = 0.0
        while len(records) < count and size < MOST_UNPACKED_BYTES:
            try:
                taken = self._read_short(records) or self._read_rows(records, count)
            except Exception:  # Damage, or a lack of memory.
                if records:
                    return records  # The next call raises.
                raise
            if not taken:
                break
            size += taken
        if self._rows is None and self._next is None:
            self._finish()
        return records

    def _read_rows(self, records: list[Record], count: int) -> float:
        """Add records of the next batch, up to `count` in all; return the bytes that they take, 0 if there are none."""
        rows = self._open()
        if rows is None or (records and self._epoch_of_rows != self.leader_epoch):
            return 0
        piece = rows.slice(0, count - len(records))
        left = rows.slice(len(piece)) if len(piece) < len(rows) else None
        records += record.to_records(piece, *self.partition)
        self._rows = left
        self.position, self.leader_epoch = records[-1].offset + 1, self._epoch_of_rows
        return len(piece) * self._row_bytes

    def arrow(self) -> pa.Table | None:
        """Remove and return the records from `position` on, by `READ_SCHEMA`; None if there are none.

        It stops at `MOST_UNPACKED_BYTES`; `is_read` is False then.

        After any error, the position has not moved, and the records must be fetched again.

        Raises:
            CorruptBatchError: a checksum is wrong.
        """
        before, self._rows = self._rows, None
        rows = record.to_table(self._verified(), from_offset=self.position, before=before)
        if before is not None:
            self.arrow_bytes += int(before.num_rows * self._row_bytes)
        if self._next is None:
            self._finish()
        else:
            self.position, self.leader_epoch = self._next[0].base_offset, self._epoch_of_rows
        return rows if rows.num_rows else None

    def _verified(self) -> Iterator[tuple[BatchHeader, memoryview]]:
        self.arrow_bytes = 0
        while self._next is not None:
            header, batch = self._next
            record.verify_payload_crc(header, batch)
            unpacked = unpacked_bytes(header, batch)
            if self.arrow_bytes and self.arrow_bytes + unpacked > MOST_UNPACKED_BYTES:
                return
            self.arrow_bytes += unpacked
            yield header, batch
            self._epoch_of_rows = header.leader_epoch
            self._next = next(self._batches, None)

    def _open(self) -> pa.RecordBatch | None:
        """Return the unread records of the current batch, or of the next one with records; None at the end."""
        while self._rows is None and self._next is not None:
            header, batch = self._next
            record.verify_payload_crc(header, batch)
            rows = record.to_arrow_with_offsets(header, batch, from_offset=self.position)
            self._row_bytes = unpacked_bytes(header, batch) / max(1, header.record_count)
            self._next = next(self._batches, None)
            self._rows, self._epoch_of_rows = rows if rows.num_rows else None, header.leader_epoch
        return self._rows

    def _read_short(self, records: list[Record]) -> int:
        """Add the record of the next batch, if it is short; return the bytes that it takes, 0 if there is none.

        Raises:
            CorruptBatchError: its checksum is wrong, or its payload.
        """
        if self._rows is not None or self._next is None or not self._next[0].is_short:
            return 0
        header, batch = self._next
        if records and header.leader_epoch != self.leader_epoch:
            return 0
        record.verify_payload_crc(header, batch)
        key, value = read_short(header, batch)
        records.append(record.Record(*self.partition, header.base_offset, header.max_timestamp, key, value))
        self._next = next(self._batches, None)
        self.position, self.leader_epoch = header.next_offset, header.leader_epoch
        return header.batch_length

    def _finish(self) -> None:
        self.position, self.leader_epoch = self._last.next_offset, self._last.leader_epoch


def batches_from(offset: Offset, part: memoryview) -> list[tuple[BatchHeader, memoryview]]:
    """Return the batches of a response, which are consecutive and contain `offset`.

    Raises:
        CorruptBatchError: a header is wrong, a batch is missing, or no batch contains `offset`.
    """
    batches = list(record.iter_batches(part))
    expected = batches[0][0].base_offset
    for header, _ in batches:
        if header.base_offset != expected:
            raise CorruptBatchError(f"a batch begins at offset {header.base_offset}, the one before ends at {expected}")
        expected = header.next_offset
    if not batches[0][0].base_offset <= offset < expected:
        raise CorruptBatchError(
            f"batches from offset {batches[0][0].base_offset} to {expected - 1} came for offset {offset}"
        )
    return batches
