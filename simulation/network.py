"""Links between voters: ordered, like connections; faults make them slow, one-way, lossy or repeating."""

from __future__ import annotations

import random
from collections import deque
from itertools import combinations
from typing import Any

from pysyncobj.node import Node
from pysyncobj.transport import Transport

from raftlog.metadata_quorum.raft.codec import decode, encode

Link = tuple[str, str]
"""Source and target."""


class FixedNode(Node):  # type: ignore[misc]
    """A node whose position in the core's sets is the same in every process: a seed must be one history."""

    def __hash__(self) -> int:
        return int.from_bytes(self.id.encode()[-6:], "big")


class SimulatedWire(Transport):  # type: ignore[misc]
    """PySyncObj's transport interface for one voter."""

    def __init__(self, network: Network, name: str) -> None:
        super().__init__(None, None, None)
        self.name = name
        self._network = network
        self._nodes = {other: FixedNode(other) for other in network.names if other != name}

    @property
    def nodes(self) -> list[Node]:
        return list(self._nodes.values())

    @property
    def ready(self) -> bool:
        return True

    def send(self, node: Node, message: dict[str, Any]) -> bool:
        return self._network.send(self.name, node.id, encode(message))

    def connected(self, other: str) -> None:
        self._onNodeConnected(self._nodes[other])

    def disconnected(self, other: str) -> None:
        self._onNodeDisconnected(self._nodes[other])

    def deliver(self, source: str, data: bytes) -> None:
        self._onMessageReceived(self._nodes[source], decode(data))


class Network:
    """All links, and their faults."""

    def __init__(self, names: list[str], dice: random.Random) -> None:
        """Create the links.

        Args:
            dice: draws how much of what a voter has sent arrives after its death.
        """
        self.names = names
        self._dice = dice
        self.pairs: list[Link] = [(one, other) for one in names for other in names if one != other]
        self.wires: dict[str, SimulatedWire] = {}
        self.links: dict[Link, deque[bytes]] = {pair: deque() for pair in self.pairs}
        self.cut: set[frozenset[str]] = set()
        """Links without a connection; both ends know it."""
        self.dropping: set[Link] = set()
        """Links that lose their messages; neither end knows it."""
        self.held: set[Link] = set()
        """Links that hold their messages until a release."""
        self.slow: set[Link] = set()
        self._outliving: set[Link] = set()
        """Links whose source has died: the target learns of it after the messages that are still in flight."""

    def join(self, name: str) -> SimulatedWire:
        """Return a wire for a voter that starts; `connect` it once its engine listens."""
        self.wires[name] = wire = SimulatedWire(self, name)
        return wire

    def leave(self, name: str) -> None:
        """Close a voter's connections. Of the messages in flight, some are still delivered."""
        for other in self.names:
            if other == name:
                continue
            sent = self.links[name, other]
            kept = list(sent)[: self._dice.choice((0, len(sent), self._dice.randint(0, len(sent))))]
            if not kept or other not in self.wires or not self.is_connected(name, other):
                self.disconnect(name, other)
                continue
            sent.clear()
            sent.extend(kept)
            self.links[other, name].clear()
            self._outliving.add((name, other))
        self.wires.pop(name, None)

    def delivered(self, link: Link) -> None:
        """Record that messages have arrived: after a dead voter's last one, the connection closes."""
        if link in self._outliving and not self.links[link]:
            self._outliving.discard(link)
            self.wires[link[1]].disconnected(link[0])

    def send(self, source: str, target: str, data: bytes) -> bool:
        if not self.is_connected(source, target):
            return False
        if (source, target) not in self.dropping:
            self.links[source, target].append(data)
        return True

    def is_connected(self, one: str, other: str) -> bool:
        return one in self.wires and other in self.wires and frozenset((one, other)) not in self.cut

    def disconnect(self, one: str, other: str) -> None:
        """Close a connection, and drop its messages."""
        for source, target in ((one, other), (other, one)):
            self._outliving.discard((source, target))
            self.links[source, target].clear()
            if source in self.wires:
                self.wires[source].disconnected(target)

    def connect(self, one: str, other: str) -> None:
        if self.is_connected(one, other):
            for source, target in ((one, other), (other, one)):
                if (source, target) in self._outliving:  # Messages of its earlier life may still arrive late.
                    self._outliving.discard((source, target))
                    self.wires[target].disconnected(source)
            self.wires[one].connected(other)
            self.wires[other].connected(one)

    def part(self, one: str, other: str) -> None:
        """Cut two voters off from each other; both get a notice."""
        self.cut.add(frozenset((one, other)))
        self.disconnect(one, other)

    def rejoin(self, one: str, other: str) -> None:
        self.cut.discard(frozenset((one, other)))
        self.connect(one, other)

    def calm(self) -> None:
        """End every fault; open each connection again."""
        self.cut.clear()
        self.dropping.clear()
        self.held.clear()
        self.slow.clear()
        for one, other in combinations(self.names, 2):
            self.disconnect(one, other)
            self.connect(one, other)

    def between(self, some: set[str]) -> list[Link]:
        """Return the links between a group and all others, both ways."""
        return [pair for pair in self.pairs if (pair[0] in some) != (pair[1] in some)]
