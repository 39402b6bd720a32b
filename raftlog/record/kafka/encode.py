"""Rows of a large batch to Kafka's records, with numpy and pyarrow.

What stands before a record's key, between key and value, and after the value is built for all records at once. Arrow
then joins it with keys, values and headers.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from raftlog.record.batch import Buffer
from raftlog.record.compute import pc
from raftlog.record.kafka.arrays import binary_column, np, numbers_of

Numbers = Any
"""An array of integers."""
_NO_HEADERS = b"\x00"


def encode_columns(rows: pa.RecordBatch, deltas: Numbers | None) -> tuple[int, int, Buffer]:
    """Return the first and the newest timestamp (ms since 1970), and the records.

    Args:
        rows: rows of `record.arrow.SCHEMA`; further columns are ignored.
        deltas: the offset of each record minus the batch's base offset; None: 0, 1, 2 and so on.
    """
    count = rows.num_rows
    times = numbers_of(rows.column(0), "int64") // 1000
    keys, values, headers = rows.column(1), rows.column(2), rows.column(3)
    key_sizes, value_sizes = _sizes(keys), _sizes(values)
    before_key = [times - times[0], np.arange(count) if deltas is None else deltas, key_sizes]
    before_value = [value_sizes]
    size = 1 + np.maximum(key_sizes, 0) + np.maximum(value_sizes, 0)
    tail: list[pa.Array | pa.Scalar] = [pa.scalar(_NO_HEADERS, pa.binary())]
    if headers.null_count < count:
        tail, tail_sizes = _header_parts(headers)
        size += tail_sizes
    else:
        size += len(_NO_HEADERS)
    parts: list[pa.Array | pa.Scalar] = []
    if keys.null_count == count:
        before_key, before_value = [*before_key, *before_value], []
    for field in (*before_key, *before_value):
        size += _widths(_zigzag(field))
    parts.append(_numbers_column([size, None, *before_key]))
    if before_value:
        parts += [keys, _numbers_column(before_value)]
    return int(times[0]), int(times.max()), _joined([*parts, values, *tail])


def _header_parts(headers: pa.Array) -> tuple[list[pa.Array], Numbers]:
    """Return for each record the number of its headers and the headers, and the size of both."""
    counts = numbers_of(headers.value_lengths().fill_null(0), "int32").astype(np.int64)
    entries = headers.flatten()
    names, contents = entries.field(0).cast(pa.binary()), entries.field(1)
    name_sizes, content_sizes = _numbers_column([_sizes(names)]), _numbers_column([_sizes(contents)])
    joined = pc.binary_join_element_wise(
        name_sizes, names, content_sizes, contents, _NOTHING, null_handling="replace", null_replacement=b""
    )
    ends = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=ends[1:])
    cuts = np.zeros(len(entries) + 1, np.int64)
    np.cumsum(_sizes(joined), out=cuts[1:])
    sizes = np.diff(cuts[ends])
    data = joined.buffers()[2] if len(joined) else b""
    return [_numbers_column([counts]), binary_column(sizes, data)], sizes + _widths(_zigzag(counts))


_NOTHING = pa.scalar(b"", pa.binary())


def _joined(parts: list[pa.Array | pa.Scalar]) -> Buffer:
    joined = pc.binary_join_element_wise(*parts, _NOTHING, null_handling="replace", null_replacement=b"")
    _, offsets, data = joined.buffers()
    end = int(np.frombuffer(offsets, np.int32)[len(joined)])
    return memoryview(data)[:end]


def _sizes(column: pa.Array) -> Numbers:
    """Return the size of each element; -1: null."""
    return numbers_of(pc.binary_length(column).fill_null(-1), "int32").astype(np.int64)


def _zigzag(numbers: Numbers) -> Numbers:
    return ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)


def _widths(unsigned: Numbers) -> Numbers:
    """Return how many bytes the varint of each number has."""
    widths = np.ones(len(unsigned), np.int64)
    largest, bits = int(unsigned.max()) if len(unsigned) else 0, 7
    while largest >> bits:
        widths += unsigned >= np.uint64(1 << bits)
        bits += 7
    return widths


def _numbers_column(fields: list[Numbers | None]) -> pa.Array:
    """Return for each row the signed varints of these fields, one after another; None: a byte 0."""
    numbers = [None if field is None else _zigzag(field) for field in fields]
    widths = [1 if unsigned is None else _widths(unsigned) for unsigned in numbers]
    sizes = np.sum(np.broadcast_arrays(*widths), axis=0)
    ends = np.cumsum(sizes)
    out = np.zeros(int(ends[-1]) if len(ends) else 0, np.uint8)
    at = ends - sizes
    for unsigned, width in zip(numbers, widths, strict=True):
        if unsigned is not None:
            _put(out, at, unsigned, width)
        at = at + width
    return binary_column(sizes, out)


def _put(out: Numbers, at: Numbers, unsigned: Numbers, widths: Numbers) -> None:
    """Write the varint of each number at its position."""
    if not len(unsigned):
        return
    if int(widths.max()) == 1:
        out[at] = unsigned
        return
    out[at] = (unsigned & np.uint64(0x7F)) | (np.uint64(0x80) * (widths > 1))
    for number in range(1, int(widths.max())):
        longer = np.flatnonzero(widths > number)
        more = widths[longer] > number + 1
        bits = (unsigned[longer] >> np.uint64(7 * number)) & np.uint64(0x7F)
        out[at[longer] + number] = bits | (np.uint64(0x80) * more)
