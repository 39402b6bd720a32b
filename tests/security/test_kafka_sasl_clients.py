"""Kafka's clients on a cluster with TLS and rules: SASL, administration, refusals, expiry."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewTopic as AioTopic
from aiokafka.errors import KafkaError as AioError
from confluent_kafka import admin as librdkafka
from issuer_support import AUDIENCE, Issuer
from kafka import KafkaAdminClient
from kafka.admin import NewTopic
from kafka.errors import KafkaError as PythonError
from secured_support import KEY, PASSWORDS, SECURITY

from raftlog import Security, blocking
from raftlog.cli.local_cluster import LocalCluster
from raftlog.model import Acl
from raftlog.wire.kafka.api_keys import APIS
from raftlog.wire.kafka.error_codes import KafkaError
from raftlog.wire.kafka.framing import RequestHeader, decode_response, encode_request
from raftlog.wire.kafka.messages.metadata import MetadataRequest
from raftlog.wire.kafka.messages.sasl_authenticate import SaslAuthenticateRequest
from raftlog.wire.kafka.messages.sasl_handshake import SaslHandshakeRequest
from tests.broker.kafka.java_support import JAVA, TOOLS_LIBS, needs

sys.path.append(str(Path(__file__).parents[1] / "tls"))
from tls_support import Authority, section

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(180)]
TLS = {"public": "required", "internal": "required", "quorum": "required", "client_auth": "optional"}
TOPIC = "flights"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
WAIT_S = 20
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "come-from-kafka.md"
KEYS: dict[type, int] = {MetadataRequest: 3, SaslHandshakeRequest: 17, SaslAuthenticateRequest: 36}
VERSION = 1


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.new(tmp_path_factory.mktemp("ca"))


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with Issuer().in_thread() as served:
        yield served


@pytest.fixture(scope="module")
def cluster(
    authority: Authority, issuer: Issuer, tmp_path_factory: pytest.TempPathFactory, stall_file: Path
) -> Iterator[LocalCluster]:
    folder = tmp_path_factory.mktemp("secured") / "cluster"
    folder.mkdir()
    (folder / "cluster.key").write_text(KEY)
    tokens = {"issuer": issuer.url, "audience": AUDIENCE, "leeway_s": 0, "refresh_s": 1}
    security = SECURITY | {"tokens": tokens, "audit_file": "audit.jsonl"}
    extra = {"*": {"security": security, "tls": section(authority.issue("node"), **TLS)}}
    with LocalCluster(folder, controllers=1, brokers=2, port=0, extra=extra) as cluster:
        with blocking.Admin(cluster.bootstrap, security=Security(ca_file=authority.ca_file)) as admin:
            admin.create_topic(TOPIC, partitions=1, replication_factor=2)
            for user, password in PASSWORDS.items():
                admin.put_user(user, password)
            rules = (("write", "topic"), ("read", "topic"), ("describe", "topic"))
            admin.create_acls(
                [Acl(principal="ruled", operation=how, resource_type=kind, resource_name=TOPIC) for how, kind in rules]
            )
        for name in cluster.names:
            cluster.configure(name, security=security | {"authorizer": "acl"})
            cluster.restart(name)
        cluster.wait_ready()
        yield cluster


def servers(cluster: LocalCluster) -> str:
    urls = cluster.bootstrap if isinstance(cluster.bootstrap, list | tuple) else str(cluster.bootstrap).split(",")
    return ",".join(str(url).partition("://")[2] or str(url) for url in urls)


def of_librdkafka(
    cluster: LocalCluster, authority: Authority, user: str, mechanism: str, password: str | None = None
) -> dict[str, Any]:
    return {
        "bootstrap.servers": servers(cluster),
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(authority.ca_file),
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": PASSWORDS[user] if password is None else password,
        "log_level": 0,
    }


def of_python(
    cluster: LocalCluster, authority: Authority, user: str, mechanism: str, password: str = ""
) -> dict[str, Any]:
    return {
        "bootstrap_servers": servers(cluster).split(","),
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(authority.ca_file),
        "sasl_mechanism": mechanism,
        "sasl_plain_username": user,
        "sasl_plain_password": password or PASSWORDS[user],
    }


def done(futures: dict[Any, Any]) -> dict[Any, Any]:
    return {key: future.result(timeout=WAIT_S) for key, future in futures.items()}


def failed(futures: dict[Any, Any]) -> set[str]:
    names = set()
    for future in futures.values():
        with pytest.raises(confluent_kafka.KafkaException) as caught:
            future.result(timeout=WAIT_S)
        names.add(caught.value.args[0].name())
    return names


def write(config: dict[str, Any], topic: str = TOPIC) -> confluent_kafka.KafkaError | None:
    """Produce one record; return its error, or the connection's."""
    errors: list[confluent_kafka.KafkaError] = []
    outcome: list[confluent_kafka.KafkaError | None] = []
    config = config | {"error_cb": errors.append, "message.timeout.ms": 15_000}
    producer = confluent_kafka.Producer(config)
    producer.produce(topic, b"v", on_delivery=lambda error, _: outcome.append(error))
    until = time.monotonic() + WAIT_S
    while not outcome and time.monotonic() < until:
        producer.poll(0.1)
        fatal = [error for error in errors if error.code() == confluent_kafka.KafkaError._AUTHENTICATION]
        if fatal:
            producer.purge()
            producer.poll(0)
            return fatal[0]
    return outcome[0]


