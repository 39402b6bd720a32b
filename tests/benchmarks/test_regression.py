"""Figures are compared with kept ones in proportion to what the machine could do."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import regression
from benchmarks.calibration import calibrate
from benchmarks.plot import Bar, Chart, page
from benchmarks.report import Better, Figure


def figure(value: float, better: Better | None = "more") -> Figure:
    return Figure(name="some", samples=[value], better=better)


@pytest.mark.parametrize(
    ("better", "kept", "measured", "share"),
    [
        ("more", 100, 100, 0.5),
        ("more", 100, 200, 1),
        ("less", 10, 5, 1),
        ("less", 10, 10, 0.5),
        ("less_whatever_speed", 80, 80, 1),
    ],
)
def test_a_machine_twice_as_fast_has_to_do_twice_as_much(better: Better, kept: float, measured: float, share: float):
    assert regression.share_of(figure(measured, better), kept, faster=2.0) == share


def test_kept_figures_are_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(regression, "KEPT", tmp_path)
    assert regression.compare("suite", [figure(1)], {"speed": 1.0}) == {}
    regression.keep("suite", [figure(100), Figure(name="explains", samples=[1.0])], {"speed": 10.0})
    compared = regression.compare(
        "suite", [figure(65), Figure(name="new", samples=[1.0], better="more")], {"speed": 10.0}
    )
    assert compared == {"some": {"share_of_kept": 0.65, "ok": False}}


def test_calibration_measures_every_part():
    found = calibrate()
    assert found.keys() == {"python_per_s", "loopback_MBps", "synced_MBps", "speed"}
    assert all(value > 0 for value in found.values())


def test_a_page_holds_everything_itself():
    bar = Bar(label="kafka & co", value=1_234_567, low=1_000_000, high=2_000_000, note="(3 x)")
    text = page("title", ["intro"], [Chart(title="produce", unit="records/s", bars=[bar])], appendix="{}")
    assert "kafka &amp; co" in text
    assert "1,234,567" in text
    assert not any(word in text for word in ("<script", "src=", "href="))
