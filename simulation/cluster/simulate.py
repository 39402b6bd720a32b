"""One seed, one history of a whole cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from simulation.cluster.chaos import Chaos
from simulation.cluster.life import Life
from simulation.cluster.watch import NothingPromisedError
from simulation.cluster.world import World

SECONDS = 25.0


@dataclass(frozen=True)
class Run:
    """The figures of one run."""

    acknowledged: int
    unknown: int
    faults: int
    kills: int
    steps: int
    simulated_s: float
    void: bool
    """Faults took every copy that counted, and the run ended there: it proves less than others."""
    trace: str


def simulate(seed: int, folder: Path, *, seconds: float = SECONDS, tell: Callable[[str], None] | None = None) -> Run:
    """Run one seed in a folder of its own, which is emptied.

    Raises:
        BrokenPromiseError: with what was broken; the seed reproduces it.
    """
    world = World(folder, seed=seed, tell=tell)
    chaos = Chaos(world, seconds=seconds)
    void = False
    try:
        Life(world).run(chaos.run)
    except NothingPromisedError:
        void = True
    sends = world.history.sends
    return Run(
        acknowledged=sum(send.outcome == "ok" for send in sends),
        unknown=sum(send.outcome == "info" for send in sends),
        faults=len(chaos.happened),
        kills=world.kills,
        steps=world.loop.steps,
        simulated_s=world.loop.time() - 1_000,
        void=void,
        trace=world.trace_hash,
    )
