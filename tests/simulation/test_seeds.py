"""Schedules that once broke a promise, replayed: `seeds/*.json` contains each, and what it showed.

A file is `{"world": "quorum" | "cluster", "seed": n, "shows": "..."}`, with `keep`, `seconds` and `without` if only a
part of the schedule is played (what `SHRINK=1` prints). A changed simulation gives a seed another history: then its
file is replaced by one that shows the same without the fix, or removed once a scenario tests the story.
"""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from alone import alone

from simulation.play import play

SEEDS = sorted((Path(__file__).parent / "seeds").glob("*.json"))
PARTS = {"keep", "seconds", "without"}


@pytest.mark.parametrize("file", SEEDS, ids=lambda file: file.stem)
def test_a_schedule_that_broke_a_promise_breaks_none_now(file: Path):
    schedule = orjson.loads(file.read_bytes())
    assert schedule["shows"]
    part = {name: value for name, value in schedule.items() if name in PARTS}
    assert schedule.keys() == {"world", "seed", "shows", *part}

    _, history, violation = alone(play, schedule["world"], schedule["seed"], None, **part)

    assert violation == ""
    assert history.acknowledged > 0


def test_there_are_schedules():
    assert SEEDS
