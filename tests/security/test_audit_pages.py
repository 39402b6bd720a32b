"""`GET /v1/brokers/{broker}/audit`: of every broker at any broker, for senders that may alter the cluster."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from secured_support import basic, caller, secured

from raftlog.cli.local_cluster import LocalCluster
from raftlog.model import Acl
from tests.broker.broker_support import Http, http_to

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]
PASS_ON = {"Raftlog-Pass-On": "true"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, stall_file: Path) -> Iterator[LocalCluster]:
    assert stall_file.exists()
    with secured(tmp_path_factory.mktemp("cluster"), audit_file="audit.jsonl", audit_interval_s=1) as running:
        yield running


async def lines(http: Http, broker: int, query: str = "", user: str = "admin") -> list[dict[str, Any]]:
    answer = await http("GET", f"/v1/brokers/{broker}/audit?{query}", headers=basic(user) | PASS_ON)
    assert answer.status == 200, answer.body
    assert answer.json["broker_id"] == broker
    return list(answer.json["entries"])


async def until_written(http: Http, broker: int, query: str) -> list[dict[str, Any]]:
    async with asyncio.timeout(20):
        while not (found := await lines(http, broker, query)):
            await asyncio.sleep(0.05)
    return found


async def test_the_lines_of_every_broker_are_read_at_one(cluster: LocalCluster):
    async with http_to(cluster.public_url("broker-1")) as first, http_to(cluster.public_url("broker-2")) as second:
        for http, topic in ((first, "at-first"), (second, "at-second")):
            body = {"topic": topic, "partitions": 1, "replication_factor": 1}
            assert (await http("POST", "/v1/topics", headers=basic("admin"), json=body)).status == 201
        for broker, topic in ((1, "at-first"), (2, "at-second")):
            query = f"event=change&principal=ADMIN&outcome=allowed&resource={topic}&limit=500"
            (made,) = await until_written(first, broker, query)
            assert (made["principal"], made["operation"]) == ("User:admin", "POST /v1/topics")
            assert made["node"] == f"broker-{broker}"
            assert json.loads(made["line"])["detail"]["topic"] == topic
            assert await lines(second, broker, query) == [made]
        there = await first("GET", "/v1/brokers/2/audit", headers=basic("admin"), follow=False)
        assert there.status == 307
        assert there.headers["Location"] == f"{cluster.public_url('broker-2')}/v1/brokers/2/audit"
        assert there.code == "NOT_LEADER_OR_FOLLOWER"
        assert (await first("GET", "/v1/brokers/77/audit", headers=basic("admin"))).status == 404


async def test_a_right_to_alter_the_cluster_is_needed(cluster: LocalCluster):
    async with http_to(cluster.public_url("broker-1")) as http, caller(cluster.public_url("broker-1")) as ask:
        for broker in (1, 2):
            path = f"/v1/brokers/{broker}/audit"
            assert (await http("GET", path)).status == 401
            assert (await http("GET", path, headers=basic("nobody") | PASS_ON)).status == 403
            for operation, status in (("describe", 403), ("describe_configs", 403), ("alter", 200)):
                rule = Acl(principal="ruled", operation=operation, resource_type="cluster", resource_name="cluster")  # type: ignore[arg-type]
                await ask.rules(rule)
                async with asyncio.timeout(20):  # The other broker's metadata may be older.
                    while (await http("GET", path, headers=basic("ruled") | PASS_ON)).status != status:
                        await asyncio.sleep(0.05)
            await ask.rules()
        (refused, *_) = await until_written(http, 1, "event=denial&principal=nobody&outcome=denied")
        assert (refused["operation"], refused["resource"]) == ("alter", "cluster")


async def test_hostile_names_come_back_as_they_were_sent(cluster: LocalCluster):
    name = "<script>alert(1)</script>\x1b[31m\u202e"
    async with http_to(cluster.public_url("broker-1")) as http:
        path = f"/v1/topics/{quote(name, safe='')}"
        assert (await http("DELETE", path, headers=basic("nobody"))).status == 403
        (found,) = await until_written(http, 1, "resource=%3CSCRIPT")
        assert found["resource"] == f"topic {name}"
        assert "\x1b" not in found["line"]
        assert "\u202e" not in found["line"]


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=501", "limit=x", "outcome=maybe", "event=all,use", "since=-1", "until=soon", "before=1", "x=1"],
)
async def test_a_wrong_query_is_refused(cluster: LocalCluster, query: str):
    async with http_to(cluster.public_url("broker-1")) as http:
        for broker in (1, 2):
            answer = await http("GET", f"/v1/brokers/{broker}/audit?{query}", headers=basic("admin") | PASS_ON)
            assert (answer.status, answer.code) == (400, "INVALID_REQUEST")


async def stalls(http: Http) -> float:
    """Return how often the broker's event loop worked for more than 50 ms at once."""
    page = (await http("GET", "/metrics", headers=basic("admin"))).body.decode()
    return next(float(one.split()[1]) for one in page.split("\n") if one.startswith("raftlog_event_loop_stalls_total"))


async def test_200_mb_are_paged_without_a_stall(cluster: LocalCluster):
    """Two requests search the file at once, and others get pages of many long lines."""
    path = cluster.data / "broker-2" / "audit.jsonl.1"
    line = {"time": "2026-01-31T12:00:00.000+00:00", "node": "broker-2", "event": "use", "principal": "User:many"}
    line |= {"operation": "write", "resource": "topic", "name": "x" * 300, "outcome": "allowed", "requests": 5}
    many = (json.dumps(line).encode() + b"\n") * 1_000
    with path.open("wb") as file:
        for _ in range(200_000_000 // len(many)):
            file.write(many)
    before = ""
    async with http_to(cluster.public_url("broker-2")) as http:
        stalled = await stalls(http)
        for _ in range(5):
            asked = (
                http(
                    "GET",
                    f"/v1/brokers/2/audit?principal=nobody-such&limit=500&before={before}",
                    headers=basic("admin"),
                )
                for _ in range(2)
            )
            answers = await asyncio.gather(*asked)
            assert [answer.status for answer in answers] == [200, 200]
            assert answers[0].json["entries"] == []
            before = answers[0].json["next"]
            assert before
        page = await http(
            "GET", f"/v1/brokers/2/audit?principal=many&limit=500&before={before}", headers=basic("admin")
        )
        assert len(page.json["entries"]) == 500
        assert await stalls(http) == stalled
    path.unlink()


async def test_a_page_of_the_longest_lines_stalls_neither_broker(cluster: LocalCluster):
    """The other broker passes the answer on."""
    path = cluster.data / "broker-2" / "audit.jsonl.1"
    line = {"time": "2026-01-31T12:00:00.000+00:00", "node": "broker-2", "event": "denial", "principal": "User:long"}
    line |= {"name": "\u2603" * 2_000, "reason": "\\" * 4_000, "address": "x" * 900, "outcome": "denied"}
    path.write_bytes((json.dumps(line).encode() + b"\n") * 1_000)
    async with http_to(cluster.public_url("broker-1")) as first, http_to(cluster.public_url("broker-2")) as second:
        before = [await stalls(first), await stalls(second)]
        entries = await lines(first, 2, "principal=long&limit=500")
        assert len(entries) == 256
        assert [await stalls(first), await stalls(second)] == before
    path.unlink()
