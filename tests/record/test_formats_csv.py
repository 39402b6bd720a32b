"""CSV, as Python's, pandas' and Arrow's readers see it."""

from __future__ import annotations

import base64
import csv
import io

import orjson
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pytest
from format_rows import AWKWARD, GOLDEN_ROWS, rendered, rows_of, some_rows
from hypothesis import example, given

from raftlog.broker.json_records import record_to_json
from raftlog.record import to_records

NAMES = [
    "topic",
    "partition",
    "offset",
    "timestamp",
    "key",
    "key_encoding",
    "value",
    "value_encoding",
    "headers",
]
AWKWARD_ROWS = rows_of(
    [(number, number, value, value, [{"key": "k", "value": value}]) for number, value in enumerate((*AWKWARD, None))]
)


def expected(rows: pa.RecordBatch, null: str | None) -> list[dict[str, object]]:
    """What a reader makes of rows; `null` is empty for one that tells no nulls from empty strings."""
    lines = []
    for record in to_records(rows, "events", 3):
        line = record_to_json(record)
        for name, value in (("key", record.key), ("value", record.value)):
            line.setdefault(f"{name}_encoding", null)
            if value is None:
                line[name] = null
            elif b"\0" in value:
                line[name], line[f"{name}_encoding"] = base64.b64encode(value).decode(), "base64"
        lines.append(line)
    return lines


@given(some_rows())
@example(AWKWARD_ROWS)
def test_pythons_reader_finds_each_record(rows: pa.RecordBatch):
    text = rendered("csv", rows).decode()
    read = list(csv.DictReader(io.StringIO(text, newline=""), strict=True))
    for line in read:
        line["headers"] = orjson.loads(line["headers"])
        for name in ("partition", "offset", "timestamp"):
            line[name] = int(line[name])
    assert read == expected(rows, "")


@given(some_rows(min_size=1))
@example(AWKWARD_ROWS)
def test_arrows_reader_tells_nulls_from_empty_strings(rows: pa.RecordBatch):
    read = pa.csv.read_csv(
        io.BytesIO(rendered("csv", rows)),
        read_options=pa.csv.ReadOptions(use_threads=False),
        parse_options=pa.csv.ParseOptions(newlines_in_values=True),
        convert_options=pa.csv.ConvertOptions(
            column_types=dict.fromkeys(["key", "key_encoding", "value", "value_encoding", "headers"], pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    ).to_pylist()
    for line in read:
        line["headers"] = orjson.loads(line["headers"])
    assert read == expected(rows, None)


def test_pandas_reads_it():
    rows = AWKWARD_ROWS
    frame = pd.read_csv(io.BytesIO(rendered("csv", rows)), keep_default_na=False, dtype={"key": str, "value": str})
    assert list(frame.columns) == NAMES
    assert frame["offset"].dtype == "int64"
    assert frame["timestamp"].dtype == "int64"
    assert frame["value"].tolist() == [record["value"] for record in expected(rows, "")]


def test_what_was_written_can_be_had_back():
    text = rendered("csv", AWKWARD_ROWS).decode()
    values = []
    for line in csv.DictReader(io.StringIO(text, newline="")):
        is_base64 = line["value_encoding"] == "base64"
        values.append(base64.b64decode(line["value"]) if is_base64 else line["value"].encode())
    assert values == [*AWKWARD, b""]


def test_it_is_what_the_rfc_says():
    first = GOLDEN_ROWS.slice(0, 1)
    nothing = rows_of([(1, 0, None, b"", None), (2, 0, b"", None, None)])
    assert rendered("csv", first) == (
        b"topic,partition,offset,timestamp,key,key_encoding,value,value_encoding,headers\r\n"
        b'"events",3,7,1700000000000,"key",,"plain text",,"[]"\r\n'
    )
    lines = rendered("csv", nothing, columns=("offset", "value", "key")).split(b"\r\n")
    assert lines == [b"offset,value,value_encoding,key,key_encoding", b'1,"",,,', b'2,,,"",', b""]


@pytest.mark.parametrize("name", ["topic", "offset", "key", "headers"])
def test_one_column_is_enough_and_no_line_is_empty(name: str):
    lines = rendered("csv", AWKWARD_ROWS.slice(0, 2), columns=(name,)).split(b"\r\n")
    assert lines[0].split(b",")[0] == name.encode()
    assert all(lines[:-1])
