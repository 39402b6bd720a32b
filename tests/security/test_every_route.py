"""Every route of both listeners, with every kind of credentials. The requests are made from the route table."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from secured_support import PASSWORDS, Caller, basic, bearer, caller, code_of, log_in, proof, secured, session

from raftlog.broker.console import static_files
from raftlog.broker.openapi.document import document
from raftlog.cli.local_cluster import LocalCluster
from raftlog.model import Acl, Address
from raftlog.record import NewRecord, build_batch
from raftlog.security.node_proof import VALID_S as PROOF_S
from raftlog.security.routes import INTERNAL, PUBLIC, Right, Route
from raftlog.security.session_tokens import VALID_S as SESSION_S
from raftlog.wire import media, paths
from raftlog.wire.codec import encode_frame
from raftlog.wire.data import ProducePartition, ProduceRequest
from tests.broker.openapi_support import faults, resolved

pytestmark = pytest.mark.cluster
DOCUMENT = document()
TOPIC, GROUP, TRANSACTIONAL_ID = "secret", "readers", "loader"
NAMES = {"topic": TOPIC, "group": GROUP, "transactional_id": TRANSACTIONAL_ID, "cluster": "cluster"}
VARIABLES = {
    "topic": TOPIC,
    "partition": 0,
    "broker": 1,
    "group": GROUP,
    "transactional_id": TRANSACTIONAL_ID,
    "set_id": TRANSACTIONAL_ID,
    "user": "someone",
    "kind": "group",
    "key": GROUP,
    "file": next(Path(static_files.__file__).with_name("static").glob("app-*.js")).name,
}
BATCH = bytes(build_batch([NewRecord(b"v", timestamp=time.time_ns() // 1_000)]))
PRODUCE = b"".join(
    bytes(part)
    for part in encode_frame(
        ProduceRequest(partitions=(ProducePartition(topic=TOPIC, partition=0, length=len(BATCH)),)), [BATCH]
    )
)
PRODUCER = {"producer_id": 1, "producer_epoch": 0}
OFFSET = {"topic": TOPIC, "partition": 0, "offset": 0}
BODIES: dict[tuple[str, str], Any] = {
    ("PATCH", paths.FEATURES): {"feature_level": 0},
    ("PATCH", paths.BROKER_CONFIGS): {"configs": {"nope": 1}},
    ("POST", paths.SCRUB): {"topics": []},
    ("POST", paths.REASSIGNMENTS): {"partitions": []},
    ("POST", paths.LEADER_ELECTIONS): {"partitions": []},
    ("PUT", paths.USER): {"password": "short"},
    ("POST", paths.ACLS): {"acls": []},
    ("PATCH", paths.QUOTAS): {"limits": {}},
    ("POST", paths.TOPICS): {"topic": TOPIC, "partitions": 1, "replication_factor": 1},
    ("PATCH", paths.TOPIC): {"configs": {"nope": 1}, "partitions": 1},
    ("POST", paths.LOGIN): {"message": "n,,n=no.such.user,r=abcdefgh"},
    ("POST", paths.PRODUCERS): None,
    ("POST", paths.PRODUCE): PRODUCE,
    ("POST", paths.FETCH): {"partitions": [{"topic": TOPIC, "partition": 0, "offset": 0}], "max_wait_ms": 0},
    ("POST", paths.TOPIC_RECORDS): {"records": [{"value": "v"}]},
    ("POST", paths.BATCHES): BATCH,
    ("POST", paths.DELETE_RECORDS): {"before_offset": 0},
    ("POST", paths.GROUP_HEARTBEAT): {"member_id": "m", "member_epoch": -1, "topics": [TOPIC]},
    ("POST", paths.GROUP_OFFSETS): {"offsets": [OFFSET]},
    ("POST", paths.GROUP_OFFSETS_FETCH): {"partitions": [{"topic": TOPIC, "partitions": [0]}]},
    ("POST", paths.MANY_OFFSETS): {"partitions": [{"topic": TOPIC, "partitions": [0]}]},
    ("POST", paths.GROUP_OFFSETS_DELETE): {"partitions": [{"topic": TOPIC, "partitions": [0]}]},
    ("POST", paths.INIT_TRANSACTIONS): {"timeout_ms": 1_000},
    ("POST", paths.END_TRANSACTION): {**PRODUCER, "committed": False},
    ("POST", paths.TRANSACTION_OFFSETS): {**PRODUCER, "group_id": GROUP, "offsets": [OFFSET]},
    ("POST", paths.END_TRANSACTION_SET): {
        "run": "r",
        "number": 0,
        "members": [{**PRODUCER, "transactional_id": TRANSACTIONAL_ID}],
    },
}
"""Requests that their handlers refuse or that change nothing, so that the order of routes does not matter."""
LEAN = (paths.PRODUCE, paths.FETCH, paths.BATCHES)
LOGIN = [route for route in PUBLIC if route.gate == "login"]
GHOST = [("DELETE", paths.TOPIC), ("DELETE", paths.BROKER)]
"""Routes that would delete what others need: they name something that does not exist."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with secured(tmp_path_factory.mktemp("secured") / "cluster", brokers=1) as running:
        yield running


