"""Whole simulated clusters under random faults. `make sim WORLD=cluster` runs more."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from alone import alone
from cluster_mutants import MUTANTS, broken_by
from mutants import search

from simulation.cluster import simulate
from simulation.cluster.world import World

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_random_faults_lose_nothing(seed: int, tmp_path: Path):
    run = alone(simulate, seed, tmp_path / "world")

    assert run.acknowledged > 10
    assert run.faults > 0


def test_one_seed_is_one_history_in_every_process():
    """Sets of strings have other orders in other processes; seed 45 has a consumer group, which keeps partitions so."""
    traces = [
        orjson.loads(
            subprocess.run(
                [sys.executable, "-m", "simulation"],
                env={**os.environ, "WORLD": "cluster", "SEED": "45", "PYTHONHASHSEED": hash_seed},
                cwd=ROOT,
                capture_output=True,
                check=True,
                timeout=100,
            ).stdout.splitlines()[-1]
        )["trace"]
        for hash_seed in ("3", "7")
    ]

    assert traces[0] == traces[1]


def on_a_slow_machine(seed: int, folder: Path) -> str:
    """Return the trace of a schedule whose code takes a hundred times as long by all of the process's real clocks."""
    real = {name: getattr(time, name) for name in ("perf_counter", "thread_time", "monotonic")}
    for name, clock in real.items():

        def slow(clock: Callable[[], float] = clock) -> float:
            return 100 * clock()

        for module in [time, *(module for name, module in sys.modules.items() if name.startswith("raftlog"))]:
            if getattr(module, name, None) is clock:
                setattr(module, name, slow)
    return simulate(seed, folder, seconds=3).trace


def test_a_history_is_the_same_on_a_slow_machine(tmp_path: Path):
    """Brokers let an address wait that used much computing time: they measured the machine that simulated them."""
    assert alone(on_a_slow_machine, 45, tmp_path / "w") == alone(simulate, 45, tmp_path / "w", seconds=3).trace


def test_a_history_is_the_same_in_whatever_folder(tmp_path: Path):
    """Nodes' error messages name files, and travel: seed 8 has some."""
    long = tmp_path / "in a folder" / "with a longer name"
    long.mkdir(parents=True)
    assert alone(simulate, 8, tmp_path / "w", seconds=6).trace == alone(simulate, 8, long / "w", seconds=6).trace


def test_a_trace_covers_what_was_said(tmp_path: Path):
    """Other bytes of the same length, at the same time, over the same link."""
    traces = set[str]()
    for said in (b"", b"yes", b"nay"):
        world = World(tmp_path / "w", seed=1)
        world._hash_bytes(("a", "b"), said)
        traces.add(world.trace_hash)
        world.loop.close()
    assert len(traces) == 3


@pytest.mark.parametrize("name", ["a_leader_that_resigns_acknowledges", "repeats_are_appended"])
def test_a_broken_rule_is_found(name: str):
    assert alone(search, 40, name).found_by is not None


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_breaks_code_that_is_there(name: str):
    """`make mutants` takes long; this finds at once a mutant that does not fit the code."""
    with broken_by(name):
        pass
