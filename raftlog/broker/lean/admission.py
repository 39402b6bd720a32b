"""Admits the requests of a lean connection: their senders, rights, quotas and limits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from raftlog.broker.lean.identity import LeanIdentity
from raftlog.broker.lean.quotas import LeanQuotas
from raftlog.broker.lean.routes import LeanRequest, LeanRoutes
from raftlog.request_marks import RequestMarks
from raftlog.security.identity import UNKNOWN_SENDER


class LeanAdmission:
    """The rights, quotas and limits of one connection's current request."""

    __slots__ = ("_address", "_entered", "_held_bytes", "_identity", "_routes", "marks", "quotas", "sender")

    def __init__(self, routes: LeanRoutes) -> None:
        self._routes = routes
        self._identity: LeanIdentity | None = None
        """Finds the senders of requests; None: every sender is served."""
        self.sender = UNKNOWN_SENDER
        """The sender of the current request."""
        self.marks = RequestMarks()
        """The id and the trace context of the current request."""
        self.quotas: LeanQuotas | None = None
        """The connection's use of its sender's quotas; None: no quota applies."""
        self._address = ""
        self._entered = False
        """Whether the current request counts against the limit of requests."""
        self._held_bytes = 0
        """How many bytes of its body count against the limit of body bytes."""

    def connected(self, transport: asyncio.BaseTransport, address: str) -> None:
        """Prepare for the requests of a peer."""
        self._address = address
        if self._routes.guard is not None:
            self._identity = LeanIdentity(self._routes.guard, self._routes, transport)
        if self._routes.quotas is not None:
            self.quotas = LeanQuotas(self._routes.quotas, address)

    def find(self, credentials: str | None) -> Awaitable[None] | None:
        """Find the sender of a head; return None if it is known, or what must be awaited before `hold_s`."""
        return None if self._identity is None else self._identity.find(credentials)

    def hold_s(self, request: LeanRequest) -> float:
        """Return for how long a request whose sender was found is held because of a quota; 0: it may begin.

        Raises:
            RaftlogError: it is refused.
        """
        if self._identity is not None:
            self.sender = self._identity.admit(request)
        if self.quotas is None:
            return 0.0
        self.quotas.begin(request, self.sender)
        return self.quotas.wait_s()

    def received(self) -> None:
        """Note that the head has left the buffer."""
        if self.quotas is not None:
            self.quotas.received()

    def count_bytes(self, size: int) -> None:
        """Count received bytes of a body against the limit, until `end`.

        Raises:
            OverloadedError: too many body bytes are in memory.
        """
        self._routes.inflight.hold(size, self._address)
        self._held_bytes += size

    def enter(self, address: str) -> None:
        """Count the request as in progress, until `end`.

        Raises:
            OverloadedError: too many requests are in progress.
        """
        self._routes.enter(address)
        self._entered = True

    def end(self) -> None:
        """Stop counting the current request."""
        if self._held_bytes:
            self._routes.inflight.release(self._held_bytes, self._address)
            self._held_bytes = 0
        if self._entered:
            self._routes.leave()
            self._entered = False
