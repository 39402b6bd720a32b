"""Every fault of the matrix: what it needs, whom it may meet, and how it begins. `Site.heal` ends all of them.

A cell is a fault and a target. What goes beyond the promise (a topic with N replicas loses no acknowledged record while
N-1 of them fail) is not in the matrix, and `NOT_IN_THE_MATRIX` says why.
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
        begin: does it to these nodes; returns details that the report shows.
        targets: whom it may meet.
        needs: what the machine must be able to do.
        ends_processes: a node that meets it may end by itself.
        alone: no other fault at the same time: what is left must stay sound.
    """

    begin: Callable[[Site, Sequence[str], random.Random], Awaitable[str]]
    targets: tuple[str, ...] = NODES
    needs: Capability | None = None
    ends_processes: bool = False
    alone: bool = False


async def kill(site: Site, nodes: Sequence[str], _: random.Random) -> str:
    """SIGKILL; of the clients: they crash."""
    if CLIENT in nodes:
        site.workload.crash()
    await site.cluster.kill(*(name for name in nodes if name != CLIENT))
    return ""


async def terminate(site: Site, nodes: Sequence[str], _: random.Random) -> str:
    """SIGTERM: a controlled shutdown."""
    await site.terminate(nodes)
    return ""


async def pause(site: Site, nodes: Sequence[str], _: random.Random) -> str:
    """SIGSTOP: connections stay open, silent; later SIGCONT, and the node goes on as if no time had passed."""
    await site.pause(nodes)
    return ""


async def partition(site: Site, nodes: Sequence[str], _: random.Random) -> str:
    """Bytes vanish between these nodes and all others; if these are all: between any two."""
    await site.each_link(nodes, site.links.cut_both_ways)
    return ""


async def one_way_partition(site: Site, nodes: Sequence[str], dice: random.Random) -> str:
    """What these nodes say vanishes, or what they are told."""
    mute = dice.random() < 0.5
    await site.each_link(nodes, site.links.cut_one_way if mute else lambda a, b: site.links.cut_one_way(b, a))
    return "mute" if mute else "deaf"


async def ring(site: Site, nodes: Sequence[str], dice: random.Random) -> str:
    """All nodes stand in a circle; these ones keep the links to their two neighbours only."""
    circle = list(site.cluster.nodes.names)
    dice.shuffle(circle)
    neighbours = {frozenset((circle[i - 1], circle[i])) for i in range(len(circle))}
    await site.each_link(
        nodes, lambda a, b: None if frozenset((a, b)) in neighbours else site.links.cut_both_ways(a, b)
    )
    return " ".join(circle)


async def hold(site: Site, nodes: Sequence[str], _: random.Random) -> str:
    """Bytes are kept back, and delivered at the end: messages that come late."""
    await site.each_link(nodes, site.links.hold)
    return ""


async def latency(site: Site, nodes: Sequence[str], dice: random.Random) -> str:
    """Everything takes longer."""
    latency_ms = dice.choice((20, 100, 400, 1_000))
    await site.each_link(
        nodes, lambda a, b: site.links.slow_both_ways(a, b, latency_ms=latency_ms, jitter_ms=latency_ms // 2)
    )
    return f"{latency_ms} ms"


async def slow_link(site: Site, nodes: Sequence[str], dice: random.Random) -> str:
    """Few bytes per second get through."""
    rate = dice.choice((2, 8, 32))
    await site.each_link(nodes, lambda a, b: site.links.narrow(a, b, kilobytes_per_s=rate))
    return f"{rate} kB/s"


async def reset(site: Site, nodes: Sequence[str], dice: random.Random) -> str:
    """Connections are reset, the new ones too."""
    after_ms = dice.choice((0, 20, 100))
    await site.each_link(nodes, lambda a, b: site.links.reset(a, b, after_ms=after_ms))
    return f"after {after_ms} ms"


async def truncated_response(site: Site, nodes: Sequence[str], dice: random.Random) -> str:
    """Connections close in the middle of an answer."""
    after_bytes = dice.choice((1, 60, 300, 2_000, 10_000))
    await site.each_link(nodes, lambda a, b: site.links.truncate_answers(a, b, after_bytes=after_bytes))
    return f"after {after_bytes} bytes"


async def full_disk(site: Site, nodes: Sequence[str], _: random.Random) -> str:
    """Not a byte is left."""
    await asyncio.gather(*(asyncio.to_thread(site.disk(name).fill) for name in nodes))
    return ""


async def failing_fsync(site: Site, nodes: Sequence[str], _: random.Random) -> str:
    """Every fsync fails with EIO: the node must end, not try again."""
    site.fail_sync(nodes)
    return ""


async def slow_fsync(site: Site, nodes: Sequence[str], dice: random.Random) -> str:
    """Every fsync takes longer."""
    slow_ms = dice.choice((50, 300, 1_500))
    site.slow_sync(nodes, slow_ms)
    return f"{slow_ms} ms"


async def power_cut(site: Site, nodes: Sequence[str], _: random.Random) -> str:
    """The process dies, and with it everything that was not synced."""
    await site.cut_power(nodes)
    return ""


async def bit_flip(site: Site, nodes: Sequence[str], dice: random.Random) -> str:
    """A bit of one file on each node is another one when it starts again."""
    return await site.damage(nodes, dice, truncate=False)


async def truncated_file(site: Site, nodes: Sequence[str], dice: random.Random) -> str:
    """One file on each node has lost its end when it starts again."""
    return await site.damage(nodes, dice, truncate=True)


async def clock_jump(site: Site, nodes: Sequence[str], dice: random.Random) -> str:
    """The wall clock jumps, and later back; the monotonic one goes on."""
    shift_s = dice.choice((-86_400, -60, 60, 86_400))
    site.shift_clock(nodes, shift_s)
    return f"{shift_s} s"


async def reassignment(site: Site, nodes: Sequence[str], dice: random.Random) -> str:
    """Replicas leave these brokers, and come back at the end."""
    return await site.move_away(nodes, dice)


async def rolling_restart(site: Site, nodes: Sequence[str], _: random.Random) -> str:
    """These nodes are restarted, each once the one before is back in sync."""
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
    """Return the whole matrix, as far as the promise goes."""
    return [Cell(name, target) for name, target in product(FAULTS, TARGETS) if target in FAULTS[name].targets]
