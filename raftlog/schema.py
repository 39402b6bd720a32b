"""Plain data (decoded JSON or TOML) to typed dataclasses and back, with errors that name the field.

Every value that enters the process as text goes through `from_plain`: requests, answers, metadata records and
configuration files. The type hints of the dataclass are the schema; there is no second one to keep in step.
"""

from __future__ import annotations

import reprlib
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar, Union, get_args, get_origin, get_type_hints

from raftlog.errors import InvalidRequestError, RaftlogError
from raftlog.model import Address

T = TypeVar("T")
_Reader: TypeAlias = Callable[[Any], Any]
"""Checks and converts one value; built once per hint, because inspecting hints is slow."""
LIMITS = "limits"
"""The entry of a field's metadata with its `Limits`."""
SHOWN = "shown"
"""The entry of a field's metadata with the type that documents show in place of its hint."""


class Limits(NamedTuple):
    """The least and the most that a field's number may be; of a list, the number of its items."""

    least: int
    most: int


def limited(*, least: int = 0, most: int = 2**63 - 1) -> dict[str, Limits]:
    """Return the metadata of a dataclass field whose numbers, or number of items, `from_plain` checks."""
    return {LIMITS: Limits(least, most)}


def from_plain(
    cls: type[T], data: object, *, error: type[RaftlogError] = InvalidRequestError, ignore_unknown: bool = False
) -> T:
    """Build a `cls` from plain data.

    Args:
        cls: a dataclass whose hints use str, int, float, bool, None, Any, Literal, Enum, Address (`"host:port"`),
            nested dataclasses, NamedTuples (as lists), tuple[X, ...], Sequence[X], Mapping[str, X] and unions of these.
        ignore_unknown: skip unknown names instead of refusing them. For responses and records of newer peers.

    Raises:
        error: names the field, what was expected and what was received.
    """
    hint: Any = cls
    try:
        return _reader(hint, ignore_unknown)(data)  # type: ignore[no-any-return]
    except _MismatchError as mismatch:
        raise error(mismatch.text) from None


def to_plain(value: object) -> object:
    """Convert a value that orjson does not support: the `default` hook of every encoder."""
    if isinstance(value, Address):
        return str(value)
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"cannot encode {type(value).__name__}")


class _MismatchError(Exception):
    """A value does not match its hint. Each level adds its name to the path in `where`."""

    def __init__(self, reason: str, where: str = "") -> None:
        self.reason, self.where = reason, where

    @property
    def text(self) -> str:
        return f"{self.where}: {self.reason}" if self.where else self.reason

    def below(self, name: str) -> _MismatchError:
        """Return the error with `name` (a field, a key, or `[index]`) in front of its path."""
        inner = self.where if not self.where or self.where.startswith("[") else f".{self.where}"
        return _MismatchError(self.reason, name + inner)


def _mismatch(expected: str, received: object) -> _MismatchError:
    return _MismatchError(f"expected {expected}, received {_shown(received)}")


_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = _REPR.maxlong = 100
_REPR.maxlevel = 3


def _shown(value: object) -> str:
    """Return a line of at most 100 characters, whatever the value's size or depth."""
    text = _REPR.repr(value)
    return text if len(text) <= 100 else text[:97] + "..."


@cache
def _reader(hint: Any, ignore_unknown: bool) -> _Reader:
    if hint is Any or hint is object:
        return lambda data: data
    if isinstance(hint, type):
        return _type_reader(hint, ignore_unknown)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return _literal_reader(arguments)
    if origin in (Union, types.UnionType):
        return _union_reader(arguments, ignore_unknown)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping_reader(_reader(arguments[1], ignore_unknown))
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return _sequence_reader(_reader(arguments[0], ignore_unknown))
    raise TypeError(f"hint {hint!r} is not supported")


def _type_reader(hint: type, ignore_unknown: bool) -> _Reader:
    if hint is Address:
        return _text_reader(Address.parse, "host:port")
    if is_dataclass(hint):
        return _dataclass_reader(hint, ignore_unknown)
    return _named_tuple_reader(hint, ignore_unknown) if hasattr(hint, "_fields") else _scalar_reader(hint)


def _literal_reader(arguments: tuple[Any, ...]) -> _Reader:
    kinds = {type(argument) for argument in arguments}

    def read(data: Any) -> Any:
        if data in arguments and type(data) in kinds:
            return data
        raise _mismatch("one of " + ", ".join(map(repr, arguments)), data)

    return read


