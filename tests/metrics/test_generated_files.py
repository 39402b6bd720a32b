"""Dashboards, rules and tables of the documentation are those of the code, and name only metrics that exist."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from raftlog.metrics import METRICS, TABLE
from raftlog.metrics.alerts import ALERTS
from raftlog.metrics.generated import TITLES, dashboard, files

ROOT = Path(__file__).parents[2]
NAME = re.compile(r"\b((?:raftlog|process)_[a-z_]+)")


def metrics_in(expression: str) -> set[str]:
    """Return the metrics of a PromQL expression; a histogram by its own name."""
    bare = re.sub(r'"[^"]*"', "", expression)
    return {re.sub(r"_(bucket|sum|count)$", "", name) if name not in METRICS else name for name in NAME.findall(bare)}


def expressions(board: dict[str, Any]) -> list[str]:
    return [target["expr"] for panel in board["panels"] for target in panel["targets"]]


def test_the_generated_files_are_up_to_date():
    namespace: dict[str, Any] = {"__name__": "write_metrics", "__file__": str(ROOT / "scripts" / "write_metrics.py")}
    exec((ROOT / "scripts" / "write_metrics.py").read_text("utf-8"), namespace)
    stale = [path for path, text in namespace["contents"]().items() if (ROOT / path).read_text("utf-8") != text]

    assert stale == [], "run python scripts/write_metrics.py"
    kept = {str(path.relative_to(ROOT)) for path in (ROOT / "deploy").rglob("*") if path.is_file()}
    assert kept == set(files())


@pytest.mark.parametrize("name", TITLES)
def test_a_board_names_metrics_that_exist(name: Any):
    board = json.loads(dashboard(name))

    assert {metric for text in expressions(board) for metric in metrics_in(text)} <= METRICS.keys()
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    for panel in board["panels"]:
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


def test_every_metric_is_on_a_board():
    drawn = {
        metric for name in TITLES for text in expressions(json.loads(dashboard(name))) for metric in metrics_in(text)
    }

    assert drawn == {metric.name for metric in TABLE}


def test_alerts_are_about_metrics_and_labels_that_exist():
    assert len({alert.name for alert in ALERTS}) == len(ALERTS)
    for alert in ALERTS:
        assert alert.metric in METRICS
        named = metrics_in(alert.expression)
        assert named <= METRICS.keys(), alert.name
        assert alert.metric in named or "up{" in alert.expression, alert.name
        shown = set(re.findall(r"\$labels\.(\w+)", alert.summary))
        known = {"instance"}.union(*(METRICS[name].labels for name in named))
        assert shown <= known, alert.name


def test_alerts_point_to_pages_that_exist():
    pages = {page for alert in ALERTS for page in re.findall(r"docs/[\w/-]+\.md", alert.action)}

    assert len(pages) >= 3
    assert [page for page in pages if not (ROOT / page).is_file()] == []


def test_rules_and_configuration_are_yaml_that_prometheus_reads():
    rules = yaml.safe_load(files()["deploy/prometheus/rules.yml"])
    config = yaml.safe_load(files()["deploy/prometheus/prometheus.yml"])
    (group,) = rules["groups"]

    assert [rule["alert"] for rule in group["rules"]] == [alert.name for alert in ALERTS]
    assert [rule["expr"] for rule in group["rules"]] == [alert.expression for alert in ALERTS]
    assert {re.fullmatch(r"\d+m", rule["for"]) is not None for rule in group["rules"]} == {True}
    assert [job["job_name"] for job in config["scrape_configs"]] == ["raftlog", "raftlog-partitions"]
    assert config["scrape_configs"][1]["params"] == {"detail": ["partitions"]}
