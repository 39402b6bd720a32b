"""Worlds with transactions, under random faults. `make sim WORLD=cluster` runs more: half of its seeds have some."""

from __future__ import annotations

from pathlib import Path

import pytest
from alone import alone
from transaction_mutants import play_seed_with_undecided_records_shown

from simulation.cluster import simulate

SEEDS = (13, 44)
"""The second one has 78 faults and 12 kills, and nine transactions that got through."""


@pytest.mark.parametrize("seed", SEEDS)
def test_random_faults_leave_transactions_whole(seed: int, tmp_path: Path):
    run = alone(simulate, seed, tmp_path / "world")

    assert run.transactions >= 5
    assert run.faults > 0


def test_readers_that_are_shown_too_much_are_noticed(tmp_path: Path):
    broken = alone(play_seed_with_undecided_records_shown, SEEDS[0], tmp_path / "world")

    assert "aborted read" in broken
