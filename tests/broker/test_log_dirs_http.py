"""What a broker says of folders that do not answer, and of replicas that it cannot use."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from raftlog.broker.routes.log_dirs import LogDirRoutes
from raftlog.errors import StorageError
from raftlog.model import TopicIdPartition


async def test_what_cannot_be_used_is_listed_all_the_same(tmp_path: Path):
    failed = {
        TopicIdPartition("b" * 32, 3): StorageError("it is damaged"),
        TopicIdPartition("gone", 0): StorageError(""),
    }
    context: Any = SimpleNamespace(
        config=SimpleNamespace(node_id=1, log_dirs=(str(tmp_path), str(tmp_path / "lost")), data_dir="unused"),
        replicas=SimpleNamespace(replicas=[], offline=failed, repairs=SimpleNamespace(lost=lambda _: (7,))),
        image=SimpleNamespace(topics={"b" * 32: SimpleNamespace(topic="t")}),
    )
    app = web.Application()
    LogDirRoutes(context).add_to(app)
    async with TestClient(TestServer(app)) as client, client.get("/v1/brokers/1/log-dirs") as response:
        found = orjson.loads(await response.read())
    here, lost = found["log_dirs"]
    assert here["total_bytes"] >= here["usable_bytes"] > 0
    assert (lost["path"], lost["total_bytes"], lost["usable_bytes"]) == (str(tmp_path / "lost"), -1, -1)
    assert found["offline"] == [{"topic": "t", "partition": 3, "error": "it is damaged", "lost_batches": [7]}]