@pytest.fixture
async def ask(cluster: LocalCluster):
    async with caller(cluster.public_url("broker-1")) as found:
        for topic in (TOPIC,):
            body = {"topic": topic, "partitions": 1, "replication_factor": 1, "if_not_exists": True}
            assert (await found("POST", "/v1/topics", basic("admin"), json=body))[0] in (200, 201)
        await found.rules()
        yield found


def request_of(route: Route) -> tuple[str, dict[str, Any], dict[str, str]]:
    """Return a request's path, body, and the names of resources in it."""
    names, variables = dict(NAMES), dict(VARIABLES)
    if (route.method, route.path) in GHOST:
        variables |= {"topic": "ghost", "broker": 77}
        names["topic"] = "ghost"
    path = paths.fill(route.path, **{name: value for name, value in variables.items() if f"{{{name}}}" in route.path})
    body = BODIES.get((route.method, route.path))
    if isinstance(body, bytes):
        return path, {"data": body, "headers": {"Content-Type": form_of(route)}}, names
    return path, {} if body is None else {"json": body}, names


def form_of(route: Route) -> str:
    return media.FRAME if route.path == paths.PRODUCE else media.BATCHES


async def send(url: str, route: Route, credentials: dict[str, str], *, lean: bool = True) -> tuple[int, bytes]:
    """Send a request on a connection of its own; an unknown header sends a lean one to aiohttp."""
    path, request, _ = request_of(route)
    headers = {**request.pop("headers", {}), **credentials, **({} if lean else {"X-Other": "1"})}
    async with caller(url) as alone:
        status, body = await alone(route.method, path, headers, **request)
    if status >= 400:
        require_documented(route, status, body)
    return status, body


def require_documented(route: Route, status: int, body: bytes) -> None:
    """Check a refusal by the OpenAPI document."""
    operation = DOCUMENT["paths"][route.path][route.method.lower()]
    response = resolved(DOCUMENT, operation["responses"][str(status)])
    answer = orjson.loads(body)
    assert list(faults(DOCUMENT, response["content"][media.JSON]["schema"], answer)) == []
    assert answer["error"]["code"] in operation["x-errors"]


def rule_for(right: Right, names: dict[str, str]) -> Acl:
    return Acl(
        principal="ruled",
        operation=right.operation,
        resource_type=right.resource,
        resource_name=names[right.resource],
    )


def needed(route: Route) -> list[Right]:
    """Return the rights of a request of `request_of`."""
    unused = {
        paths.COORDINATOR: ("transactional_id",),  # The requests name a group,
        paths.PRODUCE: ("transactional_id",),  # and no transaction.
        paths.BATCHES: () if route.path != paths.BATCHES else ("transactional_id",),
    }.get(route.path, ())
    return [right for right in route.rights if right.resource not in unused]


def is_refused(route: Route, answer: tuple[int, bytes]) -> bool:
    """Return whether an answer refuses the whole request, or hides or refuses its one topic or group."""
    status, body = answer
    if status == 403:
        assert code_of(body) == "AUTHORIZATION_FAILED"
        return True
    assert status != 401, body
    if any(right.where.startswith("of each entry") for right in route.rights):
        return not any(name.encode() in body for name in (TOPIC, GROUP, TRANSACTIONAL_ID))
    return b"AUTHORIZATION_FAILED" in body


