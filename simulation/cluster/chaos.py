"""Which faults happen to a cluster, and when: a schedule drawn from a seed, of which any part can be left out."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection
from typing import TYPE_CHECKING

from simulation.cluster.faults import COORDINATOR_FAULTS, FAULTS, LATER_FAULTS, Hands

if TYPE_CHECKING:
    from simulation.cluster.world import World

ALL_FAULTS = FAULTS | LATER_FAULTS | COORDINATOR_FAULTS
PEACE_S = (0.05, 3.0)
LATER_SHARE = 0.25
"""The share of seeds with one of `LATER_FAULTS` or more."""
COORDINATOR_SHARE = 0.5
"""The share of worlds with relays whose coordinators have faults of their own."""


class Chaos:
    """Draws a mix of faults for one world, and injects them one after another; most overlap.

    Args:
        keep: numbers of the faults that happen; of the others only the pauses happen. None means all.
    """

    def __init__(self, world: World, *, seconds: float, keep: Collection[int] | None = None) -> None:
        self.world = world
        self.seconds = seconds
        self.happened: list[int] = []
        self._keep = keep
        self._dice = random.Random(world.dice.getrandbits(64))  # noqa: S311  (a schedule, not a secret)
        chosen = self._dice.sample(sorted(FAULTS), self._dice.randint(2, 8))
        self._mix = {name: self._dice.choice((0.3, 1.0, 3.0)) for name in chosen}
        apart = random.Random(str(self._dice.getstate()))  # noqa: S311
        if apart.random() < LATER_SHARE:
            later = apart.sample(sorted(LATER_FAULTS), apart.randint(1, len(LATER_FAULTS)))
            self._mix |= {name: apart.choice((0.3, 1.0, 3.0)) for name in later}
        if world.settings.staff is not None and apart.random() < COORDINATOR_SHARE:
            self._mix |= {name: apart.choice((1.0, 3.0)) for name in COORDINATOR_FAULTS}
        self._pace = self._dice.choice((0.2, 0.6, 1.5))
        self._ends: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        loop = self.world.loop
        end, number = loop.time() + self.seconds, 0
        self.world.note(f"faults: {', '.join(self._mix)}")
        await asyncio.sleep(self._dice.uniform(0.2, 3.0))
        while loop.time() < end:
            number += 1
            (name,) = self._dice.choices(list(self._mix), list(self._mix.values()))
            own_dice = random.Random(self._dice.getrandbits(64))  # noqa: S311
            if self._keep is None or number in self._keep:
                self.happened.append(number)
                self.world.note(f"fault {number}: {name}")
                ALL_FAULTS[name](Hands(self.world, own_dice, self._ends))
            await asyncio.sleep(self._dice.uniform(*PEACE_S) * self._pace)
        for task in self._ends:
            task.cancel()
        self._ends.clear()
