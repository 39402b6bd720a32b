"""JSON and NDJSON render each record as `record_to_json` does."""

from __future__ import annotations

import json

import orjson
import pyarrow as pa
import pytest
from format_rows import AWKWARD, GOLDEN_ROWS, many_rows, rendered, rows_of, some_rows, together
from hypothesis import example, given
from hypothesis import strategies as st

from raftlog.broker.json_records import record_to_json
from raftlog.record import to_records
from raftlog.record.formats import COLUMNS, encoder


def expected(rows: pa.RecordBatch) -> list[dict[str, object]]:
    return [record_to_json(record) for record in to_records(rows, "events", 3)]


def lines_of(text: bytes) -> list[dict[str, object]]:
    assert not text or text.endswith(b"\n")
    return [orjson.loads(line) for line in text.split(b"\n")[:-1]]


@given(some_rows())
@example(GOLDEN_ROWS)
@example(
    rows_of([(number, number, value, value, [{"key": "", "value": value}]) for number, value in enumerate(AWKWARD)])
)
def test_each_line_is_what_record_to_json_makes(rows: pa.RecordBatch):
    assert lines_of(rendered("ndjson", rows)) == expected(rows)


@given(st.lists(some_rows(), max_size=4))
def test_the_array_holds_what_the_lines_hold(parts: list[pa.RecordBatch]):
    assert json.loads(rendered("json", *parts)) == [record for rows in parts for record in expected(rows)]


@given(st.lists(st.binary(max_size=6), min_size=1, max_size=20))
def test_bytes_are_text_exactly_where_python_says_so(values: list[bytes]):
    rows = rows_of([(0, 0, None, value, None) for value in values])
    assert lines_of(rendered("ndjson", rows)) == expected(rows)


def test_every_byte_and_every_pair_of_lead_and_continuation_is_told_apart():
    leads, seconds = range(0xC0, 0x100), (0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xFF)
    values = [bytes([byte]) for byte in range(256)]
    values += [bytes([lead, second, *[0x80] * more]) for lead in leads for second in seconds for more in range(3)]
    rows = rows_of([(0, 0, None, value, None) for value in values])
    assert lines_of(rendered("ndjson", rows)) == expected(rows)


def test_a_character_may_not_be_split_between_records():
    rows = rows_of([(0, 0, None, b"\xc3", None), (1, 0, None, b"\xa9", None)])
    assert [line["value"] for line in lines_of(rendered("ndjson", rows))] == ["ww==", "qQ=="]


def test_what_lies_below_a_null_is_not_looked_at():
    value = pa.array([b'"\xff\n', b"text", b"more"], pa.binary())
    _, offsets, data = value.buffers()
    hidden = pa.Array.from_buffers(pa.binary(), 3, [pa.py_buffer(b"\x06"), offsets, data])
    rows = many_rows(3).set_column(3, "value", hidden).set_column(2, "key", hidden)
    assert [line["value"] for line in lines_of(rendered("ndjson", rows))] == [None, "text", "more"]


def test_pieces_end_between_records_and_not_within():
    rows = together([many_rows(15_000, b'"' * 99 + b"\xff"), many_rows(1, b"\n" * 3_000_000), many_rows(9)])
    assert lines_of(rendered("ndjson", rows)) == expected(rows)
    assert json.loads(rendered("json", rows, rows)) == expected(rows) * 2


def test_large_bytes_are_looked_at_in_linear_time():
    rows = rows_of([(0, 0, None, "é".encode() * 8_000_000 + b"\xff", None)])
    assert lines_of(rendered("ndjson", rows)) == expected(rows)


@pytest.mark.parametrize("columns", [(name,) for name in COLUMNS] + [("value", "key"), ("headers", "partition")])
def test_records_have_the_columns_asked_for_in_their_order(columns: tuple[str, ...]):
    lines = lines_of(rendered("ndjson", GOLDEN_ROWS, columns=columns))
    wanted = [{name: record[name] for name in columns} for record in expected(GOLDEN_ROWS)]
    assert [{name: line[name] for name in columns} for line in lines] == wanted
    assert all([name for name in line if name in COLUMNS] == list(columns) for line in lines)


def test_each_call_names_its_topic_and_partition():
    made = encoder("ndjson", ("topic", "partition"))
    text = b"".join([made.write("first", 0, many_rows(1)), made.write("second", 2**31 - 1, many_rows(1))])
    assert lines_of(text) == [{"topic": "first", "partition": 0}, {"topic": "second", "partition": 2**31 - 1}]


def test_an_array_without_records_is_one():
    assert json.loads(rendered("json")) == []