class TestPasswords:
    @pytest.mark.parametrize("mechanism", MECHANISMS)
    def test_a_user_with_a_rule_writes(self, cluster: LocalCluster, authority: Authority, mechanism: str):
        assert write(of_librdkafka(cluster, authority, "ruled", mechanism)) is None

    @pytest.mark.parametrize("mechanism", MECHANISMS)
    def test_a_user_without_a_rule_is_refused(self, cluster: LocalCluster, authority: Authority, mechanism: str):
        error = write(of_librdkafka(cluster, authority, "nobody", mechanism))
        assert error is not None
        assert error.name() == "TOPIC_AUTHORIZATION_FAILED"

    @pytest.mark.parametrize("mechanism", MECHANISMS)
    @pytest.mark.parametrize("user", ["ruled", "stranger"])
    def test_a_wrong_password_and_an_unknown_user_look_the_same(
        self, cluster: LocalCluster, authority: Authority, mechanism: str, user: str
    ):
        error = write(of_librdkafka(cluster, authority, user, mechanism, "wrong-secret"))
        assert error is not None
        assert "is wrong" in error.str()

    def test_a_mechanism_that_is_not_there_is_refused_with_those_that_are(
        self, cluster: LocalCluster, authority: Authority
    ):
        refused = TestOrder().answers(cluster, authority, SaslHandshakeRequest(mechanism="SCRAM-SHA-1"))
        assert [one.error_code for one in refused] == [KafkaError.UNSUPPORTED_SASL_MECHANISM]
        assert refused[0].mechanisms == ["SCRAM-SHA-512", "SCRAM-SHA-256", "OAUTHBEARER", "PLAIN"]

    @pytest.mark.parametrize(("has", "lacks"), [("SCRAM-SHA-256", "SCRAM-SHA-512"), ("SCRAM-SHA-512", "SCRAM-SHA-256")])
    def test_a_user_may_have_one_mechanism(self, cluster: LocalCluster, authority: Authority, has: str, lacks: str):
        admin = librdkafka.AdminClient(of_librdkafka(cluster, authority, "admin", "SCRAM-SHA-512"))
        numbers = {
            "SCRAM-SHA-256": librdkafka.ScramMechanism.SCRAM_SHA_256,
            "SCRAM-SHA-512": librdkafka.ScramMechanism.SCRAM_SHA_512,
        }
        user, password = f"has-{has}", "secret-secret"
        info = librdkafka.ScramCredentialInfo(numbers[has], 100_000)
        change = librdkafka.UserScramCredentialUpsertion(user, info, password.encode(), b"s" * 32)
        done(admin.alter_user_scram_credentials([change]))
        found = done(admin.describe_user_scram_credentials([user]))[user].scram_credential_infos
        assert [(one.mechanism, one.iterations) for one in found] == [(numbers[has], 100_000)]
        for how in (has, "PLAIN"):
            librdkafka.AdminClient(of_librdkafka(cluster, authority, user, how, password)).list_topics(timeout=WAIT_S)
        error = write(of_librdkafka(cluster, authority, user, lacks, password))
        unknown = write(of_librdkafka(cluster, authority, "stranger", lacks, password))
        assert error is not None
        assert unknown is not None
        assert f"the password of user {user}, or the user, is wrong" in error.str()
        assert "the password of user stranger, or the user, is wrong" in unknown.str()
        deletion = librdkafka.UserScramCredentialDeletion(user, numbers[lacks])
        assert failed(admin.alter_user_scram_credentials([deletion])) == {"RESOURCE_NOT_FOUND"}
        done(admin.alter_user_scram_credentials([librdkafka.UserScramCredentialDeletion(user, numbers[has])]))

    def test_without_credentials_nothing_is_served(self, cluster: LocalCluster, authority: Authority):
        config = of_librdkafka(cluster, authority, "ruled", "PLAIN") | {"security.protocol": "SSL"}
        kept = {key: value for key, value in config.items() if not key.startswith("sasl")}
        client = librdkafka.AdminClient(kept)
        with pytest.raises(confluent_kafka.KafkaException):
            client.list_topics(timeout=3)

    @pytest.mark.parametrize("mechanism", MECHANISMS)
    def test_kafka_python(self, cluster: LocalCluster, authority: Authority, mechanism: str):
        client = KafkaAdminClient(**of_python(cluster, authority, "ruled", mechanism))
        try:
            assert TOPIC in client.list_topics()
        finally:
            client.close()
        wrong = of_python(cluster, authority, "ruled", mechanism, "wrong-secret")
        with pytest.raises(PythonError):
            KafkaAdminClient(**wrong, bootstrap_timeout_ms=2_000).close()

    @pytest.mark.kafka
    @needs(TOOLS_LIBS)
    @pytest.mark.parametrize("mechanism", MECHANISMS)
    def test_java_logs_in_as_the_page_says(
        self, cluster: LocalCluster, authority: Authority, mechanism: str, tmp_path: Path
    ):
        (block,) = [part for part in PAGE.read_text().split("```") if part.startswith("text\nsecurity.protocol")]
        settings = block.removeprefix("text\n").replace("/etc/raftlog/ca.pem", str(authority.ca_file))
        if mechanism == "PLAIN":
            settings = settings.replace("scram.ScramLoginModule", "plain.PlainLoginModule")
        settings = settings.replace("SCRAM-SHA-512", mechanism).replace('username="alice"', 'username="ruled"')
        for password, lists in ((PASSWORDS["ruled"], True), ("wrong-secret", False)):
            (tmp_path / "client.properties").write_text(settings.replace("...", password))
            line = ["org.apache.kafka.tools.TopicCommand", "--list", "--bootstrap-server", servers(cluster)]
            line += ["--command-config", str(tmp_path / "client.properties")]
            ran = subprocess.run([*JAVA, *line], capture_output=True, text=True, timeout=60, check=False)
            assert (ran.returncode == 0, TOPIC in ran.stdout) == (lists, lists), ran.stdout + ran.stderr
            assert lists or "is wrong" in ran.stdout + ran.stderr

    def test_a_changed_password_ends_a_connection_and_the_new_one_counts(
        self, cluster: LocalCluster, authority: Authority
    ):
        admin = librdkafka.AdminClient(of_librdkafka(cluster, authority, "admin", "SCRAM-SHA-256"))
        mechanism = librdkafka.ScramMechanism.SCRAM_SHA_256
        mechanisms = (mechanism, librdkafka.ScramMechanism.SCRAM_SHA_512)
        infos = [librdkafka.ScramCredentialInfo(one, 100_000) for one in mechanisms]
        password = f"first-{time.monotonic()}"
        for one in (password, "second-secret"):
            for info in infos:
                change = librdkafka.UserScramCredentialUpsertion("changing", info, one.encode(), b"s" * 32)
                done(admin.alter_user_scram_credentials([change]))
            for how in MECHANISMS:
                client = librdkafka.AdminClient(of_librdkafka(cluster, authority, "changing", how, one))
                client.list_topics(timeout=WAIT_S)
        error = write(of_librdkafka(cluster, authority, "changing", "PLAIN", password))
        assert error is not None
        assert "is wrong" in error.str()

    def test_failures_are_in_the_audit_log_and_passwords_are_not(self, cluster: LocalCluster, authority: Authority):
        write(of_librdkafka(cluster, authority, "ruled", "PLAIN", "planted-password"))
        texts = [path.read_text() for path in cluster.data.rglob("audit.jsonl")]
        assert any('"outcome":"denied"' in text and '"method":"password"' in text for text in texts)
        assert not any("planted" in text or PASSWORDS["ruled"] in text for text in texts)


