"""The guard of one listener: finds the sender of each request, and refuses it before its body is read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from aiohttp import web

from raftlog.errors import AuthenticationError, AuthorizationError, InvalidRequestError, RaftlogError, RetriableError
from raftlog.security.access import Access, refusal
from raftlog.security.audited_changes import audited
from raftlog.security.authenticators import Authenticators, Identified
from raftlog.security.identity import (
    ON_BEHALF_OF,
    UNKNOWN_SENDER,
    Peer,
    Sender,
    certificate_principal,
    sender_of_forwarded,
)
from raftlog.security.principal import ANONYMOUS, is_node
from raftlog.security.routes import Route, RouteTable

if TYPE_CHECKING:
    from raftlog.serving.admission import Handler

SENDER = web.RequestKey("raftlog_sender", Sender)
OPEN = web.RequestKey("raftlog_open", bool)
"""Whether the guard let a request pass without identifying its sender, such as the first requests of a login."""


def sender_of(request: web.Request) -> Sender:
    """Return the sender that the guard found."""
    sender: Sender = request.get(SENDER, UNKNOWN_SENDER)
    return sender


def peer_of(transport: asyncio.BaseTransport | None, cluster_id: str) -> Peer:
    """Return the other end of a connection."""
    if transport is None:
        return Peer("")
    address = str((transport.get_extra_info("peername") or ("",))[0])
    if transport.get_extra_info("ssl_object") is None:
        return Peer(address)
    certificate = transport.get_extra_info("peercert")
    principal = certificate_principal(certificate, cluster_id) if certificate else None
    return Peer(address, True, principal)


class Guard:
    """Checks the requests of one listener.

    Args:
        table: what each route needs.
        listener: its name in the audit log.
    """

    def __init__(
        self,
        table: RouteTable,
        authenticators: Authenticators,
        access: Access,
        *,
        cluster_id: str,
        listener: str = "",
    ) -> None:
        self.table = table
        self._listener = listener
        self.access = access
        self._authenticators = authenticators
        self._cluster_id = cluster_id

    def peer_of(self, transport: asyncio.BaseTransport | None) -> Peer:
        """Return the other end of a connection."""
        return peer_of(transport, self._cluster_id)

    def identify(self, peer: Peer, authorization: str | None) -> Identified | Awaitable[Identified]:
        """Return the principal of a request at once if its credentials are known, else an awaitable.

        Raises:
            AuthenticationError: the credentials are not accepted. The awaitable raises it, too.
        """
        return self._authenticators.identify(peer, authorization)

    def is_current(self, known: Identified) -> bool:
        """Return whether a principal that was found earlier still counts."""
        return self._authenticators.is_current(known)

    def admit(self, route: Route, found: Identified, peer: Peer, on_behalf_of: str | None) -> Sender:
        """Return the sender of a request to a route.

        Raises:
            AuthenticationError, AuthorizationError: the sender may not send it.
        """
        sender = Sender(found.principal, peer.address, self._listener, route.name, found.expires_s)
        self.access.require_own_proof(sender, peer.certificate)
        if on_behalf_of is not None and (self.access.mode == "acl" or is_node(found.principal)):
            if not is_node(found.principal):
                raise AuthorizationError(f"{ON_BEHALF_OF}: only nodes of the cluster forward requests")
            sender = replace(sender_of_forwarded(on_behalf_of), listener=self._listener, route=route.name)
        if route.gate == "node":
            self.access.require_node(sender)
        elif sender.principal == ANONYMOUS and not self._may_be_admitted(route, sender):
            self.access.require_login(sender)
        return sender

    def _may_be_admitted(self, route: Route, sender: Sender) -> bool:
        """Return whether a rule may let a sender without credentials send a request; `check` and the handler decide."""
        if not route.any_of:
            return bool(route.rights)
        return any(
            right.replaceable or self.access.may_somewhere(sender, right.operation, right.resource)
            for right in route.any_of
        )

    def check(self, route: Route, sender: Sender, variables: Mapping[str, str]) -> None:
        """Check the rights whose names are in the path.

        Raises:
            AuthenticationError, AuthorizationError: a right is missing.
        """
        for right in route.listener_rights:
            name = right.name_in(variables)
            if not self.access.may(sender, right.operation, right.resource, name):
                raise refusal(sender, right.operation, right.resource, name)

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Handle a request if its sender may send it."""
        resource = request.match_info.route.resource
        route = None if resource is None else self.table.find(request.method, resource.canonical)
        if route is None or route.gate == "open":
            request[OPEN] = route is not None
            return await handler(request)  # Without a route, the answer is 404 or 405.
        peer = self.peer_of(request.transport)
        found = await self._found(request, peer)
        sender = request[SENDER] = self.admit(route, found, peer, request.headers.get(ON_BEHALF_OF))
        self.check(route, sender, request.match_info)
        if self.access.audit is None or is_node(sender.principal):
            return await handler(request)
        return await audited(self.access.audit, sender, request, handler, is_change=route.is_change)

    async def _found(self, request: web.Request, peer: Peer) -> Identified:
        given = request.headers.getall("Authorization", [])
        try:
            if len(given) > 1:
                raise AuthenticationError(f"Authorization: expected one, received {len(given)}")
            found = self.identify(peer, given[0] if given else None)
            return found if isinstance(found, Identified) else await found
        except RaftlogError as error:
            return self.excused(peer, error)

    def excused(self, peer: Peer, error: RaftlogError) -> Identified:
        """Return the sender's principal without its credentials, in `log-only`; otherwise raise `error`.

        Credentials that cannot be checked now are excused, too; a sender with too many requests is not.
        """
        may_excuse = isinstance(error, InvalidRequestError) or type(error) is RetriableError
        if not may_excuse or not self.access.excuses(error):
            raise error
        return Identified(peer.certificate) if peer.certificate is not None else ANONYMOUS_FOUND


ANONYMOUS_FOUND = Identified(UNKNOWN_SENDER.principal)


def require_entries(app: web.Application, table: RouteTable) -> None:
    """Raise if a route of an application has no entry in a listener's table.

    Raises:
        RuntimeError: it would be served without any check.
    """
    registered = [
        (route.method, route.resource.canonical) for route in app.router.routes() if route.resource is not None
    ]
    table.require_complete(registered)
