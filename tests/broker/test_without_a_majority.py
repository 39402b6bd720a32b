"""Two of three controllers are gone: records flow on, what needs the quorum fails fast, and everything resumes."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from broker_support import Http, Reply, http_to

from raftlog.cli.local_cluster import LocalCluster

pytestmark = pytest.mark.cluster
NEEDS_THE_QUORUM: list[tuple[str, str, Any]] = [
    ("POST", "/v1/topics", {"topic": "never", "partitions": 1}),
    ("PATCH", "/v1/topics/kept", {"configs": {"retention_ms": 1}}),
    ("DELETE", "/v1/topics/kept", None),
    ("GET", "/v1/controller", None),
    ("GET", "/v1/topics", None),
    ("GET", "/v1/quorum", None),
    ("PUT", "/v1/users/ann", {"password": "long enough"}),
]


async def timed(http: Http, method: str, path: str, body: Any) -> tuple[Reply, float]:
    started = time.monotonic()
    reply = await http(method, path, json=body)
    return reply, time.monotonic() - started


async def test_records_flow_on_and_the_rest_resumes_by_itself(tmp_path: Path):
    with LocalCluster(tmp_path / "c", port=0) as cluster:
        async with http_to(cluster.public_url("broker-1")) as http:
            await http.create("kept", partitions=3)
            controller = (await http("GET", "/v1/controller")).json["controller_id"]
            survivor = next(name for name in cluster.controllers if not name.endswith(str(controller)))
            lost = [name for name in cluster.controllers if name != survivor]
            for name in lost:
                await asyncio.to_thread(cluster.kill, name)

            for number in range(20):
                assert (await http.produce("kept", f"value {number}", partition=number % 3)).status == 200
            answers = await asyncio.gather(*(timed(http, *request) for request in NEEDS_THE_QUORUM))
            for (method, path, _), (reply, seconds) in zip(NEEDS_THE_QUORUM, answers, strict=True):
                assert (reply.status, reply.json["error"]["retriable"]) == (503, True), (method, path, reply.body)
                assert seconds < 6, (method, path)
            local = (await http("GET", "/v1/topics?consistency=local")).json
            assert [topic["topic"] for topic in local["topics"]] == ["kept"]
            assert (await http("GET", "/readyz")).status == 200

            for name in lost:
                await asyncio.to_thread(cluster.start_node, name)
            await asyncio.to_thread(cluster.wait_ready)
            assert (await http("POST", "/v1/topics", json={"topic": "later", "partitions": 1})).status == 201
            assert "never" not in [topic["topic"] for topic in (await http("GET", "/v1/topics")).json["topics"]]
            assert "retention_ms" not in (await http("GET", "/v1/topics/kept")).json["configs"]
            assert sum([await http.end("kept", partition) for partition in range(3)]) == 20
