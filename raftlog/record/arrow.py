"""The payload: one encapsulated Arrow IPC RecordBatch message of a constant schema.

The schema is never sent, because both sides know it. Reading is zero-copy: columns point into the batch's bytes.
`reading.py` has the way back.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from raftlog.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, ProducerEpoch, ProducerId
from raftlog.record.batch import (
    ATTRIBUTE_SHORT,
    ATTRIBUTE_TRANSACTIONAL,
    HEADER_BYTES,
    Buffer,
    write_header,
)
from raftlog.record.compute import pc
from raftlog.record.headers import HEADERS_TYPE, HeaderColumn
from raftlog.record.model import Compression, Headers, NewRecord, RecordColumns
from raftlog.record.short import encode_short
from raftlog.record.small import encode, encode_one, few_records, one_record

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

_SCHEMA_MESSAGE_BYTES = {len(schema): schema.serialize().size for schema in (SCHEMA, COMPACTED_SCHEMA)}
# Neither here nor below `pa.array` or `pa.record_batch` at import: they load pandas, where it is installed.
NO_ROWS = pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in COMPACTED_SCHEMA], schema=COMPACTED_SCHEMA)
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
    if compression is None and (small := _small_payload(records, short=short)) is not None:
        payload, newest, is_short = small
        batch = bytearray(HEADER_BYTES)
        batch += payload
        write_header(
            batch,
            record_count=len(records),
            max_timestamp=newest,
            attributes=(ATTRIBUTE_TRANSACTIONAL if transactional else 0) | (ATTRIBUTE_SHORT if is_short else 0),
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


def _small_payload(records: Sequence[NewRecord] | RecordColumns, *, short: bool) -> tuple[bytes, int, bool] | None:
    """Return a payload without Arrow objects, its newest timestamp, and whether it is short; None: Arrow writes it."""
    if (one := one_record(records)) is not None:
        timestamp, key, value = one
        return encode_short(key, value) if short else encode_one(timestamp, key, value), timestamp, short
    if (few := few_records(records)) is not None:
        return encode(*few), max(few.timestamps), False
    return None


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
        nulls(count, pa.binary()) if columns.keys is None else pa.array(columns.keys, pa.binary()),
        pa.array(columns.values, pa.binary()),
        nulls(count, HEADERS_TYPE) if columns.headers is None else _headers_array(columns.headers),
    ]
    return pa.record_batch(arrays, schema=SCHEMA)


def nulls(count: int, kind: pa.DataType) -> pa.Array:
    """Return as many nulls, of bytes or of headers, in no more bytes than they need.

    The buffers of `pa.nulls` share one allocation of the longest length, and unused bytes are written to the batch,
    too: 8 bytes for each record without headers.
    """
    validity, offsets, _ = pa.nulls(count, pa.binary()).buffers()
    if kind.equals(HEADERS_TYPE):
        children = [NO_ROWS.column("headers").values]
        return pa.Array.from_buffers(kind, count, [validity, offsets], null_count=count, children=children)
    return pa.Array.from_buffers(kind, count, [validity, offsets, _NO_BYTES], null_count=count)


def _slim(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return the same rows, with columns of nulls in no more bytes than they need."""
    columns = [
        nulls(len(column), column.type) if field.nullable and column.null_count == len(column) else column
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
