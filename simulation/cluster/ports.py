"""The part of a world that its clients and judges use. `world` imports them; they import this instead of `world`."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Protocol

from chaos.history import History
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.model import TopicPartition
from raftlog.partition.replica import Replica
from simulation.cluster.disk import Disks
from simulation.cluster.loop import SimulatedLoop
from simulation.cluster.net import Network
from simulation.cluster.nodes import Node


class Watch(Protocol):
    """The judge of a world; see `watch`."""

    def fail(self, reason: str) -> None: ...

    def on_internal_error(self, what: str) -> None: ...

    def replicas(self) -> Iterator[tuple[Node, Replica]]: ...


class Unclean(Protocol):
    """The clients of a topic with unclean elections; see `unclean`."""

    @property
    def exist(self) -> bool: ...


class World(Protocol):
    """See `world.World`."""

    loop: SimulatedLoop
    dice: random.Random
    net: Network
    disks: Disks
    history: History
    nodes: dict[str, Node]
    spared: dict[str, frozenset[int]]
    bootstrap: list[str]

    @property
    def settings(self) -> Any:
        """`settings.Settings`, which imports the clients for their options."""
        ...

    @property
    def watch(self) -> Watch: ...

    @property
    def unclean(self) -> Unclean: ...

    @property
    def brokers(self) -> list[Node]: ...

    def note(self, event: str) -> None: ...

    def newest_image(self) -> MetadataImage: ...

    def leaders_of(self, topic: str) -> dict[TopicPartition, Replica]: ...

    def forget_lost_disks(self) -> None: ...

    def start(self, node: Node) -> None: ...

    def kill(self, node: Node) -> None: ...

    def lose_power(self, node: Node) -> None: ...

    def power_on(self, node: Node) -> None: ...
