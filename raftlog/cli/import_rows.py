"""Converts a file's row to a record: by named columns, or by those that `raftlog export` writes. Pure."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import orjson

from raftlog.cli.exact_json import ExactNumber
from raftlog.client.times import Time, as_argument, microseconds
from raftlog.errors import InvalidRequestError
from raftlog.record.formats import COLUMNS
from raftlog.wire.codec import trimmed

EXPORTED = frozenset((*COLUMNS, "key_encoding", "value_encoding"))
"""A file whose columns are all among these, `value` one of them, was written by `raftlog export`, or by its URL."""


class RowRecord(NamedTuple):
    """The record of a row."""

    value: bytes | None
    key: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    timestamp: Time | None
    partition: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapped:
    """The columns of a record's fields; a value of None: all other columns, as one JSON object."""

    value: str | None
    key: str | None
    timestamp: str | None
    partition: str | None
    headers: Mapping[str, str]
    """Column by header name."""

    def named(self) -> list[str]:
        columns = (self.value, self.key, self.timestamp, self.partition, *self.headers.values())
        return [column for column in columns if column is not None]

    def record(self, row: Mapping[str, Any]) -> RowRecord:
        """Return the record of a row.

        Raises:
            InvalidRequestError: a value is invalid; the message names its column.
        """
        named = set(self.named())
        if self.value is not None:
            value = _bytes(row.get(self.value))
        else:
            rest = {name: _plain(item) for name, item in row.items() if name not in named}
            value = trimmed(orjson.dumps(rest, default=_plain))
        return RowRecord(
            value=value,
            key=None if self.key is None else _bytes(row.get(self.key)),
            headers=[(name, _bytes(row.get(column))) for name, column in self.headers.items()],
            timestamp=None if self.timestamp is None else _time(self.timestamp, row.get(self.timestamp)),
            partition=None if self.partition is None else _partition(self.partition, row.get(self.partition)),
        )


class Restored:
    """Rows that `raftlog export` has written: the record is restored, except for its offset."""

    @staticmethod
    def fits(columns: Sequence[str]) -> bool:
        return "value" in columns and EXPORTED.issuperset(columns)

    @staticmethod
    def record(row: Mapping[str, Any]) -> RowRecord:
        """Return the record of a row; see `Mapped.record`.

        Raises:
            InvalidRequestError: the row is not like those that `raftlog export` writes, as the file's first row is.
        """
        if not Restored.fits(list(row)):
            odd = min(row.keys() - EXPORTED, default="")
            raise InvalidRequestError(
                "its columns are not those of `raftlog export`, as the columns of the first row are: "
                + (f"it has {odd!r}" if odd else "it has no 'value'")
                + "; name the columns with --value and --key"
            )
        return RowRecord(
            value=_decoded("value", row.get("value"), row.get("value_encoding")),
            key=_decoded("key", row.get("key"), row.get("key_encoding")),
            headers=_headers(row.get("headers")),
            timestamp=_time("timestamp", row.get("timestamp")),
            partition=_partition("partition", row.get("partition")),
        )


def _bytes(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return value.encode() if isinstance(value, str) else trimmed(orjson.dumps(_plain(value), default=_plain))


def _plain(value: Any) -> Any:
    """Return a value for JSON: bytes as text or base64; decimals, dates and times as text; durations in seconds."""
    if isinstance(value, ExactNumber):
        return value.as_json()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return base64.b64encode(value).decode()
    return (
        value.isoformat()
        if isinstance(value, datetime | date | time)
        else (str(value) if isinstance(value, Decimal) else value)
    )


def _decoded(column: str, value: Any, encoding: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise InvalidRequestError(f"column {column}: expected text or bytes, received {value!r:.60}")
    if encoding in (None, "", "utf-8"):
        return value.encode()
    if encoding != "base64":
        raise InvalidRequestError(f"column {column}_encoding: expected base64 or nothing, received {encoding!r:.60}")
    try:
        return base64.b64decode(value, validate=True)
    except ValueError as error:
        raise InvalidRequestError(f"column {column}: expected base64, received {value[:60]!r} ({error})") from None


def _headers(value: Any) -> list[tuple[str, bytes | None]]:
    if isinstance(value, str):
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError as error:
            raise InvalidRequestError(
                f"column headers: expected a JSON list, received {value[:60]!r} ({error})"
            ) from None
    headers = []
    for item in value or ():
        if not isinstance(item, dict) or not isinstance(item.get("key"), str):
            raise InvalidRequestError(f'column headers: expected {{"key": ..., "value": ...}}, received {item!r:.60}')
        headers.append((item["key"], _decoded("headers", item.get("value"), item.get("value_encoding"))))
    return headers


def _time(column: str, value: Any) -> Time | None:
    """Parse a time: a number is milliseconds since 1970, as in JSON and CSV; a time without a zone is local."""
    if value is None:
        return None
    try:
        if isinstance(value, str):
            value = int(value) if value.removeprefix("-").isdecimal() else datetime.fromisoformat(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return as_argument(value * 1_000)
        if not isinstance(value, datetime):
            raise TypeError
        return as_argument(microseconds(f"column {column}", value))
    except (ValueError, TypeError, OverflowError):
        raise InvalidRequestError(
            f"column {column}: expected a time, ISO 8601, or milliseconds since 1970, received {value!r:.60}"
        ) from None


def _partition(column: str, value: Any) -> int | None:
    if value is None:
        return None
    try:
        number = int(value)
    except (ValueError, TypeError):
        number = -1
    if number < 0 or isinstance(value, bool | float):
        raise InvalidRequestError(f"column {column}: expected a partition's number, received {value!r:.60}")
    return number
