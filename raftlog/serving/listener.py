"""Listeners that aiohttp serves, with limits of connections."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web

from raftlog.errors import OverloadedError
from raftlog.model import Address
from raftlog.serving.connection_rates import ConnectionRates
from raftlog.serving.connections import AiohttpConnection, AiohttpHandler, ConnectionLimits, refusal_bytes
from raftlog.serving.limits import RequestLimits
from raftlog.serving.marked_requests import mark_requests
from raftlog.serving.tls_listener import ListenerTls, TlsServer
from raftlog.serving.turnstile import Turnstile

BACKLOG = 1_024
"""Connections that wait to be accepted."""
_AT_ONCE = 4
"""Connections accepted in one iteration of the loop: asyncio accepts up to its backlog argument."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenerLimits:
    """What a port takes: how large its requests are, how many connections it has, and how often they begin."""

    requests: RequestLimits
    connections: ConnectionLimits
    """Counts the connections, too."""
    rates: ConnectionRates | None = None
    """How often connections begin; None: without a limit, or it was applied before."""


async def listen(
    make: Callable[[], asyncio.BaseProtocol],
    address: Address,
    tls: ListenerTls | None = None,
    rates: ConnectionRates | None = None,
) -> asyncio.Server | TlsServer:
    """Accept connections at `address`, a few in each iteration of the loop.

    Args:
        tls: None: connections are plain.
        rates: limits how often handshakes begin; without TLS, the protocol limits its connections.

    Raises:
        OSError: the port cannot be bound.
    """
    if tls is not None:
        secure = TlsServer(make, tls, rates=rates)
        await secure.start(address)
        return secure
    loop = asyncio.get_running_loop()
    server = await loop.create_server(make, address.host, address.port, reuse_address=True, backlog=_AT_ONCE)
    for listening in server.sockets:
        with socket.socket(fileno=os.dup(listening.fileno())) as same:
            same.listen(BACKLOG)
    return server


class AiohttpServer:
    """Serves an application on connections that its caller accepts.

    Args:
        app: the application; a handler is cancelled when its client disconnects.
        drain_s: how long pending requests may take when the server closes.
    """

    def __init__(
        self,
        app: web.Application,
        *,
        limits: RequestLimits,
        connections: ConnectionLimits,
        turnstile: Turnstile,
        drain_s: float,
    ) -> None:
        mark_requests(app)
        self._runner = web.AppRunner(app, shutdown_timeout=drain_s, handler_cancellation=True)
        self._limits = limits
        self._connections = connections
        self._turnstile = turnstile

    async def start(self) -> None:
        await self._runner.setup()

    async def close(self) -> None:
        """Wait up to `drain_s` for pending requests, and close every connection."""
        await self._runner.cleanup()

    @property
    def is_serving(self) -> bool:
        return self._runner.server is not None

    def protocol(self, address: str) -> AiohttpConnection:
        """Return the protocol for a connection of `address` that is counted already."""
        assert self._runner.server is not None
        handler = AiohttpHandler(
            self._runner.server,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=self._limits.idle_s,
            access_log=None,  # type: ignore[arg-type]  # None, as AppRunner passes it
            auto_decompress=False,
            lingering_time=self._limits.linger_s,
        )
        return AiohttpConnection(handler, self._connections, self._turnstile, address, times=self._limits)


class AiohttpListener:
    """Accepts connections, and serves all of them with aiohttp."""

    def __init__(
        self,
        app: web.Application,
        *,
        limits: RequestLimits,
        connections: ConnectionLimits,
        turnstile: Turnstile,
        drain_s: float,
        tls: ListenerTls | None = None,
    ) -> None:
        self._tls = tls
        self._server = AiohttpServer(app, limits=limits, connections=connections, turnstile=turnstile, drain_s=drain_s)
        self._connections = connections
        self._listening: asyncio.Server | TlsServer | None = None

    async def start(self, address: Address) -> None:
        """Listen.

        Raises:
            OSError: the port cannot be bound.
        """
        await self._server.start()
        self._listening = await listen(lambda: _NewConnection(self._server, self._connections), address, self._tls)

    async def close(self) -> None:
        """Stop accepting, and close every connection."""
        if self._listening is not None:
            self._listening.close()
        await self._server.close()


class _NewConnection(asyncio.Protocol):
    """A newly accepted connection: refused, or passed to aiohttp."""

    def __init__(self, server: AiohttpServer, connections: ConnectionLimits) -> None:
        self._server = server
        self._connections = connections

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if not self._server.is_serving:  # It was accepted before the server closed.
            transport.abort()  # type: ignore[attr-defined]
            return
        address = str((transport.get_extra_info("peername") or ("unknown",))[0])
        try:
            self._connections.enter(address)
        except OverloadedError as error:
            transport.write(refusal_bytes(error))  # type: ignore[attr-defined]
            transport.close()
            return
        protocol = self._server.protocol(address)
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
