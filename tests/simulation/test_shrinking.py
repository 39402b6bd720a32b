"""Failing schedules are made smaller."""

from __future__ import annotations

from pathlib import Path

import pytest
from alone import alone
from cluster_mutants import broken_by

from simulation.cluster.shrink import MOST_RUNS, Schedule, Shrinking, shrink

WHOLE = Schedule(seed=1, keep=tuple(range(1, 41)), seconds=25.0, broken="something")


@pytest.mark.parametrize("needed", [(), (1,), (17,), (40,), (3, 4), (1, 20, 40)])
def test_only_needed_faults_are_left_and_only_the_needed_time(needed: tuple[int, ...]):
    def fails(keep: tuple[int, ...] | None, seconds: float) -> Schedule | None:
        assert keep is not None
        return Schedule(1, keep, seconds, "it") if {*needed} <= {*keep} and seconds >= 6 else None

    smallest = Shrinking(fails).smallest_of(WHOLE)

    assert smallest.keep == needed
    assert smallest.seconds < 6 / 0.7
    assert smallest.broken == "it"


def test_faults_that_were_still_to_come_when_it_broke_are_left_out_at_once():
    def fails(keep: tuple[int, ...] | None, seconds: float) -> Schedule | None:
        assert keep is not None
        return Schedule(1, tuple(n for n in keep if n <= 9), seconds, "it") if {5, 9} <= {*keep} else None

    assert Shrinking(fails).smallest_of(WHOLE).keep == (5, 9)


def test_what_fails_only_as_a_whole_stays_as_it_is_after_a_bounded_number_of_runs():
    shrinking = Shrinking(lambda keep, seconds: None)

    assert shrinking.smallest_of(WHOLE) == WHOLE
    assert shrinking.runs <= MOST_RUNS


def test_the_command_replays_it():
    command = Schedule(seed=7, keep=(3, 9), seconds=8.6, broken="it").command

    assert command == "make sim WORLD=cluster SEED=7 KEEP=3,9 DURATION=8.6"


def test_what_else_a_world_has_is_left_out_unless_it_is_needed(tmp_path: Path):
    """Records of seed 5 go by the size of its log."""
    free = alone(shrunk_mutant, "high_watermark_of_the_leader_alone", 5, tmp_path / "world")
    bound = alone(shrunk_mutant, "retention_takes_one_segment_too_many", 5, tmp_path / "world")

    assert free is not None
    assert bound is not None
    assert "removal" in free.without
    assert "removal" not in bound.without
    assert f" WITHOUT={','.join(free.without)}" in free.command


def test_a_broken_rule_needs_few_faults(tmp_path: Path):
    smallest = alone(shrunk_mutant, "high_watermark_of_the_leader_alone", 0, tmp_path / "world")

    assert smallest is not None
    assert len(smallest.keep) <= 2


def shrunk_mutant(name: str, seed: int, folder: Path) -> Schedule | None:
    with broken_by(name):
        return shrink(seed, folder, seconds=6.0)
