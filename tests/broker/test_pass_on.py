"""Requests with `Raftlog-Pass-On: true`: any broker answers, with the rights of the sender."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from broker_support import Http, Reply, http_to

from raftlog.cli.local_cluster import LocalCluster
from tests.security.secured_support import basic, secured

pytestmark = pytest.mark.cluster
PASS_ON = {"Raftlog-Pass-On": "true"}
BROKERS = ("broker-1", "broker-2", "broker-3")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with secured(tmp_path_factory.mktemp("secured") / "cluster", brokers=3) as running:
        yield running


async def settled(http: Http, method: str, path: str, **request: Any) -> Reply:
    """Return the answer, once a coordinator that was just created has loaded its state."""
    async with asyncio.timeout(30):
        while (answer := await http(method, path, **request)).status in (421, 503):
            assert answer.code in ("COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR")
            await asyncio.sleep(0.05)
    return answer


async def of_all(cluster: LocalCluster, method: str, path: str, user: str = "admin", **request: Any) -> list[Any]:
    """Return the answers of all brokers to one request."""
    found = []
    for broker in BROKERS:
        async with http_to(cluster.public_url(broker)) as http:
            found.append(await settled(http, method, path, headers=basic(user) | PASS_ON, follow=False, **request))
    return found


async def created(http: Http, topic: str) -> None:
    body = {"topic": topic, "partitions": 6, "replication_factor": 1, "if_not_exists": True}
    assert (await http("POST", "/v1/topics", headers=basic("admin"), json=body)).status in (200, 201)


async def test_every_broker_answers_for_groups_brokers_and_partitions(cluster: LocalCluster):
    async with http_to(cluster.public_url("broker-1")) as http:
        await created(http, "flights")
    offsets = [{"topic": "flights", "partition": number, "offset": 0} for number in range(6)]
    for answer in await of_all(cluster, "POST", "/v1/groups/a%2Fb/offsets", json={"offsets": offsets}):
        assert answer.status == 200, answer.body
    for answer in await of_all(cluster, "GET", "/v1/groups/a%2Fb"):
        assert answer.json["group_id"] == "a/b"
    for answer in await of_all(cluster, "GET", "/v1/groups/ghost"):
        assert (answer.status, answer.code) == (404, "GROUP_ID_NOT_FOUND")
        assert answer.json["error"]["request_id"] == answer.headers["X-Request-Id"]
    for broker in (1, 2, 3):
        answers = await of_all(cluster, "GET", f"/v1/brokers/{broker}/log-dirs?topic=flights")
        assert [answer.json["broker_id"] for answer in answers] == [broker] * 3
        assert len({answer.json["log_dirs"][0]["path"] for answer in answers}) == 1
    every = {"partitions": [{"topic": "flights", "partitions": list(range(6))}]}
    for answer in await of_all(cluster, "POST", "/v1/offsets", json=every):
        assert [one["high_watermark"] for one in answer.json["offsets"]] == [0] * 6
    listed = [answer.json for answer in await of_all(cluster, "GET", "/v1/groups?limit=1&contains=A/")]
    assert all(one["matching"] == 1 and one["groups"][0]["group_id"] == "a/b" for one in listed)


async def test_every_broker_answers_for_transactions(cluster: LocalCluster):
    path = "/v1/transactions/loader"
    (first, *_) = await of_all(cluster, "GET", path)
    assert (first.status, first.code) == (404, "TRANSACTIONAL_ID_NOT_FOUND")
    epochs = [answer.json["producer_epoch"] for answer in await of_all(cluster, "POST", f"{path}/init", json={})]
    assert epochs == sorted(set(epochs))
    assert [answer.json["phase"] for answer in await of_all(cluster, "GET", path)] == ["empty"] * 3
    listed = [answer.json for answer in await of_all(cluster, "GET", "/v1/transactions?scope=cluster&limit=5")]
    assert all([one["transactional_id"] for one in each["transactions"]] == ["loader"] for each in listed)


async def test_the_senders_rights_count_at_the_other_broker(cluster: LocalCluster):
    async with http_to(cluster.public_url("broker-1")) as http:
        await created(http, "secret")
        rules = [
            {"principal": "ruled", "operation": operation, "resource_type": "group", "resource_name": "readers"}
            for operation in ("describe", "read")
        ]
        assert (await http("POST", "/v1/acls", headers=basic("admin"), json={"acls": rules})).status == 201
    offsets = [{"topic": "secret", "partition": 0, "offset": 0}]
    for answer in await of_all(cluster, "POST", "/v1/groups/readers/offsets", "ruled", json={"offsets": offsets}):
        assert answer.json["offsets"][0]["error"]["code"] == "AUTHORIZATION_FAILED"
        assert answer.json["offsets"][0]["error"]["request_id"] == answer.headers["X-Request-Id"]
    every = {"partitions": [{"topic": "secret", "partitions": list(range(6))}]}
    for answer in await of_all(cluster, "POST", "/v1/offsets", "ruled", json=every):
        assert {one["error"]["code"] for one in answer.json["offsets"]} == {"AUTHORIZATION_FAILED"}
    for path in ("/v1/groups/others", "/v1/brokers/2/log-dirs", "/v1/brokers/2/settings"):
        assert [answer.status for answer in await of_all(cluster, "GET", path, "ruled")] == [403] * 3
    assert [answer.json["groups"] for answer in await of_all(cluster, "GET", "/v1/groups?contains=a%2F", "ruled")] == [
        []
    ] * 3


async def test_another_value_is_refused_and_without_the_field_the_answer_is_an_address(cluster: LocalCluster):
    async with http_to(cluster.public_url("broker-1")) as http:
        wrong = await http("GET", "/v1/brokers/2/log-dirs", headers=basic("admin") | {"Raftlog-Pass-On": "yes"})
        assert (wrong.status, wrong.code) == (400, "INVALID_REQUEST")
        plain = await http("GET", "/v1/brokers/2/log-dirs", headers=basic("admin"), follow=False)
        assert plain.status == 307


async def test_a_broker_that_is_down_is_an_error_in_words(cluster: LocalCluster):
    cluster.kill("broker-3")
    try:
        async with http_to(cluster.public_url("broker-1")) as http:
            answer = await http("GET", "/v1/brokers/3/log-dirs", headers=basic("admin") | PASS_ON)
        assert answer.status == 503
        assert "cannot connect" in answer.message
    finally:
        cluster.start_node("broker-3")
        cluster.wait_ready()
