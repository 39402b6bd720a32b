"""Apache Kafka: three KRaft nodes, each broker and controller, with the JVM options of Kafka's own start script."""

from __future__ import annotations

import base64
import shutil
import uuid
from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization

from benchmarks.peers.server import LOOPBACK, NODES, TOOLS, Server, free_ports, listens

_LIBS = TOOLS / "kafka" / "libs"
_HEAP = ("-Xms1G", "-Xmx1G")
_JVM = (
    *("-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35"),
    *("-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true"),
)
_SETTINGS = {
    "num.partitions": 1,
    "default.replication.factor": NODES,
    "min.insync.replicas": 2,
    "offsets.topic.replication.factor": NODES,
    "transaction.state.log.replication.factor": NODES,
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": 0,
    "message.max.bytes": 8 << 20,
    # Delete a trial's records before the next trial.
    "log.segment.delete.delay.ms": 1_000,
}
_LOG4J = """
<Configuration status="warn">
  <Appenders><Console name="out"><PatternLayout pattern="%d %p %m (%c)%n%throwable"/></Console></Appenders>
  <Loggers><Root level="warn"><AppenderRef ref="out"/></Root></Loggers>
</Configuration>
"""


_HOST = "localhost"
"""In certificates, and so in the addresses of brokers with TLS."""


class Kafka(Server):
    name = "kafka"
    can_encrypt = True

    @classmethod
    def missing(cls) -> str | None:
        if not list(_LIBS.glob("kafka_2.13-*.jar")):
            return f"no Kafka in {_LIBS}"
        return None if shutil.which("java") else "no java"

    def __init__(self, folder: Path, *, durable: bool) -> None:
        super().__init__(folder, durable=durable)
        ports = free_ports(2 * NODES)
        self._client_ports, self._controller_ports = ports[:NODES], ports[NODES:]

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{self._host}:{port}" for port in self._client_ports)

    @property
    def _host(self) -> str:
        return _HOST if self.tls else LOOPBACK

    @property
    def client_options(self) -> dict[str, str]:
        return {"ca_file": str(self.folder / "ca.pem")} if self.tls else {}

    @property
    def settings(self) -> dict[str, object]:
        version = next(_LIBS.glob("kafka_2.13-*.jar")).stem.removeprefix("kafka_2.13-")
        return {
            "version": version,
            "nodes": f"{NODES} (broker and controller each)",
            "jvm": " ".join((*_HEAP, *_JVM)),
            **_SETTINGS,
            "TLS": "on every listener" if self.tls else "none",
            "sync": "topic setting flush.messages=1" if self.durable else "none before acknowledging (default)",
        }

    def start(self) -> None:
        cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if self.tls:
            self._write_certificates()
        logging = self.folder / "log4j2.xml"
        logging.write_text(_LOG4J)
        java = ["java", *_HEAP, *_JVM, f"-Dlog4j2.configurationFile={logging}", "-cp", f"{_LIBS}/*"]
        for number in range(NODES):
            path = self._write_properties(number)
            self.run([*java, "kafka.tools.StorageTool", "format", f"--cluster-id={cluster_id}", "-c", path])
        for number in range(NODES):
            self.launch(f"node-{number}", [*java, "kafka.Kafka", self.folder / f"node-{number}.properties"])
        self.wait_until(lambda: all(map(listens, self._client_ports)), "listening")

    def _write_certificates(self) -> None:
        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(self.folder / "ca.pem"))
        issued = authority.issue_cert(_HOST)
        key = serialization.load_pem_private_key(issued.private_key_pem.bytes(), password=None)
        form = serialization.PrivateFormat.PKCS8  # The only one that Kafka reads.
        pem = key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
        chain = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
        (self.folder / "node.pem").write_bytes(pem + chain)

    def _tls_settings(self) -> dict[str, object]:
        """Return where certificates are (KIP-651)."""
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self.folder / "node.pem",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.folder / "ca.pem",
        }

    def _write_properties(self, number: int) -> Path:
        voters = ",".join(f"{n}@{self._host}:{port}" for n, port in enumerate(self._controller_ports))
        protocol = "SSL" if self.tls else "PLAINTEXT"
        client = f"CLIENT://{self._host}:{self._client_ports[number]}"
        own = {
            "process.roles": "broker,controller",
            "node.id": number,
            "controller.quorum.voters": voters,
            "listeners": f"{client},CONTROLLER://{self._host}:{self._controller_ports[number]}",
            "advertised.listeners": client,
            "controller.listener.names": "CONTROLLER",
            "inter.broker.listener.name": "CLIENT",
            "listener.security.protocol.map": f"CONTROLLER:{protocol},CLIENT:{protocol}",
            **(self._tls_settings() if self.tls else {}),
            "log.dirs": self.folder / f"node-{number}",
        }
        path = self.folder / f"node-{number}.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in {**own, **_SETTINGS}.items()))
        return path
