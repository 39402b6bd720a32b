"""Watches every node's metadata image: the active controller, and whether equal offsets mean equal images."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Self, TypeVar

from chaos.cluster import ChaosCluster
from chaos.sessions import open_session
from raftlog.errors import RaftlogError
from raftlog.model import Address, Offset
from raftlog.wire import paths
from raftlog.wire.admin import DigestResponse
from raftlog.wire.metadata import ControllerInfo

T = TypeVar("T")
POLL_S = 0.5
ASK_TIMEOUT_MS = 1_000


@dataclass(slots=True)
class Sightings:
    """What the nodes reported of themselves during a run."""

    epochs: dict[int, int] = field(default_factory=dict)
    """By controller epoch, the controller that began it."""
    digests: dict[Offset, tuple[str, str]] = field(default_factory=dict)
    """By metadata offset, the digest, and the node that reported it first."""
    diverged: list[str] = field(default_factory=list)

    def add(self, node: str, answer: DigestResponse) -> None:
        """Compare a digest with those that all nodes reported at the same offset."""
        digest, first = self.digests.setdefault(answer.metadata_offset, (answer.digest, node))
        if digest != answer.digest:
            self.diverged.append(f"{first} and {node} differ at offset {answer.metadata_offset}")

    @property
    def new_active_controllers(self) -> int:
        """How often another controller became active."""
        ids = [self.epochs[epoch] for epoch in sorted(self.epochs)]
        return sum(before != after for before, after in pairwise(ids))


class Referee:
    """Queries all nodes again and again, on the client's links. Use as an async context manager."""

    def __init__(self, cluster: ChaosCluster) -> None:
        nodes = cluster.nodes
        self.sightings = Sightings()
        self._controllers = {name: nodes.node(name).health for name in nodes.controllers}
        self._nodes = {name: nodes.node(name).health for name in nodes.names}
        self._names = {nodes.node(name).node_id: name for name in nodes.controllers}
        self._session = open_session(cluster.dial)
        self._watching: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._watching = asyncio.create_task(self._watch(), name="referee")
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._watching is not None
        self._watching.cancel()
        await asyncio.gather(self._watching, return_exceptions=True)
        await self._session.close()

    async def active(self) -> str | None:
        """Return the controller of the newest epoch that any node reports."""
        answers = await self._ask(self._controllers, ControllerInfo, f"{paths.CONTROLLER}?consistency=local")
        known = [info for info in answers.values() if info.controller_id >= 0]
        self.sightings.epochs.update({info.controller_epoch: info.controller_id for info in known})
        newest = max(known, key=lambda info: info.controller_epoch, default=None)
        return None if newest is None else self._names[newest.controller_id]

    async def until_all_agree(self, *, within_s: float) -> tuple[Offset, str]:
        """Wait until all nodes report the same digest at the same offset; return both.

        Raises:
            TimeoutError: they do not; the message lists each node's offset.
        """
        started, found = time.monotonic(), dict[str, tuple[Offset, str]]()
        while time.monotonic() - started < within_s:
            found = {name: (a.metadata_offset, a.digest) for name, a in (await self._look()).items()}
            if len(found) == len(self._nodes) and len({*found.values()}) == 1:
                return next(iter(found.values()))
            await asyncio.sleep(0.05)
        states = ", ".join(f"{name}: {found.get(name, 'no answer')}" for name in self._nodes)
        raise TimeoutError(f"nodes do not agree within {within_s:g} s: {states}")

    async def _watch(self) -> None:
        while True:
            await self.active()
            await self._look()
            await asyncio.sleep(POLL_S)

    async def _look(self) -> dict[str, DigestResponse]:
        answers = await self._ask(self._nodes, DigestResponse, paths.METADATA_DIGEST)
        for name, answer in answers.items():
            self.sightings.add(name, answer)
        return answers

    async def _ask(self, nodes: Mapping[str, Address], cls: type[T], path: str) -> dict[str, T]:
        async def ask(address: Address) -> T | None:
            try:
                return await self._session.call(cls, "GET", address, path, timeout_ms=ASK_TIMEOUT_MS)
            except RaftlogError:
                return None  # It is down, paused or cut off.

        answers = await asyncio.gather(*map(ask, nodes.values()))
        return {name: answer for name, answer in zip(nodes, answers, strict=True) if answer is not None}
