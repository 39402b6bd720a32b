"""Write the tables of docs/reference/http.md, from the operations and schemas of the OpenAPI document.

    python scripts/write_http_reference.py

It replaces what is between `<!-- begin: NAME -->` and `<!-- end: NAME -->`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from types import UnionType
from typing import Any, get_args

from raftlog.broker.openapi import parameters
from raftlog.broker.openapi.document import document, sentence
from raftlog.broker.openapi.operation import TAGS, Operation, Raw
from raftlog.broker.openapi.operations import OPERATIONS
from raftlog.broker.openapi.parameters import Parameter

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "http.md"
SCHEMAS = document()["components"]["schemas"]
QUERIES: dict[str, tuple[Parameter, ...]] = {
    "query of produce": (parameters.ACKS, parameters.TIMEOUT_MS, parameters.TRANSACTIONAL_ID),
    "query of a partition": (*parameters.RECORDS, parameters.AT),
    "query of a topic": parameters.TOPIC_READ,
    "query of listings": (
        parameters.CONSISTENCY,
        parameters.TOPIC_NAMES,
        *parameters.PAGE,
        parameters.SCOPE,
        parameters.STATE,
        parameters.ONLY,
        parameters.DETAIL,
        parameters.CONSOLE_GROUP,
        *parameters.ACL_FILTER,
    ),
    "query of the audit log": parameters.AUDIT,
}


def contents() -> str:
    """Return the page as it must be."""
    tables = {tag: operations_table(one for one in OPERATIONS if one.tag == tag) for tag in TAGS}
    tables |= {name: parameters_table(some) for name, some in QUERIES.items()}
    page = PAGE.read_text("utf-8")
    for name, table in tables.items():
        begin, end = f"<!-- begin: {name} -->", f"<!-- end: {name} -->"
        page, count = re.subn(f"{begin}.*?{end}", lambda _: f"{begin}\n\n{table}\n{end}", page, flags=re.DOTALL)  # noqa: B023
        assert count == 1, f"expected {begin} and {end} once"
    return page


def operations_table(operations: Iterable[Operation]) -> str:
    """Return a table of requests: the query, the body, the answer."""
    rows = ["| Request | |", "|---|---|"]
    for one in operations:
        query = ", ".join(f"`{parameter.name}`" for parameter in one.query)
        words = [f"{one.summary}.", one.details, f"Query: {query}." if query else ""]
        words.append(one.only_there)
        words += [f"Body: {_contents(kind, 3)}." for kind in one.body.values()]
        words += list(dict.fromkeys(f"Answers {_answer(answer)}." for answer in one.answers.values() if answer))
        rows.append(f"| `{one.method} {one.path}` | {' '.join(filter(None, words)).replace('(http.md#', '(#')} |")
    return "\n".join(rows) + "\n"


def parameters_table(some: Iterable[Parameter]) -> str:
    """Return a table of names in a query."""
    rows = ["| Name | Values | Default | Meaning |", "|---|---|---|---|"]
    for one in some:
        default = "" if one.default in (None, "") else f"`{one.default}`"
        rows.append(f"| `{one.name}` | {_values(one)} | {default} | {sentence(one.meaning)} |")
    return "\n".join(rows) + "\n"


def _values(parameter: Parameter) -> str:
    words = [f"`{choice}`" for choice in parameter.choices]
    if parameter.integer:
        most = "" if parameter.most == parameters.MOST else f" to {parameter.most}"
        words.append(f"a number from {parameter.least}{most}")
    return ", ".join(words) or "text"


def _answer(contents: Any) -> str:
    if len(contents) > 1:
        return "one of " + ", ".join(f"`{form}`" for form in contents)
    return _contents(*contents.values(), 1)


def _contents(kind: Any, depth: int) -> str:
    if isinstance(kind, UnionType):
        return " or ".join(_contents(one, depth) for one in get_args(kind))
    if not isinstance(kind, Raw):
        shape = _shape(_schema(kind), depth)
        return f"`{shape}`" if shape else "JSON"
    return kind.meaning if kind.head is None else f"{kind.meaning}; head: `{_shape(_schema(kind.head), depth)}`"


def _schema(kind: Any) -> dict[str, Any]:
    """Return the schema of a body's type: of requests, where there are two."""
    found: dict[str, Any] = SCHEMAS.get(f"{kind.__name__}Input") or SCHEMAS.get(kind.__name__) or {}
    return found


def _shape(schema: dict[str, Any], depth: int) -> str:
    """Return a schema's members as text; `?` marks those that may be missing."""
    if "$ref" in schema:
        schema = SCHEMAS[schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        lists = [one for one in schema["anyOf"] if one.get("type") == "array" or "$ref" in one]
        return _shape(lists[0], depth) if lists else ""
    if schema.get("type") == "array":
        inner = _shape(schema["items"], depth)
        return f"[{inner}]" if inner else ""
    if "properties" not in schema:
        return ""
    if not depth:
        return "{...}"
    required = schema.get("required", ())
    return (
        "{" + ", ".join(_member(name, one, depth, name in required) for name, one in schema["properties"].items()) + "}"
    )


def _member(name: str, schema: dict[str, Any], depth: int, required: bool) -> str:
    inner = _shape(schema, depth - 1)
    return f'"{name}"{"" if required else "?"}{f": {inner}" if inner else ""}'


def main() -> None:
    """Write the page if it differs."""
    page = contents()
    if PAGE.read_text("utf-8") != page:
        PAGE.write_text(page, "utf-8")
        print(f"wrote {PAGE}")


if __name__ == "__main__":
    main()
