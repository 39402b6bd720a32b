"""A whole cluster in simulation: its machines, network, disks and clients, and what is promised of them."""

from __future__ import annotations

import asyncio
import gc
import hashlib
import os
import random
import shutil
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import raftlog
from chaos.history import History
from chaos.workload import read_everything
from raftlog.config import BrokerConfig, ControllerConfig, ReplicationConfig, TopicConfig
from raftlog.errors import RaftlogError
from raftlog.metadata_quorum.image import MetadataImage
from simulation.cluster.disk import Disks, Fuse, close_files_below
from simulation.cluster.loop import CURRENT, Process, SimulatedLoop
from simulation.cluster.net import Link, Network, Weather
from simulation.cluster.nodes import Node, build
from simulation.cluster.patches import machine
from simulation.cluster.watch import Watch
from simulation.cluster.workload import TOPIC, Clients

LEADERS_S, IN_SYNC_S, TOPIC_S = 20.0, 90.0, 60.0


@dataclass(frozen=True)
class Settings:
    """What differs between worlds, besides their faults."""

    controllers: int = 3
    brokers: int = 3
    replicas: int = 3
    min_insync_replicas: int = 2
    partitions: int = 1
    producers_per_partition: int = 1
    pause_s: float = 0.03
    segment_bytes: int = 16_384
    snapshot_min_entries: int = 20_000
    longest_delay_s: float = 0.001
    longest_thread_s: float = 0.002
    replica_lag_time_max_ms: int = 10_000
    checkpoint_interval_ms: int = 5_000
    flush: str = "batch"

    @classmethod
    def drawn(cls, dice: random.Random) -> Settings:
        brokers = dice.choice((3, 3, 3, 4))
        return cls(
            controllers=dice.choice((1, 3, 3)),
            brokers=brokers,
            replicas=3,
            min_insync_replicas=dice.choice((1, 2, 2)),
            partitions=dice.choice((1, 2)),
            producers_per_partition=dice.choice((1, 2)),
            pause_s=dice.choice((0.03, 0.1)),
            segment_bytes=dice.choice((4_096, 16_384, 1 << 20)),
            snapshot_min_entries=dice.choice((20, 20_000)),
            longest_delay_s=dice.choice((0.0005, 0.005, 0.03)),
            longest_thread_s=dice.choice((0.001, 0.01, 0.1)),
            replica_lag_time_max_ms=dice.choice((2_000, 10_000)),
            checkpoint_interval_ms=dice.choice((500, 5_000)),
        )