def _union_reader(arguments: tuple[Any, ...], ignore_unknown: bool) -> _Reader:
    optional = type(None) in arguments
    candidates = [argument for argument in arguments if argument is not type(None)]
    readers = [_reader(candidate, ignore_unknown) for candidate in candidates]
    names = " or ".join(getattr(candidate, "__name__", str(candidate)) for candidate in candidates)

    def read(data: Any) -> Any:
        if data is None and optional:
            return None
        if len(readers) == 1:
            return readers[0](data)
        for reader in readers:
            try:
                return reader(data)
            except _MismatchError:
                continue
        raise _mismatch(names, data)

    return read


def _mapping_reader(read_item: _Reader) -> _Reader:
    def read(data: Any) -> Any:
        if not isinstance(data, Mapping):
            raise _mismatch("an object", data)
        built, key = {}, ""
        try:
            for key, item in data.items():
                built[str(key)] = read_item(item)
        except _MismatchError as mismatch:
            raise mismatch.below(str(key)) from None
        return built

    return read


def _sequence_reader(read_item: _Reader) -> _Reader:
    def read(data: Any) -> Any:
        if not isinstance(data, list | tuple):
            raise _mismatch("a list", data)
        built: list[Any] = []
        try:
            for item in data:
                built.append(read_item(item))  # noqa: PERF401  (the error says which item it was)
        except _MismatchError as mismatch:
            raise mismatch.below(f"[{len(built)}]") from None
        return tuple(built)

    return read


def _named_tuple_reader(cls: Any, ignore_unknown: bool) -> _Reader:
    """Return the reader of a named tuple, which is written as a list of all its fields."""
    hints = get_type_hints(cls)
    names: tuple[str, ...] = cls._fields
    readers = [_reader(hints[name], ignore_unknown) for name in names]

    def read(data: Any) -> Any:
        if not isinstance(data, list | tuple) or len(data) != len(readers):
            raise _mismatch(f"a list of {', '.join(names)}", data)
        values: list[Any] = []
        try:
            for reader, item in zip(readers, data, strict=True):
                values.append(reader(item))
        except _MismatchError as mismatch:
            raise mismatch.below(names[len(values)]) from None
        return cls(*values)

    return read


_SCALARS: dict[type, tuple[tuple[type, ...], str]] = {
    str: ((str,), "a string"),
    bool: ((bool,), "true or false"),
    int: ((int,), "an integer"),
    float: ((int, float), "a number"),
}


def _scalar_reader(hint: Any) -> _Reader:
    if issubclass(hint, Enum):
        return _text_reader(hint, "one of " + ", ".join(str(member.value) for member in hint))
    if hint not in _SCALARS:
        raise TypeError(f"hint {hint!r} is not supported")
    accepted, name = _SCALARS[hint]

    def read(data: Any) -> Any:
        if type(data) is hint:
            return data
        if not isinstance(data, accepted) or isinstance(data, bool):
            raise _mismatch(name, data)
        return hint(data)

    return read


def _text_reader(convert: _Reader, expected: str) -> _Reader:
    def read(data: Any) -> Any:
        if not isinstance(data, str):
            raise _mismatch(expected, data)
        try:
            return convert(data)
        except ValueError:
            raise _mismatch(expected, data) from None

    return read


def _within(limits: Limits | None, read: _Reader) -> _Reader:
    """Return a reader that checks limits first: a list that is too long costs no objects."""
    if limits is None:
        return read
    least, most = limits

    def read_within(data: Any) -> Any:
        if isinstance(data, list | tuple):
            if len(data) < least:
                raise _MismatchError(f"expected at least {least}, received {len(data) or 'none'}")
            if len(data) > most:
                raise _MismatchError(f"expected at most {most}, received {len(data)}")
        elif type(data) is int and not least <= data <= most:
            raise _MismatchError(f"expected {least} to {most}, received {data}")
        return read(data)

    return read_within


def _dataclass_reader(cls: Any, ignore_unknown: bool) -> _Reader:
    hints = get_type_hints(cls)
    readers = {
        field.name: _within(field.metadata.get(LIMITS), _reader(hints[field.name], ignore_unknown))
        for field in fields(cls)
        if field.init
    }
    required = [
        field.name
        for field in fields(cls)
        if field.init and field.default is MISSING and field.default_factory is MISSING
    ]

    def read(data: Any) -> Any:
        if type(data) is not dict and not isinstance(data, Mapping):  # The first check is faster.
            raise _mismatch("an object", data)
        values, name = {}, ""
        try:
            for name, item in data.items():
                if (reader := readers.get(name)) is not None:
                    values[name] = reader(item)
                elif not ignore_unknown:
                    raise _MismatchError(f"unknown name; known names are {', '.join(sorted(readers))}")
        except _MismatchError as mismatch:
            raise mismatch.below(name) from None
        for name in required:
            if name not in values:
                raise _MismatchError("missing; it is required", name)
        return cls(**values)

    return read
