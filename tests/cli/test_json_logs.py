"""A node's log as JSON: every line of real nodes, and of one that cannot start, is one object."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import aiohttp
import pytest
from yarl import URL

from raftlog.cli.local_cluster import LocalCluster

FORGED = "%0A2026-01-01T00:00:00.000%20ERROR%20forged%0D%0A%7B%22level%22%3A%22error%22%7D"


async def provoke(url: str) -> None:
    async with aiohttp.ClientSession() as session:
        for path in (f"/v1/topics/{FORGED}", f"/{FORGED}", f"/v1/topics/a/partitions/{FORGED}/records"):
            async with session.get(URL(f"{url}{path}", encoded=True), headers={"X-Request-Id": "r-1"}) as response:
                body = await response.json()
                assert (response.status, body["error"]["request_id"]) == (404, "r-1")
                assert response.headers["X-Request-Id"] == "r-1"


@pytest.mark.cluster
def test_each_line_of_each_node_is_one_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RAFTLOG_LOG_FORMAT", "json")
    monkeypatch.setenv("RAFTLOG_LOG_LEVEL", "debug")
    with LocalCluster(tmp_path, port=0, controllers=1, brokers=1) as cluster:
        asyncio.run(provoke(cluster.bootstrap))
        files = list(tmp_path.rglob("log.txt"))
    lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert len(lines) >= 5
    for line in lines:
        assert {"time", "level", "logger", "message"} <= set(line), line
        assert "forged" not in line["logger"]


def test_a_node_that_cannot_start_says_so_in_one_object(tmp_path: Path):
    config = tmp_path / "node.toml"
    config.write_text("node_id = 1\nnonsense = 2\n")
    command = [sys.executable, "-m", "raftlog", "server", "start", "--config", str(config), "--log-format", "json"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    (line,) = [json.loads(line) for line in done.stderr.splitlines()]
    assert (done.returncode, line["level"]) == (1, "critical")
    assert "INVALID_CONFIG" in line["message"]
