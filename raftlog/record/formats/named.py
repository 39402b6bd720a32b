"""Rows with topic and partition columns, for formats that keep Arrow's types."""

from __future__ import annotations

import pyarrow as pa

from raftlog.record.tables import TABLE_SCHEMA


class NamedColumns:
    """Adds topic and partition to rows, without copying them, and selects the requested columns."""

    def __init__(self, columns: tuple[str, ...]) -> None:
        self.schema = pa.schema([TABLE_SCHEMA.field(name) for name in columns])
        self._made: dict[str, pa.Array] = {}
        self._made_of: tuple[str, int] = ("", -1)

    def of(self, topic: str, partition: int, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows of `READ_SCHEMA` with the columns of `schema`."""
        if self._made_of != (topic, partition):
            self._made, self._made_of = {}, (topic, partition)
        value: str | int
        columns = []
        for field in self.schema:
            if field.name in rows.schema.names:
                columns.append(rows.column(field.name))
                continue
            value = topic if field.name == "topic" else partition
            columns.append(self._repeated(field, value, rows.num_rows))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    def _repeated(self, field: pa.Field, value: str | int, count: int) -> pa.Array:
        """Return a constant column, sliced from a cached one."""
        found = self._made.get(field.name)
        if found is None or len(found) < count:
            found = self._made[field.name] = pa.repeat(pa.scalar(value, field.type), count)
        return found.slice(0, count)
