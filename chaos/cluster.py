"""A cluster whose every link goes through its own proxy, with the questions that scenarios ask of it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Self

import raftlog
from chaos.connections import direct_connections
from chaos.links import Links
from chaos.topology import CLIENT, Topology
from raftlog.cli.local_cluster import LocalCluster
from raftlog.model import Address
from raftlog.wire.metadata import TopicInfo

POLL_S = 0.05


class ChaosCluster:
    """Three controllers and three brokers behind Toxiproxy. Use as an async context manager."""

    def __init__(self, folder: Path) -> None:
        names = LocalCluster(folder, port=0).names
        self.topology = Topology.of(names)
        hosts = {name: self.topology.host(name) for name in names}
        self.nodes = LocalCluster(folder, port=0, hosts=hosts)
        self.links = Links(folder)
        self.listeners: dict[str, list[Address]] = {
            name: list(self.nodes.node(name).listeners.values()) for name in names
        }
        self.dial = self.topology.dial_map(CLIENT, self.listeners)
        """The client's own dial map: its links can be cut too."""
        for name in names:
            self.nodes.configure(name, dial=self.topology.dial_map(name, self.listeners))

    async def __aenter__(self) -> Self:
        try:
            await asyncio.to_thread(self._start)
        except BaseException:
            await asyncio.to_thread(self._stop)
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self._stop)

    def _start(self) -> None:
        self.links.start()
        self.topology.add_links(self.links, self.listeners)
        self.nodes.start()
        self.nodes.wait_ready()

    def _stop(self) -> None:
        try:
            self.nodes.stop()
        finally:
            self.links.stop()

    @property
    def bootstrap(self) -> list[str]:
        return self.nodes.bootstrap.split(",")

    def bypasses(self) -> list[str]:
        """Return connections between processes that avoid the proxies: there must be none."""
        pids = {name: pid for name in self.nodes.running() if (pid := self.nodes.pid(name)) is not None}
        return direct_connections(pids, self.listeners)

    async def kill(self, *names: str) -> None:
        """SIGKILL all of them at once."""
        await asyncio.gather(*(asyncio.to_thread(self.nodes.kill, name) for name in names))

    async def restart(self, *names: str) -> None:
        """Start killed nodes again, and wait until they call themselves ready."""
        for name in names:
            await asyncio.to_thread(self.nodes.start_node, name)
        await asyncio.to_thread(self.nodes.wait_ready, 60, names)

    async def describe(self, topic: str) -> TopicInfo:
        """Ask any broker that answers, straight and not through a proxy: this is the referee's view."""
        async with raftlog.Admin(self.bootstrap) as admin:
            return await admin.describe_topic(topic, local=True)

    async def leader_of(self, topic: str, partition: int) -> str:
        info = await self.describe(topic)
        return f"broker-{info.partitions[partition].leader}"

    async def wait_full_isr(self, topic: str, *, within_s: float) -> None:
        """Wait until every assigned replica of every partition is in sync.

        Raises:
            TimeoutError: with the partitions that are not.
        """
        info: TopicInfo | None = None
        try:
            async with asyncio.timeout(within_s):
                while info is None or _behind(info):
                    await asyncio.sleep(POLL_S)
                    info = await self.describe(topic)
        except TimeoutError:
            raise TimeoutError(f"not in sync within {within_s:g} s: {_behind(info) if info else 'no answer'}") from None


def _behind(info: TopicInfo) -> list[str]:
    behind = [part for part in info.partitions if len(part.isr) < len(part.replicas)]
    return [f"{info.topic}-{part.partition}: isr {part.isr} of {part.replicas}" for part in behind]