class TestOrder:
    """Requests as no client sends them: before, during and behind an exchange."""

    def answers(self, cluster: LocalCluster, authority: Authority, *requests: Any) -> list[Any]:
        """Send requests at once; return the answers up to the end of the connection."""
        host, _, port = servers(cluster).split(",")[0].rpartition(":")
        context = ssl.create_default_context(cafile=authority.ca_file)
        headers = [RequestHeader(KEYS[type(one)], VERSION, number, "raw") for number, one in enumerate(requests)]
        with (
            socket.create_connection((host, int(port)), timeout=WAIT_S) as plain,
            context.wrap_socket(plain, server_hostname=host) as connection,
        ):
            for header, request in zip(headers, requests, strict=True):
                connection.sendall(b"".join(bytes(part) for part in encode_request(header, request)))
            received = b""
            while more := connection.recv(1 << 16):
                received += more
        found = []
        while received:
            size = int.from_bytes(received[:4])
            frame, received = received[4 : 4 + size], received[4 + size :]
            found.append(decode_response(APIS[headers[len(found)].api_key], VERSION, frame)[1])
        return found

    def test_nothing_is_served_during_an_exchange(self, cluster: LocalCluster, authority: Authority):
        (begun,) = self.answers(cluster, authority, SaslHandshakeRequest(mechanism="PLAIN"), MetadataRequest())
        assert begun.error_code == 0

    def test_nothing_is_served_behind_a_failed_one(self, cluster: LocalCluster, authority: Authority):
        wrong = SaslAuthenticateRequest(auth_bytes=b"\0admin\0wrong-secret")
        requests = (SaslHandshakeRequest(mechanism="PLAIN"), wrong, wrong, MetadataRequest())
        _, failed = self.answers(cluster, authority, *requests)
        assert failed.error_code == KafkaError.SASL_AUTHENTICATION_FAILED

    def test_a_message_without_a_handshake_is_illegal(self, cluster: LocalCluster, authority: Authority):
        right = SaslAuthenticateRequest(auth_bytes=f"\0admin\0{PASSWORDS['admin']}".encode())
        (refused,) = self.answers(cluster, authority, right, MetadataRequest())
        assert refused.error_code == KafkaError.ILLEGAL_SASL_STATE


