"""Requests of both paths are counted and timed: raftlog_requests_total, raftlog_connections_refused_total."""

from __future__ import annotations

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from prometheus_client.parser import text_string_to_metric_families

from raftlog.errors import OverloadedError
from raftlog.metrics import TABLE, Page
from raftlog.serving.connections import ConnectionLimits
from raftlog.serving.limits import InflightLimits
from raftlog.serving.request_metrics import RequestMetrics


async def shown(metrics: RequestMetrics) -> dict[tuple[str, ...], float]:
    page = Page(TABLE)
    await metrics.show(page, False)
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(page.text())
        for sample in family.samples
        if not sample.name.endswith("_bucket")
    }


async def test_paths_of_clients_do_not_become_labels():
    metrics = RequestMetrics()

    async def topic(_: web.Request) -> web.Response:
        return web.Response()

    @web.middleware
    async def errors(request: web.Request, handler) -> web.StreamResponse:  # type: ignore[no-untyped-def]
        try:
            return await handler(request)  # type: ignore[no-any-return]
        except web.HTTPException as error:
            return web.Response(status=error.status)

    app = web.Application(middlewares=[metrics.middleware, errors])
    app.router.add_get("/v1/topics/{topic}", topic)
    server = TestServer(app, host="127.0.0.1")
    await server.start_server()
    async with aiohttp.ClientSession() as http:
        for path in (*(f"/v1/topics/t{number}" for number in range(20)), *(f"/scan/{number}" for number in range(20))):
            async with http.get(server.make_url(path)):
                pass
    await server.close()
    found = await shown(metrics)

    assert found["raftlog_requests_total", "/v1/topics/{topic}", "200"] == 20
    assert found["raftlog_requests_total", "unknown", "404"] == 20
    assert found["raftlog_request_seconds_count", "/v1/topics/{topic}"] == 20
    assert len(found) == 6


async def test_connections_and_refusals_are_shown_by_listener():
    metrics, limits = RequestMetrics(), ConnectionLimits("public", total=1, per_address=1)
    inflight = InflightLimits(max_requests=5, max_bytes=5)
    metrics.watch("public", limits, inflight)
    limits.enter("10.0.0.1")
    inflight.enter()
    with pytest.raises(OverloadedError):
        limits.enter("10.0.0.2")
    found = await shown(metrics)

    assert found["raftlog_connections", "public"] == 1
    assert found["raftlog_connections_refused_total", "public"] == 1
    assert found["raftlog_requests_in_progress", "public"] == 1
