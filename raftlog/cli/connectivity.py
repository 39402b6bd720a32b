"""Explains in one sentence why no broker answers: no listener, a controller, or another server."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from raftlog.client.addresses import parse_bootstrap
from raftlog.client.options import client_id_of
from raftlog.client.security import Security
from raftlog.errors import ErrorCode, RaftlogError, UnknownOutcomeError, UnreachableError
from raftlog.model import Address
from raftlog.tls import explain
from raftlog.transport import HttpSession
from raftlog.wire import paths
from raftlog.wire.metadata import ClusterInfo, ControllerInfo

ANSWER_WITHIN_MS = 1_500
PAUSE_S = 0.1
_LOCAL = {"consistency": "local"}

ADVICE = "start a cluster on this machine with: raftlog dev up; or name a broker with --bootstrap or RAFTLOG_BOOTSTRAP"


class NoClusterError(UnreachableError):
    """No broker answers at the bootstrap addresses; no request was sent to a cluster."""


async def require_cluster(bootstrap: Sequence[str], security: Security, *, within_ms: int = ANSWER_WITHIN_MS) -> None:
    """Return once a broker has answered at one of these URLs.

    Raises:
        NoClusterError: none answered within `within_ms`; the message explains it for each address.
    """
    addresses = parse_bootstrap(bootstrap)
    async with HttpSession(
        tls=security.tls_context(),
        authorization=security.authorization,
        tokens=security.token_source(),
        client_id=client_id_of(""),
    ) as session:
        looks = [asyncio.create_task(_look(session, address, within_ms)) for address in addresses]
        try:
            for look in asyncio.as_completed(looks):
                if not await look:
                    return
            found = [look.result() for look in looks]
        finally:
            for look in looks:
                look.cancel()
            await asyncio.gather(*looks, return_exceptions=True)
    raise NoClusterError(f"{'; '.join(found)}; {ADVICE}")


async def _look(session: HttpSession, address: Address, within_ms: int) -> str:
    """Return what is wrong with an address; "" if a broker answers. A refused connection is retried."""
    deadline = asyncio.get_running_loop().time() + within_ms / 1_000
    while True:
        left_ms = max(1, round(1_000 * (deadline - asyncio.get_running_loop().time())))
        try:
            await session.call(ClusterInfo, "GET", address, paths.CLUSTER, query=_LOCAL, timeout_ms=left_ms)
            return ""
        except UnreachableError as error:
            if (why := explain(error)) is not None:
                return f"{address.url}: {why}"
            wrong = f"no broker listens at {address.url}"
            if left_ms <= 1_000 * PAUSE_S:
                return wrong
            await asyncio.sleep(PAUSE_S)
        except UnknownOutcomeError as error:
            if isinstance(error.__cause__, TimeoutError):
                return f"the server at {address.url} does not answer within {within_ms / 1_000:g} s"
            return f"the server at {address} does not speak HTTP (is it a controller's quorum port?)"
        except RaftlogError as error:
            if error.code in (ErrorCode.AUTHENTICATION_FAILED, ErrorCode.AUTHORIZATION_FAILED):
                return ""  # It is a broker. The command itself reports what is missing.
            return await _other_server(session, address, error)


async def _other_server(session: HttpSession, address: Address, refused: RaftlogError) -> str:
    with suppress(RaftlogError):
        await session.call(ControllerInfo, "GET", address, paths.CONTROLLER, query=_LOCAL, timeout_ms=ANSWER_WITHIN_MS)
        return f"{address.url} is a controller; clients need a broker (its public listener, 9400 by default)"
    return f"{address.url} is not a broker's public listener (it answered: {' '.join(refused.message.split())[:80]})"
