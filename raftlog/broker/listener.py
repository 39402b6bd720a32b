"""A listening port: raw batches take the lean path, other requests aiohttp, also on the same connection.

A connection whose first byte begins a Kafka frame speaks Kafka's protocol (docs/adr/0035).
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from aiohttp import web

from raftlog.broker.kafka.connection import KafkaConnection
from raftlog.broker.kafka.server import KafkaServer
from raftlog.broker.lean.connection import LeanConnection
from raftlog.broker.lean.routes import LeanRoutes
from raftlog.model import Address
from raftlog.runtime import Clock
from raftlog.serving.listener import AiohttpServer, ListenerLimits, listen
from raftlog.serving.tls_listener import ListenerTls, TlsServer
from raftlog.transport import pacing


class Listener:
    """One port.

    Args:
        app: serves all paths, including those of the lean path.
        drain_s: how long requests in progress may take when the listener closes.
        kafka: serves connections that speak Kafka's protocol; None: they get an error of HTTP.
    """

    def __init__(
        self,
        app: web.Application,
        lean: LeanRoutes,
        *,
        limits: ListenerLimits,
        clock: Clock,
        drain_s: float,
        tls: ListenerTls | None = None,
        kafka: KafkaServer | None = None,
    ) -> None:
        self.connections = limits.connections
        self._aiohttp = AiohttpServer(
            app, limits=limits.requests, connections=self.connections, turnstile=lean.turnstile, drain_s=drain_s
        )
        self._lean = lean
        self._rates = limits.rates
        self._lean_limits = limits if tls is None else replace(limits, rates=None)
        """With TLS, the rates were applied before the handshake."""
        self._clock = clock
        self._drain_s = drain_s
        self._tls = tls
        self._kafka = kafka
        self._server: asyncio.Server | TlsServer | None = None
        self._connections: dict[LeanConnection | KafkaConnection, None] = {}
        self._closing = False

    async def start(self, address: Address) -> None:
        """Listen.

        Raises:
            OSError: the port cannot be bound.
        """
        await self._aiohttp.start()
        self._server = await listen(self._accept, address, self._tls, self._rates)
        pacing.disable_for_server(self._server)

    async def close(self) -> None:
        """Stop accepting, let requests in progress finish within `drain_s`, close every connection."""
        self._closing = True
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.end_soon()
        if busy := [connection.busy for connection in self._connections if connection.busy is not None]:
            await asyncio.wait(busy, timeout=self._drain_s)
        for connection in list(self._connections):
            connection.abort()
        await self._aiohttp.close()

    def _accept(self) -> LeanConnection:
        return LeanConnection(
            routes=self._lean,
            limits=self._lean_limits,
            clock=self._clock,
            hand_over=self._aiohttp.protocol,
            on_begin=self._remember,
            on_end=self._forget,
            kafka=None if self._kafka is None else self._accept_kafka,
        )

    def _accept_kafka(self, address: str) -> KafkaConnection:
        """Return the protocol of a connection that `connections` counts already."""
        assert self._kafka is not None
        return KafkaConnection(self._kafka, address, on_begin=self._remember, on_end=self._forget_kafka)

    def _forget_kafka(self, connection: KafkaConnection) -> None:
        self.connections.leave(connection.address)
        self._forget(connection)

    def _remember(self, connection: LeanConnection | KafkaConnection) -> None:
        self._connections[connection] = None
        if self._closing:  # It was accepted before, and begins in a later iteration of the loop.
            connection.abort()

    def _forget(self, connection: LeanConnection | KafkaConnection) -> None:
        self._connections.pop(connection, None)
