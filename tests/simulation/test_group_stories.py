"""Only partitions that move stop: in simulated time, whatever this machine does."""

from __future__ import annotations

from pathlib import Path

from alone import alone
from group_stories import REBALANCE_PACE_S, play_rebalance


def test_only_partitions_that_move_stop_and_not_for_long(tmp_path: Path):
    longest = alone(play_rebalance, tmp_path)

    assert longest["moved"] < REBALANCE_PACE_S + 0.2
    assert longest["kept"] < longest["quiet"] + 0.02
