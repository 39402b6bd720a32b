"""Brokers and controllers, each on its own simulated machine; they run the code of `raftlog server`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
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
        self.was_killed = False
        """Its last process was killed when all its logs were open, and its machine has not lost its power since."""
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


@dataclass(frozen=True, kw_only=True)
class SharedConfigs:
    """The settings that every node of a world has."""

    controller: ControllerConfig
    broker: BrokerConfig
    replication: ReplicationConfig
    topic: TopicConfig


def build(
    folder: Path,
    loop: SimulatedLoop,
    *,
    controllers: int,
    brokers: int,
    shared: SharedConfigs,
    racks: bool,
    log_dirs: int = 0,
) -> dict[str, Node]:
    """Return nodes that can be started; the controllers' shared key lies beside their folders."""
    folder.mkdir(parents=True)
    key = folder / "quorum.key"
    key.write_text("k" * 32)
    hosts = [f"10.0.1.{1 + number}" for number in range(controllers)]
    voters = tuple(
        VoterConfig(node_id=101 + number, quorum=Address(host, QUORUM), internal=Address(host, INTERNAL))
        for number, host in enumerate(hosts)
    )
    configs = [_controller(folder, voter, QuorumConfig(voters=voters, key_file=str(key)), shared) for voter in voters]
    for number in range(1, brokers + 1):
        rack = f"rack-{number}" if racks else ""
        configs.append(_broker(folder, number, QuorumConfig(voters=voters), shared, rack=rack, log_dirs=log_dirs))
    return {
        (name := Path(config.data_dir).name): Node(name, config.node_id, _internal_host(config), config, loop)
        for config in configs
    }


def _internal_host(config: NodeConfig) -> str:
    assert config.listeners.internal is not None
    return config.listeners.internal.host


def _controller(folder: Path, voter: VoterConfig, quorum: QuorumConfig, shared: SharedConfigs) -> NodeConfig:
    return NodeConfig(
        node_id=voter.node_id,
        roles=("controller",),
        cluster_id=CLUSTER_ID,
        data_dir=str(folder / f"controller-{voter.node_id}"),
        quorum=quorum,
        listeners=ListenersConfig(internal=voter.internal),
        **vars(shared),
    )


def _broker(
    folder: Path, number: int, quorum: QuorumConfig, shared: SharedConfigs, *, rack: str, log_dirs: int
) -> NodeConfig:
    host, data_dir = f"10.0.0.{number}", folder / f"broker-{number}"
    return NodeConfig(
        node_id=number,
        rack=rack,
        roles=("broker",),
        cluster_id=CLUSTER_ID,
        data_dir=str(data_dir),
        log_dirs=tuple(str(data_dir / f"disk-{disk}") for disk in range(log_dirs)),
        quorum=quorum,
        listeners=ListenersConfig(public=Address(host, PUBLIC), internal=Address(host, INTERNAL)),
        **vars(shared),
    )
