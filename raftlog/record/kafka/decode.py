"""Records of a large batch to columns, with numpy and pyarrow.

- Where a record begins is known only from the one before it. Runs of records of one length are found at once, others
  one by one.
- Then each field of all records is read together: the first field of each, the second of each, and so on.
- Keys, values and headers become columns only after every part is known to lie inside its record: Arrow trusts the
  offsets that it gets.
"""

from __future__ import annotations

from array import array
from typing import Any, NamedTuple

import pyarrow as pa

from raftlog.record.arrow import SCHEMA
from raftlog.record.batch import Buffer
from raftlog.record.headers import HEADERS_TYPE
from raftlog.record.kafka.arrays import np
from raftlog.record.kafka.header import KafkaHeader, invalid
from raftlog.record.kafka.loop import (
    MAX_TIMESTAMP_MS,
    header_key_refused,
    most_headers,
    timestamp_refused,
    too_many_headers,
)

Numbers = Any
"""An array of integers."""
_LEAST_RECORD_BYTES = 7
_INT_BYTES, _LONG_BYTES = 5, 10
_LAST = 0x80
_FIRST_WINDOW, _SHORT_RUN, _MAX_SHORT_RUNS = 64, 16, 8
_NULL = -1


class TooManyHeaders(Exception):  # noqa: N818  (no error: the caller reads the records one by one)
    """A record has more headers than are worth to be read by column."""


_MAX_HEADERS = 64


class _Pieces(NamedTuple):
    """Where one field of each record lies."""

    starts: Numbers
    sizes: Numbers
    """-1: null."""


