"""The console's routes of a running broker."""

from __future__ import annotations

import asyncio
import json

import aiohttp
import pytest
from broker_support import http_to

from raftlog.cli.local_cluster import LocalCluster

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize(
    "path",
    [
        "/console/..%2f..%2fpyproject.toml",
        "/console/%2e%2e/static_files.py",
        "/console/sources.sha256",
        "/console//etc/passwd",
        "/console/index.html%00.js",
        "/console/api/other",
    ],
)
async def test_a_path_that_names_no_file_is_not_found(shared_cluster: LocalCluster, path: str):
    async with (
        aiohttp.ClientSession() as session,
        session.get(aiohttp.client.URL(shared_cluster.public_url("broker-1") + path, encoded=True)) as answer,
    ):
        assert answer.status == 404
        assert (await answer.json())["error"]["message"]


async def test_a_page_of_another_site_gets_nothing(shared_cluster: LocalCluster):
    async with http_to(shared_cluster.public_url("broker-1")) as http:
        for path in ("/console/", "/console/api/events", "/console/api/session"):
            answer = await http("GET", path, headers={"Origin": "https://evil.example"})
            assert (answer.status, answer.code) == (403, "FOREIGN_ORIGIN")


async def test_the_page_is_served_with_head_gzip_and_304(shared_cluster: LocalCluster):
    url = shared_cluster.public_url("broker-1")
    async with aiohttp.ClientSession(auto_decompress=False) as session:
        async with session.get(f"{url}/console", allow_redirects=False) as answer:
            assert (answer.status, answer.content_type) == (200, "text/html")
        async with session.get(f"{url}/console/", headers={"Accept-Encoding": "gzip"}) as answer:
            assert (answer.status, answer.headers["Content-Encoding"]) == (200, "gzip")
            etag = answer.headers["ETag"]
        known = {"Accept-Encoding": "gzip", "If-None-Match": etag}
        async with session.get(f"{url}/console/", headers=known) as answer:
            assert (answer.status, await answer.read()) == (304, b"")
        async with session.head(f"{url}/console/", headers={"Accept-Encoding": "identity"}) as answer:
            assert (answer.status, await answer.read()) == (200, b"")
            assert int(answer.headers["Content-Length"]) > 100


async def test_one_address_gets_half_of_the_streams(shared_cluster: LocalCluster):
    url = shared_cluster.public_url("broker-2") + "/console/api/events"
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        answers = [await session.get(url) for _ in range(33)]
        try:
            assert [answer.status for answer in answers] == [200] * 32 + [429]
            assert "32 events by pages of the console already" in await answers[-1].text()
        finally:
            for answer in answers:
                answer.close()


async def test_events_show_every_node(shared_cluster: LocalCluster):
    url = shared_cluster.public_url("broker-3") + "/console/api/events"
    async with aiohttp.ClientSession(read_bufsize=1 << 20) as session, session.get(url) as answer:
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        name = ""
        async with asyncio.timeout(20):
            async for line in answer.content:
                if line.startswith(b"event: "):
                    name = line[7:].decode().strip()
                if name == "cluster" and line.startswith(b"data: "):
                    break
    seen = json.loads(line[6:])
    assert [row["state"] for row in seen["brokers"]] == ["ok"] * 3
    assert sorted(row["state"] for row in seen["controllers"]) == ["active", "standby", "standby"]
    assert seen["broker_id"] == 3


async def test_the_logs_of_all_replicas_come_from_one_broker(shared_cluster: LocalCluster, topic_name: str):
    async with http_to(shared_cluster.public_url("broker-1")) as http:
        await http.create(topic_name, partitions=3, replication_factor=3)
        await http.produce(topic_name, "a", "b")
        found = (await http("GET", f"/console/api/topics/{topic_name}")).json
        assert len(found["replicas"]) == 9
        assert found["silent"] == []
        assert (await http("GET", "/console/api/topics/no-such")).status == 404


async def test_a_session_without_an_authorizer_may_do_everything(shared_cluster: LocalCluster, topic_name: str):
    async with http_to(shared_cluster.public_url("broker-1")) as http:
        session = (await http("GET", f"/console/api/session?topic={topic_name}")).json
    assert session["authorizer"] == "off"
    assert "delete" in session["topic"]
