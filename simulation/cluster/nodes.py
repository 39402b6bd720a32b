"""Brokers and controllers, each on its own simulated machine; they run the code of `raftlog server`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from raftlog.broker.broker_node import BrokerNode
from raftlog.config import (
    BrokerConfig,
    ControllerConfig,
    ListenersConfig,
    NodeConfig,
    QuorumConfig,
    ReplicationConfig,
    TopicConfig,
    VoterConfig,
)
from raftlog.metadata_quorum.controller_node import ControllerNode
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.model import Address
from raftlog.partition.replica import Replica
from raftlog.partition.storage.log_dirs import NodeFolders, open_folders
from simulation.cluster.loop import THREAD_S, Process, SimulatedLoop

CLUSTER_ID = "simulated"
PUBLIC, INTERNAL, QUORUM = 9400, 9410, 9430


class Node:
    """One machine that runs one broker or one controller, again and again."""

    def __init__(self, name: str, node_id: int, host: str, config: NodeConfig, loop: SimulatedLoop) -> None:
        self.name, self.node_id, self.host, self.config = name, node_id, host, config
        self.process: Process | None = None
        self.broker: BrokerNode | None = None
        self.controller: ControllerNode | None = None
        self.starts = self.boots = 0
        self.thread_s = THREAD_S
        self.disk_lost_at = -1.0
        """When its disk was replaced, until all replicas are in sync again."""
        self.rotten = False
        """Bytes on its disk have changed by themselves, and may not all have been found yet."""
        self.spotted = False
        """Batches on its disk are damaged that have an intact copy: all of them are to be repaired."""
        self.failure: BaseException | None = None
        """Why it exited by itself."""
        self.on_end: Callable[[Process], None] = lambda process: None
        self._loop = loop
        self._stop: asyncio.Event | None = None
        self._main: asyncio.Task[None] | None = None

    @property
    def folder(self) -> Path:
        return Path(self.config.data_dir)

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.alive

    @property
    def replicas(self) -> list[Replica]:
        """Its open replicas."""
        return list(self.broker.replicas._replicas.values()) if self.running and self.broker is not None else []

    @property
    def is_damaged(self) -> bool:
        """Return whether it needs another disk: damaged bytes were found when its files were opened."""
        unable = self.running and self.broker is not None and bool(self.broker.replicas.offline)
        return self.rotten and (unable or self.failure is not None)

    def is_registered_in(self, image: MetadataImage) -> bool:
        """Return whether an image contains this broker's present incarnation."""
        known = image.brokers.get(self.node_id)
        return (
            known is not None and self.broker is not None and self.broker.lifecycle.broker_epoch == known.broker_epoch
        )

    def start(self) -> None:
        self.starts += 1
        self.failure = None
        self.process = Process(f"{self.name}#{self.starts}", self.host, thread_s=self.thread_s)
        self._main = self._loop.create_task(self._run(self.process), context=self.process.context)

    def stop(self) -> None:
        """Shut it down in order, as SIGTERM does."""
        if self._stop is not None:
            self._loop.call_soon(self._stop.set)

    def forget(self) -> None:
        """Drop everything that ran."""
        self.broker = self.controller = self._stop = self._main = None

    async def _run(self, process: Process) -> None:
        """Do what `broker.node.serve` does, without signals."""
        self._stop = asyncio.Event()
        try:
            data_dir = open_folders(str(self.folder), self.config.log_dirs, cluster_id=CLUSTER_ID, node_id=self.node_id)
            try:
                await self._serve(data_dir)
            finally:
                data_dir.close()
        except Exception as error:  # noqa: BLE001  (a process that ends says why)
            self.failure = error
        finally:
            self.on_end(process)

    async def _serve(self, data_dir: NodeFolders) -> None:
        assert self._stop is not None
        if self.config.is_controller:
            controller = self.controller = ControllerNode(self.config, data_dir.path)
            await controller.start()
            await self._stop.wait()
            await controller.close()
            return
        broker = self.broker = BrokerNode(self.config, data_dir)
        await broker.start()
        stopped = asyncio.ensure_future(self._stop.wait())
        await asyncio.wait((stopped, broker.lifecycle.fatal), return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        await broker.close()
        if broker.lifecycle.fatal.done():
            raise broker.lifecycle.fatal.result()


def build(
    folder: Path,
    loop: SimulatedLoop,
    *,
    controllers: int,
    brokers: int,
    controller: ControllerConfig,
    broker: BrokerConfig,
    replication: ReplicationConfig,
    topic: TopicConfig,
    racks: bool,
    log_dirs: int = 0,
) -> dict[str, Node]:
    """Return nodes that can be started; the controllers' shared key lies beside their folders."""
    folder.mkdir(parents=True)
    key = folder / "quorum.key"
    key.write_text("k" * 32)
    voters = tuple(
        VoterConfig(
            node_id=101 + i, quorum=Address(f"10.0.1.{1 + i}", QUORUM), internal=Address(f"10.0.1.{1 + i}", INTERNAL)
        )
        for i in range(controllers)
    )
    nodes: dict[str, Node] = {}
    for voter in voters:
        host = voter.internal.host
        name = f"controller-{voter.node_id}"
        nodes[name] = Node(
            name,
            voter.node_id,
            host,
            NodeConfig(
                node_id=voter.node_id,
                roles=("controller",),
                cluster_id=CLUSTER_ID,
                data_dir=str(folder / name),
                quorum=QuorumConfig(voters=voters, key_file=str(key)),
                listeners=ListenersConfig(internal=voter.internal),
                controller=controller,
                broker=broker,
                replication=replication,
                topic=topic,
            ),
            loop,
        )
    for broker_id in range(1, brokers + 1):
        host = f"10.0.0.{broker_id}"
        name = f"broker-{broker_id}"
        nodes[name] = Node(
            name,
            broker_id,
            host,
            NodeConfig(
                node_id=broker_id,
                rack=f"rack-{broker_id}" if racks else "",
                roles=("broker",),
                cluster_id=CLUSTER_ID,
                data_dir=str(folder / name),
                log_dirs=tuple(str(folder / name / f"disk-{number}") for number in range(log_dirs)),
                quorum=QuorumConfig(voters=voters),
                listeners=ListenersConfig(public=Address(host, PUBLIC), internal=Address(host, INTERNAL)),
                controller=controller,
                broker=broker,
                replication=replication,
                topic=topic,
            ),
            loop,
        )
    return nodes
