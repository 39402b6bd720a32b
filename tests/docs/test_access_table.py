"""The table of routes and rights in docs/reference/access-rules.md is that of the code; REWRITE=1 rewrites it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from raftlog.security.routes import INTERNAL, PUBLIC, Right, Route

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "access-rules.md"
BEGIN, END = "<!-- routes: begin -->\n", "<!-- routes: end -->\n"


def shown(right: Right) -> str:
    resource = right.resource.replace("_", " ")
    if right.resource == "cluster":
        return f"{right.operation} on the {right.where or 'cluster'}"
    where = right.where or f"`{{{right.variable}}}`"
    return f"{right.operation} on the {resource} {where}"


def needs(route: Route) -> str:
    if route.gate == "open":
        return "nothing"
    if route.gate == "node":
        return (
            f"the broker whose id is `{route.identity}`"
            if route.identity
            else "a node; or cluster_action on the cluster"
        )
    return "; ".join(map(shown, route.rights)) or "a login"


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
