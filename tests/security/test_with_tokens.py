"""A real cluster that accepts tokens: produce and consume, groups, expiry during a connection, and withdrawn keys."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from issuer_support import AUDIENCE, CLIENT, SECRET, Issuer
from secured_support import basic, caller, code_of, secured

from raftlog import Admin, AuthenticationError, Consumer, NotFoundError, Producer, Security
from raftlog.cli.local_cluster import LocalCluster
from raftlog.model import Acl

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]
TOPIC = "flights"


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with Issuer().in_thread() as served:
        yield served


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, stall_file: Path, issuer: Issuer) -> Iterator[LocalCluster]:
    tokens = {"issuer": issuer.url, "audience": AUDIENCE, "groups_claim": "groups", "leeway_s": 0, "refresh_s": 1}
    with secured(tmp_path_factory.mktemp("cluster"), tokens=tokens) as running:
        yield running


@pytest.fixture
async def topic(cluster: LocalCluster, issuer: Issuer) -> str:
    """Make the topic as a super user, whose name is in a token."""
    async with Admin(cluster.bootstrap, security=Security(token=issuer.token(sub="admin"))) as admin:
        if TOPIC not in [topic.topic for topic in await admin.list_topics()]:
            await admin.create_topic(TOPIC, partitions=1, replication_factor=2)
            await admin.create_acls(
                [
                    Acl(principal="ruled", operation="write", resource_type="topic", resource_name=TOPIC),
                    Acl(principal="Group:readers", operation="read", resource_type="topic", resource_name=TOPIC),
                    Acl(principal="Group:readers", operation="read", resource_type="group", resource_name="g"),
                ]
            )
    return TOPIC


async def test_a_user_produces_and_the_members_of_a_group_consume(cluster: LocalCluster, issuer: Issuer, topic: str):
    async with Producer(cluster.bootstrap, security=Security(token=issuer.token())) as producer:
        await producer.send(topic, b"hello")
    reader = Security(token=issuer.token(sub="anyone", groups=["readers"]))
    async with Consumer(
        cluster.bootstrap, topic, group_id="g", auto_offset_reset="earliest", security=reader
    ) as consumer:
        assert [record.value for record in await consumer.fetch(max_records=1, max_wait_ms=20_000)] == [b"hello"]

    for refused in (issuer.token(sub="anyone"), issuer.token(sub="anyone", groups=["User:admin", "other"])):
        with pytest.raises(NotFoundError):  # As an unknown topic.
            async with Consumer(cluster.bootstrap, topic, security=Security(token=refused)) as consumer:
                await consumer.fetch(max_records=1, max_wait_ms=2_000)
    wrong = Security(token=issuer.token(aud="another-service"))
    async with Admin(cluster.bootstrap, security=wrong) as admin:
        with pytest.raises(AuthenticationError, match="aud: expected raftlog"):
            await admin.list_topics()


async def test_json_that_a_broker_forwards_keeps_the_tokens_groups(cluster: LocalCluster, issuer: Issuer, topic: str):
    """One of the brokers does not lead the partition: it forwards the records, with the user and its groups."""
    token = bearer(issuer.token(sub="anyone", groups=["writers", "e,ü"]))
    body: Any = {"records": [{"value": "x"}]}
    path = f"/v1/topics/{topic}/records"
    async with caller("") as ask:
        urls = [cluster.public_url(name) for name in cluster.brokers]
        for url in urls:
            assert (await ask("POST", url + path, token, json=body))[0] == 403
        rule = {"operation": "write", "resource_type": "topic", "resource_name": topic, "permission": "allow"}
        for group in ("writers", "e,ü"):
            rules = {"acls": [{"principal": f"Group:{group}"} | rule]}
            assert (await ask("POST", urls[0] + "/v1/acls", basic("admin"), json=rules))[0] == 201
            for url in urls:
                status = 403
                while status == 403:  # Until the broker has the new rule.
                    status, answer = await ask("POST", url + path, token, json=body)
                assert status == 200, answer
            filters = f"/v1/acls?principal={'Group:writers' if group == 'writers' else 'Group:e%2C%C3%BC'}"
            assert (await ask("DELETE", urls[0] + filters, basic("admin")))[0] == 200


@pytest.mark.parametrize("path", ["/v1/fetch", "/v1/topics"])
async def test_an_expired_token_stops_working_during_a_connection(
    cluster: LocalCluster, issuer: Issuer, topic: str, path: str
):
    """The lean path (fetches) and aiohttp's remember what they found for a connection."""
    until = time.time() + 3
    token = bearer(issuer.token(sub="admin", exp=until))
    fetch: Any = {"partitions": [{"topic": topic, "partition": 0, "offset": 0}], "max_wait_ms": 0}
    async with caller(cluster.public_url("broker-1")) as ask:

        async def attempt() -> tuple[int, bytes]:
            if path == "/v1/topics":
                return await ask("GET", path, token)
            return await ask("POST", path, token, json=fetch)

        status, body = await attempt()
        assert status != 401, body
        while status != 401:
            begun = time.time()
            status, body = await attempt()
            assert begun < until + 1
            await asyncio.sleep(0.02)
        assert time.time() >= until
        assert code_of(body) == "AUTHENTICATION_FAILED"
        assert b"expired" in body


