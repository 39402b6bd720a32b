"""A story of credentials that change while nodes are killed: certificates, passwords, access rules and tokens."""

from __future__ import annotations

import asyncio
import secrets
import ssl
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import raftlog
from chaos.cluster import USER, ChaosCluster
from chaos.credentials import APPLIED_WITHIN_S, POLL_S, expect
from chaos.run import Run
from chaos.site import BrokenPromiseError
from chaos.token_rotation import Tokens
from raftlog.cli.certificates import CertificateAuthority, Subject
from raftlog.cli.security import issue_node
from raftlog.errors import RetriableError
from raftlog.model import Acl
from raftlog.tls import TlsFiles, client_context

ROUNDS = 4
READER = "rotated-reader"


async def rotate_credentials(run: Run) -> None:
    """Replace every certificate, a password, rules and the key of tokens, each time while another node is dead.

    A node that comes back must apply what changed meanwhile from its first answer on. The checked clients, whose
    certificate is replaced too, must not be refused.
    """
    await run.warm_up()
    reader, tokens = _Reader(run.cluster, run.topic), Tokens(run.cluster, run.topic)
    names = list(run.cluster.nodes.names)
    run.dice.shuffle(names)
    async with raftlog.Admin(run.cluster.bootstrap) as admin, tokens.client_at_work():
        await _applied(lambda: admin.create_acls([tokens.rule]))
        for number, victim in enumerate(names[:ROUNDS]):
            with run.fault("SIGKILL", "rotation", victim):
                await run.cluster.kill(victim)
                await asyncio.to_thread(_replace_certificates, run.cluster)
                alive = [name for name in run.brokers if name != victim]
                await _both(reader.learns_changes(admin, alive, may_read=number % 2 == 0), tokens.rotate(alive))
                await run.cluster.restart(victim)
            if victim in run.brokers:
                await reader.expect("ok" if number % 2 == 0 else "forbidden", [victim], within_s=0)
                await tokens.expect_rotated([victim])
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
        """Wait until each broker's answer to the user is `wanted`; see `credentials.expect`.

        Args:
            password: "": the newest one.
        """
        ca_file = raftlog.Security.from_environment().ca_file
        for login in ("basic", "scram"):
            security = raftlog.Security(
                ca_file=ca_file, username=READER, password=password or self._password, login=login
            )
            await expect(self._cluster, self._topic, wanted, brokers, security, READER, within_s=within_s)


async def _both(*steps: Coroutine[Any, Any, None]) -> None:
    """Run steps at the same time; raise the first error as it is, and cancel the other step."""
    tasks = [asyncio.create_task(step) for step in steps]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _applied(change: Callable[[], Awaitable[object]]) -> None:
    """Make a change that may be repeated, until it is acknowledged.

    Raises:
        BrokenPromiseError: it is not, for so long.
    """
    failed: RetriableError | None = None
    try:
        async with asyncio.timeout(APPLIED_WITHIN_S):
            while True:
                try:
                    await change()
                except RetriableError as error:
                    failed = error
                    await asyncio.sleep(POLL_S)
                else:
                    return
    except TimeoutError:
        raise BrokenPromiseError(f"a change is not acknowledged within {APPLIED_WITHIN_S:g} s: {failed}") from None


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