def decode_columns(header: KafkaHeader, records: Buffer) -> pa.RecordBatch:
    """Return the unpacked records of a batch as rows of `SCHEMA`.

    Raises:
        InvalidRequestError: INVALID_RECORD, INVALID_TIMESTAMP.
        TooManyHeaders: read the batch one by one.
    """
    count = header.record_count
    if count * _LEAST_RECORD_BYTES > len(records):
        raise invalid(f"{count} records cannot be in {len(records)} bytes")
    starts, ends = _bounds(records, count)
    data = np.frombuffer(records, np.uint8)
    try:
        times, at = _varints(data, starts + 1, _LONG_BYTES)
        deltas, at = _varints(data, at)
        keys, at = _pieces(data, at)
        values, at = _pieces(data, at)
        counts, at = _varints(data, at)
        entries, at = _headers(data, counts, at, ends)
    except IndexError:
        raise invalid("the records end inside one of them") from None
    if (at != ends).any():
        raise invalid("a record has another length than its parts")
    if (deltas != np.arange(count)).any():
        raise invalid("the records' offset deltas are not 0, 1, 2 and so on")
    columns = [
        _times(header.base_timestamp, times),
        _column(records, keys),
        _column(records, values),
        _header_column(records, counts, entries),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def _times(base_ms: int, deltas: Numbers) -> pa.Array:
    limit = MAX_TIMESTAMP_MS
    # Each apart first: their sum may not fit into 64 bits.
    if abs(base_ms) > 2 * limit or int(deltas.max()) > 4 * limit or int(deltas.min()) < -4 * limit:
        raise timestamp_refused()
    times = deltas + base_ms
    if int(times.max()) > limit or int(times.min()) < -limit:
        raise timestamp_refused()
    return pa.Array.from_buffers(SCHEMA.field(0).type, len(times), [None, pa.py_buffer(times * 1000)])


# Where records lie.


def _bounds(records: Buffer, count: int) -> tuple[Numbers, Numbers]:
    """Return where each record begins, after its length, and ends."""
    data, total = np.frombuffer(records, np.uint8), len(records)
    starts, ends = np.empty(count, np.int64), np.empty(count, np.int64)
    done = at = short_runs = 0
    window = _FIRST_WINDOW
    while done < count and short_runs <= _MAX_SHORT_RUNS:
        start, end = _record_at(records, at)
        width, stride = start - at, end - at
        run = _run_length(data, at, width, stride, min(window, count - done))
        places = at + stride * np.arange(run)
        starts[done : done + run] = places + width
        ends[done : done + run] = places + stride
        short_runs += run < min(_SHORT_RUN, count - done)
        window = max(_FIRST_WINDOW, 4 * run)
        done, at = done + run, at + run * stride
    if done < count:
        starts[done:], ends[done:], at = _bounds_one_by_one(records, at, count - done)
    if at != total:
        raise invalid(f"{total - at} bytes follow the last of {count} records")
    return starts, ends


def _record_at(records: Buffer, at: int) -> tuple[int, int]:
    """Return where the record at `at` begins after its length, and ends."""
    size, shift = 0, 0
    for place in range(at, min(at + _INT_BYTES, len(records))):
        byte = records[place]
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < _LAST:
            end = place + 1 + (size >> 1)
            if size & 1 or end > len(records):
                raise invalid(f"a record has an impossible length at byte {at} of {len(records)}")
            return place + 1, end
    raise invalid("the records end inside a record's length")


def _run_length(data: Numbers, at: int, width: int, stride: int, most: int) -> int:
    """Return how many records from `at` on, at most `most`, have the length of the first one."""
    most = min(most, (len(data) - at) // stride)
    lengths = np.lib.stride_tricks.as_strided(data[at:], (most, width), (stride, 1))
    same = (lengths == lengths[0]).all(axis=1)
    return most if same.all() else int(same.argmin())


def _bounds_one_by_one(records: Buffer, at: int, count: int) -> tuple[Numbers, Numbers, int]:
    starts, ends = array("q", bytes(8 * count)), array("q", bytes(8 * count))
    data = bytes(records)
    total = len(data)
    for number in range(count):
        if at + 2 <= total and (size := data[at]) < _LAST:
            start = at + 1
        elif at + 3 <= total and data[at + 1] < _LAST:
            size = data[at] & 0x7F | data[at + 1] << 7
            start = at + 2
        else:
            start, at = _record_at(data, at)
            starts[number], ends[number] = start, at
            continue
        at = start + (size >> 1)
        if size & 1 or at > total:
            raise invalid(f"record {number} has an impossible length")
        starts[number], ends[number] = start, at
    return np.frombuffer(starts, np.int64), np.frombuffer(ends, np.int64), at


# Fields of all records.


def _varints(data: Numbers, at: Numbers, most_bytes: int = _INT_BYTES) -> tuple[Numbers, Numbers]:
    """Return the signed varint at each position, and the positions after them.

    Raises:
        IndexError: a position is outside.
    """
    byte = data[at]
    value = (byte & 0x7F).astype(np.uint64)
    after = at + 1
    longer = np.flatnonzero(byte >= _LAST)
    shift = 7
    while len(longer):
        if shift == 7 * most_bytes:
            raise invalid("a record has a number of too many bytes")
        byte = data[after[longer]]
        value[longer] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
        after[longer] += 1
        longer = longer[byte >= _LAST]
        shift += 7
    one = np.uint64(1)
    return (value >> one).view(np.int64) ^ -(value & one).view(np.int64), after


def _pieces(data: Numbers, at: Numbers) -> tuple[_Pieces, Numbers]:
    """Read bytes with their length before them. Whether they end inside the record is not checked here."""
    sizes, starts = _varints(data, at)
    if (sizes < _NULL).any():
        raise invalid("a part of a record has a negative length")
    return _Pieces(starts, sizes), starts + np.maximum(sizes, 0)


def _headers(data: Numbers, counts: Numbers, at: Numbers, ends: Numbers) -> tuple[tuple[_Pieces, _Pieces], Numbers]:
    """Read the headers of all records: the first one of each, the second one of each, and so on."""
    if (counts < 0).any() or (counts > np.maximum(ends - at, 0)).any():
        raise invalid("a record states an impossible number of headers")
    if (most := int(counts.max())) > _MAX_HEADERS:
        raise TooManyHeaders
    total = int(counts.sum())
    if total > (allowed := most_headers(len(data))):
        raise too_many_headers(total, allowed)
    names, contents = (_Pieces(np.zeros(total, np.int64), np.zeros(total, np.int64)) for _ in range(2))
    first = np.cumsum(counts) - counts
    at = at.copy()
    for number in range(most):
        having = np.flatnonzero(counts > number)
        place = first[having] + number
        name, after = _pieces(data, at[having])
        content, after = _pieces(data, after)
        names.starts[place], names.sizes[place] = name
        contents.starts[place], contents.sizes[place] = content
        at[having] = after
    if (names.sizes < 0).any():
        raise invalid("a header has no key")
    return (names, contents), at


# Columns.


def _column(records: Buffer, pieces: _Pieces) -> pa.Array:
    """Return parts of the records as a column of bytes. They lie inside `records`, one after another.

    Their ends cut the records into pieces and what is between them: every second one is taken.
    """
    count = len(pieces.starts)
    cuts = np.empty(2 * count, np.int32)
    cuts[0::2] = pieces.starts
    cuts[1::2] = pieces.starts + np.maximum(pieces.sizes, 0)
    cut = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(cuts), pa.py_buffer(records)])
    present = pieces.sizes >= 0
    validity = None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))
    every_second = pa.py_buffer(np.arange(0, 2 * count, 2, dtype=np.int32))
    return cut.take(pa.Array.from_buffers(pa.int32(), count, [validity, every_second]))


def _header_column(records: Buffer, counts: Numbers, entries: tuple[_Pieces, _Pieces]) -> pa.Array:
    if not counts.any():
        return pa.nulls(len(counts), HEADERS_TYPE)
    try:
        names = _column(records, entries[0]).cast(pa.string())
    except pa.ArrowInvalid:
        raise header_key_refused() from None
    both = pa.StructArray.from_arrays([names, _column(records, entries[1])], fields=list(HEADERS_TYPE.value_type))
    offsets = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    having = counts > 0
    validity = None if having.all() else pa.py_buffer(np.packbits(having, bitorder="little"))
    return pa.Array.from_buffers(HEADERS_TYPE, len(counts), [validity, pa.py_buffer(offsets)], children=[both])
