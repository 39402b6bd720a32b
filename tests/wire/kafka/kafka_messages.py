"""Builds messages of Kafka's protocol in any version from a string of bytes, for tests."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from raftlog.wire.kafka.codec import Codec

sys.path.append(str(Path(__file__).parents[3] / "scripts"))
import generate_kafka_messages as generator
from kafka_schema import APIS, PROTOCOLS, Field, Message, messages, snake

GOLDEN = Path(__file__).parent / "golden" / "messages.txt"
_CHARACTERS = "abz-\0\u00e9\u6f22\U0001f600"
_RANGES = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint16": 16, "uint32": 32}
_ERRORS, _LATEST_MS = 119, 1 << 41
"""The last error code, and a time that fits a `datetime`: kio has an enum for one and objects for the other."""


class Subject:
    """A message with what is generated for it."""

    def __init__(self, name: str) -> None:
        self.message: Message = messages()[name]
        base = name.removesuffix("Request").removesuffix("Response")
        both = set[str]()
        if self.message.api_key is None:
            module, constant = "consumer_protocol", name.removeprefix("ConsumerProtocol").upper()
            both = set.intersection(*(set(messages()[one].structs) for one in PROTOCOLS))
        else:
            module, constant = snake(base), name.removeprefix(base).upper()
            both = set(messages()[f"{base}Request"].structs) & set(messages()[f"{base}Response"].structs)
        self._module = import_module(f"raftlog.wire.kafka.messages.{module}")
        self._names = generator.Module(self.message, both)
        self.codec: Codec[Any] = getattr(self._module, constant)

    def struct(self, name: str) -> type[Any]:
        """Return the class of a struct."""
        found: type[Any] = getattr(self._module, self._names.class_name(name))
        return found

    def fields(self, struct: str, version: int) -> list[Field]:
        """Return the fields of a struct in a version."""
        return [field for field in self.message.structs[struct] if version in field.versions]


@cache
def subject(name: str) -> Subject:
    """Return the message with this name."""
    return Subject(name)


NAMES = (*(f"{api}{kind}" for api in APIS for kind in ("Request", "Response")), *PROTOCOLS)
VERSIONS = [(name, version) for name in NAMES for version in subject(name).message.all_versions]
"""Every message in every version."""


class Dice:
    """Decides the values of a message by some bytes; when they end, every value is the smallest."""

    def __init__(self, data: bytes) -> None:
        self._data = iter(data)

    def byte(self) -> int:
        return next(self._data, 0)

    def integer(self, low: int, high: int) -> int:
        """Return a number of the range; one of the remarkable numbers quite often."""
        if (kind := self.byte()) < 100:
            return max(low, min(high, (0, 1, -1, low, high)[kind % 5]))
        found = sum(self.byte() << 8 * place for place in range((high - low).bit_length() // 8 + 1))
        return low + found % (high - low + 1)

    def octets(self) -> bytes:
        return bytes(self.byte() for _ in range(self.byte() % 6))

    def text(self) -> str:
        return "".join(_CHARACTERS[self.byte() % len(_CHARACTERS)] for _ in range(self.byte() % 5))


class FullDice(Dice):
    """Decides that nothing is null or empty."""

    def __init__(self, seed: str) -> None:
        super().__init__(hashlib.shake_256(seed.encode()).digest(5_000))

    def octets(self) -> bytes:
        return super().octets() or b"\x7f"

    def text(self) -> str:
        return super().text() or "t"


class Builder:
    """Builds one message.

    Args:
        dice: decides its values.
        full: no value is null or left out, each array has an element.
    """

    def __init__(self, name: str, version: int, dice: Dice, *, full: bool = False) -> None:
        self._subject = subject(name)
        self._version = version
        self._dice = dice
        self._full = full

    def message(self) -> Any:
        return self._struct(self._subject.message.name)

    def _struct(self, name: str) -> Any:
        values = {field.name: self._field(field) for field in self._subject.fields(name, self._version)}
        return self._subject.struct(name)(**values)

    def _field(self, field: Field) -> Any:
        nullable = self._version in field.nullable or field.is_tagged_struct
        if nullable and not self._full and self._dice.byte() % 4 == 1:
            return None
        if not field.is_array:
            return self._value(field)
        count = 1 + self._dice.byte() % 2 if self._full else self._dice.byte() % 3
        return [self._value(field) for _ in range(count)]

    def _value(self, field: Field) -> Any:
        dice = self._dice
        if field.is_struct:
            value = self._struct(field.type)
            return None if field.is_tagged_struct and value == self._subject.struct(field.type)() else value
        if field.type in _RANGES:
            return dice.integer(*limits(field))
        values = {"string": dice.text, "bytes": dice.octets, "records": dice.octets}
        if field.type in values:
            return values[field.type]()
        if field.type == "uuid":
            return bytes(dice.byte() for _ in range(16))
        return bool(dice.byte() % 2) if field.type == "bool" else dice.integer(-999, 999) / 8


def limits(field: Field) -> tuple[int, int]:
    """Return the smallest and the largest value of a number."""
    if field.name.endswith("error_code"):
        return 0, _ERRORS
    bits = _RANGES[field.type]
    if field.type == "int64" and ("time" in field.name or field.name.endswith("_ms")):
        return 0, _LATEST_MS
    return (0, (1 << bits) - 1) if field.type[0] == "u" else (-(1 << bits - 1), (1 << bits - 1) - 1)


def full(name: str, version: int) -> Any:
    """Return the same message at each call, in which nothing is null or empty."""
    return Builder(name, version, FullDice(f"{name} {version}"), full=True).message()


def bare(name: str, version: int) -> Any:
    """Return the same message at each call, in which everything that can be is null, empty or small."""
    found = subject(name)
    values = {field.name: None for field in found.fields(name, version) if version in field.nullable}
    return found.struct(name)(**values)


def encoded(name: str, version: int, message: Any) -> bytes:
    return b"".join(subject(name).codec.encode(version, message))


def golden() -> Iterator[tuple[str, int, str, bytes]]:
    """Yield message, version, "full" or "bare", and what kio made of it."""
    for line in GOLDEN.read_text().splitlines():
        name, version, kind, data = line.split(" ")
        yield name, int(version), kind, bytes.fromhex(data)
