"""What a fetch has brought of one partition, decoded as it is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from raftlog import record
from raftlog.errors import CorruptBatchError
from raftlog.model import NO_LEADER_EPOCH, LeaderEpoch, Offset, TopicPartition
from raftlog.record.structure import unpacked_bytes

MOST_UNPACKED_BYTES = 64 << 20
"""What is unpacked at once. A batch that is larger still is unpacked alone."""

if TYPE_CHECKING:
    import pyarrow as pa

    from raftlog.record import AbortedBatches, BatchHeader, Record


class CompletedFetch:
    """Whole batches of one partition; the first may begin below `position`.

    Each batch's payload checksum is checked before anything of it is returned. Only as many records are made as are
    asked for: they cost many times what the bytes do, in memory and in the garbage collector's time.

    Args:
        batches: at least one.
        aborted: what a reader of committed records leaves out.
        was_checked: the broker found every payload sound before it sent it.
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
        """Of the next record."""
        self.ends_answer = False
        """Whether its leader is to be asked again once the reader comes to it."""
        self.leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
        """Of the last batch that was read from; -1: of none yet."""
        self._last = batches[-1][0]
        self._batches = record.readable_batches(batches, aborted, from_offset=position)
        self._next: tuple[BatchHeader, memoryview] | None = next(self._batches, None)
        """The first batch that was not opened."""
        self._rows: pa.RecordBatch | None = None
        """What is left of the one that was."""
        self._epoch_of_rows: LeaderEpoch = NO_LEADER_EPOCH
        self._row_bytes = 0.0
        """What a record of that batch takes, on average."""

    @property
    def is_read(self) -> bool:
        """Whether nothing is left."""
        return self.position == self._last.next_offset

    def take(self, count: int) -> list[Record]:
        """Remove and return the first `count` records; fewer before a damaged batch, or one of another leader epoch.

        Fewer, too, where they take more than `MOST_UNPACKED_BYTES`.

        Raises:
            CorruptBatchError: the first batch's checksum is wrong.
        """
        records: list[Record] = []
        size = 0.0
        while len(records) < count and size < MOST_UNPACKED_BYTES:
            try:
                rows = self._open()
            except CorruptBatchError:
                if records:
                    return records  # The next call tells.
                raise
            if rows is None or (records and self._epoch_of_rows != self.leader_epoch):
                break
            piece = rows.slice(0, count - len(records))
            size += piece.num_rows * self._row_bytes
            records += record.to_records(piece, *self.partition)
            self._rows = rows.slice(piece.num_rows) if piece.num_rows < rows.num_rows else None
            self.position, self.leader_epoch = records[-1].offset + 1, self._epoch_of_rows
        if self._rows is None and self._next is None:
            self._finish()
        return records

    def arrow(self) -> pa.Table | None:
        """Remove and return the records from `position` on, if there are any, by `READ_SCHEMA`.

        All of them, or as many as unpack to `MOST_UNPACKED_BYTES`: `is_read` says which.

        Raises:
            CorruptBatchError: a checksum is wrong; the position is still that of the first record.
        """
        rows = record.to_table(self._verified(), from_offset=self.position, before=self._rows)
        self._rows = None
        if self._next is None:
            self._finish()
        else:
            self.position, self.leader_epoch = self._next[0].base_offset, self._epoch_of_rows
        return rows if rows.num_rows else None

    def _verified(self) -> Iterator[tuple[BatchHeader, memoryview]]:
        size = 0
        while self._next is not None:
            header, batch = self._next
            record.verify_payload_crc(header, batch)
            unpacked = unpacked_bytes(header, batch)
            if size and size + unpacked > MOST_UNPACKED_BYTES:
                return
            size += unpacked
            yield header, batch
            self._epoch_of_rows = header.leader_epoch
            self._next = next(self._batches, None)

    def _open(self) -> pa.RecordBatch | None:
        """Return what is left of the batch that is being read, or the next one that has records; None at the end."""
        while self._rows is None and self._next is not None:
            header, batch = self._next
            record.verify_payload_crc(header, batch)
            rows = record.to_arrow_with_offsets(header, batch, from_offset=self.position)
            self._next = next(self._batches, None)
            self._rows, self._epoch_of_rows = rows if rows.num_rows else None, header.leader_epoch
            self._row_bytes = unpacked_bytes(header, batch) / max(1, header.record_count)
        return self._rows

    def _finish(self) -> None:
        self.position, self.leader_epoch = self._last.next_offset, self._last.leader_epoch
