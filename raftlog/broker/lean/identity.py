"""The senders of a lean connection's requests. Most requests of a connection repeat the credentials of the last one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from raftlog.broker.lean.routes import LeanRequest, LeanRoutes
from raftlog.errors import RaftlogError
from raftlog.security.authenticators import Identified
from raftlog.security.guard import Guard
from raftlog.security.identity import Peer, Sender


class LeanIdentity:
    """Finds the sender of each request of one connection."""

    def __init__(self, guard: Guard, routes: LeanRoutes, transport: asyncio.BaseTransport) -> None:
        self._guard = guard
        self._routes = routes
        self._peer: Peer = guard.peer_of(transport)
        self._credentials: str | None = None
        self._found: Identified | RaftlogError | None = None
        """What the guard found for `_credentials`. An error is used once."""

    def find(self, credentials: str | None) -> Awaitable[None] | None:
        """Find the principal of credentials; return None if it is known, or what must be awaited before `admit`."""
        try:
            if self._found is not None and credentials == self._credentials and self._is_usable(self._found):
                return None
            self._credentials = credentials
            found = self._guard.identify(self._peer, credentials)
        except RaftlogError as error:
            self._found = error
            return None
        if isinstance(found, Identified):
            self._found = found
            return None
        return self._wait(found)

    def admit(self, request: LeanRequest) -> Sender:
        """Return the sender of a request, after `find`.

        Raises:
            AuthenticationError, AuthorizationError: it may not send the request.
            OverloadedError: too many passwords are being checked.
        """
        found = self._found
        if isinstance(found, RaftlogError):
            self._found = None
            found = self._guard.excused(self._peer, found)
        assert found is not None
        return self._routes.admit(request, found, self._peer)

    def _is_usable(self, found: Identified | RaftlogError) -> bool:
        return isinstance(found, RaftlogError) or self._guard.is_current(found)

    async def _wait(self, found: Awaitable[Identified]) -> None:
        try:
            self._found = await found
        except RaftlogError as error:
            self._found = error
