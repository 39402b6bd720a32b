"""Every block of docs/read-a-topic.md runs against a real cluster."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from raftlog.blocking import Admin, Producer
from raftlog.cli.local_cluster import LocalCluster

PAGE = Path(__file__).parents[2] / "docs" / "read-a-topic.md"
BLOCKS = re.findall(r"```(sh|python)\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
pytestmark = pytest.mark.cluster


def test_every_block_runs(shared_cluster: LocalCluster, tmp_path: Path):
    with Admin(shared_cluster.bootstrap) as admin, Producer(shared_cluster.bootstrap) as producer:
        admin.create_topic("notes", partitions=2, replication_factor=3)
        producer.send("notes", b"hello", key=b"k", partition=0)
    environment = {
        **os.environ,
        "RAFTLOG_BOOTSTRAP": shared_cluster.bootstrap,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    outputs = []
    for language, text in BLOCKS:
        command = ["bash", "-euc"] if language == "sh" else [sys.executable, "-c"]
        done = subprocess.run(
            [*command, text], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
        outputs.append(done.stdout)

    assert [language for language, _ in BLOCKS] == ["python", "python", "python", "sh"]
    assert outputs[0] == "1 b'hello'\n"
    assert all("hello" in output for output in outputs[1:3])
    assert "count" in outputs[3]
