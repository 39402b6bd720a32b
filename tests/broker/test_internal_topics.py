"""Coordinators' topics: created on first need, open to readers, closed to all other requests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from broker_support import Http, http_to

from raftlog.cli.local_cluster import LocalCluster
from raftlog.record.partitioner import partition_for_key

pytestmark = pytest.mark.cluster


@pytest.fixture
async def http(shared_cluster: LocalCluster) -> AsyncIterator[Http]:
    async with http_to(shared_cluster.bootstrap.split(",")[0]) as client:
        yield client


async def test_asking_for_a_coordinator_creates_its_topic(http: Http):
    reply = await http("GET", "/v1/coordinators/group/reports")
    topic = (await http("GET", "/v1/topics/__consumer_offsets")).json

    assert reply.status == 200, reply.body
    assert len(topic["partitions"]) == 50
    assert topic["internal"] is True
    assert topic["configs"]["cleanup_policy"] == "compact"
    assert all(len(partition["replicas"]) == 3 for partition in topic["partitions"])
    number = partition_for_key(b"reports", 50)
    assert reply.json["partition"] == number
    assert reply.json["broker_id"] == topic["partitions"][number]["leader"]
    cluster = (await http("GET", "/v1/cluster")).json
    assert reply.json["url"] in [broker["url"] for broker in cluster["brokers"]]


async def test_every_broker_names_the_same_coordinator(http: Http):
    brokers = (await http("GET", "/v1/brokers")).json["brokers"]
    answers = [(await http("GET", f"{broker['url']}/v1/coordinators/group/a%2Fb")).json for broker in brokers]
    assert len(answers) == 3
    assert {(answer["key"], answer["broker_id"]) for answer in answers} == {("a/b", answers[0]["broker_id"])}


async def test_nobody_else_writes_to_internal_topics(http: Http):
    await http("GET", "/v1/coordinators/group/reports")
    name = "__consumer_offsets"
    refused = [
        await http.produce(name, "x", key="k"),
        await http("DELETE", f"/v1/topics/{name}"),
        await http("PATCH", f"/v1/topics/{name}", json={"partitions": 60}),
        await http("POST", f"/v1/topics/{name}/partitions/0/delete-records", json={"before_offset": 0}),
        await http("POST", "/v1/topics", json={"topic": "__transaction_state"}),
    ]
    assert [(reply.status, reply.code) for reply in refused] == [(400, "INVALID_TOPIC_EXCEPTION")] * 5
    read = await http("GET", f"/v1/topics/{name}/partitions/0/records?offset=0")
    assert read.status == 200


async def test_unknown_kinds_are_refused(http: Http):
    reply = await http("GET", "/v1/coordinators/election/x")
    assert (reply.status, reply.code) == (404, "NOT_FOUND")
    assert "expected one of group, transaction" in reply.message


@pytest.mark.parametrize(
    "configs",
    [
        {"retention_ms": 1},
        {"retention_bytes": 1},
        {"cleanup_policy": "delete"},
        {"delete_retention_ms": 0},
        {"flush": "os"},
        {"unclean_leader_election_enable": True},
        {"max_message_bytes": 1_024},
        {"min_insync_replicas": 1, "retention_ms": 1},
    ],
    ids=str,
)
async def test_no_client_makes_committed_offsets_go(http: Http, configs: dict[str, Any]):
    await http("GET", "/v1/coordinators/group/g")
    before = (await http("GET", "/v1/topics/__consumer_offsets")).json
    refused = await http("PATCH", "/v1/topics/__consumer_offsets", json={"configs": configs})
    assert (refused.status, refused.code) == (400, "INVALID_TOPIC_EXCEPTION")
    assert max(configs) in refused.message
    assert "segment_bytes" in refused.message
    assert (await http("GET", "/v1/topics/__consumer_offsets")).json == before


async def test_a_few_settings_of_internal_topics_may_be_changed(http: Http):
    await http("GET", "/v1/coordinators/group/g")
    altered = await http("PATCH", "/v1/topics/__consumer_offsets", json={"configs": {"segment_bytes": 16 << 20}})
    assert altered.status == 200, altered.body
    assert (await http("GET", "/v1/topics/__consumer_offsets")).json["configs"]["segment_bytes"] == 16 << 20


@pytest.mark.parametrize(("name", "value"), [("segment_bytes", 4_096), ("segment_ms", 1), ("segment_bytes", "65536")])
async def test_internal_topics_are_not_cut_into_tiny_files(http: Http, name: str, value: int | str):
    await http("GET", "/v1/coordinators/group/g")
    before = (await http("GET", "/v1/topics/__consumer_offsets")).json
    refused = await http("PATCH", "/v1/topics/__consumer_offsets", json={"configs": {name: value}})
    assert (refused.status, refused.code) == (400, "INVALID_CONFIG")
    assert f"{name}: expected at least" in refused.message
    assert refused.message.endswith(f"received {value}")
    assert (await http("GET", "/v1/topics/__consumer_offsets")).json == before
