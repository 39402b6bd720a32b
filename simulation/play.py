"""Runs one schedule of either simulation: a module of its own, because other processes import it."""

from __future__ import annotations

import importlib
import logging
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

MEMORY = Path("/dev/shm")  # noqa: S108  (each run makes a folder of its own there)
"""Worlds are kept in memory, where the machine has such a folder: their disks are simulated."""
Outcome = tuple[int, Any, str]
"""A seed, and its figures, or the broken promise."""


def play(world: str, seed: int, tell: Callable[[str], None] | None = None, **part: Any) -> Outcome:
    """Run one schedule, or a part of it, in the current process."""
    simulate = importlib.import_module("simulation.raft" if world == "quorum" else "simulation.cluster").simulate
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        try:
            return seed, simulate(seed, Path(folder) / "world", tell=tell, **part), ""
        except Exception as error:  # noqa: BLE001  (whatever ends a schedule early is to be looked at)
            return seed, None, f"{type(error).__name__}: {error}"
