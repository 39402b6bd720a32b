"""Write what is made from the tables of metrics and alerts: dashboards, rules, and tables of the documentation.

    python scripts/write_metrics.py

In Markdown pages it replaces what is between `<!-- begin: NAME -->` and `<!-- end: NAME -->`.
"""

from __future__ import annotations

import re
from pathlib import Path

from raftlog.metrics.generated import alert_table, files, reference_table
from raftlog.metrics.node_table import PROCESS_TABLE, QUORUM_TABLE
from raftlog.metrics.replica_table import REPLICA_TABLE
from raftlog.metrics.request_table import REQUEST_TABLE
from raftlog.prometheus import TABLE, Kind

ROOT = Path(__file__).parents[1]


def client_table(kind: Kind) -> str:
    """Return the table of a kind of client's metrics."""
    rows = [
        f"| `raftlog_{kind}_{metric.name}{{{', '.join(['client', *metric.labels])}}}` "
        f"| {'counter' if metric.is_counter else 'gauge'} | {metric.help} |\n"
        for metric in TABLE[kind]
    ]
    return "| Metric | Type | Meaning |\n|---|---|---|\n" + "".join(rows)


BY_PAGE = {
    "docs/reference/metrics.md": {
        "requests": reference_table(REQUEST_TABLE),
        "replicas": reference_table([metric for metric in REPLICA_TABLE if not metric.detail]),
        "partitions": reference_table([metric for metric in REPLICA_TABLE if metric.detail]),
        "quorum": reference_table(QUORUM_TABLE),
        "process": reference_table(PROCESS_TABLE),
        "producer": client_table("producer"),
        "consumer": client_table("consumer"),
    },
    "docs/how-to/monitor.md": {"alerts": alert_table()},
}


def contents() -> dict[str, str]:
    """Return every file, by its path, as it must be."""
    pages = {path: _filled((ROOT / path).read_text("utf-8"), tables) for path, tables in BY_PAGE.items()}
    return files() | pages


def _filled(page: str, tables: dict[str, str]) -> str:
    for name, table in tables.items():
        begin, end = f"<!-- begin: {name} -->", f"<!-- end: {name} -->"
        page, count = re.subn(f"{begin}.*?{end}", lambda _: f"{begin}\n\n{table}\n{end}", page, flags=re.DOTALL)  # noqa: B023
        assert count == 1, f"expected {begin} and {end} once"
    return page


def main() -> None:
    """Write every file that differs."""
    for path, content in contents().items():
        target = ROOT / path
        if not target.exists() or target.read_text("utf-8") != content:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(content, "utf-8")
            print(f"wrote {path}")


if __name__ == "__main__":
    main()
