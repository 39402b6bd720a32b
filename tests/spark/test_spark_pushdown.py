"""What filters say about records that need not be read, and that Spark's answers are the same with them or without."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from fake_log import FIRST_TIMESTAMP_MS
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)
from pyspark.sql.types import StructType

from pyspark_raftlog.offsets import OffsetRange
from pyspark_raftlog.options import parse_options
from pyspark_raftlog.pushdown import Pruning, prune
from pyspark_raftlog.reader import RaftlogReader
from pyspark_raftlog.schema import needed_columns, source_schema
from raftlog.model import TopicPartition
from raftlog.wire import paths

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)
NOON_US = 1_704_110_400_000_000


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([], (10, 20)),
        ([EqualTo(("offset",), 12)], (12, 13)),
        ([EqualNullSafe(("OFFSET",), 12)], (12, 13)),
        ([GreaterThan(("offset",), 12), LessThan(("offset",), 15)], (13, 15)),
        ([GreaterThanOrEqual(("offset",), 12), LessThanOrEqual(("offset",), 15)], (12, 16)),
        ([In(("offset",), (17, 12, 99))], (12, 20)),
        ([EqualTo(("offset",), 12), EqualTo(("offset",), 13)], (20, 20)),
        ([LessThan(("offset",), 5)], (10, 10)),
        ([GreaterThan(("offset",), 50)], (20, 20)),
        ([Not(EqualTo(("offset",), 12)), IsNotNull(("offset",)), GreaterThan(("value", "offset"), 15)], (10, 20)),
        ([GreaterThan(("offset",), None), GreaterThan(("offset",), 12.5)], (10, 20)),
    ],
)
def test_ranges_are_cut(filters, expected):
    cut = prune(filters).cut(OffsetRange("t", 0, 10, 20))

    assert (cut.start, cut.end) == expected


@pytest.mark.parametrize(
    ("filters", "admitted"),
    [
        ([EqualTo(("topic",), "a")], {("a", 0), ("a", 1)}),
        ([In(("topic",), ("b", "c")), LessThan(("partition",), 1)], {("b", 0)}),
        ([In(("partition",), (1, 5))], {("a", 1), ("b", 1)}),
        ([EqualTo(("topic",), "c")], set()),
        ([GreaterThan(("topic",), "a"), StringStartsWith(("topic",), "b")], {("a", 0), ("a", 1), ("b", 0), ("b", 1)}),
    ],
)
def test_partitions_are_left_out(filters, admitted):
    every = [TopicPartition(topic, partition) for topic in "ab" for partition in range(2)]

    assert {tuple(key) for key in every if prune(filters).admits(key)} == admitted


def test_times_are_instants():
    later = prune([GreaterThan(("timestamp",), NOON), LessThanOrEqual(("timestamp",), NOON + timedelta(seconds=1))])

    assert (later.timestamp_us.low, later.timestamp_us.high) == (NOON_US + 1, NOON_US + 1_000_000)
    assert prune([GreaterThan(("timestamp",), NOON.replace(tzinfo=None))]) == Pruning()


def test_every_filter_goes_back_to_spark():
    given = {"bootstrap": "h:1", "subscribe": "t", "pushDownPredicate": "true"}
    reader = RaftlogReader(parse_options(given).for_batch(), source_schema(include_headers=False))
    filters = [EqualTo(("offset",), 12), EqualTo(("key",), b"k")]

    assert reader.pushFilters(filters) == filters
    assert reader.pruning == prune(filters)
    travelled = pickle.loads(pickle.dumps(reader))
    assert travelled.pruning == prune(filters)


def test_spark_takes_the_reader_for_one_without_pushdown():
    """Else it refuses the reader while pushdown is off. This is how it looks; the tests below go through Spark."""
    given = {"bootstrap": "h:1", "subscribe": "t", "pushDownPredicate": "true"}
    reader = RaftlogReader(parse_options(given).for_batch(), source_schema(include_headers=False))

    assert reader.pushFilters.__func__ is DataSourceReader.pushFilters


@pytest.fixture
def flights(log):
    """Two topics of two partitions of 100 records, ten to a batch; record n is n seconds after the first."""
    for topic in ("flights", "other"):
        log.create(topic, partitions=2)
        for partition in range(2):
            for start in range(0, 100, 10):
                log.append(topic, [b"%d" % n for n in range(start, start + 10)], partition)
    return log


QUERIES = {
    "offset": ("offset >= 30 and offset < 34", 16),
    "partition": ("partition = 1", 200),
    "topic": ("topic = 'other'", 200),
    "topics and partitions": ("topic in ('other', 'flights') and partition in (0, 7)", 200),
    "all": ("topic = 'other' and partition = 0 and offset between 10 and 12", 3),
    "nothing": ("offset < 0", 0),
    "not pushed": ("offset % 2 = 0 and value like '1%'", 20),
}


@pytest.fixture(params=[("false", "false"), ("true", "false"), ("true", "true")], ids=["off", "Spark's alone", "on"])
def pushdown(spark, request) -> Iterator[str]:
    """Set Spark's option; return ours."""
    spark.conf.set(PUSHDOWN, request.param[0])
    yield request.param[1]
    spark.conf.unset(PUSHDOWN)


