"""Watches the cluster as a client could: each partition's leader and ISR, and the active controller."""

from __future__ import annotations

import asyncio
import time
from typing import Self

from chaos.cluster import ChaosCluster
from chaos.history import History, Leadership
from chaos.sessions import open_session
from raftlog.errors import RaftlogError
from raftlog.model import Address
from raftlog.wire import paths
from raftlog.wire.metadata import ControllerInfo, TopicInfo

POLL_S = 0.25
ASK_TIMEOUT_MS = 500


class Watch:
    """Queries every node again and again, on the client's links. Use as an async context manager."""

    def __init__(self, cluster: ChaosCluster, topic: str, history: History) -> None:
        nodes = cluster.nodes
        self.leaders: dict[int, tuple[int, int]] = {}
        """By partition: the newest leader epoch that a broker reported, and its leader (-1: none)."""
        self.replicas: dict[int, tuple[int, ...]] = {}
        self._active = (-1, -1)
        self._topic, self._history = topic, history
        self._brokers = {name: nodes.node(name).health for name in nodes.brokers}
        self._controllers = {name: nodes.node(name).health for name in nodes.controllers}
        self._told: dict[tuple[str, int], tuple[int, int, tuple[int, ...]]] = {}
        self._session = open_session(cluster.dial)
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        for name, address in self._brokers.items():
            self._tasks.append(asyncio.create_task(self._watch_broker(name, address)))
        for address in self._controllers.values():
            self._tasks.append(asyncio.create_task(self._watch_controller(address)))
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._session.close()

    @property
    def active_controller(self) -> str | None:
        """The controller of the newest controller epoch that a controller reported."""
        return f"controller-{self._active[1]}" if self._active[1] >= 0 else None

    def leader(self, partition: int) -> str | None:
        """Return a partition's leader, by the newest report; None if it has none."""
        leader = self.leaders.get(partition, (-1, -1))[1]
        return f"broker-{leader}" if leader >= 0 else None

    async def _watch_broker(self, name: str, address: Address) -> None:
        path = paths.fill(paths.TOPIC, topic=self._topic)
        while True:
            try:
                info = await self._session.call(
                    TopicInfo, "GET", address, path, query={"consistency": "local"}, timeout_ms=ASK_TIMEOUT_MS
                )
                self._take(name, info)
            except RaftlogError:
                pass  # It is down, paused or cut off.
            await asyncio.sleep(POLL_S)

    async def _watch_controller(self, address: Address) -> None:
        while True:
            try:
                info = await self._session.call(
                    ControllerInfo,
                    "GET",
                    address,
                    paths.CONTROLLER,
                    query={"consistency": "local"},
                    timeout_ms=ASK_TIMEOUT_MS,
                )
                self._active = max(self._active, (info.controller_epoch, info.controller_id))
            except RaftlogError:
                pass
            await asyncio.sleep(POLL_S)

    def _take(self, broker: str, info: TopicInfo) -> None:
        for state in info.partitions:
            said = state.leader_epoch, state.leader, state.isr
            if self._told.get((broker, state.partition)) == said:
                continue
            self._told[broker, state.partition] = said
            self.replicas.setdefault(state.partition, state.replicas)
            known = self.leaders.get(state.partition, (-1, -1))
            if state.leader_epoch >= known[0]:
                self.leaders[state.partition] = state.leader_epoch, state.leader
            self._history.leaderships.append(
                Leadership(
                    broker=broker,
                    partition=state.partition,
                    leader=state.leader,
                    leader_epoch=state.leader_epoch,
                    isr=state.isr,
                    seen_ns=time.monotonic_ns(),
                )
            )
