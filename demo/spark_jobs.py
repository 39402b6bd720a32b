"""The same figures by Spark: once as a batch, once as a stream."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (the name that Spark people use)

from demo.flights import TOPIC


def start_session(folder: Path) -> SparkSession:
    """Start a small local Spark."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .appName("raftlog demo")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    return session


def batch_figures(session: SparkSession, bootstrap: str) -> dict[str, tuple[int, int]]:
    """Aggregate the whole topic."""
    source = session.read.format("raftlog").option("bootstrap", bootstrap).option("subscribe", TOPIC).load()
    return _collect(_aggregate(source))


def stream_figures(session: SparkSession, bootstrap: str, folder: Path) -> dict[str, tuple[int, int]]:
    """Aggregate the topic as a stream that ends when it has caught up."""
    source = (
        session.readStream.format("raftlog")
        .option("bootstrap", bootstrap)
        .option("subscribe", TOPIC)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 100_000)
        .load()
    )
    query = (
        _aggregate(source)
        .writeStream.format("memory")
        .queryName("flights_stream")
        .outputMode("complete")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return _collect(session.table("flights_stream"))


def _aggregate(source: DataFrame) -> DataFrame:
    distance = F.get_json_object(F.col("value").cast("string"), "$.distance").cast("long")
    return (
        source.select(F.col("key").cast("string").alias("carrier"), distance.alias("distance"))
        .groupBy("carrier")
        .agg(F.count("*").alias("flights"), F.sum("distance").alias("miles"))
    )


def _collect(figures: DataFrame) -> dict[str, tuple[int, int]]:
    return {row["carrier"]: (row["flights"], row["miles"]) for row in figures.collect()}
