"""Parses times in command line options."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta

import click

from raftlog.client.start_offsets import Start

_AGO = re.compile(r"^(\d+)(ms|s|m|h|d)$")
_UNIT_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NEAREST_MS = 365 * 86_400_000
"""A number nearer to 1970 than this is more likely seconds, or a date without dashes."""
_INSTEAD = "write a date with dashes (2026-01-31, with T12:00 if need be), milliseconds (date +%s%3N), or 2h (ago)"


def parse_time(text: str, now_ms: int) -> datetime:
    """Parse a time; a number is milliseconds since 1970, a time without a zone is local.

    Raises:
        ValueError: the text is not a time.
    """
    try:
        if match := _AGO.match(text):
            return _EPOCH + timedelta(milliseconds=now_ms - int(match[1]) * _UNIT_MS[match[2]])
        if text.isdecimal():
            if int(text) < _NEAREST_MS:
                raise ValueError(f"milliseconds since 1970, received {text}, which is a time of 1970: {_INSTEAD}")
            return _EPOCH + timedelta(milliseconds=int(text))
        return datetime.fromisoformat(text).astimezone(UTC)
    except OverflowError:
        raise ValueError(f"a time of the years 1 to 9999, received {text!r}: {_INSTEAD}") from None


def a_time(text: str) -> datetime:
    """Parse an option's value: a time."""
    try:
        return parse_time(text, time.time_ns() // 1_000_000)
    except ValueError as error:
        if _INSTEAD in str(error):
            raise click.BadParameter(f"expected {error}") from None
        expected = "ISO 8601, milliseconds since 1970, or a time ago like 90s, 5m, 2h or 1d"
        raise click.BadParameter(f"expected {expected}, received {text!r}") from None


def a_time_or_an_end(text: str) -> Start:
    """Parse an option's value: `earliest`, `latest`, or a time."""
    match text:
        case "earliest" | "latest":
            return text
        case _:
            return a_time(text)
