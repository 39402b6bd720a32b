"""Voters on simulated time, network and disks. The engine, its journal and its snapshots are the real ones."""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pysyncobj.syncobj as core_module
from pysyncobj import FAIL_REASON

from raftlog.metadata_quorum.raft import snapshots
from raftlog.metadata_quorum.raft.codec import decode
from raftlog.metadata_quorum.raft.engine import EngineSettings, RaftEngine
from raftlog.metadata_quorum.raft.rejoin import Standing
from simulation.disk import PowerLossError, SimulatedDisk
from simulation.network import Link, Network
from simulation.promises import Machine, Promises, SafetyViolationError
from simulation.rot import Rot

TICK_S = 0.02


@dataclass(frozen=True)
class Settings:
    """The differences between worlds, besides their faults."""

    voters: int
    batch_bytes: int
    """Small, so that one tick sends many messages, any of which may be lost."""
    snapshot_min_entries: int
    chunk_bytes: int
    send_takes_s: float
    """Above a heartbeat's period, the core sends one message for each tick: transfers take long, and interleave."""
    election_timeout_s: tuple[float, float]
    leader_fallback_s: float
    """How long a leader without answers continues: safety must not depend on it."""
    repeats: float
    """How often a message arrives twice."""
    rejoins: bool
    """Whether a voter disconnects and reconnects at the end, which must not change the leader."""
    replaces: bool
    """Whether a disk is replaced at the end, while a voter is unreachable."""

    @classmethod
    def drawn(cls, dice: random.Random) -> Settings:
        return cls(
            voters=dice.choice((3, 3, 5)),
            batch_bytes=dice.choice((12, 30, 150, 1_000)),
            snapshot_min_entries=dice.choice((12, 40, 1_000)),
            chunk_bytes=dice.choice((150, 600, 1 << 18)),
            send_takes_s=dice.choice((0.0, 0.0, 0.01, 0.06)),
            election_timeout_s=dice.choice(((0.35, 0.7), (0.35, 0.4), (0.2, 0.3))),
            leader_fallback_s=dice.choice((0.35, 0.35, 5.0)),
            repeats=dice.choice((0.0, 0.05, 0.2)),
            rejoins=dice.random() < 0.2,
            replaces=dice.random() < 0.2,
        )


