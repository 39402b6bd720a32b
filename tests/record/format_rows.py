"""Rows for the tests of formats: possible input of producers, the worst of it on purpose."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import strategies as st

from raftlog.record.arrow import READ_SCHEMA
from raftlog.record.formats import COLUMNS, encoder
from raftlog.record.headers import HEADERS_TYPE

AWKWARD = (
    b"",
    b'"',
    b'""',
    b"\\",
    b'\\"',
    b"\\u0041",
    b"\x00",
    b"\x1f\x7f",
    b",",
    b",\n  ",
    b'",\n  "',
    b"\r\n",
    b"\r",
    b"null",
    b"NaN",
    b"[]",
    b"base64",
    "\u2028\u2029".encode(),
    "é😀\ufeff\uffff".encode(),
    b"\xc3",
    b"\xa9",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"\xed\xa0\xbd\xed\xb8\x80",
    b"\xc0\x80",
    b"\xe0\x80\x80",
    b"\xf4\x90\x80\x80",
    b"\xf0\x9f\x98",
    b'"\xff"\n',
)
TEXT = st.text("".join(map(chr, range(0x250))) + "\u2028\u2029\ufeff\uffff\U0001f600\U0010ffff", max_size=12)
FEW_BYTES = st.one_of(
    st.none(),
    st.sampled_from(AWKWARD),
    st.binary(max_size=12),
    TEXT.map(str.encode),
    st.lists(st.sampled_from(AWKWARD), max_size=4).map(b"".join),
)
HEADERS = st.one_of(
    st.none(),
    st.lists(st.fixed_dictionaries({"key": TEXT, "value": FEW_BYTES}), max_size=3),
)
TIMES = st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)
ROW = st.tuples(st.integers(0, 2**63 - 1), TIMES, FEW_BYTES, FEW_BYTES, HEADERS)


def rows_of(rows: list[tuple]) -> pa.RecordBatch:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(READ_SCHEMA)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, READ_SCHEMA, strict=True)]
    return pa.record_batch(arrays, schema=READ_SCHEMA)


@st.composite
def some_rows(draw: st.DrawFn, *, min_size: int = 0) -> pa.RecordBatch:
    """Rows in any form: whole, slices of others, or with columns of nulls only."""
    rows = rows_of(draw(st.lists(ROW, min_size=min_size, max_size=12)))
    for name in draw(st.sets(st.sampled_from(["key", "value", "headers"]))):
        at = rows.schema.get_field_index(name)
        rows = rows.set_column(at, READ_SCHEMA.field(at), pa.nulls(len(rows), READ_SCHEMA.field(at).type))
    return rows.slice(draw(st.integers(0, max(0, len(rows) - min_size))))


def many_rows(count: int, value: bytes = b"x" * 100, *, first: int = 0) -> pa.RecordBatch:
    """Rows that have only values, all of one length."""
    arrays = [
        pa.array(range(first, first + count), pa.int64()),
        pa.array(range(1_700_000_000_000_000, 1_700_000_000_000_000 + count), pa.timestamp("us", tz="UTC")),
        pa.nulls(count, pa.binary()),
        pa.repeat(pa.scalar(value), count),
        pa.nulls(count, HEADERS_TYPE),
    ]
    return pa.record_batch(arrays, schema=READ_SCHEMA)


def together(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Return one batch, in memory of its own, as `pa.concat_batches` does, which the oldest supported pyarrow lacks."""
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def rendered(form: str, *parts: pa.RecordBatch | pa.Table, columns: tuple[str, ...] = COLUMNS) -> bytes:
    made = encoder(form, columns)
    return made.begin() + b"".join([made.write("events", 3, rows) for rows in parts]) + made.end()


GOLDEN_ROWS = rows_of(
    [
        (7, 1_700_000_000_000_999, b"key", b"plain text", None),
        (8, -1, None, b'{"quoted": "a\\\\b"}\r\n', [{"key": "trace", "value": b"1"}, {"key": "trace", "value": None}]),
        (9, 0, b"", None, []),
        (2**63 - 1, 253_402_300_799_999_999, b"\xff\x00", "é\u2028\x00".encode(), [{"key": 'k"', "value": b"\xfe"}]),
    ]
)
