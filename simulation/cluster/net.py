"""TCP between simulated machines: ordered bytes that take their time, and what goes wrong with them.

Nothing is ever lost *inside* a connection, as with TCP: a link that is cut holds its bytes, and delivers them when it
is mended; peers notice only by their own timeouts, or when the connection is reset. A process that dies has its
connections closed by its machine; a machine that loses its power says nothing to anybody.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass
from typing import Any

from simulation.cluster.loop import CURRENT, Process, SimulatedLoop

Endpoint = tuple[str, int]
Link = tuple[str, str]
"""From a host to another."""
WINDOW_BYTES = 256 << 10
"""What a sender may have under way before it is asked to pause."""


class FakeSocket:
    """What aiohttp passes from its dialling to `create_connection`."""

    def __init__(self, address: Endpoint) -> None:
        self.address = address


class Pipe:
    """One direction of a connection."""

    def __init__(self, net: Network, link: Link, target: Transport) -> None:
        self.link = link
        self.target = target
        self.queue: deque[bytes | Exception | None] = deque()
        """Bytes; None for the end of the stream; an error for a reset."""
        self.queued_bytes = 0
        self._net = net
        self._arrives_at = 0.0
        self._due = False

    def put(self, item: bytes | Exception | None) -> None:
        self.queue.append(item)
        if isinstance(item, bytes):
            self.queued_bytes += len(item)
        self.flow()

    def flow(self) -> None:
        """Have the next item arrive in its time, unless the link is held or the reader pauses."""
        if self._due or not self.queue or self._net.is_held(self.link) or self.target.reading_paused:
            return
        self._due = True
        loop = self._net.loop
        self._arrives_at = max(self._arrives_at, loop.time() + self._net.delay(self.link))
        loop.call_at(self._arrives_at, self._arrive, context=self._net.nobody)

    def _arrive(self) -> None:
        """Reach the other machine, whose process takes it when it runs."""
        self._due = False
        if not self.queue or self._net.is_held(self.link) or self.target.reading_paused:
            return
        item = self.queue.popleft()
        if isinstance(item, bytes):
            self.queued_bytes -= len(item)
            self._net.note(self.link, item)
            if self.target.peer is not None:
                self.target.peer.may_write()
        if self.target.process.alive:
            self._net.loop.call_soon(self.target.take, item, context=self.target.process.context)
        elif not isinstance(item, Exception):
            self.target.reset_peer()  # The machine knows no such connection.
        self.flow()


class Transport(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, net: Network, process: Process, local: Endpoint, remote: Endpoint) -> None:
        super().__init__({"sockname": local, "peername": remote, "socket": None, "sslcontext": None})
        self.process = process
        self.peer: Transport | None = None
        self.out: Pipe | None = None
        self.into: Pipe | None = None
        self.protocol: Any = None
        self.reading_paused = False
        self._net = net
        self._closing = False
        self._lost = False
        self._writing_paused = False
        self._high = 64 << 10

    def open(self, protocol: Any) -> None:
        self.protocol = protocol
        protocol.connection_made(self)

    # What asyncio's transports do.

    def write(self, data: Any) -> None:
        if self._closing or self._lost or self.out is None or not data:
            return
        self.out.put(bytes(data))
        if not self._writing_paused and self.out.queued_bytes > self._high:
            self._writing_paused = True
            self.protocol.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def may_write(self) -> None:
        if self._writing_paused and self.out is not None and self.out.queued_bytes <= self._high // 4:
            self._writing_paused = False
            self._net.loop.call_soon(self.protocol.resume_writing, context=self.process.context)

    def write_eof(self) -> None:
        if self.out is not None:
            self.out.put(None)

    def can_write_eof(self) -> bool:
        return True

    def get_write_buffer_size(self) -> int:
        return self.out.queued_bytes if self.out is not None else 0

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._high // 4, self._high

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = 64 << 10 if high is None else high

    def is_closing(self) -> bool:
        return self._closing

    def is_reading(self) -> bool:
        return not self.reading_paused

    def pause_reading(self) -> None:
        self.reading_paused = True

    def resume_reading(self) -> None:
        self.reading_paused = False
        if self.into is not None:
            self.into.flow()

    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol

    def get_protocol(self) -> Any:
        return self.protocol

    def close(self) -> None:
        """Close after what was written has gone."""
        if not self._closing:
            self._closing = True
            self._end(None)
            if self.out is not None:
                self.out.put(None)

    def abort(self) -> None:
        """Close at once; the other side sees a reset."""
        self._closing = True
        self._end(None)
        self.reset_peer()

    # What the network does.

    def reset_peer(self) -> None:
        if self.out is not None:
            self.out.queue.clear()
            self.out.queued_bytes = 0
            self.out.put(ConnectionResetError("connection reset by peer"))

    def take(self, item: bytes | Exception | None) -> None:
        if self._lost or not self.process.alive:
            return
        if isinstance(item, Exception):
            self._closing = True
            self._end(item)
        elif item is None:
            if self._closing:
                return
            if not self.protocol.eof_received():
                self.close()
        elif not self._closing:
            if isinstance(self.protocol, asyncio.BufferedProtocol):
                raise NotImplementedError("buffered protocols")
            self.protocol.data_received(item)

    def _end(self, error: Exception | None) -> None:
        if not self._lost:
            self._lost = True
            self._net.transports.discard_one(self)
            if self.protocol is not None and self.process.alive:
                self._net.loop.call_soon(self.protocol.connection_lost, error, context=self.process.context)


class Transports:
    """Every open end, in the order of their making."""

    def __init__(self) -> None:
        self._open: dict[Transport, None] = {}

    def add(self, transport: Transport) -> None:
        self._open[transport] = None

    def discard_one(self, transport: Transport) -> None:
        self._open.pop(transport, None)

    def of(self, process: Process) -> list[Transport]:
        return [transport for transport in self._open if transport.process is process]

    def across(self, link: Link) -> list[Transport]:
        """Ends at the first host of connections to the second."""
        return [t for t in self._open if t.out is not None and t.out.link == link]


class Server:
    """A listening port, as `asyncio.Server` looks to its users."""

    def __init__(self, net: Network, endpoint: Endpoint, process: Process, factory: Callable[[], Any]) -> None:
        self.endpoint, self.process, self.factory = endpoint, process, factory
        self.sockets = ()
        self._net = net

    def close(self) -> None:
        self._net.servers.pop(self.endpoint, None)

    async def wait_closed(self) -> None:
        """Connections end by themselves."""

    def is_serving(self) -> bool:
        return self.endpoint in self._net.servers

    async def start_serving(self) -> None:
        """It does."""

    def get_loop(self) -> SimulatedLoop:
        return self._net.loop


@dataclass
class Weather:
    """How long bytes take, in seconds."""

    shortest_s: float = 0.00005
    longest_s: float = 0.0005


class Network:
    """All machines' ports and connections."""

    def __init__(self, loop: SimulatedLoop, *, note: Callable[[Link, bytes], None] = lambda link, data: None) -> None:
        self.loop = loop
        self.note = note
        self.servers: dict[Endpoint, Server] = {}
        self.transports = Transports()
        self.held: set[Link] = set()
        self.dark: set[str] = set()
        """Hosts without power."""
        self.slow: dict[Link, float] = {}
        """More seconds for each piece of bytes."""
        self.weather = Weather()
        self.nobody = Context()
        """For what machines do, whose processes may be paused."""
        self._next_port = 40_000

    # What the loop is asked by those who listen and dial.

    async def listen(self, factory: Callable[[], Any], host: str, port: int) -> Server:
        process = CURRENT.get()
        assert process is not None
        endpoint = (host, port)
        if endpoint in self.servers:
            raise OSError(98, f"address {endpoint} in use")
        server = self.servers[endpoint] = Server(self, endpoint, process, factory)
        return server

    async def dial(self, factory: Callable[[], Any], remote: Endpoint) -> tuple[Transport, Any]:
        process = CURRENT.get()
        assert process is not None
        there, back = (process.host, remote[0]), (remote[0], process.host)
        while True:
            await asyncio.sleep(self.delay(there) + self.delay(back))
            if not self.is_held(there) and not self.is_held(back):
                break
            await asyncio.sleep(0.05)  # The handshake is sent again until the caller gives up.
        server = self.servers.get(remote)
        if server is None or not server.process.alive:
            raise ConnectionRefusedError(111, f"{remote} refused the connection")
        self._next_port += 1
        local = (process.host, self._next_port)
        mine = Transport(self, process, local, remote)
        theirs = Transport(self, server.process, remote, local)
        mine.peer, theirs.peer = theirs, mine
        mine.out = theirs.into = Pipe(self, there, theirs)
        theirs.out = mine.into = Pipe(self, back, mine)
        self.transports.add(mine)
        self.transports.add(theirs)
        protocol = factory()
        self.loop.call_soon(lambda: theirs.open(server.factory()), context=server.process.context)
        mine.open(protocol)
        return mine, protocol

    def forget(self) -> None:
        """Let go of every connection."""
        self.servers.clear()
        self.transports = Transports()

    # Faults.

    def is_held(self, link: Link) -> bool:
        return link in self.held or link[0] in self.dark or link[1] in self.dark

    def delay(self, link: Link) -> float:
        return self.loop.dice.uniform(self.weather.shortest_s, self.weather.longest_s) + self.slow.get(link, 0.0)

    def hold(self, links: set[Link]) -> None:
        """Bytes stay where they are."""
        self.held |= links

    def release(self, links: set[Link]) -> None:
        """Bytes flow again, those that were held first."""
        self.held -= links
        for link in sorted(links):
            for transport in self.transports.across(link):
                if transport.out is not None:
                    transport.out.flow()

    def reset(self, link: Link) -> None:
        """Reset every connection between two hosts."""
        for direction in (link, link[::-1]):
            for transport in self.transports.across(direction):
                transport._closing = True
                transport._end(ConnectionResetError("reset by the network"))

    def process_died(self, process: Process) -> None:
        """Its machine closes its ports and resets its connections."""
        self._close_ports(process)
        for transport in self.transports.of(process):
            self.transports.discard_one(transport)
            transport.reset_peer()

    def power_lost(self, process: Process) -> None:
        """Nobody is told anything."""
        self._close_ports(process)
        for transport in self.transports.of(process):
            self.transports.discard_one(transport)

    def _close_ports(self, process: Process) -> None:
        for endpoint, server in list(self.servers.items()):
            if server.process is process:
                del self.servers[endpoint]
