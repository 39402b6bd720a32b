"""What unauthenticated and misbehaving clients do to a cluster that enforces rules; and what honest users can do."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import aiohttp
import orjson
import pytest
from secured_support import basic, caller, code_of, proof, secured

from raftlog.cli.local_cluster import LocalCluster
from raftlog.model import Acl
from raftlog.security.identity import Sender, forwarded
from raftlog.security.principal import Principal
from raftlog.wire import paths

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with secured(tmp_path_factory.mktemp("strangers") / "cluster", brokers=2) as running:
        yield running


def topic_rule(operation: str, name: str) -> Acl:
    return Acl(principal="ruled", operation=operation, resource_type="topic", resource_name=name)  # type: ignore[arg-type]


async def made(url: str, topic: str, partitions: int = 1) -> None:
    async with caller(url) as ask:
        body = {"topic": topic, "partitions": partitions, "replication_factor": 2}
        status, answer = await ask("POST", "/v1/topics", basic("admin"), json=body)
        assert status == 201, answer


async def test_records_that_are_forwarded_keep_their_user(cluster: LocalCluster, topic_name: str):
    """Partitions have different leaders: each broker forwards some. A leader decides for the user, not for the node."""
    url = cluster.public_url("broker-1")
    await made(url, topic_name, partitions=4)
    async with caller(url) as ask:
        records = {"records": [{"value": n, "partition": n} for n in range(4)]}
        await ask.rules(topic_rule("write", topic_name))
        for name in ("broker-1", "broker-2"):
            path = f"{cluster.public_url(name)}/v1/topics/{topic_name}/records"
            status, body = await ask("POST", path, basic("ruled"), json=records)
            assert (status, len(orjson.loads(body)["offsets"])) == (200, 4), body
        await ask.rules(topic_rule("read", topic_name))
        path = f"/v1/topics/{topic_name}/records"
        assert (await ask("POST", path, basic("ruled"), json=records))[0] == 403
        status, body = await ask("GET", f"{path}?format=json", basic("ruled"))
        assert (status, len(orjson.loads(body))) == (200, 8)
        await ask.rules()


async def test_only_nodes_may_name_another_sender(cluster: LocalCluster, topic_name: str):
    url = cluster.public_url("broker-1")
    await made(url, topic_name)
    as_admin = forwarded(Sender(Principal("User:admin"), "127.0.0.1"))
    as_nobody = forwarded(Sender(Principal("User:nobody"), "127.0.0.1"))
    fetch = {"partitions": [{"topic": topic_name, "partition": 0, "offset": 0}], "max_wait_ms": 0}
    for path, request in ((f"/v1/topics/{topic_name}", None), (paths.FETCH, fetch)):
        method = "GET" if request is None else "POST"
        for stranger, expected in ((basic("nobody"), 403), ({}, 403), (basic("nobody", "wrong"), 401)):
            async with caller(url) as ask:
                status, body = await ask(method, path, stranger | as_admin, json=request)
                assert status == expected, body
        public = cluster.node("broker-1").public
        assert public is not None
        async with caller(url) as ask:
            status, body = await ask(method, path, proof(cluster, "Broker:2", public) | as_nobody, json=request)
            assert status == 403 or b"AUTHORIZATION_FAILED" in body


async def test_an_unknown_and_a_forbidden_topic_look_alike(cluster: LocalCluster, topic_name: str):
    url = cluster.public_url("broker-1")
    await made(url, topic_name)
    missing = topic_name.replace("topic-", "other-")
    requests = [
        ("GET", "/v1/topics/{}", None),
        ("PATCH", "/v1/topics/{}", {"configs": {"retention_ms": 1}}),
        ("DELETE", "/v1/topics/{}", None),
        ("GET", "/v1/topics/{}/records", None),
        ("POST", "/v1/topics/{}/records", {"records": [{"value": 1}]}),
        ("GET", "/v1/topics/{}/partitions/0/records", None),
        ("GET", "/v1/topics/{}/partitions/99/offsets", None),
        ("POST", "/v1/topics/{}/partitions/0/delete-records", {"before_offset": 0}),
        ("GET", "/v1/metadata?topic={}", None),
        ("POST", "/v1/topics", {"topic": "{}"}),
        ("POST", "/v1/fetch", {"partitions": [{"topic": "{}", "partition": 0, "offset": 0}]}),
        ("POST", "/v1/groups/g/heartbeat", {"member_id": "m", "member_epoch": 0, "topics": ["{}"]}),
    ]
    async with caller(url) as ask:
        await ask.rules(Acl(principal="ruled", operation="read", resource_type="group", resource_name="*"))
        headers = {**basic("ruled"), "X-Request-Id": "one-for-all"}
        for method, path, body in requests:
            answers = []
            for topic in (topic_name, missing):
                sent = None if body is None else orjson.loads(orjson.dumps(body).replace(b"{}", topic.encode()))
                status, answer = await ask(method, path.replace("{}", topic), headers, json=sent)
                offset = answer.find(b'"metadata_offset":')
                plain = answer if offset < 0 else answer[:offset] + answer[answer.index(b",", offset) :]
                answers.append((status, plain.replace(topic.encode(), b"T")))
            assert answers[0] == answers[1], (method, path)
        await ask.rules()


async def test_a_changed_rule_and_a_deleted_user_count_at_once(cluster: LocalCluster, topic_name: str):
    url = cluster.public_url("broker-1")
    await made(url, topic_name)
    fetch = {"partitions": [{"topic": topic_name, "partition": 0, "offset": 0}], "max_wait_ms": 0}
    async with caller(url) as admin, caller(url) as ask:
        status, _ = await admin("PUT", "/v1/users/leaver", basic("admin"), json={"password": "leaver-secret"})
        assert status == 200
        leaver = basic("leaver", "leaver-secret")
        rule = [{"principal": "leaver", "operation": "read", "resource_type": "topic", "resource_name": topic_name}]
        assert b"AUTHORIZATION_FAILED" in (await ask("POST", paths.FETCH, leaver, json=fetch))[1]
        await admin("POST", "/v1/acls", basic("admin"), json={"acls": rule})
        assert b"AUTHORIZATION_FAILED" not in (await ask("POST", paths.FETCH, leaver, json=fetch))[1]
        await admin("DELETE", "/v1/acls?principal=leaver", basic("admin"))
        assert b"AUTHORIZATION_FAILED" in (await ask("POST", paths.FETCH, leaver, json=fetch))[1]
        await admin("DELETE", "/v1/users/leaver", basic("admin"))
        assert (await ask("POST", paths.FETCH, leaver, json=fetch))[0] == 401  # On the same lean connection.


async def test_a_set_of_transactions_needs_the_right_to_each_member(cluster: LocalCluster):
    url = cluster.public_url("broker-1")
    member = {"transactional_id": "job::1", "producer_id": 1, "producer_epoch": 0}
    body = {"run": "r", "number": 0, "members": [member]}
    one = Acl(principal="ruled", operation="write", resource_type="transactional_id", resource_name="job")
    async with caller(url) as ask:
        path = paths.fill(paths.END_TRANSACTION_SET, set_id="job")
        await ask.rules(one)
        status, answer = await ask("POST", path, basic("ruled"), json=body)
        assert (status, code_of(answer)) == (403, "AUTHORIZATION_FAILED")
        await ask.rules(replace(one, pattern="prefixed"))
        assert (await ask("POST", path, basic("ruled"), json=body))[0] not in (401, 403)
        await ask.rules()


async def test_a_followed_topic_ends_when_its_reader_loses_the_right(cluster: LocalCluster, topic_name: str):
    url = cluster.public_url("broker-1")
    await made(url, topic_name)
    path = f"/v1/topics/{topic_name}/records"
    async with caller(url) as admin, aiohttp.ClientSession() as session, asyncio.timeout(30):
        await admin.rules(topic_rule("read", topic_name))
        assert (await admin("POST", path, basic("admin"), json={"records": [{"value": 1}]}))[0] == 200
        async with session.get(f"{url}{path}?follow=true&format=ndjson", headers=basic("ruled")) as response:
            assert b'"value":"1"' in await response.content.readline()
            await admin.rules()
            assert (await admin("POST", path, basic("admin"), json={"records": [{"value": 2}]}))[0] == 200
            rest = b""
            try:
                async for piece in response.content.iter_any():
                    rest += piece
            except aiohttp.ClientError:
                pass
            assert b'"value":"2"' not in rest


async def test_a_pattern_matches_only_topics_that_the_member_may_know(cluster: LocalCluster, topic_name: str):
    url = cluster.public_url("broker-1")
    hidden = topic_name.replace("topic-", "topic-hidden-")
    for topic in (topic_name, hidden):
        await made(url, topic)
    group = f"group-{topic_name}"
    body = {
        "member_id": "m",
        "member_epoch": 0,
        "topics": [],
        "pattern": f"topic-(hidden-)?{topic_name[6:]}",
        "owned": [],
        "rebalance_timeout_ms": 10_000,
    }
    async with caller(url) as ask:
        read = Acl(principal="ruled", operation="read", resource_type="group", resource_name=group)
        await ask.rules(read, topic_rule("describe", topic_name))
        path = paths.fill(paths.GROUP_HEARTBEAT, group=group)
        answer = {}
        async with asyncio.timeout(20):
            while not answer.get("assignment"):
                status, raw_answer = await ask("POST", path, basic("ruled"), json=body)
                if status == 307:
                    path = orjson.loads(raw_answer)["error"]["details"]["url"] + paths.fill(
                        paths.GROUP_HEARTBEAT, group=group
                    )
                    continue
                answer = orjson.loads(raw_answer)
                if status == 200:
                    body = {"member_id": "m", "member_epoch": answer["member_epoch"], "owned": []}
                    continue
                assert answer["error"]["retriable"], answer
        assert [part["topic"] for part in answer["assignment"]] == [topic_name]
        await ask.rules()


async def raw(cluster: LocalCluster, head: bytes) -> bytes:
    """Send bytes; return the status line."""
    address = cluster.node("broker-1").public
    assert address is not None
    reader, writer = await asyncio.open_connection(address.host, address.port)
    try:
        async with asyncio.timeout(20):
            try:
                writer.write(head)
                await writer.drain()
                return await reader.readline()
            except ConnectionError:
                return b""
    finally:
        writer.close()


@pytest.mark.parametrize("request_line", [b"POST /v1/fetch HTTP/1.1", b"GET /v1/topics HTTP/1.1"])
@pytest.mark.parametrize(
    "field",
    [
        b"Authorization: Basic " + b"A" * (10 << 20),
        b"Authorization: Basic \x00\x01\x02",
        b"Authorization: Basic \xff\xfe",
        b"Authorization: Basic !!!!",
        b"Authorization:",
        b"Authorization: Basic YW5uADpzZWNyZXQ=",  # ann, NUL, :secret
        b"AUTHORIZATION: Basic YWRtaW46d3Jvbmc=",
        b"Authorization: Basic YWRtaW46d3Jvbmc=\r\nAuthorization: Basic YWRtaW46d3Jvbmc=",
        b"Authorization: Raftlog-Node Broker:1;1;127.0.0.1:1;" + b"0" * 64,
        b"Raftlog-On-Behalf-Of: \x7f",
        b"Raftlog-On-Behalf-Of: %00,User:admin",
    ],
    ids=lambda value: value[:40].decode("latin-1"),
)
async def test_malformed_credentials_are_refused(cluster: LocalCluster, request_line: bytes, field: bytes):
    body = b'{"partitions": []}'
    head = b"\r\n".join((request_line, b"Host: x", field, b"Content-Length: %d" % len(body), b"", b""))
    line = await raw(cluster, head + body)
    assert line == b"" or line.split()[1] in (b"400", b"401", b"403", b"431"), line


async def test_a_flood_of_wrong_passwords_does_not_stop_others(cluster: LocalCluster, topic_name: str):
    """The flood comes from another loopback address than the honest clients: one that is known, and a new one."""
    url = cluster.public_url("broker-1")
    await made(url, topic_name)
    statuses: list[int] = []
    stop = asyncio.Event()
    numbers = itertools.count()

    async def flood(session: aiohttp.ClientSession) -> None:
        while not stop.is_set():
            wrong = basic("admin", f"wrong-{next(numbers)}")
            async with session.get(f"{url}/v1/topics", headers=wrong) as response:
                statuses.append(response.status)

    connector = aiohttp.TCPConnector(local_addr=("127.0.0.2", 0), limit=0)
    async with aiohttp.ClientSession(connector=connector) as session, caller(url) as known, caller(url) as fresh:
        assert (await known("GET", "/v1/topics", basic("admin")))[0] == 200
        floods = [asyncio.ensure_future(flood(session)) for _ in range(50)]
        while len(statuses) < 200:
            await asyncio.sleep(0.01)
        began, longest = time.monotonic(), 0.0
        for _ in range(100):
            sent = time.monotonic()
            assert (await known("GET", "/v1/topics?consistency=local", basic("admin")))[0] == 200
            longest = max(longest, time.monotonic() - sent)
        first = time.monotonic()
        assert (await fresh("GET", "/v1/topics", basic("nobody")))[0] == 200
        login_s = time.monotonic() - first
        rate = len(statuses) / (time.monotonic() - began)
        stop.set()
        await asyncio.gather(*floods)
    print(f"{rate:.0f} wrong passwords/s; known client {longest * 1000:.0f} ms at most, login {login_s * 1000:.0f} ms")
    assert set(statuses) == {401, 429}
    assert longest < 2
    assert login_s < 5


async def test_controllers_hand_verifiers_to_nodes_only(cluster: LocalCluster):
    node = cluster.node("controller-101")
    url = f"http://{node.internal}{paths.METADATA_WATCH}?after_offset=-1&max_wait_ms=0"
    async with caller(url) as ask:
        status, body = await ask("GET", url)
        assert (status, code_of(body)) == (401, "AUTHENTICATION_FAILED")
        status, body = await ask("GET", url, proof(cluster, "Broker:1", node.internal))
        assert status == 200
        assert b"stored_key" in body
        status, body = await ask("GET", url, basic("admin"))
        assert status == 200
        assert b'"stored_key":""' in body


async def test_without_an_authorizer_verifiers_are_handed_to_nodes_only(tmp_path: Path):
    with secured(tmp_path / "cluster", brokers=1, mode="off") as cluster:
        node = cluster.node("controller-101")
        url = f"http://{node.internal}{paths.METADATA_WATCH}?max_wait_ms=0&after_offset="
        verifier = b'"stored_key":"'
        async with caller(cluster.public_url("broker-1")) as ask:
            for after in (-1, 0):
                for headers in ({}, proof(cluster, "Broker:1", node.internal, key="x" * 40)):
                    status, body = await ask("GET", f"{url}{after}", headers)
                    assert (status, verifier + b'"' in body, body.count(verifier)) == (200, True, 6), body
                status, body = await ask("GET", f"{url}{after}", proof(cluster, "Broker:1", node.internal))
                assert (status, verifier + b'"' in body, body.count(verifier)) == (200, False, 6), body
            digests = set()
            for path in ("/v1/metadata/digest", f"http://{node.internal}/v1/metadata/digest"):
                digests.add(orjson.loads((await ask("GET", path))[1])["digest"])
            assert len(digests) == 1


def test_a_broker_with_another_key_is_refused_with_the_reason(tmp_path: Path):
    with secured(tmp_path / "cluster", brokers=1) as cluster:
        (tmp_path / "cluster" / "other.key").write_text("z" * 40)
        settings = {"authorizer": "acl", "super_users": ["User:admin"], "cluster_key_file": "../other.key"}
        cluster.kill("broker-1")
        cluster.configure("broker-1", security=settings)
        cluster.start_node("broker-1")
        deadline = time.monotonic() + 20
        while cluster.pid("broker-1") is not None and cluster.status()[1].state != "died":
            assert time.monotonic() < deadline, cluster.log_tail("broker-1")
            time.sleep(0.05)
        assert "cluster_key_file must be the same" in cluster.log_tail("broker-1")
