"""Administration over HTTP on a real cluster: settings, moves, elections, users, rules, quotas, digests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from broker_support import Http, http_to

from raftlog.broker.controller_channel import WATCH_WAIT_MS
from raftlog.cli.local_cluster import LocalCluster
from raftlog.metadata_quorum.records import FEATURE_LEVEL

pytestmark = pytest.mark.cluster


@pytest.fixture
async def http(shared_cluster: LocalCluster) -> AsyncIterator[Http]:
    async with http_to(shared_cluster.public_url("broker-1")) as http:
        yield http


async def until(ask: Callable[[], Awaitable[Any]]) -> Any:
    """Ask until the answer is true; the test's own time limit ends it otherwise."""
    async with asyncio.timeout(20):
        while not (answer := await ask()):
            await asyncio.sleep(0.02)
    return answer


async def partition(http: Http, topic: str, number: int = 0) -> Any:
    return (await http("GET", f"/v1/topics/{topic}")).json["partitions"][number]


async def test_a_partition_moves_with_its_records(http: Http, topic_name: str):
    created = await http.create(topic_name, replication_factor=2)
    await http.produce(topic_name, *(f"value {i}" for i in range(500)))
    before = created["partitions"][0]["replicas"]
    (new,) = {1, 2, 3} - set(before)
    target = [new, before[1]]

    begun = await http(
        "POST",
        "/v1/reassignments",
        json={"partitions": [{"topic": topic_name, "partition": 0, "replicas": target}]},
    )
    assert begun.status == 200
    assert [move["adding"] for move in begun.json["partitions"]] in ([[new]], [])

    async def moved() -> bool:
        now = await partition(http, topic_name)
        return now["replicas"] == target and sorted(now["isr"]) == sorted(target)

    await until(moved)
    assert (await http("GET", "/v1/reassignments")).json == {"partitions": []}
    elected = await http("POST", "/v1/leader-elections", json={"partitions": [{"topic": topic_name, "partition": 0}]})
    assert elected.json["partitions"][0]["leader"] == new
    records = (await http("GET", f"/v1/topics/{topic_name}/partitions/0/records?offset=0")).json["records"]
    assert [record["value"] for record in records] == [f"value {i}" for i in range(500)]


async def test_a_move_is_cancelled(http: Http, topic_name: str):
    created = await http.create(topic_name, replication_factor=1)
    home = created["partitions"][0]["replicas"]
    other = [broker for broker in (1, 2, 3) if broker not in home]

    def asked(replicas: list[int] | None) -> dict[str, Any]:
        return {"partitions": [{"topic": topic_name, "partition": 0, "replicas": replicas}]}

    await http("POST", "/v1/reassignments", json=asked(other))

    async def settled() -> bool:
        await http("POST", "/v1/reassignments", json=asked(None))
        return not (await partition(http, topic_name)).get("adding")

    await until(settled)
    assert sorted((await partition(http, topic_name))["replicas"]) in (sorted(home), sorted(other))


@pytest.mark.parametrize(
    ("replicas", "code"),
    [([], "INVALID_REPLICA_ASSIGNMENT"), ([1, 1], "INVALID_REPLICA_ASSIGNMENT"), ([99], "INVALID_REPLICA_ASSIGNMENT")],
)
async def test_a_move_to_nowhere_is_refused(http: Http, topic_name: str, replicas: list[int], code: str):
    await http.create(topic_name)
    body = {"partitions": [{"topic": topic_name, "partition": 0, "replicas": replicas}]}
    refused = await http("POST", "/v1/reassignments", json=body)
    assert (refused.status, refused.code) == (400, code)


async def test_settings_of_a_topic_change_and_bad_ones_do_not(http: Http, topic_name: str):
    await http.create(topic_name)
    path = f"/v1/topics/{topic_name}"
    changed = await http("PATCH", path, json={"configs": {"retention_ms": 5_000, "min_insync_replicas": 1}})
    assert changed.json["configs"] == {"flush": "batch", "min_insync_replicas": 1, "retention_ms": 5_000}
    unset = await http("PATCH", path, json={"configs": {"retention_ms": None}, "partitions": 3})
    assert "retention_ms" not in unset.json["configs"]
    assert len(unset.json["partitions"]) == 3

    for body, code in (
        ({"configs": {"no_such": 1}}, "INVALID_CONFIG"),
        ({"configs": {"retention_ms": "soon"}}, "INVALID_CONFIG"),
        ({"partitions": 2}, "INVALID_PARTITIONS"),
        ({"partitons": 9}, "INVALID_REQUEST"),
    ):
        refused = await http("PATCH", path, json=body)
        assert (refused.status, refused.code) == (400, code), refused.body
    assert (await http("PATCH", "/v1/topics/no-such-topic", json={"partitions": 2})).status == 404
    assert len((await http("GET", path)).json["partitions"]) == 3


async def test_a_smaller_limit_holds_at_once(http: Http, topic_name: str):
    """Leaders go by a topic's settings as they are, not as they were when the partition was opened."""
    await http.create(topic_name)
    assert (await http.produce(topic_name, "x" * 2_000)).status == 200
    await http("PATCH", f"/v1/topics/{topic_name}", json={"configs": {"max_message_bytes": 1_024}})

    async def refused() -> bool:
        return (await http.produce(topic_name, "x" * 2_000)).status == 413

    await until(refused)
    assert (await http.produce(topic_name, "small")).status == 200


