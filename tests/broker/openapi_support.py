"""Checks of an OpenAPI document, and of requests and answers by it. They refuse every keyword that they do not know."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

Json = Mapping[str, Any]
TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
    "array": (list,),
    "object": (dict,),
}
ANNOTATIONS = {"description", "default", "format", "x-codes"}
KEYWORDS = {
    "$ref", "allOf", "anyOf", "type", "enum", "minimum", "maximum", "minItems", "maxItems", "pattern", "items",
    "properties", "required", "additionalProperties", *ANNOTATIONS,
}  # fmt: skip
FIELDS: dict[str, tuple[set[str], set[str]]] = {
    "document": ({"openapi", "info", "paths"}, {"servers", "tags", "components"}),
    "info": ({"title", "version"}, {"summary", "license"}),
    "operation": (
        {"responses", "operationId", "summary", "description", "security", "tags", "parameters"},
        {"requestBody", "x-rights", "x-errors"},
    ),
    "parameter": ({"name", "in", "schema", "description"}, {"required", "example"}),
    "body": ({"content", "required"}, set()),
    "response": ({"description"}, {"content", "headers"}),
    "media": ({"schema"}, {"x-head"}),
    "header": ({"schema", "description"}, set()),
}
"""Of each kind of object: the fields that it must have, and those that it may have."""


def resolved(document: Json, node: Json) -> Json:
    """Return what a reference refers to, or the node itself."""
    if "$ref" not in node:
        return node
    assert set(node) - ANNOTATIONS == {"$ref"}, node
    found: Any = document
    for step in node["$ref"].removeprefix("#/").split("/"):
        found = found[step]
    return found


def faults(document: Json, schema: Json, value: Any, where: str = "") -> Iterator[str]:
    """Yield how a value differs from a schema."""
    assert schema.keys() <= KEYWORDS, schema
    if "$ref" in schema:
        yield from faults(document, resolved(document, schema), value, where)
    for part in schema.get("allOf", ()):
        yield from faults(document, part, value, where)
    if "anyOf" in schema:
        found = [list(faults(document, part, value, where)) for part in schema["anyOf"]]
        if all(found):
            yield from found[0]
    kind = schema.get("type")
    if kind is not None and not (isinstance(value, TYPES[kind]) and (kind == "boolean") == isinstance(value, bool)):
        yield f"{where}: expected {kind}, received {value!r}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where}: expected one of {schema['enum']}, received {value!r}"
    if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        yield f"{where}: expected {schema['pattern']}, received {value!r}"
    yield from _bounds(schema, value, where)
    if isinstance(value, list | dict):
        yield from _members(document, schema, value, where)


def _bounds(schema: Json, value: Any, where: str) -> Iterator[str]:
    size = len(value) if isinstance(value, list) else value
    for least, most in (("minimum", "maximum"), ("minItems", "maxItems")):
        if least in schema and isinstance(size, int) and not schema[least] <= size <= schema[most]:
            yield f"{where}: expected {schema[least]} to {schema[most]}, received {size}"


def _members(document: Json, schema: Json, value: list[Any] | dict[str, Any], where: str) -> Iterator[str]:
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from faults(document, schema.get("items", {}), item, f"{where}[{number}]")
        return
    properties = schema.get("properties", {})
    yield from (f"{where}.{name} is missing" for name in schema.get("required", ()) if name not in value)
    others = schema.get("additionalProperties", True)
    for name, member in value.items():
        if name in properties:
            yield from faults(document, properties[name], member, f"{where}.{name}")
        elif others is False:
            yield f"{where}.{name} is unknown"
        elif others is not True:
            yield from faults(document, others, member, f"{where}.{name}")


def require_valid(document: Json) -> None:
    """Check the structure that OpenAPI 3.1 requires, of the parts that our document uses."""
    _has_fields("document", document)
    _has_fields("info", document["info"])
    assert document["openapi"].startswith("3.1.")
    components = document["components"]
    assert components.keys() <= {"schemas", "responses", "parameters", "headers", "securitySchemes"}
    assert all(re.fullmatch(r"[\w.-]+", name) for part in components.values() for name in part)
    for scheme in components["securitySchemes"].values():
        assert scheme["type"] == "mutualTLS" or (scheme["type"] == "http" and scheme["scheme"] in ("basic", "bearer"))
    for schema in components["schemas"].values():
        _require_schema(document, schema)
    for response in components["responses"].values():
        _require_response(document, response)
    for parameter in components["parameters"].values():
        _require_parameter(document, parameter)
    tags, ids = {tag["name"] for tag in document["tags"]}, list[str]()
    for path, methods in document["paths"].items():
        assert path.startswith("/")
        for method, operation in methods.items():
            assert method in ("get", "put", "post", "delete", "options", "patch"), method
            _require_operation(document, path, operation)
            assert set(operation["tags"]) <= tags
            ids.append(operation["operationId"])
    assert len(set(ids)) == len(ids)


def _require_operation(document: Json, path: str, operation: Json) -> None:
    _has_fields("operation", operation)
    parameters = [resolved(document, parameter) for parameter in operation["parameters"]]
    for parameter in parameters:
        _require_parameter(document, parameter)
    named = [(parameter["in"], parameter["name"]) for parameter in parameters]
    assert len(set(named)) == len(named)
    assert {name for place, name in named if place == "path"} == set(re.findall(r"{(\w+)}", path))
    assert all(set(one) <= set(document["components"]["securitySchemes"]) for one in operation["security"])
    if "requestBody" in operation:
        _has_fields("body", operation["requestBody"])
        _require_contents(document, operation["requestBody"]["content"])
    assert operation["responses"].keys() & {"200", "201", "202", "204"}
    for status, response in operation["responses"].items():
        assert re.fullmatch(r"[2-5]\d\d|default", status)
        _require_response(document, resolved(document, response))


def _require_parameter(document: Json, parameter: Json) -> None:
    _has_fields("parameter", parameter)
    assert parameter["in"] in ("path", "query", "header")
    assert parameter.get("required", False) == (parameter["in"] == "path")
    assert parameter["name"] not in ("Accept", "Content-Type", "Authorization"), "OpenAPI ignores these"
    _require_schema(document, parameter["schema"])


def _require_response(document: Json, response: Json) -> None:
    _has_fields("response", response)
    _require_contents(document, response.get("content", {}))
    for header in response.get("headers", {}).values():
        _has_fields("header", resolved(document, header))
        _require_schema(document, resolved(document, header)["schema"])


def _require_contents(document: Json, contents: Json) -> None:
    for form, media in contents.items():
        assert re.fullmatch(r"[\w.+-]+/[\w.+-]+", form), form
        _has_fields("media", media)
        _require_schema(document, media["schema"])
        _require_schema(document, media.get("x-head", {}))


def _require_schema(document: Json, schema: Json) -> None:
    assert schema.keys() <= KEYWORDS, schema
    assert schema.get("type", "object") in TYPES
    resolved(document, schema)
    if "default" in schema and "$ref" not in schema:
        assert list(faults(document, schema, schema["default"])) == [], schema
    assert set(schema.get("required", ())) <= schema.get("properties", {}).keys() or "properties" not in schema
    parts = [*schema.get("allOf", ()), *schema.get("anyOf", ()), *schema.get("properties", {}).values()]
    parts += [schema[name] for name in ("items", "additionalProperties") if isinstance(schema.get(name), dict)]
    for part in parts:
        _require_schema(document, part)


def _has_fields(kind: str, node: Json) -> None:
    required, optional = FIELDS[kind]
    assert required <= node.keys() <= required | optional, (kind, node)
