"""JSON schemas (2020-12, as OpenAPI 3.1 uses them) of wire types, from their hints, defaults, limits and docstrings."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

from raftlog.model import Address
from raftlog.schema import LIMITS, SHOWN
from raftlog.wire import paths

Schema = dict[str, Any]
_SCALARS: dict[Any, Schema] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer", "format": "int64"},
    float: {"type": "number"},
    Address: {"type": "string"},
    type(None): {"type": "null"},
}
_REF = "#/components/schemas/"


class Schemas:
    """The schemas of a document. Each dataclass, TypedDict and Enum has one of its own, which others refer to.

    A type of answers has every field. In a request, fields with a default may be missing: where a type is in both, the
    request's schema is named `...Input`. Ask for all types of answers first.
    """

    def __init__(self) -> None:
        self.components: dict[str, Schema] = {}
        self._made: dict[tuple[type, bool], Schema] = {}

    def of(self, hint: Any, *, answer: bool) -> Schema:
        """Return the schema of a type hint, as `raftlog.schema.from_plain` reads and orjson writes it."""
        if hint is Any or hint is object:
            return {}
        if hint in _SCALARS:
            return dict(_SCALARS[hint])
        origin, arguments = get_origin(hint), get_args(hint)
        if origin is Literal:
            return _of_literal(arguments)
        if origin in (Union, types.UnionType):
            return {"anyOf": [self.of(one, answer=answer) for one in arguments]}
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return {"type": "object", "additionalProperties": self.of(arguments[1], answer=answer)}
        if isinstance(origin, type) and issubclass(origin, Sequence):
            return {"type": "array", "items": self.of(arguments[0], answer=answer)}
        return self._reference(hint, answer=answer)

    def _reference(self, cls: type, *, answer: bool) -> Schema:
        if (made := self._made.get((cls, answer))) is not None:
            return dict(made)
        schema, name = self._of_class(cls, answer=answer), cls.__name__
        if not answer and self.components.get(name, schema) != schema:
            name += "Input"
        assert self.components.setdefault(name, schema) == schema, f"two types are named {name}"
        return dict(self._made.setdefault((cls, answer), {"$ref": _REF + name}))

    def _of_class(self, cls: Any, *, answer: bool) -> Schema:
        if issubclass(cls, Enum):
            return _described({"type": "string", "enum": [member.value for member in cls]}, _summary(cls))
        hints = get_type_hints(cls)
        if is_typeddict(cls):
            properties = {name: self.of(hint, answer=answer) for name, hint in hints.items()}
            required = _required_keys(cls)
        else:
            assert is_dataclass(cls), f"{cls!r} has no schema"
            found = [field for field in fields(cls) if field.init]
            properties = {field.name: self._of_field(field, hints[field.name], answer=answer) for field in found}
            required = [field.name for field in found if answer or not _has_default(field)]
        meanings = described_fields(cls)
        properties = {name: _described(one, meanings.get(name, "")) for name, one in properties.items()}
        schema: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
        if required:
            schema["required"] = required
        return _described(schema, _summary(cls))

    def _of_field(self, field: Field[Any], hint: Any, *, answer: bool) -> Schema:
        schema = self.of(field.metadata.get(SHOWN, hint), answer=answer)
        if (limits := field.metadata.get(LIMITS)) is not None:
            least, most = ("minItems", "maxItems") if schema.get("type") == "array" else ("minimum", "maximum")
            schema |= {least: limits.least, most: limits.most}
        if not answer and field.default is not MISSING and field.default is not None:
            schema["default"] = list(field.default) if isinstance(field.default, tuple) else field.default
        return schema


def described_fields(cls: type) -> dict[str, str]:
    """Return the docstrings of a class's fields, or an Enum's members, by name; those of its bases, too."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        found |= _docstrings_of(base.__module__).get(base.__qualname__, {})
    return found


def one_line(text: str) -> str:
    """Return a docstring's text on one line, with paths in place of the names of `wire.paths`."""
    text = re.sub(r"paths\.([A-Z_]+)", lambda name: str(getattr(paths, name[1])), inspect.cleandoc(text))
    return " ".join(text.split())


@cache
def _docstrings_of(module: str) -> Mapping[str, Mapping[str, str]]:
    """Return the docstrings of the fields of a module's classes; none if the module's source is not there."""
    try:
        source = inspect.getsource(sys.modules[module]) if module.startswith("raftlog.") else ""
    except OSError:
        return {}
    classes = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)]
    return {node.name: dict(_fields_of(node)) for node in classes}


def _fields_of(cls: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for field, behind in zip(cls.body, cls.body[1:], strict=False):
        match field, behind:
            case (
                ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                yield name, one_line(text)


def _summary(cls: type) -> str:
    """Return the first paragraph of a class's docstring."""
    return one_line(inspect.cleandoc(cls.__doc__ or "").split("\n\n")[0])


def _described(schema: Schema, text: str) -> Schema:
    return {**schema, "description": text} if text else schema


def _of_literal(values: tuple[Any, ...]) -> Schema:
    (kind,) = {type(value) for value in values}
    return {"type": _SCALARS[kind]["type"], "enum": list(values)}


def _required_keys(cls: Any) -> list[str]:
    """Return the keys that a TypedDict always has. Its own list ignores annotations that are text."""
    hints = get_type_hints(cls, include_extras=True)
    return [name for name, hint in hints.items() if cls.__total__ and get_origin(hint) is not NotRequired]


def _has_default(field: Field[Any]) -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING
