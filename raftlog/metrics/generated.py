"""Files that are made from the tables of metrics and alerts: Grafana's boards, Prometheus' rules, the reference.

`scripts/write_metrics.py` writes them, and a test compares them with what this module makes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from raftlog.metrics import METRICS, TABLE, Metric
from raftlog.metrics.alerts import ALERTS, Alert
from raftlog.metrics.metric import Board

TITLES: Mapping[Board, str] = {
    "cluster": "raftlog: cluster",
    "topics": "raftlog: topics",
    "clients": "raftlog: clients and groups",
    "quorum": "raftlog: metadata quorum",
}
_SOURCE = {"type": "prometheus", "uid": "${source}"}
_UNITS = {"seconds": "s", "bytes": "bytes"}
_WIDTH, _HEIGHT, _ROW = 12, 8, 24
_REFERENCE_HEAD = """\
| Metric | Type | Meaning | Kafka's JMX name | Alert |
|---|---|---|---|---|
"""


def files() -> dict[str, str]:
    """Return every generated file, by its path from the root of the repository."""
    boards = {f"deploy/grafana/{board}.json": dashboard(board) for board in TITLES}
    return {**boards, "deploy/prometheus/rules.yml": rules(), "deploy/prometheus/prometheus.yml": scrape_config()}


def dashboard(board: Board) -> str:
    """Return one Grafana dashboard as JSON."""
    panels: dict[str, list[Metric]] = {}
    for metric in TABLE:
        if metric.board == board:
            panels.setdefault(metric.panel, []).append(metric)
    document = {
        "uid": f"raftlog-{board}",
        "title": TITLES[board],
        "tags": ["raftlog"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "links": [{"type": "dashboards", "tags": ["raftlog"], "title": "raftlog", "asDropdown": True}],
        "templating": {
            "list": [
                {"name": "source", "type": "datasource", "query": "prometheus", "label": "Prometheus"},
                {
                    "name": "instance",
                    "type": "query",
                    "label": "Node",
                    "datasource": _SOURCE,
                    "query": "label_values(raftlog_build_info, instance)",
                    "refresh": 2,
                    "multi": True,
                    "includeAll": True,
                    "allValue": ".*",
                },
            ]
        },
        "panels": [_panel(number, title, metrics) for number, (title, metrics) in enumerate(panels.items())],
    }
    return json.dumps(document, indent=2) + "\n"


def _panel(number: int, title: str, metrics: list[Metric]) -> dict[str, Any]:
    targets = [target for metric in metrics for target in _targets(metric)]
    for position, target in enumerate(targets):
        target |= {"refId": _letters(position), "datasource": _SOURCE}
    column, row = number * _WIDTH % _ROW, number * _WIDTH // _ROW * _HEIGHT
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": title,
        "description": "\n\n".join(f"{metric.name}: {metric.help}" for metric in metrics),
        "datasource": _SOURCE,
        "gridPos": {"h": _HEIGHT, "w": _WIDTH, "x": column, "y": row},
        "fieldConfig": {"defaults": {"unit": _panel_unit(metrics), "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": targets,
    }


def _targets(metric: Metric) -> list[dict[str, Any]]:
    """Return the queries that draw one metric."""
    chosen = f'{metric.name}{{instance=~"$instance"}}'
    legend = " ".join(f"{{{{{label}}}}}" for label in metric.labels) or "{{instance}}"
    by = ", ".join(metric.labels or ("instance",))
    short = metric.name.removeprefix("raftlog_").removesuffix("_total").removesuffix("_seconds")
    if metric.kind == "histogram":
        chosen = f'{metric.name}_bucket{{instance=~"$instance"}}'
        groups = ", ".join((*metric.labels, "le"))
        return [
            {
                "expr": f"histogram_quantile({quantile}, sum by ({groups}) (rate({chosen}[$__rate_interval])))",
                "legendFormat": " ".join(filter(None, (short, legend if metric.labels else "", f"p{percent}"))),
            }
            for quantile, percent in ((0.5, 50), (0.99, 99))
        ]
    inner = f"rate({chosen}[$__rate_interval])" if metric.kind == "counter" else chosen
    return [{"expr": f"{metric.fold} by ({by}) ({inner})", "legendFormat": f"{short} {legend}"}]


def _panel_unit(metrics: Iterable[Metric]) -> str:
    """Return Grafana's unit of a panel: that of all of its metrics, if they have one in common."""
    units = {_UNITS.get(metric.unit, "short") for metric in metrics}
    counters = {metric.kind == "counter" for metric in metrics}
    if len(units) > 1:
        return "short"
    (unit,) = units
    if counters == {True}:
        return {"bytes": "Bps", "s": "percentunit"}.get(unit, "cps")
    return unit


