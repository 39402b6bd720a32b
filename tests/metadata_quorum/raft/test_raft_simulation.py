"""The engine under random schedules: crashes, lost buffers, cuts, pauses, lags, new disks. `make sim` runs more."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from simulation.raft import simulate

PROJECT = Path(__file__).parents[3]
pytestmark = pytest.mark.timeout(600)
"""The seeds are the bound; a machine with other work takes longer for them."""


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Voters that crash have much to say."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_random_schedules_keep_every_promise(tmp_path: Path):
    figures = [simulate(seed, tmp_path / "world") for seed in range(60)]

    assert sum(figure.acknowledged for figure in figures) > 1_000
    assert sum(figure.unknown for figure in figures) > 0
    assert sum(figure.crashes for figure in figures) > 100
    assert sum(figure.disks_replaced for figure in figures) > 50
    assert sum(figure.damages for figure in figures) > 100
    assert sum(figure.refusals for figure in figures) > 40


def test_nothing_rots_in_a_world_without_it(tmp_path: Path):
    """And what else happens there is what happens in worlds that were drawn without."""
    seed = next(seed for seed in range(60) if simulate(seed, tmp_path / "world").damages)
    assert simulate(seed, tmp_path / "world", without=("rot",)).damages == 0


def played_elsewhere(seed: int, hash_seed: str, folder: Path) -> tuple[str, str]:
    """Run `make sim SEED=...` in a process of its own; return its trace's hash, and what it told."""
    done = subprocess.run(
        [sys.executable, "-m", "simulation"],
        env={**os.environ, "SEED": str(seed), "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(PROJECT)},
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return json.loads(done.stdout.splitlines()[-1])["trace"], done.stderr


def test_one_seed_is_one_history(tmp_path: Path):
    """In one process and in others, whose sets have other orders, and whether it is told or not."""
    here = simulate(7, tmp_path / "a")
    assert here == simulate(7, tmp_path / "b")
    assert here.trace != simulate(8, tmp_path / "b").trace

    one, told = played_elsewhere(7, "1", tmp_path)
    other, told_again = played_elsewhere(7, "2", tmp_path)
    assert here.trace == one == other
    assert told == told_again
    assert "leads in term" in told
    assert "delivered" in told
