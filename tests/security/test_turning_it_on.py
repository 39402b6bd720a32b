"""Rules are turned on node by node, while an application works: as docs/how-to/control-access.md says."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from secured_support import KEY, PASSWORDS, caller

from raftlog import Admin, Consumer, Producer, Security
from raftlog.cli.local_cluster import LocalCluster
from raftlog.model import Acl

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(300)]
TOPIC = "flights"
STEPS: list[dict[str, Any]] = [
    {"cluster_key_file": "../cluster.key"},
    {"cluster_key_file": "../cluster.key", "authorizer": "log-only", "super_users": ["User:admin"]},
    {"cluster_key_file": "../cluster.key", "authorizer": "acl", "super_users": ["User:admin"]},
]
RULES = [
    Acl(principal="ruled", operation="read", resource_type="topic", resource_name=TOPIC),
    Acl(principal="ruled", operation="write", resource_type="topic", resource_name=TOPIC),
    Acl(principal="ruled", operation="read", resource_type="group", resource_name="readers"),
    Acl(principal="ruled", operation="write", resource_type="transactional_id", resource_name="loader"),
]


RULED = Security(username="ruled", password=PASSWORDS["ruled"])
RULED_BASIC = Security(username="ruled", password=PASSWORDS["ruled"], login="basic")


async def prepare(cluster: LocalCluster) -> None:
    async with Admin(cluster.bootstrap) as admin:
        await admin.create_topic(TOPIC, partitions=3, replication_factor=3)
        for user, password in PASSWORDS.items():
            await admin.put_user(user, password)
        await admin.create_acls(RULES)


async def test_an_application_works_while_rules_are_turned_on(tmp_path: Path):
    """A member of a group, which sends its password from the beginning, and a transactional producer.

    The producer logs in, which needs the first step.
    """
    few = {"offsets_topic_num_partitions": 2, "transaction_state_log_num_partitions": 2}
    cluster = LocalCluster(tmp_path / "cluster", controllers=3, brokers=3, port=0, extra={"*": {"broker": few}})
    cluster.data.mkdir(parents=True, exist_ok=True)
    (cluster.data / "cluster.key").write_text(KEY)
    with cluster:
        await prepare(cluster)
        stop, written, read = asyncio.Event(), list[int](), set[int]()

        async def write() -> None:
            async with Producer(cluster.bootstrap, transactional_id="loader", security=RULED) as producer:
                await producer.init_transactions()
                while not stop.is_set():
                    async with producer.transaction():
                        await producer.send(TOPIC, str(len(written)).encode())
                    written.append(len(written))
                    await asyncio.sleep(0.1)

        async def consume() -> None:
            async with Consumer(
                cluster.bootstrap,
                TOPIC,
                group_id="readers",
                isolation="read_committed",
                auto_offset_reset="earliest",
                security=RULED_BASIC,
            ) as consumer:
                while not stop.is_set() or len(read) < len(written):
                    records = await consumer.fetch(max_records=1_000, max_wait_ms=200)
                    read.update(int(record.value or b"") for record in records)

        async with asyncio.TaskGroup() as group:
            group.create_task(consume())
            for step in STEPS:
                for name in [*cluster.controllers, *cluster.brokers]:
                    cluster.configure(name, security=step)
                    await asyncio.to_thread(cluster.restart, name)
                    await asyncio.to_thread(cluster.wait_ready)
                if step is STEPS[0]:
                    group.create_task(write())
                begun = len(written)
                while len(written) < begun + 10:
                    await asyncio.sleep(0.05)
            stop.set()
        assert read == set(written)
        async with caller(cluster.public_url("broker-1")) as ask:
            assert (await ask("GET", "/v1/acls"))[0] == 401
        for name in cluster.names:
            assert "refused once security.authorizer is acl" not in cluster.log_tail(name, 2_000), name
