"""The OpenAPI document: valid, complete, and one with what the handlers' decoders accept."""

from __future__ import annotations

import asyncio
import json
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from click.testing import CliRunner
from openapi_support import faults, require_valid

from raftlog.broker.context import BrokerContext
from raftlog.broker.openapi.document import document, document_of
from raftlog.broker.openapi.operation import Operation, Raw, json_of
from raftlog.broker.openapi.operations import OPERATIONS, require_described
from raftlog.broker.routes.openapi import OpenapiRoutes
from raftlog.cli.main import cli
from raftlog.errors import ErrorCode, InvalidRequestError, from_wire
from raftlog.schema import from_plain
from raftlog.security.routes import PUBLIC, Route
from raftlog.wire import paths
from raftlog.wire.data import MAX_REQUEST_PARTITIONS, FetchRequest, JsonProduceRequest

DOCUMENT = document()
SCHEMAS = DOCUMENT["components"]["schemas"]


def test_the_document_is_valid():
    require_valid(DOCUMENT)


def test_every_public_route_occurs_and_no_internal_one():
    listed = {f"{method.upper()} {path}" for path, methods in DOCUMENT["paths"].items() for method in methods}

    assert listed == {route.name for route in PUBLIC}
    assert {operation.name for operation in OPERATIONS} == listed
    assert not any(path.startswith("/internal") for path in DOCUMENT["paths"])


def test_a_route_without_an_operation_does_not_start():
    require_described(PUBLIC)
    with pytest.raises(RuntimeError, match="POST /v1/new"):
        require_described([*PUBLIC, Route(method="POST", path="/v1/new")])


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a new route takes."""

    text: str
    again: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class First:
    """One answer."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Second:
    """Another answer."""

    token: str
    kind: str = "Bearer"


def test_a_new_route_needs_its_entry_only():
    route = Route(method="POST", path="/v1/new", gate="open")
    operation = Operation(
        method="POST",
        path="/v1/new",
        id="new",
        tag="Security",
        summary="New",
        body=json_of(Question),
        answers={200: json_of(First | Second)},
    )
    made = document_of([route], [operation])
    require_valid(made)
    answer = made["paths"]["/v1/new"]["post"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert list(faults(made, answer, {"token": "t", "kind": "Bearer"})) == []
    assert list(faults(made, answer, {"text": "t", "more": 1}))
    assert made["components"]["schemas"]["Question"]["required"] == ["text"]
    assert made["paths"]["/v1/new"]["post"]["security"] == []


@pytest.mark.parametrize("code", list(ErrorCode))
def test_every_error_has_the_documented_form(code: ErrorCode):
    for details in ({}, {"leader": 1}):
        error = from_wire({"code": code.value, "message": "why", "details": details})
        shown = SCHEMAS["ErrorCode"]["x-codes"][code.value]
        assert (shown["status"], shown["retriable"]) == (error.http_status, error.retriable)
        assert shown["description"].endswith(".")
        response = DOCUMENT["components"]["responses"].get(f"Error{error.http_status}")
        response = response or DOCUMENT["components"]["responses"]["Error"]
        schema = response["content"]["application/json"]["schema"]
        assert list(faults(DOCUMENT, schema, {"error": error.to_wire()})) == []
        assert list(faults(DOCUMENT, schema, {"error": {**error.to_wire(), "hint": "x"}}))
    assert set(SCHEMAS["ErrorCode"]["enum"]) == {each.value for each in ErrorCode}


PART = {"topic": "t", "partition": 0, "offset": 0}
VALUES: list[tuple[type, Any, bool]] = [
    (FetchRequest, {"partitions": [PART]}, True),
    (FetchRequest, {"partitions": [PART], "isolation": "read_committed", "max_wait_ms": 0}, True),
    (FetchRequest, {"partitions": [PART], "isolation": "none"}, False),
    (FetchRequest, {"partitions": [PART], "max_wait_ms": None}, False),
    (FetchRequest, {"partitions": [PART], "max_wait_ms": True}, False),
    (FetchRequest, {"partitions": [PART], "wait": 1}, False),
    (FetchRequest, {"partitions": [{**PART, "max_bytes": 0}]}, False),
    (FetchRequest, {"partitions": [{"topic": "t"}]}, False),
    (FetchRequest, {}, False),
    (FetchRequest, {"partitions": [PART] * MAX_REQUEST_PARTITIONS}, True),
    (FetchRequest, {"partitions": [PART] * (MAX_REQUEST_PARTITIONS + 1)}, False),
    (JsonProduceRequest, {"records": []}, False),
    (JsonProduceRequest, {"records": [{}]}, True),
    (JsonProduceRequest, {"records": [{"value": {"a": [1]}, "headers": {"h": 1}, "timestamp": "2024-01-01"}]}, True),
    (JsonProduceRequest, {"records": [{"headers": [{"key": "h", "value": None}], "timestamp": None}]}, True),
    (JsonProduceRequest, {"records": [{"headers": 1}]}, False),
    (JsonProduceRequest, {"records": [{"partition": "0"}]}, False),
]


@pytest.mark.parametrize(("cls", "value", "is_valid"), VALUES)
def test_schemas_accept_what_decoders_accept(cls: type, value: Any, is_valid: bool):
    assert (list(faults(DOCUMENT, SCHEMAS[cls.__name__], value)) == []) == is_valid
    if is_valid:
        from_plain(cls, value)
    else:
        with pytest.raises(InvalidRequestError):
            from_plain(cls, value)


def test_a_type_of_requests_and_answers_has_a_schema_for_each():
    rule = {"principal": "a", "operation": "read", "resource_type": "topic", "resource_name": "t"}
    whole = {**rule, "pattern": "literal", "permission": "allow", "host": "*"}
    assert list(faults(DOCUMENT, SCHEMAS["AclsRequest"], {"acls": [rule]})) == []
    assert list(faults(DOCUMENT, SCHEMAS["AclsResponse"], {"acls": [rule], "authorizer": "off"}))
    assert list(faults(DOCUMENT, SCHEMAS["AclsResponse"], {"acls": [whole], "authorizer": "off", "matching": 1})) == []


def test_what_a_reader_needs_is_in_words():
    create = DOCUMENT["paths"]["/v1/topics"]["post"]
    assert "Needs: create on the topic" in create["description"]
    assert {"operation": "create", "resource": "topic"}.items() <= create["x-rights"][0].items()
    read = DOCUMENT["paths"]["/v1/topics/{topic}/partitions/{partition}/records"]["get"]
    assert {"307", "400", "401", "403", "404", "416", "429", "503"} <= read["responses"].keys()
    by_name = {one["name"]: one for one in read["parameters"] if "name" in one}
    assert by_name["max_bytes"]["schema"] == {
        "type": "integer",
        "minimum": 1,
        "maximum": 2**63 - 1,
        "default": 1 << 20,
    }
    assert "milliseconds" in SCHEMAS["JsonRecord"]["properties"]["timestamp"]["description"].lower()
    text = json.dumps(DOCUMENT)
    assert "paths." not in text
    assert "](" not in text


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.id)
def test_operations_are_described(operation: Operation):
    assert operation.summary[0].isupper()
    assert not operation.summary.endswith(".")
    assert operation.details == "" or operation.details.endswith(".")
    kinds = [kind for contents in operation.answers.values() for kind in contents.values()]
    assert all(kind.meaning for kind in kinds if isinstance(kind, Raw))
    assert replace(operation, path="/").name == f"{operation.method} /"


