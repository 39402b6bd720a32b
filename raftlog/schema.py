"""Plain data (decoded JSON or TOML) to typed dataclasses and back, with errors that name the field.

Every value that enters the process as text goes through `from_plain`: requests, answers, metadata records and
configuration files. The type hints of the dataclass are the schema; there is no second one to keep in step.
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from raftlog.errors import InvalidRequestError, RaftlogError
from raftlog.model import Address

T = TypeVar("T")


def from_plain(
    cls: type[T], data: object, *, error: type[RaftlogError] = InvalidRequestError, ignore_unknown: bool = False
) -> T:
    """Build a `cls` from plain data.

    Args:
        cls: a dataclass whose hints use str, int, float, bool, None, Any, Literal, Enum, Address (`"host:port"`),
            nested dataclasses, tuple[X, ...], Sequence[X], Mapping[str, X] and unions of these.
        ignore_unknown: skip unknown names instead of refusing them. For answers and records of newer peers.

    Raises:
        error: names the field, what was expected and what was received.
    """
    try:
        return _build(cls, data, "", ignore_unknown)  # type: ignore[no-any-return]
    except _MismatchError as mismatch:
        raise error(str(mismatch)) from None


def to_plain(value: object) -> object:
    """Turn what orjson does not know into what it knows: the `default` hook of every encoder."""
    if isinstance(value, Address):
        return str(value)
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"cannot encode {type(value).__name__}")


class _MismatchError(Exception):
    """A value does not fit its hint; the text says where."""


def _mismatch(where: str, expected: str, received: object) -> _MismatchError:
    field = f"{where}: " if where else ""
    return _MismatchError(f"{field}expected {expected}, received {_shown(received)}")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 100 else text[:97] + "..."


@cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def _build(hint: Any, data: Any, where: str, ignore_unknown: bool) -> Any:
    if hint is Any or hint is object:
        return data
    if isinstance(hint, type):
        if is_dataclass(hint):
            return _build_dataclass(hint, data, where, ignore_unknown)
        return _build_scalar(hint, data, where)
    return _build_generic(hint, data, where, ignore_unknown)


def _build_generic(hint: Any, data: Any, where: str, ignore_unknown: bool) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        if data in arguments and type(data) in {type(argument) for argument in arguments}:
            return data
        raise _mismatch(where, "one of " + ", ".join(map(repr, arguments)), data)
    if origin in (Union, types.UnionType):
        return _build_union(arguments, data, where, ignore_unknown)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        if not isinstance(data, Mapping):
            raise _mismatch(where, "an object", data)
        return {str(key): _build(arguments[1], item, f"{where}.{key}", ignore_unknown) for key, item in data.items()}
    if isinstance(origin, type) and issubclass(origin, Sequence):
        if not isinstance(data, list | tuple):
            raise _mismatch(where, "a list", data)
        return tuple(_build(arguments[0], item, f"{where}[{i}]", ignore_unknown) for i, item in enumerate(data))
    raise TypeError(f"{where}: hint {hint!r} is not supported")


def _build_union(arguments: tuple[Any, ...], data: Any, where: str, ignore_unknown: bool) -> Any:
    if data is None and type(None) in arguments:
        return None
    candidates = [argument for argument in arguments if argument is not type(None)]
    if len(candidates) == 1:
        return _build(candidates[0], data, where, ignore_unknown)
    for candidate in candidates:
        try:
            return _build(candidate, data, where, ignore_unknown)
        except _MismatchError:
            continue
    names = " or ".join(getattr(candidate, "__name__", str(candidate)) for candidate in candidates)
    raise _mismatch(where, names, data)


_SCALARS: dict[type, tuple[type, ...]] = {str: (str,), bool: (bool,), int: (int,), float: (int, float)}


def _build_scalar(hint: Any, data: Any, where: str) -> Any:
    if hint is Address:
        return _converted(Address.parse, data, where, "host:port")
    if issubclass(hint, Enum):
        return _converted(hint, data, where, "one of " + ", ".join(str(member.value) for member in hint))
    accepted = _SCALARS.get(hint)
    if accepted is None:
        raise TypeError(f"{where}: hint {hint!r} is not supported")
    if not isinstance(data, accepted) or (isinstance(data, bool) and hint is not bool):
        names = {str: "a string", bool: "true or false", int: "an integer", float: "a number"}
        raise _mismatch(where, names[hint], data)
    return hint(data)


def _converted(convert: Any, data: Any, where: str, expected: str) -> Any:
    if not isinstance(data, str):
        raise _mismatch(where, expected, data)
    try:
        return convert(data)
    except ValueError:
        raise _mismatch(where, expected, data) from None


def _build_dataclass(cls: Any, data: Any, where: str, ignore_unknown: bool) -> Any:
    if not isinstance(data, Mapping):
        raise _mismatch(where, "an object", data)
    known: dict[str, Field[Any]] = {field.name: field for field in fields(cls) if field.init}
    prefix = f"{where}." if where else ""
    if not ignore_unknown and (unknown := [name for name in data if name not in known]):
        raise _MismatchError(f"{prefix}{unknown[0]}: unknown name; known names are {', '.join(sorted(known))}")
    hints, values = _hints(cls), {}
    for name, field in known.items():
        if name in data:
            values[name] = _build(hints[name], data[name], prefix + name, ignore_unknown)
        elif field.default is MISSING and field.default_factory is MISSING:
            raise _MismatchError(f"{prefix}{name}: missing; it is required")
    return cls(**values)