ids = [f"{route.method} {route.path}" for route in LOGIN]


@pytest.mark.parametrize("route", LOGIN, ids=ids)
async def test_a_login_and_rules_decide(cluster: LocalCluster, ask: Caller, route: Route):
    wrongs = [{}, basic("admin", "wrong-secret"), basic("no.such.user", "x"), {"Authorization": "Digest x"}]
    listed_empty = route.path in (paths.METADATA, paths.TOPICS, paths.GROUPS, paths.TRANSACTIONS)
    for lean in (True, False) if route.path in LEAN else (False,):
        for wrong in wrongs:
            status, body = await send(ask.url, route, wrong, lean=lean)
            assert (status, code_of(body)) == (401, "AUTHENTICATION_FAILED"), (wrong, status, body)

        for user in ("nobody", "ruled"):
            answer = await send(ask.url, route, basic(user), lean=lean)
            assert route.rights == () or is_refused(route, answer) or listed_empty, answer

        _, _, names = request_of(route)
        rights = needed(route)
        rules = [rule_for(right, names) for right in rights]
        await ask.rules(*rules)
        answer = await send(ask.url, route, basic("ruled"), lean=lean)
        assert answer[0] not in (401, 403), answer
        assert b"AUTHORIZATION_FAILED" not in answer[1]
        assert (
            b"AUTHORIZATION_FAILED" in (await send(ask.url, route, basic("nobody"), lean=lean))[1]
            or not rules
            or (is_refused(route, await send(ask.url, route, basic("nobody"), lean=lean)) or listed_empty)
        )

        for right in [right for right in rights if route.path != paths.PRODUCERS]:
            everything = [replace(rule, operation="all") for rule in rules]
            await ask.rules(*everything)
            deny = replace(rule_for(right, names), permission="deny")
            rule = {"acls": [{name: getattr(deny, name) for name in Acl.__slots__}]}
            assert (await ask("POST", "/v1/acls", basic("admin"), json=rule))[0] == 201
            answer = await send(ask.url, route, basic("ruled"), lean=lean)
            assert is_refused(route, answer) or listed_empty, (right, answer)
        await ask.rules()


@pytest.mark.parametrize("route", LOGIN, ids=ids)
async def test_credentials_that_have_expired_are_refused(cluster: LocalCluster, ask: Caller, route: Route):
    """A session's token of the super user, and one that has not expired: it is refused for its credential."""
    for ago_s, why in ((SESSION_S + 5, b"has expired"), (5, b"has ended")):
        for lean in (True, False) if route.path in LEAN else (False,):
            status, body = await send(ask.url, route, session(cluster, "admin", ago_s=ago_s), lean=lean)
            assert (status, code_of(body)) == (401, "AUTHENTICATION_FAILED"), body
            assert why in body


@pytest.mark.parametrize("route", LOGIN, ids=ids)
async def test_a_session_token_is_answered_as_the_password_is(ask: Caller, route: Route):
    _, found = await log_in(ask, ask.url, ask.url, "nobody", PASSWORDS["nobody"])
    token = found["access_token"]
    for lean in (True, False) if route.path in LEAN else (False,):
        by_password = await send(ask.url, route, basic("nobody"), lean=lean)
        by_token = await send(ask.url, route, bearer(token), lean=lean)
        assert by_token[0] == by_password[0], (by_token, by_password)
        assert is_refused(route, by_token) == is_refused(route, by_password)
        status, body = await send(ask.url, route, bearer(token[:-1] + ("E" if token[-1] == "A" else "A")), lean=lean)
        assert (status, code_of(body)) == (401, "AUTHENTICATION_FAILED"), body


async def test_rules_for_everyone_admit_senders_without_credentials(ask: Caller):
    """As in Kafka, `User:*` includes them."""
    produce = next(route for route in PUBLIC if route.path == paths.PRODUCE)
    topics = next(route for route in PUBLIC if (route.method, route.path) == ("GET", paths.TOPICS))
    rule = {"principal": "*", "operation": "write", "resource_type": "topic", "resource_name": TOPIC}
    assert (await ask("POST", "/v1/acls", basic("admin"), json={"acls": [rule]}))[0] == 201
    try:
        for route in (produce, topics):
            status, body = await send(ask.url, route, {})
            assert (status, TOPIC.encode() in body, b"AUTH" in body) == (200, True, False), body
    finally:
        await ask("DELETE", "/v1/acls?principal=*", basic("admin"))


