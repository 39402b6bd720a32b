"""A whole cluster in simulation: its machines, network, disks and clients, and its promises."""

from __future__ import annotations

import hashlib
import random
import re
import shutil
from collections.abc import Callable, Collection
from pathlib import Path

from chaos.history import History
from raftlog.config import BrokerConfig, ControllerConfig, ReplicationConfig, TopicConfig
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.model import TopicPartition
from raftlog.partition.replica import Replica
from simulation.cluster.bursts import Bursts
from simulation.cluster.compaction import BACKOFF_MS, Keeper
from simulation.cluster.disk import Disks, Fuse, close_files_below
from simulation.cluster.loop import CURRENT, Process, SimulatedLoop
from simulation.cluster.members import Group
from simulation.cluster.net import Link, Network, Weather
from simulation.cluster.nodes import Node, SharedConfigs, build
from simulation.cluster.payments import Payments
from simulation.cluster.pipelined import Pipelined
from simulation.cluster.plain import PlainClients
from simulation.cluster.relays import Relays
from simulation.cluster.removal import Remover
from simulation.cluster.settings import Settings
from simulation.cluster.takeovers import Takeovers
from simulation.cluster.unclean import Unclean
from simulation.cluster.watch import Watch
from simulation.cluster.workload import TOPIC, Clients

_LENGTH = re.compile(rb"Content-Length: \d+")
"""Depends on the length of the folder's name, where a body names a file; the body itself is hashed."""


def _configs_of(settings: Settings) -> SharedConfigs:
    return SharedConfigs(
        controller=ControllerConfig(
            snapshot_min_entries=settings.snapshot_min_entries,
            broker_session_timeout_ms=settings.broker_session_timeout_ms,
        ),
        broker=BrokerConfig(
            checkpoint_interval_ms=settings.checkpoint_interval_ms,
            retention_check_interval_ms=settings.retention_check_interval_ms,
            log_cleaner_backoff_ms=15_000 if settings.compaction is None else BACKOFF_MS,
            log_scrub_interval_ms=settings.scrub_interval_ms,
            offsets_topic_num_partitions=2 if settings.crowd or settings.staff else 50,
            transaction_state_log_num_partitions=3,  # Watching every replica costs time.
        ),
        replication=ReplicationConfig(replica_lag_time_max_ms=settings.replica_lag_time_max_ms),
        topic=TopicConfig(segment_bytes=settings.segment_bytes, retention_ms=-1),
    )


