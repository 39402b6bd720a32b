"""The payload: one encapsulated Arrow IPC RecordBatch message of a constant schema.

The schema is never sent, because both sides know it. Reading is zero-copy: columns point into the batch's bytes.
Readers verify both checksums first (`verify_payload_crc`), and do not trust the producer for the rest: pyarrow reads
only messages that passed `check_structure`, decompresses at most `MAX_UNPACKED_BYTES`, and then validates every row.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate, repeat

import pyarrow as pa

from raftlog.errors import CorruptBatchError
from raftlog.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, Offset, ProducerEpoch, ProducerId
from raftlog.record.batch import (
    ATTRIBUTE_SHORT,
    ATTRIBUTE_TRANSACTIONAL,
    HEADER_BYTES,
    BatchHeader,
    Buffer,
    iter_batches,
    verify_payload_crc,
    write_header,
)
from raftlog.record.compute import pc
from raftlog.record.control import NOTHING_ABORTED, AbortedBatches, readable_batches
from raftlog.record.headers import HEADERS_TYPE, HeaderColumn
from raftlog.record.model import Compression, Headers, NewRecord, Record, RecordColumns
from raftlog.record.row_checks import validate_rows
from raftlog.record.short import as_arrow, encode_short, read_short
from raftlog.record.single import encode, single_record
from raftlog.record.structure import check_structure

SCHEMA = pa.schema(
    [
        pa.field("timestamp", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("key", pa.binary(), nullable=True),
        pa.field("value", pa.binary(), nullable=True),
        pa.field("headers", HEADERS_TYPE, nullable=True),
    ]
)
READ_SCHEMA = pa.schema([pa.field("offset", pa.int64(), nullable=False), *SCHEMA])
"""The rows that readers get: each record's offset, then the payload's columns."""

COMPACTED_SCHEMA = SCHEMA.append(pa.field("offset_delta", pa.int32(), nullable=False))
"""The payload of a compacted batch: `offset_delta` is a record's offset minus the batch's base offset, and grows."""

MAX_UNPACKED_BYTES = 64 << 20
"""Limit of the uncompressed size of a batch: `max_message_bytes` is at most this."""

_SCHEMA_MESSAGE_BYTES = {len(schema): schema.serialize().size for schema in (SCHEMA, COMPACTED_SCHEMA)}
_OFFSET_DELTA = len(SCHEMA)
# Neither here nor below `pa.array` or `pa.record_batch` at import: they load pandas, where it is installed.
_NO_ROWS = pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in COMPACTED_SCHEMA], schema=COMPACTED_SCHEMA)
_NO_BYTES = pa.py_buffer(b"")
_ATTRIBUTE_OF: dict[str | None, int] = {None: 0, "lz4": 1, "zstd": 2}


def build_batch(
    records: Sequence[NewRecord] | RecordColumns,
    *,
    producer_id: ProducerId = NO_PRODUCER_ID,
    producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    compression: Compression | None = None,
    transactional: bool = False,
    short: bool = False,
) -> bytearray:
    """Encode records as one unstamped batch.

    Args:
        short: write one record without headers in the short form, which readers before feature level 5 refuse.

    Raises:
        ValueError: there are no records.
    """
    if not records:
        raise ValueError("a record batch holds at least one record, received none")
    if compression is None and (single := single_record(records)) is not None:
        timestamp, key, value = single
        batch = bytearray(HEADER_BYTES)
        batch += encode_short(key, value) if short else encode(timestamp, key, value)
        write_header(
            batch,
            record_count=1,
            max_timestamp=timestamp,
            attributes=(ATTRIBUTE_TRANSACTIONAL if transactional else 0) | (ATTRIBUTE_SHORT if short else 0),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
        )
        return batch
    return build_batch_from_arrow(
        rows_to_write(records),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        compression=compression,
        transactional=transactional,
    )


def _to_columns(records: Sequence[NewRecord]) -> RecordColumns:
    columns = RecordColumns()
    for record in records:
        columns.append(record)
    return columns


def rows_to_write(records: Sequence[NewRecord] | RecordColumns) -> pa.RecordBatch:
    """Return records as rows of `SCHEMA`."""
    columns = records if isinstance(records, RecordColumns) else _to_columns(records)
    count = len(columns)
    arrays = [
        pa.Array.from_buffers(SCHEMA.field(0).type, count, [None, pa.py_buffer(columns.timestamps)]),
        _nulls(count, pa.binary()) if columns.keys is None else pa.array(columns.keys, pa.binary()),
        pa.array(columns.values, pa.binary()),
        _nulls(count, HEADERS_TYPE) if columns.headers is None else _headers_array(columns.headers),
    ]
    return pa.record_batch(arrays, schema=SCHEMA)


def _nulls(count: int, kind: pa.DataType) -> pa.Array:
    """Return as many nulls, of bytes or of headers, in no more bytes than they need.

    The buffers of `pa.nulls` share one allocation of the longest length, and unused bytes are written to the batch,
    too: 8 bytes for each record without headers.
    """
    validity, offsets, _ = pa.nulls(count, pa.binary()).buffers()
    if kind.equals(HEADERS_TYPE):
        children = [_NO_ROWS.column("headers").values]
        return pa.Array.from_buffers(kind, count, [validity, offsets], null_count=count, children=children)
    return pa.Array.from_buffers(kind, count, [validity, offsets, _NO_BYTES], null_count=count)


def _slim(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return the same rows, with columns of nulls in no more bytes than they need."""
    columns = [
        _nulls(len(column), column.type) if field.nullable and column.null_count == len(column) else column
        for field, column in zip(rows.schema, rows.columns, strict=True)
    ]
    return pa.record_batch(columns, schema=rows.schema)


