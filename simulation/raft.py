"""The metadata quorum's real engine in simulation: no sockets, no threads, no real time.

Every voter is a `RaftEngine` with its real journal and snapshots on real files; time, messages and crashes are ours. A
crash loses what the journal has buffered but not synced, as a power loss would. Checked throughout: no two voters ever
apply different entries at one index, and each applies in order, once. Checked after healing: every acknowledged entry
is on every voter at the index that was acknowledged, and a leader exists.
"""

from __future__ import annotations

import os
import random
import shutil
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pysyncobj.syncobj as core_module
from pysyncobj import FAIL_REASON
from pysyncobj.node import Node
from pysyncobj.transport import Transport

from raftlog.metadata_quorum.raft.codec import decode, encode
from raftlog.metadata_quorum.raft.engine import RaftEngine

TICK_S = 0.01
SNAPSHOT_MIN_ENTRIES = 1_000
BATCH_BYTES = 150
"""Small, so that what one tick sends is many messages: more ways to lose some of them."""
HEAL_S = 30.0
FAULTS = ("crash", "restart", "cut", "mend", "pause", "resume", "lag", "compact")


class SafetyViolationError(Exception):
    """A promise of Raft was broken."""


@dataclass
class Applied:
    """One voter's state machine: what it applied since it was last loaded."""

    world: RaftWorld
    name: str
    entries: list[tuple[int, bytes]] = field(default_factory=list)

    def apply(self, index: int, payload: bytes) -> None:
        if self.entries and index <= self.entries[-1][0]:
            raise SafetyViolationError(f"{self.name} applied {index} after {self.entries[-1][0]}")
        self.entries.append((index, payload))
        self.world.agree(self.name, index, payload)

    def take_snapshot(self) -> bytes:
        return encode(tuple(self.entries))

    def load_snapshot(self, index: int, data: bytes) -> None:
        self.entries = list(decode(data))
        for entry_index, payload in self.entries:
            self.world.agree(self.name, entry_index, payload)
        if self.entries and self.entries[-1][0] > index:
            raise SafetyViolationError(f"{self.name} loaded a snapshot of {index} that holds {self.entries[-1][0]}")

    def leadership_changed(self, leader: int | None) -> None:
        """Nothing: the world asks the engines."""


class SimulatedWire(Transport):  # type: ignore[misc]
    """PySyncObj's transport interface over the world's links: ordered, connected or not, possibly slow."""

    def __init__(self, world: RaftWorld, name: str) -> None:
        super().__init__(None, None, None)
        self.world = world
        self.name = name
        self.by_name = {other: Node(other) for other in world.names if other != name}

    @property
    def nodes(self) -> list[Node]:
        return list(self.by_name.values())

    @property
    def ready(self) -> bool:
        return True

    def send(self, node: Node, message: dict[str, Any]) -> bool:
        return self.world.send(self.name, node.id, encode(message))

    def connected(self, other: str) -> None:
        self._onNodeConnected(self.by_name[other])

    def disconnected(self, other: str) -> None:
        self._onNodeDisconnected(self.by_name[other])

    def deliver(self, source: str, data: bytes) -> None:
        self._onMessageReceived(self.by_name[source], decode(data))


