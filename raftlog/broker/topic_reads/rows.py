"""Decodes stored batches to the rows of a read. Runs in worker threads. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from raftlog.model import AbortedTransaction, Offset
from raftlog.record import AbortedBatches, iter_batches, readable_batches, to_table, verify_payload_crc
from raftlog.record.batch import Buffer
from raftlog.record.unpacking import unpacked_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSelection:
    """The rows to select from a chunk."""

    begin: Offset
    end: Offset | None
    """Exclusive; None: no end."""
    key: bytes | None


def ends_of(batches: Buffer) -> Iterator[tuple[int, Offset]]:
    """Yield each batch's decompressed bytes and the offset after it.

    Raises:
        CorruptBatchError: a header or a structure is wrong.
    """
    for header, batch in iter_batches(batches):
        yield unpacked_bytes(header, batch), header.next_offset


def rows_below(rows: pa.Table, offset: Offset) -> int:
    """Return how many rows have smaller offsets; rows are sorted by offset."""
    offsets = rows.column("offset")
    return bisect_left(range(len(offsets)), offset, key=lambda row: offsets[row].as_py())


def rows_of(batches: Buffer, aborted: Iterable[AbortedTransaction], wanted: RowSelection) -> pa.Table:
    """Return the selected rows of whole batches, by `READ_SCHEMA`, without those of aborted transactions.

    Raises:
        CorruptBatchError: a checksum or a structure is wrong.
    """

    def checked() -> Iterable[tuple[object, memoryview]]:
        found = readable_batches(iter_batches(batches), AbortedBatches(aborted), from_offset=wanted.begin)
        for header, batch in found:
            if wanted.end is not None and header.base_offset >= wanted.end:
                return
            verify_payload_crc(header, batch)
            yield header, batch

    rows = to_table(checked(), from_offset=wanted.begin)  # type: ignore[arg-type]
    if wanted.end is not None:
        rows = rows.slice(0, rows_below(rows, wanted.end))
    if wanted.key is not None:
        rows = rows.filter(pc.equal(rows.column("key"), pa.scalar(wanted.key, pa.binary())))
    return rows
