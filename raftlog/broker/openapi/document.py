"""The OpenAPI 3.1 document, from the tables of routes, operations, errors and the types of requests and answers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from raftlog.broker.openapi.operation import TAGS, Contents, Operation, Raw
from raftlog.broker.openapi.operations import OPERATIONS
from raftlog.broker.openapi.parameters import CLIENT_ID, DEADLINE, PASS_ON, PATH_VARIABLES, REQUEST_ID, Parameter
from raftlog.broker.openapi.schemas import Schema, Schemas, described_fields
from raftlog.error_codes import HTTP_STATUS, ErrorCode
from raftlog.errors import from_wire
from raftlog.security.routes import PUBLIC, Right, Route
from raftlog.version import VERSION
from raftlog.wire import media
from raftlog.wire.answers import ErrorAnswer

_BY_ANY = (
    ErrorCode.INVALID_REQUEST,
    ErrorCode.FOREIGN_ORIGIN,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.UNSUPPORTED_MEDIA_TYPE,
    ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.BROKER_NOT_AVAILABLE,
)
"""Errors of every request: checks that come before its handler, and a broker that shuts down."""
_OF_LOGINS = (ErrorCode.AUTHENTICATION_FAILED, ErrorCode.AUTHORIZATION_FAILED)
_LATE = 408
"""The status of a request whose body took too long to arrive. Its code is INVALID_REQUEST."""
_SECURITY_SCHEMES: dict[str, Schema] = {
    "basic": {"type": "http", "scheme": "basic", "description": "A user's name and password; over TLS."},
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": "A token of the issuer in `security.tokens`, or of a login; over TLS.",
    },
    "mutualTLS": {"type": "mutualTLS", "description": "A client's certificate; its common name is the user."},
}
_THROTTLE = Parameter(
    name=media.THROTTLE_MS,
    integer=True,
    meaning="a quota is used up: the broker reads the connection's next request after so many ms",
)
_RETRY_AFTER = Parameter(name="Retry-After", integer=True, meaning="seconds to wait before the next attempt")
_CHALLENGE = Parameter(name="WWW-Authenticate", meaning="which credentials the broker accepts")
_SHOWN_ID = Parameter(
    name=media.REQUEST_ID, meaning="the request's id, which the broker's log shows, too; the client's, if it sent one"
)
_LOCATION = Parameter(name="Location", meaning="the same request at the broker that can answer it")


_LINK = re.compile(r"\[(.+?)\]\(.+?\)")
"""A link of Markdown. Those of operations are relative to their page of the documentation."""


def document() -> dict[str, Any]:
    """Return the document of this version's public listener, as plain data."""
    return document_of(PUBLIC, OPERATIONS)


def document_of(routes: Iterable[Route], operations: Iterable[Operation]) -> dict[str, Any]:
    """Return the document of some routes.

    Raises:
        KeyError: a route has no operation.
    """
    listed = {operation.name: operation for operation in operations}
    shown = [(route, listed[route.name]) for route in routes]
    shown.sort(key=lambda pair: list(listed).index(pair[1].name))
    builder = _Builder()
    for _, operation in shown:
        builder.note_answers(operation)
    paths: dict[str, dict[str, Any]] = {}
    for route, operation in shown:
        paths.setdefault(operation.path, {})[operation.method.lower()] = builder.operation(route, operation)
    return {
        "openapi": "3.1.1",
        "info": {
            "title": "raftlog",
            "version": VERSION,
            "summary": "The public listener of brokers.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": name, "description": meaning} for name, meaning in TAGS.items()],
        "paths": paths,
        "components": {
            "schemas": _with_codes(builder.schemas.components),
            "responses": dict(sorted(builder.responses.items())),
            "parameters": {one.name: _parameter(one, "header") for one in (DEADLINE, CLIENT_ID, REQUEST_ID)},
            "headers": {one.name: _header(one) for one in (_THROTTLE, _RETRY_AFTER, _CHALLENGE, _LOCATION, _SHOWN_ID)},
            "securitySchemes": _SECURITY_SCHEMES,
        },
    }


def needs(route: Route) -> str:
    """Return in words what a request to a route needs."""
    if route.gate == "open":
        return "nothing"
    if route.gate == "node":
        node = "a node; or cluster_action on the cluster"
        return f"the broker whose id is `{route.identity}`" if route.identity else node
    return "; ".join(map(_right_in_words, route.rights)) or "a login"


