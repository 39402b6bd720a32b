"""Scenarios on real processes, each link behind its own proxy. `make chaos` runs the same, and keeps their reports."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.runner import run_scenario
from chaos.scenarios import SCENARIOS

pytestmark = pytest.mark.cluster


@pytest.mark.filterwarnings("ignore::ResourceWarning:requests.*")
@pytest.mark.parametrize("name", SCENARIOS)
async def test_no_acknowledged_record_is_lost(name: str, tmp_path: Path):
    report = await run_scenario(name, tmp_path / name)

    assert report["broken_promise"] == ""
    assert report["anomalies"] == {}
    assert report["valid"]
    assert report["acknowledged"] > 500
    assert report["ok"]
    assert (tmp_path / name / "history.jsonl").exists()
