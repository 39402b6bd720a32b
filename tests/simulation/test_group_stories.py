"""Only partitions that move stop, and a storm of clients settles: in simulated time, whatever this machine does."""

from __future__ import annotations

from pathlib import Path

from alone import alone
from group_stories import REBALANCE_PACE_S, play_rebalance, play_storm


def test_only_partitions_that_move_stop_and_not_for_long(tmp_path: Path):
    longest = alone(play_rebalance, tmp_path)

    assert longest["moved"] < REBALANCE_PACE_S + 0.2
    assert longest["kept"] < longest["quiet"] + 0.02


def test_forty_clients_go_on_soon_after_their_coordinator_is_killed_and_started(tmp_path: Path):
    took = alone(play_storm, tmp_path)

    assert took["after the kill"] < 5
    assert took["after the start"] < 5
