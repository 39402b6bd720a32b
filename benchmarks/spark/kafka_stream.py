"""Reads a Kafka topic as a stream by Spark's own source, with the Spark that it was made for: a program of its own.

Central has that source for Spark 4.0.0 only. A newer Spark runs it in batch queries; its streams have changed since.
For each line on standard input it runs the stream to its end, and prints its seconds, and the seconds of its batches.

    kafka_stream.py BOOTSTRAP TOPIC RECORDS_PER_BATCH SETTINGS_AS_JSON
"""

from __future__ import annotations

import json
import sys
import time

from pyspark.sql import DataFrame, SparkSession


def main() -> None:
    """Serve until standard input ends."""
    bootstrap, topic, per_batch, settings = sys.argv[1:]
    builder = SparkSession.builder.master("local[2]").appName("Kafka's stream")
    for name, value in json.loads(settings).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    frame = spark.readStream.format("kafka").options(**options, maxOffsetsPerTrigger=per_batch).load()
    for _ in sys.stdin:
        print("seconds", *drain(frame), flush=True)
    spark.stop()


def drain(frame: DataFrame) -> tuple[float, float]:
    """Run a stream to its end; return its seconds, and the seconds of its batches without its start."""
    begun = time.perf_counter()
    query = frame.writeStream.format("noop").trigger(availableNow=True).start()
    query.awaitTermination()
    batches_ms = sum(progress["durationMs"]["triggerExecution"] for progress in query.recentProgress)
    return time.perf_counter() - begun, batches_ms / 1_000


if __name__ == "__main__":
    main()
