"""All scenarios: an import of this registers every one of them, in any process."""

from __future__ import annotations

from pathlib import Path

import deletion_stories
import late_stories
import moving_stories
import reader_stories
import stories
from telling import STORIES

from simulation.cluster.life import Life
from simulation.cluster.script import Script
from simulation.cluster.world import World

__all__ = ["STORIES", "deletion_stories", "late_stories", "moving_stories", "play", "reader_stories", "stories"]


def play(name: str, seed: int, folder: Path) -> None:
    """Play one story in a new world."""
    told, settings = STORIES[name]
    world = World(folder / "world", seed=seed, settings=settings)

    async def chaos() -> None:
        script = Script(world)
        await script.in_sync()
        await script.acknowledged(5)
        await told(script)

    Life(world).run(chaos)
