"""The limit of any Python source: one column that is in memory already, handed to Spark in a task for each core."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

BATCH_ROWS = 10_000


class CeilingSource(DataSource):  # type: ignore[misc] # pyspark is untyped here
    """`rows` offsets in `tasks` tasks."""

    @classmethod
    def name(cls) -> str:
        return "ceiling"

    def schema(self) -> str:
        return "offset bigint"

    def reader(self, schema: object) -> DataSourceReader:  # noqa: ARG002 -- there is one
        return _Reader(int(self.options["rows"]), int(self.options["tasks"]))


class _Reader(DataSourceReader):  # type: ignore[misc] # pyspark is untyped here
    def __init__(self, rows: int, tasks: int) -> None:
        self._rows, self._tasks = rows, tasks

    def partitions(self) -> list[InputPartition]:
        cuts = [self._rows * task // self._tasks for task in range(self._tasks + 1)]
        return [InputPartition(end - start) for start, end in pairwise(cuts)]

    def read(self, partition: InputPartition) -> Iterator[object]:
        import pyarrow as pa  # noqa: PLC0415 -- in the worker

        batch = pa.RecordBatch.from_pydict({"offset": pa.array(range(BATCH_ROWS), pa.int64())})
        whole, rest = divmod(partition.value, BATCH_ROWS)
        for _ in range(whole):
            yield batch
        if rest:
            yield batch.slice(0, rest)


def ceiling(spark: SparkSession, rows: int, tasks: int) -> DataFrame:
    """Return so many rows from memory."""
    spark.dataSource.register(CeilingSource)
    return spark.read.format("ceiling").options(rows=rows, tasks=tasks).load()
