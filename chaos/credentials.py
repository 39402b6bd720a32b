"""What brokers answer to a user with given credentials."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import raftlog
from chaos.cluster import ChaosCluster
from chaos.site import BrokenPromiseError
from raftlog.errors import AuthenticationError, RetriableError
from raftlog.transport import HttpSession
from raftlog.wire import paths
from raftlog.wire.metadata import ClientMetadata

APPLIED_WITHIN_S = 30.0
"""How long a change may take until every node applies it: nodes look at their files every 5 s."""
POLL_S = 0.1
_ASK_TIMEOUT_MS = 2_000
_SILENT = "silent"


async def expect(
    cluster: ChaosCluster,
    topic: str,
    wanted: str,
    brokers: Sequence[str],
    security: raftlog.Security,
    user: str,
    *,
    within_s: float | None = None,
) -> None:
    """Wait until each broker's answer to the user is `wanted`: ok, forbidden, or unknown (wrong credentials).

    Args:
        topic: what the user asks for, which takes the right to describe it.
        within_s: 0: the first answer counts; None: `APPLIED_WITHIN_S`.

    Raises:
        BrokenPromiseError: a broker answers otherwise.
    """
    within_s = APPLIED_WITHIN_S if within_s is None else within_s
    for broker in brokers:
        deadline, answer = asyncio.get_running_loop().time() + within_s, f"{_SILENT}: not asked yet"
        try:
            async with asyncio.timeout(APPLIED_WITHIN_S + within_s):  # However long it is silent.
                while answer != wanted:
                    if not answer.startswith(_SILENT) and asyncio.get_running_loop().time() >= deadline:
                        raise BrokenPromiseError(f"{broker} answers {answer!r} to {user}, expected {wanted!r}")
                    await asyncio.sleep(POLL_S)
                    answer = await _answer(cluster, broker, topic, security)
        except TimeoutError:
            raise BrokenPromiseError(
                f"{broker} has not answered {wanted!r} to {user} within {APPLIED_WITHIN_S + within_s:g} s; {answer}"
            ) from None


async def _answer(cluster: ChaosCluster, broker: str, topic: str, security: raftlog.Security) -> str:
    """Return what a broker answers; one that gives no answer is silent, with the reason."""
    node, path = cluster.nodes.node(broker), f"{paths.METADATA}?topic={topic}"
    async with HttpSession(tls=security.tls_context(), credentials=security.credentials()) as session:
        try:
            found = await session.call(ClientMetadata, "GET", node.health, path, timeout_ms=_ASK_TIMEOUT_MS)
        except AuthenticationError:
            return "unknown"
        except RetriableError as error:
            return f"{_SILENT}: {error}"
        return "ok" if found.topics else "forbidden"
