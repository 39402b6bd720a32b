"""Scripted scenarios on whole simulated clusters: one alone is `pytest tests/simulation -k scenario_7`."""

from __future__ import annotations

from pathlib import Path

import pytest
from alone import alone
from scenarios import STORIES, play


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", STORIES)
def test_story(name: str, seed: int, tmp_path: Path):
    alone(play, name, seed, tmp_path)
