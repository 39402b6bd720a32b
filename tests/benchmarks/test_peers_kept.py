"""A run is compared with the kept one of the same kind of machine, in proportion to the peers' change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.peers import kept, report
from benchmarks.peers.contestants import CONFLUENT, RAFTLOG
from benchmarks.peers.trials import Plan, Table
from tests.benchmarks.test_peers import sample

AIOKAFKA = "kafka + aiokafka"


def plan(**more: Any) -> Plan:
    usual = {"works": (), "contestants": (), "rounds": 1, "warmup_rounds": 1, "seconds": 1.5, "warmup_s": 0.5}
    return Plan(**{**usual, "partitions": 1, "max_bytes": 128 << 20, **more})


def figures(work: str = "produce_100B", **rows: tuple[float, float]) -> kept.Figures:
    """Return figures of one work: median, and CPU time for each record; rounds differ from them by a twentieth."""
    names = {"ours": RAFTLOG, "kafka": CONFLUENT, "aio": AIOKAFKA}
    plain = {
        names[who]: {
            "median": median,
            "min": median * 0.95,
            "max": median * 1.05,
            "cpu_us_per_record": cpu,
            "most_cpu_us": cpu * 1.05,
        }
        for who, (median, cpu) in rows.items()
    }
    return {"fsync_off": {work: plain}}


def worse(now: kept.Figures, before: kept.Figures) -> dict[str, float]:
    return {change.figure: change.worse_by for change in kept.changes(now, before) if change.worse_by > kept.TOLERANCE}


def test_a_machine_half_as_fast_makes_nothing_worse():
    before = figures(ours=(1_000, 1.0), kafka=(100, 10.0))
    assert worse(figures(ours=(500, 2.0), kafka=(50, 20.0)), before) == {}


def test_what_got_worse_than_the_machine_is_named():
    before = figures(ours=(1_000, 1.0), kafka=(100, 10.0), aio=(10, 100.0))
    now = figures(ours=(440, 2.6), kafka=(50, 20.0), aio=(5, 200.0))
    assert worse(now, before) == pytest.approx({"records_per_s": 0.12, "cpu_us_per_record": 0.3})


def test_latency_is_worse_when_it_is_higher():
    before = figures("latency_1000_per_s", ours=(4.0, 1.0), kafka=(8.0, 1.0))
    assert worse(figures("latency_1000_per_s", ours=(5.0, 1.0), kafka=(8.0, 1.0)), before) == {"p99_ms": 0.25}
    assert worse(figures("latency_1000_per_s", ours=(3.0, 1.0), kafka=(8.0, 1.0)), before) == {}


@pytest.mark.parametrize(
    ("least", "most_cpu_us", "beyond"),
    [(700, 1.4, []), (810, 1.4, ["records_per_s"]), (700, 1.2, ["cpu_us_per_record"])],
)
def test_what_a_round_of_the_kept_run_had_as_well_may_be_chance(least: float, most_cpu_us: float, beyond: list[str]):
    before = figures(ours=(1_000, 1.0), kafka=(100, 10.0))
    row = dict(before["fsync_off"]["produce_100B"][RAFTLOG]) | {"min": least, "most_cpu_us": most_cpu_us}
    before = {"fsync_off": {"produce_100B": {**before["fsync_off"]["produce_100B"], RAFTLOG: row}}}
    found = kept.changes(figures(ours=(800, 1.3), kafka=(100, 10.0)), before)
    assert [change.worse_by for change in found] == pytest.approx([0.2, 0.3])
    assert [change.figure for change in found if change.beyond_rounds] == beyond


@pytest.mark.parametrize("before", [{}, figures(ours=(1, 1)), figures("consume_1KB", ours=(1, 1), kafka=(1, 1))])
def test_without_a_peer_in_both_runs_nothing_is_compared(before: kept.Figures):
    assert kept.changes(figures(ours=(1, 1), kafka=(1, 1)), before) == []


def test_kept_figures_are_those_of_this_kind_of_machine_and_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kept, "KEPT", tmp_path / "kept")
    assert kept.kept_figures(plan()) == {}
    kept.keep(plan(), figures(ours=(1_000, 1.0), kafka=(100, 10.0)))
    kept.keep(plan(), figures("consume_1KB", ours=(7, 7), kafka=(7, 7)) | {"fsync_on": {"produce_1KB": {}}})
    assert set(kept.kept_figures(plan())["fsync_off"]) == {"produce_100B", "consume_1KB"}
    assert kept.kept_figures(plan(partitions=12)) == {}
    assert kept.kept_figures(plan(tls=True)) == {}
    monkeypatch.setattr(kept, "machine_kind", lambda: "96-cores-riscv")
    assert kept.kept_figures(plan()) == {}


def test_the_report_says_what_got_worse_and_a_failed_run_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(kept, "KEPT", tmp_path / "kept")
    monkeypatch.setattr(report, "FOLDER", tmp_path / "bench")

    def run(rate: float, *errors: str) -> str:
        table = Table(errors=list(errors))
        for who, value in ((RAFTLOG, rate), (CONFLUENT, 100.0)):
            table.samples["produce_100B", who] = [
                sample(records_per_s=value) | {"client": "some", "settings": {}}  # type: ignore[dict-item]
            ]
        report.conclude(plan(), {False: table}, {}, {}, keeping=True)
        return capsys.readouterr().err

    assert "nothing to compare with" in run(1_000)
    assert "0 of 2 figures got worse by more than a tenth" in run(950)
    failed = run(700, "one client failed")
    assert "1 of 2 figures got worse" in failed
    assert "not kept: a trial failed" in failed
    told = run(800)
    assert "1 of 2 figures got worse by more than a tenth since the kept run, 1 of them beyond its rounds" in told
    assert "16%" in told
    assert "0 of 2 figures got worse" in run(800)