class World:
    """One simulated world. `tell` gets a readable line for each event, if it is set."""

    def __init__(
        self,
        folder: Path,
        *,
        seed: int,
        settings: Settings | None = None,
        without: Collection[str] = (),
        tell: Callable[[str], None] | None = None,
    ) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        self.folder = folder
        self._folder_name = str(folder).encode()
        """Errors on the network name files: a history must be the same in any folder."""
        self.dice = random.Random(seed)  # noqa: S311  (a schedule, not a secret)
        self.settings = settings = settings or Settings.drawn(self.dice, seed, without)
        self.loop = SimulatedLoop(self.dice)
        if settings.longest_turn_s:
            self.loop.turns = random.Random(f"turns of {seed}")  # noqa: S311  (a schedule, not a secret)
            self.loop.longest_turn_s = settings.longest_turn_s
        outliving = random.Random(f"what outlives processes in {seed}")  # noqa: S311  (a schedule, not a secret)
        self.net = Network(self.loop, note=self._hash_bytes, outliving=outliving)
        self.net.weather = Weather(0.00005, settings.longest_delay_s)
        self.loop.network = self.net
        self.disks = Disks(folder, self.dice, self._on_fuse)
        self.history = History()
        self.kills = 0
        self.spared: dict[str, frozenset[int]] = {}
        """By folder of a partition whose batches rotted on all disks: the brokers that have intact copies."""
        self._newest_image = MetadataImage()
        self._tell = tell
        self._hash = hashlib.sha256()
        self.nodes = build(
            folder / "nodes",
            self.loop,
            controllers=settings.controllers,
            brokers=settings.brokers,
            shared=_configs_of(settings),
            racks=settings.racks,
            log_dirs=settings.log_dirs,
        )
        for node in self.nodes.values():
            self.disks.add(node.host, node.folder)
            node.thread_s = (0.0001, settings.longest_thread_s)
            node.on_end = self._on_end
        self._add_clients()
        self.watch = Watch(self)

    def _add_clients(self) -> None:
        """Make the world's clients; those that it does not have do nothing."""
        self.bootstrap = [f"http://{node.host}:9400" for node in self.brokers]
        self.clients = Clients(self.loop, self.dice, self.bootstrap, self.history)
        self.payments = Payments(self)
        self.remover = Remover(self)
        self.bursts = Bursts(self)
        self.plain = PlainClients(self)
        self.group = Group(self)
        self.relays = Relays(self)
        self.keeper = Keeper(self)
        self.pipelined = Pipelined(self)
        self.unclean = Unclean(self)
        self.takeovers = Takeovers(self)
        if self.settings.removal is not None:
            self.clients.on_out_of_range = "earliest"

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
        """Add an event to the history, which is the same in any folder."""
        event = event.replace(f"{self.folder}/", "")
        self._hash.update(event.encode())
        if self._tell is not None:
            self._tell(f"{self.loop.time() - 1000:9.4f} s  {event}")

    def _hash_bytes(self, link: Link, data: bytes) -> None:
        self._hash.update(f"{link}{self.loop.time():.6f}".encode())
        self._hash.update(_LENGTH.sub(b"", data.replace(self._folder_name, b"")))

    # Machines.

    def start(self, node: Node) -> None:
        self.note(f"start {node.name}")
        self.disks.by_host[node.host].begin()
        node.start()

    def kill(self, node: Node) -> None:
        """Kill a process: its machine runs on, and keeps what it wrote."""
        if node.running:
            self.note(f"kill {node.name}")
            node.was_killed = bool(node.replicas) and node.broker is not None and not node.broker.replicas.offline
            self._end(node)
            assert node.process is not None
            self.net.process_died(node.process)

    def lose_power(self, node: Node) -> None:
        """Cut a machine's power. Unsynced writes may be lost, and no peer gets a notice."""
        self.note(f"power loss of {node.name}")
        node.was_killed = False
        if node.running:
            self._end(node)
            assert node.process is not None
            self.net.power_lost(node.process)
        running = CURRENT.set(None)  # The process that runs now may be the one that dies.
        try:
            self.disks.lose_power(node.host)
            node.boots += 1
            self.net.dark.add(node.host)
            if node.rotten:
                # A node that restarts cannot tell damaged bytes at the end of its log apart from a torn write.
                self.replace_disk(node)
        finally:
            CURRENT.reset(running)

    def power_on(self, node: Node) -> None:
        if node.host in self.net.dark:
            self.net.dark.discard(node.host)
            self.net.release(
                {(a.host, b.host) for a in self.nodes.values() for b in self.nodes.values() if node in (a, b)}
            )

    def replace_disk(self, node: Node) -> None:
        """Give a stopped machine an empty disk."""
        self.note(f"new disk for {node.name}")
        self.disks.wipe(node.host)
        node.disk_lost_at = self.loop.time()
        node.rotten = False

    def _end(self, node: Node) -> None:
        process = node.process
        assert process is not None
        self.kills += 1
        process.alive = False
        self.loop.bury(process)
        # Not at once: the process may be inside a `with` that closes its file on the way out.
        self.loop.call_soon(close_files_below, node.folder, context=self.net.nobody)
        self.disks.by_host[node.host].fuse = None
        node.broker = node.controller = None

    def _on_fuse(self, process: Process, kind: Fuse) -> None:
        node = self.node_of(process)
        if kind == "power":
            self.lose_power(node)
        else:
            self.kill(node)

    def on_exit(self) -> None:
        """The running process has called `os._exit`."""
        process = CURRENT.get()
        assert process is not None
        if not process.alive:
            return
        node = self.node_of(process)
        self.note(f"{node.name} exits")
        disk = self.disks.by_host[node.host]
        if not (disk.failed_once or disk.was_full or node.rotten):
            self.watch.fail(f"{node.name} exited by itself, and its disk is intact")
        self.kill(node)

    def _on_end(self, process: Process) -> None:
        """A node has exited by itself, or on request."""
        if not process.alive:
            return
        node = self.node_of(process)
        if node.failure is not None:
            self.note(f"{node.name} ended: {node.failure}")
            self.watch.on_failure(node)
        self.loop.call_soon(self._after_end, node, process)

    def _after_end(self, node: Node, process: Process) -> None:
        if process.alive:
            self._end(node)
            self.net.process_died(process)

    def boot_id(self) -> str:
        process = CURRENT.get()
        assert process is not None
        return f"{process.host}, boot {self.node_of(process).boots}"

    def node_of(self, process: Process) -> Node:
        return next(node for node in self.nodes.values() if node.host == process.host)

    # The present state.

    def images(self) -> list[MetadataImage]:
        """The images of all running controllers, newest last."""
        found = [node.controller.controller.image for node in self.controllers if node.controller is not None]
        return sorted(found, key=lambda image: image.offset)

    def newest_image(self) -> MetadataImage:
        """The newest image that any controller has had, running or not."""
        self._newest_image = max((self._newest_image, *self.images()), key=lambda image: image.offset)
        return self._newest_image

    def forget_lost_disks(self) -> None:
        """Allow the next loss of a disk, once all replicas are in sync again."""
        if any(node.disk_lost_at >= 0 for node in self.brokers) and self.is_healthy():
            for node in self.brokers:
                node.disk_lost_at = -1.0

    def leaders_of(self, topic: str) -> dict[TopicPartition, Replica]:
        """Return the replicas that lead a topic's partitions now."""
        known = self.newest_image().topic(topic)
        return {
            replica.assignment.topic_partition: replica
            for _, replica in self.watch.replicas()
            if known is not None and replica.assignment.topic_id == known.topic_id and replica.core is not None
        }

    def is_healthy(self) -> bool:
        """Return whether every partition has a leader and all replicas in sync, and every broker is unfenced."""
        image = self.newest_image()
        if any(not node.running for node in self.nodes.values()):
            return False
        if image.topic(TOPIC) is None or any(broker.fenced for broker in image.brokers.values()):
            return False
        if not all(node.is_registered_in(image) for node in self.brokers):
            return False  # It may describe an earlier incarnation.
        states = [state for _, _, state in image.partitions()]
        return all(
            state.leader >= 0
            and sorted(state.isr) == sorted(state.replicas)
            and not state.adding
            and not state.removing
            for state in states
        )
