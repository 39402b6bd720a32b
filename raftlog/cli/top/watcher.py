"""Reads the metrics of all nodes of a cluster again and again. A node that hangs delays no other one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Self, TypeVar

from raftlog.client.options import client_id_of
from raftlog.client.security import Security
from raftlog.errors import RaftlogError
from raftlog.metrics.overview import METRICS, ClusterReading, Kind, NodeReading
from raftlog.metrics.rates import Page, Pages
from raftlog.metrics.text import parse
from raftlog.model import Address
from raftlog.runtime import Tasks
from raftlog.transport import HttpSession
from raftlog.wire import paths
from raftlog.wire.admin import QuorumResponse
from raftlog.wire.metadata import ClusterInfo

T = TypeVar("T")
MAX_NODES = 50
"""Nodes that are read; the rest of a larger cluster is not shown."""
MAX_PAGE_BYTES = 4 << 20
ANSWER_S, SILENT_S = 3.0, 2.0
"""How long an answer may take, and after how long a node is shown as silent. A node rests for 1 s between two pages."""
MEMBERS_EVERY_S = 2.0


class _Node:
    """One node, and the newest pages of it."""

    def __init__(self, kind: Kind, node_id: int, url: str) -> None:
        self.kind: Kind = kind
        self.node_id = node_id
        self.url = url
        self.fenced = False
        self.pages: Pages | None = None
        self.error = ""
        self.asked_at: float | None = None
        """When the request that is under way was sent; None: there is none."""

    def reading(self) -> NodeReading:
        """Return what is known."""
        error = self.error
        if not error and self.asked_at is not None and (silent_s := time.monotonic() - self.asked_at) > SILENT_S:
            error = f"silent for {silent_s:.0f} s"
        return NodeReading(kind=self.kind, node_id=self.node_id, fenced=self.fenced, pages=self.pages, error=error)


class Watcher:
    """The nodes of a cluster. Use as an async context manager.

    Args:
        bootstrap: URLs of brokers.
        security: TLS files and credentials.
    """

    def __init__(self, bootstrap: Sequence[str], security: Security) -> None:
        self._bootstrap = [Address.of_url(url) for url in bootstrap]
        self._nodes: dict[tuple[Kind, int], _Node] = {}
        self._left_out = 0
        self._voters_known = False
        self._cluster_id = ""
        self._error = ""
        self._members_at = float("-inf")
        self._finding: asyncio.Task[None] | None = None
        self._tasks = Tasks("top")
        self._session = HttpSession(
            tls=security.tls_context(),
            credentials=security.credentials(),
            client_id=client_id_of(""),
            connections_per_host=2,
            max_answer_bytes=MAX_PAGE_BYTES,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._tasks.close()
        await self._session.close()

    def look(self) -> None:
        """Begin to read each node that is not being read; return at once."""
        if self._finding is None and time.monotonic() - self._members_at >= MEMBERS_EVERY_S:
            self._finding = self._tasks.spawn(self._find_members(), name="members")
        for node in self._nodes.values():
            if node.asked_at is None:
                node.asked_at = time.monotonic()
                self._tasks.spawn(self._read(node), name=f"{node.kind} {node.node_id}")

    async def look_and_wait(self) -> None:
        """Read every node once; return when each has answered or failed."""
        await self._find_members()
        reads = []
        for node in self._nodes.values():
            node.asked_at = time.monotonic()
            reads.append(self._read(node))
        await asyncio.gather(*reads)

    def reading(self) -> ClusterReading:
        """Return what is known now."""
        nodes = sorted(self._nodes.values(), key=lambda node: (node.kind, node.node_id))
        return ClusterReading(
            cluster_id=self._cluster_id,
            error=self._error,
            nodes=tuple(node.reading() for node in nodes),
            left_out=self._left_out,
            voters_known=self._voters_known,
        )

    async def _find_members(self) -> None:
        """Ask one broker after another for the cluster's members, until one answers."""
        try:
            error = ""
            for address in self._sources():
                try:
                    cluster = await self._call(ClusterInfo, address, paths.CLUSTER, consistency="local")
                except RaftlogError as failed:
                    error = error or failed.message
                    continue
                self._cluster_id, self._error = cluster.cluster_id, ""
                await self._note_members(address, cluster)
                return
            self._error = error
        finally:
            self._members_at, self._finding = time.monotonic(), None

    def _sources(self) -> list[Address]:
        """Return brokers to ask: those that answer first, then those of the user."""
        found = [node for node in self._nodes.values() if node.kind == "broker" and not node.reading().error]
        addresses = []
        for node in found:
            with suppress(ValueError):
                addresses.append(Address.of_url(node.url))
        return list(dict.fromkeys([*addresses, *self._bootstrap]))[:5]

    async def _note_members(self, address: Address, cluster: ClusterInfo) -> None:
        """Keep or add a node for each member: the controllers first, since they say what all brokers do."""
        members: dict[tuple[Kind, int], tuple[str, bool]] = {}
        try:
            quorum = await self._call(QuorumResponse, address, paths.QUORUM)
            for voter in quorum.voters:
                url = voter.address if "://" in voter.address else f"http://{voter.address}"
                members["controller", voter.node_id] = (url, False)
            self._voters_known = len(members) <= MAX_NODES
        except RaftlogError:  # Without a leader, or without the right: the known ones stay.
            members |= {key: (node.url, False) for key, node in self._nodes.items() if key[0] == "controller"}
            if cluster.controller.url:
                members.setdefault(("controller", cluster.controller.controller_id), (cluster.controller.url, False))
        members |= {("broker", broker.broker_id): (broker.url, broker.fenced) for broker in cluster.brokers}
        self._left_out = max(0, len(members) - MAX_NODES)
        kept: dict[tuple[Kind, int], _Node] = {}
        for key, (url, fenced) in list(members.items())[:MAX_NODES]:
            node = self._nodes.get(key)
            kept[key] = node if node is not None and node.url == url else _Node(*key, url)
            kept[key].fenced = fenced
        self._nodes = kept

    async def _call(self, cls: type[T], address: Address, path: str, **query: str) -> T:
        given: dict[str, Any] = {"query": query} if query else {}
        return await self._session.call(cls, "GET", address, path, timeout_ms=round(1_000 * ANSWER_S), **given)

    async def _read(self, node: _Node) -> None:
        try:
            answer = await self._session.request(
                "GET",
                Address.of_url(node.url),
                paths.METRICS,
                timeout_ms=round(1_000 * ANSWER_S),
                accept="text/plain",
            )
        except RaftlogError as error:
            node.error = error.message
        except ValueError as error:
            node.error = f"{node.url} is not an address: {error}"
        else:
            samples = parse(bytes(answer.body).decode("utf-8", "replace"), METRICS)
            page = Page(samples=samples, at_s=time.monotonic())
            node.pages = (
                Pages(before=None, now=page)
                if node.pages is None
                else replace(node.pages, before=node.pages.now, now=page)
            )
            node.error = ""
        finally:
            node.asked_at = None
