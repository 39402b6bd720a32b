"""A cluster under faults: how its nodes are changed, and how everything is undone. The faults are in `faults`."""

from __future__ import annotations

import asyncio
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import raftlog
from chaos.cluster import ChaosCluster
from chaos.disks import Disk
from chaos.links import Links
from chaos.scrub import read_every_replica
from chaos.shim import FAILING_SYNC, ShimFaults
from chaos.topology import CLIENT
from chaos.watch import Watch
from chaos.workload import Workload
from raftlog.cli.local_cluster import ClusterError
from raftlog.errors import RaftlogError

READY_WITHIN_S = 60.0
ACCEPTED_WITHIN_S = 30.0
IN_SYNC_WITHIN_S = 60.0
POLL_S = 0.1


class BrokenPromiseError(Exception):
    """An event did not happen before its deadline, or a forbidden one happened."""


class Site:
    """One cluster with its load, and its active faults."""

    def __init__(
        self, cluster: ChaosCluster, workload: Workload, watch: Watch, topic: str, *, beside: Sequence[str] = ()
    ) -> None:
        self.cluster, self.workload, self.watch, self.topic = cluster, workload, watch, topic
        self.topics = (topic, *beside)
        """The checked topic, and others that must become healthy after each fault too."""
        self._paused: set[str] = set()
        self._shimmed: set[str] = set()
        self._without_power: set[str] = set()
        self._filled: set[str] = set()
        self._damaged: set[str] = set()
        self._moved: dict[tuple[str, int], tuple[int, ...]] = {}
        self.may_end: set[str] = set()
        """Nodes that may exit by themselves until everything is healed: their faults are a reason to."""

    @property
    def links(self) -> Links:
        return self.cluster.links

    def disk(self, name: str) -> Disk:
        """Return a node's disk, about to be filled."""
        assert self.cluster.disks is not None, "the fault needs disks"
        self.cluster.disk_faults = True
        self._filled.add(name)
        return self.cluster.disks[name]

    async def each_link(self, nodes: Sequence[str], act: Callable[[str, str], None]) -> None:
        """Act on each link between one of these nodes and another one; between any two, if these are all of them.

        The clients' links are left alone, unless the clients are the target: the workload uses them.
        """
        names = self.cluster.nodes.names
        if CLIENT in nodes:
            pairs = [(CLIENT, broker) for broker in self.cluster.nodes.brokers]
        elif others := [name for name in names if name not in nodes]:
            pairs = [(node, other) for node in nodes for other in others]
        else:
            pairs = [(a, b) for a in names for b in names if a < b]
        for pair in pairs:
            await asyncio.to_thread(act, *pair)

    async def terminate(self, nodes: Sequence[str]) -> None:
        """Send SIGTERM; nodes must exit in order, unless they are paused or have a fault of their disk."""
        excused = self._paused | self._shimmed | self._filled | self.may_end
        await self.cluster.kill(*nodes, sig=signal.SIGTERM, excused=excused)

    async def pause(self, nodes: Sequence[str]) -> None:
        for name in nodes:
            if self.cluster.nodes.pid(name) is not None and name not in self._paused:
                self._paused.add(name)
                await asyncio.to_thread(self.cluster.nodes.pause, name)

    def fail_sync(self, nodes: Iterable[str]) -> None:
        self.cluster.disk_faults = True
        self._set_shim(nodes, FAILING_SYNC)

    def slow_sync(self, nodes: Iterable[str], slow_ms: int) -> None:
        self._set_shim(nodes, ShimFaults(sync_slow_ms=slow_ms))

    def shift_clock(self, nodes: Iterable[str], shift_s: int) -> None:
        self._set_shim(nodes, ShimFaults(clock_shift_s=shift_s))

    async def cut_power(self, nodes: Sequence[str]) -> None:
        """Kill nodes and cut the power of their disks together. They stay down until `heal`."""
        assert self.cluster.disks is not None, "the fault needs disks"
        fresh = [name for name in nodes if name not in self._without_power]
        await self.cluster.kill(*fresh)
        for name in fresh:
            self._without_power.add(name)
            await asyncio.to_thread(self.cluster.disks[name].cut_power)

    async def damage(self, nodes: Sequence[str], dice: random.Random, *, truncate: bool) -> str:
        """Kill nodes and damage one file of each."""
        self.cluster.disk_faults = True
        await self.cluster.kill(*nodes)
        told = []
        for name in nodes:
            folder = self.cluster.data_dir(name)
            if file := _file_to_damage(folder, dice):
                self._damaged.add(name)
                told.append(f"{name}/{file.relative_to(folder)} {_damage(file, dice, truncate=truncate)}")
        return ", ".join(told)

    async def move_away(self, nodes: Sequence[str], dice: random.Random) -> str:
        """Move every replica off these brokers that can be moved: at least one of each partition stays."""
        gone = {int(name.removeprefix("broker-")) for name in nodes if name.startswith("broker-")}
        target = dict[tuple[str, int], list[int]]()
        for partition, replicas in self.watch.replicas.items():
            left = [replica for replica in replicas if replica not in gone]
            if left and len(left) < len(replicas):
                dice.shuffle(left)
                target[self.topic, partition] = left
                self._moved[self.topic, partition] = replicas
        await self._reassign(target)
        return f"to {target}"

    async def restart_one_by_one(self, nodes: Sequence[str]) -> None:
        for name in nodes:
            await self.cluster.kill(name, sig=signal.SIGTERM)
            await self.cluster.restart(name)
            await self.until_in_sync()

    async def heal(self) -> None:
        """Undo everything. Stopped nodes are started, but are perhaps not ready: see `until_well`.

        Raises:
            BrokenPromiseError: a node has exited by itself, before or meanwhile; everything is undone nevertheless.
        """
        crashes = self._crashes()
        await self._undo()
        crashes |= self._crashes()
        await self._start_all()
        if self._moved:
            await self._reassign(self._moved)
            self._moved = {}
        if crashes:
            raise BrokenPromiseError("\n".join(crashes.values()))

    async def _undo(self) -> None:
        for name in self._paused:  # First: a proxy keeps a link's toxic until it could deliver the bytes it holds.
            if self.cluster.nodes.pid(name) is not None:
                await asyncio.to_thread(self.cluster.nodes.resume, name)
        await asyncio.to_thread(self.links.heal)
        if self.cluster.shim:
            for name in self._shimmed:
                self.cluster.shim.clear(name)
        if self.cluster.disks:
            for name in self._without_power:
                await asyncio.to_thread(self.cluster.disks[name].power_up)
            for name in self._filled:
                await asyncio.to_thread(self.cluster.disks[name].free)
        for nodes in (self._paused, self._shimmed, self._without_power, self._filled):
            nodes.clear()

    async def power_up(self, name: str) -> None:
        """Power one node up again."""
        assert self.cluster.disks is not None, "its power was cut"
        self._without_power.discard(name)
        await asyncio.to_thread(self.cluster.disks[name].power_up)

    async def until_well(self) -> int:
        """Wait until all nodes are ready, every partition acknowledges, and every kind of client is served.

        Returns:
            The milliseconds until every partition acknowledged.

        Raises:
            BrokenPromiseError: it did not happen before the deadline.
        """
        try:
            await self._until_ready()
            seconds = await self.workload.acknowledged.everywhere(within_s=ACCEPTED_WITHIN_S)
        except TimeoutError:
            raise BrokenPromiseError(f"not every partition acknowledged within {ACCEPTED_WITHIN_S:g} s") from None
        try:
            await self.workload.acknowledged.to_each_kind(within_s=ACCEPTED_WITHIN_S)
        except TimeoutError as error:
            raise BrokenPromiseError(str(error)) from None
        await self.until_in_sync()
        if self._damaged:
            await self.find_damage()
        self._damaged.clear()
        self.may_end.clear()
        return round(seconds * 1000)

    async def find_damage(self) -> None:
        """Have every replica read its log. Damage that no read has found would still be there at the next damage."""
        problems = ["not read yet"]
        try:
            async with asyncio.timeout(IN_SYNC_WITHIN_S):
                while problems := [p for topic in self.topics for p in await read_every_replica(self.cluster, topic)]:
                    self.workload.history.note(f"found: {'; '.join(problems)}")
                    await asyncio.sleep(POLL_S)
                    await self.until_in_sync()
        except TimeoutError:
            raise BrokenPromiseError(f"not repaired within {IN_SYNC_WITHIN_S:g} s: {'; '.join(problems)}") from None

    async def until_in_sync(self) -> None:
        """Wait until every replica is in sync."""
        try:
            for topic in self.topics:
                await self.cluster.wait_full_isr(topic, within_s=IN_SYNC_WITHIN_S)
        except TimeoutError as error:
            raise BrokenPromiseError(str(error)) from None

    def require_alive(self, down: Iterable[str]) -> None:
        """Check that no node has exited by itself, except those that may.

        Raises:
            BrokenPromiseError: with the end of its log.
        """
        if crashes := self._crashes(down):
            raise BrokenPromiseError("\n".join(crashes.values()))

    def _crashes(self, down: Iterable[str] | None = None) -> dict[str, str]:
        """Return by node that has exited by itself the end of its log.

        Args:
            down: the nodes that need not run; None: those that were ended and not started since.
        """
        excused = {*(self.cluster.down if down is None else down), *self.may_end}
        nodes = self.cluster.nodes
        return {
            name: f"{name} exited by itself; its log ends with:\n{nodes.log_tail(name)}"
            for name in nodes.names
            if name not in excused and nodes.pid(name) is None
        }

    async def _until_ready(self) -> None:
        """Wait for all nodes. Nodes whose fault made them exit are started again, others are not."""
        deadline = time.monotonic() + READY_WITHIN_S
        while True:
            self.require_alive(())
            await self._start_all()
            try:
                await asyncio.to_thread(self.cluster.nodes.wait_ready, 5.0)
                return
            except ClusterError as error:
                if time.monotonic() > deadline:
                    raise BrokenPromiseError(f"not ready within {READY_WITHIN_S:g} s: {error}") from None

    async def _start_all(self) -> None:
        down = [name for name in self.cluster.nodes.names if self.cluster.nodes.pid(name) is None]
        await asyncio.gather(*(self._start(name) for name in down))

    async def _start(self, name: str) -> None:
        try:
            await self.cluster.start(name)
        except ClusterError as error:
            if name not in self._damaged or name not in self.cluster.nodes.controllers:
                raise BrokenPromiseError(f"{name} does not start again: {error}") from None
            # As docs/how-to/recover-a-damaged-disk.md describes for a damaged journal. A broker repairs its files.
            await asyncio.to_thread(self._wipe, name)
            await self.cluster.start(name)

    def _wipe(self, name: str) -> None:
        self.workload.history.note(f"{name} does not start from the damaged files: it gets an empty disk")
        shutil.rmtree(self.cluster.data_dir(name))
        self._damaged.discard(name)

    def _set_shim(self, nodes: Iterable[str], faults: ShimFaults) -> None:
        assert self.cluster.shim is not None, "the fault needs the shim"
        for name in nodes:
            self._shimmed.add(name)
            self.cluster.shim.set(name, faults)

    async def _reassign(
        self, target: dict[tuple[str, int], list[int]] | dict[tuple[str, int], tuple[int, ...]]
    ) -> None:
        deadline = time.monotonic() + ACCEPTED_WITHIN_S
        while True:
            try:
                async with raftlog.Admin(self.cluster.bootstrap) as admin:
                    await admin.reassign_partitions(target)
                return
            except RaftlogError as error:
                if time.monotonic() > deadline:
                    raise BrokenPromiseError(f"no reassignment within {ACCEPTED_WITHIN_S:g} s: {error}") from None
            await asyncio.sleep(POLL_S)


def _file_to_damage(data_dir: Path, dice: random.Random) -> Path | None:
    """Choose a file of a broker's logs, or of a controller's journal."""
    partitions = data_dir / "partitions"
    files = sorted(
        file
        for file in (partitions if partitions.is_dir() else data_dir).rglob("*")
        if file.is_file() and file.stat().st_size > 0 and file.name not in {"lock", "meta.json", "run.json"}
    )
    return dice.choice(files) if files else None


def _damage(file: Path, dice: random.Random, *, truncate: bool) -> str:
    size = file.stat().st_size
    if truncate:
        length = dice.randrange(size)
        with file.open("r+b") as opened:
            opened.truncate(length)
        return f"cut from {size} to {length} bytes"
    at, bit = dice.randrange(size), dice.randrange(8)
    with file.open("r+b") as opened:
        opened.seek(at)
        byte = opened.read(1)[0]
        opened.seek(at)
        opened.write(bytes([byte ^ (1 << bit)]))
    return f"bit {bit} of byte {at} of {size}"
