"""The audit log of real nodes: logins, denials, changes and sums; no secret, no stall, and a disk that is full."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from secured_support import PASSWORDS, SECURITY, basic, caller, secured

from raftlog import Admin, Consumer, Producer, Security
from raftlog.cli.local_cluster import LocalCluster
from raftlog.model import Acl
from raftlog.wire import paths

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]
ADMIN = Security(username="admin", password=PASSWORDS["admin"])
RULED = Security(username="ruled", password=PASSWORDS["ruled"])
Line = dict[str, Any]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, stall_file: Path) -> Iterator[LocalCluster]:
    with secured(tmp_path_factory.mktemp("cluster"), audit_file="audit.jsonl", audit_interval_s=1) as running:
        yield running


def lines(cluster: LocalCluster) -> list[Line]:
    found = []
    for path in cluster.data.glob("*/audit.jsonl*"):
        found += [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]
    return sorted(found, key=lambda line: line["time"])


async def seen(cluster: LocalCluster, **wanted: Any) -> list[Line]:
    """Wait for lines with these values, and return them."""

    def found() -> list[Line]:
        return [line for line in lines(cluster) if all(line.get(name) == value for name, value in wanted.items())]

    await until(lambda: bool(found()))
    return found()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.05)


async def test_a_day_of_work_is_in_the_log_and_no_secret_is(cluster: LocalCluster):
    async with Admin(cluster.bootstrap, security=ADMIN) as admin:
        await admin.create_topic("flights", partitions=1, replication_factor=1, configs={"retention_ms": 3_600_000})
        await admin.create_acls(
            [
                Acl(principal="ruled", operation="write", resource_type="topic", resource_name="flights"),
                Acl(principal="ruled", operation="read", resource_type="topic", resource_name="flights"),
                Acl(principal="ruled", operation="read", resource_type="group", resource_name="g"),
            ]
        )
        await admin.put_user("fresh", "fresh-secret-1")
        await admin.alter_topic("flights", configs={"retention_ms": 7_200_000})
        async with Producer(cluster.bootstrap, security=RULED) as producer:
            for number in range(5):
                await producer.send("flights", f"value-{number}".encode())
        async with Consumer(
            cluster.bootstrap, "flights", group_id="g", auto_offset_reset="earliest", security=RULED
        ) as consumer:
            read = 0
            while read < 5:
                read += len(await consumer.fetch(max_records=10, max_wait_ms=5_000))
            await consumer.commit()
        await admin.reset_group_offsets("g", to="earliest")
        await admin.delete_group("g")
        await admin.delete_user("fresh")

    (created,) = await seen(cluster, event="change", route="POST /v1/topics")
    assert created["principal"] == "User:admin"
    assert created["address"] == "127.0.0.1"
    assert created["listener"] == "public"
    assert created["outcome"] == "allowed"
    assert created["node"].startswith("broker-")
    assert created["detail"]["topic"] == "flights"
    assert created["detail"]["configs"] == ["retention_ms"]
    (rules,) = await seen(cluster, event="change", route="POST /v1/acls")
    assert rules["detail"]["acls"][0]["principal"] == "ruled"
    (put,) = await seen(cluster, event="change", route="PUT /v1/users/{user}")
    assert put["resource"] == {"user": "fresh"}
    assert "detail" not in put
    assert await seen(cluster, event="change", route="DELETE /v1/users/{user}")
    assert await seen(cluster, event="change", route="PATCH /v1/topics/{topic}", resource={"topic": "flights"})
    assert await seen(cluster, event="change", route="DELETE /v1/groups/{group}", resource={"group": "g"})
    reset = await seen(cluster, event="change", route="POST /v1/groups/{group}/offsets", principal="User:admin")
    assert reset[0]["detail"]["offsets"][0]["topic"] == "flights"
    assert await seen(cluster, event="login", principal="User:admin", method="scram")
    assert await seen(cluster, event="login", principal="Broker:1", method="node")
    writes = await seen(cluster, event="use", principal="User:ruled", operation="write", name="flights")
    assert sum(line["requests"] for line in writes) <= 5
    assert await seen(cluster, event="use", principal="User:ruled", operation="read", name="flights")
    assert not [line for line in lines(cluster) if line["event"] == "change" and line["principal"] == "User:ruled"]

    text = "".join(path.read_text() for path in cluster.data.glob("*/audit.jsonl*"))
    for secret in (*PASSWORDS.values(), "fresh-secret-1", "value-", "k" * 20, basic("admin")["Authorization"][6:]):
        assert secret not in text


async def test_offsets_that_no_member_commits_are_in_the_log_whatever_name_is_sent(cluster: LocalCluster):
    async with Admin(cluster.bootstrap, security=ADMIN) as admin:
        await admin.create_topic("moved", partitions=1, replication_factor=1)
    offsets = [{"topic": "moved", "partition": 0, "offset": 0}]
    for broker in ("broker-1", "broker-2"):
        async with caller(cluster.public_url(broker)) as ask:
            body = {"member_id": "somebody", "offsets": offsets}
            await ask("POST", "/v1/groups/of-nobody/offsets", basic("admin"), json=body)
    (line,) = await seen(
        cluster, event="change", route="POST /v1/groups/{group}/offsets", resource={"group": "of-nobody"}
    )
    assert line["principal"] == "User:admin"


async def test_what_a_user_changes_at_a_controller_itself_is_in_the_log(cluster: LocalCluster):
    url = f"http://{cluster.node('controller-101').internal}"
    async with caller(url) as ask:
        rule = {"principal": "mallory", "operation": "all", "resource_type": "cluster", "resource_name": "cluster"}
        status, body = await ask("POST", paths.CREATE_ACLS, basic("admin"), json={"acls": [rule]})
        assert status == 200, body
    (line,) = await seen(cluster, event="change", route=f"POST {paths.CREATE_ACLS}", principal="User:admin")
    assert line["detail"]["acls"][0]["principal"] == "mallory"


async def test_denials_and_failed_logins_of_both_paths_are_in_the_log(cluster: LocalCluster):
    def fetch(topic: str) -> Any:
        return {"partitions": [{"topic": topic, "partition": 0, "offset": 0}], "max_wait_ms": 0}

    async with Admin(cluster.bootstrap, security=ADMIN) as admin:
        await admin.create_topic("counted", partitions=1, replication_factor=1)
        leader = (await admin.describe_topic("counted")).partitions[0].leader
    async with caller(cluster.public_url("broker-1")) as ask:
        await ask("POST", "/v1/fetch", basic("nobody"), json=fetch("secret-topic"))
        assert (await ask("DELETE", "/v1/topics/a%0Ab", basic("nobody")))[0] == 403
        assert (await ask("GET", "/v1/topics", basic("admin", "wrong-secret-9")))[0] == 401
        assert (await ask("GET", "/v1/topics", {"Authorization": "s3cret-token-without-scheme"}))[0] == 401
        assert (await ask("GET", "/v1/quorum"))[0] == 401
        assert (await ask("PATCH", "/v1/features", basic("admin"), json={"feature_level": 10_000}))[0] == 409

    async with caller(cluster.public_url(f"broker-{leader}")) as ask:
        assert (await ask("POST", "/v1/fetch", basic("admin"), json=fetch("counted")))[0] == 200

    (lean,) = await seen(cluster, event="denial", principal="User:nobody", route="POST /v1/fetch")
    assert (lean["operation"], lean["resource"], lean["name"]) == ("read", "topic", "secret-topic")
    assert lean["outcome"] == "denied"
    assert await seen(cluster, event="denial", operation="delete", name="a\nb")
    assert await seen(cluster, event="denial", principal="User:ANONYMOUS", route="GET /v1/quorum")
    (failed,) = await seen(cluster, event="login", outcome="denied", method="password")
    assert failed["reason"] == "the password of user admin, or the user, is wrong"
    assert await seen(cluster, event="login", outcome="denied", method="other")
    (refused,) = await seen(cluster, event="change", route="PATCH /v1/features")
    assert refused["outcome"] == "failed"
    await seen(cluster, event="use", principal="User:admin", operation="read", name="counted", requests=1)
    assert not [line for line in lines(cluster) if line.get("repeated") and line.get("name") == "secret-topic"]
    text = "".join(path.read_text() for path in cluster.data.glob("*/audit.jsonl*"))
    assert "wrong-secret-9" not in text
    assert "s3cret" not in text


async def test_a_burst_of_denials_is_summed_up(cluster: LocalCluster):
    before = len(lines(cluster))
    async with caller(cluster.public_url("broker-1")) as ask:
        for start in range(0, 2_000, 100):
            paths = [f"/v1/topics/burst-{number}" for number in range(start, start + 100)]
            answers = await asyncio.gather(*(ask("DELETE", path, basic("nobody")) for path in paths))
            assert {status for status, _ in answers} == {403}

    def summed() -> list[Line]:
        return [line for line in lines(cluster) if line["event"] == "denial" and "more" in line]

    def denials() -> int:
        written = [line for line in lines(cluster)[before:] if str(line.get("name", "")).startswith("burst-")]
        return len(written) + sum(line["more"] for line in summed())

    await until(lambda: denials() == 2_000)
    assert len(lines(cluster)) - before < 1_000


async def test_failures_of_anybody_are_summed_up(cluster: LocalCluster):
    """Each was a line of its own: without credentials, the log could be filled until it had nothing else."""
    before = len(lines(cluster))

    def failed() -> list[Line]:
        wanted = {"event": "change", "route": "POST /v1/topics", "outcome": "failed", "principal": "User:ANONYMOUS"}
        return [line for line in lines(cluster)[before:] if wanted.items() <= line.items()]

    async with caller(cluster.public_url("broker-1")) as ask:
        for _ in range(200):
            status, _ = await ask("POST", "/v1/topics", {"Content-Encoding": "x"}, data=b"{")
            assert status == 415
    await until(lambda: sum(line.get("repeated", 1) for line in failed()) >= 200)
    assert len(failed()) < 50


async def test_a_hangup_opens_a_renamed_file_again(cluster: LocalCluster):
    path = cluster.data / "broker-1" / "audit.jsonl"
    path.rename(path.with_name("audit.jsonl.kept"))
    os.kill(cluster.pid("broker-1"), signal.SIGHUP)
    await until(path.exists)


async def test_a_full_disk_ends_nothing(tmp_path: Path):
    with secured(tmp_path / "cluster", brokers=1, audit_file="/dev/full", audit_interval_s=1) as cluster:
        async with Admin(cluster.bootstrap, security=ADMIN) as admin:
            await admin.create_topic("t", partitions=1, replication_factor=1)
        async with Producer(cluster.bootstrap, security=ADMIN) as producer:
            for number in range(50):
                await producer.send("t", str(number).encode())
        log = cluster.log_tail("broker-1", 2_000)
        assert log.count("the audit log cannot be written") == 1
        for name in cluster.names:
            figures = await audit_figures(cluster, name)
            assert figures["raftlog_audit_lost_lines_total"] > 0
            assert figures["raftlog_audit_waiting_lines"] < 100


async def test_a_disk_that_hangs_blocks_nothing_and_lines_wait(tmp_path: Path):
    """The file is a pipe without a reader, so that a write blocks, as on a disk that hangs."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, 4_096)
        with secured(tmp_path / "cluster", brokers=1, audit_interval_s=1) as cluster:
            cluster.configure("broker-1", security=SECURITY | {"authorizer": "acl", "audit_file": str(pipe)})
            cluster.restart("broker-1")
            cluster.wait_ready()
            async with Admin(cluster.bootstrap, security=ADMIN) as admin:
                await admin.create_topic("t", partitions=1, replication_factor=1)
                for number in range(40):
                    await admin.alter_quota({"request_rate": 1e6}, client_id=f"client-{number}")
            async with Producer(cluster.bootstrap, security=ADMIN) as producer:
                await producer.send("t", b"while the writer hangs")
            figures = await audit_figures(cluster, "broker-1")
            assert figures["raftlog_audit_waiting_lines"] > 10
            assert figures["raftlog_audit_lost_lines_total"] == 0
            # When it no longer hangs, what waited is written, and nothing is missing.
            text = b""
            async with asyncio.timeout(20):
                while text.count(b'"event":"change"') < 41:
                    with suppress(BlockingIOError):
                        text += os.read(reader, 65_536)
                    await asyncio.sleep(0.001)
            assert b'"event":"lost"' not in text
            while (await audit_figures(cluster, "broker-1"))["raftlog_audit_waiting_lines"]:
                with suppress(BlockingIOError):
                    os.read(reader, 65_536)
            # It hangs again, and the node shuts down all the same.
            async with Admin(cluster.bootstrap, security=ADMIN) as admin:
                for number in range(40):
                    await admin.alter_quota({"request_rate": 2e6}, client_id=f"client-{number}")
            await asyncio.to_thread(cluster.kill, "broker-1", signal.SIGTERM)
    finally:
        os.close(reader)


async def audit_figures(cluster: LocalCluster, name: str) -> dict[str, float]:
    """Return the metrics of a node's audit log."""
    url = cluster.public_url(name) if name in cluster.brokers else f"http://{cluster.node(name).internal}"
    async with caller(url) as ask:
        status, page = await ask("GET", "/metrics", basic("admin"))
    assert status == 200
    lines = [line.split() for line in page.decode().splitlines() if line.startswith("raftlog_audit_")]
    return {line[0]: float(line[1]) for line in lines}
