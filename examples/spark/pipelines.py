"""Streams over real flights: windows with a watermark, joins, files, and a table rebuilt from its topic.

Every function takes and returns DataFrames, or starts one query, so take what you need. `tests/spark/test_pipelines.py`
runs them on the flights that left New York City in 2013.

    flights   key: carrier, value: {"carrier": "UA", "flight": 1545, "origin": "EWR", "time_hour": "2013-01-01T10:00:00Z", ...}
    weather   key: origin, value: {"origin": "EWR", "time_hour": "2013-01-01T10:00:00Z", "temp": 39.02, "visib": 10.0}
    planes    key: tailnum, value: {"tailnum": "N10156", "manufacturer": "EMBRAER", ...}, compacted
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (the name that Spark people use)
from pyspark.sql.streaming import StreamingQuery

FLIGHT = "row bigint, carrier string, flight int, tailnum string, origin string, dep_delay double, time_hour timestamp"
WEATHER = "origin string, time_hour timestamp, temp double, visib double"
PLANE = "tailnum string, manufacturer string, model string, year int"


def read_stream(spark: SparkSession, bootstrap: str, topic: str, **options: str) -> DataFrame:
    """Read a topic from its beginning and on."""
    given = {"bootstrap": bootstrap, "subscribe": topic, "startingOffsets": "earliest"} | options
    return spark.readStream.format("raftlog").options(**given).load()


def read_batch(spark: SparkSession, bootstrap: str, topic: str, **options: str) -> DataFrame:
    """Read what a topic holds now."""
    return spark.read.format("raftlog").options(bootstrap=bootstrap, subscribe=topic, **options).load()


def parse(records: DataFrame, schema: str) -> DataFrame:
    """Turn JSON values into columns; a value that is no JSON becomes nulls."""
    return records.select(F.from_json(F.col("value").cast("string"), schema).alias("row")).select("row.*")


def to_json(rows: DataFrame, *, key: str) -> DataFrame:
    """Turn columns into the sink's columns."""
    return rows.select(F.col(key).cast("string").alias("key"), F.to_json(F.struct("*")).alias("value"))


def write_topic(rows: DataFrame, bootstrap: str, topic: str, checkpoint: Path) -> StreamingQuery:
    """Append a stream of `key` and `value` to a topic, until it has caught up."""
    return (
        rows.writeStream.format("raftlog")
        .options(bootstrap=bootstrap, topic=topic, checkpointLocation=str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )


# Windows with a watermark.


def delays_per_carrier(flights: DataFrame, *, window: str = "1 day", late: str = "12 hours") -> DataFrame:
    """Count and average departure delays by carrier and window of departure.

    A window is written once: when no flight at most `late` behind the latest one can change it any more.
    """
    return (
        flights.withWatermark("time_hour", late)
        .groupBy(F.window("time_hour", window).alias("day"), "carrier")
        .agg(F.count("dep_delay").alias("departed"), F.avg("dep_delay").alias("delay"))
        .select(F.col("day.start").alias("day"), "carrier", "departed", "delay")
    )


# Joins.


def with_weather(flights: DataFrame, weather: DataFrame, *, late: str = "6 hours") -> DataFrame:
    """Join each flight with the weather of its hour and airport: two streams, either may be behind by `late`."""
    left = flights.withWatermark("time_hour", late)
    right = weather.withWatermark("time_hour", late)
    return left.join(right, ["origin", "time_hour"])


def latest_by_key(records: DataFrame) -> DataFrame:
    """Return a compacted topic as a table: the last record of each key, without deleted ones.

    Compaction comes later than the records, so a topic may hold several of a key. A key is in one partition: its
    records are in the order of their offsets.
    """
    last = records.groupBy("key").agg(F.max_by("value", "offset").alias("value"))
    return last.where("value is not null")


def with_planes(flights: DataFrame, planes: DataFrame) -> DataFrame:
    """Join a stream of flights with the table of planes; flights of unknown planes stay."""
    return flights.join(planes, "tailnum", "left")


# Files and object stores: any path that Spark can read and write, s3a:// for example.


def topic_to_parquet(records: DataFrame, path: Path | str, checkpoint: Path) -> StreamingQuery:
    """Write a stream as Parquet files, each record once, by topic and partition."""
    return (
        records.writeStream.format("parquet")
        .partitionBy("topic", "partition")
        .options(path=str(path), checkpointLocation=str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )


def parquet_to_topic(
    spark: SparkSession, path: Path | str, bootstrap: str, topic: str, checkpoint: Path
) -> StreamingQuery:
    """Copy Parquet files of `key` and `value` to a topic: present files, and later new ones."""
    rows = spark.readStream.schema("key binary, value binary").option("recursiveFileLookup", "true").parquet(str(path))
    return write_topic(rows, bootstrap, topic, checkpoint)


def files_to_topic(
    spark: SparkSession, path: Path | str, bootstrap: str, topic: str, checkpoint: Path, *, schema: str, key: str,
    options: Mapping[str, str] | None = None,
) -> StreamingQuery:  # fmt: skip
    """Copy the rows of CSV files to a topic as JSON: present files, and in later runs new ones.

    Fields may be quoted as RFC 4180 requires: a quote inside is doubled, and lines may end inside. Spark's own default
    is a backslash before a quote, and one line for each row.
    """
    standard = {"header": "true", "escape": '"', "multiLine": "true"}
    rows = spark.readStream.schema(schema).options(**standard | dict(options or {})).csv(str(path))
    return write_topic(to_json(rows, key=key), bootstrap, topic, checkpoint)


# Kappa: a table is the result of code that reads the log. New code reads the log again.


def rebuild(spark: SparkSession, rows: DataFrame, folder: Path, version: int) -> DataFrame:
    """Make a new version of a table from a batch read of its topic, then have `folder/CURRENT` name it.

    Readers of the old version continue with it until the new one is complete. Read the topic from any offset
    (`startingOffsets`); the same range gives the same rows, however often and after whatever failure it is read.
    """
    target = folder / f"version={version}"
    rows.write.mode("overwrite").parquet(str(target))
    (folder / "CURRENT.new").write_text(target.name)
    (folder / "CURRENT.new").replace(folder / "CURRENT")
    return current(spark, folder)


def current(spark: SparkSession, folder: Path) -> DataFrame:
    """Return the current version of a table."""
    return spark.read.parquet(str(folder / (folder / "CURRENT").read_text()))