def build_batch_from_arrow(
    rows: pa.RecordBatch,
    *,
    producer_id: ProducerId = NO_PRODUCER_ID,
    producer_epoch: ProducerEpoch = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    compression: Compression | None = None,
    transactional: bool = False,
) -> bytearray:
    """Encode rows of `SCHEMA` as one unstamped batch.

    Raises:
        ValueError: there are no rows, or their schema is another one.
    """
    if rows.num_rows == 0 or not rows.schema.equals(SCHEMA):
        raise ValueError(f"expected rows of {SCHEMA.names}, received {rows.num_rows} of {rows.schema.names}")
    batch = bytearray(HEADER_BYTES)
    batch += encode_rows(rows, compression)
    write_header(
        batch,
        record_count=rows.num_rows,
        max_timestamp=pc.max(rows.column(0)).value,
        attributes=_ATTRIBUTE_OF[compression] | (ATTRIBUTE_TRANSACTIONAL if transactional else 0),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
    )
    return batch


def to_arrow(header: BatchHeader, batch: Buffer) -> pa.RecordBatch:
    """Return the batch's rows, pointing into its bytes: by `SCHEMA`, or by `COMPACTED_SCHEMA` of a compacted batch.

    Raises:
        CorruptBatchError: the payload is not a record batch of this schema, or unpacks to more than
            `MAX_UNPACKED_BYTES`.
    """
    if header.is_empty:
        return _NO_ROWS
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
        _nulls(count, pa.binary()) if columns.keys is None else _bytes_array(columns.keys),
        _bytes_array(columns.values),
        _nulls(count, HEADERS_TYPE),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _bytes_array(values: Sequence[bytes | None]) -> pa.Array:
    offsets = array("i", accumulate((len(value or b"") for value in values), initial=0))
    validity, nulls = None, values.count(None)
    if nulls:
        bits = int("".join("0" if value is None else "1" for value in reversed(values)), 2)
        validity = pa.py_buffer(bits.to_bytes(-(-len(values) // 8), "little"))
    data = pa.py_buffer(b"".join(value or b"" for value in values))
    return pa.Array.from_buffers(pa.binary(), len(values), [validity, pa.py_buffer(offsets), data], null_count=nulls)


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


def _headers_array(headers: Sequence[Headers]) -> pa.Array:
    column = HeaderColumn()
    for row in headers:
        column.append(row)
    return column.to_array()


def encode_rows(rows: pa.RecordBatch, compression: Compression | None) -> Buffer:
    """Return the payload of a batch of these rows, of which there is at least one."""
    rows = _slim(rows)
    if compression is None:
        return memoryview(rows.serialize())
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_batch(rows)
        end = sink.tell()
    return memoryview(sink.getvalue())[_SCHEMA_MESSAGE_BYTES[len(rows.schema)] : end]
