"""A relay in front of a broker. When it is cut it refuses connections, as a machine without the process does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from raftlog.cli.local_cluster import LocalCluster
from raftlog.model import Address


class Relay:
    """Passes bytes on, both ways, until it is cut."""

    def __init__(self, target: Address) -> None:
        self._target = target
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0

    async def mend(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in self._writers:
            writer.transport.abort()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        try:
            back, forth = await asyncio.open_connection(self._target.host, self._target.port)
            self._writers.add(forth)
            await asyncio.gather(_pass(reader, forth), _pass(back, writer))
        except (OSError, asyncio.CancelledError):
            writer.transport.abort()
        finally:
            self._tasks.discard(task)


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()


class Network:
    """A relay to every broker of a cluster."""

    def __init__(self, relays: dict[str, Relay]) -> None:
        self._relays = relays

    @property
    def dial(self) -> dict[str, str]:
        return {address: f"127.0.0.1:{relay.port}" for address, relay in self._relays.items()}

    async def cut(self) -> None:
        for relay in self._relays.values():
            await relay.cut()

    async def mend(self) -> None:
        for relay in self._relays.values():
            await relay.mend()


@asynccontextmanager
async def relayed(cluster: LocalCluster) -> AsyncIterator[Network]:
    """Put a relay in front of each broker."""
    async with AsyncExitStack() as stack:
        relays = {}
        for broker in (1, 2, 3):
            address = cluster.node(f"broker-{broker}").public
            assert address is not None
            relay = relays[str(address)] = Relay(address)
            await relay.mend()
            stack.push_async_callback(relay.cut)
        yield Network(relays)
