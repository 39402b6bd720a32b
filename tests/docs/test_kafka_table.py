"""The table of APIs in docs/reference/kafka.md is that of the code; REWRITE=1 rewrites it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from raftlog.broker.kafka.api_versions_api import as_served, handler_of, offered
from raftlog.broker.kafka.handlers import HANDLERS
from raftlog.broker.openapi.document import needs
from raftlog.security.kafka_apis import KAFKA
from raftlog.wire.kafka.api_keys import API_VERSIONS

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "kafka.md"
BEGIN, END = "<!-- apis: begin -->\n", "<!-- apis: end -->\n"


def table() -> Iterator[str]:
    served = as_served({**HANDLERS, API_VERSIONS: handler_of(())})
    yield "\n| Key | API | Versions | Needs |\n|---|---|---|---|\n"
    for one in offered(dict(sorted(served.items()))):
        versions = f"{served[one.api_key].first} to {one.max_version}"
        yield f"| {one.api_key} | {KAFKA[one.api_key].path} | {versions} | {needs(KAFKA[one.api_key])} |\n"


def test_the_page_has_the_table_of_the_code():
    text = PAGE.read_text("utf-8")
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    expected = f"{before}{BEGIN}{''.join(table())}\n{END}{after}"
    if os.environ.get("REWRITE"):
        PAGE.write_text(expected, "utf-8")
    assert PAGE.read_text("utf-8") == expected, "run REWRITE=1 pytest tests/docs/test_kafka_table.py"
