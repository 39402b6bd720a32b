"""What every fault needs: dice of its own, a target, and an end."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from simulation.cluster.nodes import Node
from simulation.cluster.workload import TOPIC

if TYPE_CHECKING:
    from simulation.cluster.world import World

LASTS_S = (0.1, 8.0)
Fault = Callable[["Hands"], None]
FAULTS: dict[str, Fault] = {}
LATER_FAULTS: dict[str, Fault] = {}
"""Faults that were added later. They are drawn apart: most seeds keep their schedules, and what they show."""


COORDINATOR_FAULTS: dict[str, Fault] = {}
"""Faults of coordinators, for worlds whose clients need them most."""


def fault(happen: Fault) -> Fault:
    """Add it to the faults."""
    FAULTS[happen.__name__] = happen
    return happen


def later_fault(happen: Fault) -> Fault:
    """Add it to the faults that are drawn apart."""
    LATER_FAULTS[happen.__name__] = happen
    return happen


def coordinator_fault(happen: Fault) -> Fault:
    """Add it to the faults of coordinators."""
    COORDINATOR_FAULTS[happen.__name__] = happen
    return happen


class Hands:
    """One fault's access to the world. It has its own dice: leaving out another fault does not change its draws."""

    def __init__(self, world: World, dice: random.Random, ends: list[asyncio.Task[None]]) -> None:
        self.world = world
        self.dice = dice
        self._ends = ends

    def note(self, event: str) -> None:
        self.world.note(event)

    def later(self, undo: Callable[[], Any], lasts: tuple[float, float] = LASTS_S) -> None:
        """Undo the fault some time later."""
        delay_s = self.dice.uniform(*lasts)

        async def wait() -> None:
            await asyncio.sleep(delay_s)
            result = undo()
            if isinstance(result, Awaitable):
                await result

        self._ends.append(asyncio.ensure_future(wait()))

    def start(self, work: asyncio.Task[None]) -> None:
        """Run work that takes some time."""
        self._ends.append(work)

    # Targets.

    def anybody(self) -> Node:
        return self.dice.choice(list(self.world.nodes.values()))

    def leader(self) -> Node | None:
        """Return one of the brokers that believe that they lead."""
        leading = [
            node
            for node in self.world.brokers
            if node.running and node.broker and any(r.core for r in node.broker.replicas._replicas.values())
        ]
        return self.dice.choice(leading) if leading else None

    def coordinator(self) -> Node | None:
        """Return one of the brokers that believe that they coordinate groups or transactions."""
        leading = [
            node
            for node in self.world.brokers
            if node.running and any(r.core and r.assignment.topic.startswith("__") for r in node.replicas)
        ]
        return self.dice.choice(leading) if leading else None

    def active(self) -> Node | None:
        """Return the active controller, by the newest image."""
        images = self.world.images()
        return next((n for n in self.world.controllers if images and n.node_id == images[-1].controller_id), None)

    def somebody(self) -> Node:
        """Return a node; often the leader or the active controller."""
        pick = self.dice.random()
        if pick < 0.35 and (leader := self.leader()) is not None:
            return leader
        if pick < 0.5 and (active := self.active()) is not None:
            return active
        return self.anybody()

    def two_hosts(self) -> tuple[str, str]:
        """Return two machines that talk to each other; sometimes one of them is a client's."""
        nodes = [node.host for node in self.world.nodes.values()]
        if self.dice.random() < 0.25:
            pair = [self.dice.choice(self.world.clients.hosts), self.dice.choice(self.world.brokers).host]
            self.dice.shuffle(pair)
            return pair[0], pair[1]
        one, other = self.dice.sample(nodes, 2)
        return one, other

    # Limits.

    def may_go_down(self, node: Node) -> bool:
        """Return whether a node may go down.

        All may be down at once, but rarely: a cluster without service tests little.
        """
        same = self.world.brokers if node.config.is_broker else self.world.controllers
        up = sum(other.running for other in same)
        return node.running and (up > 1 or self.dice.random() < 0.3)

    def may_lose(self, node: Node) -> bool:
        """Return whether a disk may be lost or rot: every ISR must have another broker that keeps its disk.

        The other broker must be in the ISR of every image and in the ISR that every leader counts.
        """
        if not node.config.is_broker:
            return False
        images = [*self.world.images(), self.world.newest_image()]
        if (topic := images[-1].topic(TOPIC)) is None:
            return False
        lost = {n.node_id for n in self.world.brokers if n.disk_lost_at >= 0 or n.rotten or n.spotted} | {node.node_id}
        for number in range(len(topic.partitions)):
            survivors = set(range(1, len(self.world.brokers) + 1)) - lost
            for image in images:
                if (known := image.topic(TOPIC)) is not None:
                    survivors &= set(known.partitions[number].isr)
            for other in self.world.brokers:
                survivors &= _counted(other, number)
            if not survivors:
                return False
        return True

    def restart(self, node: Node) -> None:
        """Power a node on, and start it unless it runs; a failing disk has to be replaced first."""
        self.world.power_on(node)
        if not node.running and not self.world.disks.by_host[node.host].failing:
            self.world.start(node)

    def restart_later(self, node: Node) -> None:
        self.later(lambda: self.restart(node))


def _counted(node: Node, number: int) -> set[int]:
    """Return the brokers that a leader of the partition certainly counts as in sync; for other nodes all brokers."""
    everybody = set(range(1, 100))
    if not node.running or node.broker is None:
        return everybody
    for replica in node.broker.replicas._replicas.values():
        if replica.core is not None and replica.assignment.topic_partition == (TOPIC, number):
            pending = replica.core.pending_isr
            return set(replica.core.state.isr) & (everybody if pending is None else set(pending))
    return everybody
