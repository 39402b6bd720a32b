"""Real answers of every route are as the OpenAPI document says: status, content type, header fields, JSON."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import signal
import struct
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from broker_support import Reply
from openapi_support import faults, resolved

from raftlog.broker.openapi.document import document
from raftlog.broker.openapi.operations import OPERATIONS
from raftlog.cli.local_cluster import LocalCluster
from raftlog.record import NewRecord, build_batch
from raftlog.wire import media, paths, scram
from raftlog.wire.codec import encode_frame
from raftlog.wire.data import ProducePartition, ProduceRequest
from raftlog.wire.scram import ClientFirst

pytestmark = pytest.mark.cluster
DOCUMENT = document()
TOPIC, GROUP, TRANSACTION = "flights", "readers", "loader"
LAX = {"GET /livez", "GET /readyz", f"OPTIONS {paths.TOPIC_RECORDS}", f"OPTIONS {paths.RECORDS}"}
"""Routes that ignore unknown names of a query: supervisors and browsers send them."""
SETTINGS = {
    "offsets_topic_num_partitions": 1,
    "offsets_topic_replication_factor": 1,
    "transaction_state_log_num_partitions": 1,
    "transaction_state_log_replication_factor": 1,
}


class Checked:
    """Sends requests, and compares requests and answers with the document."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self.url = url
        self.seen: dict[str, set[int]] = defaultdict(set)
        """The statuses of answers, by method and path of the operation."""
        self.named: dict[str, set[str]] = defaultdict(set)
        """The names of queries that were accepted, by operation."""

    async def __call__(
        self,
        method: str,
        path: str,
        expected: int,
        *,
        body: Any = None,
        query: Mapping[str, Any] | None = None,
        url: str = "",
        headers: Mapping[str, str] | None = None,
        **variables: Any,
    ) -> Reply:
        operation = DOCUMENT["paths"][path][method.lower()]
        sent = dict(headers or {})
        if "requestBody" in operation:
            (form,) = operation["requestBody"]["content"]
            sent.setdefault("Content-Type", form)
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            schema = operation["requestBody"]["content"][form]["schema"]
            is_json = form == media.JSON and expected < 400
            assert not is_json or list(faults(DOCUMENT, schema, body)) == [], (body, schema)
        else:
            data = None
        target = f"{url or self.url}{paths.fill(path, **variables)}"
        name, request = f"{method} {path}", {"params": query, "data": data, "headers": sent}
        while True:
            async with self._session.request(method, target, allow_redirects=False, **request) as answer:
                reply = Reply(answer.status, answer.headers, await answer.read())
            if reply.status != 503:
                break
            self._check(name, operation, reply)  # Such as a coordinator that still loads.
            await asyncio.sleep(0.05)
        assert reply.status == expected, (name, query, body, reply.status, reply.body[:600])
        self._check(name, operation, reply)
        self.seen[name].add(reply.status)
        if expected < 300:
            self.named[name] |= (query or {}).keys()
        return reply

    def _check(self, name: str, operation: Mapping[str, Any], reply: Reply) -> None:
        assert str(reply.status) in operation["responses"], (name, reply.status, reply.body[:300])
        response = resolved(DOCUMENT, operation["responses"][str(reply.status)])
        contents, form = response.get("content", {}), reply.headers.get("Content-Type", "").partition(";")[0]
        if not contents:
            assert reply.body == b""
            return
        assert form in contents, (name, form)
        if form == media.JSON:
            assert list(faults(DOCUMENT, contents[form]["schema"], reply.json)) == [], (name, reply.json)
        if reply.status >= 300:
            assert reply.code in operation["x-errors"] or reply.status == 307, (name, reply.code)
        for header, value in reply.headers.items():
            if header.startswith("Raftlog-") or header in ("Location", "Retry-After", "ETag", "Accept-Ranges"):
                assert header in response.get("headers", {}), (name, reply.status, header)
                schema = resolved(DOCUMENT, response["headers"][header])["schema"]
                plain = int(value) if schema["type"] == "integer" else value
                assert list(faults(DOCUMENT, schema, plain)) == [], (name, header, value)


