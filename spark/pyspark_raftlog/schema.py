"""The source's columns, and the conversion of record batches to Spark's schema.

Spark accepts an Arrow batch only if its schema equals Spark's in names, order, types and nullability. Spark converts
each column to rows, which costs far more than the source: with `.schema("offset bigint, value binary")`, only those
columns are built.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import cast

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from raftlog.errors import ConfigError
from raftlog.model import TopicPartition

CREATE_TIME = 0
"""Kafka's `timestampType`: the producer set the timestamp."""

_HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
COLUMNS: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": _HEADERS,
}
_CANONICAL = {name.lower(): name for name in COLUMNS}


def source_schema(*, include_headers: bool) -> StructType:
    """Return all columns, in the order of Spark's Kafka source."""
    names = [name for name in COLUMNS if include_headers or name != "headers"]
    return StructType([StructField(name, COLUMNS[name]) for name in names])


def check_projection(schema: StructType) -> None:
    """Raise for a schema (from `.schema(...)`) with a column or type that the source does not have.

    Raises:
        ConfigError: names the column, its type and the existing columns.
    """
    for item in schema.fields:
        expected = COLUMNS.get(_CANONICAL.get(item.name.lower(), ""))
        if expected is None:
            raise ConfigError(f"there is no column {item.name!r}; columns are {', '.join(COLUMNS)}")
        if not _same_type(item.dataType, expected):
            requested, real = item.dataType.simpleString(), expected.simpleString()
            raise ConfigError(f"column {item.name!r} is {real}, not {requested}; read it as it is and cast it in Spark")


def needed_columns(schema: StructType, required: StructType) -> StructType:
    """Return the required columns of `schema`, unchanged; at least one, so that rows can be counted."""
    names = {name.lower() for name in required.names}
    kept = [item for item in schema.fields if item.name.lower() in names]
    narrowest = sorted(
        schema.fields, key=lambda item: (item.name.lower() != "partition", item.name.lower() != "offset")
    )
    return StructType(kept or narrowest[:1])


def _same_type(requested: DataType, expected: DataType) -> bool:
    return cast("bool", requested.simpleString() == expected.simpleString())


class BatchShaper:
    """Builds Spark's batches of one partition: selects columns, joins small batches, adds constants."""

    def __init__(self, schema: StructType, partition: TopicPartition) -> None:
        self._schema: pa.Schema = to_arrow_schema(schema, timezone="UTC")
        self._names = [_CANONICAL[name.lower()] for name in self._schema.names]
        self._constants = {
            "topic": _text(partition.topic),
            "partition": _number(partition.partition),
            "timestampType": _number(CREATE_TIME),
        }
        self._repeated: dict[str, pa.Array] = {}

    def shape(self, batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        """Join batches (offset, timestamp, key, value, headers) into one of Spark's."""
        rows = sum(batch.num_rows for batch in batches)
        columns = [
            self._constant(name, rows) if name in self._constants else _joined(name, batches, field.type)
            for name, field in zip(self._names, self._schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _constant(self, name: str, rows: int) -> pa.Array:
        """Return a column of one value, cut from the longest one built so far."""
        if name not in self._repeated or len(self._repeated[name]) < rows:
            self._repeated[name] = pa.repeat(self._constants[name], rows)
        return self._repeated[name].slice(0, rows)


# `pa.scalar` imports pandas if it is installed: half a second, and more objects for Spark's garbage collection.
def _text(value: str) -> pa.Scalar:
    data = value.encode()
    return pa.StringArray.from_buffers(1, pa.py_buffer(array("i", (0, len(data)))), pa.py_buffer(data))[0]


def _number(value: int) -> pa.Scalar:
    return pa.Array.from_buffers(pa.int32(), 1, [None, pa.py_buffer(array("i", (value,)))])[0]


def _joined(name: str, batches: Sequence[pa.RecordBatch], wanted: pa.DataType) -> pa.Array:
    pieces = [batch.column(name) for batch in batches]
    column = pieces[0] if len(pieces) == 1 else pa.concat_arrays(pieces)
    # Headers differ only in nested names and nullability: the cast keeps their buffers.
    return column if column.type.equals(wanted) else column.cast(wanted)