class World:
    """Everything there is. `tell` gets a readable line for each event, if anybody wants to read it."""

    def __init__(
        self,
        folder: Path,
        *,
        seed: int,
        settings: Settings | None = None,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        self.folder = folder
        self.dice = random.Random(seed)  # noqa: S311  (a schedule, not a secret)
        self.settings = settings = settings or Settings.drawn(self.dice)
        self.loop = SimulatedLoop(self.dice)
        self.net = Network(self.loop, note=self._hash_bytes)
        self.net.weather = Weather(0.00005, settings.longest_delay_s)
        self.loop.network = self.net
        self.disks = Disks(folder, self.dice, self._on_fuse)
        self.history = History()
        self.kills = self.faults = 0
        self._tell = tell
        self._hash = hashlib.sha256()
        self.nodes = build(
            folder / "nodes",
            self.loop,
            controllers=settings.controllers,
            brokers=settings.brokers,
            controller=ControllerConfig(snapshot_min_entries=settings.snapshot_min_entries),
            broker=BrokerConfig(checkpoint_interval_ms=settings.checkpoint_interval_ms),
            replication=ReplicationConfig(replica_lag_time_max_ms=settings.replica_lag_time_max_ms),
            topic=TopicConfig(segment_bytes=settings.segment_bytes, retention_ms=-1),
        )
        for node in self.nodes.values():
            self.disks.add(node.host, node.folder)
            node.thread_s = (0.0001, settings.longest_thread_s)
            node.on_end = self._on_end
        self.bootstrap = [f"http://{node.host}:9400" for node in self.brokers]
        self.clients = Clients(self.loop, self.dice, self.bootstrap, self.history)
        self.watch = Watch(self)

    @property
    def brokers(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.config.is_broker]

    @property
    def controllers(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.config.is_controller]

    @property
    def trace_hash(self) -> str:
        return self._hash.hexdigest()[:16]

    def note(self, event: str) -> None:
        """Add an event to the history."""
        self._hash.update(event.encode())
        if self._tell is not None:
            self._tell(f"{self.loop.time() - 1000:9.4f} s  {event}")

    def _hash_bytes(self, link: Link, data: bytes) -> None:
        self._hash.update(f"{link}{len(data)}{self.loop.time():.6f}".encode())

    # Machines.

    def start(self, node: Node) -> None:
        self.note(f"start {node.name}")
        node.start()

    def kill(self, node: Node) -> None:
        """End a process, as SIGKILL does: its machine lives, and so does what it wrote."""
        if node.running:
            self.note(f"kill {node.name}")
            self._end(node)
            assert node.process is not None
            self.net.process_died(node.process)

    def lose_power(self, node: Node) -> None:
        """End a machine. What was not synced may be gone, and nobody is told anything."""
        self.note(f"power loss of {node.name}")
        if node.running:
            self._end(node)
            assert node.process is not None
            self.net.power_lost(node.process)
        self.disks.lose_power(node.host)
        node.boots += 1
        self.net.dark.add(node.host)

    def power_on(self, node: Node) -> None:
        if node.host in self.net.dark:
            self.net.dark.discard(node.host)
            self.net.release(
                {(a.host, b.host) for a in self.nodes.values() for b in self.nodes.values() if node in (a, b)}
            )

    def replace_disk(self, node: Node) -> None:
        """Give a machine that does not run an empty disk."""
        self.note(f"new disk for {node.name}")
        self.disks.wipe(node.host)
        node.disk_lost_at = self.loop.time()

    def _end(self, node: Node) -> None:
        process = node.process
        assert process is not None
        self.kills += 1
        process.alive = False
        self.loop.bury(process)
        # Not at once: the process may be in the middle of a `with` that closes its file on the way out.
        self.loop.call_soon(close_files_below, node.folder, context=self.net.nobody)
        self.disks.by_host[node.host].fuse = None
        node.broker = node.controller = None

    def _on_fuse(self, process: Process, kind: Fuse) -> None:
        node = self.node_of(process)
        if kind == "power":
            self.lose_power(node)
        else:
            self.kill(node)

    def _on_exit(self) -> None:
        """The running process has called `os._exit`."""
        process = CURRENT.get()
        assert process is not None
        if not process.alive:
            return
        node = self.node_of(process)
        self.note(f"{node.name} exits")
        disk = self.disks.by_host[node.host]
        if not (disk.failed_once or disk.was_full):
            self.watch.fail(f"{node.name} stopped itself, and its disk is sound")
        self.kill(node)

    def _on_end(self, process: Process) -> None:
        """A node has come to its end by itself, or was asked to."""
        if not process.alive:
            return
        node = self.node_of(process)
        if node.failure is not None:
            self.note(f"{node.name} ended: {str(node.failure)[:200]}")
            self.watch.on_failure(node)
        self.loop.call_soon(self._after_end, node, process)

    def _after_end(self, node: Node, process: Process) -> None:
        if process.alive:
            self._end(node)
            self.net.process_died(process)

    def _boot_id(self) -> str:
        process = CURRENT.get()
        assert process is not None
        return f"{process.host}, boot {self.node_of(process).boots}"

    def node_of(self, process: Process) -> Node:
        return next(node for node in self.nodes.values() if node.host == process.host)

    # What is so.

    def images(self) -> list[MetadataImage]:
        """The images of all controllers that run, newest last."""
        found = [node.controller.controller.image for node in self.controllers if node.controller is not None]
        return sorted(found, key=lambda image: image.offset)

    def forget_lost_disks(self) -> None:
        """Once everybody is in sync again, the next disk may go."""
        if any(node.disk_lost_at >= 0 for node in self.brokers) and self.is_healthy():
            for node in self.brokers:
                node.disk_lost_at = -1.0

    def is_healthy(self) -> bool:
        """Tell whether every partition has a leader and all replicas in sync, and every broker is unfenced."""
        images = self.images()
        if not images or any(not node.running for node in self.nodes.values()):
            return False
        topic = images[-1].topic(TOPIC)
        if topic is None or any(broker.fenced for broker in images[-1].brokers.values()):
            return False
        states = [state for _, _, state in images[-1].partitions()]
        return all(
            state.leader >= 0
            and sorted(state.isr) == sorted(state.replicas)
            and not state.adding
            and not state.removing
            for state in states
        )

    # A run.

    def run(self, chaos: Callable[[World], Coroutine[Any, Any, None]]) -> None:
        """Start everything, let `chaos` happen, heal, and judge.

        Raises:
            BrokenPromiseError: with what was broken; the seed reproduces it.
        """
        with self._hooked():
            try:
                self.loop.run_until_complete(self.loop.create_task(self._live(chaos)))
            finally:
                self._switch_off()
        self.watch.judge()

    def _switch_off(self) -> None:
        """Forget everybody. Collecting what they were in the middle of runs their `finally`: it must touch nothing."""
        for node in self.nodes.values():
            if node.process is not None:
                node.process.alive = False
                close_files_below(node.folder)
            node.forget()
        self.clients.forget()
        self.net.forget()
        self.loop.forget()
        with mock.patch.object(os, "close"), mock.patch.object(sys, "unraisablehook"):
            gc.collect()

    async def _live(self, chaos: Callable[[World], Coroutine[Any, Any, None]]) -> None:
        self.note(str(self.settings))
        for node in self.nodes.values():
            self.start(node)
        watching = asyncio.ensure_future(self.watch.run())
        admin = Process("admin", "10.0.3.1")
        await self.loop.create_task(self._create_topic(), context=admin.context)
        for partition in range(self.settings.partitions):
            for _ in range(self.settings.producers_per_partition):
                self.clients.produce(partition, self.settings.pause_s)
        self.clients.tail()
        await chaos(self)
        await self._heal()
        watching.cancel()
        await self.loop.create_task(self._final_reads(), context=admin.context)
        self.watch.replicas_agree()

    async def _create_topic(self) -> None:
        async with raftlog.Admin(self.bootstrap) as client, asyncio.timeout(TOPIC_S):
            while True:
                try:
                    await client.create_topic(
                        TOPIC,
                        partitions=self.settings.partitions,
                        replication_factor=self.settings.replicas,
                        configs={
                            "min_insync_replicas": self.settings.min_insync_replicas,
                            "flush": self.settings.flush,
                        },
                        if_not_exists=True,
                    )
                except RaftlogError:
                    await asyncio.sleep(0.1)
                else:
                    return

    async def _final_reads(self) -> None:
        await self.clients.stop()
        await read_everything(self.history, bootstrap=self.bootstrap, topic=TOPIC)

    async def _heal(self) -> None:
        """End every fault; require leaders, acknowledgements and full ISRs within their times."""
        self.note("heal")
        self.watch.healing = True
        for node in self.nodes.values():
            if node.process is not None and node.process.paused:
                self.loop.resume(node.process)
            if node.process is not None:
                node.process.thread_s = node.thread_s
            disk = self.disks.by_host[node.host]
            if disk.failing and node.running:
                self.kill(node)
            disk.failing, disk.full, disk.fuse = False, False, None
            self.power_on(node)
        self.net.slow.clear()
        self.net.release(set(self.net.held))
        started = self.loop.time()
        wanted = set(range(self.settings.partitions))
        since_ns = int(started * 1e9)
        while not self.clients.acknowledged_since(since_ns) >= wanted:
            self._restart_all()
            await asyncio.sleep(0.1)
            self._require(
                self.loop.time() - started < LEADERS_S, f"no acknowledgement within {LEADERS_S:g} s of healing"
            )
        while not self.is_healthy():
            self._restart_all()
            await asyncio.sleep(0.1)
            self._require(self.loop.time() - started < IN_SYNC_S, f"not all in sync within {IN_SYNC_S:g} s of healing")
        self.note("healed")

    def _restart_all(self) -> None:
        for node in self.nodes.values():
            if not node.running:
                self.start(node)

    def _require(self, holds: bool, otherwise: str) -> None:
        if not holds:
            self.watch.fail(otherwise)

    @contextmanager
    def _hooked(self) -> Iterator[None]:
        collecting = gc.isenabled()
        if not gc.get_freeze_count():
            gc.freeze()  # Modules stay: looking at them again after each world takes longer than all the rest.
        gc.disable()  # What a collection closes, and when, would be no function of the seed.
        try:
            with machine(self.loop, self.dice, self._on_exit, self._boot_id), self.disks.hooked():
                yield
        finally:
            if collecting:
                gc.enable()
