"""A real cluster that speaks TLS everywhere, or in part while it is being changed."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tls_support import Authority, section

from raftlog import Admin, Consumer, Producer, Security
from raftlog.cli.local_cluster import LocalCluster
from raftlog.errors import RaftlogError

REQUIRED = {"public": "required", "internal": "required", "quorum": "required", "node_auth": "required"}


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.new(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def cluster(authority: Authority, tmp_path_factory: pytest.TempPathFactory, stall_file: Path) -> Iterator[LocalCluster]:
    assert stall_file.exists()
    tls = section(authority.issue("node"), **REQUIRED)
    with LocalCluster(tmp_path_factory.mktemp("secure"), port=0, extra={"*": {"tls": tls}}) as cluster:
        yield cluster


@pytest.fixture
def trusted(authority: Authority) -> Security:
    return Security(ca_file=authority.ca_file)


async def test_records_are_written_and_read_with_tls_everywhere(
    cluster: LocalCluster, trusted: Security, topic_name: str
):
    assert cluster.bootstrap.startswith("https://")
    async with Admin(cluster.bootstrap, security=trusted) as admin:
        await admin.create_topic(topic_name, partitions=3, replication_factor=3)
        assert all(broker.url.startswith("https://") for broker in await admin.brokers())
    async with Producer(cluster.bootstrap, security=trusted) as producer:
        await producer.send_many(topic_name, [b"%d" % number for number in range(1_000)])
        await producer.send(topic_name, b"large" * 150_000)
    async with Consumer(
        cluster.bootstrap, topic_name, group_id=topic_name, auto_offset_reset="earliest", security=trusted
    ) as consumer:
        found = []
        async with asyncio.timeout(20):
            while len(found) < 1_001:
                found += await consumer.fetch()
        await consumer.commit()
    assert {record.value for record in found} >= {b"%d" % number for number in range(1_000)}


def test_the_command_line_takes_its_security_from_the_environment(cluster: LocalCluster, authority: Authority):
    command = [sys.executable, "-m", "raftlog", "topics", "list", "--bootstrap", cluster.bootstrap]
    environment = {**os.environ, "RAFTLOG_CA_FILE": authority.ca_file}

    assert subprocess.run(command, env=environment, capture_output=True, check=False, timeout=30).returncode == 0
    blind = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert blind.returncode != 0
    assert "CA" in blind.stderr


@pytest.mark.parametrize(
    ("security", "url", "message"),
    [
        (None, "https", "not of a CA that is trusted here"),
        ("other", "https", "not of a CA that is trusted here"),
        ("other", "http", "not of a CA that is trusted here"),
    ],
)
async def test_a_client_that_cannot_connect_is_told_why(
    cluster: LocalCluster, trusted: Security, tmp_path: Path, security: str | None, url: str, message: str
):
    chosen = {None: None, "trusted": trusted, "other": Security(ca_file=Authority.new(tmp_path, "other").ca_file)}
    bootstrap = cluster.bootstrap.replace("https", url)
    async with Admin(bootstrap, timeout_ms=2_000, security=chosen[security]) as admin:
        with pytest.raises(RaftlogError, match=message):
            await admin.brokers()
