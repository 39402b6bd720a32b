"""The tables of errors, metrics and Spark options in docs/reference/ are those of the code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pyspark_raftlog.option_names import KNOWN_OPTIONS, SINK_OPTIONS
from raftlog.broker.openapi.operations import OPERATIONS
from raftlog.error_codes import HTTP_STATUS, ErrorCode
from raftlog.errors import RaftlogError
from raftlog.metrics import METRICS, TABLE
from raftlog.prometheus import TABLE as CLIENT_TABLE

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
OF_CLIENTS = [
    (f"raftlog_{kind}_{metric.name}", "counter" if metric.is_counter else "gauge")
    for kind, table in CLIENT_TABLE.items()
    for metric in table
]


def test_every_error_code_is_documented_with_its_status():
    rows = re.findall(r"^\| `([A-Z_]+)` \| (\d+)", (REFERENCE / "errors.md").read_text("utf-8"), re.MULTILINE)

    assert dict(rows) == {code.value: str(HTTP_STATUS.get(code, 500)) for code in ErrorCode}
    assert len(rows) == len(ErrorCode)


def test_the_tables_of_requests_are_those_of_the_code():
    script = ROOT / "scripts" / "write_http_reference.py"
    namespace: dict[str, Any] = {"__name__": "write_http_reference", "__file__": str(script)}
    exec(script.read_text("utf-8"), namespace)
    page = (REFERENCE / "http.md").read_text("utf-8")

    assert page == namespace["contents"](), "run python scripts/write_http_reference.py"
    for operation in OPERATIONS:
        assert f"| `{operation.method} {operation.path}" in page
        assert [one.name for one in operation.query if f"\n| `{one.name}` |" not in page] == []


def test_every_error_class_is_documented():
    text = (REFERENCE / "errors.md").read_text("utf-8")
    table = text[: text.index("## Codes")]

    assert set(re.findall(r"`(\w+Error)`", table)) == {cls.__name__ for cls in _below(RaftlogError)}


def _below(cls: type) -> list[type]:
    return [
        found
        for child in cls.__subclasses__()
        if child.__module__ == "raftlog.errors"
        for found in (child, *_below(child))
    ]


def test_every_metric_is_documented_with_its_type():
    page = (REFERENCE / "metrics.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+_\w+)(?:\{.*?\})?` \| (counter|gauge|histogram) ", page, re.MULTILINE)

    assert sorted(rows) == sorted([*((metric.name, metric.kind) for metric in TABLE), *OF_CLIENTS])


def test_every_metric_that_is_named_anywhere_exists():
    named = {
        name for page in ROOT.glob("docs/**/*.md") for name in re.findall(r"`(raftlog_\w+)", page.read_text("utf-8"))
    }

    assert {name for name in named if not name.endswith("_")} <= METRICS.keys() | dict(OF_CLIENTS).keys()


def test_every_spark_option_is_documented():
    source, sink = (REFERENCE / "spark-options.md").read_text("utf-8").split("## The sink\n")

    assert _options(source) == {name.lower() for name in KNOWN_OPTIONS}
    assert _options(sink[: sink.index("## The sink: columns")]) | _SHARED == {name.lower() for name in SINK_OPTIONS}


_SHARED = {
    "bootstrap", "clientid", "dial", "timeoutms", "cafile", "certfile", "keyfile", "user", "passwordfile", "login",
    "tokenfile", "traceparent",
}  # fmt: skip
"""Options of the sink that the table of the source explains."""


def _options(text: str) -> set[str]:
    text = text.replace("## The source: columns", "\0").split("\0")[0]
    return {
        name.lower()
        for row in re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", text, re.MULTILINE)
        for name in re.findall(r"\w+", row)
    }