async def test_users_are_listed_without_what_verifies_them(http: Http):
    put = await http("PUT", "/v1/users/ann", json={"password": "correct horse"})
    mechanisms = ["SCRAM-SHA-256", "SCRAM-SHA-512"]
    assert put.json == {"user": "ann", "mechanism": "SCRAM-SHA-256", "mechanisms": mechanisms}
    assert put.json in (await http("GET", "/v1/users")).json["users"]
    short = await http("PUT", "/v1/users/bob", json={"password": "short"})
    assert (short.status, short.message) == (400, "password: expected at least 8 characters, received 5")
    assert (await http("DELETE", "/v1/users/ann")).status == 200
    assert (await http("DELETE", "/v1/users/ann")).status == 404


async def test_rules_and_quotas(http: Http, topic_name: str):
    rule = {
        "principal": "ann",
        "operation": "read",
        "resource_type": "topic",
        "resource_name": topic_name,
        "pattern": "literal",
        "permission": "allow",
        "host": "*",
    }
    assert (await http("POST", "/v1/acls", json={"acls": [rule]})).status == 201
    listed = await http("GET", f"/v1/acls?resource_name={topic_name}")
    assert listed.json == {"acls": [rule], "authorizer": "off", "matching": 1}
    assert (await http("POST", "/v1/acls", json={"acls": [{**rule, "operation": "fly"}]})).status == 400
    assert (await http("DELETE", f"/v1/acls?resource_name={topic_name}")).json["acls"] == [rule]
    assert (await http("GET", f"/v1/acls?resource_name={topic_name}")).json["acls"] == []

    quota = {"user": "ann", "client_id": "", "limits": {"producer_byte_rate": 1e6}}
    assert quota in (await http("PATCH", "/v1/quotas", json=quota)).json["quotas"]
    refused = await http("PATCH", "/v1/quotas", json={"user": "ann", "limits": {"producer_byte_rate": -1}})
    assert refused.status == 400
    gone = await http("PATCH", "/v1/quotas", json={"user": "ann", "limits": {"producer_byte_rate": None}})
    assert "ann" not in [entry["user"] for entry in gone.json["quotas"]]


async def test_settings_of_brokers(http: Http):
    for broker in ("default", "2"):
        path = f"/v1/brokers/{broker}/configs"
        changed = await http("PATCH", path, json={"configs": {"retention_ms": 7_000_000}})
        assert changed.json == {"configs": {"retention_ms": 7_000_000}}
        assert (await http("GET", path)).json == changed.json
        assert (await http("PATCH", path, json={"configs": {"retention_ms": None}})).json == {"configs": {}}
    refused = await http("PATCH", "/v1/brokers/2/configs", json={"configs": {"nope": 3}})
    assert (refused.status, refused.code) == (400, "INVALID_CONFIG")
    assert (await http("GET", "/v1/brokers/two/configs")).status == 404


async def test_a_broker_that_serves_is_not_forgotten(http: Http):
    refused = await http("DELETE", "/v1/brokers/3")
    assert refused.status in (400, 409), refused.body
    assert [broker["broker_id"] for broker in (await http("GET", "/v1/brokers")).json["brokers"]] == [1, 2, 3]


async def test_features_and_the_quorum(http: Http):
    features = (await http("GET", "/v1/features")).json
    assert features == {"feature_level": FEATURE_LEVEL, "max_feature_level": FEATURE_LEVEL}
    assert (await http("PATCH", "/v1/features", json={"feature_level": FEATURE_LEVEL + 1})).status == 409
    quorum = (await http("GET", "/v1/quorum")).json
    roles = sorted(voter["role"] for voter in quorum["voters"])
    assert roles == ["follower", "follower", "leader"]
    assert quorum["leader_id"] == (await http("GET", "/v1/controller")).json["controller_id"]


async def test_all_brokers_hold_the_same_image(http: Http, shared_cluster: LocalCluster, topic_name: str):
    await http.create(topic_name)

    async def digests() -> set[tuple[int, str]]:
        found = set()
        for name in ("broker-1", "broker-2", "broker-3"):
            answer = (await http("GET", f"{shared_cluster.public_url(name)}/v1/metadata/digest")).json
            found.add((answer["metadata_offset"], answer["digest"]))
        return found

    async def equal() -> bool:
        return len(await digests()) == 1

    await until(equal)
    local = (await http("GET", "/v1/topics?consistency=local")).json
    assert topic_name in [topic["topic"] for topic in local["topics"]]
    assert (await http("GET", "/v1/topics?consistency=eventual")).status == 400


async def test_a_broker_knows_its_own_folders_and_others_send_to_it(http: Http, topic_name: str):
    await http.create(topic_name, replication_factor=3)
    sent = await http("GET", "/v1/brokers/2/log-dirs", follow=False)
    assert (sent.status, sent.code) == (307, "NOT_LEADER_OR_FOLLOWER")
    for broker in (1, 2):
        found = (await http("GET", f"/v1/brokers/{broker}/log-dirs")).json
        assert (found["broker_id"], found["offline"]) == (broker, [])
        (folder,) = found["log_dirs"]
        assert folder["path"].endswith("data")
        assert [r["partition"] for r in folder["replicas"] if r["topic"] == topic_name] == [0]
    for unknown in ("9", "x", "-1"):
        refused = await http("GET", f"/v1/brokers/{unknown}/log-dirs")
        assert (refused.status, refused.code) == (404, "NOT_FOUND")
    assert (await http("GET", "/v1/brokers/1/log-dirs?topics=t")).status == 400


async def test_reads_of_metadata_do_not_wait_for_the_next_change(http: Http):
    """A read's command changes nothing and wakes no waiter: waiting for it once took a whole long poll."""
    loop, took = asyncio.get_running_loop(), list[float]()
    for _ in range(9):
        begun = loop.time()
        assert (await http("GET", "/v1/topics")).status == 200
        took.append(loop.time() - begun)
    assert sorted(took)[4] < WATCH_WAIT_MS / 4_000, took
