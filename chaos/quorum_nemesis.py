"""Draws faults from a seed, injects them into some nodes, and undoes them. Each step goes into the history.

One round is one or two faults for some seconds; then everything is healed. The draw depends on the seed alone; which
node is "the active one" is looked up when the fault begins, and noted.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from chaos.cluster import ChaosCluster
from chaos.topology import CLIENT

ACTIVE = "active"
"""Placeholder for the target that is active when the fault begins."""
PAIRED_FAULTS = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One drawn fault. `nodes` are names, or `ACTIVE`; links go from the first to the second."""

    kind: str
    nodes: tuple[str, ...]
    latency_ms: int = 0

    def __str__(self) -> str:
        return f"{self.kind} {' '.join(self.nodes)}" + (f" {self.latency_ms} ms" if self.latency_ms else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """The faults of one round, and their duration."""

    faults: tuple[Fault, ...]
    seconds: float

    def __str__(self) -> str:
        return f"{' and '.join(map(str, self.faults))} for {self.seconds:.1f} s"


class Schedule:
    """An endless series of rounds: a pure function of the seed.

    Args:
        targets: nodes that are killed, paused and cut off; sometimes so many that the quorum has no majority.
        peers: further nodes, whose links to the targets are cut and slowed too.
    """

    def __init__(self, seed: int, *, targets: Sequence[str], peers: Sequence[str] = ()) -> None:
        self._random = random.Random(seed)
        self._targets, self._peers = tuple(targets), tuple(peers)
        self._draws: dict[str, Callable[[], Fault]] = {
            "kill": lambda: Fault(kind="kill", nodes=(self._target(),)),
            "pause": lambda: Fault(kind="pause", nodes=(self._target(),)),
            "cut": lambda: Fault(kind="cut", nodes=self._link()),
            "cut one way": lambda: Fault(kind="cut one way", nodes=self._link()),
            "isolate": lambda: Fault(kind="isolate", nodes=(ACTIVE,)),
            "strand": lambda: Fault(kind="strand", nodes=(ACTIVE,)),
            "hold": lambda: Fault(kind="hold", nodes=self._link()),
            "slow": self._slow,
            "kill two": self._kill_two,
        }

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(self._draws)

    def draw(self) -> Round:
        """Return the next round."""
        count = 2 if self._random.random() < PAIRED_FAULTS else 1
        kinds = self._random.sample(self.kinds, count)
        faults = tuple(self._draws[kind]() for kind in kinds)
        return Round(faults=faults, seconds=self._random.uniform(0.5, 6.0))

    def _target(self) -> str:
        return ACTIVE if self._random.random() < 0.5 else self._random.choice(self._targets)

    def _link(self) -> tuple[str, str]:
        """Return two ends in either direction: both targets, or a target and a peer."""
        target = self._random.choice(self._targets)
        others = [name for name in self._targets if name != target]
        other = self._random.choice(self._peers if self._peers and self._random.random() < 0.4 else others)
        return (target, other) if self._random.random() < 0.5 else (other, target)

    def _slow(self) -> Fault:
        return Fault(kind="slow", nodes=self._link(), latency_ms=self._random.choice((20, 100, 400, 1_500)))

    def _kill_two(self) -> Fault:
        return Fault(kind="kill two", nodes=tuple(self._random.sample(self._targets, 2)))


class Nemesis:
    """Injects a schedule's faults into a cluster.

    Args:
        active: returns the target that is active now, or None.
        note: writes into the history.
    """

    def __init__(
        self,
        cluster: ChaosCluster,
        schedule: Schedule,
        *,
        active: Callable[[], Awaitable[str | None]],
        note: Callable[[str], None],
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._cluster, self._schedule = cluster, schedule
        self._active, self._note = active, note
        self._killed: list[str] = []
        self._paused: list[str] = []

    async def round(self) -> Round:
        """Draw a round and run it, up to and including `heal`."""
        drawn = self._schedule.draw()
        self._note(f"round: {drawn}")
        try:
            for fault in drawn.faults:
                await self._begin(fault)
            await asyncio.sleep(drawn.seconds)
        finally:
            await self.heal()
        return drawn

    async def heal(self) -> None:
        """Undo every fault. Does not wait until killed nodes are ready: see `until_ready`.

        Raises:
            ClusterError: a node has exited by itself.
        """
        for name in self._paused:  # First: a proxy keeps a link's toxic until it could deliver the bytes it holds.
            if name not in self._killed:
                await asyncio.to_thread(self._cluster.nodes.resume, name)
        await asyncio.to_thread(self._cluster.links.heal)
        self._cluster.require_no_crash()
        await self._cluster.start(*self._killed)
        self._note(f"healed: resumed {self._paused}, restarted {self._killed}")
        self._paused, self._killed = [], []

    async def until_ready(self, within_s: float) -> None:
        """Wait until every node reports itself ready.

        Raises:
            ClusterError: a node does not, or has exited by itself.
        """
        await asyncio.to_thread(self._cluster.nodes.wait_ready, within_s)

    async def _begin(self, fault: Fault) -> None:
        nodes = [await self._resolve(name) for name in fault.nodes]
        self._note(f"{fault.kind}: {' '.join(nodes)}")
        self.counts[fault.kind] += 1
        links = self._cluster.links
        match fault.kind:
            case "kill" | "kill two":
                await self._kill(nodes)
            case "pause":
                await self._pause(nodes[0])
            case "cut":
                await asyncio.to_thread(links.cut_both_ways, nodes[0], nodes[1])
            case "cut one way":
                await asyncio.to_thread(links.cut_one_way, nodes[0], nodes[1])
            case "isolate":
                # The client's links stay: the referee uses them.
                await asyncio.to_thread(links.isolate, nodes[0], spare=frozenset({CLIENT}))
            case "strand":
                # Only from its peers: its clients still reach it, and must not receive stale answers.
                spare = frozenset({CLIENT, *self._cluster.nodes.brokers})
                await asyncio.to_thread(links.isolate, nodes[0], spare=spare)
            case "hold":
                await asyncio.to_thread(links.hold, nodes[0], nodes[1])
            case "slow":
                await asyncio.to_thread(links.slow_both_ways, nodes[0], nodes[1], latency_ms=fault.latency_ms)
            case _:
                raise ValueError(f"no such fault: {fault.kind!r}")

    async def _resolve(self, name: str) -> str:
        return name if name != ACTIVE else await self._active() or self._cluster.nodes.controllers[0]

    async def _kill(self, names: Sequence[str]) -> None:
        # The other fault of the pair may have the same target.
        victims = [name for name in names if name not in self._killed]
        self._killed.extend(victims)
        await self._cluster.kill(*victims)

    async def _pause(self, name: str) -> None:
        if name not in self._killed:
            self._paused.append(name)
            await asyncio.to_thread(self._cluster.nodes.pause, name)
