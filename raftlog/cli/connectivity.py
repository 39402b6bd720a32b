"""Explains in one sentence why no broker answers: no listener, a controller, or another server."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from raftlog.client.addresses import parse_bootstrap
from raftlog.client.options import client_id_of
from raftlog.client.security import Security
from raftlog.errors import (
    ErrorCode,
    InvalidRequestError,
    NotFoundError,
    RaftlogError,
    UnknownOutcomeError,
    UnreachableError,
)
from raftlog.model import Address
from raftlog.tls import explain
from raftlog.transport import HttpSession
from raftlog.transport.password_login import PasswordLogin
from raftlog.transport.session_credentials import SessionCredentials
from raftlog.wire import paths
from raftlog.wire.logins import LoginChallenge, LoginRequest
from raftlog.wire.metadata import ClusterInfo, ControllerInfo
from raftlog.wire.scram import ClientFirst

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
    addresses, tokens = parse_bootstrap(bootstrap), security.token_source()
    user = security.username if isinstance(tokens, PasswordLogin) else ""
    async with HttpSession(
        tls=security.tls_context(),
        credentials=SessionCredentials(authorization=security.authorization, tokens=None if user else tokens),
        client_id=client_id_of(""),
    ) as session:
        looks = [asyncio.create_task(_look(session, address, user, within_ms)) for address in addresses]
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


async def _look(session: HttpSession, address: Address, user: str, within_ms: int) -> str:
    """Return what is wrong with an address; "" if a broker answers. A refused connection is retried.

    Args:
        user: logs in later, in the command itself; "": the session has the credentials.
    """
    deadline = asyncio.get_running_loop().time() + within_ms / 1_000
    while True:
        left_ms = max(1, round(1_000 * (deadline - asyncio.get_running_loop().time())))
        try:
            await (_ask(session, address, left_ms) if not user else _begin_login(session, address, user, left_ms))
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


async def _ask(session: HttpSession, address: Address, timeout_ms: int) -> None:
    await session.call(ClusterInfo, "GET", address, paths.CLUSTER, query=_LOCAL, timeout_ms=timeout_ms)


async def _begin_login(session: HttpSession, address: Address, user: str, timeout_ms: int) -> None:
    """Send the first request of a login, which each broker answers, and no key is derived for."""
    message = LoginRequest(message=ClientFirst(user, "only-a-look").text)
    try:
        await session.call(LoginChallenge, "POST", address, paths.LOGIN, message=message, timeout_ms=timeout_ms)
    except NotFoundError:
        await _ask(session, address, timeout_ms)  # It may be a broker of an earlier version.
    except InvalidRequestError as error:
        if error.code not in (ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_CONFIG):
            raise  # Otherwise the command itself reports what is wrong: the user's name, or no cluster key.


async def _other_server(session: HttpSession, address: Address, refused: RaftlogError) -> str:
    with suppress(RaftlogError):
        await session.call(ControllerInfo, "GET", address, paths.CONTROLLER, query=_LOCAL, timeout_ms=ANSWER_WITHIN_MS)
        return f"{address.url} is a controller; clients need a broker (its public listener, 9400 by default)"
    return f"{address.url} is not a broker's public listener (it answered: {' '.join(refused.message.split())[:80]})"
