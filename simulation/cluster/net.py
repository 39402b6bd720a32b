"""TCP between simulated machines: ordered bytes with a delay, and their faults.

As with TCP, no byte is ever lost *inside* a connection. A link that is cut holds its bytes, and delivers them when it
is restored; peers notice only by their own timeouts, or when the connection is reset. The machine of a killed process
closes its connections; a machine that loses its power sends nothing.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass
from typing import Any

from simulation.cluster.connection import Endpoint, Link, Pipe, Transport, Transports
from simulation.cluster.loop import CURRENT, Process, SimulatedLoop

__all__ = ["Endpoint", "Link", "Network", "Weather"]


class Server:
    """A listening port, with the interface of `asyncio.Server`."""

    def __init__(self, net: Network, endpoint: Endpoint, process: Process, factory: Callable[[], Any]) -> None:
        self.endpoint, self.process, self.factory = endpoint, process, factory
        self.sockets = ()
        self._net = net

    def close(self) -> None:
        self._net.servers.pop(self.endpoint, None)

    async def wait_closed(self) -> None:
        """Return at once: connections close by themselves."""

    def is_serving(self) -> bool:
        return self.endpoint in self._net.servers

    async def start_serving(self) -> None:
        """Do nothing: it serves already."""

    def get_loop(self) -> SimulatedLoop:
        return self._net.loop


@dataclass
class Weather:
    """The delay of bytes, in seconds."""

    shortest_s: float = 0.00005
    longest_s: float = 0.0005


class Network:
    """All machines' ports and connections."""

    def __init__(
        self,
        loop: SimulatedLoop,
        *,
        note: Callable[[Link, bytes], None] = lambda link, data: None,
        outliving: random.Random | None = None,
    ) -> None:
        """Create a network.

        Args:
            note: called with each arrival.
            outliving: draws how much of what a process has sent arrives after its death; None: nothing.
        """
        self.loop = loop
        self._outliving = outliving
        self.note = note
        self.servers: dict[Endpoint, Server] = {}
        self.transports = Transports()
        self.held: set[Link] = set()
        self.dark: set[str] = set()
        """Hosts without power."""
        self.stalled: dict[Pipe, None] = {}
        self.slow: dict[Link, float] = {}
        """Additional seconds for each piece of bytes."""
        self.weather = Weather()
        self.nobody = Context()
        """For what machines do while their processes may be paused."""
        self._next_port = 40_000

    # The loop's calls to listen and to dial.

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
            await asyncio.sleep(0.05)  # The handshake is repeated until the caller gives up.
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
        """Drop every connection."""
        self.servers.clear()
        self.transports = Transports()
        self.stalled.clear()

    # Faults.

    def is_held(self, link: Link, *, has_left: bool = False) -> bool:
        """Return whether bytes on a link are held.

        Args:
            has_left: they have left their machine, which may have lost its power since.
        """
        return link in self.held or (link[0] in self.dark and not has_left) or link[1] in self.dark

    def delay(self, link: Link) -> float:
        return self.loop.dice.uniform(self.weather.shortest_s, self.weather.longest_s) + self.slow.get(link, 0.0)

    def hold(self, links: set[Link]) -> None:
        """Hold the bytes on these links."""
        self.held |= links

    def release(self, links: set[Link]) -> None:
        """Let bytes flow again, held ones first."""
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

    def stall(self, links: set[Link]) -> Callable[[], None]:
        """Hold all bytes on open connections, later ones too; new connections work. Return the release.

        A sender that times out and retries over another connection has then sent its request twice, and one of them is
        late.
        """
        pipes = [t.out for link in sorted(links) for t in self.transports.across(link) if t.out is not None]
        for pipe in pipes:
            pipe.stalled = True
        self.stalled.update(dict.fromkeys(pipes))

        def release() -> None:
            for pipe in pipes:
                pipe.stalled = False
                self.stalled.pop(pipe, None)
                pipe.flow()

        return release

    def end_stalls(self) -> None:
        for pipe in list(self.stalled):
            pipe.stalled = False
            pipe.flow()
        self.stalled.clear()

    def truncate(self, link: Link, dice: random.Random) -> None:
        """Cut the next piece on each connection, and reset the connection."""
        for transport in self.transports.across(link):
            if transport.out is not None:
                transport.out.cut_at = dice.random()

    def process_died(self, process: Process) -> None:
        """Close the ports of the process and reset its connections, as its machine does."""
        self._close_ports(process)
        for transport in self.transports.of(process):
            self.transports.discard_one(transport)
            transport.reset_peer(kept=self._kept(transport))

    def power_lost(self, process: Process) -> None:
        """Close nothing: no peer gets a notice. Pieces that have left the machine arrive."""
        self._close_ports(process)
        for transport in self.transports.of(process):
            self.transports.discard_one(transport)
            if transport.out is not None:
                transport.out.outlive(self._kept(transport))

    def _kept(self, transport: Transport) -> int:
        """Draw how many pieces in flight still arrive."""
        pieces = 0 if transport.out is None else len(transport.out.queue)
        dice = self._outliving
        return 0 if dice is None or not pieces else dice.choice((0, pieces, dice.randint(0, pieces)))

    def _close_ports(self, process: Process) -> None:
        for endpoint, server in list(self.servers.items()):
            if server.process is process:
                del self.servers[endpoint]
