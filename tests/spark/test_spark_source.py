"""Batch queries through a real Spark session, against a broker in a thread."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from fake_log import FIRST_TIMESTAMP_MS, FakeLog
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from raftlog.record.model import NewRecord

pytestmark = pytest.mark.spark


@pytest.fixture
def flights(log: FakeLog) -> FakeLog:
    """Three partitions of `flights`: 100, 200 and 0 records, in batches of 50, with their offset as value."""
    log.create("flights", partitions=3)
    for partition, batches in ((0, 2), (1, 4)):
        for i in range(batches):
            log.append("flights", [b"%d" % n for n in range(i * 50, i * 50 + 50)], partition)
    return log


def read(spark: SparkSession, log: FakeLog, schema: str | None = None, **options: Any) -> DataFrame:
    given = {"bootstrap": log.url, "subscribe": "flights"} | options
    reader = spark.read.format("raftlog").options(**{name: text for name, text in given.items() if text is not None})
    return (reader.schema(schema) if schema else reader).load()


def test_the_source_is_found_without_registration(spark, flights):
    frame = read(spark, flights)

    assert frame.columns == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    assert frame.count() == 300


def test_spark_computes_what_was_written(spark, flights):
    totals = read(spark, flights).groupBy("topic", "partition").agg(
        {"offset": "sum", "*": "count"}).orderBy("partition").collect()  # fmt: skip

    assert [tuple(row) for row in totals] == [("flights", 0, 4950, 100), ("flights", 1, 19900, 200)]


def test_every_column_of_a_record_arrives(spark, log):
    log.create("flights")
    headers = (("source", b"nyc"), ("source", None))
    log.append("flights", [NewRecord(b"v", b"k", 1_700_000_000_123_456, headers), NewRecord(None, None, 5, ())])

    first, second = read(spark, log, includeHeaders="true").orderBy("offset").collect()

    assert first.asDict(recursive=True) == {
        "key": b"k",
        "value": b"v",
        "topic": "flights",
        "partition": 0,
        "offset": 0,
        "timestamp": datetime.fromtimestamp(1_700_000_000.123456, UTC).replace(tzinfo=None),
        "timestampType": 0,
        "headers": [{"key": "source", "value": b"nyc"}, {"key": "source", "value": None}],
    }
    assert (second.key, second.value, second.headers) == (None, None, None)


def test_a_schema_projects_columns_by_name(spark, flights):
    frame = read(spark, flights, "OFFSET bigint, value binary")

    assert frame.columns == ["OFFSET", "value"]
    assert all(int(bytes(row.value)) == row.OFFSET for row in frame.collect())


def test_headers_may_be_projected(spark, flights):
    frame = read(spark, flights, "headers array<struct<key:string,value:binary>>, partition int")

    assert frame.where("headers is null").count() == 300


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("colour string", "no column 'colour'; columns are key, value"),
        ("value string", "'value' is binary, not string"),
    ],
)
def test_a_wrong_schema_is_refused(spark, flights, schema, message):
    with pytest.raises(AnalysisException, match=message):
        read(spark, flights, schema).count()


def test_a_range_begins_and_ends_inside_of_batches(spark, flights):
    starting = json.dumps({"flights": {"0": 30, "1": -2, "2": -2}})
    ending = json.dumps({"flights": {"0": 60, "1": 1, "2": -1}})

    rows = read(spark, flights, startingOffsets=starting, endingOffsets=ending).orderBy("partition", "offset").collect()

    assert [(row.partition, row.offset) for row in rows] == [(0, offset) for offset in range(30, 60)] + [(1, 0)]


def test_a_range_may_be_chosen_by_time(spark, flights):
    frame = read(
        spark,
        flights,
        assign='{"flights": [1]}',
        subscribe=None,
        startingTimestamp=FIRST_TIMESTAMP_MS + 10_000,
        endingTimestamp=FIRST_TIMESTAMP_MS + 20_000,
    )

    assert [row.offset for row in frame.orderBy("offset").collect()] == list(range(10, 20))


@pytest.mark.parametrize(
    ("options", "tasks"),
    [({}, 2), ({"minPartitions": "7"}, 7), ({"maxRecordsPerPartition": "60"}, 6), ({"maxPartitions": "1"}, 1)],
)
def test_ranges_are_cut_into_tasks(spark, flights, options, tasks):
    frame = read(spark, flights, **options)

    assert frame.rdd.getNumPartitions() == tasks
    assert frame.selectExpr("sum(offset)", "count(*)").collect() == [(24850, 300)]


def test_topics_may_be_named_by_pattern(spark, flights):
    flights.create("flights-late")
    flights.append("flights-late", [b"x"])
    flights.create("other")

    frame = read(spark, flights, subscribe=None, subscribePattern="flights.*")

    assert {tuple(row) for row in frame.groupBy("topic").count().collect()} == {("flights", 300), ("flights-late", 1)}


def test_an_empty_topic_is_an_empty_table(spark, log):
    log.create("flights", partitions=2)

    assert read(spark, log).count() == 0


def test_a_limit_stops_reading_early(spark, flights):
    assert len(read(spark, flights, "value binary").take(3)) == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": "fligths"}, "no such topic: fligths .*create it, or correct"),
        ({"subscribe": None, "assign": '{"flights": [0, 9]}'}, "partitions that do not exist: flights-9"),
        ({"startingOffsets": '{"flights": {"0": 0}}'}, "missing: flights-1, flights-2"),
        ({"startingOffsets": '{"flights": {"0": 7, "1": 0, "2": 0}}',
          "endingOffsets": '{"flights": {"0": 3, "1": 0, "2": 0}}'}, "begin at offset 7 and end before it, at 3"),
        ({"startingTimestamp": str(FIRST_TIMESTAMP_MS * 2)}, "no record at or after"),
        ({"colour": "blue"}, "unknown option 'colour'; known options are bootstrap"),
        ({"kafka.bootstrap.servers": "h:9092"}, "use .option"),
    ],
)  # fmt: skip
def test_a_mistake_is_an_analysis_error_that_says_what_to_do(spark, flights, options, message):
    with pytest.raises(AnalysisException, match=message):
        read(spark, flights, timeoutMs="300", **options).count()


def test_a_cluster_that_nobody_hears_is_named(spark, log, free_ports):
    (port,) = free_ports(1)
    with pytest.raises(
        AnalysisException, match=f"no success within 300 ms; the last error: cannot connect to 127.0.0.1:{port}"
    ):
        read(spark, log, bootstrap=f"http://127.0.0.1:{port}", timeoutMs="300").count()


def test_a_deleted_range_is_a_loss(spark, flights):
    starting = json.dumps({"flights": {"0": 30, "1": 0, "2": 0}})
    flights.delete_before("flights", 50)
    with pytest.raises(AnalysisException, match=r"flights-0: offset 30 was requested, the log has \[50, 100\).*"):
        read(spark, flights, startingOffsets=starting).count()

    assert read(spark, flights, startingOffsets=starting, failOnDataLoss="false").count() == 250


def test_a_flipped_bit_fails_the_query(spark, flights):
    flights.corrupt("flights")
    with pytest.raises(PySparkException, match="CorruptBatchError"):
        read(spark, flights).count()
