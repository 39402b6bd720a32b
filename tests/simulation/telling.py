"""How a scenario is told: by script, on a simulated cluster, which then heals and is judged."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from simulation.cluster.life import Life
from simulation.cluster.script import Script
from simulation.cluster.settings import Settings
from simulation.cluster.world import World

Story = Callable[[Script], Awaitable[None]]
STORIES: dict[str, tuple[Story, Settings]] = {}


def story(**settings: Any) -> Callable[[Story], Story]:
    """Tell it in a world of these settings."""

    def keep(told: Story) -> Story:
        STORIES[told.__name__] = told, Settings(**settings)
        return told

    return keep


def play(name: str, seed: int, folder: Path) -> None:
    """Tell one story in a new world."""
    told, settings = STORIES[name]
    world = World(folder / "world", seed=seed, settings=settings)

    async def chaos() -> None:
        script = Script(world)
        await script.in_sync()
        await script.acknowledged(5)
        await told(script)

    Life(world).run(chaos)
