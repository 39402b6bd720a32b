"""The stores of the records: one class for each system, with the same columns of the same records."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from pyspark.sql import DataFrame, SparkSession

from benchmarks.spark.kafka_stream import drain
from raftlog.blocking import Admin
from raftlog.cli.local_cluster import LocalCluster

TOPIC, PARTITIONS, VALUE_BYTES, CORES = "records", 6, 100, 2
COLUMNS = {"key": "binary", "value": "binary", "topic": "string", "partition": "int", "offset": "bigint"}
JARS = Path(".tools").absolute() / "spark-kafka"
SPARK_OF_SOURCE = Path(".tools").absolute() / "spark-4.0.0"
"""The Spark of the version that `kafka-source-pom.xml` names."""
_POM = Path(__file__).with_name("kafka-source-pom.xml")


def timed(work: Callable[[], object]) -> float:
    """Return how many seconds something takes."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def session_settings(folder: Path) -> dict[str, str]:
    """Return the settings of every measured Spark."""
    return {
        "spark.ui.enabled": "false",
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.driver.memory": "2g",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.log.level": "ERROR",
        "spark.jars": ",".join(str(jar) for jar in sorted(JARS.glob("*.jar"))),
    }


def make_records(spark: SparkSession, count: int) -> DataFrame:
    """Return `count` incompressible records of 100 bytes in six partitions."""
    digits = "concat(sha2(cast(id as string), 256), sha2(cast(-id as string), 256))"
    return spark.range(0, count, 1, PARTITIONS).selectExpr(
        f"cast(left({digits}, {VALUE_BYTES}) as binary) value", "cast(spark_partition_id() as int) partition"
    )


class Store(ABC):
    """One system that stores the records."""

    name: ClassVar[str]

    @classmethod
    def missing(cls) -> str | None:
        """Return why it cannot be measured here, or None."""
        return None

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.server: AbstractContextManager[Any] | None = None

    @abstractmethod
    def start(self) -> AbstractContextManager[Any]:
        """Return its servers, to be entered; `server` is set by then."""

    @abstractmethod
    def write(self, records: DataFrame) -> None:
        """Store the records."""

    @abstractmethod
    def read(self, spark: SparkSession, columns: tuple[str, ...] | None = None) -> DataFrame:
        """Return the records; `columns` names the columns that the query needs, for systems that use it."""

    @contextmanager
    def streaming(
        self, spark: SparkSession, per_batch: int, columns: tuple[str, ...] | None = None
    ) -> Iterator[Callable[[], tuple[float, float]]]:
        """Yield a function that reads everything as a stream of batches and returns its times; see `drain`."""
        yield partial(drain, self.read_stream(spark, per_batch, columns))

    def read_stream(self, spark: SparkSession, per_batch: int, columns: tuple[str, ...] | None) -> DataFrame:
        """Return the records as a stream of batches of about this size."""
        raise NotImplementedError


class RaftlogStore(Store):
    """Three brokers, three replicas."""

    name = "raftlog"
    server: LocalCluster

    def start(self) -> LocalCluster:
        self.server = LocalCluster(self.folder / "raftlog", port=0)
        return self.server

    def write(self, records: DataFrame) -> None:
        with Admin(self.server.bootstrap) as admin:
            admin.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=3)
        given = {"bootstrap": self.server.bootstrap, "topic": TOPIC}
        records.write.format("raftlog").options(**given).mode("append").save()

    def read(self, spark: SparkSession, columns: tuple[str, ...] | None = None) -> DataFrame:
        given = {"bootstrap": self.server.bootstrap, "subscribe": TOPIC, "pushDownPredicate": "true"}
        reader = spark.read.format("raftlog").options(**given)  # Each frame is read once.
        return (_advised(reader, columns) if columns else reader).load()

    def read_stream(self, spark: SparkSession, per_batch: int, columns: tuple[str, ...] | None) -> DataFrame:
        options = {"bootstrap": self.server.bootstrap, "subscribe": TOPIC, "startingOffsets": "earliest"}
        reader = spark.readStream.format("raftlog").options(**options, maxOffsetsPerTrigger=per_batch)
        return (_advised(reader, columns) if columns else reader).load()


