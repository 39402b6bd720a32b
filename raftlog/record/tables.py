"""Records as Arrow tables with topic and partition columns."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from raftlog.model import TopicPartition
from raftlog.record.arrow import READ_SCHEMA

TABLE_SCHEMA = pa.schema([pa.field("topic", pa.string()), pa.field("partition", pa.int32()), *READ_SCHEMA])


class NamedTables:
    """Builds tables. The constant topic and partition columns are built once and sliced."""

    def __init__(self) -> None:
        self._columns: dict[TopicPartition, tuple[pa.Array, pa.Array]] = {}

    def named(self, rows: pa.Table, partition: TopicPartition) -> pa.Table:
        """Return rows of `READ_SCHEMA` as a table of `TABLE_SCHEMA`, without copying them."""
        found = self._columns.get(partition)
        if found is None or len(found[0]) < rows.num_rows:
            name, number = pa.scalar(partition.topic), pa.scalar(partition.partition, pa.int32())
            found = (pa.repeat(name, rows.num_rows), pa.repeat(number, rows.num_rows))
            self._columns[partition] = found
        columns = [column.slice(0, rows.num_rows) for column in found]
        return pa.Table.from_arrays([*columns, *rows.columns], schema=TABLE_SCHEMA)

    @staticmethod
    def joined(tables: Sequence[pa.Table]) -> pa.Table:
        """Return tables of `TABLE_SCHEMA` as one, which may have no rows."""
        return pa.concat_tables(tables) if tables else TABLE_SCHEMA.empty_table()

    def forget(self, partition: TopicPartition) -> None:
        """Drop the cached columns of a partition."""
        self._columns.pop(partition, None)
