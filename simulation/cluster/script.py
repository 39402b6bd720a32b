"""The steps of a story: query leaders and followers, cut links, and wait for a condition."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping

import raftlog
from raftlog.model import PartitionState
from raftlog.partition.replica import Replica
from simulation.cluster.loop import Process
from simulation.cluster.nodes import Node
from simulation.cluster.workload import TOPIC
from simulation.cluster.world import World

PATIENCE_S = 30.0


class Script:
    """One story's access to a world."""

    def __init__(self, world: World) -> None:
        self.world = world

    async def until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait until the condition holds; the story fails if it never does."""
        deadline = self.world.loop.time() + PATIENCE_S
        while not holds():
            if self.world.loop.time() > deadline:
                self.world.watch.fail(f"not within {PATIENCE_S:g} s: {what}")
            await asyncio.sleep(0.005)

    async def pass_time(self, seconds: float) -> None:
        """Let simulated time pass."""
        await asyncio.sleep(seconds)

    def state(self, partition: int = 0) -> PartitionState:
        """Return a partition's state in the newest controller's image."""
        topic = self.world.images()[-1].topic(TOPIC)
        assert topic is not None
        return topic.partitions[partition]

    def active(self) -> Node:
        """Return the active controller; there must be one."""
        return next(n for n in self.world.controllers if n.controller and n.controller.quorum.leader == n.node_id)

    def broker(self, broker_id: int) -> Node:
        return self.world.nodes[f"broker-{broker_id}"]

    def leader(self, partition: int = 0) -> Node:
        return self.broker(self.state(partition).leader)

    def followers(self, partition: int = 0) -> list[Node]:
        state = self.state(partition)
        return [self.broker(replica) for replica in state.replicas if replica != state.leader]

    def replica(self, node: Node, partition: int = 0) -> Replica | None:
        if not node.running or node.broker is None:
            return None
        replicas = node.broker.replicas._replicas.values()
        return next((r for r in replicas if r.assignment.topic_partition.partition == partition), None)

    async def in_sync(self, *nodes: Node, partition: int = 0) -> None:
        """Wait until exactly these are in sync; without names, all replicas."""
        wanted = {node.node_id for node in nodes}
        await self.until(
            lambda: set(self.state(partition).isr) == (wanted or set(self.state(partition).replicas)),
            f"in sync: {sorted(wanted) or 'all'}",
        )

    async def leads(self, node: Node, partition: int = 0) -> None:
        await self.until(
            lambda: (replica := self.replica(node, partition)) is not None and replica.core is not None,
            f"{node.name} leads",
        )

    async def acknowledged(self, count: int = 1) -> None:
        """Wait until `count` more sends were acknowledged."""
        goal = self.count() + count
        await self.until(lambda: self.count() >= goal, f"{count} more acknowledgements")

    def count(self) -> int:
        return sum(send.outcome == "ok" for send in self.world.history.sends)

    def hold(self, sources: Iterable[Node] | Node, targets: Iterable[Node] | Node) -> None:
        """Hold all bytes from the first to the second until they are released."""
        self.world.net.hold({(s.host, t.host) for s in _all(sources) for t in _all(targets)})

    def release(self, sources: Iterable[Node] | Node, targets: Iterable[Node] | Node) -> None:
        self.world.net.release({(s.host, t.host) for s in _all(sources) for t in _all(targets)})

    def stall(self, sources: Iterable[Node] | Node, targets: Iterable[Node] | Node) -> Callable[[], None]:
        """Hold the bytes of open connections from the first to the second; return the release. New ones work."""
        return self.world.net.stall({(s.host, t.host) for s in _all(sources) for t in _all(targets)})

    def isolate(self, node: Node, others: Iterable[Node] | None = None) -> None:
        """Cut a node off from others (from all nodes), both ways."""
        rest = [other for other in (others or self.world.nodes.values()) if other is not node]
        self.hold(node, rest)
        self.hold(rest, node)

    def mend(self, node: Node) -> None:
        rest = list(self.world.nodes.values())
        self.release(node, rest)
        self.release(rest, node)

    def pause(self, node: Node) -> None:
        assert node.process is not None
        self.world.note(f"pause {node.name}")
        node.process.paused = True

    def resume(self, node: Node) -> None:
        assert node.process is not None
        self.world.note(f"resume {node.name}")
        self.world.loop.resume(node.process)

    async def hush(self) -> None:
        """Pause all producers, and wait until every replica in sync has every record."""
        for producer in self.world.clients.producers:
            producer.paused = True
        await self.pass_time(1.0)

    def speak(self) -> None:
        """Let them continue."""
        for producer in self.world.clients.producers:
            self.world.loop.resume(producer)

    async def administer(self, ask: Callable[[raftlog.Admin], object]) -> None:
        """Send an administrative request from a client of its own."""

        async def work() -> None:
            async with raftlog.Admin(self.world.bootstrap) as admin:
                await ask(admin)  # type: ignore[misc]

        await self.world.loop.create_task(work(), context=Process("operator", "10.0.5.1").context)

    async def writes(self, partitions: Mapping[str, int]) -> None:
        """Write a record to each partition of some topics; all must be acknowledged."""

        async def write() -> None:
            async with raftlog.Producer(self.world.bootstrap) as producer:
                sends = [
                    producer.send(topic, b"a record", partition=number)
                    for topic, count in partitions.items()
                    for number in range(count)
                ]
                await asyncio.gather(*sends)

        await self.world.loop.create_task(write(), context=Process("writer", "10.0.5.2").context)


def _all(nodes: Iterable[Node] | Node) -> list[Node]:
    return [nodes] if isinstance(nodes, Node) else list(nodes)
