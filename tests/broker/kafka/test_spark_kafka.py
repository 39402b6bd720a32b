"""Spark's Kafka source and sink on a cluster: batches, ranges by offset and time, headers, streams with checkpoints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from raftlog.blocking import Admin, Consumer
from raftlog.cli.local_cluster import LocalCluster
from tests.broker.kafka.committed_records import servers
from tests.broker.kafka.java_support import SPARK_LIBS, needs
from tests.broker.kafka.spark_kafka_job import ROWS

pytestmark = [pytest.mark.cluster, pytest.mark.kafka, pytest.mark.timeout(240), needs(SPARK_LIBS)]
FIRST, BOTH = list(range(ROWS)), list(range(2 * ROWS))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder = tmp_path_factory.mktemp("cluster")
    with LocalCluster(folder / "cluster", controllers=1, brokers=3, port=0) as cluster:
        with Admin(cluster.bootstrap) as admin:
            admin.create_topic("written", partitions=2, replication_factor=3)
            admin.create_topic("copied", partitions=2, replication_factor=3)
        yield cluster


@pytest.fixture(scope="module")
def done(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Run the job; return what it read."""
    folder, job = tmp_path_factory.mktemp("spark"), Path(__file__).with_name("spark_kafka_job.py")
    jars = ",".join(map(str, SPARK_LIBS.glob("*.jar")))
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable}
    ran = subprocess.run(
        [sys.executable, job, servers(cluster), folder, jars],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
        env=environment,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr[-8000:]
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


def test_what_spark_wrote_is_read_by_spark(done: dict[str, Any]):
    assert done["first"] == FIRST
    assert done["headers"] == [["by", "spark"]]
    assert done["split"] == 6, "minPartitions splits two partitions into six tasks"


def test_ranges_by_time_and_offset(done: dict[str, Any]):
    assert done["since"] == BOTH[ROWS:]
    assert done["until"] == FIRST
    assert len(done["some"]) == 30


def test_a_stream_goes_on_at_its_checkpoint(done: dict[str, Any]):
    assert (done["streamed first"], done["streamed then"], done["streamed again"]) == (ROWS, ROWS, 0)
    assert done["copied"] == BOTH


def test_raftlogs_consumer_reads_what_spark_wrote_through_kafka(cluster: LocalCluster, done: dict[str, Any]):
    assert done
    found = list[tuple[int, bytes | None, bytes | None, Any]]()
    with Consumer(cluster.bootstrap, "written", start="earliest") as consumer:
        while more := consumer.fetch(max_records=10_000, max_wait_ms=1_000):
            found += [(record.partition, record.key, record.value, record.headers) for record in more]
    assert len(found) == len(BOTH)
    for partition, key, value, headers in found:
        assert value is not None
        assert (partition, key) == (int(value) % 2, value)
        assert list(headers) == [("by", b"spark")]