class TestTokens:
    def config(self, cluster: LocalCluster, authority: Authority, token: Any) -> dict[str, Any]:
        base = of_librdkafka(cluster, authority, "ruled", "OAUTHBEARER")
        return base | {"oauth_cb": lambda _: token()}

    def test_a_token_of_the_issuer_counts(self, cluster: LocalCluster, authority: Authority, issuer: Issuer):
        assert write(self.config(cluster, authority, lambda: (issuer.token(), time.time() + 300))) is None

    def test_a_token_of_another_issuer_does_not(self, cluster: LocalCluster, authority: Authority, issuer: Issuer):
        token = issuer.token(iss="https://elsewhere.test")
        error = write(self.config(cluster, authority, lambda: (token, time.time() + 300)))
        assert error is not None
        assert "iss" in error.str()

    def test_an_expired_token_is_refused(self, cluster: LocalCluster, authority: Authority, issuer: Issuer):
        token = issuer.token(exp=time.time() - 5)
        error = write(self.config(cluster, authority, lambda: (token, time.time() + 300)))
        assert error is not None
        assert "expired" in error.str()

    def test_a_client_goes_on_after_its_token_expires_with_a_new_one(
        self, cluster: LocalCluster, authority: Authority, issuer: Issuer
    ):
        tokens: list[str] = []

        def next_token() -> tuple[str, float]:
            tokens.append(issuer.token(exp=time.time() + 4))
            return tokens[-1], time.time() + 4

        producer = confluent_kafka.Producer(
            self.config(cluster, authority, next_token) | {"message.timeout.ms": 20_000}
        )
        outcomes: list[Any] = []
        until = time.monotonic() + 10
        while time.monotonic() < until:
            producer.produce(TOPIC, b"v", on_delivery=lambda error, _: outcomes.append(error))
            producer.poll(0.25)
        assert producer.flush(WAIT_S) == 0
        assert set(outcomes) == {None}
        assert len(tokens) >= 3


