"""Clients that ask for changes without end: no broker is fenced, others' changes are made, records are acknowledged."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest
from broker_support import http_to

from raftlog.broker.admin_limits import AT_ONCE, MAX_WAITING, AdminLimits
from raftlog.cli.local_cluster import LocalCluster
from raftlog.errors import OverloadedError

CREATED = 3
"""Topics that another client creates during the flood."""
MOST_MEANWHILE = 1_000
"""The most requests of the flood that are answered while the other client creates a topic, writes and reads."""


async def flood(url: str, connections: int, ended: asyncio.Event) -> dict[int, int]:
    """Ask for what is refused, and for passwords, on many connections; return how often each status was answered."""
    seen: dict[int, int] = {}

    async def go_on(session: aiohttp.ClientSession, number: int) -> None:
        while not ended.is_set():
            if number % 10:
                asked = session.delete(f"{url}/v1/users/nobody")
            else:
                asked = session.put(f"{url}/v1/users/somebody", json={"password": "long enough"})
            async with asked as answer:
                await answer.read()
                seen[answer.status] = seen.get(answer.status, 0) + 1

    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session, asyncio.TaskGroup() as group:
        for number in range(connections):
            group.create_task(go_on(session, number))
    return seen


@pytest.mark.cluster
@pytest.mark.timeout(90)
async def test_a_flood_of_changes_fences_nobody_and_others_are_served(shared_cluster: LocalCluster, topic_name: str):
    ended = asyncio.Event()
    urls = [shared_cluster.public_url(name) for name in shared_cluster.brokers]
    honest = aiohttp.TCPConnector(local_addr=("127.0.0.2", 0))
    async with aiohttp.ClientSession(connector=honest) as session, http_to(urls[0]) as http:
        await http.create(topic_name, replication_factor=3)
        async with asyncio.TaskGroup() as group:
            floods = [group.create_task(flood(url, 150, ended)) for url in urls]
            for number in range(1, CREATED + 1):
                url = urls[number % len(urls)]
                records = {"records": [{"value": number}]}
                async with session.post(f"{url}/v1/topics/{topic_name}/records", json=records) as answer:
                    assert answer.status == 200, await answer.text()
                new = {"topic": f"{topic_name}-{number}", "partitions": 1, "replication_factor": 3}
                async with session.post(f"{url}/v1/topics", json=new) as answer:
                    assert answer.status == 201, await answer.text()
                async with session.get(f"{url}/v1/brokers?consistency=local") as answer:
                    assert [broker["fenced"] for broker in (await answer.json())["brokers"]] == [False] * 3
            ended.set()
        statuses = {status for task in floods for status in task.result()}
        assert {200, 404} <= statuses <= {200, 404, 429}
        # However fast the machine is: 450 connections ask, and each of 9 other requests waits for some 100 of theirs.
        assert sum(sum(task.result().values()) for task in floods) < CREATED * MOST_MEANWHILE
        await http("DELETE", "/v1/users/somebody")
        for done in range(1, CREATED + 1):
            await http("DELETE", f"/v1/topics/{topic_name}-{done}")


async def test_each_address_gets_a_few_turns_at_once_and_waits_in_order():
    gate, order = AdminLimits(), list[int]()
    release = asyncio.Event()

    async def ask(number: int, address: str = "a") -> None:
        async with gate.slot(address):
            order.append(number)
            await release.wait()

    async with asyncio.TaskGroup() as group:
        for number in range(AT_ONCE + MAX_WAITING):
            group.create_task(ask(number))
        await asyncio.sleep(0)
        with pytest.raises(OverloadedError, match="administrative requests of a wait here"):
            await ask(-1)
        group.create_task(ask(-2, "b"))
        await asyncio.sleep(0)
        assert order == [*range(AT_ONCE), -2]
        release.set()
    assert order == [*range(AT_ONCE), -2, *range(AT_ONCE, AT_ONCE + MAX_WAITING)]
    assert gate._clients == {}