class KafkaStore(Store):
    """Apache Kafka: three nodes, three replicas, read by Spark's own source."""

    name = "kafka"

    @classmethod
    def missing(cls) -> str | None:
        try:
            peer = importlib.import_module("benchmarks.peers.kafka").Kafka
        except ImportError:
            return "benchmarks/peers/ is not there"
        return peer.missing() or fetch_jars() or fetch_spark()

    def start(self) -> AbstractContextManager[Any]:
        peer = importlib.import_module("benchmarks.peers.kafka").Kafka
        self.server = peer(self.folder / "kafka", durable=False)
        return self.server

    def _options(self) -> dict[str, str]:
        assert self.server is not None
        return {"kafka.bootstrap.servers": self.server.bootstrap}  # type: ignore[attr-defined]

    def write(self, records: DataFrame) -> None:
        self._create_topic(records.sparkSession)
        # Large batches, as raftlog's sink writes them: they are read faster than Kafka's default of 16 KB.
        tuned = {"kafka.batch.size": str(512 << 10), "kafka.linger.ms": "20", "kafka.max.request.size": str(4 << 20)}
        records.write.format("kafka").options(**self._options(), **tuned, topic=TOPIC).save()

    def _create_topic(self, spark: SparkSession) -> None:
        """By the admin client of Spark's source."""
        jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 -- there is no public way to Java's classes
        settings = jvm.java.util.Properties()
        settings.put("bootstrap.servers", self._options()["kafka.bootstrap.servers"])
        admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(settings)
        topic = jvm.org.apache.kafka.clients.admin.NewTopic(
            TOPIC, jvm.java.util.Optional.of(PARTITIONS), jvm.java.util.Optional.empty()
        )
        admin.createTopics(jvm.java.util.List.of(topic)).all().get()
        admin.close()

    def read(self, spark: SparkSession, columns: tuple[str, ...] | None = None) -> DataFrame:  # noqa: ARG002
        return spark.read.format("kafka").options(**self._options(), subscribe=TOPIC).load()

    @contextmanager
    def streaming(
        self,
        spark: SparkSession,  # noqa: ARG002 -- its own, and all columns
        per_batch: int,
        columns: tuple[str, ...] | None = None,  # noqa: ARG002
    ) -> Iterator[Callable[[], tuple[float, float]]]:
        """By the Spark that its source was made for, in a program of its own: see there."""
        program = [str(SPARK_OF_SOURCE / "bin" / "python"), str(Path(__file__).with_name("kafka_stream.py"))]
        settings = json.dumps(session_settings(self.folder / "kafka-stream"))
        given = [self._options()["kafka.bootstrap.servers"], TOPIC, str(per_batch), settings]
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
        with subprocess.Popen(
            [*program, *given], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        ) as process:
            assert process.stdin is not None
            yield partial(_ask_for_seconds, process)
            process.stdin.close()


class ParquetStore(Store):
    """Six files with the columns of a topic."""

    name = "parquet"

    def start(self) -> AbstractContextManager[Any]:
        self.server = _Nothing()
        return self.server

    def write(self, records: DataFrame) -> None:
        as_topic = records.selectExpr(
            "cast(null as binary) key",
            "value",
            f"'{TOPIC}' topic",
            "partition",
            "monotonically_increasing_id() & ((1L << 33) - 1) offset",
            "current_timestamp() timestamp",
            "0 timestampType",
        )
        as_topic.write.parquet(str(self.folder / "parquet"))

    def read(self, spark: SparkSession, columns: tuple[str, ...] | None = None) -> DataFrame:  # noqa: ARG002
        return spark.read.parquet(str(self.folder / "parquet"))

    def read_stream(self, spark: SparkSession, per_batch: int, columns: tuple[str, ...] | None) -> DataFrame:  # noqa: ARG002 -- a file is its smallest part
        schema = self.read(spark).schema
        return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(self.folder / "parquet"))


def _advised(reader: Any, columns: tuple[str, ...]) -> Any:
    """Return the reader as `docs/how-to/read-with-spark.md` advises: the needed columns, and a task for each core."""
    named = ", ".join(f"{name} {COLUMNS[name]}" for name in columns)
    return reader.schema(named).option("maxPartitions", CORES)


def _ask_for_seconds(process: subprocess.Popen[str]) -> tuple[float, float]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("again\n")
    process.stdin.flush()
    for line in process.stdout:
        if line.startswith("seconds "):
            _, whole_s, batches_s = line.split()
            return float(whole_s), float(batches_s)
    raise RuntimeError(f"Kafka's stream exited with {process.wait()}; its log is above")


class _Nothing(AbstractContextManager[None]):
    def __exit__(self, *_: object) -> None:
        """Do nothing: files need no server."""


def fetch_spark() -> str | None:
    """Install the Spark that its Kafka source was made for, once; return why that failed, or None."""
    if (SPARK_OF_SOURCE / "installed").exists():
        return None
    python, version = SPARK_OF_SOURCE / "bin" / "python", SPARK_OF_SOURCE.name.removeprefix("spark-")
    for command in (
        [sys.executable, "-m", "venv", str(SPARK_OF_SOURCE)],
        [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"pyspark=={version}"],
    ):
        done = subprocess.run(command, capture_output=True, text=True, timeout=1_200, check=False)
        if done.returncode:
            return f"Spark {version} could not be installed: {done.stderr[-500:]}"
    (SPARK_OF_SOURCE / "installed").touch()
    return None


def fetch_jars() -> str | None:
    """Fetch Spark's Kafka source by Maven, once; return why that failed, or None."""
    if list(JARS.glob("spark-sql-kafka-*.jar")):
        return None
    command = ["mvn", "--batch-mode", "--quiet", "--file", str(_POM), "dependency:copy-dependencies"]
    wanted = ("spark-sql-kafka-0-10_2.13", "spark-token-provider-kafka-0-10_2.13", "kafka-clients", "commons-pool2")
    arguments = ["-DincludeScope=runtime", f"-DincludeArtifactIds={','.join(wanted)}", f"-DoutputDirectory={JARS}"]
    try:
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=600, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"Maven did not run: {error}"
    return None if done.returncode == 0 else f"Maven could not fetch Spark's Kafka source: {done.stdout[-500:]}"