class World:
    """One simulated world. `tell` gets a readable line for each event, if it is set."""

    def __init__(
        self, folder: Path, *, seed: int, tell: Callable[[str], None] | None = None, without: tuple[str, ...] = ()
    ) -> None:
        self.folder = folder
        self.random = random.Random(seed)  # noqa: S311  (a schedule, not a secret)
        self.settings = Settings.drawn(self.random)
        self.now = 1000.0
        self.names = [f"voter-{i}:1" for i in range(self.settings.voters)]
        self.network = Network(self.names, random.Random(f"what outlives voters in {seed}"))  # noqa: S311
        self.disk = SimulatedDisk(self.random)
        self.rot = Rot(self, seed, without)
        self.promises = Promises()
        self.engines: dict[str, RaftEngine] = {}
        self.machines: dict[str, Machine] = {}
        self.paused: set[str] = set()
        self.not_full = set(self.names)
        """Voters that have no memory, or only part of it: never a majority, once there is a cluster."""
        self.proposed = self.unknown = self.crashes = self.disks_replaced = 0
        self._send_takes_s = self.settings.send_takes_s
        self._repeats = self.settings.repeats
        self._extends = seed % 2 == 1
        """Voters extend their deadlines by their own pauses, as in production: safety must not depend on it."""
        self._ticked: dict[str, float] = {}
        self._hash = hashlib.sha256()
        self._tell = tell
        self._arrived: Counter[str] = Counter()
        self._send = self.network.send
        self.network.send = self._slow_send  # type: ignore[method-assign]

    def note(self, event: str) -> None:
        """Add an event to the history."""
        self._hash.update(event.encode())
        if self._tell is not None:
            self._tell_deliveries()
            self._tell(f"{self.now - 1000:8.3f} s  {event}")

    @property
    def trace_hash(self) -> str:
        return self._hash.hexdigest()[:16]

    def _tell_deliveries(self) -> None:
        if self._tell is not None and self._arrived:
            what = ", ".join(f"{kind} x{count}" for kind, count in sorted(self._arrived.items()))
            self._tell(f"{self.now - 1000:8.3f} s    delivered {what}")
            self._arrived.clear()

    def _slow_send(self, source: str, target: str, data: bytes) -> bool:
        self.now += self._send_takes_s
        return self.disk.running not in self.disk.dead and self._send(source, target, data)

    # Voters.

    def act(self, name: str, action: Callable[[], None]) -> None:
        """Run a voter's code; the voter may die of it."""
        self.disk.running = name
        try:
            action()
        except PowerLossError:
            pass
        except OSError:
            if name not in self.disk.failed:
                raise  # Otherwise its event loop logs it, and continues.
        finally:
            self.disk.running = None
        if self.promises.broken is not None:
            raise SafetyViolationError(self.promises.broken)
        if name in self.disk.dead:
            self.crash(name, power=True)
        elif name in self.engines:
            self._watch(name)

    def _watch(self, name: str) -> None:
        engine = self.engines[name]
        if name in self.not_full and engine.log().standing == Standing.FULL:
            self.note(f"{name} is a full voter")
            self.not_full.discard(name)
            self.promises.remembers(name, engine.log()[:])
        if self.promises.watch(name, engine, self.machines[name]):
            self.note(f"{name} leads in term {engine.term}")

    def start(self, name: str) -> None:
        """Start a voter on whatever its disk contains."""
        self.note(f"start {name}")
        with self.rot.judging(name):
            self.act(name, lambda: self._build(name))
        if name in self.engines:
            for other in self.names:
                if other != name:
                    self.network.connect(name, other)

    def _build(self, name: str) -> None:
        machine = Machine(self.promises, name)
        settings = self.settings
        engine = RaftEngine(
            name=name,
            folder=self.disk_of(name),
            wire=self.network.join(name),
            state_machine=machine,
            now=lambda: self.now,
            fatal=lambda reason: self._fatal(name, reason),
            settings=EngineSettings(
                election_timeout_s=settings.election_timeout_s,
                leader_fallback_s=settings.leader_fallback_s,
                batch_bytes=settings.batch_bytes,
                snapshot_min_entries=settings.snapshot_min_entries,
            ),
        )
        self.engines[name], self.machines[name] = engine, machine

    def _fatal(self, name: str, reason: str) -> None:
        """Stop the voter; this is right when its disk failed, and wrong otherwise."""
        if name not in self.disk.failed | self.disk.dead and not self.rot.explains(name, reason):
            self.promises.fail(f"{name} stopped: {reason}")
        self.note(f"{name} stopped: {reason.split('/', maxsplit=1)[0]}")
        self.disk.die()

    def crash(self, name: str, *, power: bool) -> None:
        """Kill a voter."""
        self.note(f"crash {name}{' without power' if power else ''}")
        self.crashes += 1
        self.network.leave(name)
        self.paused.discard(name)
        self._ticked.pop(name, None)
        engine = self.engines.pop(name, None)
        if engine is not None:
            engine.log().abandon()
        self.disk.crash(name, self.disk_of(name), power=power)

    def wipe(self, name: str) -> None:
        """Kill a voter, and replace its disk by an empty one."""
        assert self.not_full <= {name}  # Otherwise no majority with a memory may be left.
        self.promises.forgets(name, self.engines[name].log()[:])
        self.crash(name, power=False)
        self.replace_disk(name)

    def replace_disk(self, name: str) -> None:
        """Give a stopped voter an empty disk."""
        self.note(f"disk of {name} is replaced")
        self.disks_replaced += 1
        self.disk.wipe(self.disk_of(name))
        self.not_full.add(name)

    def disk_of(self, name: str) -> Path:
        return self.folder / name.replace(":", "-")

    def propose(self, name: str) -> None:
        """Propose the next command at a voter that believes to lead."""
        self.proposed += 1
        payload = b"%d" % self.proposed
        engine, machine = self.engines[name], self.machines[name]

        def settled(index: int | None, reason: int) -> None:
            if name in self.disk.dead:
                return
            if reason == FAIL_REASON.SUCCESS and index is not None:
                self.note(f"{name} acknowledges {payload.decode()} at {index}")
                self.promises.acknowledge(machine, payload, index, engine.term, self.engines, len(self.names))
            else:
                self.unknown += 1

        self.act(name, lambda: engine.propose(payload, settled))

    def believers(self) -> list[str]:
        """Return running voters that believe to lead."""
        return [name for name in self.names if name in self.awake() and self.engines[name].leader_name == name]

    def leader(self) -> str | None:
        """Return the leader of the latest term."""
        leaders = [name for name in sorted(self.engines) if self.engines[name].is_leader]
        return max(leaders, key=lambda name: self.engines[name].term, default=None)

    def awake(self) -> list[str]:
        return sorted(set(self.engines) - self.paused)

    # Time.

    def tick(self, name: str) -> None:
        if self._extends and name in self._ticked:
            self.engines[name].extend_deadlines(self.now - self._ticked[name] - TICK_S)
        self.act(name, self.engines[name].tick)
        self._ticked[name] = self.now

    def deliver(self, link: Link, count: int) -> None:
        """Let some messages arrive, if the target is running."""
        source, target = link
        queue = self.network.links[link]
        while count and queue and target in self.engines and target not in self.paused:
            data = queue.popleft()
            if self._repeats and self.random.random() < self._repeats:
                queue.append(data)
            self._hash.update(data)
            if self._tell is not None:
                self._arrived[f"{source}>{target} {decode(data)['type']}"] += 1
            wire = self.network.wires[target]
            self.act(target, partial(wire.deliver, source, data))
            count -= 1
        if target in self.engines:
            self.network.delivered(link)

    def run(self, seconds: float) -> None:
        """Let time pass evenly for all voters."""
        for _ in range(int(seconds / TICK_S)):
            self.now += TICK_S
            for link in self.network.pairs:
                self.deliver(link, 100)
            for name in self.awake():
                if name in self.engines:
                    self.tick(name)

    # The end.

    def calm(self) -> None:
        """End every fault, but start no voter."""
        self.network.calm()
        self.disk.calm()
        self.paused.clear()
        self._send_takes_s = self._repeats = 0.0

    def close(self) -> None:
        for engine in self.engines.values():
            engine.log().abandon()

    @contextmanager
    def hooked(self) -> Iterator[None]:
        """Let the core read this world's clock and dice, and all voters use its disks."""
        saved = core_module.monotonicTime, core_module.random, snapshots.CHUNK_BYTES
        core_module.monotonicTime, core_module.random = lambda: self.now, self.random
        snapshots.CHUNK_BYTES = self.settings.chunk_bytes
        try:
            with self.disk.hooked():
                yield
        finally:
            core_module.monotonicTime, core_module.random, snapshots.CHUNK_BYTES = saved