def is_retriable(code: ErrorCode) -> bool:
    """Return whether the same request may succeed later, as clients take the code."""
    return from_wire({"code": code.value}).retriable


def _with_codes(schemas: Mapping[str, Schema]) -> dict[str, Schema]:
    """Return the schemas in order, with each error code's status, meaning, and whether it is retriable."""
    meanings = described_fields(ErrorCode)
    codes = {
        code.value: {
            "status": HTTP_STATUS.get(code, 500),
            "retriable": is_retriable(code),
            "description": meanings.get(code.value, ""),
        }
        for code in ErrorCode
    }
    return dict(sorted(schemas.items())) | {"ErrorCode": {**schemas["ErrorCode"], "x-codes": codes}}


class _Builder:
    """The shared parts of a document while its operations are made."""

    def __init__(self) -> None:
        self.schemas = Schemas()
        self.responses: dict[str, Schema] = {}

    def note_answers(self, operation: Operation) -> None:
        """Make the schemas of an operation's answers, which come before those of any request."""
        for contents in (*operation.answers.values(), {media.JSON: operation.error_body}):
            self._content(contents, answer=True)

    def operation(self, route: Route, operation: Operation) -> dict[str, Any]:
        """Return the operation object."""
        details = _LINK.sub(r"\1", operation.details)
        described = " ".join(filter(None, (details, operation.only_there, f"Needs: {needs(route)}.")))
        plain: dict[str, Any] = {
            "operationId": operation.id,
            "tags": [operation.tag],
            "summary": operation.summary,
            "description": described,
            "parameters": list(_parameters(operation)),
            "responses": self._responses(route, operation),
            "security": [] if route.gate == "open" else [{}, *({name: []} for name in _SECURITY_SCHEMES)],
            "x-rights": [_right(right) for right in route.rights],
            "x-errors": [code.value for codes in _errors_of(route, operation).values() for code in codes],
        }
        if operation.body:
            body = self._content(operation.body, answer=False)
            plain["requestBody"] = {"required": True, "content": body}
        return plain

    def _responses(self, route: Route, operation: Operation) -> dict[str, Any]:
        throttle = () if operation.unlimited else (_THROTTLE,)
        found: dict[str, Any] = {}
        for status, contents in operation.answers.items():
            found[str(status)] = _response(_MEANING[status], self._content(contents, answer=True))
            headers = {one.name: _header(one) for one in operation.marks} | _references(throttle)
            found[str(status)] |= {"headers": headers} if headers else {}
        for status in _errors_of(route, operation):
            found[str(status)] = self._error(status, operation.error_body, operation.error_marks.get(status, ()))
        if operation.redirects and operation.elsewhere == 307:
            answer = _response(f"Send the request to {operation.redirects}.", self._content({media.JSON: ErrorAnswer}))
            found["307"] = answer | {"headers": _references((*_HEADERS_OF[307], _THROTTLE, _SHOWN_ID))}
        found["default"] = self._error(None, operation.error_body)
        return dict(sorted(found.items()))

    def _error(self, status: int | None, body: Any, marks: tuple[Parameter, ...] = ()) -> Schema:
        """Return the response of an error's status (None: of any other), or a reference to it if it has no marks."""
        name = f"{body.__name__.removesuffix('Answer')}{status or ''}"
        if name not in self.responses:
            schema, text = self.schemas.of(body, answer=True), "Another error."
            if status is not None:
                listed = _codes_of(status)
                only = {"properties": {"error": {"properties": {"code": {"enum": listed}}}}}
                schema, text = {"allOf": [schema, only]}, f"{', '.join(f'`{code}`' for code in listed)}."
            if status == _LATE:
                text = "The body took too long to arrive, and the connection is closed; nothing was done."
            self.responses[name] = _response(text, {media.JSON: {"schema": schema}})
            self.responses[name]["headers"] = _references((*_HEADERS_OF.get(status or 0, ()), _THROTTLE, _SHOWN_ID))
        if not marks:
            return {"$ref": f"#/components/responses/{name}"}
        shared = self.responses[name]
        return {**shared, "headers": shared["headers"] | {one.name: _header(one) for one in marks}}

    def _content(self, contents: Contents, *, answer: bool = True) -> dict[str, Any]:
        return {form: self._media(kind, answer=answer) for form, kind in contents.items()}

    def _media(self, kind: Any, *, answer: bool) -> dict[str, Any]:
        if not isinstance(kind, Raw):
            return {"schema": self.schemas.of(kind, answer=answer)}
        schema: Schema = {"description": kind.meaning} | ({"type": "string"} if kind.text else {})
        head = {} if kind.head is None else {"x-head": self.schemas.of(kind.head, answer=answer)}
        return {"schema": schema, **head}


