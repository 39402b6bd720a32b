"""Requests with as many entries as wanted, of each API that has arrays."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Any, get_args, get_origin, get_type_hints

from kafka_listener import request

from raftlog.broker.kafka.handlers import HANDLERS
from raftlog.wire.kafka.api_keys import APIS
from raftlog.wire.kafka.errors import KafkaProtocolError

NAMES = {"topic", "name", "resource_name", "group_id", "transactional_id", "user", "key", "entity_name"}


@dataclasses.dataclass(frozen=True)
class Array:
    """An array in the requests of an API: the fields that lead to it."""

    key: int
    version: int
    path: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.api}-v{self.version}-{'.'.join(self.path)}"

    @property
    def api(self) -> str:
        """The API's name."""
        return APIS[self.key].name

    def request(self, count: int, name: str = "") -> Any:
        """Return a request in which this array has `count` elements, and others one.

        Args:
            name: every name in the request; empty: each element has its own.
        """
        return _filled(_request_class(self.key), self.path, count, 0, name)


def arrays() -> Iterator[Array]:
    """Yield each array of each API that is served, in the last version that has it."""
    for key in sorted(HANDLERS):
        for path in _paths(_request_class(key)):
            if (version := _version_with(key, path)) is not None:
                yield Array(key, version, path)


def _version_with(key: int, path: tuple[str, ...]) -> int | None:
    """Return the last version that is served and has an array; None: none has it."""
    handler, api = HANDLERS[key], APIS[key]
    first, last = getattr(handler, "first", None), getattr(handler, "last", None)
    for version in range(api.last_stable if last is None else last, (api.first if first is None else first) - 1, -1):
        try:
            lengths = {len(request(key, version, Array(key, version, path).request(count))) for count in (1, 2)}
        except KafkaProtocolError:
            continue  # A value does not fit this version.
        if len(lengths) == 2:
            return version
    return None


def _request_class(key: int) -> Any:
    api = APIS[key]
    return getattr(import_module(f"raftlog.wire.kafka.messages.{api.module}"), f"{api.name}Request")


@cache
def _hints(cls: Any) -> dict[str, Any]:
    return get_type_hints(cls, vars(sys.modules[cls.__module__]))


def _element(hint: Any) -> Any:
    """Return the type of an array's elements; None: the hint is not one of an array."""
    if get_origin(hint) is list:
        return get_args(hint)[0]
    return next((found for one in get_args(hint) if (found := _element(one)) is not None), None)


def _paths(cls: Any) -> Iterator[tuple[str, ...]]:
    for name, hint in _hints(cls).items():
        element = _element(hint)
        if element is None:
            continue
        yield (name,)
        if dataclasses.is_dataclass(element):
            for rest in _paths(element):
                yield (name, *rest)


@cache
def _names(cls: Any) -> list[str]:
    hints = _hints(cls)
    return [name for name in NAMES if name in hints and str in (hints[name], *get_args(hints[name]))]


def _filled(cls: Any, path: tuple[str, ...], count: int, number: int, name: str) -> Any:
    hints, values = _hints(cls), dict.fromkeys(_names(cls), name or f"n{number}")
    if "acks" in hints:
        values["acks"] = -1
    if path:
        element = _element(hints[path[0]])
        many = count if len(path) == 1 else 1
        values[path[0]] = [_value(element, path[1:], count, one, name) for one in range(many)]
    return cls(**values)


def _value(element: Any, path: tuple[str, ...], count: int, number: int, name: str) -> Any:
    if dataclasses.is_dataclass(element):
        return _filled(element, path, count, number, name)
    if element is str:
        return name or f"n{number}"
    return element(number % 100) if element is int else bytes(15) + bytes([number % 256])
