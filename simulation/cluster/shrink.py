"""Make a failing history smaller: leave out features and faults, and end it earlier, while it still fails."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from simulation.cluster.settings import FEATURES, Settings
from simulation.cluster.simulate import SECONDS, BrokenRunError, simulate

MOST_RUNS = 150
SHORTER = 0.7
SHORTEST_S = 1.0


@dataclass(frozen=True)
class Schedule:
    """The numbers of a seed's faults that happen, and how long faults go on."""

    seed: int
    keep: tuple[int, ...]
    seconds: float
    broken: str
    without: tuple[str, ...] = ()
    """Features of the world that are left out."""

    @property
    def command(self) -> str:
        keep = ",".join(map(str, self.keep)) or "0"
        without = f" WITHOUT={','.join(self.without)}" if self.without else ""
        return f"make sim WORLD=cluster SEED={self.seed} KEEP={keep} DURATION={self.seconds:g}{without}"


Fails = Callable[[tuple[int, ...] | None, float], Schedule | None]
"""Runs a part of a schedule (all of it: None); returns the failed part with its faults, or None if it did not fail."""


def shrink(
    seed: int, folder: Path, *, seconds: float = SECONDS, say: Callable[[str], None] = lambda line: None
) -> Schedule | None:
    """Return the smallest schedule found that still breaks a promise; None if the seed breaks none."""
    without: tuple[str, ...] = ()

    def fails(keep: tuple[int, ...] | None, seconds: float) -> Schedule | None:
        try:
            simulate(seed, folder, seconds=seconds, keep=keep, without=without)
        except BrokenRunError as error:
            say(f"{len(error.happened)} faults in {seconds:g} s: {error}")
            return Schedule(seed, error.happened, seconds, str(error), without)
        return None

    whole = fails(None, seconds)
    if whole is None:
        return None
    for feature in FEATURES:
        kept, without = without, (*without, feature)
        if drawn(seed, kept) == drawn(seed, without):
            without = kept  # The world does not have the feature.
        elif (simpler := fails(None, seconds)) is not None:
            whole = simpler
        else:
            without = kept
    smallest = Shrinking(fails).smallest_of(whole)
    say(f"{len(smallest.keep)} faults are left: {smallest.command}")
    return smallest


def drawn(seed: int, without: tuple[str, ...]) -> Settings:
    """Return the settings of a seed's world."""
    return Settings.drawn(random.Random(seed), seed, without)  # noqa: S311  (a schedule, not a secret)


class Shrinking:
    """Tries parts of a failing schedule, `MOST_RUNS` at most."""

    def __init__(self, fails: Fails) -> None:
        self.runs = 0
        self._fails = fails

    def smallest_of(self, whole: Schedule) -> Schedule:
        """Return a schedule none of whose faults can be left out."""
        return self._shorter(self._fewer(whole))

    def _try(self, keep: tuple[int, ...], seconds: float) -> Schedule | None:
        if self.runs >= MOST_RUNS:
            return None
        self.runs += 1
        return self._fails(keep, seconds)

    def _fewer(self, smallest: Schedule) -> Schedule:
        """Leave out half of the faults, a quarter, and so on, then each (delta debugging: Zeller, 2002)."""
        size = max(1, len(smallest.keep) // 2)
        while smallest.keep:
            smaller = self._without_a_part(smallest, size)
            if smaller is not None:
                smallest = smaller
            elif size == 1:
                break
            else:
                size //= 2
        return smallest

    def _without_a_part(self, schedule: Schedule, size: int) -> Schedule | None:
        for at in range(0, len(schedule.keep), size):
            found = self._try(schedule.keep[:at] + schedule.keep[at + size :], schedule.seconds)
            if found is not None:
                return found
        return None

    def _shorter(self, smallest: Schedule) -> Schedule:
        while smallest.seconds * SHORTER >= SHORTEST_S:
            found = self._try(smallest.keep, round(smallest.seconds * SHORTER, 1))
            if found is None:
                break
            smallest = found
        return smallest
