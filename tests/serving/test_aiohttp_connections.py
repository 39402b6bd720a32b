"""What aiohttp does by itself for a connection is answered in our form, logged once in a while, and bounded."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import ClientSession, web
from aiohttp.typedefs import Handler

from raftlog.model import Address
from raftlog.serving.connections import AiohttpHandler, ConnectionLimits
from raftlog.serving.limits import RequestLimits
from raftlog.serving.listener import AiohttpListener
from raftlog.serving.loop_shares import LoopShares
from raftlog.serving.turnstile import Turnstile


@asynccontextmanager
async def serving(handler: Handler, limits: RequestLimits, **how: object) -> AsyncIterator[Address]:
    """Serve `GET /`."""
    app = web.Application()
    app.router.add_get("/", handler, **how)  # type: ignore[arg-type]
    connections = ConnectionLimits("test", total=10, per_address=10)
    turnstile = Turnstile(LoopShares())
    listener = AiohttpListener(app, limits=limits, connections=connections, turnstile=turnstile, drain_s=0.1)
    await listener.start(Address("127.0.0.1", 0))
    assert listener._listening is not None
    try:
        yield Address("127.0.0.1", listener._listening.sockets[0].getsockname()[1])
    finally:
        await listener.close()


async def hello(_: web.Request) -> web.StreamResponse:
    return web.Response(text="hello")


async def test_a_failure_outside_of_the_middlewares_has_our_form_and_one_line_in_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    async def fails(_: web.Request) -> None:
        raise ZeroDivisionError("aiohttp calls this before any middleware")

    monkeypatch.setattr(AiohttpHandler, "_logged_at", float("-inf"))
    caplog.set_level(logging.ERROR)
    async with serving(hello, RequestLimits(max_body_bytes=1_000), expect_handler=fails) as address:
        for _ in range(3):
            async with ClientSession() as http, http.get(f"http://{address}/", headers={"Expect": "x"}) as answer:
                assert (answer.status, answer.content_type) == (500, "application/json")
                assert (await answer.json())["error"]["request_id"] == answer.headers["X-Request-Id"]
    assert [line.message for line in caplog.records] == ["a request of 127.0.0.1 failed"]
