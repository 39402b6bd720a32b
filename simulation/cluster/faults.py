"""Which faults happen to the cluster, and when: everything here is drawn from the world's dice."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import raftlog
from raftlog.errors import RaftlogError
from simulation.cluster.loop import Process
from simulation.cluster.net import Link
from simulation.cluster.nodes import Node
from simulation.cluster.workload import TOPIC

if TYPE_CHECKING:
    from simulation.cluster.world import World

FAULTS = (
    "kill",
    "power_loss",
    "blackout",
    "fuse_kill",
    "fuse_power",
    "fuse_error",
    "disk_full",
    "lost_disk",
    "pause",
    "isolate",
    "isolate_leader",
    "isolate_controller",
    "partition",
    "cut",
    "cut_one_way",
    "reset",
    "slow",
    "slow_disk",
    "clock",
    "stop_in_order",
    "reassign",
    "elect",
    "alter",
)
PEACE_S = (0.05, 3.0)
LASTS_S = (0.1, 8.0)


class Chaos:
    """Draws a mix of faults for one world, and does them one after the other; most overlap."""

    def __init__(self, world: World, *, seconds: float) -> None:
        self.world = world
        self.dice: random.Random = world.dice
        self.seconds = seconds
        chosen = self.dice.sample(FAULTS, self.dice.randint(2, 8))
        self._mix = {name: self.dice.choice((0.3, 1.0, 3.0)) for name in chosen}
        self._pace = self.dice.choice((0.2, 0.6, 1.5))
        self._undo: list[asyncio.Task[None]] = []
        self._admins = 0

    async def run(self) -> None:
        loop = self.world.loop
        end = loop.time() + self.seconds
        self.world.note(f"faults: {', '.join(self._mix)}")
        await asyncio.sleep(self.dice.uniform(0.2, 3.0))
        while loop.time() < end:
            (name,) = self.dice.choices(list(self._mix), list(self._mix.values()))
            self.world.faults += 1
            await getattr(self, f"_do_{name}")()
            await asyncio.sleep(self.dice.uniform(*PEACE_S) * self._pace)
        for task in self._undo:
            task.cancel()
        self._undo.clear()

    def _later(self, undo: Callable[[], Any], lasts: tuple[float, float] = LASTS_S) -> None:
        async def wait() -> None:
            await asyncio.sleep(self.dice.uniform(*lasts))
            result = undo()
            if isinstance(result, Awaitable):
                await result

        self._undo.append(asyncio.ensure_future(wait()))

    # Who.

    def _anybody(self) -> Node:
        return self.dice.choice(list(self.world.nodes.values()))

    def _leader(self) -> Node | None:
        leading = [
            node
            for node in self.world.brokers
            if node.running and node.broker and any(r.core for r in node.broker.replicas._replicas.values())
        ]
        return self.dice.choice(leading) if leading else None

    def _active(self) -> Node | None:
        images = self.world.images()
        return next((n for n in self.world.controllers if images and n.node_id == images[-1].controller_id), None)

    def _somebody(self) -> Node:
        """Often the one whose loss hurts."""
        pick = self.dice.random()
        if pick < 0.35 and (leader := self._leader()) is not None:
            return leader
        if pick < 0.5 and (active := self._active()) is not None:
            return active
        return self._anybody()

    def _may_go_down(self, node: Node) -> bool:
        """All may be down at once, but only now and then: who never serves shows nothing."""
        same = self.world.brokers if node.config.is_broker else self.world.controllers
        up = sum(other.running for other in same)
        return node.running and (up > 1 or self.dice.random() < 0.3)

    # Processes and machines.

    async def _do_kill(self) -> None:
        node = self._somebody()
        if self._may_go_down(node):
            self.world.kill(node)
            self._restart_later(node)

    async def _do_power_loss(self) -> None:
        node = self._somebody()
        if self._may_go_down(node):
            self.world.lose_power(node)
            self._restart_later(node)

    async def _do_blackout(self) -> None:
        if self.dice.random() < 0.5:
            return
        power = self.dice.random() < 0.5
        for node in self.world.nodes.values():
            if node.running:
                (self.world.lose_power if power else self.world.kill)(node)
            self._restart_later(node)

    def _restart_later(self, node: Node) -> None:
        def restart() -> None:
            self.world.power_on(node)
            disk = self.world.disks.by_host[node.host]
            if not node.running and not disk.failing:
                self.world.start(node)

        self._later(restart)

    async def _do_pause(self) -> None:
        node = self._somebody()
        process = node.process
        if process is None or not process.alive or process.paused:
            return
        self.world.note(f"pause {node.name}")
        process.paused = True

        def resume() -> None:
            if process.alive:
                self.world.note(f"resume {node.name}")
                self.world.loop.resume(process)

        self._later(resume)

    async def _do_stop_in_order(self) -> None:
        node = self._somebody()
        if self._may_go_down(node):
            self.world.note(f"stop {node.name}")
            node.stop()
            self._restart_later(node)

    async def _do_clock(self) -> None:
        node = self._anybody()
        if node.process is not None:
            node.process.wall_skew_us = int(self.dice.uniform(-3600, 3600) * 1e6)
            self.world.note(f"clock of {node.name} jumps by {node.process.wall_skew_us // 1_000_000} s")

    # Disks.

    async def _do_fuse_kill(self) -> None:
        self._light("kill")

    async def _do_fuse_power(self) -> None:
        self._light("power")

    def _light(self, kind: Any) -> None:
        node = self._somebody()
        if self._may_go_down(node):
            self.world.note(f"{kind} at one of the next operations of {node.name}'s disk")
            self.world.disks.by_host[node.host].fuse = (self.dice.randint(1, 30), kind)
            self._restart_later(node)

    async def _do_fuse_error(self) -> None:
        """A disk that fails is replaced, so it may fail only where its loss loses nothing."""
        node = self._somebody()
        if not self._may_lose(node):
            return
        self.world.note(f"the disk of {node.name} will fail")
        disk = self.world.disks.by_host[node.host]
        disk.fuse = (self.dice.randint(1, 30), "error")

        async def repair() -> None:
            while disk.fuse is not None and node.running:
                await asyncio.sleep(0.2)
            self.world.note(f"the disk of {node.name} works again")
            if node.running:
                self.world.kill(node)
            disk.failing = False
            disk.fuse = None
            if not node.running:
                self.world.start(node)

        self._later(repair)

    async def _do_disk_full(self) -> None:
        node = self._anybody()
        disk = self.world.disks.by_host[node.host]
        self.world.note(f"the disk of {node.name} is full")
        disk.full = disk.was_full = True

        def free() -> None:
            disk.full = False
            self.world.note(f"the disk of {node.name} has room")
            if not node.running:
                self.world.start(node)

        self._later(free)

    async def _do_lost_disk(self) -> None:
        node = self._somebody()
        if not node.config.is_broker or not node.running or not self._may_lose(node):
            return
        self.world.lose_power(node)
        self.world.replace_disk(node)
        self._restart_later(node)

    def _may_lose(self, node: Node) -> bool:
        """A disk may go if somebody else in every ISR, by everybody's account, keeps its own."""
        if not node.config.is_broker:
            return False
        images = self.world.images()
        if not images or (topic := images[-1].topic(TOPIC)) is None:
            return False
        lost = {n.node_id for n in self.world.brokers if n.disk_lost_at >= 0} | {node.node_id}
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

    async def _do_slow_disk(self) -> None:
        node = self._anybody()
        process = node.process
        if process is None:
            return
        usual, process.thread_s = process.thread_s, (0.05, self.dice.choice((0.3, 1.5)))
        self.world.note(f"slow disk of {node.name}")
        self._later(lambda: setattr(process, "thread_s", usual))

    # The network.

    async def _do_isolate(self) -> None:
        self._split({self._anybody().host})

    async def _do_isolate_leader(self) -> None:
        if (leader := self._leader()) is not None:
            self._split({leader.host})

    async def _do_isolate_controller(self) -> None:
        if (active := self._active()) is not None:
            self._split({active.host})

    async def _do_partition(self) -> None:
        hosts = [node.host for node in self.world.nodes.values()]
        self._split(set(self.dice.sample(hosts, self.dice.randint(1, len(hosts) - 1))))

    def _split(self, some: set[str]) -> None:
        """Between these and the other nodes nothing goes; sometimes only one way, or with clients too."""
        others = [node.host for node in self.world.nodes.values() if node.host not in some]
        out = {(one, other) for one in some for other in others}
        kind = self.dice.choice(("both", "both", "out", "in"))
        links = (out if kind != "in" else set()) | ({link[::-1] for link in out} if kind != "out" else set())
        self.world.note(f"hold {kind} between {sorted(some)} and the others")
        self._hold({(link[0], link[1]) for link in links})

    def _hold(self, links: set[Link]) -> None:
        self.world.net.hold(links)

        def release() -> None:
            self.world.note(f"release {len(links)} links")
            if self.dice.random() < 0.3:
                for link in sorted(links):
                    self.world.net.reset(link)
            self.world.net.release(links)

        self._later(release)

    async def _do_cut(self) -> None:
        one, other = self.dice.sample([node.host for node in self.world.nodes.values()], 2)
        self.world.note(f"hold {one} {other}")
        self._hold({(one, other), (other, one)})

    async def _do_cut_one_way(self) -> None:
        one, other = self.dice.sample([node.host for node in self.world.nodes.values()], 2)
        self.world.note(f"hold {one} > {other}")
        self._hold({(one, other)})

    async def _do_reset(self) -> None:
        one, other = self.dice.sample([node.host for node in self.world.nodes.values()], 2)
        self.world.note(f"reset {one} {other}")
        self.world.net.reset((one, other))

    async def _do_slow(self) -> None:
        one, other = self.dice.sample([node.host for node in self.world.nodes.values()], 2)
        seconds = self.dice.choice((0.05, 0.3, 1.2))
        self.world.note(f"slow {one} > {other} by {seconds} s")
        self.world.net.slow[one, other] = seconds
        self._later(lambda: self.world.net.slow.pop((one, other), None))

    # Administration.

    def _administer(self, what: str, ask: Callable[[raftlog.Admin], Awaitable[Any]]) -> None:
        self.world.note(what)
        self._admins += 1
        process = Process(f"admin-{self._admins}", f"10.0.4.{self._admins % 250 + 1}")

        async def work() -> None:
            try:
                async with raftlog.Admin(self.world.bootstrap) as admin:
                    await ask(admin)
            except RaftlogError as error:
                self.world.note(f"  refused: {error.code.value}")

        self._undo.append(self.world.loop.create_task(work(), context=process.context))

    async def _do_reassign(self) -> None:
        brokers = range(1, len(self.world.brokers) + 1)
        partition = self.dice.randrange(self.world.settings.partitions)
        replicas = self.dice.sample(brokers, self.world.settings.replicas)
        target = None if self.dice.random() < 0.2 else replicas
        self._administer(
            f"reassign {partition} to {target}", lambda admin: admin.reassign_partitions({(TOPIC, partition): target})
        )

    async def _do_elect(self) -> None:
        self._administer("elect preferred leaders", lambda admin: admin.elect_leaders())

    async def _do_alter(self) -> None:
        value = self.dice.choice((1, 2))
        self._administer(
            f"min_insync_replicas={value}",
            lambda admin: admin.alter_topic(TOPIC, configs={"min_insync_replicas": value}),
        )


def _counted(node: Node, number: int) -> set[int]:
    """The brokers that this node, if it leads a partition, counts as in sync for certain; everybody if it does not."""
    everybody = set(range(1, 100))
    if not node.running or node.broker is None:
        return everybody
    for replica in node.broker.replicas._replicas.values():
        if replica.core is not None and replica.assignment.topic_partition.partition == number:
            pending = replica.core.pending_isr
            return set(replica.core.state.isr) & (everybody if pending is None else set(pending))
    return everybody
