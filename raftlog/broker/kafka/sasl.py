"""The SASL exchanges of one connection: the principals are those of HTTP, found by the same chain.

- PLAIN is HTTP's password, OAUTHBEARER its bearer token, SCRAM its login. So checks, limits and the audit log
  are the same. Only one exchange of a connection runs at a time.
- A password counts until its user changes, as with HTTP. A token is looked at again while the connection is used, and
  the response says when it expires (KIP-368). A client may authenticate again, as the same principal.
- A mechanism that would send a secret where others can read it is refused before the client sends it.
- Without an authorizer, nothing is checked, as with HTTP.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from raftlog.config import SecurityConfig
from raftlog.errors import AuthenticationError, InvalidRequestError, RaftlogError
from raftlog.security.authenticators import FOREVER, Identified
from raftlog.security.guard import Guard
from raftlog.security.identity import Peer
from raftlog.security.logins import Logins
from raftlog.wire.logins import LoginAnswer, LoginRequest
from raftlog.wire.sasl import OAUTHBEARER, PLAIN, SaslError, basic_of_plain, bearer_of, text_of
from raftlog.wire.scram import SHA_256, SHA_512

_Finding: TypeAlias = Identified | Awaitable[Identified]


class SaslStateError(InvalidRequestError):
    """A message that does not belong at this point of an exchange."""


@dataclass(frozen=True, slots=True)
class SaslStep:
    """The answer to one message."""

    message: bytes = b""
    is_done: bool = False
    identified: Identified | None = None
    """The principal, when the exchange is done; None: nothing is checked here."""
    expires_s: float = FOREVER
    """When the credentials expire, in seconds since 1970."""


@dataclass(slots=True)
class SaslServer:
    """What the exchanges of one broker share.

    Args:
        guard: finds principals; None: there is no authorizer.
        logins: the logins by SCRAM; None: the node has no cluster key.
    """

    guard: Guard | None
    logins: Logins | None
    settings: SecurityConfig

    def mechanisms(self, peer: Peer) -> tuple[str, ...]:
        """Return the mechanisms that are accepted on a connection, the strongest first."""
        scram = (SHA_512, SHA_256) if self.logins is not None else ()
        tokens = self.settings.tokens
        shows_token = peer.is_private or (tokens is not None and tokens.allow_plain)
        bearer = (OAUTHBEARER,) if self.guard is None or (tokens is not None and shows_token) else ()
        shows_password = self.guard is None or peer.is_private or self.settings.allow_plain_passwords
        return (*scram, *bearer, *((PLAIN,) if shows_password else ()))

    def require(self, mechanism: str, peer: Peer) -> None:
        """Raise if a mechanism is not accepted on a connection.

        Raises:
            AuthenticationError: the message says what to do; the audit log shows it.
        """
        accepted = self.mechanisms(peer)
        if mechanism in accepted:
            return
        if mechanism in (PLAIN, OAUTHBEARER) and not peer.is_private:
            why = f"{mechanism} sends a secret, which others could read here: use TLS (security.protocol=SASL_SSL)"
        else:
            why = f"mechanism: expected one of {', '.join(accepted) or 'none'}, received {mechanism!r:.40}"
        audit = None if self.guard is None else self.guard.access.audit
        if audit is not None:
            audit.login_failed(peer.address, "other", why)
        raise AuthenticationError(why)


class SaslState:
    """The exchanges of one connection."""

    def __init__(self, server: SaslServer, peer: Peer) -> None:
        self._server = server
        self._peer = peer
        self._mechanism = ""
        """The mechanism of the exchange in progress; empty: there is none."""
        self._first = ""
        """The client's first message of SCRAM; empty: it has not come."""
        self._principal: str | None = None
        self._token = ""
        """The token in use, which is looked at again; empty: there is none."""
        self.is_done = False
        """Whether an exchange of the connection has succeeded."""

    def begin(self, mechanism: str) -> None:
        """Begin an exchange.

        Raises:
            SaslStateError: another one is in progress.
            AuthenticationError: the mechanism is not accepted.
        """
        if self._mechanism:
            raise SaslStateError("an exchange is in progress: send its next message")
        self._server.require(mechanism, self._peer)
        self._mechanism, self._first = mechanism, ""

    async def answer(self, message: bytes) -> SaslStep:
        """Answer a client's message.

        Raises:
            SaslStateError: no exchange is in progress.
            AuthenticationError: the credentials are wrong, malformed, or of another principal than before.
            RetriableError: they cannot be checked now.
        """
        if not self._mechanism:
            raise SaslStateError("expected SaslHandshake first")
        try:
            step = await _STEPS[self._mechanism](self, message)
        except SaslError as error:
            raise AuthenticationError(f"{self._mechanism}: {error}") from None
        if step.is_done:
            self._finish(step)
        return step

    async def again(self) -> Identified:
        """Look at the token in use again.

        Raises:
            AuthenticationError: there is none, or it does not count any more.
            RetriableError: it cannot be checked now.
        """
        guard = self._server.guard
        if not self._token or guard is None:
            raise AuthenticationError("the connection's credentials no longer count: connect again")
        return await _found(guard.identify(self._peer, f"Bearer {self._token}"))

    def _finish(self, step: SaslStep) -> None:
        name = None if step.identified is None else step.identified.principal.name
        if self.is_done and name != self._principal:
            raise AuthenticationError(f"the connection is {self._principal}'s: use another one for {name}")
        self._mechanism, self._principal, self.is_done = "", name, True

    async def _plain(self, message: bytes) -> SaslStep:
        authorization = basic_of_plain(message)
        self._token = ""
        return SaslStep(is_done=True, identified=await self._identify(authorization))

    async def _bearer(self, message: bytes) -> SaslStep:
        given = bearer_of(message)
        found = await self._identify(f"Bearer {given.token}")
        if found is None:
            return SaslStep(is_done=True)
        if given.name and found.principal.name != f"User:{given.name}":
            raise AuthenticationError("the authorization id is not the token's user: leave it out")
        self._token = given.token if math.isfinite(found.expires_s) else ""
        return SaslStep(is_done=True, identified=found, expires_s=found.expires_s)

    async def _scram(self, message: bytes) -> SaslStep:
        assert self._server.logins is not None
        text = text_of(message)
        request = LoginRequest(message=text, first=self._first, mechanism=self._mechanism)
        try:
            answer = self._server.logins.answer(request, self._peer)
        except InvalidRequestError as error:
            raise error if isinstance(error, AuthenticationError) else AuthenticationError(error.message) from None
        if not isinstance(answer, LoginAnswer):
            self._first = text
            return SaslStep(answer.message.encode())
        self._token = ""
        found = None
        if self._server.guard is not None:
            session = await _found(self._server.guard.identify(self._peer, f"Bearer {answer.access_token}"))
            # The connection itself shows who the client is. Its user's credential is looked at with each request.
            found = replace(session, until_ms=FOREVER, expires_s=FOREVER)
        return SaslStep(answer.message.encode(), is_done=True, identified=found)

    async def _identify(self, authorization: str) -> Identified | None:
        guard = self._server.guard
        if guard is None:
            return None
        try:
            return await _found(guard.identify(self._peer, authorization))
        except RaftlogError as error:
            return guard.excused(self._peer, error)


async def _found(finding: _Finding) -> Identified:
    return finding if isinstance(finding, Identified) else await finding


_STEPS: Final[dict[str, Callable[[SaslState, bytes], Awaitable[SaslStep]]]] = {
    PLAIN: SaslState._plain,  # noqa: SLF001  (its own table)
    OAUTHBEARER: SaslState._bearer,  # noqa: SLF001
    SHA_256: SaslState._scram,  # noqa: SLF001
    SHA_512: SaslState._scram,  # noqa: SLF001
}