def test_the_command_writes_the_document(tmp_path: Path):
    file = tmp_path / "openapi.json"
    printed = CliRunner().invoke(cli, ["generate", "openapi"])
    written = CliRunner().invoke(cli, ["generate", "openapi", "--output", str(file)])

    assert (printed.exit_code, written.exit_code) == (0, 0)
    assert json.loads(printed.stdout) == json.loads(file.read_text("utf-8")) == DOCUMENT


def asked(method: str = "GET") -> web.Request:
    return make_mocked_request(method, paths.OPENAPI)


async def test_a_burst_makes_the_document_once_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch):
    makers: list[str] = []
    began, goes_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def slow() -> dict[str, Any]:
        makers.append(threading.current_thread().name)
        loop.call_soon_threadsafe(began.set)
        assert goes_on.wait(10)
        return DOCUMENT

    monkeypatch.setattr("raftlog.broker.openapi.document.document", slow)
    routes = OpenapiRoutes(cast("BrokerContext", None))
    first = asyncio.create_task(routes.document(asked()))
    burst = [asyncio.create_task(routes.document(asked())) for _ in range(50)]
    await began.wait()  # The loop turns while the document is made.
    goes_on.set()
    answers = await asyncio.gather(first, *burst)

    assert len(makers) == 1
    assert makers[0] != threading.main_thread().name
    assert {answer.status for answer in answers} == {200}
    assert len({answer.headers["ETag"] for answer in answers}) == 1


async def test_a_reader_that_leaves_does_not_take_the_document_along(monkeypatch: pytest.MonkeyPatch):
    began, goes_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def slow() -> dict[str, Any]:
        loop.call_soon_threadsafe(began.set)
        assert goes_on.wait(10)
        return DOCUMENT

    monkeypatch.setattr("raftlog.broker.openapi.document.document", slow)
    routes = OpenapiRoutes(cast("BrokerContext", None))
    first = asyncio.create_task(routes.document(asked()))
    await began.wait()
    second = asyncio.create_task(routes.document(asked()))
    first.cancel()
    goes_on.set()

    assert (await second).status == 200
    assert first.cancelled()
