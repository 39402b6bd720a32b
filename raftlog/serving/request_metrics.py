"""Requests by route and status, and how long they took. One node has one, for all of its listeners."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

from aiohttp import web

from raftlog.metrics import Histogram, Page
from raftlog.serving.connections import ConnectionLimits
from raftlog.serving.limits import InflightLimits

if TYPE_CHECKING:
    from raftlog.serving.admission import Handler

UNKNOWN = "unknown"
"""The route of a request whose path is not registered: paths of clients must not become labels."""


class RequestMetrics:
    """Counts and times requests; `counts` is by route and status."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, int]] = Counter()
        self._seconds: dict[str, Histogram] = {}
        self._listeners: dict[str, tuple[ConnectionLimits, InflightLimits]] = {}

    def count(self, route: str, status: int) -> None:
        """Count an answered request."""
        self.counts[route, status] += 1

    def time(self, route: str, seconds: float) -> None:
        """Record how long an answered request took."""
        if (histogram := self._seconds.get(route)) is None:
            histogram = self._seconds[route] = Histogram()
        histogram.observe(seconds)

    def watch(self, listener: str, connections: ConnectionLimits, inflight: InflightLimits) -> None:
        """Show the connections and the requests in progress of a listener."""
        self._listeners[listener] = (connections, inflight)

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Count and time one request that aiohttp serves; the outermost middleware."""
        began = time.perf_counter()
        response = await handler(request)
        resource = request.match_info.route.resource
        route = resource.canonical if resource is not None else UNKNOWN
        self.count(route, response.status)
        self.time(route, time.perf_counter() - began)
        return response

    async def show(self, page: Page, _: bool) -> None:
        """Add the samples to a page."""
        for (route, status), count in list(self.counts.items()):
            page.add("raftlog_requests_total", count, route=route, status=status)
        for route, histogram in list(self._seconds.items()):
            page.add_histogram("raftlog_request_seconds", histogram, route=route)
        for name, (connections, inflight) in self._listeners.items():
            page.add("raftlog_requests_in_progress", inflight.requests, listener=name)
            page.add("raftlog_connections", connections.size, listener=name)
            page.add("raftlog_connections_refused_total", connections.refused, listener=name)
