"""A short run of the scenario `controllers`. `make chaos SCENARIO=controllers` runs it for longer."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.controllers import run_controllers
from chaos.options import Options
from chaos.quorum_nemesis import Schedule

pytestmark = pytest.mark.cluster

SEED = 10_619
"""A one-way cut; the active controller paused and stranded; killed; another one-way cut."""
CONTROLLERS = ("controller-101", "controller-102", "controller-103")


@pytest.mark.filterwarnings("ignore::ResourceWarning:requests.*")
async def test_no_change_is_lost_while_controllers_fail(tmp_path: Path):
    report = (await run_controllers(tmp_path, Options(seed=SEED, duration_s=5))).report

    assert report["broken_promise"] == ""
    assert report["anomalies"] == {}
    assert report["ok"]
    assert report["rounds"] >= 1
    assert report["nodes_that_agree"] == 6
    assert all(outcomes["ok"] > 5 for outcomes in report["changes"].values())
    assert (tmp_path / "history.jsonl").exists()


def test_a_seed_names_one_schedule_with_every_fault():
    schedules = [Schedule(7, targets=CONTROLLERS, peers=("broker-1", "broker-2")) for _ in range(2)]

    first, second = ([schedule.draw() for _ in range(200)] for schedule in schedules)

    assert first == second
    assert {fault.kind for drawn in first for fault in drawn.faults} == {*schedules[0].kinds}
