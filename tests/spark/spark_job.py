"""A driver of its own for the tests of real Spark clusters: reads a topic by batch and by stream; prints one JSON line.

    python spark_job.py MASTER BOOTSTRAP TOPIC FOLDER

It copies the topic to TOPIC-copy in `foreachBatch`, where it does each micro-batch twice.

MASTER is `spark://...`, or `connect` for a Spark Connect server that this process starts.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession


def session(master: str, folder: Path) -> SparkSession:
    builder = SparkSession.builder.remote("local[2]") if master == "connect" else SparkSession.builder.master(master)
    settings = {
        "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
        "spark.executor.memory": "512m",  # A test worker's whole memory: with the default of 1g none starts.
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.log.level": "ERROR",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def main() -> None:
    master, bootstrap, topic, folder = sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4])
    spark = session(master, folder)
    options = {"bootstrap": bootstrap, "subscribe": topic, "minPartitions": "4"}
    batch = spark.read.format("raftlog").options(**options).load()
    by_partition = batch.where("offset >= 10").groupBy("partition").count().collect()
    stream = spark.readStream.format("raftlog").options(**options, startingOffsets="earliest").load()
    query = (
        stream.writeStream.format("parquet")
        .options(path=str(folder / "out"), checkpointLocation=str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()

    def twice(frame: DataFrame, batch_id: int) -> None:
        sink = frame.select("value").write.format("raftlog").options(bootstrap=bootstrap, topic=f"{topic}-copy")
        for _ in range(2):
            sink.options(transactionalId=topic, batchId=batch_id).mode("append").save()

    stream.writeStream.foreachBatch(twice).option("checkpointLocation", str(folder / "copying")).trigger(
        availableNow=True
    ).start().awaitTermination()
    copy = spark.read.format("raftlog").options(bootstrap=bootstrap, subscribe=f"{topic}-copy").load()
    seen = {
        "batch": {row["partition"]: row["count"] for row in by_partition},
        "stream": spark.read.parquet(str(folder / "out")).count(),
        "copy": copy.count(),
        "hosts": 0 if master == "connect" else spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1,
    }
    spark.stop()
    print(json.dumps(seen))


if __name__ == "__main__":
    main()