class RaftWorld:
    """Voters, links and time. Drive it with `run`; `chaos` draws faults from the seed."""

    def __init__(self, folder: Path, *, voters: int, seed: int) -> None:
        self.folder = folder
        self.random = random.Random(seed)  # noqa: S311  (a schedule, not a secret)
        self.names = [f"voter-{i}:1" for i in range(voters)]
        self.now = 1000.0
        self.engines: dict[str, RaftEngine] = {}
        self.wires: dict[str, SimulatedWire] = {}
        self.machines: dict[str, Applied] = {}
        self.paused: set[str] = set()
        self.links: dict[tuple[str, str], deque[bytes]] = defaultdict(deque)
        self.cut: set[frozenset[str]] = set()
        self.held: set[tuple[str, str]] = set()
        self.agreed: dict[int, bytes] = {}
        self.acknowledged: dict[bytes, int] = {}
        self.unknown = 0
        self.proposed = 0
        self.fatal: list[str] = []

    def agree(self, name: str, index: int, payload: bytes) -> None:
        """Check that everybody applies the same at an index."""
        known = self.agreed.setdefault(index, payload)
        if known != payload:
            raise SafetyViolationError(f"{name} applied {payload!r} at {index}, another voter {known!r}")

    # The network.

    def send(self, source: str, target: str, data: bytes) -> bool:
        if not self._connected(source, target):
            return False
        self.links[source, target].append(data)
        return True

    def _connected(self, source: str, target: str) -> bool:
        return source in self.engines and target in self.engines and frozenset((source, target)) not in self.cut

    def disconnect(self, one: str, other: str) -> None:
        """Lose a connection, and what was on it."""
        for source, target in ((one, other), (other, one)):
            self.links.pop((source, target), None)
            if source in self.engines:
                self.wires[source].disconnected(target)

    def connect(self, one: str, other: str) -> None:
        if self._connected(one, other):
            self.wires[one].connected(other)
            self.wires[other].connected(one)

    # Voters.

    def start(self, name: str) -> None:
        wire = self.wires[name] = SimulatedWire(self, name)
        self.machines[name] = Applied(self, name)
        self.engines[name] = RaftEngine(
            name=name,
            folder=self.folder / name.replace(":", "-"),
            wire=wire,
            state_machine=self.machines[name],
            now=lambda: self.now,
            fatal=self.fatal.append,
            snapshot_min_entries=SNAPSHOT_MIN_ENTRIES,
        )
        self.engines[name].conf.appendEntriesBatchSizeBytes = BATCH_BYTES
        for other in self.names:
            if other != name:
                self.connect(name, other)

    def crash(self, name: str) -> None:
        """End a voter without a word: what its journal has not synced is gone."""
        for other in self.names:
            if other != name:
                self.disconnect(name, other)
        self.paused.discard(name)
        engine = self.engines.pop(name)
        engine.log().abandon()

    def propose(self) -> None:
        """Propose at whoever believes to lead."""
        leaders = [name for name, engine in self.engines.items() if engine.leader_name == name]
        if not leaders or self.paused.issuperset(leaders):
            return
        name = self.random.choice(sorted(set(leaders) - self.paused))
        self.proposed += 1
        payload = b"command %d" % self.proposed

        def settled(index: int | None, reason: int) -> None:
            if reason == FAIL_REASON.SUCCESS and index is not None:
                self.acknowledged[payload] = index
            else:
                self.unknown += 1

        self.engines[name].propose(payload, settled)

    # Time.

    def run(self, seconds: float) -> None:
        """Let time pass evenly, everybody in turn."""
        for _ in range(int(seconds / TICK_S)):
            self.now += TICK_S
            for link in sorted(self.links):
                self._deliver(link, 100)
            for name in sorted(set(self.engines) - self.paused):
                self._tick(name)

    def chaos(self, steps: int) -> None:
        """Let time pass unevenly: some tick, some do not; links lag by counts of messages; faults come and go."""
        weights = {name: self.random.choice((0.0, 1.0, 1.0, 3.0)) for name in FAULTS}
        for _ in range(steps):
            self.now += self.random.choice((0.005, 0.02, 0.05, 0.15))
            if self.random.random() < 0.2:
                (fault,) = self.random.choices(FAULTS, [weights[name] + 0.1 for name in FAULTS])
                getattr(self, f"_do_{fault}")()
            for _ in range(self.random.choice((0, 0, 0, 1, 4))):
                self.propose()
            awake = sorted(set(self.engines) - self.paused)
            for name in self.random.sample(awake, self.random.randint(0, len(awake))):
                self._tick(name)
            for link in self.random.sample(sorted(self.links), len(self.links)):
                lags = link in self.held and self.random.random() < 0.9
                self._deliver(link, 0 if lags else self.random.choice((0, 1, 1, 2, 5)))

    def _tick(self, name: str) -> None:
        self.engines[name].tick()
        if self.fatal:
            raise SafetyViolationError(self.fatal[0])

    def _deliver(self, link: tuple[str, str], count: int) -> None:
        source, target = link
        while count and target in self.engines and target not in self.paused and (queue := self.links.get(link)):
            self.wires[target].deliver(source, queue.popleft())
            count -= 1

    def heal(self) -> None:
        """End every fault; require a leader, and every acknowledged entry everywhere."""
        self.cut.clear()
        self.held.clear()
        self.paused.clear()
        for name in self.names:
            if name not in self.engines:
                self.start(name)
        for position, one in enumerate(self.names):
            for other in self.names[position + 1 :]:
                self.disconnect(one, other)
                self.connect(one, other)
        before, deadline = len(self.acknowledged), self.now + HEAL_S
        while len(self.acknowledged) < before + 3:
            if self.now > deadline:
                raise SafetyViolationError(f"no progress within {HEAL_S:g} s of healing")
            self.propose()
            self.run(0.1)
        self.run(2.0)
        for name, machine in self.machines.items():
            held = dict(machine.entries)
            for payload, index in self.acknowledged.items():
                if held.get(index) != payload:
                    raise SafetyViolationError(f"{name} lacks acknowledged {payload!r} at {index}")

    def close(self) -> None:
        for engine in self.engines.values():
            engine.stop()

    def _do_crash(self) -> None:
        if len(self.engines) > len(self.names) // 2:
            self.crash(self.random.choice(sorted(self.engines)))

    def _do_restart(self) -> None:
        if down := sorted(set(self.names) - set(self.engines)):
            self.start(self.random.choice(down))

    def _do_cut(self) -> None:
        one, other = self.random.sample(self.names, 2)
        self.cut.add(frozenset((one, other)))
        self.disconnect(one, other)

    def _do_mend(self) -> None:
        if self.cut:
            pair = self.random.choice(sorted(self.cut, key=sorted))
            self.cut.discard(pair)
            self.connect(*sorted(pair))

    def _do_pause(self) -> None:
        if self.engines:
            self.paused.add(self.random.choice(sorted(self.engines)))

    def _do_resume(self) -> None:
        self.paused.clear()

    def _do_lag(self) -> None:
        links = [(one, other) for one in self.names for other in self.names if one != other]
        self.held = set(self.random.sample(links, self.random.randint(0, 3)))

    def _do_compact(self) -> None:
        if self.engines:
            self.engines[self.random.choice(sorted(self.engines))].forceLogCompaction()


@contextmanager
def simulated_time(world: RaftWorld) -> Iterator[None]:
    """Let PySyncObj's core read the world's clock and dice, and make syncs free: crashes here lose only buffers."""
    saved = core_module.monotonicTime, core_module.random
    synced = os.fdatasync, os.fsync
    core_module.monotonicTime, core_module.random = lambda: world.now, world.random
    free: Any = lambda _: None  # noqa: E731
    os.fdatasync = os.fsync = free
    try:
        yield
    finally:
        core_module.monotonicTime, core_module.random = saved
        os.fdatasync, os.fsync = synced


def simulate(seed: int, folder: Path, *, steps: int = 500) -> dict[str, int]:
    """Run one schedule; return its figures.

    Raises:
        SafetyViolationError: with what was broken; the seed reproduces it.
    """
    shutil.rmtree(folder, ignore_errors=True)
    voters = 5 if seed % 4 == 0 else 3
    world = RaftWorld(folder, voters=voters, seed=seed)
    with simulated_time(world):
        try:
            for name in world.names:
                world.start(name)
            world.chaos(steps)
            world.heal()
        finally:
            world.close()
    return {"acknowledged": len(world.acknowledged), "unknown": world.unknown, "proposed": world.proposed}
