"""An address is charged for all that its requests compute on aiohttp's path, whatever becomes of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import ClientSession, web

from raftlog.model import Address
from raftlog.serving.admission import Admission
from raftlog.serving.connections import ConnectionLimits
from raftlog.serving.limits import InflightLimits, RequestLimits
from raftlog.serving.listener import AiohttpListener
from raftlog.serving.loop_shares import LoopShares
from raftlog.serving.turnstile import Turnstile

OWN_WORK_S = 0.0001
"""The least that aiohttp computes for a request itself."""


class Charges(LoopShares):
    """Adds up what was charged."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0

    def charge(self, address: str, seconds: float) -> None:
        assert address == "127.0.0.1"
        self.seconds += seconds
        super().charge(address, seconds)


class Handlers:
    def __init__(self) -> None:
        self.waiting, self.ended = asyncio.Event(), asyncio.Event()

    async def quick(self, _: web.Request) -> web.Response:
        return web.Response(text="hello")

    async def busy(self, _: web.Request) -> web.Response:
        compute(0.02)
        return web.Response(text="hello")

    async def endless(self, _: web.Request) -> web.Response:
        compute(0.02)
        self.waiting.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()
        raise AssertionError("the event is never set")

    async def fails(self, _: web.Request) -> web.Response:
        compute(0.02)
        raise web.HTTPBadRequest(text="no")


def compute(seconds: float) -> None:
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[Address, Charges, Handlers]]:
    shares, handlers = Charges(), Handlers()
    turnstile, limits = Turnstile(shares), RequestLimits(max_body_bytes=1_000)
    inflight = InflightLimits(max_requests=10, max_bytes=1_000)
    app = web.Application(middlewares=[Admission(inflight, limits, turnstile).middleware])
    for handler in (handlers.quick, handlers.busy, handlers.endless, handlers.fails):
        app.router.add_get(f"/{handler.__name__}", handler)
    connections = ConnectionLimits("test", total=10, per_address=10)
    listener = AiohttpListener(app, limits=limits, connections=connections, turnstile=turnstile, drain_s=0.1)
    await listener.start(Address("127.0.0.1", 0))
    assert listener._listening is not None
    try:
        yield Address("127.0.0.1", listener._listening.sockets[0].getsockname()[1]), shares, handlers
    finally:
        await listener.close()


async def test_what_aiohttp_does_itself_counts():
    async with serving() as (address, shares, _), ClientSession() as http:
        for _ in range(20):
            async with http.get(f"http://{address}/quick") as answer:
                assert answer.status == 200
        assert shares.seconds >= 20 * OWN_WORK_S


@pytest.mark.parametrize(("path", "status"), [("/busy", 200), ("/fails", 400)])
async def test_what_a_handler_computes_counts_once(path: str, status: int):
    async with serving() as (address, shares, _), ClientSession() as http:
        began = time.perf_counter()
        async with http.get(f"http://{address}{path}") as answer:
            assert answer.status == status
            await answer.read()
        assert 0.02 + OWN_WORK_S <= shares.seconds <= time.perf_counter() - began + OWN_WORK_S


async def test_a_request_whose_client_disconnects_counts():
    async with serving() as (address, shares, handlers):
        _, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(10):
            await handlers.waiting.wait()
            writer.transport.abort()
            await handlers.ended.wait()
            while shares.seconds < 0.02:
                await asyncio.sleep(0.001)


async def test_what_is_no_http_counts():
    async with serving() as (address, shares, _):
        reader, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(b"garbage\r\n\r\n")
        async with asyncio.timeout(10):
            assert b" 400 " in await reader.readline()
            while shares.seconds < OWN_WORK_S:
                await asyncio.sleep(0.001)
        writer.transport.abort()
