"""Consumer groups as curl sees them: heartbeats that wait for a change, offsets, listings, redirects, and failovers."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
from broker_support import Http, Reply, http_to

from raftlog.cli.local_cluster import LocalCluster

pytestmark = pytest.mark.cluster


class Group:
    """One group, at its coordinator."""

    def __init__(self, http: Http, name: str, url: str) -> None:
        self.http, self.name, self.url = http, name, url

    async def __call__(self, method: str, path: str = "", **body: Any) -> Reply:
        more = {"json": body} if method == "POST" else {}
        return await self.http(method, f"{self.url}/v1/groups/{self.name}{path}", **more)

    async def beat(self, member: str, epoch: int, owned: object = (), **wishes: Any) -> Reply:
        return await self("POST", "/heartbeat", member_id=member, member_epoch=epoch, owned=owned, **wishes)


@pytest.fixture
async def http(shared_cluster: LocalCluster) -> AsyncIterator[Http]:
    async with http_to(shared_cluster.bootstrap.split(",")[0]) as client:
        yield client


async def coordinated(http: Http) -> Group:
    name = f"group-{uuid.uuid4().hex[:12]}"
    async with asyncio.timeout(20):
        while True:
            found = (await http("GET", f"/v1/coordinators/group/{name}")).json
            reply = await http("GET", f"{found['url']}/v1/groups/{name}")
            if reply.status == 404:
                return Group(http, name, found["url"])
            assert reply.code in ("COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE")
            await asyncio.sleep(0.05)


async def test_a_group_lives(http: Http, topic_name: str):
    await http.create(topic_name, partitions=4)
    group = await coordinated(http)
    joined = (await group.beat("a", 0, topics=[topic_name])).json
    assert joined["member_epoch"] == 1
    assert joined["assignment"] == [{"topic": topic_name, "partitions": [0, 1, 2, 3]}]

    offsets = [{"topic": topic_name, "partition": 2, "offset": 17, "metadata": "half"}]
    committed = await group("POST", "/offsets", offsets=offsets, member_id="a", member_epoch=1)
    assert (committed.status, committed.json["offsets"][0]["error"]) == (200, None)
    (read,) = (await group("GET", "/offsets")).json["offsets"]
    assert (read["partition"], read["offset"], read["metadata"]) == (2, 17, "half")
    fenced = await group("POST", "/offsets", offsets=offsets, member_id="a", member_epoch=7)
    assert (fenced.status, fenced.code) == (409, "FENCED_MEMBER_EPOCH")

    described = (await group("GET")).json
    assert (described["phase"], described["epoch"], len(described["members"])) == ("Stable", 1, 1)
    listed = (await http("GET", "/v1/groups")).json["groups"]
    shown = {"group_id": group.name, "phase": "Stable", "members": 1, "coordinator": described["coordinator"]}
    assert shown | {"kind": "consumer", "protocol_type": "consumer", "lag_records": -1} in listed
    assert (await group("DELETE")).code == "NON_EMPTY_GROUP"
    assert (await group.beat("a", -1)).json["member_epoch"] == -1
    wanted = [{"topic": topic_name, "partitions": [2]}]
    assert (await group("POST", "/offsets/delete", partitions=wanted)).status == 200
    assert (await group("DELETE")).status == 200
    assert (await group("GET")).code == "GROUP_ID_NOT_FOUND"


async def test_a_waiting_heartbeat_is_answered_when_there_is_news(http: Http, topic_name: str):
    await http.create(topic_name, partitions=2)
    group = await coordinated(http)
    had = (await group.beat("a", 0, topics=[topic_name])).json["assignment"]
    loop = asyncio.get_running_loop()
    quiet = await group.beat("a", 1, had, max_wait_ms=50)
    assert quiet.json["member_epoch"] == 1

    started = loop.time()
    waiting = asyncio.create_task(group.beat("a", 1, had, max_wait_ms=5_000))
    await asyncio.sleep(0.05)
    await group.beat("b", 0, topics=[topic_name])
    told = (await waiting).json["assignment"]
    assert loop.time() - started < 2
    (kept,) = told
    assert len(kept["partitions"]) == 1

    other = asyncio.create_task(group.beat("b", 2, [], max_wait_ms=5_000))
    await asyncio.sleep(0.05)
    assert (await group.beat("a", 1, told)).json["member_epoch"] == 2
    (received,) = (await other).json["assignment"]
    assert sorted(kept["partitions"] + received["partitions"]) == [0, 1]


async def test_other_brokers_redirect(http: Http, topic_name: str):
    await http.create(topic_name)
    group = await coordinated(http)
    brokers = [broker["url"] for broker in (await http("GET", "/v1/brokers")).json["brokers"]]
    (other, *_) = [url for url in brokers if url != group.url]
    away = await http("GET", f"{other}/v1/groups/{group.name}", follow=False)
    assert (away.status, away.code) == (307, "NOT_COORDINATOR")
    assert away.headers["Location"] == f"{group.url}/v1/groups/{group.name}"
    joined = await http(
        "POST",
        f"{other}/v1/groups/{group.name}/heartbeat",
        json={"member_id": "a", "member_epoch": 0, "topics": [topic_name]},
    )
    assert joined.json["member_epoch"] == 1


async def test_bad_requests_are_refused(http: Http):
    group = await coordinated(http)
    assert (await group.beat("", 0, topics=["t"])).code == "INVALID_REQUEST"
    assert (await group.beat("a", 3)).code == "UNKNOWN_MEMBER_ID"
    assert (await group("POST", "/heartbeat", member=1)).code == "INVALID_REQUEST"
    assert (await group("POST", "/offsets", offsets=[{"topic": "t", "partition": "0", "offset": 1}])).status == 400
    assert (await http("GET", "/v1/groups?scope=moon")).code == "INVALID_REQUEST"


async def test_a_group_survives_the_death_of_its_coordinator(tmp_path, topic_name: str):
    with LocalCluster(tmp_path / "c", controllers=1, port=0) as cluster:
        async with http_to(cluster.bootstrap.split(",")[0]) as http:
            await http.create(topic_name, partitions=2)
            group = await coordinated(http)
            await group.beat("a", 0, topics=[topic_name])
            offsets = [{"topic": topic_name, "partition": 1, "offset": 5}]
            assert (await group("POST", "/offsets", offsets=offsets, member_id="a", member_epoch=1)).status == 200
            found = (await http("GET", f"/v1/coordinators/group/{group.name}")).json

            await asyncio.to_thread(cluster.kill, f"broker-{found['broker_id']}")

            alive = next(url for url in cluster.bootstrap.split(",") if url != found["url"])
            async with asyncio.timeout(20):
                while True:
                    reply = await http("GET", f"{alive}/v1/coordinators/group/{group.name}")
                    if reply.status == 200 and reply.json["broker_id"] != found["broker_id"]:
                        group.url = reply.json["url"]
                        beat = await group.beat("a", 1, [{"topic": topic_name, "partitions": [0, 1]}])
                        if beat.status == 200:
                            break
                    await asyncio.sleep(0.05)
            assert beat.json["member_epoch"] == 1
            (read,) = (await group("GET", "/offsets")).json["offsets"]
            assert (read["partition"], read["offset"]) == (1, 5)
