"""A proxy in front of a broker that holds requests, and loses answers: it closes the connection instead."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import web
from aiohttp.test_utils import TestServer

from raftlog.model import Address


class UnreliableProxy:
    """Loses the answers of the next `lose` requests whose path ends with `path`; counts all of those."""

    def __init__(self, target: Address, path: str) -> None:
        self.target = target
        self.path = path
        self.lose = 0
        self.corrupt = 0
        self.seen = 0
        self.hold = ""
        """Requests with this in their path or query wait until `release` is set."""
        self.then_hold = ""
        """The value of `hold` once an answer was lost."""
        self.release = asyncio.Event()
        self.holding = asyncio.Event()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        if self.hold and self.hold in str(request.rel_url):
            self.holding.set()
            await self.release.wait()
        headers = {name: request.headers[name] for name in ("Content-Type", "Accept") if name in request.headers}
        url = f"http://{self.target}{request.rel_url}"
        try:
            async with (
                aiohttp.ClientSession() as session,
                session.request(request.method, url, data=body, headers=headers, allow_redirects=False) as answer,
            ):
                content = await answer.read()
                status, content_type = answer.status, answer.headers["Content-Type"]
        except aiohttp.ClientConnectionError:  # The target has exited: so this connection is closed.
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        if request.path.endswith(self.path):
            self.seen += 1
            if self.lose > 0:
                self.lose -= 1
                self.hold = self.then_hold or self.hold
                assert request.transport is not None
                request.transport.abort()
            elif self.corrupt > 0 and len(content) > 700:
                self.corrupt -= 1
                content = content[:-3] + bytes([content[-3] ^ 1]) + content[-2:]
        return web.Response(status=status, body=content, headers={"Content-Type": content_type})


@asynccontextmanager
async def unreliable(target: Address, path: str) -> AsyncIterator[tuple[UnreliableProxy, dict[str, str]]]:
    """Return a proxy, and the dial map with it."""
    proxy = UnreliableProxy(target, path)
    app = web.Application(client_max_size=64 << 20)
    app.router.add_route("*", "/{path:.*}", proxy.handle)
    async with TestServer(app, host="127.0.0.1") as server:
        yield proxy, {str(target): f"127.0.0.1:{server.port}"}
