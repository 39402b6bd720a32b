"""The example of traces on a real cluster: from the application's span to the span that processes the record."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from raftlog import Admin
from raftlog.cli.local_cluster import LocalCluster

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.cluster


def test_each_record_is_followed_to_where_it_is_processed(
    shared_cluster: LocalCluster, topic_name: str, tmp_path: Path
):
    async def create() -> None:
        async with Admin(shared_cluster.bootstrap) as admin:
            await admin.create_topic(topic_name, partitions=3, replication_factor=1)

    asyncio.run(create())
    file = tmp_path / "spans.jsonl"
    options = ["--bootstrap", shared_cluster.bootstrap, "--spans", str(file)]
    command = [sys.executable, str(ROOT / "examples" / "traces.py"), topic_name, *options]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, check=True, env=environment, capture_output=True, text=True, timeout=60)
    assert len(done.stdout.splitlines()) == 5
    spans: list[dict[str, Any]] = [orjson.loads(line) for line in file.read_text().splitlines()]
    named = {name: [span for span in spans if span["name"].split()[0] == name] for name in ("order", "send", "process")}
    orders = {(span["context"]["trace_id"], span["context"]["span_id"]) for span in named["order"]}
    assert {(span["context"]["trace_id"], span["parent_id"]) for span in named["send"]} == orders
    links = [link["context"] for span in named["process"] for link in span["links"]]
    assert {(link["trace_id"], link["span_id"]) for link in links} == orders
    packed = {span["parent_id"] for span in spans if span["name"] == "pack"}
    assert packed == {span["context"]["span_id"] for span in named["process"]}
