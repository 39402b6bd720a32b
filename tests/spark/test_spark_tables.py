"""Topics as tables of Spark's catalog, and as views: one for reading and for INSERT."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_log import FakeLog
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

from pyspark_raftlog.schema import source_schema
from pyspark_raftlog.tables import created_with, is_creation, recall, remember
from raftlog.errors import ConfigError

CREATION = {"provider": "raftlog", "owner": "me"}
COLUMNS = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]


def test_a_tables_options_are_all_of_options_and_what_is_ours_of_its_properties():
    raw = CREATION | {
        "option.bootstrap": "h:1",
        "bootstrap": "h:1",
        "option.subscribe": "t",
        "isolation": "read_committed",
    }

    assert is_creation(raw | {"team": "mine"})
    assert not is_creation({"bootstrap": "h:1", "subscribe": "t"})
    assert created_with(raw | {"team": "mine"}) == {"bootstrap": "h:1", "subscribe": "t", "isolation": "read_committed"}
    assert created_with(CREATION | {"option.colour": "blue"}) == {"colour": "blue"}  # Refused as any unknown option is.


def test_options_that_contradict_properties_are_refused():
    with pytest.raises(ConfigError, match="option 'subscribe' is 'a' in OPTIONS and 'b' in TBLPROPERTIES: set it once"):
        created_with(CREATION | {"option.subscribe": "a", "subscribe": "b"})
    with pytest.raises(ConfigError, match="a topic has no LOCATION, received 'file:/data': use OPTIONS"):
        created_with(CREATION | {"option.subscribe": "a", "location": "file:/data"})


@pytest.fixture
def topics(log: FakeLog) -> FakeLog:
    """Topics `a`, with two records, and `b`, with none."""
    log.create("a", partitions=2)
    log.append("a", [b"1", b"2"])
    log.create("b", partitions=2)
    return log


@pytest.fixture
def tables(spark: SparkSession, topics: FakeLog) -> Iterator[FakeLog]:
    """Tables of the same names."""
    for name in ("a", "b"):
        spark.sql(f"CREATE TABLE {name} USING raftlog OPTIONS (bootStrap '{topics.url}', SUBSCRIBE '{name}')")
    yield topics
    for name in ("a", "b"):
        spark.sql(f"DROP TABLE IF EXISTS {name}")


def values(log: FakeLog, topic: str) -> list[bytes | None]:
    return sorted(record.value or b"" for record in log.records(topic))


@pytest.mark.spark
def test_a_table_is_read_and_written(spark, tables):
    assert spark.sql("SELECT count(*), max(offset) FROM a").collect() == [(2, 1)]

    spark.sql("INSERT INTO a (key, value) VALUES (X'6B', X'33')")
    spark.sql("INSERT INTO a (value) SELECT value FROM a WHERE offset = 0 AND partition = 0")

    assert values(tables, "a") == [b"1", b"1", b"2", b"3"]
    assert spark.sql("SELECT count(*) FROM a").collect() == [(4,)]  # Each query is planned anew.
    assert spark.newSession().sql("SELECT count(*) FROM a").collect() == [(4,)]


@pytest.mark.spark
def test_each_way_to_insert_goes_to_the_table_that_is_named(spark, tables):
    """The rows come from another table, whose columns carry its options."""
    rows = spark.table("a").select("key", "value")
    every = "key, value, null topic, partition, null offset, null timestamp, null timestampType"

    spark.sql("INSERT INTO b (key, value) SELECT key, value FROM a")
    spark.sql(f"INSERT INTO b SELECT {every} FROM a")
    rows.writeTo("b").append()
    rows.write.mode("append").format("raftlog").saveAsTable("b")
    spark.sql(f"SELECT {every} FROM a").write.insertInto("b")
    rows.write.format("raftlog").options(bootstrap=tables.url, topic="b").mode("append").save()

    assert (len(values(tables, "a")), len(values(tables, "b"))) == (2, 12)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("INSERT INTO b SELECT * FROM a", "column 'offset' is filled in by the log: leave it out of INSERT"),
        ("INSERT INTO b (value, topic) VALUES (X'31', 'a')", "column 'topic' holds 'a', and this table is of b"),
        ("INSERT INTO b (value, partition) VALUES (X'31', 7)", "column 'partition' must hold 0 to 1"),
        ("INSERT OVERWRITE b (value) VALUES (X'31')", "a topic cannot be overwritten"),
        ("INSERT INTO b (value) VALUES ('text')", "Cannot safely cast `value` \"STRING\" to \"BINARY\""),
        ("INSERT INTO b (colour) VALUES (1)", "Did you mean one of the following"),
        ("CREATE TABLE c USING raftlog OPTIONS (subscribe 'b') AS SELECT * FROM a", "filled in by the log"),
        ("CREATE TABLE c USING raftlog OPTIONS (subscribe 'b') AS SELECT value FROM a", "INSERT INTO it"),
        ("CREATE TABLE c USING raftlog OPTIONS (bootstrap 'h:1', subscrib 'b')", "did you mean subscribe"),
        ("CREATE TABLE c USING raftlog OPTIONS (bootstrap 'h:1', subscribe 'b', compression 'x')", "none, lz4 or zstd"),
        ("CREATE TABLE c USING raftlog OPTIONS (bootstrap 'h:1', topic 'b')", "only topic"),
        ("CREATE TABLE c USING raftlog", "option 'bootstrap' is required"),
    ],
)  # fmt: skip
def test_mistakes_with_tables_are_answered_and_write_nothing(spark, tables, statement, message):
    with pytest.raises(PySparkException, match=message):
        spark.sql(statement)

    assert (values(tables, "a"), values(tables, "b")) == ([b"1", b"2"], [])
    assert not spark.catalog.tableExists("c")


@pytest.mark.spark
def test_a_table_may_be_there_before_its_topic(spark, log):
    spark.sql(f"CREATE TABLE early USING raftlog OPTIONS (bootstrap '{log.url}', subscribe 'later', timeoutMs '300')")
    try:
        for statement in ("SELECT count(*) FROM early", "INSERT INTO early (value) VALUES (X'31')"):
            with pytest.raises(PySparkException, match="no such topic: later"):
                spark.sql(statement).collect()
        log.create("later")
        spark.sql("INSERT INTO early (value) VALUES (X'31')")
        assert spark.table("early").select("topic", "offset").collect() == [("later", 0)]
    finally:
        spark.sql("DROP TABLE early")
    assert values(log, "later") == [b"1"]  # Dropping a table leaves the topic.


@pytest.mark.spark
def test_a_table_with_columns_of_its_own_says_what_it_lacks(spark, log):
    """Spark asks the source for nothing when such a table is created, so it is said when it is read."""
    spark.sql(f"CREATE TABLE narrow (value BINARY) USING raftlog OPTIONS (bootstrap '{log.url}', subscribe 't')")
    try:
        with pytest.raises(AnalysisException, match="no column list, for example CREATE TABLE"):
            spark.table("narrow").collect()
    finally:
        spark.sql("DROP TABLE narrow")


@pytest.mark.spark
def test_a_query_may_have_options_of_its_own(spark, tables):
    end = json.dumps({"a": {"0": 1, "1": 0}})

    assert spark.sql(f"SELECT value FROM a WITH (endingOffsets = '{end}')").collect() == [(b"1",)]
    assert spark.read.option("endingOffsets", end).table("a").count() == 1
    assert spark.table("a").count() == 2


@pytest.mark.spark
def test_a_table_is_described_with_what_it_is_of(spark, tables):
    described = {row["col_name"]: row["comment"] for row in spark.sql("DESCRIBE a").collect()}

    assert list(described) == COLUMNS
    assert described["topic"] == f"raftlog[Subscribe[a]] at {tables.url}"
    assert f"raftlog[Subscribe[a]] at {tables.url}" in spark.sql("SHOW CREATE TABLE a").collect()[0][0]


@pytest.mark.spark
def test_a_table_is_read_as_a_stream(spark, tables, tmp_path):
    rows = spark.readStream.option("startingOffsets", "earliest").table("a").select("value")
    checkpoint = tmp_path / "checkpoint"
    given = {"bootstrap": tables.url, "topic": "b", "checkpointLocation": str(checkpoint)}

    rows.writeStream.format("raftlog").options(**given).trigger(availableNow=True).start().awaitTermination()

    assert values(tables, "b") == [b"1", b"2"]


@pytest.mark.spark
def test_a_stream_to_a_table_is_refused_rather_than_written_to_the_one_that_it_reads(spark, tables, tmp_path):
    """Spark hands over no options of the target's, and the columns are those of the source."""
    rows = spark.readStream.option("startingOffsets", "earliest").table("a").select("value")
    writer = rows.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)

    with pytest.raises(PySparkException, match=r"instead of toTable\(\), write a stream by .format\('raftlog'\)"):
        writer.toTable("b").awaitTermination()

    assert (len(values(tables, "a")), len(values(tables, "b"))) == (2, 0)


