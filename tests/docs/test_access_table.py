"""The table of routes and rights in docs/reference/access-rules.md is that of the code; REWRITE=1 rewrites it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from raftlog.broker.openapi.document import needs
from raftlog.security.routes import INTERNAL, PUBLIC

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "access-rules.md"
BEGIN, END = "<!-- routes: begin -->\n", "<!-- routes: end -->\n"


def table() -> Iterator[str]:
    for title, routes in (("The public listener of brokers", PUBLIC), ("Internal listeners", INTERNAL)):
        yield f"### {title}\n\n| Request | Needs |\n|---|---|\n"
        for route in sorted(routes, key=lambda route: (route.path, route.method)):
            yield f"| `{route.method} {route.path}` | {needs(route)} |\n"
        yield "\n"


def test_the_page_has_the_table_of_the_code():
    text = PAGE.read_text("utf-8")
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    expected = f"{before}{BEGIN}\n{''.join(table())}{END}{after}"
    if os.environ.get("REWRITE"):
        PAGE.write_text(expected, "utf-8")
    assert PAGE.read_text("utf-8") == expected
