"""Conversion of records to and from JSON. Bytes that are not UTF-8 are sent as base64, with their encoding named."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from raftlog.errors import ErrorCode, InvalidRequestError
from raftlog.record import NewRecord, Record
from raftlog.wire.codec import trimmed
from raftlog.wire.data import JsonRecord

MAX_TIMESTAMP_MS = 253_402_300_799_999
"""The end of the year 9999."""
MIN_TIMESTAMP_MS = -62_135_596_800_000
"""The beginning of the year 1."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def record_to_json(record: Record) -> dict[str, Any]:
    """Return a record as plain data. `timestamp` is in milliseconds since 1970."""
    plain: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp // 1_000,
    }
    _put(plain, "key", record.key)
    _put(plain, "value", record.value)
    plain["headers"] = []
    for key, value in record.headers:
        header: dict[str, Any] = {"key": key}
        _put(header, "value", value)
        plain["headers"].append(header)
    return plain


def _put(plain: dict[str, Any], name: str, value: bytes | None) -> None:
    try:
        plain[name] = None if value is None else value.decode()
    except UnicodeDecodeError:
        assert value is not None
        plain[name] = base64.b64encode(value).decode()
        plain[f"{name}_encoding"] = "base64"


def record_from_json(record: JsonRecord, *, number: int, now_us: int) -> NewRecord:
    """Build a record from its JSON form.

    Raises:
        InvalidRequestError: a value is invalid; the message names the record's number and the field.
    """
    where = f"records[{number}]"
    return NewRecord(
        value=_bytes(record.value, record.value_encoding, f"{where}.value"),
        key=_bytes(record.key, record.key_encoding, f"{where}.key"),
        timestamp=now_us if record.timestamp is None else _timestamp_us(record.timestamp, f"{where}.timestamp"),
        headers=_headers(record.headers, f"{where}.headers"),
    )


def _bytes(value: Any, encoding: str, where: str) -> bytes | None:
    if value is None:
        return None
    if not isinstance(value, str):
        try:
            return trimmed(orjson.dumps(value))
        except TypeError as error:  # The value is nested too deep to be encoded.
            raise InvalidRequestError(f"{where}: cannot be stored as JSON ({error})") from None
    if encoding == "utf-8":
        return value.encode()
    try:
        return base64.b64decode(value, validate=True)
    except ValueError as error:  # binascii.Error is a ValueError; text that is not ASCII raises one, too.
        raise InvalidRequestError(f"{where}: expected base64, received {value[:60]!r} ({error})") from None


def _timestamp_us(value: int | str, where: str) -> int:
    if isinstance(value, int):
        if not MIN_TIMESTAMP_MS <= value <= MAX_TIMESTAMP_MS:
            raise InvalidRequestError(
                f"{where}: expected milliseconds since 1970, {MIN_TIMESTAMP_MS} to {MAX_TIMESTAMP_MS} (the years 1 to "
                f"9999), received {value}",
                code=ErrorCode.INVALID_TIMESTAMP,
            )
        return value * 1_000
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise InvalidRequestError(
            f"{where}: expected milliseconds or ISO 8601, received {value!r}", code=ErrorCode.INVALID_TIMESTAMP
        ) from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    moment_us = (moment - _EPOCH) // timedelta(microseconds=1)
    if not MIN_TIMESTAMP_MS * 1_000 <= moment_us <= MAX_TIMESTAMP_MS * 1_000 + 999:
        raise InvalidRequestError(
            f"{where}: expected a time of the years 1 to 9999 UTC, received {value!r}", code=ErrorCode.INVALID_TIMESTAMP
        )
    return moment_us


def _headers(headers: Mapping[str, Any] | tuple[Any, ...], where: str) -> tuple[tuple[str, bytes | None], ...]:
    if isinstance(headers, Mapping):
        return tuple((key, _bytes(value, "utf-8", f"{where}.{key}")) for key, value in headers.items())
    pairs = []
    for number, header in enumerate(headers):
        at = f"{where}[{number}]"
        if not isinstance(header, Mapping) or not isinstance(header.get("key"), str):
            raise InvalidRequestError(f'{at}: expected {{"key": ..., "value": ...}}, received {header!r:.80}')
        encoding = header.get("value_encoding", "utf-8")
        if encoding not in ("utf-8", "base64"):
            raise InvalidRequestError(f"{at}.value_encoding: expected utf-8 or base64, received {encoding!r}")
        pairs.append((header["key"], _bytes(header.get("value"), encoding, f"{at}.value")))
    return tuple(pairs)
