"""Rows cut into small batches, so that the memory for rendering one is released before the next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

PIECE_BYTES = 1 << 20
VALUES_AT_ONCE = 10_000
"""Values that become Python objects in one call, which takes 1 ms. It holds the interpreter, and so the event loop."""


def pieces(rows: pa.RecordBatch | pa.Table, *, size: int = PIECE_BYTES) -> Iterator[pa.RecordBatch]:
    """Return the same rows as batches of about `size` bytes, of one row at least, each column in one array."""
    count = rows.num_rows
    step = max(1, count * size // max(rows.nbytes, 1))
    for start in range(0, count, step):
        yield whole(rows.slice(start, step))


def whole(rows: pa.RecordBatch | pa.Table) -> pa.RecordBatch:
    """Return the rows, of which there is at least one, as one batch; they are copied if they are in several arrays."""
    if isinstance(rows, pa.RecordBatch):
        return rows
    (batch,) = rows.combine_chunks().to_batches()
    return batch


def value_pieces(column: pa.Array) -> Iterator[pa.Array]:
    """Return slices of a column: one row may have a million headers, which are a few KB when compressed."""
    return (column.slice(start, VALUES_AT_ONCE) for start in range(0, len(column), VALUES_AT_ONCE))


def data_of(strings: pa.Array) -> memoryview:
    """Return the bytes of an array of strings or bytes, of which there is at least one, one after another."""
    _, offsets, data = strings.buffers()
    ends = memoryview(offsets).cast("i")
    first, last = ends[strings.offset], ends[strings.offset + len(strings)]
    return memoryview(data)[first:last] if data else memoryview(b"")


def put_together(parts: Iterable[memoryview]) -> memoryview:
    """Join the parts. Each is released before the next is created.

    The result may have 100 MB. Arrow's stream copies it without the interpreter when it grows; `BytesIO` holds it.
    """
    grown = pa.BufferOutputStream()
    for part in parts:
        grown.write(part)
    return memoryview(grown.getvalue())
