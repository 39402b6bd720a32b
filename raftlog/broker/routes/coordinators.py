"""Lookup of the coordinator of a group or a transactional id."""

from __future__ import annotations

from aiohttp import web

from raftlog.broker.context import BrokerContext
from raftlog.broker.http import caller_timeout_ms, check_query, json_response
from raftlog.broker.internal_topics import TOPIC_OF
from raftlog.broker.routes.metadata_access import ADMIN_TIMEOUT_MS
from raftlog.errors import ErrorCode, NotFoundError
from raftlog.model import AclResource
from raftlog.security.guard import sender_of
from raftlog.wire import paths
from raftlog.wire.coordinators import CoordinatorKind


class CoordinatorRoutes:
    """Handlers that any broker can answer."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context

    def add_to(self, app: web.Application) -> None:
        """Register every path."""
        app.router.add_get(paths.COORDINATOR, self.coordinator)

    async def coordinator(self, request: web.Request) -> web.Response:
        """Return the coordinator; the first request creates its internal topic."""
        check_query(request)
        kind: CoordinatorKind | None = next((kind for kind in TOPIC_OF if kind == request.match_info["kind"]), None)
        if kind is None:
            raise NotFoundError(
                f"expected one of {', '.join(TOPIC_OF)}, received {request.match_info['kind']!r:.80}",
                code=ErrorCode.NOT_FOUND,
            )
        resource: AclResource = "group" if kind == "group" else "transactional_id"
        self._context.access.require(sender_of(request), "describe", resource, request.match_info["key"])
        timeout_ms = caller_timeout_ms(request, ADMIN_TIMEOUT_MS)
        return json_response(
            await self._context.internal_topics.coordinator(kind, request.match_info["key"], timeout_ms=timeout_ms)
        )
