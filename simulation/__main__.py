"""`make sim [SEEDS=n] [SEED=s]`: many schedules, or one and what happens in it; the last line is one JSON object."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console
from rich.progress import track

from simulation.raft import History, simulate

DEFAULT_SEEDS = 1_000
BUILD = Path("build") / "sim"
SUMS = ("acknowledged", "unknown", "proposed", "terms", "crashes", "disks_replaced")
Outcome = tuple[int, History | None, str]
"""A seed, and its figures, or what it broke."""


def play(seed: int, tell: Callable[[str], None] | None = None) -> Outcome:
    """Run one schedule, in whichever process this is."""
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as folder:
        try:
            return seed, simulate(seed, Path(folder) / "world", tell=tell), ""
        except Exception as error:  # noqa: BLE001  (whatever ends a schedule early is to be looked at)
            return seed, None, f"{type(error).__name__}: {error}"


def play_all(seeds: range) -> Iterator[Outcome]:
    """Run many, on every core."""
    with ProcessPoolExecutor() as pool:
        outcomes = pool.map(play, seeds, chunksize=5)
        yield from track(outcomes, description="schedules", total=len(seeds), console=Console(stderr=True))


def play_one(seed: int) -> Iterator[Outcome]:
    """Run one, and tell what happens in it."""
    yield play(seed, lambda line: print(line, file=sys.stderr))


def report_on(outcomes: Iterator[Outcome]) -> dict[str, Any]:
    """Sum up."""
    started, schedules, broken = time.perf_counter(), 0, list[dict[str, Any]]()
    sums: dict[str, Any] = dict.fromkeys(SUMS, 0)
    trace = None
    for seed, history, violation in outcomes:
        schedules += 1
        if history is None:
            broken.append({"seed": seed, "violation": violation})
            continue
        trace = history.trace
        for name, figure in asdict(history).items():
            if name in sums:
                sums[name] += figure
    seconds = time.perf_counter() - started
    return {
        "ok": not broken and sums["acknowledged"] > 0,
        "schedules": schedules,
        **sums,
        "broken": broken,
        "seconds": round(seconds, 1),
        "schedules_per_minute": round(60 * schedules / seconds),
        **({"trace": trace} if schedules == 1 else {}),
    }


def main() -> int:
    """Run the seeds that the environment names; exit 1 if one of them breaks a promise."""
    one = os.environ.get("SEED", "")
    report = report_on(play_one(int(one)) if one else play_all(range(int(os.environ.get("SEEDS") or DEFAULT_SEEDS))))
    BUILD.mkdir(parents=True, exist_ok=True)
    line = orjson.dumps(report)
    (BUILD / "report.json").write_bytes(line + b"\n")
    sys.stdout.write(line.decode() + "\n")
    return 0 if report["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