class TestCertificates:
    def test_a_certificates_user_needs_no_password(self, cluster: LocalCluster, authority: Authority):
        files = authority.issue("ruled")
        config = {
            "bootstrap.servers": servers(cluster),
            "security.protocol": "SSL",
            "ssl.ca.location": str(authority.ca_file),
            "ssl.certificate.location": str(files.cert_file),
            "ssl.key.location": str(files.key_file),
        }
        assert write(config) is None


class TestAdministration:
    def test_librdkafka(self, cluster: LocalCluster, authority: Authority):
        admin = librdkafka.AdminClient(of_librdkafka(cluster, authority, "admin", "SCRAM-SHA-256"))
        topics = [
            librdkafka.NewTopic("by-librdkafka", 2, 2, config={"retention.ms": "60000", "cleanup.policy": "compact"}),
            librdkafka.NewTopic("assigned", 2, replica_assignment=[[1], [2]]),
        ]
        done(admin.create_topics(topics))
        done(admin.create_partitions([librdkafka.NewPartitions("by-librdkafka", 4)]))
        found = admin.list_topics(timeout=WAIT_S).topics
        assert len(found["by-librdkafka"].partitions) == 4
        resource = librdkafka.ConfigResource(librdkafka.ConfigResource.Type.TOPIC, "by-librdkafka")
        (configs,) = done(admin.describe_configs([resource])).values()
        assert configs["retention.ms"].value == "60000"
        assert configs["retention.ms"].source == librdkafka.ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        entry = librdkafka.ConfigEntry("retention.ms", "70000", incremental_operation=librdkafka.AlterConfigOpType.SET)
        changed = librdkafka.ConfigResource(
            librdkafka.ConfigResource.Type.TOPIC, "by-librdkafka", incremental_configs=[entry]
        )
        done(admin.incremental_alter_configs([changed]))
        (configs,) = done(admin.describe_configs([resource])).values()
        assert configs["retention.ms"].value == "70000"
        broker = librdkafka.ConfigResource(librdkafka.ConfigResource.Type.BROKER, "1")
        (configs,) = done(admin.describe_configs([broker])).values()
        assert configs["node.id"].value == "1"
        assert failed(admin.create_topics(topics)) == {"TOPIC_ALREADY_EXISTS"}
        done(admin.delete_topics(["by-librdkafka", "assigned"], operation_timeout=WAIT_S))
        assert failed(admin.delete_topics(["by-librdkafka"], operation_timeout=WAIT_S)) == {"UNKNOWN_TOPIC_OR_PART"}

    def test_rules_and_users_by_librdkafka(self, cluster: LocalCluster, authority: Authority):
        admin = librdkafka.AdminClient(of_librdkafka(cluster, authority, "admin", "PLAIN"))
        given = ("User:carol", "*", librdkafka.AclOperation.READ, librdkafka.AclPermissionType.ALLOW)
        pattern = (librdkafka.ResourceType.TOPIC, "orders", librdkafka.ResourcePatternType.PREFIXED)
        done(admin.create_acls([librdkafka.AclBinding(*pattern, *given)]))
        (found,) = [admin.describe_acls(librdkafka.AclBindingFilter(*pattern, *given)).result(timeout=WAIT_S)]
        assert [(acl.principal, acl.name) for acl in found] == [("User:carol", "orders")]
        (gone,) = done(admin.delete_acls([librdkafka.AclBindingFilter(*pattern, *given)])).values()
        assert len(gone) == 1
        users = done(admin.describe_user_scram_credentials(["ruled"]))
        infos = users["ruled"].scram_credential_infos
        assert [one.mechanism.name for one in infos] == ["SCRAM_SHA_256", "SCRAM_SHA_512"]
        assert all(one.iterations >= 100_000 for one in infos)

    def test_a_user_without_rights_may_change_nothing(self, cluster: LocalCluster, authority: Authority):
        client = librdkafka.AdminClient(of_librdkafka(cluster, authority, "ruled", "PLAIN"))
        assert failed(client.create_topics([librdkafka.NewTopic("x", 1, 1)])) == {"TOPIC_AUTHORIZATION_FAILED"}
        assert failed(client.delete_topics([TOPIC])) == {"TOPIC_AUTHORIZATION_FAILED"}
        given = ("User:ruled", "*", librdkafka.AclOperation.ALL, librdkafka.AclPermissionType.ALLOW)
        rule = (librdkafka.ResourceType.TOPIC, "*", librdkafka.ResourcePatternType.LITERAL, *given)
        assert failed(client.create_acls([librdkafka.AclBinding(*rule)])) == {"CLUSTER_AUTHORIZATION_FAILED"}
        assert failed(client.delete_acls([librdkafka.AclBindingFilter(*rule)])) == {"CLUSTER_AUTHORIZATION_FAILED"}
        resource = librdkafka.ConfigResource(librdkafka.ConfigResource.Type.BROKER, "1")
        assert failed(client.describe_configs([resource])) == {"CLUSTER_AUTHORIZATION_FAILED"}

    def test_kafka_python(self, cluster: LocalCluster, authority: Authority):
        client = KafkaAdminClient(**of_python(cluster, authority, "admin", "PLAIN"))
        try:
            client.create_topics([NewTopic("by-kafka-python", 1, 1, topic_configs={"segment.bytes": "1048576"})])
            assert "by-kafka-python" in client.list_topics()
            client.delete_topics(["by-kafka-python"])
        finally:
            client.close()

    @pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
    @pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
    async def test_aiokafka(self, cluster: LocalCluster, authority: Authority, mechanism: str):
        from aiokafka.helpers import create_ssl_context  # noqa: PLC0415  (of this client only)

        given = of_python(cluster, authority, "admin", mechanism)
        context = create_ssl_context(cafile=given.pop("ssl_cafile"))
        client = AIOKafkaAdminClient(**given, ssl_context=context)
        await client.start()
        try:
            await client.create_topics([AioTopic("by-aiokafka", 1, 1)])
            assert "by-aiokafka" in await client.list_topics()
            await client.delete_topics(["by-aiokafka"])
        finally:
            await client.close()
        wrong = AIOKafkaAdminClient(**(given | {"sasl_plain_password": "wrong"}), ssl_context=context)
        with pytest.raises(AioError):
            await asyncio.wait_for(wrong.start(), WAIT_S)
        await wrong.close()
        del wrong
        gc.collect()  # aiokafka does not close a connection whose login failed; no other test shall find it.
