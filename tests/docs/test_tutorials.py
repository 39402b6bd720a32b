"""The blocks of the tutorials do what they say, in order, against a real cluster."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from raftlog.cli.local_cluster import LocalCluster

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(300)]
TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorials"
BLOCK = re.compile(r"```(sh|python)\n(.*?)```", re.DOTALL)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path_factory.mktemp("tutorials"), port=0) as running:
        yield running


def run(cluster: LocalCluster, folder: Path, language: str, text: str) -> str:
    url = cluster.public_url("broker-1")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    spark = str(Path(__file__).parents[2] / "spark")
    environment = {
        **os.environ,
        "RAFTLOG_BOOTSTRAP": url,
        "PATH": path,
        "PYTHONPATH": f"{spark}{os.pathsep}{os.environ.get('PYTHONPATH', '')}",
        "PYSPARK_PYTHON": sys.executable,
    }
    command = ["bash", "-euo", "pipefail", "-c"] if language == "sh" else [sys.executable, "-c"]
    text = text.replace("http://127.0.0.1:9400", url)
    done = subprocess.run(
        [*command, text], env=environment, cwd=folder, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_first_topic(cluster: LocalCluster, tmp_path: Path):
    blocks = BLOCK.findall((TUTORIALS / "first-topic.md").read_text("utf-8"))
    create, _, consume, curl, table, program = (run(cluster, tmp_path, *block) for block in blocks)

    assert "greetings" in create
    assert all(f'"key":"{key}"' in consume for key in ("en", "de", "fr"))
    assert curl.count("\n") == 4
    assert "hallo" in table
    assert "b'ciao'" in program


@pytest.mark.spark
def test_from_csv_to_spark_to_parquet(cluster: LocalCluster, tmp_path: Path):
    blocks = BLOCK.findall((TUTORIALS / "csv-to-spark-to-parquet.md").read_text("utf-8"))
    make, load, look, (_, pipeline), (_, write_back) = blocks
    run(cluster, tmp_path, *make)
    run(cluster, tmp_path, *load)
    assert "Bern" in (look_output := run(cluster, tmp_path, *look)) or "Lyon" in look_output or "Turin" in look_output

    run(cluster, tmp_path, "sh", "raftlog topics create totals --partitions 1")
    totals = run(cluster, tmp_path, "python", pipeline + write_back)

    assert sum(int(row) for row in re.findall(r"\|\s*(?:Bern|Lyon|Turin)\|\s*(\d+)\|", totals)) == 1000
    read = "raftlog consume totals --from-beginning --isolation read_committed --max-records 3"
    assert '"trips":' in run(cluster, tmp_path, "sh", read)