_MEANING = {
    200: "Done.",
    201: "Created.",
    202: "Begun.",
    204: "Allowed.",
    206: "A part of the answer, for `Range`.",
    304: "The document has not changed.",
}
_HEADERS_OF = {307: (_LOCATION,), 401: (_CHALLENGE,), 429: (_RETRY_AFTER,), 503: (_RETRY_AFTER,)}


def _errors_of(route: Route, operation: Operation) -> dict[int, tuple[ErrorCode, ...]]:
    codes = {*_BY_ANY, *operation.errors}
    codes |= set(_OF_LOGINS) if route.gate != "open" else set()
    codes |= set() if operation.unlimited else {ErrorCode.THROTTLING_QUOTA_EXCEEDED}
    found: dict[int, tuple[ErrorCode, ...]] = {}
    for code in ErrorCode:
        if code in codes:
            status = HTTP_STATUS.get(code, 500)
            found[status] = (*found.get(status, ()), code)
    return found | ({_LATE: (ErrorCode.INVALID_REQUEST,)} if operation.body else {})


def _parameters(operation: Operation) -> Iterator[Schema]:
    for name in re.findall(r"{(\w+)}", operation.path):
        yield _parameter(PATH_VARIABLES[name], "path")
    for parameter in operation.query:
        yield _parameter(parameter, "query")
    for parameter in (*operation.headers, *((PASS_ON,) if operation.may_be_passed_on else ())):
        yield _parameter(parameter, "header")
    if not operation.unlimited:
        yield from ({"$ref": f"#/components/parameters/{one.name}"} for one in (DEADLINE, CLIENT_ID, REQUEST_ID))


def _parameter(parameter: Parameter, place: str) -> Schema:
    schema = value_schema(parameter)
    if parameter.repeats:
        schema = {"type": "array", "items": schema}
    plain: Schema = {"name": parameter.name, "in": place, "description": sentence(parameter.meaning)}
    plain["schema"] = schema
    if place == "path":
        plain["required"] = True
    if parameter.example:
        plain["example"] = parameter.example
    return plain


def value_schema(parameter: Parameter) -> Schema:
    """Return the schema of a parameter's values."""
    if parameter.integer:
        schema: Schema = {"type": "integer", "minimum": parameter.least, "maximum": parameter.most}
        if parameter.choices:
            schema = {"anyOf": [schema, {"type": "string", "enum": list(parameter.choices)}]}
    else:
        schema = {"type": "string"}
        schema |= {"enum": list(parameter.choices)} if parameter.choices else {}
        schema |= {"pattern": parameter.pattern} if parameter.pattern else {}
    return schema | ({} if parameter.default is None else {"default": parameter.default})


def sentence(text: str) -> str:
    """Return a phrase as a sentence."""
    begin = text if text.startswith("`") else text[:1].upper() + text[1:]
    return begin if begin.endswith(".") else f"{begin}."


def _header(parameter: Parameter) -> Schema:
    return {"description": sentence(parameter.meaning), "schema": value_schema(parameter)}


def _references(headers: Iterable[Parameter]) -> dict[str, Schema]:
    return {one.name: {"$ref": f"#/components/headers/{one.name}"} for one in headers}


def _response(text: str, content: Mapping[str, Any]) -> dict[str, Any]:
    return {"description": text, **({"content": content} if content else {})}


def _codes_of(status: int) -> list[str]:
    codes = [ErrorCode.INVALID_REQUEST] if status == _LATE else ErrorCode
    return [code.value for code in codes if status in (_LATE, HTTP_STATUS.get(code, 500))]


def _right(right: Right) -> Schema:
    name = f"{{{right.variable}}}" if right.variable else right.where or "cluster"
    return {"operation": right.operation, "resource": right.resource, "name": name}


def _right_in_words(right: Right) -> str:
    if right.resource == "cluster":
        return f"{right.operation} on the {right.where or 'cluster'}"
    where = right.where or f"`{{{right.variable}}}`"
    return f"{right.operation} on the {right.resource.replace('_', ' ')} {where}"
