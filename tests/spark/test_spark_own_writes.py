"""What was written by one query is seen by the next, against a real cluster, without Spark's JVM."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructField, StructType

from pyspark_raftlog import commits
from pyspark_raftlog.background import background, close_background
from pyspark_raftlog.options import parse_options
from pyspark_raftlog.reader import RaftlogReader
from pyspark_raftlog.schema import source_schema
from pyspark_raftlog.sink import parse_sink_options, sink_columns
from pyspark_raftlog.writer import write_rows
from raftlog.blocking import Admin
from raftlog.cli.local_cluster import LocalCluster

pytestmark = pytest.mark.cluster
PARTITIONS = 30


@pytest.fixture(autouse=True)
def _connections() -> Iterator[None]:
    yield
    close_background()


def write(bootstrap: str, topic: str, values: list[str]) -> None:
    options = parse_sink_options({"bootstrap": bootstrap, "topic": topic}, overwrite=False)
    columns = sink_columns(StructType([StructField("key", StringType()), StructField("value", StringType())]), options)
    rows = pa.RecordBatch.from_pydict({"key": values, "value": values})
    written = write_rows(options, columns, iter([rows]), commits.batch_work(None))
    loop = background()
    loop.run(commits.commit(loop.cluster(options), [written]))


def count(bootstrap: str, topic: str) -> int:
    options = parse_options({"bootstrap": bootstrap, "subscribe": topic}).for_batch()
    reader = RaftlogReader(options, source_schema(include_headers=False))
    return sum(batch.num_rows for partition in reader.partitions() for batch in reader.read(partition))


def test_a_query_that_follows_a_write_reads_all_of_it(shared_cluster: LocalCluster, topic_name: str):
    with Admin(shared_cluster.bootstrap) as admin:
        admin.create_topic(topic_name, partitions=PARTITIONS)

    for written in range(1, 9):
        write(shared_cluster.bootstrap, topic_name, [str(n) for n in range(200)])
        assert count(shared_cluster.bootstrap, topic_name) == written * 200
