"""Short scenarios on real processes, each link behind its own proxy. `make chaos` runs all, and keeps their reports."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.capabilities import probe
from chaos.options import Options
from chaos.runner import run_scenario
from chaos.scenarios import SCENARIOS

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(300)]

SHORT = ["isolate-leader", "stale-replica", "lost-answers", "power-cut", "swarm"]
"""The others, `matrix` and the N-1 scenarios among them, take minutes."""


@pytest.mark.filterwarnings("ignore::ResourceWarning:requests.*")
@pytest.mark.parametrize("name", SHORT)
async def test_no_acknowledged_record_is_lost(name: str, tmp_path: Path):
    capabilities = probe(tmp_path / "probe")
    if not capabilities.has(SCENARIOS[name].needs):
        pytest.skip(capabilities.warnings[0])

    options = Options(seed=2, duration_s=10, capabilities=capabilities)
    report = (await run_scenario(name, tmp_path / name, options)).report

    assert report["broken_promise"] == ""
    assert report["anomalies"] == {}
    assert report["valid"]
    assert report["acknowledged"] > 100
    assert report["replicas_compared"] == 9
    assert report["ok"]
    assert (tmp_path / name / "history.jsonl").exists()
    assert mounts_below(tmp_path) == []


def mounts_below(folder: Path) -> list[str]:
    return [line for line in Path("/proc/mounts").read_text().splitlines() if str(folder) in line]
