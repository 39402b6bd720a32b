"""Rules in force with TLS everywhere: passwords, certificates, and nodes' proofs on encrypted connections."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from secured_support import KEY, PASSWORDS, SECURITY

from raftlog import Admin, AuthenticationError, AuthorizationError, Producer, Security, blocking
from raftlog.cli.local_cluster import LocalCluster
from raftlog.model import Acl
from raftlog.tls import TlsFiles

sys.path.append(str(Path(__file__).parents[1] / "tls"))
from tls_support import Authority, section

pytestmark = pytest.mark.cluster
TLS = {
    "public": "required",
    "internal": "required",
    "quorum": "required",
    "node_auth": "required",
    "client_auth": "optional",
}
TOPIC = "flights"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.new(tmp_path_factory.mktemp("ca"))


def as_user(authority: Authority, user: str, password: str | None = None) -> Security:
    return Security(ca_file=authority.ca_file, username=user, password=password or PASSWORDS[user])


def with_certificate(files: TlsFiles) -> Security:
    return Security(ca_file=files.ca_file, cert_file=files.cert_file, key_file=files.key_file)


@pytest.fixture(scope="module")
def cluster(authority: Authority, tmp_path_factory: pytest.TempPathFactory, stall_file: Path) -> Iterator[LocalCluster]:
    assert stall_file.exists()
    folder = tmp_path_factory.mktemp("secured") / "cluster"
    folder.mkdir()
    (folder / "cluster.key").write_text(KEY)
    extra = {"*": {"security": SECURITY, "tls": section(authority.issue("node"), **TLS)}}
    with LocalCluster(folder, controllers=1, brokers=2, port=0, extra=extra) as cluster:
        with blocking.Admin(cluster.bootstrap, security=Security(ca_file=authority.ca_file)) as admin:
            admin.create_topic(TOPIC, partitions=4, replication_factor=2)
            for user, password in PASSWORDS.items():
                admin.put_user(user, password)
            admin.create_acls([Acl(principal="ruled", operation="write", resource_type="topic", resource_name=TOPIC)])
        for name in cluster.names:
            cluster.configure(name, security=SECURITY | {"authorizer": "acl"})
            cluster.restart(name)
        cluster.wait_ready()
        yield cluster


@pytest.mark.parametrize("how", ["password", "certificate"])
async def test_a_user_writes_with_its_password_or_its_certificate(
    cluster: LocalCluster, authority: Authority, how: str
):
    files = authority.issue("ruled")
    security = as_user(authority, "ruled") if how == "password" else with_certificate(files)
    async with Producer(cluster.bootstrap, security=security) as producer:
        for partition in range(4):
            await producer.send(TOPIC, b"v", partition=partition)


@pytest.mark.parametrize("how", ["password", "certificate"])
async def test_a_user_without_a_rule_is_refused(cluster: LocalCluster, authority: Authority, how: str):
    files = authority.issue("nobody")
    security = as_user(authority, "nobody") if how == "password" else with_certificate(files)
    async with Admin(cluster.bootstrap, security=security) as admin:
        with pytest.raises(AuthorizationError, match="User:nobody may not delete topic 'flights'"):
            await admin.delete_topic(TOPIC)
        assert await admin.list_topics() == []


async def test_wrong_and_missing_credentials_are_refused(cluster: LocalCluster, authority: Authority):
    for security in (Security(ca_file=authority.ca_file), as_user(authority, "admin", "wrong-secret")):
        async with Admin(cluster.bootstrap, security=security, timeout_ms=5_000) as admin:
            with pytest.raises(AuthenticationError):
                await admin.users()


async def test_administrators_see_that_rules_are_enforced(cluster: LocalCluster, authority: Authority):
    async with Admin(cluster.bootstrap, security=as_user(authority, "admin")) as admin:
        assert await admin.authorizer() == "acl"
        assert [acl.principal for acl in await admin.acls()] == ["ruled"]
