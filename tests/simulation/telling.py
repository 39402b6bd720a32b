"""How a scenario is played: by script, on a simulated cluster, which then heals and is judged."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from simulation.cluster.script import Script
from simulation.cluster.settings import Settings

Story = Callable[[Script], Awaitable[None]]
STORIES: dict[str, tuple[Story, Settings]] = {}


def story(**settings: Any) -> Callable[[Story], Story]:
    """Play it in a world of these settings."""

    def keep(told: Story) -> Story:
        STORIES[told.__name__] = told, Settings(**settings)
        return told

    return keep
