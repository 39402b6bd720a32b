"""Transactions in simulation: one story alone is `pytest tests/simulation -k scenario_11`."""

from __future__ import annotations

from pathlib import Path

import pytest
from alone import alone
from transaction_mutants import MUTANTS, play_broken
from transaction_stories import SCENARIOS, play_transactions


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", SCENARIOS)
def test_transaction_story(name: str, seed: int, tmp_path: Path):
    alone(play_transactions, name, seed, tmp_path)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_scenario_notices_a_broken_rule(name: str, tmp_path: Path):
    assert not alone(play_broken, name, tmp_path)
