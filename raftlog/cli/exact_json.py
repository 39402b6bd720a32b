"""JSON whose numbers keep their digits: a double has about 16 of them, and orjson's integers have 64 bits. Pure."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import orjson

_DIGITS = bytes(ord("0") if chr(byte) in "0123456789." else ord(" ") for byte in range(256))
_LONG = b"0" * 16
"""Every decimal of 15 digits is the same after a double."""


class ExactNumber:
    """A number that is neither a double nor an integer of 64 bits. Not a dataclass: orjson would write an object."""

    def __init__(self, digits: str) -> None:
        self.digits = digits

    def __repr__(self) -> str:
        return self.digits

    def as_json(self) -> orjson.Fragment:
        """Return what `orjson.dumps` writes as these digits."""
        return orjson.Fragment(self.digits)


def loads(line: bytes) -> Any:
    """Parse JSON as orjson does, with `ExactNumber` in place of numbers that it changes.

    Raises:
        orjson.JSONDecodeError: the line is not JSON.
    """
    parsed = orjson.loads(line)
    return _DECODER.decode(line.decode()) if _LONG in line.translate(_DIGITS) else parsed


def _integer(digits: str) -> int | ExactNumber:
    number = int(digits)
    return number if -(1 << 63) <= number < 1 << 64 else ExactNumber(digits)


def _decimal(digits: str) -> float | ExactNumber:
    number = float(digits)
    return number if Decimal(repr(number)) == Decimal(digits) else ExactNumber(digits)


_DECODER = json.JSONDecoder(parse_int=_integer, parse_float=_decimal)
