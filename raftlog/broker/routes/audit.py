"""The lines of this broker's audit log."""

from __future__ import annotations

from aiohttp import web

from raftlog.broker.context import BrokerContext
from raftlog.broker.http import check_query, parse_integer, query_choice, query_number
from raftlog.broker.openapi.parameters import (
    AUDIT,
    AUDIT_BEFORE,
    AUDIT_EVENT,
    AUDIT_LIMIT,
    AUDIT_OUTCOME,
    AUDIT_PRINCIPAL,
    AUDIT_RESOURCE,
    AUDIT_SINCE,
    AUDIT_UNTIL,
)
from raftlog.broker.routes.log_dirs import redirect_to_broker
from raftlog.security.audit_reader import AuditPage, AuditReader, Position
from raftlog.security.audit_search import LATEST_MS, AuditFilter
from raftlog.serving.workers import in_worker
from raftlog.wire import media, paths
from raftlog.wire.audit import AuditKept, AuditResponse
from raftlog.wire.codec import encode_json


class AuditRoutes:
    """The handler, and the reader of the file."""

    def __init__(self, context: BrokerContext) -> None:
        self._context = context
        security = context.config.security
        self._kept: AuditKept = "none" if not security.has_audit else "file" if security.audit_file else "log"
        self._reader = AuditReader(security.audit_file, security.audit_files) if self._kept == "file" else None

    def add_to(self, app: web.Application) -> None:
        """Register the path."""
        app.router.add_get(paths.AUDIT, self.audit)

    async def audit(self, request: web.Request) -> web.Response:
        """Return one page of this broker's lines, newest first; other brokers redirect to it."""
        check_query(request, *AUDIT)
        wanted, lines = _wanted(request), query_number(request, AUDIT_LIMIT)
        before = Position.of(request.query.get(AUDIT_BEFORE.name, ""))
        own = self._context.config.node_id
        if parse_integer(request.match_info["broker"]) != own:
            return redirect_to_broker(self._context, request, has="has its audit log")
        page = AuditPage()
        if self._reader is not None:
            page = await self._reader.page(wanted, before=before, lines=lines)
        answer = AuditResponse(
            broker_id=own,
            kept=self._kept,
            entries=tuple(page.entries),
            reached=page.reached,
            next="" if page.next is None else str(page.next),
        )
        body = await in_worker(encode_json, answer)
        return web.Response(body=body, content_type=media.JSON, headers={"Cache-Control": "no-store"})


def _wanted(request: web.Request) -> AuditFilter:
    return AuditFilter(
        principal=request.query.get(AUDIT_PRINCIPAL.name, ""),
        resource=request.query.get(AUDIT_RESOURCE.name, ""),
        outcome=query_choice(request, AUDIT_OUTCOME),
        event=query_choice(request, AUDIT_EVENT),
        since_ms=query_number(request, AUDIT_SINCE),
        until_ms=query_number(request, AUDIT_UNTIL, default=LATEST_MS),
    )
