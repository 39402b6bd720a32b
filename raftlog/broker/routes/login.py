"""Logins by password."""

from __future__ import annotations

from aiohttp import web

from raftlog.broker.context import BrokerContext
from raftlog.broker.http import check_query, json_response, read_json
from raftlog.errors import ConfigError
from raftlog.security.guard import peer_of
from raftlog.wire import paths
from raftlog.wire.logins import LoginRequest


class LoginRoutes:
    """The handler of both requests of a login."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context

    def add_to(self, app: web.Application) -> None:
        """Register the path."""
        app.router.add_post(paths.LOGIN, self.login)

    async def login(self, request: web.Request) -> web.Response:
        """Answer a message of a login; the last answer has a session token."""
        check_query(request)
        command = await read_json(request, LoginRequest)
        if self._context.logins is None:
            raise ConfigError(
                "logins need security.cluster_key_file on the nodes, and this node has none: set it, or send the "
                'password itself, as clients do with login = "basic"'
            )
        peer = peer_of(request.transport, self._context.config.cluster_id)
        answer = self._context.logins.answer(command, peer)
        return json_response(answer, headers={"Cache-Control": "no-store"})
