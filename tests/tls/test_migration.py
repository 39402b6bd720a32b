"""A running cluster goes from plain connections to required TLS, node by node, while records are written."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tls_support import Authority, section

from raftlog import Admin, Consumer, Producer, Security
from raftlog.cli.local_cluster import LocalCluster

OPTIONAL = {"public": "optional", "internal": "optional", "quorum": "optional"}
REQUIRED = {"public": "required", "internal": "required", "quorum": "required", "node_auth": "required"}
TOPIC = "orders"


class Writer:
    """Sends numbered values until stopped."""

    def __init__(self, bootstrap: str, security: Security) -> None:
        self._bootstrap, self._security = bootstrap, security
        self.acknowledged: list[int] = []
        self.stopped = False

    async def run(self) -> None:
        number = 0
        async with Producer(self._bootstrap, security=self._security, linger_ms=0) as producer:
            while not self.stopped:
                await producer.send(TOPIC, b"%d" % number)
                self.acknowledged.append(number)
                number += 1
                await asyncio.sleep(0.005)

    async def goes_on(self) -> None:
        """Return once two more records are acknowledged."""
        wanted = len(self.acknowledged) + 2
        async with asyncio.timeout(30):
            while len(self.acknowledged) < wanted:
                await asyncio.sleep(0.01)


async def restart(cluster: LocalCluster, admin: Admin, name: str, **tables: Any) -> None:
    cluster.configure(name, **tables)
    await asyncio.to_thread(cluster.restart, name)
    await asyncio.to_thread(cluster.wait_ready)
    async with asyncio.timeout(30):
        while any(len(part.isr) < 3 for part in (await admin.describe_topic(TOPIC)).partitions):
            await asyncio.sleep(0.05)


@pytest.mark.usefixtures("stall_file")
async def test_no_acknowledged_record_is_lost_and_no_send_fails(tmp_path: Path):
    authority = Authority.new(tmp_path / "ca")
    trusted, files = Security(ca_file=authority.ca_file), authority.issue("node")
    cluster = LocalCluster(tmp_path / "data", port=0, controllers=1)
    with cluster:
        plain = cluster.bootstrap
        voter = next(name for name in cluster.names if name not in cluster.brokers)
        async with Admin(plain, security=trusted) as admin, asyncio.TaskGroup() as group:
            await admin.create_topic(TOPIC, partitions=1, replication_factor=3)
            writer = Writer(plain, trusted)
            group.create_task(writer.run())
            for modes in (OPTIONAL, REQUIRED):
                for name in (voter, *cluster.brokers):
                    await restart(cluster, admin, name, tls=section(files, **modes))
                    await writer.goes_on()
            writer.stopped = True
        assert cluster.bootstrap == plain.replace("http://", "https://")
        async with Consumer(cluster.bootstrap, TOPIC, start="earliest", security=trusted) as consumer:
            found = set[bytes | None]()
            async with asyncio.timeout(20):
                while len(found) < len(writer.acknowledged):
                    found |= {record.value for record in await consumer.fetch()}
    assert found == {b"%d" % number for number in writer.acknowledged}
