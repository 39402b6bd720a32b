"""`make sim [WORLD=quorum|cluster] [SEEDS=n|a-b] [SEED=s]`: runs many schedules, or one with a printed history.

With WORLD=cluster, SEED=s SHRINK=1 searches the smallest part of a schedule that still fails, and KEEP=numbers
DURATION=seconds WITHOUT=features replays a part of one. The last line is one JSON object.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import re
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console
from rich.progress import track

from simulation.play import MEMORY, Outcome, play

DEFAULT_SEEDS = {"quorum": 1_000, "cluster": 100}
BUILD = Path("build") / "sim"
PER_PROCESS = {"quorum": 500, "cluster": 20}
"""Schedules for one process: each leaves objects behind, and after a hundred clusters these take half the time."""
MOST_VOID = 0.3
"""The share of schedules that may end early because faults destroyed every copy that counted."""
ENOUGH_FOR_SHARES = 50
LINE_EVERY = 100
"""Without a terminal: schedules between two lines of progress."""


def play_all(world: str, seeds: range) -> Iterator[Outcome]:
    """Run many schedules, on every core or in JOBS processes; Ctrl-C ends with the results so far."""
    console, processes = Console(stderr=True), int(os.environ.get("JOBS") or 0) or os.cpu_count() or 1
    outcomes = track(
        _in_fresh_processes(world, seeds, processes), description="schedules", total=len(seeds), console=console
    )
    with suppress(KeyboardInterrupt):
        for number, outcome in enumerate(outcomes, 1):
            yield outcome
            if not console.is_terminal and number % LINE_EVERY == 0:
                _tell(f"{number:,} of {len(seeds):,} schedules")


def _in_fresh_processes(world: str, seeds: range, processes: int) -> Iterator[Outcome]:
    """Run schedules in order, `PER_PROCESS` of them in each process.

    Each round of processes has its own pool. A pool that replaces its processes can be left without any
    (python/cpython#115634), or wait for ever for the result of a process that died.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["simulation.raft" if world == "quorum" else "simulation.cluster"])
    at_once = processes * PER_PROCESS[world]
    for first in range(seeds.start, seeds.stop, at_once):
        with ProcessPoolExecutor(
            processes, context, initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_IGN)
        ) as pool:
            try:
                yield from pool.map(partial(play, world), range(first, min(first + at_once, seeds.stop)))
            finally:
                pool.shutdown(cancel_futures=True)


def play_one(world: str, seed: int) -> Iterator[Outcome]:
    """Run one schedule, or its smallest part that fails, and print its events."""
    part: dict[str, Any] = {}
    if os.environ.get("SHRINK"):
        part = smallest_part(seed)
    elif keep := os.environ.get("KEEP"):
        part = {"keep": tuple(map(int, keep.split(",")))}
    if without := os.environ.get("WITHOUT"):
        part["without"] = tuple(without.split(","))
    if seconds := os.environ.get("DURATION"):
        part["seconds"] = float(seconds)
    yield play(world, seed, _tell, **part)


def smallest_part(seed: int) -> dict[str, Any]:
    """Return the part of a cluster's schedule that still fails; empty if the whole schedule does not fail."""
    from simulation.cluster.shrink import shrink  # noqa: PLC0415  (the quorum's simulation needs none of it)

    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        smallest = shrink(seed, Path(folder) / "world", say=_tell)
    return {} if smallest is None else {"keep": smallest.keep, "seconds": smallest.seconds, "without": smallest.without}


def _tell(line: str) -> None:
    print(line, file=sys.stderr)


def report_on(outcomes: Iterator[Outcome]) -> dict[str, Any]:
    """Sum up."""
    started, schedules, broken = time.perf_counter(), 0, list[dict[str, Any]]()
    sums: Counter[str] = Counter()
    trace = None
    for seed, history, violation in outcomes:
        schedules += 1
        if history is None:
            broken.append({"seed": seed, "violation": violation})
            _tell(f"seed {seed}: {violation}")
            continue
        trace = history.trace
        sums.update({name: figure for name, figure in asdict(history).items() if name != "trace"})
    seconds = time.perf_counter() - started
    proves_enough = schedules < ENOUGH_FOR_SHARES or sums["void"] <= MOST_VOID * schedules
    if not proves_enough:
        _tell(f"{sums['void']} of {schedules} schedules are void: these prove too little")
    return {
        "ok": not broken and sums["acknowledged"] > 0 and proves_enough,
        "schedules": schedules,
        **sums,
        "broken": broken,
        "seconds": round(seconds, 1),
        "schedules_per_minute": round(60 * schedules / seconds),
        **({"trace": trace} if schedules == 1 else {}),
    }


def main() -> int:
    """Run the seeds of the environment; exit 1 if one of them breaks a promise."""
    if arguments := sys.argv[1:]:
        sys.stdout.write(__doc__ or "")
        sys.exit(0 if set(arguments) <= {"-h", "--help"} else f"received {arguments}: it takes variables only")
    one, world = os.environ.get("SEED", ""), os.environ.get("WORLD") or "quorum"
    if world not in DEFAULT_SEEDS:
        sys.exit(f"WORLD: expected quorum or cluster, received {world!r}")
    asked = os.environ.get("SEEDS") or str(DEFAULT_SEEDS[world])
    if not re.fullmatch(r"(\d+-)?\d+", asked):
        sys.exit(f"SEEDS: expected a number of seeds, or a first one and an end as in 200-400, received {asked!r}")
    first, _, end = asked.rpartition("-")
    seeds = range(int(first or 0), int(end))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # A shell ignores SIGINT for background jobs.
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    report = report_on(play_one(world, int(one)) if one else play_all(world, seeds))
    if not one and report["schedules"] < len(seeds):
        report |= {"ok": False, "asked": len(seeds)}
    BUILD.mkdir(parents=True, exist_ok=True)
    line = orjson.dumps(report)
    (BUILD / "report.json").write_bytes(line + b"\n")
    sys.stdout.write(line.decode() + "\n")
    return 0 if report["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