def _letters(position: int) -> str:
    return chr(ord("A") + position) if position < 26 else f"A{_letters(position - 26)}"


def rules() -> str:
    """Return Prometheus' alerting rules as YAML."""
    lines = [
        "# Made by scripts/write_metrics.py from raftlog/metrics/alerts.py.",
        "groups:",
        "  - name: raftlog",
        "    rules:",
    ]
    for alert in ALERTS:
        lines += [
            f"      - alert: {alert.name}",
            f"        expr: {_quoted(alert.expression)}",
            f"        for: {alert.minutes}m",
            "        labels:",
            f"          severity: {alert.severity}",
            "        annotations:",
            f"          summary: {_quoted(alert.summary)}",
            f"          description: {_quoted(alert.action)}",
        ]
    return "\n".join(lines) + "\n"


DETAILED = "raftlog_partition_(log|high|in_sync).*|raftlog_group_committed_offset"
"""The metrics that the second job keeps: the others would count twice."""


def scrape_config() -> str:
    """Return a configuration of Prometheus for the cluster of `raftlog dev up`."""
    return f"""\
# Made by scripts/write_metrics.py: for the cluster of `raftlog dev up`. Put your own nodes' addresses in its place.
global:
  scrape_interval: 15s
rule_files:
  - rules.yml
scrape_configs:
  - job_name: raftlog
    static_configs:
      - targets: ["127.0.0.1:9400", "127.0.0.1:9401", "127.0.0.1:9402"] # brokers, public listeners
      - targets: ["127.0.0.1:9420", "127.0.0.1:9421", "127.0.0.1:9422"] # controllers, internal listeners
  - job_name: raftlog-partitions
    scrape_interval: 60s
    params:
      detail: [partitions]
    metric_relabel_configs:
      - source_labels: [__name__]
        regex: {DETAILED}
        action: keep
    static_configs:
      - targets: ["127.0.0.1:9400", "127.0.0.1:9401", "127.0.0.1:9402"]
"""


def _quoted(text: str) -> str:
    """Return a YAML string: JSON's strings are YAML's."""
    return json.dumps(text)


def reference_table(metrics: Iterable[Metric]) -> str:
    """Return rows of the reference."""
    return _REFERENCE_HEAD + "".join(_reference_row(metric) for metric in metrics)


def _reference_row(metric: Metric) -> str:
    labels = "{" + ", ".join(metric.labels) + "}" if metric.labels else ""
    alerts = ", ".join(f"`{alert.name}`" for alert in alerts_of(metric.name))
    jmx = "`" + metric.jmx.replace("|", "\\|") + "`" if metric.jmx else ""
    return f"| `{metric.name}{labels}` | {metric.kind} | {metric.help} | {jmx} | {alerts} |\n"


def alerts_of(name: str) -> list[Alert]:
    """Return the alerts about a metric."""
    assert name in METRICS
    return [alert for alert in ALERTS if alert.metric == name]


def alert_table() -> str:
    """Return the rows of the how-to about monitoring."""
    rows = [
        f"| `{alert.name}` | {alert.severity} | `{alert.expression}` | {alert.minutes} | {_plain(alert.action)} |\n"
        for alert in ALERTS
    ]
    head = "| Alert | Severity | Fires while | For minutes | What to do |\n|---|---|---|---|---|\n"
    return head + "".join(rows)


def _plain(text: str) -> str:
    return text.replace("|", "\\|")
