"""Raw HTTP to a broker, with nothing of our client in between."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson


@dataclass
class Reply:
    status: int
    headers: Any
    body: bytes

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)

    @property
    def code(self) -> str:
        return str(self.json["error"]["code"])

    @property
    def message(self) -> str:
        return str(self.json["error"]["message"])


class Http:
    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self.url = url

    async def __call__(self, method: str, path: str, *, follow: bool = True, **request: Any) -> Reply:
        url = path if path.startswith("http") else f"{self.url}{path}"
        async with self._session.request(method, url, allow_redirects=follow, **request) as response:
            return Reply(response.status, response.headers, await response.read())

    async def create(self, topic: str, **settings: Any) -> Any:
        """Create a topic. Another controller may be elected meanwhile: then ask again, or find that it was created."""
        asked = {"topic": topic, "partitions": 1, **settings}
        reply = await self("POST", "/v1/topics", json=asked)
        while reply.status != 201 and reply.json["error"]["retriable"]:
            reply = await self("POST", "/v1/topics", json=asked)
            if reply.status != 201 and reply.code == "TOPIC_ALREADY_EXISTS":
                return (await self("GET", f"/v1/topics/{topic}")).json
        assert reply.status == 201, reply.body
        return reply.json

    async def produce(self, topic: str, *values: Any, **more: Any) -> Reply:
        records = [{"value": value, **more} for value in values]
        return await self("POST", f"/v1/topics/{topic}/records", json={"records": records})

    async def end(self, topic: str, partition: int = 0) -> int:
        reply = await self("GET", f"/v1/topics/{topic}/partitions/{partition}/offsets?at=latest")
        return int(reply.json["offset"])


@asynccontextmanager
async def http_to(url: str) -> AsyncIterator[Http]:
    """Connect to a broker. At the end no connection is left, also none whose request was answered before it was sent.

    aiohttp closes such a connection once the rest of the request has left, which is after the end of the test.
    """
    sockets: list[socket.socket] = []

    def make(address: Any) -> socket.socket:
        sockets.append(socket.socket(address[0], address[1], address[2]))
        return sockets[-1]

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(socket_factory=make)) as session:
        yield Http(session, url)
    for unfinished in [each for each in sockets if each.fileno() != -1]:
        with suppress(OSError):
            unfinished.shutdown(socket.SHUT_RDWR)
    while any(each.fileno() != -1 for each in sockets):
        await asyncio.sleep(0.001)
