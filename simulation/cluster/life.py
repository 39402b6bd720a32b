"""The life of a world: everything starts, faults happen, everything heals, and the history is judged."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import warnings
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from unittest import mock

from raftlog.errors import RaftlogError
from raftlog.record import iter_batches
from simulation.cluster import changes, members, payments, relays, takeovers, unclean
from simulation.cluster.creation import create_topic
from simulation.cluster.disk import close_files_below
from simulation.cluster.internal_errors import heard
from simulation.cluster.nodes import Node
from simulation.cluster.patches import machine
from simulation.cluster.rotting import rot_apart, rotten_logs
from simulation.cluster.settling import IN_SYNC_S, Settling
from simulation.cluster.workload import TOPIC
from simulation.cluster.world import World

LEADERS_S = 20.0
LONGEST_S = 600.0
"""A run takes some 35 s, and some minutes where every wait takes as long as it may."""
Chaos = Callable[[], Coroutine[Any, Any, None]]


class Life:
    """One run of one world."""

    def __init__(self, world: World) -> None:
        self._world = world

    def run(self, chaos: Chaos) -> None:
        """Start everything, let `chaos` inject faults, heal, and judge.

        Raises:
            BrokenPromiseError: with what was broken; the seed reproduces it.
        """
        loop = self._world.loop
        with self._hooked():
            try:
                loop.run_until_complete(loop.create_task(self._until_broken(chaos)))
            finally:
                self._switch_off()
        self._world.watch.judge()

    async def _until_broken(self, chaos: Chaos) -> None:
        """Continue as long as no promise is broken."""
        watching = asyncio.ensure_future(self._world.watch.run())
        living = asyncio.ensure_future(self._live(chaos))
        done, _ = await asyncio.wait((watching, living), timeout=LONGEST_S, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            self._world.watch.fail(f"the run does not end within {LONGEST_S:g} s")
        for task in (watching, living):
            if task.done():
                task.result()
            task.cancel()
        self._world.watch.replicas_agree()

    def _switch_off(self) -> None:
        """Drop every process. Collecting an unfinished coroutine runs its `finally`, which must touch nothing."""
        world = self._world
        for node in world.nodes.values():
            if node.process is not None:
                node.process.alive = False
                close_files_below(node.folder)
            node.forget()
        with mock.patch.object(os, "close"), mock.patch.object(sys, "unraisablehook"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # About coroutines that were never awaited.
            world.clients.forget()
            world.payments.forget()
            world.remover.forget()
            world.bursts.forget()
            world.unclean.forget()
            world.plain.forget()
            world.group.forget()
            world.relays.forget()
            world.keeper.forget()
            world.pipelined.forget()
            world.net.forget()
            world.loop.forget()
            gc.collect()

    async def _live(self, chaos: Chaos) -> None:
        world = self._world
        await self._begin()
        await chaos()
        world.unclean.calm()
        self._rot_everywhere()
        await self._heal()
        await Settling(world, self._until).run()

    async def _begin(self) -> None:
        """Start every node, create the topics, and start their clients."""
        world, settings, clients = self._world, self._world.settings, self._world.clients
        for what in (
            settings,
            settings.removal,
            settings.bursts,
            settings.unclean,
            settings.pipeline,
            settings.crowd,
            settings.staff,
            settings.compaction,
        ):
            if what is not None:
                world.note(str(what))
        for node in world.nodes.values():
            world.start(node)
        await create_topic(
            world, TOPIC, settings.partitions, settings.removal.topic_configs if settings.removal else {}
        )
        for partition in range(settings.partitions):
            for _ in range(settings.producers_per_partition):
                clients.produce(partition, settings.pause_s)
        clients.tail()
        if settings.racks:
            clients.tail(rack=world.dice.choice(world.brokers).config.rack)
        await self._begin_more()

    async def _begin_more(self) -> None:
        """Create the topics and start the clients that only some worlds have."""
        world, settings = self._world, self._world.settings
        if world.payments.exist:
            await create_topic(world, payments.TOPIC, payments.PARTITIONS)
            world.payments.start()
        if settings.unclean is not None:
            await create_topic(world, takeovers.TOPIC, 1, unclean.CONFIGS, replicas=settings.unclean.replicas)
        if world.group.exist:
            await create_topic(world, members.TOPIC, members.PARTITIONS)
        if world.relays.exist:
            for topic in (relays.SOURCE, relays.TARGET):
                await create_topic(world, topic, relays.PARTITIONS)
        if settings.compaction is not None:
            await create_topic(world, changes.TOPIC, 1, settings.compaction.topic_configs)
        for more in (
            world.keeper,
            world.group,
            world.relays,
            world.unclean,
            world.plain,
            world.pipelined,
            world.remover,
            world.bursts,
        ):
            more.start()

    def _rot_everywhere(self) -> None:
        """Damage many batches, on every disk, each with an intact copy on another one: repair must restore all of them.

        Not where a disk has lost more before: a disk that is replaced, or an unreadable block, may have the last copy.
        """
        world = self._world
        has_lost = any(node.rotten or node.spotted or node.disk_lost_at >= 0 for node in world.brokers)
        if world.settings.rots_everywhere and not has_lost:
            rot_apart(world, world.dice, 0.3)

    async def _heal(self) -> None:
        """End every fault; require leaders, acknowledgements and full ISRs before their deadlines."""
        world = self._world
        world.note("heal")
        for node in world.nodes.values():
            self._end_faults(node)
        world.net.slow.clear()
        world.net.end_stalls()
        world.net.release(set(world.net.held))
        since_ns, wanted = int(world.loop.time() * 1e9), set(range(world.settings.partitions))
        await self._until(
            lambda: (
                world.clients.acknowledged_since(since_ns) >= wanted
                and world.plain.acknowledged_since(since_ns)
                and world.pipelined.acknowledged_since(since_ns)
            ),
            LEADERS_S,
            "an acknowledgement after healing",
        )
        begun = len(world.payments.history.transactions)
        await world.bursts.stop()
        await self._until(world.is_healthy, IN_SYNC_S, "all in sync after healing")
        await self._find_rot()
        await self._until(world.is_healthy, IN_SYNC_S, "all in sync after all damage was found")
        if world.payments.exist:
            await self._until(lambda: world.payments.committed_since(begun), IN_SYNC_S, "a commit after healing")
        if world.unclean.exist:
            await self._until(
                lambda: world.unclean.acknowledged_since(since_ns), IN_SYNC_S, "the unclean topic to go on"
            )
        try:
            await world.bursts.write_everywhere()
        except RaftlogError as error:
            world.watch.fail(f"a topic that was created in a burst takes no record after healing: {error}")
        world.note("healed")

    def _end_faults(self, node: Node) -> None:
        world = self._world
        if node.process is not None:
            node.process.thread_s = node.thread_s
            if node.process.paused:
                world.loop.resume(node.process)
        disk = world.disks.by_host[node.host]
        if disk.failing and node.running:
            world.kill(node)
        disk.failing, disk.full, disk.starved, disk.crowded = False, False, False, False
        disk.sync_errno, disk.fuse = 0, None
        world.power_on(node)

    async def _until(self, holds: Callable[[], bool], within_s: float, what: str) -> None:
        """Wait, as an operator does: start nodes that exited, and replace disks that are damaged for good."""
        world = self._world
        deadline = world.loop.time() + within_s
        while not holds():
            for node in world.nodes.values():
                if node.is_damaged:
                    world.lose_power(node)
                    world.power_on(node)
                if not node.running:
                    world.start(node)
            await asyncio.sleep(0.1)
            if world.loop.time() > deadline:
                world.watch.fail(f"not within {within_s:g} s: {what}")

    async def _find_rot(self) -> None:
        """Have all damage found: by scrubbers, where there are any and records stay, otherwise by reads."""
        settings = self._world.settings
        if settings.scrub_interval_ms > 0 and settings.removal is None:
            await self._until(lambda: not rotten_logs(self._world), IN_SYNC_S, "scrubbers to have all damage repaired")
            return
        for node in self._world.brokers:
            if node.rotten or node.spotted:
                await self._read_all_of(node)

    async def _read_all_of(self, node: Node) -> None:
        """Read every byte of a broker with damaged ones, as readers in its rack would: repair follows each finding."""
        world, process = self._world, node.process
        assert process is not None

        async def read() -> bool:
            """Return whether no damage was found."""
            for replica in node.replicas:
                replica.log.segments[-1].forget_recent()  # Its newest batch is in memory, too.
                offset = replica.log.log_start_offset
                while replica.damage is None and offset < replica.high_watermark:
                    with suppress(RaftlogError):
                        data = replica.read_sound(offset, 1 << 20, limit_offset=replica.high_watermark)
                        offset = max(header.next_offset for header, _ in iter_batches(data))
            return not any(replica.damage for replica in node.replicas)

        while not await world.loop.create_task(read(), context=process.context):
            await self._until(
                lambda: node.running and not any(replica.damage for replica in node.replicas),
                IN_SYNC_S,
                "damage healed",
            )
        node.rotten = node.spotted = False

    @contextmanager
    def _hooked(self) -> Iterator[None]:
        collecting = gc.isenabled()
        world = self._world
        if not gc.get_freeze_count():
            gc.freeze()  # Modules stay: collecting them again after each world takes longer than everything else.
        gc.disable()  # A collection's time and effects would be no function of the seed.
        try:
            with (
                heard(world.loop, world.watch.on_internal_error),
                machine(world.loop, world.dice, world.on_exit, world.boot_id),
                world.disks.hooked(),
                world.takeovers.hooked(),
                world.watch.undamaged.hooked(),
            ):
                yield
        finally:
            if collecting:
                gc.enable()
