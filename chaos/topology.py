"""The address of each listener, and the proxy through which each process reaches each other one.

Node i listens on 127.0.0.(10+i). The link from process i to process j is a proxy on 127.0.(100+i).(10+j), with the port
of the target's listener. Each process gets its own dial map, so an advertised address cannot bypass a proxy.
"""

from __future__ import annotations

from dataclasses import dataclass

from chaos.links import Links
from raftlog.model import Address

CLIENT = "client"


@dataclass(frozen=True, slots=True)
class Topology:
    """The processes of one run, in a fixed order; the last one is the client."""

    names: tuple[str, ...]

    @classmethod
    def of(cls, node_names: list[str]) -> Topology:
        return cls((*node_names, CLIENT))

    def host(self, name: str) -> str:
        """Return the loopback address on which `name` listens."""
        return f"127.0.0.{10 + self._number(name)}"

    def proxied(self, source: str, target: str, listener: Address) -> Address:
        """Return the address at which `source` finds a listener of `target`."""
        return Address(f"127.0.{100 + self._number(source)}.{10 + self._number(target)}", listener.port)

    def dial_map(self, source: str, listeners: dict[str, list[Address]]) -> dict[str, str]:
        """Return the dial map of one process: every listener of every other node, through its own proxy."""
        return {
            str(listener): str(self.proxied(source, target, listener))
            for target, addresses in listeners.items()
            if target != source
            for listener in addresses
        }

    def add_links(self, links: Links, listeners: dict[str, list[Address]]) -> None:
        """Make every proxy of the dial maps."""
        for source in self.names:
            for target, addresses in listeners.items():
                if target == source:
                    continue
                for listener in addresses:
                    links.add(source, target, upstream=listener, listen=self.proxied(source, target, listener))

    def _number(self, name: str) -> int:
        return self.names.index(name) + 1
