"""Quorums of real voters on loopback, in one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Self

from raftlog.config import VoterConfig
from raftlog.metadata_quorum.quorum import PySyncObjQuorum, VoterSettings
from raftlog.metadata_quorum.raft.engine import EngineSettings
from raftlog.model import Address

KEY = b"k" * 32


class Recorder:
    """A state machine that keeps its commands."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, bytes]] = []
        self.leader: int | None = None
        self.changed = asyncio.Event()

    def apply(self, index: int, payload: bytes) -> None:
        self.entries.append((index, payload))
        self.changed.set()

    def take_snapshot(self) -> bytes:
        return repr(self.entries).encode()

    def load_snapshot(self, index: int, data: bytes) -> None:
        self.entries = eval(data.decode(), {})
        assert all(entry[0] <= index for entry in self.entries)
        self.changed.set()

    def leadership_changed(self, leader: int | None) -> None:
        self.leader = leader
        self.changed.set()

    async def until(self, holds: Callable[[], bool], *, within_s: float = 10.0) -> None:
        async with asyncio.timeout(within_s):
            while not holds():
                self.changed.clear()
                await self.changed.wait()


class Cluster:
    """Voters 1..n; each can be closed and started again on its folder."""

    def __init__(
        self,
        folder: Path,
        ports: list[int],
        *,
        key: bytes = KEY,
        snapshot_min_entries: int = 20_000,
        election_s: tuple[float, float] = (0.35, 0.7),
    ) -> None:
        self.scrub_interval_ms = -1
        self.feature_levels: dict[int, int] = {}
        """The highest one of each voter."""
        self.election_s = election_s
        self.folder = folder
        self.key = key
        self.snapshot_min_entries = snapshot_min_entries
        self.voters = [
            VoterConfig(node_id=i + 1, quorum=Address("127.0.0.1", port), internal=Address("127.0.0.1", 1))
            for i, port in enumerate(ports)
        ]
        self.quorums: dict[int, PySyncObjQuorum] = {}
        self.machines: dict[int, Recorder] = {}
        self.fatal: list[str] = []

    async def start(self, node_id: int, *, key: bytes | None = None) -> None:
        machine = self.machines[node_id] = Recorder()
        settings = VoterSettings(
            node_id=node_id,
            voters=self.voters,
            listen=self.voters[node_id - 1].quorum,
            key=key or self.key,
            cluster_id="c",
            data_dir=self.folder / str(node_id),
            scrub_interval_ms=self.scrub_interval_ms,
            engine=EngineSettings(
                election_timeout_s=self.election_s,
                leader_fallback_s=self.election_s[1],
                snapshot_min_entries=self.snapshot_min_entries,
                max_feature_level=self.feature_levels.get(node_id, 0),
            ),
        )
        self.quorums[node_id] = PySyncObjQuorum(settings, machine, fatal=self.fatal.append)
        await self.quorums[node_id].start()

    async def close(self, node_id: int) -> None:
        await self.quorums.pop(node_id).close()

    async def __aenter__(self) -> Self:
        for voter in self.voters:
            await self.start(voter.node_id)
        return self

    async def __aexit__(self, *_: object) -> None:
        for node_id in list(self.quorums):
            await self.close(node_id)

    async def leader(self) -> int:
        """Wait until every voter that runs agrees on a leader."""
        async with asyncio.timeout(15):
            while True:
                known = {quorum.leader for quorum in self.quorums.values()}
                if len(known) == 1 and (leader := known.pop()) in self.quorums:
                    return leader
                await asyncio.sleep(0.01)

    async def all_applied(self, count: int) -> None:
        for node_id in self.quorums:
            machine = self.machines[node_id]
            await machine.until(lambda machine=machine: len(machine.entries) >= count)


def flip(path: Path, at: int) -> None:
    """Change a bit of a byte in place: a process may have the file open."""
    content = bytearray(path.read_bytes())
    content[at] ^= 8
    with path.open("r+b") as file:
        file.write(content)


async def write(cluster: Cluster, first: int, count: int) -> None:
    """Commit numbered entries, and wait until every voter has applied them."""
    leader = cluster.quorums[await cluster.leader()]
    for number in range(first, first + count):
        await leader.propose(b"%d" % number, timeout_ms=5_000)
    await cluster.all_applied(first + count)
