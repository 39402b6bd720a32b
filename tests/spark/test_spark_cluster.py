"""The data source against a real cluster, with a leader killed under a stream."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from raftlog.cli.local_cluster import LocalCluster
from raftlog.model import Address
from raftlog.transport.session import HttpSession
from raftlog.wire import paths
from raftlog.wire.metadata import CreateTopicRequest, TopicInfo

pytestmark = [pytest.mark.spark, pytest.mark.cluster]

RECORDS = 20_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("cluster"), port=0) as running:
        yield running


def create_topic(cluster: LocalCluster, topic: str) -> TopicInfo:
    async def ask() -> TopicInfo:
        address = cluster.node(cluster.brokers[0]).public
        assert isinstance(address, Address)
        request = CreateTopicRequest(topic=topic, partitions=4, replication_factor=3)
        async with HttpSession() as session:
            return await session.call(TopicInfo, "POST", address, paths.TOPICS, timeout_ms=30_000, message=request)

    return asyncio.run(ask())


def write(spark: SparkSession, cluster: LocalCluster, topic: str, start: int, end: int) -> None:
    frame = spark.range(start, end).selectExpr("cast(id % 100 as string) key", "cast(id as string) value")
    frame.write.format("raftlog").options(bootstrap=cluster.bootstrap, topic=topic).mode("append").save()


def numbers(frame: DataFrame) -> DataFrame:
    return frame.selectExpr("cast(cast(value as string) as bigint) number", "partition", "offset")


def test_spark_reads_what_spark_wrote(spark, cluster):
    create_topic(cluster, "numbers")
    write(spark, cluster, "numbers", 0, RECORDS)

    frame = numbers(spark.read.format("raftlog").options(bootstrap=cluster.bootstrap, subscribe="numbers").load())

    assert frame.selectExpr("count(*)", "sum(number)", "count(distinct number)").collect() == [
        (RECORDS, RECORDS * (RECORDS - 1) // 2, RECORDS)
    ]
    tops = frame.groupBy("partition").agg({"offset": "max", "*": "count"}).collect()
    assert all(row["max(offset)"] + 1 == row["count(1)"] for row in tops)


def test_a_stream_survives_the_death_of_a_leader(spark, cluster, tmp_path: Path):
    topic = create_topic(cluster, "events")
    write(spark, cluster, "events", 0, 1_000)
    source = spark.readStream.format("raftlog").options(
        bootstrap=cluster.bootstrap, subscribe="events", startingOffsets="earliest", maxOffsetsPerTrigger=700
    )
    folder, checkpoint = str(tmp_path / "out"), str(tmp_path / "checkpoint")

    def run() -> None:
        writer = numbers(source.load()).writeStream.format("parquet").option("checkpointLocation", checkpoint)
        writer.trigger(availableNow=True).start(folder).awaitTermination()

    run()
    cluster.kill(f"broker-{topic.partitions[0].leader}")
    try:
        write(spark, cluster, "events", 1_000, 2_000)
        run()
    finally:
        cluster.restart(f"broker-{topic.partitions[0].leader}")

    seen = spark.read.parquet(folder).selectExpr("count(*)", "count(distinct number)", "sum(number)").collect()
    assert seen == [(2_000, 2_000, 1_999_000)]
