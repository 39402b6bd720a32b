"""Logins by password."""

from __future__ import annotations

from aiohttp import web

from raftlog.broker.context import BrokerContext
from raftlog.broker.http import check_query, json_response, read_body
from raftlog.errors import ConfigError, InvalidRequestError
from raftlog.security.guard import peer_of
from raftlog.wire import media, paths
from raftlog.wire.codec import decode_json
from raftlog.wire.logins import LoginRequest
from raftlog.wire.scram import MAX_MESSAGE

MAX_BODY_BYTES = 16 * MAX_MESSAGE


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
        body = await read_body(request, media.JSON)
        if self._context.logins is None:
            raise ConfigError(
                "logins need security.cluster_key_file on the nodes, and this node has none: set it, or send the "
                'password itself, as clients do with login = "basic"'
            )
        peer = peer_of(request.transport, self._context.config.cluster_id)
        answer = self._context.logins.answer(_decoded(body), peer)
        return json_response(answer, headers={"Cache-Control": "no-store"})


def _decoded(body: bytearray) -> LoginRequest:
    """Return the request in a body. Errors do not quote the body, as those of other requests do."""
    if len(body) <= MAX_BODY_BYTES:
        try:
            return decode_json(LoginRequest, body)
        except InvalidRequestError:
            pass
    raise InvalidRequestError(
        f'the body: expected {{"message": "..."}}, and "first" in the second request, at most {MAX_BODY_BYTES} bytes; '
        "it is not shown, since it may hold a password"
    )
