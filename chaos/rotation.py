"""A story of credentials that change while nodes are killed: certificates, passwords and access rules."""

from __future__ import annotations

import asyncio
import secrets
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path

import raftlog
from chaos.cluster import USER, ChaosCluster
from chaos.run import Run
from chaos.site import BrokenPromiseError
from raftlog.cli.certificates import CertificateAuthority, Subject
from raftlog.cli.security import issue_node
from raftlog.errors import AuthenticationError, RetriableError
from raftlog.model import Acl
from raftlog.tls import TlsFiles, client_context
from raftlog.transport import HttpSession
from raftlog.wire import paths
from raftlog.wire.metadata import ClientMetadata

ROUNDS = 4
APPLIED_WITHIN_S = 30.0
"""How long a change may take until every node applies it: nodes look at their files every 5 s."""
POLL_S = 0.1
ASK_TIMEOUT_MS = 2_000
READER = "rotated-reader"


async def rotate_credentials(run: Run) -> None:
    """Replace every certificate, a password and rules, each time while another node is dead.

    A node that comes back must apply what changed meanwhile from its first answer on. The checked clients, whose
    certificate is replaced too, must not be refused.
    """
    await run.warm_up()
    reader = _Reader(run.cluster, run.topic)
    names = list(run.cluster.nodes.names)
    run.dice.shuffle(names)
    async with raftlog.Admin(run.cluster.bootstrap) as admin:
        for number, victim in enumerate(names[:ROUNDS]):
            with run.fault("SIGKILL", "rotation", victim):
                await run.cluster.kill(victim)
                await asyncio.to_thread(_replace_certificates, run.cluster)
                alive = [name for name in run.brokers if name != victim]
                await reader.learns_changes(admin, alive, may_read=number % 2 == 0)
                await run.cluster.restart(victim)
            if victim in run.brokers:
                await reader.expect("ok" if number % 2 == 0 else "forbidden", [victim], within_s=0)
            await _until_all_show_new_certificates(run.cluster)
            await run.site.until_in_sync()
            await run.load(50)
    if refused := sorted({send.error for send in run.history.sends if _is_refusal(send.error)}):
        raise BrokenPromiseError(f"clients with valid credentials were refused: {refused[:3]}")


class _Reader:
    """A user whose password and rules change. It asks brokers for a topic, which takes the right to describe it."""

    def __init__(self, cluster: ChaosCluster, topic: str) -> None:
        self._cluster, self._topic = cluster, topic
        self._password = self._former = ""
        self._allow = Acl(principal=f"User:{READER}", operation="describe", resource_type="topic", resource_name=topic)
        self._deny = replace(self._allow, permission="deny")

    async def learns_changes(self, admin: raftlog.Admin, brokers: Sequence[str], *, may_read: bool) -> None:
        """Change the password and the rules, and wait until these brokers apply each change.

        Args:
            may_read: whether the rules allow the user to see the topic in the end.
        """
        self._former, self._password = self._password, secrets.token_hex(12)
        await _applied(lambda: admin.put_user(READER, self._password))
        if self._former:
            await self.expect("unknown", brokers, password=self._former)
        await _applied(lambda: admin.create_acls([self._allow]))
        await _applied(lambda: admin.delete_acls(principal=f"User:{READER}", permission="deny"))
        await self.expect("ok", brokers)
        if not may_read:
            await _applied(lambda: admin.create_acls([self._deny]))
            await self.expect("forbidden", brokers)

    async def expect(
        self, wanted: str, brokers: Sequence[str], *, password: str = "", within_s: float = APPLIED_WITHIN_S
    ) -> None:
        """Wait until each broker's answer to the user is `wanted`: ok, forbidden, or unknown (a wrong password).

        Args:
            password: "": the newest one.
            within_s: 0: the first answer counts.

        Raises:
            BrokenPromiseError: a broker answers otherwise.
        """
        for broker in brokers:
            deadline, answer = asyncio.get_running_loop().time() + within_s, "silent"
            async with asyncio.timeout(APPLIED_WITHIN_S + within_s):  # However long it is silent.
                while answer != wanted:
                    if "silent" not in answer and asyncio.get_running_loop().time() >= deadline:
                        raise BrokenPromiseError(f"{broker} answers {answer!r} to {READER}, expected {wanted!r}")
                    await asyncio.sleep(POLL_S)
                    answer = await self._answer(broker, password or self._password)

    async def _answer(self, broker: str, password: str) -> str:
        """Return the answer to the password itself and to a login with it; both, if they differ."""
        answers = [await self._answer_to(broker, password, login) for login in ("basic", "scram")]
        return answers[0] if answers[0] == answers[1] else " and ".join(answers)

    async def _answer_to(self, broker: str, password: str, login: str) -> str:
        node, files = self._cluster.nodes.node(broker), raftlog.Security.from_environment()
        user = raftlog.Security(ca_file=files.ca_file, username=READER, password=password, login=login)
        path, tokens = f"{paths.METADATA}?topic={self._topic}", user.token_source()
        async with HttpSession(tls=user.tls_context(), authorization=user.authorization, tokens=tokens) as session:
            try:
                found = await session.call(ClientMetadata, "GET", node.health, path, timeout_ms=ASK_TIMEOUT_MS)
            except AuthenticationError:
                return "unknown"
            except RetriableError:
                return "silent"
            return "ok" if found.topics else "forbidden"


async def _applied(change: Callable[[], Awaitable[object]]) -> None:
    """Make a change that may be repeated, until it is acknowledged."""
    async with asyncio.timeout(APPLIED_WITHIN_S):
        while True:
            try:
                await change()
            except RetriableError:
                await asyncio.sleep(POLL_S)
            else:
                return


def _replace_certificates(cluster: ChaosCluster) -> None:
    """Write new certificates and keys of all nodes, and of the suite's own clients."""
    authority = CertificateAuthority(cluster.nodes.data / "security")
    for name in cluster.nodes.names:
        kind, _, number = name.partition("-")
        issue_node(authority, kind, number, [cluster.nodes.node(name).internal.host], cluster.nodes.cluster_id)
    authority.issue(Subject(name=USER), authority.folder / "users")


async def _until_all_show_new_certificates(cluster: ChaosCluster) -> None:
    for name in cluster.nodes.names:
        written = ssl.PEM_cert_to_DER_cert(_first_certificate(cluster.nodes.data / "security" / name / "node.pem"))
        try:
            async with asyncio.timeout(APPLIED_WITHIN_S):
                while await _shown(cluster, name) != written:
                    await asyncio.sleep(POLL_S)
        except TimeoutError:
            raise BrokenPromiseError(
                f"{name} still shows its former certificate after {APPLIED_WITHIN_S:g} s"
            ) from None


def _first_certificate(path: Path) -> str:
    return path.read_text().partition("-----END CERTIFICATE-----")[0] + "-----END CERTIFICATE-----\n"


async def _shown(cluster: ChaosCluster, name: str) -> bytes | None:
    """Return the certificate that a node shows now; None: it does not answer."""
    address, files = cluster.nodes.node(name).health, raftlog.Security.from_environment()
    own = TlsFiles(cert_file=files.cert_file, key_file=files.key_file, ca_file=files.ca_file)
    try:
        _, writer = await asyncio.open_connection(address.host, address.port, ssl=client_context(own))
    except OSError:
        return None
    try:
        shown: bytes | None = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return shown
    finally:
        writer.transport.abort()


def _is_refusal(error: str) -> bool:
    return any(words in error for words in ("certificate", f"User:{USER} may not", "needs credentials"))
