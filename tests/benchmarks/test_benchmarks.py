"""The benchmarks work: they measure something, judge it, and report it. No speed is tested."""

from __future__ import annotations

import subprocess
from pathlib import Path

import orjson
import pytest

from benchmarks import __main__ as command
from benchmarks.quorum_commits import Voters, commits_per_s, measured
from benchmarks.report import Bound, Effort, Figure, conclude


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTHONPATH", str(Path.cwd()))
    monkeypatch.chdir(tmp_path)


@pytest.mark.cluster
def test_commits_are_counted():
    figure = commits_per_s(Effort(quick=True), count=500, depth=4)
    assert len(figure.samples) == 2
    assert all(per_s > 0 for per_s in figure.samples)
    assert figure.to_plain().keys() == {
        "ok", "bounds", "count", "min", "median", "p99", "max", "leader_cpu_us_per_commit",
    }  # fmt: skip


@pytest.mark.cluster
def test_voters_time_commits_and_end(tmp_path: Path):
    def measure(running: Voters, leader: subprocess.Popen[bytes]):
        ended.append(running)
        return running.run(leader, run="latency", count=20, size=50)["ms"]

    ended: list[Voters] = []
    assert len(measured(measure)) == 20
    assert [process.returncode for process in ended[-1].processes] == [0, 0, 0]
    assert list((tmp_path / "build").iterdir()) == []


def test_a_missed_bound_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    kept = Figure(name="kept", samples=[1.0, 2.0, 3.0], bounds=(Bound(statistic="max", at_most=4),))
    missed = Figure(name="missed", samples=[1.0, 2.0, 9.0], bounds=(Bound(statistic="median", at_least=5),))
    nothing = Figure(name="nothing", samples=[])
    assert conclude("some", [kept], folder=tmp_path) == 0
    assert conclude("some", [kept, missed, nothing], folder=tmp_path) == 1
    line = capsys.readouterr().out.splitlines()[-1]
    assert orjson.loads(line) == orjson.loads((tmp_path / "some.json").read_bytes())
    verdicts = {name: figure["ok"] for name, figure in orjson.loads(line)["figures"].items()}
    assert verdicts == {"kept": True, "missed": False, "nothing": False}
    assert orjson.loads(line)["figures"]["missed"]["bounds"] == ["median >= 5"]


@pytest.mark.parametrize("arguments", [["--only", "nothing"], ["--kills", "0"], ["nowhere"]])
def test_wrong_usage_is_refused(arguments: list[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("sys.argv", ["benchmarks", *arguments])
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert ended.value.code == 2
