"""A driver of its own for the tests of Spark's Kafka source and sink; prints one JSON line.

    python spark_kafka_job.py SERVERS FOLDER JARS

It uses the topics `written` and `copied`, of two partitions.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import array, col, lit, struct

ROWS = 5_000


def session(folder: Path, jars: str) -> SparkSession:
    builder = SparkSession.builder.master("local[2]")
    settings = {
        "spark.jars": jars,
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.log.level": "ERROR",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def write(spark: SparkSession, kafka: dict[str, str], first: int) -> None:
    """Write ROWS rows to `written`; keys and values are their numbers, and odd numbers go to partition 1."""
    number = col("id").cast("string")
    headers = array(struct(lit("by").alias("key"), lit("spark").cast("binary").alias("value"))).alias("headers")
    rows = spark.range(first, first + ROWS)
    rows = rows.select(
        number.alias("key"), number.alias("value"), headers, (col("id") % 2).cast("int").alias("partition")
    )
    rows.write.format("kafka").options(**kafka, topic="written", includeHeaders="true").save()


def numbers(rows: DataFrame) -> list[int]:
    return sorted(int(row["value"]) for row in rows.select(col("value").cast("string")).collect())


def copy(spark: SparkSession, kafka: dict[str, str], folder: Path) -> int:
    """Stream what `written` has on to `copied`, from where the checkpoint is; return how many rows were read."""
    stream = spark.readStream.format("kafka").options(**kafka, subscribe="written", startingOffsets="earliest")
    sink = stream.option("maxOffsetsPerTrigger", "2000").load().select("key", "value", "partition").writeStream
    query = (
        sink.format("kafka")
        .options(**kafka, topic="copied", checkpointLocation=str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return sum(progress["numInputRows"] for progress in query.recentProgress)


def main() -> None:
    kafka, folder = {"kafka.bootstrap.servers": sys.argv[1]}, Path(sys.argv[2])
    spark = session(folder, sys.argv[3])
    done: dict[str, Any] = {}

    def read(topic: str, **options: str) -> DataFrame:
        return spark.read.format("kafka").options(**kafka, subscribe=topic, **options).load()

    write(spark, kafka, 0)
    done["first"] = numbers(read("written"))
    done["streamed first"] = copy(spark, kafka, folder)
    time.sleep(0.01)  # The next rows have a later timestamp, in milliseconds.
    between_ms = time.time_ns() // 1_000_000
    write(spark, kafka, ROWS)
    done["since"] = numbers(read("written", startingTimestamp=str(between_ms)))
    done["until"] = numbers(read("written", endingTimestamp=str(between_ms)))
    offsets = {"written": {"0": 10, "1": 20}}
    done["some"] = numbers(
        read("written", startingOffsets='{"written":{"0":0,"1":-2}}', endingOffsets=json.dumps(offsets))
    )
    headers = read("written", includeHeaders="true").selectExpr("headers[0].key", "cast(headers[0].value as string)")
    done["headers"] = [list(row) for row in headers.distinct().collect()]
    done["split"] = read("written", minPartitions="6").rdd.getNumPartitions()
    done["streamed then"] = copy(spark, kafka, folder)
    done["streamed again"] = copy(spark, kafka, folder)
    done["copied"] = numbers(read("copied"))
    spark.stop()
    print(json.dumps(done))


if __name__ == "__main__":
    main()
