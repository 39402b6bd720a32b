"""Reading batches: from a payload to rows, tables and records. `arrow.py` has the schemas, and writes.

Readers verify both checksums first (`verify_payload_crc`), and do not trust the producer for the rest: pyarrow reads
only messages that passed `check_structure`, decompresses at most `MAX_UNPACKED_BYTES`, and then validates every row.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate, repeat

import pyarrow as pa

from raftlog.errors import CorruptBatchError
from raftlog.model import Offset
from raftlog.record.arrow import COMPACTED_SCHEMA, NO_ROWS, READ_SCHEMA, SCHEMA, nulls
from raftlog.record.batch import HEADER_BYTES, BatchHeader, Buffer, iter_batches, verify_payload_crc
from raftlog.record.compute import pc
from raftlog.record.control import NOTHING_ABORTED, AbortedBatches, readable_batches
from raftlog.record.headers import HEADERS_TYPE
from raftlog.record.model import Headers, NewRecord, Record, RecordColumns
from raftlog.record.row_checks import validate_rows
from raftlog.record.short import as_arrow, read_short
from raftlog.record.structure import check_structure

MAX_UNPACKED_BYTES = 64 << 20
"""Limit of the uncompressed size of a batch: `max_message_bytes` is at most this."""
_OFFSET_DELTA = len(SCHEMA)


def to_arrow(header: BatchHeader, batch: Buffer) -> pa.RecordBatch:
    """Return the batch's rows, pointing into its bytes: by `SCHEMA`, or by `COMPACTED_SCHEMA` of a compacted batch.

    Raises:
        CorruptBatchError: the payload is not a record batch of this schema, or unpacks to more than
            `MAX_UNPACKED_BYTES`.
    """
    if header.is_empty:
        return NO_ROWS
    if header.is_short:
        return pa.ipc.read_record_batch(pa.py_buffer(as_arrow(header, batch)), SCHEMA)
    return _rows_of_all([(header, batch, _columns_to_validate(header, batch))])[0]


def _columns_to_validate(header: BatchHeader, batch: Buffer) -> tuple[int, ...] | None:
    """Check a batch before its columns are read; return the columns that have to be validated then. None: all.

    Raises:
        CorruptBatchError: the structure is wrong, or the payload unpacks to more than `MAX_UNPACKED_BYTES`.
    """
    unpacked, columns = check_structure(header, batch)
    # Compaction adds a column of offsets: 4 bytes for each record, and what aligns it.
    most = MAX_UNPACKED_BYTES + (8 * header.record_count + 4096 if header.is_compacted else 0)
    if unpacked > most:
        raise CorruptBatchError(
            f"batch at offset {header.base_offset}: the payload would unpack to {unpacked} bytes; no batch has more "
            f"than {most}"
        )
    return columns


def rows_of(header: BatchHeader, batch: Buffer, columns: tuple[int, ...] | None) -> pa.RecordBatch:
    """Return the rows of a batch that has some and whose payload passed `check_structure`.

    Args:
        columns: those that have to be validated; None: all.

    Raises:
        CorruptBatchError: the payload's contents are wrong.
    """
    return _rows_of_all([(header, batch, columns)])[0]


def _rows_of_all(checked: Sequence[tuple[BatchHeader, Buffer, tuple[int, ...] | None]]) -> list[pa.RecordBatch]:
    """Return the rows of each batch, as `rows_of` does.

    All are read, then all are validated. One batch after the other takes a fifth more: each step's code runs cold.
    """
    found: list[pa.RecordBatch] = []
    at: Offset | None = None
    try:
        for header, batch, _ in checked:
            at = header.base_offset
            payload = pa.py_buffer(memoryview(batch)[HEADER_BYTES : header.batch_length])
            found.append(pa.ipc.read_record_batch(payload, COMPACTED_SCHEMA if header.is_compacted else SCHEMA))
        if len(found) > 1 and _are_sound(found, {columns for _, _, columns in checked}):
            return found
        for (header, _, columns), rows in zip(checked, found, strict=True):
            at = header.base_offset
            if columns is None:
                validate_rows(rows)
                _require_contents(rows)
                continue
            for column in columns:
                rows.column(column).validate(full=True)
    except pa.ArrowMemoryError as error:
        raise MemoryError(str(error)) from None  # Not an error of the batch.
    except (pa.ArrowException, OSError) as error:
        raise CorruptBatchError(f"batch at offset {at}: the payload is damaged: {error}") from None
    return found


def _are_sound(found: Sequence[pa.RecordBatch], needed: set[tuple[int, ...] | None]) -> bool:
    """Validate the columns of several batches at once, if all need the same; False: each has to be validated alone."""
    columns = needed.pop() if len(needed) == 1 else None
    if columns is None:
        return False
    table = pa.Table.from_batches(found)
    try:
        for column in columns:
            table.column(column).validate(full=True)
    except pa.ArrowInvalid:
        return False  # The error of a batch alone says which one it is.
    return True


def _require_contents(rows: pa.RecordBatch) -> None:
    """Check what Arrow permits and a batch does not: nulls in columns without any, and the empty columns of headers.

    Raises:
        CorruptBatchError: one of them is wrong.
    """
    entries = rows.column(3).values
    keys, values = entries.field(0), entries.field(1)
    if rows.column(0).null_count or entries.null_count or keys.null_count:
        raise CorruptBatchError("a timestamp, a header or a header's key is null")
    if not len(entries) and not (_begins_at_0(keys) and _begins_at_0(values)):
        raise CorruptBatchError("a column without rows has offsets that point behind its end")


def _begins_at_0(empty: pa.Array) -> bool:
    """Return whether an empty column of bytes can be written: Arrow's writer slices its data at the first offset."""
    offsets = empty.buffers()[1]
    return offsets is None or not any(memoryview(offsets)[:4])