def frame(spark, log, pushdown="false"):
    given = {"bootstrap": log.url, "subscribe": "flights,other", "pushDownPredicate": pushdown}
    return spark.read.format("raftlog").options(**given).load()


@pytest.mark.spark
def test_spark_finds_the_same_rows_with_pushdown_and_without(spark, flights, pushdown):
    found = {name: frame(spark, flights, pushdown).where(text).count() for name, (text, _) in QUERIES.items()}

    assert found == {name: count for name, (_, count) in QUERIES.items()}
    first = datetime.fromtimestamp(FIRST_TIMESTAMP_MS / 1000, UTC)
    source = frame(spark, flights, pushdown)
    between = source["timestamp"].between(first + timedelta(seconds=20), first + timedelta(seconds=29))
    assert source.where(between).count() == 40


@pytest.mark.spark
@pytest.mark.parametrize("enabled", ["true", "false"])
def test_a_frame_may_be_used_again_and_again(spark, flights, enabled):
    """Spark keeps one plan for each frame, and what filters it pushed down last stays in it."""
    spark.conf.set(PUSHDOWN, enabled)
    try:
        again = frame(spark, flights)
        assert [again.where("partition = 0").count(), again.count()] == [200, 400]
        assert [again.where("offset < 5").count(), again.where("offset < 50").count()] == [20, 200]
        one, other = again.where("topic = 'other'"), again.where("topic = 'flights' and partition = 1")
        assert one.union(other).count() == 300
        assert one.join(other, "offset", "left_anti").count() == 0
        assert (
            again.alias("a").join(one.where("offset < 10").alias("b"), ["partition", "offset"], "left_anti").count()
            == 360
        )
        kept = again.where("partition = 1").cache()
        assert [kept.count(), again.count(), kept.count()] == [200, 400, 200]
        kept.unpersist()
        again.createOrReplaceTempView("again")
        counts = spark.sql(
            "select (select count(*) from again where partition = 0), (select count(*) from again where offset < 10), "
            "(select count(*) from again)"
        )
        assert tuple(counts.first()) == (200, 40, 400)
        within = spark.sql("select count(*) from again where offset in (select offset from again where offset < 3)")
        assert within.first()[0] == 12
    finally:
        spark.conf.unset(PUSHDOWN)


@pytest.mark.spark
def test_what_cannot_pass_is_not_fetched(spark, flights):
    spark.conf.set(PUSHDOWN, "true")
    try:
        one = frame(spark, flights, "true").where("topic = 'other' and partition = 1 and offset >= 95")
        assert one.rdd.getNumPartitions() == 1
        flights.requests.clear()
        assert one.count() == 5
    finally:
        spark.conf.unset(PUSHDOWN)
    assert flights.requests.count(paths.FETCH) == 1


def test_no_columns_are_pushed_down_in_a_spark_whose_plans_are_of_frames():
    """Once this fails, Spark has the API: run `python -m benchmarks.spark`, and read `plans_are_of_scans` again."""
    reader = RaftlogReader(parse_options({"bootstrap": "h:1", "subscribe": "t"}), source_schema(include_headers=False))

    assert not hasattr(DataSourceReader, "pruneColumns")
    assert not hasattr(reader, "pruneColumns")


def test_columns_are_pushed_down_where_spark_asks_for_them(monkeypatch):
    for name in ("pruneColumns", "pushLimit"):
        monkeypatch.setattr(DataSourceReader, name, lambda *_: None, raising=False)
    whole = source_schema(include_headers=False)
    reader = RaftlogReader(parse_options({"bootstrap": "h:1", "subscribe": "t"}), whole)

    assert reader.pruneColumns("another form of the question") == whole
    assert reader.pruneColumns(StructType([whole["value"], whole["offset"]])).names == ["value", "offset"]
    assert pickle.loads(pickle.dumps(reader))._schema.names == ["value", "offset"]


def test_what_spark_asked_for_before_is_not_pushed_down_where_plans_are_of_frames(monkeypatch):
    monkeypatch.setattr(DataSourceReader, "pruneColumns", lambda *_: None, raising=False)
    reader = RaftlogReader(parse_options({"bootstrap": "h:1", "subscribe": "t"}), source_schema(include_headers=False))

    assert "pruneColumns" not in vars(reader)


def test_rows_without_columns_are_counted_by_the_narrowest():
    schema = source_schema(include_headers=False)

    assert needed_columns(schema, StructType()).names == ["partition"]
    assert needed_columns(StructType([schema["value"]]), StructType()).names == ["value"]
    assert needed_columns(schema, StructType([schema["timestampType"]])).names == ["timestampType"]