@pytest.mark.spark
def test_a_view_is_read_and_written(spark, topics):
    options = f"bootstrap '{topics.url}', subscribe 'b', compression 'zstd'"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW rows USING raftlog OPTIONS ({options})")

    spark.sql("INSERT INTO rows (value) VALUES (X'31'), (X'32')")

    read = spark.table("rows").selectExpr("cast(value as string) as text").orderBy("text").collect()
    assert read == [("1",), ("2",)]  # Each of Spark's tasks writes on its own: whose row is first, differs.


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_a_table_outlives_the_session_that_created_it(topics, tmp_path):
    run_session(tmp_path, f"CREATE TABLE a USING raftlog OPTIONS (bootstrap '{topics.url}', subscribe 'a')")

    assert run_session(tmp_path, "INSERT INTO a (value) VALUES (X'33')", "SELECT count(*) FROM a") == [[3]]


def run_session(folder: Path, *statements: str) -> object:
    program = str(Path(__file__).with_name("table_job.py"))
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, program, str(folder), *statements],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_options_are_kept_with_the_columns_and_a_query_with_a_bootstrap_is_on_no_table():
    schema = remember(source_schema(include_headers=False), {"bootstrap": "h:1", "subscribe": "t"})

    assert recall({}, schema) == {"bootstrap": "h:1", "subscribe": "t"}
    assert recall({"Isolation": "read_uncommitted"}, schema)["isolation"] == "read_uncommitted"
    assert recall({"bootstrap": "h:2", "topic": "u"}, schema) == {"bootstrap": "h:2", "topic": "u"}
    with pytest.raises(ConfigError, match="Spark has passed no options"):
        recall({}, source_schema(include_headers=False))
    with pytest.raises(ConfigError, match="Spark has passed no options"):
        recall({}, type(schema)(schema.fields[:2]), writing=True)
