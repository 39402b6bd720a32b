"""The entry point that Spark instantiates: it reads the options and hands over to a reader or a writer.

Imports stay inside the methods: Spark loads this module while it looks for data sources, long before anyone uses it.
"""

# ruff: noqa: N802, PLC0415 -- Spark names these methods; why imports are inside them is said above.

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceArrowWriter,
        DataSourceReader,
        DataSourceStreamArrowWriter,
        DataSourceStreamReader,
    )
    from pyspark.sql.types import StructType


class DefaultSource(DataSource):  # type: ignore[misc] # pyspark is untyped here
    """The topics of one raftlog cluster as a table or a stream."""

    @classmethod
    def name(cls) -> str:
        return "raftlog"

    def schema(self) -> StructType:
        from pyspark_raftlog.options import parse_options
        from pyspark_raftlog.schema import source_schema

        return source_schema(include_headers=parse_options(self.options).include_headers)

    def reader(self, schema: StructType) -> DataSourceReader:
        from pyspark_raftlog.options import parse_options
        from pyspark_raftlog.reader import RaftlogReader

        return RaftlogReader(parse_options(self.options).for_batch(), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from pyspark_raftlog.options import parse_options
        from pyspark_raftlog.stream import RaftlogStreamReader

        return RaftlogStreamReader(parse_options(self.options).for_stream(), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from pyspark_raftlog.sink import parse_sink_options
        from pyspark_raftlog.writer import RaftlogWriter

        return RaftlogWriter(parse_sink_options(self.options, overwrite=overwrite), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        from pyspark_raftlog.sink import parse_sink_options
        from pyspark_raftlog.writer import RaftlogStreamWriter

        return RaftlogStreamWriter(parse_sink_options(self.options, overwrite=overwrite), schema)
