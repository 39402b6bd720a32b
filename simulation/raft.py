"""The metadata quorum's real engine in simulation: no sockets, no threads, no real time.

Every voter is a `RaftEngine` with its real journal and snapshots; time, messages, disks and crashes are simulated.
Checked throughout:

- No two voters apply different entries at one index, and no voter applies an entry twice or out of order.
- Each term has one leader, which has applied what earlier terms acknowledged.
- A proposal succeeds only where its entry was applied.

Checked after healing: there is progress, every voter applies every acknowledged entry at its index, and the logs match.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from simulation.chaos import Chaos
from simulation.healing import heal
from simulation.promises import SafetyViolationError
from simulation.world import World

__all__ = ["History", "SafetyViolationError", "simulate"]
STEPS = 500


@dataclass(frozen=True)
class History:
    """The figures of one schedule."""

    acknowledged: int
    unknown: int
    proposed: int
    terms: int
    crashes: int
    disks_replaced: int
    damages: int
    """How often bits changed on a disk."""
    refusals: int
    """How often a voter did not start because of that."""
    trace: str
    """A hash of all events: one seed, one history."""


def simulate(
    seed: int,
    folder: Path,
    *,
    steps: int = STEPS,
    tell: Callable[[str], None] | None = None,
    without: tuple[str, ...] = (),
) -> History:
    """Run one schedule in a folder of its own, which is emptied.

    Raises:
        SafetyViolationError: with what was broken; the seed reproduces it.
    """
    shutil.rmtree(folder, ignore_errors=True)
    world = World(folder, seed=seed, tell=tell, without=without)
    if tell is not None:
        tell(str(world.settings))
    with world.hooked():
        try:
            for name in world.names:
                world.start(name)
            Chaos(world).run(steps)
            heal(world)
        finally:
            world.close()
    promises = world.promises
    return History(
        acknowledged=len(promises.acknowledged),
        unknown=world.unknown,
        proposed=world.proposed,
        terms=len(promises.leaders),
        crashes=world.crashes,
        disks_replaced=world.disks_replaced,
        damages=world.rot.damages,
        refusals=world.rot.refusals,
        trace=world.trace_hash,
    )
