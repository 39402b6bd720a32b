"""A short run of the scenario `groups`. `make chaos SCENARIO=groups` runs it for longer."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.groups import run_groups
from chaos.options import Options

pytestmark = pytest.mark.cluster

SEED = 1
"""The coordinator is paused and isolated, a link holds what it is given; members die and join."""


@pytest.mark.timeout(240)
@pytest.mark.filterwarnings("ignore::ResourceWarning:requests.*")
async def test_a_group_goes_on_where_it_has_committed_while_its_coordinator_fails(tmp_path: Path):
    report = (await run_groups(tmp_path, Options(seed=SEED, duration_s=8))).report

    assert report["broken_promise"] == ""
    assert report["anomalies"] == {}
    assert report["ok"]
    assert report["rounds"] >= 1
    assert report["commits"]["ok"] > 20
    assert report["takeovers"] >= 3
    assert (tmp_path / "history.jsonl").exists()
