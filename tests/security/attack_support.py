"""A cluster with TLS, certificates, access rules and an audit log; and requests to it under any identity."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson

from raftlog import Admin, Security
from raftlog.cli.certificates import Subject
from raftlog.cli.local_cluster import LocalCluster
from raftlog.cli.security import secure
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.metadata_quorum.image_codec import image_from_plain
from raftlog.security.node_proof import NodeProofs
from raftlog.tls import TlsFiles, client_context
from raftlog.wire import paths

Line = dict[str, Any]


async def sent(
    url: str, method: str, tls: ssl.SSLContext, headers: Mapping[str, str], body: bytes | None
) -> tuple[int, Mapping[str, str], bytes]:
    """Send a request on a connection of its own, which is closed at once. Redirects are not followed.

    Raises:
        OSError, http.client.HTTPException: there is no answer.
    """

    def ask() -> tuple[int, Mapping[str, str], bytes]:
        parts = urlsplit(url)
        connection = HTTPSConnection(parts.hostname or "", parts.port, context=tls, timeout=30)
        with closing(connection):
            target = f"{parts.path}?{parts.query}" if parts.query else parts.path
            connection.request(method, target, body, dict(headers))
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()

    return await asyncio.to_thread(ask)


@dataclass(frozen=True, slots=True)
class Attacker:
    """A sender."""

    name: str
    certificate: str = ""
    """The folder and name of its files; "": it has none."""
    proves: str = ""
    """The node that its proof, made with the cluster key, names."""
    principal: str = ""
    """What the audit log calls it."""


ADMIN = Attacker("admin", "users/admin")


class Site:
    """The cluster, and requests to it under any identity."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self.files = cluster.data / "security"

    def security(self, name: str) -> Security:
        return Security(
            ca_file=str(self.files / "ca.pem"),
            cert_file=str(self.files / f"users/{name}.pem"),
            key_file=str(self.files / f"users/{name}.key"),
        )

    def admin(self) -> Admin:
        return Admin(self.cluster.bootstrap, security=self.security("admin"))

    async def ask(
        self, attacker: Attacker, node: str, method: str, path: str, *, public: bool = False, **request: Any
    ) -> tuple[int, bytes]:
        """Send a request on a connection of its own."""
        plan = self.cluster.node(node)
        address = plan.public if public else plan.internal
        assert address is not None
        headers = dict(request.pop("headers", {}))
        if attacker.proves:
            key = (self.files / "cluster.key").read_bytes().strip()
            proofs = NodeProofs(key, self.cluster.cluster_id, attacker.proves, ())
            headers |= proofs.headers(address, time.time())
        body = request.get("data") or (orjson.dumps(request["json"]) if request.get("json") is not None else None)
        status, _, answer = await sent(f"https://{address}{path}", method, self._tls(attacker), headers, body)
        return status, answer

    def _tls(self, attacker: Attacker) -> ssl.SSLContext:
        own = attacker.certificate and str(self.files / attacker.certificate)
        ca_file = str(self.files / "ca.pem")
        files = TlsFiles(ca_file=ca_file, cert_file=f"{own}.pem", key_file=f"{own}.key") if own else None
        return client_context(files or TlsFiles(ca_file=ca_file))

    async def image(self) -> MetadataImage:
        """Return the controller's image, without the verifiers of passwords."""
        path = f"{paths.METADATA_WATCH}?after_offset=-1&max_wait_ms=0"
        status, body = await self.ask(ADMIN, "controller-101", "GET", path)
        assert status == 200, body
        return image_from_plain(orjson.loads(body)["snapshot"])

    def lines(self) -> list[Line]:
        found = []
        for path in self.cluster.data.glob("*/audit.jsonl"):
            found += [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]
        return found

    async def denied(self, principal: str, route: str, *, reason: str = "") -> Line:
        """Wait for a denial in the audit log; a reason must be equal."""
        wanted = {"event": "denial", "principal": principal, "route": route} | ({"reason": reason} if reason else {})
        async with asyncio.timeout(20):
            while not (found := [line for line in self.lines() if wanted.items() <= line.items()]):
                await asyncio.sleep(0.05)
        assert found[0]["outcome"] == "denied"
        return found[0]


@contextmanager
def attacked(folder: Path, *users: str, brokers: int = 3, **settings: Any) -> Iterator[LocalCluster]:
    """Run a cluster whose super user `admin` and these users have certificates.

    Args:
        settings: more of `[security]` of each node.
    """
    few = {"offsets_topic_num_partitions": 1, "transaction_state_log_num_partitions": 1}
    running = LocalCluster(folder, controllers=1, brokers=brokers, port=0, extra={"*": {"broker": few}})
    authority = secure(running, "admin")
    for user in users:
        authority.issue(Subject(name=user), authority.folder / "users")
    for name in running.names:
        security = {
            "authorizer": "acl",
            "super_users": ["User:admin"],
            "cluster_key_file": f"../security/{name}/cluster.key",
            "audit_file": "audit.jsonl",
            "audit_interval_s": 1,
        }
        running.configure(name, security=security | settings)
    with running:
        yield running