def to_arrow_with_offsets(header: BatchHeader, batch: Buffer, *, from_offset: Offset = 0) -> pa.RecordBatch:
    """Return the batch's rows by `READ_SCHEMA`, without those below `from_offset`."""
    rows = to_arrow(header, batch)
    if header.is_compacted:
        return _with_own_offsets(header, rows, from_offset)
    skip = max(0, from_offset - header.base_offset)
    offsets = _count_from(header.base_offset + skip, rows.num_rows - skip)
    return pa.record_batch([offsets, *(rows.slice(skip) if skip else rows).columns], schema=READ_SCHEMA)


def to_table(
    batches: Iterable[tuple[BatchHeader, Buffer]], *, from_offset: Offset = 0, before: pa.RecordBatch | None = None
) -> pa.Table:
    """Return the rows of several batches by `READ_SCHEMA`, after `before`; contiguous offsets are one array.

    Short batches that follow each other become one piece of the table.
    """
    tables = [] if before is None else [pa.Table.from_batches([before])]
    rows: list[pa.RecordBatch] = []
    spans: list[range] = []
    shorts = RecordColumns()
    given = list(batches)
    plain = [each for each in given if not (each[0].is_short or each[0].is_compacted)]
    decoded = iter(_rows_of_all([(*each, _columns_to_validate(*each)) for each in plain]))
    for header, batch in given:
        if header.is_short and header.base_offset >= from_offset:
            key, value = read_short(header, batch)
            shorts.append(NewRecord(value, key, header.max_timestamp))
            first = spans.pop().start if spans and spans[-1].stop == header.base_offset else header.base_offset
            spans.append(range(first, header.next_offset))
            continue
        if shorts.values:
            rows.append(_of_columns(shorts))
            shorts = RecordColumns()
        if header.is_compacted:
            compacted = to_arrow_with_offsets(header, batch, from_offset=from_offset)
            tables += [_numbered(rows, spans), pa.Table.from_batches([compacted])]
            rows, spans = [], []
            continue
        skip = max(0, from_offset - header.base_offset)
        read = to_arrow(header, batch) if header.is_short else next(decoded)
        rows.append(read.slice(skip) if skip else read)
        first = spans.pop().start if spans and spans[-1].stop == header.base_offset else header.base_offset + skip
        spans.append(range(first, header.base_offset + read.num_rows))
    if shorts.values:
        rows.append(_of_columns(shorts))
    tables.append(_numbered(rows, spans))
    return pa.concat_tables(tables) if len(tables) > 1 else tables[0]


