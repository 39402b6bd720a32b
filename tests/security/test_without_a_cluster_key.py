"""A cluster without a cluster key, whose nodes have certificates with their names: it works, and rules hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from attack_support import Attacker, Site, attacked, sent
from secured_support import code_of

from raftlog.cli.local_cluster import LocalCluster
from raftlog.model import Acl
from raftlog.tls import TlsFiles, client_context
from raftlog.wire import paths

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]
TOPIC = "flights"
ROGUE = Attacker("rogue", "broker-2/node", principal="Broker:2")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, stall_file: Path) -> Iterator[LocalCluster]:
    assert stall_file.exists()
    with attacked(tmp_path_factory.mktemp("keyless") / "cluster", brokers=2, cluster_key_file="") as running:
        yield running


@pytest.fixture
async def site(cluster: LocalCluster) -> Site:
    found = Site(cluster)
    async with found.admin() as admin:
        if TOPIC not in [topic.topic for topic in await admin.list_topics()]:
            await admin.create_topic(TOPIC, partitions=2, replication_factor=2)
            await admin.put_user("ann", "ann-secret-1")
            await admin.create_acls(
                [Acl(principal="ann", operation="write", resource_type="topic", resource_name=TOPIC)]
            )
    return found


async def write_through_every_broker(site: Site) -> None:
    """Each broker leads one partition, and forwards the records of the other one in the name of the user."""
    tls = client_context(TlsFiles(ca_file=str(site.files / "ca.pem")))
    headers = {"Authorization": "Basic YW5uOmFubi1zZWNyZXQtMQ==", "Content-Type": "application/json"}
    body = orjson.dumps({"records": [{"value": "v", "partition": number} for number in (0, 1)]})
    for name in site.cluster.brokers:
        url = f"{site.cluster.public_url(name)}/v1/topics/{TOPIC}/records"
        status, _, answer = await sent(url, "POST", tls, headers, body)
        assert status == 200, answer


async def test_passwords_replication_and_forwarding_work(site: Site):
    await write_through_every_broker(site)
    async with site.admin() as admin:
        partitions = (await admin.describe_topic(TOPIC)).partitions
    assert [sorted(part.isr) for part in partitions] == [[1, 2], [1, 2]]


@pytest.mark.parametrize("proves", ["", "Broker:1"])
async def test_a_broker_may_not_name_another_one_whatever_it_proves(site: Site, proves: str):
    """A node without the key cannot check a proof. It goes by the certificate."""
    image = await site.image()
    body = {"broker_id": 1, "broker_epoch": image.brokers[1].broker_epoch, "metadata_offset": 0, "want_shutdown": True}
    attacker = replace(ROGUE, proves=proves)

    status, answer = await site.ask(attacker, "controller-101", "POST", paths.HEARTBEAT, json=body)

    assert (status, code_of(answer)) == (403, "AUTHORIZATION_FAILED"), answer
    await site.denied("Broker:2", f"POST {paths.HEARTBEAT}")


async def test_nodes_with_and_without_the_key_work_together(site: Site):
    """So that the key can be set, or removed, node by node."""
    cluster = site.cluster
    settings = {"authorizer": "acl", "super_users": ["User:admin"], "cluster_key_file": "../security/cluster.key"}
    for name in ("broker-1", "controller-101"):
        cluster.configure(name, security=settings)
        cluster.restart(name)
        cluster.wait_ready()
        await write_through_every_broker(site)
