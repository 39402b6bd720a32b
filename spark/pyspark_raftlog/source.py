"""The entry point that Spark instantiates: it parses the options and creates a reader or a writer.

Imports stay inside the methods: Spark loads this module while it looks for data sources, long before it is used.
"""

# ruff: noqa: N802, PLC0415 -- Spark names these methods; the module's docstring explains the imports.

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from pyspark_raftlog.error_output import plain_errors

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
        from pyspark_raftlog import tables
        from pyspark_raftlog.options import parse_options
        from pyspark_raftlog.schema import source_schema

        with plain_errors():
            if not tables.is_creation(self.options):
                parsed = parse_options(self.options)
                parsed.credentials.check()
                return source_schema(include_headers=parsed.include_headers)
            from pyspark_raftlog.sink import parse_sink_options

            options = tables.created_with(self.options)
            columns = source_schema(include_headers=parse_options(options).include_headers)
            # Reports an invalid option now instead of at the first INSERT.
            parse_sink_options(options, overwrite=False).without_batch_id()
            return tables.remember(columns, options)

    def reader(self, schema: StructType) -> DataSourceReader:
        from pyspark_raftlog.options import parse_options
        from pyspark_raftlog.reader import RaftlogReader
        from pyspark_raftlog.tables import recall

        with plain_errors():
            options = parse_options(recall(self.options, schema)).for_batch()
            options.credentials.check()
            return RaftlogReader(options, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from pyspark_raftlog.options import parse_options
        from pyspark_raftlog.stream import RaftlogStreamReader, RefusedStream
        from pyspark_raftlog.tables import recall
        from raftlog.errors import RaftlogError

        try:
            options = parse_options(recall(self.options, schema)).for_stream()
            options.credentials.check()
            return RaftlogStreamReader(options, schema)
        except RaftlogError as error:
            return RefusedStream(error)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        from pyspark_raftlog.sink import parse_sink_options
        from pyspark_raftlog.tables import recall
        from pyspark_raftlog.writer import RaftlogWriter

        with plain_errors():
            options = parse_sink_options(recall(self.options, schema, writing=True), overwrite=overwrite)
            options.credentials.check()
            return RaftlogWriter(options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        from pyspark_raftlog.sink import parse_sink_options
        from pyspark_raftlog.tables import require_options
        from pyspark_raftlog.writer import RaftlogStreamWriter
        from raftlog.errors import ConfigError

        with plain_errors():
            # The schema does not matter: a stream may have the columns of the table that it reads.
            require_options(self.options)
            if overwrite:
                raise ConfigError(
                    "outputMode('complete') would replace what the topic holds: use 'update', which writes the rows "
                    "that have changed, or 'append'"
                )
            options = parse_sink_options(self.options, overwrite=False).without_batch_id()
            options.credentials.check()
            return RaftlogStreamWriter(options, schema)
