"""Columns: what exists, what may be asked for, and the exact form that Spark demands."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from pyspark_raftlog.schema import BatchShaper, check_projection, source_schema
from raftlog.errors import ConfigError
from raftlog.model import TopicPartition
from raftlog.record.arrow import build_batch
from raftlog.record.batch import parse_header
from raftlog.record.model import NewRecord
from raftlog.record.reading import to_arrow_with_offsets

ALL = source_schema(include_headers=True)
T3 = TopicPartition("t", 3)


def stored(count: int, *, headers: tuple[tuple[str, bytes | None], ...] = ()) -> pa.RecordBatch:
    batch = build_batch([NewRecord(b"v%d" % n, b"k", n, headers) for n in range(count)])
    return to_arrow_with_offsets(parse_header(batch), batch)


def only(name: str, kind: object) -> StructType:
    return StructType([StructField(name, kind)])


def test_headers_come_only_when_asked_for():
    assert source_schema(include_headers=False).names == ALL.names[:-1]
    assert ALL.names[-1] == "headers"


@pytest.mark.parametrize("headers", [(), (("h", b"1"), ("h", None))])
def test_a_batch_has_exactly_the_schema_that_spark_checks(headers):
    batch = BatchShaper(ALL, T3).shape([stored(2, headers=headers), stored(3, headers=headers)])

    batch.validate(full=True)
    assert batch.schema.equals(to_arrow_schema(ALL, timezone="UTC"), check_metadata=True)
    assert batch.num_rows == 5
    assert batch.column("partition").to_pylist() == [3] * 5
    expected = [{"key": key, "value": value} for key, value in headers] or None
    assert batch.column("headers").to_pylist() == [expected] * 5


def test_a_worker_does_not_import_pandas():
    batch = build_batch([NewRecord(b"v", b"k")])
    script = (
        "import sys; from pyspark_raftlog import fetch, reader, stream\n"
        "from pyspark_raftlog.schema import BatchShaper, source_schema; from raftlog.model import TopicPartition\n"
        "from raftlog.record.reading import to_arrow_with_offsets; from raftlog.record.batch import parse_header\n"
        f"batch = bytes.fromhex('{batch.hex()}'); rows = to_arrow_with_offsets(parse_header(batch), batch)\n"
        "shaped = BatchShaper(source_schema(include_headers=True), TopicPartition('t', 3)).shape([rows])\n"
        "print(shaped.num_rows, 'pandas' in sys.modules)"
    )

    found = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, check=True)

    assert found.stdout.split() == ["1", "False"]


def test_a_projection_keeps_the_asked_order_and_spelling():
    schema = StructType([StructField("Topic", StringType()), StructField("OFFSET", LongType())])

    batch = BatchShaper(schema, T3).shape([stored(2)])

    assert batch.to_pydict() == {"Topic": ["t", "t"], "OFFSET": [0, 1]}


def test_constant_columns_fit_batches_of_any_size():
    shaper = BatchShaper(only("topic", StringType()), T3)

    assert [shaper.shape([stored(count)]).num_rows for count in (3, 1, 7)] == [3, 1, 7]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (only("colour", StringType()), "no column 'colour'; columns are key, value, topic"),
        (only("offset", IntegerType()), "'offset' is bigint, not int"),
        (only("timestamp", TimestampNTZType()), "'timestamp' is timestamp, not timestamp_ntz"),
        (only("key", StringType()), "read it as it is and cast it"),
    ],
)
def test_what_is_not_there_is_refused(schema, message):
    with pytest.raises(ConfigError, match=message):
        check_projection(schema)


def test_what_is_there_is_accepted():
    check_projection(ALL)
    check_projection(only("TimeStamp", TimestampType()))
    check_projection(only("value", BinaryType()))
