"""Every fault of the matrix: its needs, its targets, and how it begins. `Site.heal` ends all of them.

A cell is a fault and a target. The promise is: a topic with N replicas loses no acknowledged record while N-1 of them
fail. Faults beyond it are not in the matrix; `NOT_IN_THE_MATRIX` says why.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import product

from chaos.capabilities import Capability
from chaos.site import Site
from chaos.topology import CLIENT

TARGETS = ("follower", "leader", "controller", "leader and controller", "minority", "N-1", "all", "clients")
NODES = TARGETS[:-1]
WITH_BROKERS = ("follower", "leader", "minority", "N-1", "all")


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultKind:
    """One kind of fault.

    Args:
        begin: injects the fault into these nodes; returns details for the report.
        targets: the names of its possible targets.
        needs: the capability of the machine that it uses.
        ends_processes: a node under this fault may exit by itself.
        alone: no other fault is active at the same time: the remaining replicas must stay intact.
    """

    begin: Callable[[Site, Sequence[str], random.Random], Awaitable[str]]
    targets: tuple[str, ...] = NODES
    needs: Capability | None = None
    ends_processes: bool = False
    alone: bool = False


async def kill(site: Site, nodes: Sequence[str], _: random.Random) -> str:
    """SIGKILL; clients crash."""
    if CLIENT in nodes:
        site.workload.crash()
    await site.cluster.kill(*(name for name in nodes if name != CLIENT))
    return ""


async def terminate(site: Site, nodes: Sequence[str], _: random.Random) -> str:
    """SIGTERM: a controlled shutdown."""
    await site.terminate(nodes)
    return ""


async def pause(site: Site, nodes: Sequence[str], _: random.Random) -> str:
    """SIGSTOP: connections stay open and silent. At SIGCONT the node continues as if no time had passed."""
    await site.pause(nodes)
    return ""


async def partition(site: Site, nodes: Sequence[str], _: random.Random) -> str:
    """Drop all bytes between these nodes and all others; if these are all nodes: between any two."""
    await site.each_link(nodes, site.links.cut_both_ways)
    return ""


async def one_way_partition(site: Site, nodes: Sequence[str], dice: random.Random) -> str:
    """Drop all bytes that these nodes send, or all that they receive."""
    mute = dice.random() < 0.5
    await site.each_link(nodes, site.links.cut_one_way if mute else lambda a, b: site.links.cut_one_way(b, a))
    return "mute" if mute else "deaf"


async def ring(site: Site, nodes: Sequence[str], dice: random.Random) -> str:
    """Put all nodes into a circle; these keep only the links to their two neighbours."""
    circle = list(site.cluster.nodes.names)
    dice.shuffle(circle)
    neighbours = {frozenset((circle[i - 1], circle[i])) for i in range(len(circle))}
    await site.each_link(
        nodes, lambda a, b: None if frozenset((a, b)) in neighbours else site.links.cut_both_ways(a, b)
    )
    return " ".join(circle)


async def hold(site: Site, nodes: Sequence[str], _: random.Random) -> str:
    """Hold bytes back, and deliver them at the end: messages arrive late."""
    await site.each_link(nodes, site.links.hold)
    return ""


async def latency(site: Site, nodes: Sequence[str], dice: random.Random) -> str:
    """Delay all data."""
    latency_ms = dice.choice((20, 100, 400, 1_000))
    await site.each_link(
        nodes, lambda a, b: site.links.slow_both_ways(a, b, latency_ms=latency_ms, jitter_ms=latency_ms // 2)
    )
    return f"{latency_ms} ms"


async def slow_link(site: Site, nodes: Sequence[str], dice: random.Random) -> str:
    """Let only few bytes a second through."""
    rate = dice.choice((2, 8, 32))
    await site.each_link(nodes, lambda a, b: site.links.narrow(a, b, kilobytes_per_s=rate))
    return f"{rate} kB/s"


async def reset(site: Site, nodes: Sequence[str], dice: random.Random) -> str:
    """Reset connections, new ones too."""
    after_ms = dice.choice((0, 20, 100))
    await site.each_link(nodes, lambda a, b: site.links.reset(a, b, after_ms=after_ms))
    return f"after {after_ms} ms"


async def truncated_response(site: Site, nodes: Sequence[str], dice: random.Random) -> str:
    """Close connections in the middle of an answer."""
    after_bytes = dice.choice((1, 60, 300, 2_000, 10_000))
    await site.each_link(nodes, lambda a, b: site.links.truncate_answers(a, b, after_bytes=after_bytes))
    return f"after {after_bytes} bytes"


async def full_disk(site: Site, nodes: Sequence[str], _: random.Random) -> str:
    """Leave no free byte on the disk."""
    await asyncio.gather(*(asyncio.to_thread(site.disk(name).fill) for name in nodes))
    return ""


async def failing_fsync(site: Site, nodes: Sequence[str], _: random.Random) -> str:
    """Make every fsync fail with EIO: the node must exit, not retry."""
    site.fail_sync(nodes)
    return ""


async def slow_fsync(site: Site, nodes: Sequence[str], dice: random.Random) -> str:
    """Delay every fsync."""
    slow_ms = dice.choice((50, 300, 1_500))
    site.slow_sync(nodes, slow_ms)
    return f"{slow_ms} ms"


async def power_cut(site: Site, nodes: Sequence[str], _: random.Random) -> str:
    """Kill the process and lose everything that was not synced."""
    await site.cut_power(nodes)
    return ""


async def bit_flip(site: Site, nodes: Sequence[str], dice: random.Random) -> str:
    """Change one bit of one file on each node while it is down."""
    return await site.damage(nodes, dice, truncate=False)


async def truncated_file(site: Site, nodes: Sequence[str], dice: random.Random) -> str:
    """Cut off the end of one file on each node while it is down."""
    return await site.damage(nodes, dice, truncate=True)


async def clock_jump(site: Site, nodes: Sequence[str], dice: random.Random) -> str:
    """Move the wall clock, and later back; the monotonic clock is not changed."""
    shift_s = dice.choice((-86_400, -60, 60, 86_400))
    site.shift_clock(nodes, shift_s)
    return f"{shift_s} s"


async def reassignment(site: Site, nodes: Sequence[str], dice: random.Random) -> str:
    """Move replicas away from these brokers, and back at the end."""
    return await site.move_away(nodes, dice)


async def rolling_restart(site: Site, nodes: Sequence[str], _: random.Random) -> str:
    """Restart these nodes, each once the one before is in sync again."""
    await site.restart_one_by_one(nodes)
    return ""


FAULTS: dict[str, FaultKind] = {
    "SIGKILL": FaultKind(begin=kill, targets=TARGETS),
    "SIGTERM": FaultKind(begin=terminate),
    "SIGSTOP": FaultKind(begin=pause),
    "partition": FaultKind(begin=partition, targets=TARGETS),
    "one-way partition": FaultKind(begin=one_way_partition, targets=TARGETS),
    "ring": FaultKind(begin=ring),
    "hold and release": FaultKind(begin=hold, targets=TARGETS),
    "latency": FaultKind(begin=latency, targets=TARGETS),
    "slow link": FaultKind(begin=slow_link, targets=TARGETS),
    "reset": FaultKind(begin=reset, targets=TARGETS),
    "truncated response": FaultKind(begin=truncated_response, targets=TARGETS),
    "full disk": FaultKind(begin=full_disk, needs="disk", ends_processes=True),
    "fsync EIO": FaultKind(begin=failing_fsync, needs="shim", ends_processes=True),
    "slow fsync": FaultKind(begin=slow_fsync, needs="shim"),
    "power cut": FaultKind(begin=power_cut, needs="disk"),
    "bit flip": FaultKind(begin=bit_flip, targets=NODES[:-1], ends_processes=True, alone=True),
    "truncated file": FaultKind(begin=truncated_file, targets=NODES[:-1], ends_processes=True, alone=True),
    "clock jump": FaultKind(begin=clock_jump, needs="shim"),
    "reassignment": FaultKind(begin=reassignment, targets=WITH_BROKERS[:-1], alone=True),
    "rolling restart": FaultKind(begin=rolling_restart, alone=True),
}

NOT_IN_THE_MATRIX = {
    "clients": "only what happens to their links, and to themselves",
    "ring x clients": "clients have links to brokers alone",
    "bit flip, truncated file x all": "what the last copy of a batch loses is lost; the scenario rot spares it",
    "reassignment x controllers, all": "moves replicas, of which controllers have none; one copy must stay",
}


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """One cell of the matrix."""

    fault: str
    target: str

    def __str__(self) -> str:
        return f"{self.fault} x {self.target}"


def cells() -> list[Cell]:
    """Return the whole matrix, within the promise."""
    return [Cell(name, target) for name, target in product(FAULTS, TARGETS) if target in FAULTS[name].targets]
