"""Ids of the requests that aiohttp serves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web

from raftlog.request_marks import RequestMarks
from raftlog.serving.connections import charged
from raftlog.wire import media

if TYPE_CHECKING:
    from raftlog.serving.admission import Handler

_MARKS = web.RequestKey("raftlog_marks", RequestMarks)


@web.middleware
async def marked(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Handle one request under its marks; the outermost middleware."""
    ids = request.headers.getall(media.REQUEST_ID, [])
    traces = request.headers.getall(media.TRACEPARENT, [])
    given = ids[0].strip() if len(ids) == 1 else ""  # Of several, none counts: proxies could choose different ones.
    marks = request[_MARKS] = RequestMarks(given, traces[0] if len(traces) == 1 else "")
    with marks.active():
        return await handler(request)


async def show_id(request: web.BaseRequest, response: web.StreamResponse) -> None:
    """Add the request's id to its response."""
    if isinstance(request, web.Request) and (marks := request.get(_MARKS)) is not None:
        response.headers[media.REQUEST_ID] = marks.id


def mark_requests(app: web.Application) -> None:
    """Give each request of an application an id, which its response shows; call it last."""
    if marked in app.middlewares:
        return  # It is served by several listeners.
    app.middlewares.insert(0, marked)
    app.middlewares.insert(0, charged)
    app.on_response_prepare.append(show_id)
