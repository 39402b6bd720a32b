"""One seed, one history of a whole cluster."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from simulation.cluster.chaos import Chaos
from simulation.cluster.life import Life
from simulation.cluster.watch import BrokenPromiseError, NothingPromisedError
from simulation.cluster.world import World

SECONDS = 25.0


@dataclass(frozen=True)
class Run:
    """The figures of one run."""

    acknowledged: int
    unknown: int
    transactions: int
    """The number of committed transactions."""
    removed: int
    """Records that no log stores any more, as required."""
    compacted: int
    """Acknowledged records that later ones of their keys have replaced."""
    relayed: int
    """Results that relays wrote, each once and together with the offset that they had read."""
    unclean_elections: int
    faults: int
    kills: int
    steps: int
    simulated_s: float
    void: bool
    """Faults destroyed every copy that counted, and the run ended there: it proves less than others."""
    trace: str


class BrokenRunError(BrokenPromiseError):
    """A run broke a promise."""

    def __init__(self, reason: str, happened: tuple[int, ...]) -> None:
        super().__init__(reason, happened)
        self.reason = reason
        self.happened = happened
        """Numbers of the faults that had happened before."""

    def __str__(self) -> str:
        return self.reason


def simulate(
    seed: int,
    folder: Path,
    *,
    seconds: float = SECONDS,
    keep: Collection[int] | None = None,
    without: Collection[str] = (),
    tell: Callable[[str], None] | None = None,
) -> Run:
    """Run one seed in a folder of its own, which is emptied.

    Args:
        seconds: how long faults happen, before healing.
        keep: numbers of the faults that happen; None means all that the seed draws.
        without: features of the world that are left out.

    Raises:
        BrokenRunError: with what was broken; the seed reproduces it.
    """
    world = World(folder, seed=seed, without=without, tell=tell)
    chaos = Chaos(world, seconds=seconds, keep=keep)
    void = False
    try:
        try:
            Life(world).run(chaos.run)
        except NothingPromisedError as reason:
            world.note(f"void: {reason}")
            void = True
            world.watch.judge_so_far()
    except BrokenPromiseError as broken:
        raise BrokenRunError(str(broken), tuple(chaos.happened)) from None
    sends = world.history.sends
    return Run(
        acknowledged=sum(send.outcome == "ok" for send in sends),
        unknown=sum(send.outcome == "info" for send in sends),
        transactions=sum(one.outcome == "ok" for one in world.payments.history.transactions),
        removed=world.watch.starts.removed,
        compacted=world.keeper.compacted,
        relayed=world.relays.results,
        unclean_elections=world.takeovers.elections,
        faults=len(chaos.happened),
        kills=world.kills,
        steps=world.loop.steps,
        simulated_s=world.loop.time() - 1_000,
        void=void,
        trace=world.trace_hash,
    )
