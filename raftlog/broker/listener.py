"""A port that takes raw batches on the lean path, and everything else through aiohttp, even on one connection."""

from __future__ import annotations

import asyncio

from aiohttp import web

from raftlog.broker.lean import LeanConnection, LeanLimits
from raftlog.broker.lean_routes import LeanRoutes
from raftlog.model import Address
from raftlog.runtime import Clock
from raftlog.transport import pacing

_BACKLOG = 512


class Listener:
    """One port.

    Args:
        app: serves all paths, those of the lean path too.
        drain_s: how long requests under way may take when the listener closes.
    """

    def __init__(
        self, app: web.Application, lean: LeanRoutes, *, limits: LeanLimits, clock: Clock, drain_s: float
    ) -> None:
        self._runner = web.AppRunner(
            app, access_log=None, shutdown_timeout=drain_s, handler_cancellation=True, auto_decompress=False
        )
        self._lean = lean
        self._limits = limits
        self._clock = clock
        self._drain_s = drain_s
        self._server: asyncio.Server | None = None
        self._connections: dict[LeanConnection, None] = {}

    async def start(self, address: Address) -> None:
        """Listen.

        Raises:
            OSError: the port cannot be had.
        """
        await self._runner.setup()
        self._server = await asyncio.get_running_loop().create_server(
            self._accept, address.host, address.port, reuse_address=True, backlog=_BACKLOG
        )
        pacing.stop_at(self._server)

    async def close(self) -> None:
        """Accept nothing more, let requests under way come to their end for a moment, close every connection."""
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.end_soon()
        if busy := [connection.busy for connection in self._connections if connection.busy is not None]:
            await asyncio.wait(busy, timeout=self._drain_s)
        for connection in list(self._connections):
            connection.abort()
        await self._runner.cleanup()

    def _accept(self) -> LeanConnection:
        connection = LeanConnection(
            routes=self._lean,
            limits=self._limits,
            clock=self._clock,
            hand_over=self._aiohttp,
            on_end=self._forget,
        )
        self._connections[connection] = None
        return connection

    def _aiohttp(self) -> asyncio.Protocol:
        assert self._runner.server is not None
        return self._runner.server()

    def _forget(self, connection: LeanConnection) -> None:
        self._connections.pop(connection, None)
