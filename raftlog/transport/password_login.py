"""A client's logins by password, which is never sent: SCRAM-SHA-256 over HTTP (docs/adr/0034).

A login takes two requests to the broker that the client's request goes to. The broker proves that it knows the user,
before its token is used. The salted password is kept, so that later logins cost a few hashes.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Callable
from typing import TypeVar

from raftlog.errors import (
    AuthenticationError,
    ConfigError,
    InvalidRequestError,
    NotFoundError,
    RetriableError,
    UnknownOutcomeError,
    UnreachableError,
)
from raftlog.transport.session import PeerAnswerError
from raftlog.transport.token_source import RenewedToken, Server, require_token
from raftlog.wire import paths
from raftlog.wire.codec import decode_json, encode_json
from raftlog.wire.logins import LoginAnswer, LoginChallenge, LoginRequest
from raftlog.wire.scram import (
    MAX_MESSAGE,
    ClientFirst,
    ScramError,
    ServerFirst,
    client_final,
    parse_server_first,
    salted_password,
)

T = TypeVar("T")
STEP_MS = 3_000
"""How long one of the two requests may take at most: another broker may answer."""
MOST_VALID_S = 86_400
"""A login is repeated after a day, whatever the server says."""


class PasswordLogin(RenewedToken):
    """Logs a user in, and returns its session tokens.

    A login that fails is reported to the requests that wait for it and go to the same broker; others log in at theirs.

    Args:
        password: returns the password, for each login; it may block.
    """

    def __init__(self, user: str, password: Callable[[], str]) -> None:
        super().__init__("the login")
        self._user = user
        self._password = password
        self._salted: tuple[tuple[str, bytes, int], asyncio.Future[bytes]] | None = None
        """The newest salted password, and what it is made from. A thread makes it, which outlives a cancelled login."""
        self._at: Server | None = None
        """Where the newest login was begun."""
        self._waiting = 0

    async def _next(self, timeout_ms: int, server: Server | None) -> str:
        assert server is not None
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                while True:
                    call = self._begin(timeout_ms, server)
                    asked = self._at
                    try:
                        await self._wait_for(call)
                    except RetriableError:
                        if asked is None or asked.address == server.address:
                            raise
                    else:
                        return self.authorization
        except TimeoutError:
            raise UnreachableError(f"cannot log in at {server.address}: no answer within {timeout_ms} ms") from None

    def _begin(self, timeout_ms: int, server: Server | None) -> asyncio.Task[None]:
        if not self._is_calling:
            self._at = server
        return super()._begin(timeout_ms, server)

    async def _wait_for(self, call: asyncio.Task[None]) -> None:
        """Wait for a login. It ends with the last request that waits for it."""
        self._waiting += 1
        try:
            await asyncio.shield(call)
        finally:
            self._waiting -= 1
            if not self._waiting and self._call is call:
                self._call = None  # A new request must not wait for what is being cancelled.
                call.cancel()

    async def _obtain(self, timeout_ms: int, server: Server | None) -> tuple[str, float]:
        assert server is not None
        where = server.address.url
        step_ms = min(STEP_MS, timeout_ms)
        first = ClientFirst(self._user, secrets.token_urlsafe(18))
        try:
            begun = await _ask(LoginChallenge, server, LoginRequest(message=first.text), step_ms)
            answer = parse_server_first(begun.message, first.nonce)
            salted = await self._salted_password(answer)
            message, expected = client_final(first, answer, salted)
            request = LoginRequest(message=message, first=first.text)
            ended = await _ask(LoginAnswer, server, request, step_ms)
        except ScramError as error:
            raise AuthenticationError(f"the server at {where} sent a wrong message at the login: {error}") from None
        if not hmac.compare_digest(ended.message[:MAX_MESSAGE].encode(), expected.encode()):
            raise AuthenticationError(
                f"the server at {where} cannot prove that it knows user {self._user}: it may be an impostor. The "
                "password was not sent; check the URL and the CA file"
            )
        token = require_token(ended.access_token, f"the login at {where}")
        return token, min(max(ended.expires_in, 0), MOST_VALID_S)

    async def _salted_password(self, answer: ServerFirst) -> bytes:
        password = await asyncio.to_thread(self._password)
        source = (password, answer.salt, answer.iterations)
        if self._salted is None or self._salted[0] != source:
            loop = asyncio.get_running_loop()
            self._salted = source, loop.run_in_executor(None, salted_password, *source)
        try:
            return await asyncio.shield(self._salted[1])
        except InvalidRequestError:
            self._salted = None
            raise


async def _ask(cls: type[T], server: Server, request: LoginRequest, timeout_ms: int) -> T:
    """Send one request of a login.

    Raises:
        UnreachableError: no answer. The request that waits for the login was not sent, so its outcome is known.
    """
    try:
        body = await server.post(paths.LOGIN, encode_json(request), timeout_ms)
    except UnknownOutcomeError as error:
        raise UnreachableError(f"cannot log in: {error.message}") from error
    except NotFoundError:
        raise ConfigError(
            f"the server at {server.address.url} has no POST {paths.LOGIN}: it is not a broker's public listener, or a "
            'broker of an earlier version; upgrade the brokers first, or send the password itself (login = "basic")'
        ) from None
    return decode_json(cls, body, error=PeerAnswerError, ignore_unknown=True)
