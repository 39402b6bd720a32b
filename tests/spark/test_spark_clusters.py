"""The source where Spark's parts are processes of their own: a standalone cluster with workers, and Spark Connect."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

from raftlog.blocking import Admin, Producer
from raftlog.cli.local_cluster import LocalCluster

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(300)]
ROOT = Path(__file__).parents[2]
JOB = Path(__file__).with_name("spark_job.py")
RECORDS = 300


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return os.environ | {
        "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'spark'}",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_WORKER_DIR": str(tmp_path / "work"),
        "SPARK_LOCAL_DIRS": str(tmp_path / "local"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",  # It would take the well-known port 6066.
    }


@pytest.fixture
def topic(shared_cluster: LocalCluster, topic_name: str) -> str:
    with Admin(shared_cluster.bootstrap) as admin, Producer(shared_cluster.bootstrap) as producer:
        admin.create_topic(topic_name, partitions=3)
        admin.create_topic(f"{topic_name}-copy", partitions=3)
        for partition in range(3):
            futures = [producer.send_nowait(topic_name, b"%d" % n, partition=partition) for n in range(RECORDS // 3)]
            for future in futures:
                future.result()
    return topic_name


@pytest.fixture
def master(environment: dict[str, str], tmp_path: Path, free_ports: Callable[[int], list[int]]) -> Iterator[str]:
    """A standalone master with two workers of one core each."""
    port, ui = free_ports(2)
    url, started = f"spark://127.0.0.1:{port}", []

    def start(name: str, *arguments: str) -> None:
        command = [str(Path(pyspark.__file__).parent / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}"]
        with (tmp_path / f"{len(started)}.log").open("wb") as log:
            started.append(
                subprocess.Popen([*command, "--host", "127.0.0.1", *arguments], env=environment, stdout=log, stderr=log)
            )

    try:
        start("master.Master", "--port", str(port), "--webui-port", str(ui))
        for _ in range(2):
            start("worker.Worker", "--cores", "1", "--memory", "512m", "--port", "0", "--webui-port", "0", url)
        wait_for_workers(f"http://127.0.0.1:{ui}/json/", 2)
        yield url
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait(30)


def wait_for_workers(url: str, count: int) -> None:
    """The master's page is the only word there is of a worker that has registered."""
    deadline = time.monotonic() + 120
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                if len(json.load(answer)["workers"]) == count:
                    return
        except (OSError, ValueError):  # At its start the master has a page at any path: JSON comes later.
            pass
        assert time.monotonic() < deadline, f"no {count} workers at {url}"
        time.sleep(0.2)


def run(environment: dict[str, str], *arguments: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(JOB), *arguments],
        env=environment, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-5000:]}"
    return json.loads(done.stdout.splitlines()[-1])


def test_workers_of_a_standalone_cluster_read(master, environment, shared_cluster, topic, tmp_path):
    seen = run(environment, master, shared_cluster.bootstrap, topic, str(tmp_path))

    assert seen == {"batch": {"0": 90, "1": 90, "2": 90}, "stream": RECORDS, "copy": RECORDS, "hosts": 2}


def test_a_spark_connect_server_reads(environment, shared_cluster, topic, tmp_path):
    pytest.importorskip("grpc", reason="Spark Connect needs grpcio, grpcio-status, googleapis-common-protos, zstandard")

    # Otherwise Spark's own server listens on 15002 whatever it is told, which any other test may hold.
    environment |= {"SPARK_TESTING": "1"}
    seen = run(environment, "connect", shared_cluster.bootstrap, topic, str(tmp_path))

    assert seen == {"batch": {"0": 90, "1": 90, "2": 90}, "stream": RECORDS, "copy": RECORDS, "hosts": 0}