async def test_keys_rotate_and_a_withdrawn_key_stops_within_seconds(cluster: LocalCluster, issuer: Issuer):
    issuer.rotate("leaked")
    leaked = bearer(issuer.token(sub="admin"))
    async with caller(cluster.public_url("broker-1")) as ask:
        status = 503
        while status == 503:  # At most until the issuer may be asked again.
            status, body = await ask("GET", "/v1/topics", leaked)
        assert status == 200, body
        issuer.rotate("next")
        del issuer.keys["leaked"]
        withdrawn = time.monotonic()
        while (await ask("GET", "/v1/topics", leaked))[0] == 200:
            await asyncio.sleep(0.2)
            assert time.monotonic() - withdrawn < 20


async def test_hostile_tokens_end_nothing(cluster: LocalCluster, issuer: Issuer, topic: str):
    junk = ["A" * 8_000, "." * 8_000, "a.b.c", issuer.token() + "A", "é", issuer.token(header={"alg": "none"})]
    async with caller(cluster.public_url("broker-1")) as ask:
        for text in junk:
            assert (await ask("GET", "/v1/topics", bearer(text)))[0] in (400, 401), text[:20]
        answers = await asyncio.gather(*(ask("GET", "/v1/topics", bearer(f"{n}.a.b")) for n in range(500)))
        assert {status for status, _ in answers} == {401}
        assert (await ask("GET", "/v1/topics", basic("admin")))[0] == 200
        assert (await ask("GET", "/readyz"))[0] == 200


async def test_clients_renew_their_tokens_while_they_produce_and_consume(
    cluster: LocalCluster, issuer: Issuer, topic: str
):
    """Tokens that expire after two seconds: no request fails, and the provider is not called for each."""
    calls: list[float] = []

    def provide() -> str:
        calls.append(time.monotonic())
        return issuer.token(sub="admin", exp=time.time() + 2)

    security = Security(token_provider=provide)
    begin, count = time.monotonic(), 0
    async with (
        Producer(cluster.bootstrap, security=security) as producer,
        Consumer(cluster.bootstrap, topic, auto_offset_reset="latest", security=security) as consumer,
    ):
        await consumer.fetch(max_records=1, max_wait_ms=10)
        while time.monotonic() - begin < 6:
            await producer.send(topic, f"renewed-{count}".encode())
            count += 1
            read = await consumer.fetch(max_records=100, max_wait_ms=20_000)
            assert read
    assert 3 <= len(calls) <= 20


async def test_a_token_of_raftlog_login_works_on_the_command_line(
    cluster: LocalCluster, issuer: Issuer, topic: str, tmp_path: Path
):
    file = tmp_path / "token.json"
    environment = os.environ | {"RAFTLOG_TOKEN_FILE": str(file), "RAFTLOG_CLIENT_SECRET": SECRET}
    environment["RAFTLOG_BOOTSTRAP"] = cluster.bootstrap

    async def raftlog(*arguments: str, status: int = 0) -> str:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "raftlog", *arguments),
            env=environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output = (await process.communicate())[0].decode()
        assert process.returncode == status, output
        return output

    assert "token_file" in await raftlog("topics", "list", status=1)
    await raftlog("login", "--issuer", issuer.url, "--client-id", CLIENT)
    assert topic in await raftlog("topics", "list")
    file.write_text(json.dumps({"access_token": issuer.token(exp=time.time() - 60)}))
    assert "it expired" in await raftlog("topics", "list", status=1)


async def test_a_followed_topic_ends_when_its_readers_token_expires(cluster: LocalCluster, issuer: Issuer, topic: str):
    until = time.time() + 3
    token = bearer(issuer.token(sub="anyone", groups=["readers"], exp=until))
    url = f"{cluster.public_url('broker-1')}/v1/topics/{topic}/records?follow=true&format=ndjson"
    async with aiohttp.ClientSession() as session, asyncio.timeout(30), session.get(url, headers=token) as response:
        assert response.status == 200
        with suppress(aiohttp.ClientError):
            async for _ in response.content.iter_any():
                pass
    assert until <= time.time() < until + 10
