"""Quotas of named users on a cluster with TLS, certificates, passwords and tokens.

A user has one budget on each broker, however it logs in. A body of one second of the quota is answered with a delay of
half a second, because half a second is free; the next one with a delay of one second.
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest
from attack_support import Site, attacked, sent
from issuer_support import AUDIENCE, Issuer

from raftlog import Admin, Consumer, Producer
from raftlog.cli.local_cluster import LocalCluster
from raftlog.model import Acl
from raftlog.record import NewRecord, build_batch
from raftlog.tls import TlsFiles, client_context
from raftlog.wire import media, paths

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]
TOPIC = "loads"
RATE, DEFAULT_RATE = 20_000, 40_000
"""Bytes a second of the named users, and of each other user."""
NAMED = ("ann", "beth", "carol")
OTHERS = {"password": ("dave", "erin"), "certificate": ("fay", "gus"), "token": ("hana", "ivan")}
USERS = (*NAMED, *(user for users in OTHERS.values() for user in users))
FREE_MS, WHOLE_MS = (150, 520), (650, 1_020)
"""The delay after a body of one second, with and without credit; less if the broker was slow."""


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with Issuer().in_thread() as served:
        yield served


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, stall_file: Path, issuer: Issuer) -> Iterator[LocalCluster]:
    assert stall_file.exists()
    tokens = {"issuer": issuer.url, "audience": AUDIENCE, "groups_claim": "groups"}
    folder = tmp_path_factory.mktemp("limited") / "cluster"
    with attacked(folder, *USERS, brokers=2, tokens=tokens) as running:
        yield running


@dataclass
class Limited:
    """The cluster with its quotas, and requests of users to it."""

    site: Site
    issuer: Issuer
    leader: str
    other: str

    async def send(self, user: str, how: str, *, size: int = RATE, to: str = "", raw: bool = False) -> tuple[int, int]:
        """Send a body of some bytes on a connection of its own; return the status and the delay in ms.

        Args:
            how: password, certificate, or token.
            raw: send a raw batch, which only the leader takes.
        """
        files = self.site.files
        own = {"cert_file": str(files / f"users/{user}.pem"), "key_file": str(files / f"users/{user}.key")}
        tls = client_context(TlsFiles(ca_file=str(files / "ca.pem"), **(own if how == "certificate" else {})))
        headers = {"Content-Type": media.BATCHES if raw else media.JSON}
        if how == "password":
            headers["Authorization"] = "Basic " + base64.b64encode(f"{user}:{user}-secret-1".encode()).decode()
        elif how == "token":
            headers["Authorization"] = f"Bearer {self.issuer.token(sub=user, groups=['ann', 'engineers'])}"
        path = paths.fill(paths.BATCHES, topic=TOPIC, partition=0) if raw else f"/v1/topics/{TOPIC}/records"
        url = self.site.cluster.public_url(to or self.leader) + path
        status, answered, body = await sent(url, "POST", tls, headers, body_of(size, raw=raw))
        assert status in (200, 307, 429), body
        return status, int(answered.get(media.THROTTLE_MS, 0))


def body_of(size: int, *, raw: bool) -> bytes:
    if not raw:
        empty = len(orjson.dumps({"records": [{"value": ""}]}))
        return orjson.dumps({"records": [{"value": "v" * (size - empty)}]})
    batch = build_batch([NewRecord(b"v" * (size - 1_000), timestamp=time.time_ns() // 1_000)])
    return bytes(batch)


@pytest.fixture
async def limited(cluster: LocalCluster, issuer: Issuer) -> Limited:
    site = Site(cluster)
    async with site.admin() as admin:
        if TOPIC not in [topic.topic for topic in await admin.list_topics()]:
            await admin.create_topic(TOPIC, partitions=1, replication_factor=2)
            await admin.create_acls([Acl(principal="*", operation="write", resource_type="topic", resource_name=TOPIC)])
            for user in USERS:
                await admin.put_user(user, f"{user}-secret-1")
            for user in NAMED:
                await admin.alter_quota({"producer_byte_rate": RATE}, user=user)
            await admin.alter_quota({"producer_byte_rate": DEFAULT_RATE}, user="*")
            await admin.alter_quota({"producer_byte_rate": 1}, user="engineers")
            await all_have_quotas(site, len(NAMED) + 2)
        leader = (await admin.describe_topic(TOPIC)).partitions[0].leader
    names = [f"broker-{leader}", f"broker-{3 - leader}"]
    return Limited(site, issuer, *names)


async def all_have_quotas(site: Site, count: int) -> None:
    for name in site.cluster.brokers:
        async with Admin(site.cluster.public_url(name), security=site.security("admin")) as one:
            while len(await one.quotas(local=True)) < count:
                await asyncio.sleep(0.02)


async def test_a_user_has_one_budget_however_it_logs_in(limited: Limited):
    begun = time.monotonic()
    delays = [(await limited.send("ann", how))[1] for how in ("password", "certificate", "token")]
    took = time.monotonic() - begun

    assert FREE_MS[0] < delays[0] <= FREE_MS[1], delays
    assert all(WHOLE_MS[0] < delay <= WHOLE_MS[1] for delay in delays[1:]), delays
    assert took >= 1.4  # Each request waited for the one before.


@pytest.mark.parametrize("how", ["password", "certificate", "token"])
async def test_other_users_have_the_default_each_for_itself(limited: Limited, how: str):
    """Whatever their groups are called: a quota is of a user."""
    for user in OTHERS[how]:
        status, delay = await limited.send(user, how, size=DEFAULT_RATE)
        assert (status, FREE_MS[0] < delay <= FREE_MS[1]) == (200, True), (user, delay)


async def test_a_forwarded_request_counts_once_and_for_its_user(limited: Limited):
    """The first broker counts it. The leader does not, neither for the user nor for the broker that forwards it."""
    status, at_first = await limited.send("beth", "certificate", to=limited.other)
    assert (status, FREE_MS[0] < at_first <= FREE_MS[1]) == (200, True), at_first
    status, at_leader = await limited.send("beth", "certificate")
    assert (status, FREE_MS[0] < at_leader <= FREE_MS[1]) == (200, True), at_leader


async def test_a_redirected_request_counts_once_at_each_broker(limited: Limited):
    """The redirecting broker has received the body, and the leader has received it again: budgets are of brokers."""
    status, at_first = await limited.send("carol", "token", to=limited.other, raw=True)
    assert (status, FREE_MS[0] < at_first <= FREE_MS[1]) == (307, True), at_first
    status, at_leader = await limited.send("carol", "password", raw=True)
    assert (status, FREE_MS[0] < at_leader <= FREE_MS[1]) == (200, True), at_leader


async def test_what_was_acknowledged_to_a_throttled_user_survives_its_leader(limited: Limited):
    """Delayed and refused requests, and the retries after a kill, neither lose nor repeat a record."""
    cluster, acknowledged = limited.site.cluster, list[bytes]()
    security = limited.site.security("ann")
    async with Producer(cluster.bootstrap, security=security, batch_bytes=10_000, linger_ms=0) as producer:

        async def send_on(first: int) -> None:
            for number in range(first, first + 20):
                value = b"%d" % number + b"." * 2_000
                await producer.send(TOPIC, value)
                acknowledged.append(value)

        sending = asyncio.gather(*(send_on(1_000 * number) for number in range(1, 5)))
        while len(acknowledged) < 15:
            await asyncio.sleep(0.01)
        await asyncio.to_thread(cluster.kill, limited.leader)
        await asyncio.to_thread(cluster.start_node, limited.leader)
        await sending
        assert producer.metrics().throttled > 0
    async with Consumer(
        cluster.bootstrap, TOPIC, start="earliest", security=limited.site.security("admin")
    ) as consumer:
        read = list[bytes | None]()
        async with asyncio.timeout(30):
            while not set(acknowledged) <= set(read):
                read += [record.value for record in await consumer.fetch(max_wait_ms=500)]
    mine = [value for value in read if value in set(acknowledged)]
    assert len(acknowledged) == 80
    assert sorted(mine) == sorted(acknowledged)  # type: ignore[type-var]