def _of_columns(columns: RecordColumns) -> pa.RecordBatch:
    """Return records without headers as rows of `SCHEMA`, without `pa.array`, which loads pandas."""
    count = len(columns)
    arrays = [
        pa.Array.from_buffers(SCHEMA.field(0).type, count, [None, pa.py_buffer(columns.timestamps)]),
        nulls(count, pa.binary()) if columns.keys is None else _bytes_array(columns.keys),
        _bytes_array(columns.values),
        nulls(count, HEADERS_TYPE),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _bytes_array(values: Sequence[bytes | None]) -> pa.Array:
    offsets = array("i", accumulate((len(value or b"") for value in values), initial=0))
    validity, missing = None, values.count(None)
    if missing:
        bits = int("".join("0" if value is None else "1" for value in reversed(values)), 2)
        validity = pa.py_buffer(bits.to_bytes(-(-len(values) // 8), "little"))
    data = pa.py_buffer(b"".join(value or b"" for value in values))
    return pa.Array.from_buffers(pa.binary(), len(values), [validity, pa.py_buffer(offsets), data], null_count=missing)


def _numbered(rows: list[pa.RecordBatch], spans: list[range]) -> pa.Table:
    """Return rows of `SCHEMA` with their offsets."""
    offsets = pa.chunked_array([_count_from(span.start, len(span)) for span in spans], pa.int64())
    return pa.Table.from_arrays([offsets, *pa.Table.from_batches(rows, SCHEMA).columns], schema=READ_SCHEMA)


def _with_own_offsets(header: BatchHeader, rows: pa.RecordBatch, from_offset: Offset) -> pa.RecordBatch:
    offsets = pc.add(rows.column(_OFFSET_DELTA).cast(pa.int64()), header.base_offset)
    skip = pc.sum(pc.less(offsets, from_offset)).as_py() or 0
    columns = [column.slice(skip) for column in (offsets, *rows.columns[:_OFFSET_DELTA])]
    return pa.record_batch(columns, schema=READ_SCHEMA)


def read_records(
    batches: Buffer,
    *,
    topic: str,
    partition: int,
    from_offset: Offset = 0,
    aborted: AbortedBatches = NOTHING_ABORTED,
) -> list[Record]:
    """Decode concatenated batches, checking both checksums; records below `from_offset` are dropped.

    Args:
        aborted: transactions whose records are left out; markers are always left out.

    Raises:
        CorruptBatchError: a checksum or a structure is wrong.
    """
    records: list[Record] = []
    for header, batch in readable_batches(iter_batches(batches), aborted, from_offset=from_offset):
        verify_payload_crc(header, batch)
        if header.is_short:
            key, value = read_short(header, batch)
            records.append(Record(topic, partition, header.base_offset, header.max_timestamp, key, value, ()))
            continue
        rows = to_arrow_with_offsets(header, batch, from_offset=from_offset)
        records += to_records(rows, topic, partition)
    return records


_MAX_WINDOW = 16_384
_zero_on = pa.Array.from_buffers(pa.int64(), _MAX_WINDOW, [None, pa.py_buffer(array("q", range(_MAX_WINDOW)))])
_window: tuple[Offset, pa.Array] = (0, _zero_on)


def _count_from(first: Offset, count: int) -> pa.Array:
    """Return first, first + 1, ...: by one vectorised addition: building numbers is the largest cost of a decode.

    Batches are mostly read in sequence, so one addition serves the next ones, too.
    """
    global _window, _zero_on  # noqa: PLW0603  (caches; a thread that is late only adds once more)
    start, numbers = _window
    at = first - start
    if at < 0 or at + count > len(numbers):
        wide = max(count, min(8 * count, _MAX_WINDOW))
        if len(_zero_on) < wide:
            _zero_on = pa.Array.from_buffers(pa.int64(), 2 * wide, [None, pa.py_buffer(array("q", range(2 * wide)))])
        at, numbers = 0, pc.add(_zero_on.slice(0, wide), first)
        _window = (first, numbers)
    return numbers.slice(at, count)


def to_records(rows: pa.RecordBatch, topic: str, partition: int) -> list[Record]:
    """Return records from rows of `READ_SCHEMA`, in one pass that runs in C: columns to lists, lists to tuples."""
    offsets, timestamps, keys, values, headers = rows.columns
    columns = (
        repeat(topic, rows.num_rows),
        repeat(partition),
        offsets.to_pylist(),
        timestamps.view(pa.int64()).to_pylist(),
        repeat(None) if keys.null_count == rows.num_rows else keys.to_pylist(),
        values.to_pylist(),
        repeat(()) if headers.null_count == rows.num_rows else map(_headers_of, headers.to_pylist()),
    )
    # Not Record(*row) or Record._make(row): both are Python functions, called for each.
    return list(map(tuple.__new__, repeat(Record), zip(*columns, strict=False)))


def _headers_of(entries: list[dict[str, object]] | None) -> Headers:
    return tuple((entry["key"], entry["value"]) for entry in entries or ())  # type: ignore[misc]
