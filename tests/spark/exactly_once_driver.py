"""A Spark driver that copies a topic exactly once, and dies where it is told to.

    python exactly_once_driver.py URL FOLDER

Each fault happens once, whichever run comes to it first; a file in FOLDER says that it has happened.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from pyspark_raftlog.source import DefaultSource
from pyspark_raftlog.writer import RaftlogStreamWriter

FAULTS = ("driver-before-commit", "driver-after-commit", "executor", "task")
"""Of micro-batches 1 to 4, in this order."""


def claim(fault: str, batch_id: int) -> bool:
    """Tell whether this fault is to happen now; it never will again."""
    if FAULTS.index(fault) + 1 != batch_id:
        return False
    try:
        os.close(os.open(Path(os.environ["FAULTS"]) / fault, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def kill_driver() -> None:
    """End the driver, its JVM and its executors, as one would pull the plug."""
    os.killpg(int((Path(os.environ["FAULTS"]) / "driver.pid").read_text()), signal.SIGKILL)
    os._exit(1)


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


class DyingWriter(RaftlogStreamWriter):
    def write(self, iterator: Any) -> Any:
        written = super().write(iterator)
        if claim("executor", written.work.number):
            os.kill(parent_of(os.getppid()), signal.SIGKILL)
        if claim("task", written.work.number):
            raise RuntimeError("this attempt of the task fails once it has written everything")
        return written

    def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803 -- Spark's name
        if claim("driver-before-commit", batchId):
            kill_driver()
        super().commit(messages, batchId)
        if claim("driver-after-commit", batchId):
            kill_driver()


class DyingSource(DefaultSource):
    @classmethod
    def name(cls) -> str:
        return "dying"

    def streamWriter(self, schema: StructType, overwrite: bool) -> DyingWriter:  # noqa: N802 -- Spark's name
        from pyspark_raftlog.sink import parse_sink_options  # noqa: PLC0415

        return DyingWriter(parse_sink_options(self.options, overwrite=overwrite), schema)


def main(url: str, folder: Path) -> None:
    os.environ["FAULTS"] = str(folder)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    (folder / "driver.pid").write_text(str(os.getpid()))
    session = SparkSession.builder.master("local-cluster[2,1,1024]").appName("exactly once")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.executorEnv.FAULTS": str(folder),
        "spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "spark.local.dir": str(folder / "local"),
        "spark.log.level": "ERROR",
    }.items():
        session = session.config(name, value)
    spark = session.getOrCreate()
    spark.dataSource.register(DyingSource)
    source = spark.readStream.format("raftlog").options(
        bootstrap=url, subscribe="in", startingOffsets="earliest", maxOffsetsPerTrigger=400
    )
    query = (
        source.load().select("key", "value").writeStream.format("dying").options(bootstrap=url, topic="copy")
        .option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
