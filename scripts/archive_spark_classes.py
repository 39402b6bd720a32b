"""Store the classes that Spark loads in an archive, from which a JVM of the tests starts with a third of the work.

    python scripts/archive_spark_classes.py ARCHIVE

Java calls it a dynamic AppCDS archive. A JVM with another version or other jars ignores it.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition


class Reader(DataSourceReader):
    """Two partitions of one number each."""

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(2)]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        return iter([(partition.value,)])


class Numbers(DataSource):
    """A source in Python, as raftlog's is."""

    @classmethod
    def name(cls) -> str:
        return "numbers"

    def schema(self) -> str:
        return "number BIGINT"

    def reader(self, schema: object) -> Reader:  # noqa: ARG002  (Spark's signature)
        return Reader()


def session(archive: Path, folder: Path) -> SparkSession:
    """Start Spark in a JVM that writes the archive when it ends."""
    settings = {
        "spark.driver.extraJavaOptions": f"-XX:ArchiveClassesAtExit={archive} -Xlog:disable",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(folder / "local"),
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def work(spark: SparkSession, folder: Path) -> None:
    """Read and write by batch, by SQL and by streams, so that the classes for it are loaded."""
    spark.dataSource.register(Numbers)
    numbers = spark.read.format("numbers").load()
    numbers.where("number > 0").groupBy("number").count().orderBy("count").collect()
    numbers.createOrReplaceTempView("numbers")
    spark.sql("CREATE TABLE kept USING parquet AS SELECT cast(number AS string) AS text FROM numbers").collect()
    spark.createDataFrame([(b"k", "v")], "key binary, text string").join(spark.table("kept"), "text", "left").count()
    stream = spark.readStream.schema("text string").parquet(str(folder / "warehouse" / "kept"))
    for name, output in {
        "parquet": stream.writeStream.format("parquet").option("path", str(folder / "out")),
        "each": stream.writeStream.foreachBatch(count),
    }.items():
        query = output.option("checkpointLocation", str(folder / name)).trigger(availableNow=True).start()
        query.awaitTermination()
    spark.read.parquet(str(folder / "out")).count()


def count(rows: DataFrame, _: int) -> None:
    """Use the rows of a micro-batch."""
    rows.count()


def main() -> None:
    """Write the archive of the command line."""
    archive = Path(sys.argv[1]).absolute()
    os.environ["JDK_JAVA_OPTIONS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory() as folder:
        spark = session(archive, Path(folder))
        work(spark, Path(folder))
        spark.stop()
        java = spark.sparkContext._gateway.proc  # noqa: SLF001  (it writes the archive when it ends)
        java.stdin.close()
        java.wait(120)


if __name__ == "__main__":
    main()