def batch() -> bytes:
    return bytes(build_batch([NewRecord(b"v", key=b"k", timestamp=time.time_ns() // 1_000)]))


def frame(topic: str) -> bytes:
    raw = batch()
    head = ProduceRequest(partitions=(ProducePartition(topic=topic, partition=0, length=len(raw)),))
    return b"".join(map(bytes, encode_frame(head, [raw])))


def head_of(raw: bytes) -> Any:
    (length,) = struct.unpack_from("<I", raw)
    return json.loads(raw[4 : 4 + length])


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    folder: Path = tmp_path_factory.mktemp("openapi") / "cluster"
    folder.mkdir()
    (folder / "cluster.key").write_text("k" * 40)
    extra = {"*": {"broker": SETTINGS, "security": {"cluster_key_file": "../cluster.key"}}}
    with LocalCluster(folder, controllers=1, brokers=2, port=0, extra=extra) as running:
        yield running


@pytest.fixture
async def ask(cluster: LocalCluster) -> AsyncIterator[Checked]:
    async with aiohttp.ClientSession(headers={"Accept-Encoding": "identity"}) as session:
        yield Checked(session, cluster.public_url("broker-1"))


async def test_real_answers_are_as_documented(cluster: LocalCluster, ask: Checked):
    await unregisters(cluster, ask)
    await answers_of_topics(ask)
    await answers_of_records(ask)
    await answers_of_groups(ask)
    await answers_of_transactions(ask)
    await answers_of_the_cluster(ask)
    await answers_of_security(ask)
    await answers_of_the_node(ask)
    await answers_of_the_console(ask)
    await refuses_unknown_names(ask)

    assert {operation.name for operation in OPERATIONS} == ask.seen.keys()
    for operation in OPERATIONS:
        endless = operation.path == paths.CONSOLE_EVENTS  # See test_console_http.py.
        assert endless or min(ask.seen[operation.name]) < 300, operation.name
        assert max(ask.seen[operation.name]) >= 400, operation.name
        assert not operation.redirects or operation.elsewhere in ask.seen[operation.name], operation.name
        assert {one.name for one in operation.query} == ask.named[operation.name], operation.name


async def unregisters(cluster: LocalCluster, ask: Checked) -> None:
    """While broker 2 is stopped and has no replicas."""
    await ask("DELETE", paths.BROKER, 400, broker=2)
    cluster.kill("broker-2", signal.SIGTERM)
    while not (await ask("GET", paths.BROKERS, 200)).json["brokers"][1]["fenced"]:
        await asyncio.sleep(0.1)
    await ask("DELETE", paths.BROKER, 200, broker=2)
    await ask("DELETE", paths.BROKER, 404, broker="one")
    await ask("GET", paths.LOG_DIRS, 404, broker=2)
    cluster.start_node("broker-2")
    cluster.wait_ready()


async def answers_of_topics(ask: Checked) -> None:
    body = {"topic": TOPIC, "partitions": 1, "replication_factor": 1, "configs": {"retention_ms": 3_600_000}}
    await ask("POST", paths.TOPICS, 200, body={**body, "validate_only": True})
    await ask("POST", paths.TOPICS, 201, body=body)
    await ask("POST", paths.TOPICS, 409, body=body)
    await ask("POST", paths.TOPICS, 400, body={"topic": "no spaces"})
    await ask("POST", paths.TOPICS, 400, body={**body, "more": 1})
    await ask("POST", paths.TOPICS, 415, body=body, headers={"Content-Type": "text/csv"})
    for consistency in ("linearizable", "local"):
        query = {"consistency": consistency}
        await ask("GET", paths.TOPICS, 200, query=query)
        await ask("GET", paths.TOPIC, 200, query=query, topic=TOPIC)
        await ask("GET", paths.TOPIC_SETTINGS, 200, query=query, topic=TOPIC)
        await ask("GET", paths.REASSIGNMENTS, 200, query=query)
    page = (await ask("GET", paths.TOPICS, 200, query={"limit": 1, "contains": "LIGHT", "after": "a"})).json
    assert ([one["topic"] for one in page["topics"]], page["matching"], page["next"]) == ([TOPIC], 1, "")
    await ask("GET", paths.TOPICS, 400, query={"limit": 0})
    await ask("GET", paths.TOPIC_SETTINGS, 404, topic="ghost")
    await ask("GET", paths.TOPIC, 404, topic="ghost")
    await ask("GET", paths.TOPIC, 400, topic=TOPIC, query={"consistency": "none"})
    await ask("GET", paths.METADATA, 200, query={"topic": TOPIC})
    await ask("PATCH", paths.TOPIC, 200, topic=TOPIC, body={"configs": {"retention_ms": None}})
    await ask("PATCH", paths.TOPIC, 400, topic=TOPIC, body={"configs": {"nope": 1}})
    await ask("PATCH", paths.TOPIC, 404, topic="ghost", body={"partitions": 2})
    for moved in (2, 1):
        part = {"topic": TOPIC, "partition": 0, "replicas": [moved]}
        await ask("POST", paths.REASSIGNMENTS, 200, body={"partitions": [part]})
        while (await ask("GET", paths.TOPIC, 200, topic=TOPIC)).json["partitions"][0]["replicas"] != [moved]:
            await asyncio.sleep(0.05)
    await ask("POST", paths.REASSIGNMENTS, 400, body={"partitions": [{**part, "replicas": [77]}]})
    await ask("POST", paths.LEADER_ELECTIONS, 200, body={})
    elected = [{"topic": TOPIC, "partition": 0}]
    await ask("POST", paths.LEADER_ELECTIONS, 200, body={"election": "preferred", "partitions": elected})
    await ask("POST", paths.LEADER_ELECTIONS, 400, body={"election": "unclean"})
    await ask("POST", paths.TOPICS, 201, body={"topic": "brief", "partitions": 1, "replication_factor": 1})
    await ask("DELETE", paths.TOPIC, 200, topic="brief")
    await ask("DELETE", paths.TOPIC, 404, topic="brief")


async def leader_of(ask: Checked, topic: str, partition: int = 0) -> tuple[str, str]:
    """Return the URL of a partition's leader, once it has one, and that of another broker."""
    while True:
        found = (await ask("GET", paths.METADATA, 200, query={"topic": topic})).json
        (leader,) = (one["leader"] for one in found["topics"][0]["partitions"] if one["partition"] == partition)
        urls = {broker["broker_id"]: broker["url"] for broker in found["brokers"]}
        if leader in urls:
            return urls.pop(leader), next(iter(urls.values()))


async def answers_of_records(ask: Checked) -> None:
    leader, other = await leader_of(ask, TOPIC)
    part = {"topic": TOPIC, "partition": 0}
    records = {
        "records": [
            {"value": "text", "key": "k", "headers": {"h": "v"}, "timestamp": 1_700_000_000_123},
            {"value": {"any": ["JSON", 1]}, "headers": [{"key": "a", "value": None}, {"key": "a", "value": "b"}]},
            {"value": "/wA=", "value_encoding": "base64", "key": "/wA=", "key_encoding": "base64", "partition": 0},
            {"value": None, "timestamp": "2024-01-02T03:04:05Z"},
        ]
    }
    for acks in ("all", "-1", "1", "0"):
        query = {"acks": acks, "timeout_ms": 10_000}
        await ask("POST", paths.TOPIC_RECORDS, 200, topic=TOPIC, body=records, query=query, url=other)
        await ask("POST", paths.BATCHES, 200, **part, body=batch(), query=query, url=leader)
    await ask("POST", paths.BATCHES, 200, **part, body=batch(), query={"transactional_id": ""}, url=leader)
    await ask("POST", paths.BATCHES, 400, **part, body=batch(), query={"acks": 2}, url=leader)
    await ask("POST", paths.BATCHES, 422, **part, body=batch()[:-1] + b"?", url=leader)
    await ask("POST", paths.BATCHES, 404, topic="ghost", partition=0, body=batch())
    await ask("POST", paths.BATCHES, 307, **part, body=batch(), url=other)
    await ask("POST", paths.TOPIC_RECORDS, 404, topic="ghost", body=records)
    await ask("POST", paths.TOPIC_RECORDS, 400, topic=TOPIC, body={"records": []})
    wrong = {"records": [{"value": "v", "timestamp": 4_102_444_800_000}, {"value": "v"}]}
    refused = await ask("POST", paths.TOPIC_RECORDS, 400, topic=TOPIC, body=wrong)
    assert refused.code == "INVALID_TIMESTAMP"
    assert (await ask("POST", paths.PRODUCE, 200, body=frame(TOPIC), url=leader)).json["partitions"][0]["error"] is None
    assert (await ask("POST", paths.PRODUCE, 200, body=frame("ghost"))).json["partitions"][0]["error"] is not None
    await ask("POST", paths.PRODUCE, 400, body=b"no frame")
    await ask("POST", paths.PRODUCERS, 201)
    await answers_of_reads(ask, leader, other)
    await ask("POST", paths.DELETE_RECORDS, 200, **part, body={"before_offset": 1}, url=leader)
    await ask("POST", paths.DELETE_RECORDS, 200, **part, body={"before_offset": "high_watermark"}, url=leader)
    await ask("POST", paths.DELETE_RECORDS, 416, **part, body={"before_offset": 10**6}, url=leader)
    await ask("POST", paths.DELETE_RECORDS, 307, **part, body={"before_offset": 1}, url=other)
    await ask("POST", paths.DELETE_RECORDS, 404, topic="ghost", partition=0, body={"before_offset": 1})
    await ask("GET", paths.RECORDS, 416, **part, query={"offset": 0}, url=leader)
    await ask("GET", paths.TOPIC_RECORDS, 416, topic=TOPIC, query={"from": "0:0"})


async def answers_of_reads(ask: Checked, leader: str, other: str) -> None:
    part = {"topic": TOPIC, "partition": 0}
    for form in DOCUMENT["paths"][paths.RECORDS]["get"]["responses"]["200"]["content"]:
        reply = await ask("GET", paths.RECORDS, 200, **part, headers={"Accept": form}, url=leader)
        assert reply.headers["Content-Type"] == form
    lines = await ask("GET", paths.RECORDS, 200, **part, headers={"Accept": media.NDJSON}, url=leader)
    require_rows("JsonReadRecord", lines.body)
    await answers_of_each_value(ask, paths.RECORDS, leader, **part)
    await answers_of_each_value(ask, paths.OFFSETS, leader, **part)
    for path in (paths.RECORDS, paths.OFFSETS):
        await ask("GET", path, 307, **part, url=other)
        await ask("GET", path, 404, topic="ghost", partition=0)
        await ask("GET", path, 404, topic=TOPIC, partition="first")
        await ask("GET", path, 400, **part, query={"isolation": "none"}, url=leader)
    await ask("GET", paths.OFFSETS, 400, **part, query={"at": "noon"}, url=leader)
    many = {"partitions": [{"topic": TOPIC, "partitions": [0]}, {"topic": "ghost", "partitions": [7]}]}
    for query in ({"at": "earliest"}, {"isolation": "read_committed"}, {"scope": "cluster"}):
        found = (await ask("POST", paths.MANY_OFFSETS, 200, body=many, query=query, url=other)).json["offsets"]
        assert [one["error"] is None for one in found] == [True, False]
        assert found[1]["error"]["request_id"]
    found = (await ask("POST", paths.MANY_OFFSETS, 200, body=many, query={"scope": "broker"}, url=other)).json[
        "offsets"
    ]
    assert found[0]["error"]["code"] == "NOT_LEADER_OR_FOLLOWER"
    await ask("POST", paths.MANY_OFFSETS, 400, body={"partitions": 2 * many["partitions"]}, url=other)
    await ask("GET", paths.OFFSETS, 200, **part, query={"at": 1_700_000_000_000}, url=leader)
    fetch = {"partitions": [{**part, "offset": 0}, {"topic": "ghost", "partition": 0, "offset": 0}], "max_wait_ms": 0}
    head = head_of((await ask("POST", paths.FETCH, 200, body=fetch, url=leader)).body)
    schema = DOCUMENT["paths"][paths.FETCH]["post"]["responses"]["200"]["content"][media.FRAME]["x-head"]
    assert list(faults(DOCUMENT, schema, head)) == []
    assert [one["error"] is None for one in head["partitions"]] == [True, False]
    await ask("POST", paths.FETCH, 400, body={**fetch, "max_wait_ms": -1})
    await answers_of_each_value(ask, paths.TOPIC_RECORDS, "", topic=TOPIC)
    for name in ("ndjson", "json"):
        every = await ask("GET", paths.TOPIC_RECORDS, 200, topic=TOPIC, query={"format": name}, url=other)
        require_rows("JsonRow", every.body if name == "ndjson" else b"\n".join(map(dumped, every.json)))
    fixed = {"format": "ndjson", "from": "0:0", "until": "0:2"}
    etag = (await ask("GET", paths.TOPIC_RECORDS, 200, topic=TOPIC, query=fixed)).headers["ETag"]
    part_of = {"Range": "bytes=0-9", "If-Range": etag}
    piece = await ask("GET", paths.TOPIC_RECORDS, 206, topic=TOPIC, query=fixed, headers=part_of)
    assert len(piece.body) == 10
    await ask("GET", paths.TOPIC_RECORDS, 416, topic=TOPIC, query=fixed, headers={"Range": "bytes=99999-"})
    zipped = await ask("GET", paths.TOPIC_RECORDS, 200, topic=TOPIC, headers={"Accept-Encoding": "gzip"})
    assert zipped.headers["Content-Encoding"] == "gzip"
    await ask("GET", paths.TOPIC_RECORDS, 404, topic="ghost")
    for path, variables in ((paths.TOPIC_RECORDS, {"topic": TOPIC}), (paths.RECORDS, part)):
        await ask("OPTIONS", path, 204, **variables)
        await ask("OPTIONS", path, 403, **variables, headers={"Origin": "https://evil.example"})


def dumped(row: Any) -> bytes:
    return json.dumps(row).encode()


def require_rows(schema: str, lines: bytes) -> None:
    rows = [json.loads(line) for line in lines.splitlines()]
    assert len(rows) > 4
    for row in rows:
        assert list(faults(DOCUMENT, DOCUMENT["components"]["schemas"][schema], row)) == []


async def answers_of_each_value(ask: Checked, path: str, url: str, **variables: Any) -> None:
    """Send each documented value of a query, and the bounds of numbers; the broker must accept these, and no others."""
    for parameter in DOCUMENT["paths"][path]["get"]["parameters"]:
        if parameter.get("in") != "query":
            continue
        schema = parameter["schema"]
        for value in accepted(parameter):
            query = {parameter["name"]: value}
            if query == {"follow": "true"}:
                ask.named[f"GET {path}"].add("follow")  # The answer would not end: tests/broker/test_topic_stream.py
                continue
            await ask("GET", path, 200, query=query, url=url, **variables)
        for part in schema.get("anyOf", [schema]):
            if part["type"] == "integer":
                for wrong in (part["minimum"] - 1, part["maximum"] + 1, "1.5"):
                    await ask("GET", path, 400, query={parameter["name"]: wrong}, url=url, **variables)
        if "enum" in schema:
            await ask("GET", path, 400, query={parameter["name"]: "another"}, url=url, **variables)


def accepted(parameter: Mapping[str, Any]) -> Iterator[Any]:
    schema = parameter["schema"]
    yield from (schema["default"],) if "default" in schema else ()
    for part in schema.get("anyOf", [schema]):
        yield from part.get("enum", ())
        yield from (part["minimum"],) if part["type"] == "integer" and parameter["name"] != "at" else ()
    if schema == {"type": "string"}:
        yield parameter.get("example", "k")
    if "pattern" in schema:
        yield "0"


async def answers_of_groups(ask: Checked) -> None:
    """The group's internal topic has one partition: both coordinators are its leader."""
    found = (await ask("GET", paths.COORDINATOR, 200, kind="group", key=GROUP)).json
    await ask("GET", paths.COORDINATOR, 404, kind="user", key=GROUP)
    url, (_, other) = found["url"], await leader_of(ask, found["topic"])
    part = {"topic": TOPIC, "partition": 0}
    joins = {"member_id": "m", "member_epoch": 0, "topics": [TOPIC], "owned": [], "session_timeout_ms": 45_000}
    joins |= {"rebalance_timeout_ms": 45_000, "instance_id": None, "pattern": None, "assignor": "uniform"}
    epoch = (await ask("POST", paths.GROUP_HEARTBEAT, 200, group=GROUP, body=joins, url=url)).json["member_epoch"]
    await ask("POST", paths.GROUP_HEARTBEAT, 409, group=GROUP, body={"member_id": "x", "member_epoch": 9}, url=url)
    assert (await ask("GET", paths.GROUP, 200, group=GROUP, url=url)).json["members"]
    commit = {"offsets": [{**part, "offset": 1}], "member_id": "m", "member_epoch": epoch}
    assert (await ask("POST", paths.GROUP_OFFSETS, 200, group=GROUP, body=commit, url=url)).json["offsets"]
    await ask("POST", paths.GROUP_OFFSETS, 409, group=GROUP, body={**commit, "member_epoch": 99}, url=url)
    await ask("DELETE", paths.GROUP, 409, group=GROUP, url=url)
    wanted = {"partitions": [{"topic": TOPIC, "partitions": [0]}]}
    assert (await ask("GET", paths.GROUP_OFFSETS, 200, group=GROUP, url=url)).json["offsets"]
    await ask("POST", paths.GROUP_OFFSETS_FETCH, 200, group=GROUP, body=wanted, url=url)
    await ask("POST", paths.GROUP_OFFSETS_FETCH, 409, group=GROUP, body={"member_id": "x", "member_epoch": 1}, url=url)
    removed = await ask("POST", paths.GROUP_OFFSETS_DELETE, 200, group=GROUP, body=wanted, url=url)
    assert removed.json["offsets"][0]["error"]["code"] == "GROUP_SUBSCRIBED_TO_TOPIC"
    assert removed.json["offsets"][0]["error"]["request_id"] == removed.headers["X-Request-Id"]
    await ask("POST", paths.GROUP_OFFSETS_DELETE, 404, group="ghost", body=wanted, url=url)
    await ask("GET", paths.GROUP, 404, group="ghost", url=url)
    for scope in ("cluster", "broker"):
        await ask("GET", paths.GROUPS, 200, query={"scope": scope}, url=url)
    page = await ask("GET", paths.GROUPS, 200, query={"limit": 1, "contains": GROUP, "after": "a"}, url=other)
    assert ([one["group_id"] for one in page.json["groups"]], page.json["matching"]) == ([GROUP], 1)
    await ask("GET", paths.GROUPS, 400, query={"scope": "all"})
    for method, path, body in (
        ("GET", paths.GROUP, None),
        ("DELETE", paths.GROUP, None),
        ("POST", paths.GROUP_HEARTBEAT, joins),
        ("GET", paths.GROUP_OFFSETS, None),
        ("POST", paths.GROUP_OFFSETS, commit),
        ("POST", paths.GROUP_OFFSETS_FETCH, wanted),
        ("POST", paths.GROUP_OFFSETS_DELETE, wanted),
    ):
        await ask(method, path, 307, group=GROUP, body=body, url=other)
    leaves = {"member_id": "m", "member_epoch": -1}
    await ask("POST", paths.GROUP_HEARTBEAT, 200, group=GROUP, body=leaves, url=url)
    await ask("DELETE", paths.GROUP, 200, group=GROUP, url=url)


async def answers_of_transactions(ask: Checked) -> None:
    found = (await ask("GET", paths.COORDINATOR, 200, kind="transaction", key=TRANSACTION)).json
    url, (_, other) = found["url"], await leader_of(ask, found["topic"])
    name = {"transactional_id": TRANSACTION, "url": url}
    producer = (await ask("POST", paths.INIT_TRANSACTIONS, 200, body={"timeout_ms": 60_000}, **name)).json
    await ask("POST", paths.INIT_TRANSACTIONS, 400, body={"timeout_ms": 0}, **name)
    await ask("POST", paths.INIT_TRANSACTIONS, 421, body={}, transactional_id=TRANSACTION, url=other)
    offsets = {"group_id": GROUP, **producer, "offsets": [{"topic": TOPIC, "partition": 0, "offset": 1}]}
    group_url = (await ask("GET", paths.COORDINATOR, 200, kind="group", key=GROUP)).json["url"]
    at_group = {"transactional_id": TRANSACTION, "url": group_url}
    await ask("POST", paths.TRANSACTION_OFFSETS, 200, body=offsets, **at_group)
    await ask("POST", paths.TRANSACTION_OFFSETS, 409, body={**offsets, "producer_id": 1}, **at_group)
    assert (await ask("GET", paths.TRANSACTION, 200, **name)).json["groups"] == [GROUP]
    assert (await ask("GET", paths.TRANSACTIONS, 200, url=url)).json["transactions"]
    page = {"scope": "cluster", "state": "open", "limit": 1, "contains": TRANSACTION, "after": "a"}
    found = (await ask("GET", paths.TRANSACTIONS, 200, query=page, url=other)).json
    assert ([one["phase"] for one in found["transactions"]], found["matching"]) == (["ongoing"], 1)
    await ask("GET", paths.TRANSACTIONS, 400, query={"state": "closed"}, url=url)
    await ask("GET", paths.TRANSACTION, 404, transactional_id="ghost", url=url)
    await ask("GET", paths.TRANSACTION, 421, transactional_id=TRANSACTION, url=other)
    await ask("POST", paths.END_TRANSACTION, 200, body={**producer, "committed": True}, **name)
    await ask("POST", paths.END_TRANSACTION, 421, body={**producer, "committed": True}, **{**name, "url": other})
    await ask("POST", paths.END_TRANSACTION, 409, body={**producer, "producer_id": 1, "committed": True}, **name)
    end = {"run": "r", "number": 0, "members": []}
    await ask("POST", paths.END_TRANSACTION_SET, 200, body=end, set_id="set", url=url)
    await ask("POST", paths.END_TRANSACTION_SET, 421, body=end, set_id="set", url=other)
    assert (await ask("GET", paths.TRANSACTION_SET, 200, set_id="set", url=url)).json["run"] == "r"
    await ask("GET", paths.TRANSACTION_SET, 421, set_id="set", url=other)


async def answers_of_the_cluster(ask: Checked) -> None:
    both = ("linearizable", "local")
    for path in (paths.CLUSTER, paths.CONTROLLER, paths.BROKERS, paths.FEATURES):
        for consistency in both:
            await ask("GET", path, 200, query={"consistency": consistency})
    for consistency in both:
        await ask("GET", paths.BROKER_CONFIGS, 200, broker=1, query={"consistency": consistency})
    assert (await ask("GET", paths.QUORUM, 200)).json["voters"]
    await ask("GET", paths.METADATA_DIGEST, 200)
    level = (await ask("GET", paths.FEATURES, 200)).json["feature_level"]
    await ask("PATCH", paths.FEATURES, 200, body={"feature_level": level})
    await ask("PATCH", paths.FEATURES, 409, body={"feature_level": 999})
    for broker in (1, "default"):
        await ask("PATCH", paths.BROKER_CONFIGS, 200, broker=broker, body={"configs": {"max_connection_rate": 10_000}})
        assert (await ask("GET", paths.BROKER_CONFIGS, 200, broker=broker)).json["configs"]
        await ask("PATCH", paths.BROKER_CONFIGS, 200, broker=broker, body={"configs": {"max_connection_rate": None}})
    await ask("PATCH", paths.BROKER_CONFIGS, 400, broker=1, body={"configs": {"nope": 1}})
    await ask("GET", paths.BROKER_CONFIGS, 404, broker="one")
    whole = (await ask("GET", paths.LOG_DIRS, 200, broker=1)).json["log_dirs"][0]
    assert len(whole["replicas"]) == whole["replica_count"] > 0
    assert sum(one["size_bytes"] for one in whole["replicas"]) == whole["size_bytes"]
    for query, count in (({"only": "damaged"}, whole["replica_count"]), ({"topic": "no-such-topic"}, 0)):
        some = (await ask("GET", paths.LOG_DIRS, 200, broker=1, query=query)).json["log_dirs"][0]
        assert (some["replicas"], some["damaged_count"], some["replica_count"]) == ([], 0, count)
    await ask("GET", paths.LOG_DIRS, 307, broker=2)
    every = {"principal": "a", "resource": "b", "outcome": "all", "event": "all", "since": 0, "until": 1, "limit": 500}
    audit = (await ask("GET", paths.AUDIT, 200, broker=1, query=every | {"before": "1-2"})).json
    assert audit == {"broker_id": 1, "kept": "none", "entries": [], "reached": "", "next": ""}
    await ask("GET", paths.AUDIT, 400, broker=1, query={"outcome": "maybe"})
    await ask("GET", paths.AUDIT, 307, broker=2)
    await ask("GET", paths.AUDIT, 404, broker=77)
    for consistency in both:
        found = await ask("GET", paths.BROKER_SETTINGS, 200, broker=1, query={"consistency": consistency})
    settings = {one["name"]: one for one in found.json["settings"]}
    assert settings["broker.offsets_topic_num_partitions"] == {
        "name": "broker.offsets_topic_num_partitions",
        "value": 1,
        "source": "file",
        "default": 50,
        "is_dynamic": False,
    }
    assert not any(name.startswith(("security", "tls")) for name in settings)
    await ask("GET", paths.BROKER_SETTINGS, 307, broker=2)
    await ask("GET", paths.BROKER_SETTINGS, 404, broker=77)
    for method, body, done in (("GET", None, 200), ("POST", {"topics": []}, 202)):
        await ask(method, paths.SCRUB, done, broker=1, body=body)
        await ask(method, paths.SCRUB, 307, broker=2, body=body)
        await ask(method, paths.SCRUB, 404, broker=77, body=body)
    await ask("POST", paths.SCRUB, 404, broker=1, body={"topics": ["ghost"]})


async def answers_of_security(ask: Checked) -> None:
    await ask("PUT", paths.USER, 200, user="someone", body={"password": "long-enough-1"})
    await ask("PUT", paths.USER, 400, user="someone", body={"password": "short"})
    await answers_of_logins(ask)
    rule = {"principal": "someone", "operation": "read", "resource_type": "topic", "resource_name": TOPIC}
    whole = {**rule, "pattern": "literal", "permission": "allow", "host": "*"}
    await ask("POST", paths.ACLS, 201, body={"acls": [rule, {**rule, "operation": "write"}]})
    await ask("POST", paths.ACLS, 400, body={"acls": [{**rule, "operation": "fly"}]})
    for name, value in whole.items():
        found = await ask("GET", paths.ACLS, 200, query={name: value})
        assert {**whole, "principal": found.json["acls"][0]["principal"]} in found.json["acls"]
    await ask("GET", paths.ACLS, 200, query={"consistency": "local"})
    for method in ("GET", "DELETE"):
        await ask(method, paths.ACLS, 400, query={"operation": "fly"})
    for name, value in whole.items():
        await ask("DELETE", paths.ACLS, 200, query={name: value, "principal": "nobody.else"})
    assert (await ask("DELETE", paths.ACLS, 200, query={"principal": "someone"})).json["acls"]
    assert (await ask("GET", paths.ACLS, 200, query={"limit": 1})).json["matching"] == 0
    page = await ask("GET", paths.USERS, 200, query={"limit": 1, "contains": "someone", "after": "a"})
    assert (page.json["matching"], page.json["next"]) == (1, "")
    for path in (paths.USERS, paths.QUOTAS):
        await ask("GET", path, 200, query={"consistency": "local"})
    limit = {"user": "someone", "client_id": "", "limits": {"producer_byte_rate": 1e9}}
    assert (await ask("PATCH", paths.QUOTAS, 200, body=limit)).json["quotas"]
    await ask("PATCH", paths.QUOTAS, 400, body={"user": "someone", "limits": {"nope": 1}})
    await ask("PATCH", paths.QUOTAS, 200, body={**limit, "limits": {"producer_byte_rate": None}})
    assert (await ask("GET", paths.USERS, 200)).json["users"]
    await ask("DELETE", paths.USER, 200, user="someone")
    await ask("DELETE", paths.USER, 404, user="someone")


async def answers_of_logins(ask: Checked) -> None:
    first = ClientFirst("someone", "client-nonce")
    begun = await ask("POST", paths.LOGIN, 200, body={"message": first.text})
    answer = scram.parse_server_first(begun.json["message"], first.nonce)
    for password, expected in (("long-enough-1", 200), ("wrong-secret-1", 401)):
        salted = scram.salted_password(password, answer.salt, answer.iterations)
        message, _ = scram.client_final(first, answer, salted)
        body = {"mechanism": scram.MECHANISM, "message": message, "first": first.text}
        ended = await ask("POST", paths.LOGIN, expected, body=body)
        assert expected != 200 or ended.json["access_token"]
    await ask("POST", paths.LOGIN, 400, body={"message": "n,,r=x"})


async def answers_of_the_node(ask: Checked) -> None:
    for path in (paths.LIVEZ, paths.READYZ):
        await ask("GET", path, 200)
        await ask("GET", path, 403, headers={"Origin": "https://evil.example"})
    await ask("GET", paths.METRICS, 200)
    await ask("GET", paths.METRICS, 200, query={"detail": "partitions"})
    await ask("GET", paths.METRICS, 400, query={"detail": "everything"})
    page = await ask("GET", paths.OPENAPI, 200)
    assert page.json == DOCUMENT


async def answers_of_the_console(ask: Checked) -> None:
    await ask("GET", paths.CONSOLE, 200)
    await ask("GET", paths.CONSOLE_INDEX, 200)
    await ask("GET", paths.CONSOLE_FILE, 200, file="index.html")
    await ask("GET", paths.CONSOLE_FILE, 404, file="no-such.js")
    await ask("GET", paths.CONSOLE_SESSION, 200, query={"topic": TOPIC, "group": GROUP})
    await ask("GET", paths.CONSOLE_TOPIC, 200, topic=TOPIC)
    await ask("GET", paths.CONSOLE_TOPIC, 404, topic="no-such-topic")


async def refuses_unknown_names(ask: Checked) -> None:
    variables: dict[str, Any] = {"topic": TOPIC, "partition": 0, "broker": 1, "group": GROUP, "user": "someone"}
    variables |= {"transactional_id": TRANSACTION, "set_id": "set", "kind": "group", "key": GROUP, "file": "app.js"}
    for operation in OPERATIONS:
        if operation.name in LAX:
            continue
        named = {name: variables[name] for name in re.findall(r"{(\w+)}", operation.path)}
        refused = await ask(operation.method, operation.path, 400, query={"no_such_name": 1}, body={}, **named)
        assert refused.code == "INVALID_REQUEST"
        assert "no_such_name" in refused.message
        names = ", ".join(sorted(one.name for one in operation.query)) or "none"
        assert refused.message.endswith(f"known names are {names}") or operation.path == paths.METRICS, refused.message


async def test_the_document_is_cached_by_its_readers(cluster: LocalCluster):
    async with aiohttp.ClientSession(auto_decompress=False) as session:
        url = f"{cluster.public_url('broker-2')}{paths.OPENAPI}"
        found = {}
        for coding in ("identity", "gzip"):
            async with session.get(url, headers={"Accept-Encoding": coding}) as answer:
                found[coding] = body = await answer.read()
                etag = answer.headers["ETag"]
                assert (answer.status, answer.headers["Vary"]) == (200, "Accept-Encoding")
                assert answer.headers.get("Content-Encoding", "identity") == coding
            for known, status in ((etag, 304), (f'"other", {etag}', 304), (f"W/{etag}", 304), ("*", 304), ('"x"', 200)):
                async with session.get(url, headers={"Accept-Encoding": coding, "If-None-Match": known}) as answer:
                    assert (answer.status, answer.headers["ETag"]) == (status, etag), known
                    assert await answer.read() == (b"" if status == 304 else body)
            async with session.head(url, headers={"Accept-Encoding": coding}) as answer:
                assert (answer.status, await answer.read()) == (200, b"")
                assert int(answer.headers["Content-Length"]) == len(body)
        assert gzip.decompress(found["gzip"]) == found["identity"]
        assert len(found["gzip"]) < len(found["identity"]) // 4


async def test_a_controller_does_not_serve_the_document(cluster: LocalCluster):
    async with aiohttp.ClientSession() as session:
        for node in ("controller-101", "broker-1"):
            async with session.get(f"http://{cluster.node(node).internal}{paths.OPENAPI}") as answer:
                assert answer.status == 404
