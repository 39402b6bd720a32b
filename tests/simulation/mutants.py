"""`make mutants [SEEDS=n]`: break each rule of replication once, and search for a seed that shows it.

A seed counts only if a promise was broken. The last line is one JSON object; exit 1 if a mutant survives.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import orjson
from rich.console import Console
from rich.progress import track

sys.path.insert(0, str(Path(__file__).parent))
from cluster_mutants import MUTANTS, broken_by

from simulation.cluster import simulate
from simulation.cluster.watch import BrokenPromiseError

MOST_SEEDS = 300


def search(most: int, name: str) -> tuple[str, int | None, str, float]:
    """Return the first seed that finds a mutant, what it found, and the seconds that took."""
    logging.disable(logging.CRITICAL)
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(most):
            try:
                with broken_by(name):
                    simulate(seed, Path(folder) / "world")
            except BrokenPromiseError as found:
                return name, seed, str(found), time.perf_counter() - started
    return name, None, "", time.perf_counter() - started


def search_all(most: int, names: list[str]) -> Iterator[tuple[str, int | None, str, float]]:
    with ProcessPoolExecutor() as pool:
        yield from track(pool.map(partial(search, most), names), "mutants", len(names), console=Console(stderr=True))


def main() -> int:
    most = int(os.environ.get("SEEDS") or MOST_SEEDS)
    found, survivors = {}, []
    for name, seed, what, seconds in search_all(most, sys.argv[1:] or list(MUTANTS)):
        sys.stderr.write(f"{name}: {'SURVIVES' if seed is None else f'seed {seed}: {what[:120]}'} ({seconds:.0f} s)\n")
        if seed is None:
            survivors.append(name)
        else:
            found[name] = seed
    sys.stdout.write(orjson.dumps({"ok": not survivors, "found": found, "survivors": survivors}).decode() + "\n")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
