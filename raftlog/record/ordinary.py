"""The quick proof for ordinary batches: not compressed, without headers, their buffers in order.

Columns of nulls are compared with zero, which shows that there is nothing in them that could be wrong. Only columns
with contents are left for pyarrow to validate.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from raftlog.record.ipc_message import numbers_of
from raftlog.record.layouts import BUFFERS, MAX_METADATA_BYTES, NODES, known_numbers

_ZEROS = bytes(1 << 20)
"""As long as the offsets of 250,000 rows; pyarrow validates longer columns."""
_NO_ENTRIES = (0, 0, 0, 0, 0, 0)
"""Length and null count of the three nodes with one entry for each header."""
_KEY, _VALUE, _HEADERS = 4, 10, 16
"""Where the numbers of a column's buffers begin: offset and length of its validity, then of its offsets."""
_TIMESTAMP_BYTES = 3
"""Where the length of the timestamps is."""
_KEYS_BYTES, _VALUES_AT = 25, 30
"""Where the length of the offsets of the headers' keys is; where offset and length of those of their values are."""
_OFFSETS_OF_NOTHING = {0, 4}
"""The lengths of the offsets of an empty column."""


class _Shape(NamedTuple):
    """What the metadata of an ordinary batch says, if all its zeros are zeros."""

    rows: int
    body_bytes: int
    headers: slice
    """The zeros of headers that are null."""
    nulls: tuple[tuple[int, slice], ...]
    """Columns of nulls, and their zeros."""
    others: tuple[int, ...]
    """Columns with contents."""


def columns_with_contents(metadata: bytes, body: memoryview, rows: int) -> tuple[int, ...] | None:
    """Return the columns that have to be validated; None: the batch is not ordinary.

    Args:
        metadata: of a batch that is neither compressed nor compacted, by its header.

    Raises:
        CorruptBatchError: the metadata is wrong.
    """
    shape = _shape_of(metadata) if len(metadata) <= MAX_METADATA_BYTES else None
    if shape is None or shape.rows != rows or shape.body_bytes != len(body):
        return None
    if not _ZEROS.startswith(body[shape.headers]):
        return None
    columns = shape.others
    for column, zeros in shape.nulls:
        if not _ZEROS.startswith(body[zeros]):
            columns = (*columns, column)
    return columns


@lru_cache(maxsize=128)
def _shape_of(metadata: bytes) -> _Shape | None:
    """Return the shape of an ordinary batch; None: it is another one. Full batches of equal records share it."""
    numbers_of(metadata, NODES, BUFFERS)  # It remembers the layout.
    numbers = known_numbers(metadata, NODES, BUFFERS)
    if numbers is None or numbers.codec is not None:
        return None
    rows, nodes, buffers = numbers.rows, numbers.nodes, numbers.buffers
    key_nulls, value_nulls = nodes[3], nodes[5]
    expected = (rows, 0, rows, key_nulls, rows, value_nulls, rows, rows, *_NO_ENTRIES)
    if nodes != expected or key_nulls > rows or value_nulls > rows or not _are_in_order(buffers, numbers.body_length):
        return None
    headers, keys, values = (_zeros_of(column, rows, buffers) for column in (_HEADERS, _KEY, _VALUE))
    has_entries = {buffers[_KEYS_BYTES], buffers[_VALUES_AT + 1]} - _OFFSETS_OF_NOTHING
    if headers is None or has_entries or buffers[_TIMESTAMP_BYTES] < 8 * rows:
        return None
    nulls = {1: keys if key_nulls == rows else None, 2: values if value_nulls == rows else None}
    return _Shape(
        rows,
        numbers.body_length,
        slice(headers.start, buffers[_VALUES_AT] + buffers[_VALUES_AT + 1]),
        tuple((column, zeros) for column, zeros in nulls.items() if zeros is not None),
        tuple(column for column, zeros in nulls.items() if zeros is None),
    )


def _are_in_order(buffers: tuple[int, ...], body_bytes: int) -> bool:
    """Return whether no buffer begins before the end of the one before, and all end in the body."""
    end, numbers = 0, iter(buffers)
    for offset, length in zip(numbers, numbers, strict=True):
        if offset < end:
            return False
        end = offset + length
    return end <= body_bytes


def _zeros_of(column: int, rows: int, buffers: tuple[int, ...]) -> slice | None:
    """Return the part of the body that is zero if all rows of a column are null; None: it is too short."""
    validity, validity_bytes, offsets, offset_bytes = buffers[column : column + 4]
    if 8 * validity_bytes < rows or offset_bytes < 4 * (rows + 1):
        return None
    return slice(validity, offsets + offset_bytes)
