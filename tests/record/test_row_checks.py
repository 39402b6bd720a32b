"""Rows are refused exactly when pyarrow's full validation refuses them, whichever check looks at a column."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from raftlog.errors import CorruptBatchError
from raftlog.record import NewRecord, build_batch, parse_header, to_arrow
from raftlog.record.arrow import SCHEMA
from raftlog.record.batch import HEADER_BYTES
from raftlog.record.row_checks import validate_rows

MANY = 4_100
"""More rows than pyarrow validates alone."""


def payload_of(records: list[NewRecord], **options: object) -> bytes:
    return bytes(memoryview(build_batch(records, **options))[HEADER_BYTES:])  # type: ignore[arg-type]


def read(payload: bytes) -> pa.RecordBatch:
    return pa.ipc.read_record_batch(pa.py_buffer(payload), SCHEMA)


def is_valid(rows: pa.RecordBatch) -> bool:
    try:
        validate_rows(rows)
    except pa.ArrowInvalid:
        return False
    return True


def pyarrow_accepts(rows: pa.RecordBatch) -> bool:
    try:
        rows.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


SHAPES = {
    "values alone": payload_of([NewRecord(b"v" * 8, timestamp=1)] * MANY),
    "nulls alone": payload_of([NewRecord(None, timestamp=1)] * MANY),
    "keys": payload_of([NewRecord(b"v", key=b"k" if n % 2 else None, timestamp=1) for n in range(MANY)]),
    "headers": payload_of([NewRecord(b"v", headers=(("a", b"b"),), timestamp=1)] * MANY),
    "one header": payload_of(
        [NewRecord(b"v", headers=(("a", None),) if n == MANY - 1 else (), timestamp=1) for n in range(MANY)]
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_intact_rows_are_valid(shape: str) -> None:
    validate_rows(read(SHAPES[shape]))


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_compressed_rows_are_valid(compression: str) -> None:
    validate_rows(read(payload_of([NewRecord(b"v" * 8, timestamp=1)] * MANY, compression=compression)))


@pytest.mark.parametrize("shape", SHAPES)
@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_a_changed_byte_is_refused_exactly_where_pyarrow_refuses_it(shape: str, data: st.DataObject) -> None:
    payload = bytearray(SHAPES[shape])
    body = 8 + int.from_bytes(payload[4:8], "little")
    at = data.draw(st.integers(body, len(payload) - 1))
    payload[at] ^= data.draw(st.sampled_from((1, 0x80, 0xFF)))
    rows = read(bytes(payload))
    assert is_valid(rows) == pyarrow_accepts(rows)


@pytest.mark.parametrize("column", [1, 2, 3])
def test_every_wrong_offset_and_every_wrong_bit_of_a_column_of_nulls_is_refused(column: int) -> None:
    """The first, the last, and some between them; a byte behind the last offset is padding and stays allowed."""
    intact = SHAPES["nulls alone"]
    draw = random.Random(column)
    for buffer, size in zip(read(intact).column(column).buffers()[:2], (-(-MANY // 8), 4 * (MANY + 1)), strict=True):
        base = buffer.address - pa.py_buffer(intact).address
        assert 0 < base < len(intact)
        for at in (0, 7, 8, size - 1, *(draw.randrange(size) for _ in range(20))):
            payload = bytearray(intact)
            payload[base + at] ^= 0x40
            rows = read(bytes(payload))
            assert is_valid(rows) == pyarrow_accepts(rows)


def test_a_wrong_offset_ends_as_a_corrupt_batch() -> None:
    batch = build_batch([NewRecord(b"v", timestamp=1)] * MANY)
    rows = to_arrow(parse_header(batch), batch)
    offsets = rows.column(1).buffers()[1]
    at = offsets.address - pa.py_buffer(batch).address
    del rows, offsets
    batch[at + 40] = 7
    with pytest.raises(CorruptBatchError, match="damaged"):
        to_arrow(parse_header(batch), batch)
