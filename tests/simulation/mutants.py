"""`make mutants [SEEDS=n] [ONLY="name name"]`: break each rule of replication once, and search what finds it.

The cheapest search comes first: the tests of the rule, if it names some (seconds); the scenarios; then random faults,
SEEDS of them at most. A simulated run counts only if a promise was broken. The last line is one JSON object; exit 1 if
a mutant survives.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import orjson
import pytest
from rich.console import Console
from rich.progress import track

sys.path.insert(0, str(Path(__file__).parent))
from alone import alone
from cluster_mutants import MUTANTS, TOLD_BY, broken_by
from scenarios import STORIES, play

from simulation.cluster import simulate
from simulation.cluster.watch import BrokenPromiseError
from simulation.play import MEMORY

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
MOST_SEEDS = 300
STORY_SEEDS = 3


@dataclass(frozen=True)
class Search:
    """The search for a mutant, and its result."""

    name: str
    found_by: str | None
    """None: it survived."""
    runs: int
    broken: str
    """What it broke."""
    seconds: float


def search(most_seeds: int, name: str) -> Search:
    """Run tests, scenarios and seeds until one finds the mutant."""
    logging.disable(logging.CRITICAL)
    started, runs = time.perf_counter(), 0
    for test in TOLD_BY.get(name, ()):
        runs += 1
        if fails(name, test):
            return Search(name, test, runs, "its test fails", time.perf_counter() - started)
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        for run_name, run in _runs(most_seeds, Path(folder)):
            runs += 1
            try:
                with broken_by(name):
                    run()
            except BrokenPromiseError as found:
                return Search(name, run_name, runs, str(found), time.perf_counter() - started)
            except Exception as error:  # noqa: BLE001 (of a rule broken badly: the others are still to be played)
                broken = f"{run_name} broke no promise, it failed: {error!r}"
                return Search(name, None, runs, broken, time.perf_counter() - started)
    return Search(name, None, runs, "", time.perf_counter() - started)


def fails(name: str, test: str) -> bool:
    """Run the tests of a rule with the rule broken, in a process of their own."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "mutation_plugin", "-p", "no:cacheprovider", test]
    environment = {**os.environ, "MUTANT": name, "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "spark", HERE)))}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False, timeout=300)
    return done.returncode == pytest.ExitCode.TESTS_FAILED


def _runs(most_seeds: int, folder: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    for story in STORIES:
        for seed in range(STORY_SEEDS):
            yield f"{story}, seed {seed}", partial(play, story, seed, folder)
    for seed in range(most_seeds):
        yield f"seed {seed}", partial(simulate, seed, folder / "world")


def search_all(most_seeds: int, names: list[str]) -> Iterator[Search]:
    with ThreadPoolExecutor(int(os.environ.get("JOBS") or 0) or os.cpu_count()) as pool:
        searches = pool.map(partial(alone, search, most_seeds), names)
        yield from track(searches, "mutants", len(names), console=Console(stderr=True))


def main() -> int:
    most, names = int(os.environ.get("SEEDS") or MOST_SEEDS), sys.argv[1:] or list(MUTANTS)
    if unknown := set(names) - set(MUTANTS):
        sys.exit(f"no mutant is named {min(unknown)!r}; mutants: {', '.join(MUTANTS)}")
    searches = []
    for done in search_all(most, names):
        how = f"{done.found_by or 'SURVIVES'}: {done.broken[:150] or 'nothing shows it'}"
        sys.stderr.write(f"{done.name}: {how} ({done.runs} runs, {done.seconds:.0f} s)\n")
        searches.append(done)
    survivors = [done.name for done in searches if done.found_by is None]
    report = {"ok": not survivors, "survivors": survivors, "searches": [asdict(done) for done in searches]}
    sys.stdout.write(orjson.dumps(report).decode() + "\n")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