@pytest.mark.parametrize("route", [route for route in PUBLIC if route.gate == "open"], ids=lambda r: r.path)
async def test_open_routes_need_no_login(ask: Caller, route: Route):
    assert (await send(ask.url, route, {}))[0] in (200, 204)
    assert (await send(ask.url, route, basic("admin", "wrong")))[0] in (200, 204)


def bodies_of(broker: int) -> dict[str, Any]:
    """Return bodies of internal requests that name a broker, and change nothing."""
    named = {"broker_id": broker, "broker_epoch": 10**9}
    return {
        paths.REPLICA_FETCH: {
            "replica_id": broker,
            "broker_epoch": 10**9,
            "max_wait_ms": 0,
            "max_bytes": 1,
            "partition_max_bytes": 1,
            "session_epoch": -1,
            "partitions": [],
        },
        paths.REGISTER_BROKER: {
            "cluster_id": "another",
            "broker_id": broker,
            "incarnation_id": "i",
            "public": "127.0.0.1:1",
            "internal": "127.0.0.1:2",
        },
        paths.HEARTBEAT: {**named, "metadata_offset": 0},
        paths.ALTER_PARTITIONS: {**named, "partitions": []},
        paths.DAMAGED_REPLICAS: {**named, "partitions": []},
        paths.PRODUCER_ID_BLOCK: named,
    }


OF_BROKERS = (paths.REPLICA_FETCH, paths.REPAIR, paths.JOIN_TRANSACTION, paths.WRITE_MARKERS)
NODE = [route for route in INTERNAL if route.gate == "node"]


@pytest.mark.parametrize("route", NODE, ids=[route.path for route in NODE])
async def test_internal_listeners_serve_nodes_only(cluster: LocalCluster, route: Route):
    node = cluster.node("broker-1" if route.path in OF_BROKERS else "controller-101")
    other = Address("127.0.0.1", 1)
    query = "?broker_id=2&max_wait_ms=0" if route.path == paths.METADATA_WATCH else ""
    url = f"http://{node.internal}{route.path}{query}"
    body = bodies_of(2).get(route.path, {})
    strangers = [
        {},
        basic("admin", "wrong-secret"),
        {"Authorization": "Raftlog-Node Broker:2"},
        proof(cluster, "Broker:2", node.internal, key="x" * 40),
        proof(cluster, "Broker:2", node.internal, cluster_id="another"),
        proof(cluster, "Broker:2", other),
        proof(cluster, "Broker:2", node.internal, ago_s=PROOF_S + 5),
        session(cluster, "admin", ago_s=SESSION_S + 5),
    ]
    for lean in (True, False):
        more = {} if lean else {"X-Other": "1"}
        for stranger in strangers:
            async with caller(url) as ask:
                request = {"json": body} if route.method == "POST" else {}
                status, answer = await ask(route.method, url, stranger | more, **request)
                assert (status, code_of(answer)) == (401, "AUTHENTICATION_FAILED"), (stranger, answer)
                assert b"stored_key" not in answer

        for user, allowed in (("nobody", False), ("admin", not route.identity)):
            async with caller(url) as ask:
                request = {"json": body} if route.method == "POST" else {}
                status, answer = await ask(route.method, url, basic(user) | more, **request)
                assert (status not in (401, 403)) == allowed, (user, status, answer)
                assert b"stored_key" not in answer

        async with caller(url) as ask:
            status, answer = await ask(
                route.method, url, proof(cluster, "Broker:2", node.internal) | more, **({"json": body} if body else {})
            )
            assert status not in (401, 403), answer
            if route.identity:
                forged = proof(cluster, "Broker:1", node.internal) | more
                status, answer = await ask(route.method, url, forged, **({"json": body} if body else {}))
                assert (status, code_of(answer)) == (403, "AUTHORIZATION_FAILED"), answer
