"""Records as lines of text: what `produce` reads and what `consume` prints. Pure.

`value`: the line is the value, or with a separator the key and the value. `json`: an object with the members of
`wire.data.JsonRecord`; what `consume --format json` prints, `produce --format json` takes.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from raftlog.errors import ErrorCode, InvalidRequestError
from raftlog.record.model import Headers, Record
from raftlog.schema import from_plain
from raftlog.wire.codec import decode_plain, encode_json
from raftlog.wire.data import JsonRecord

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_FIRST_US = (datetime(1, 1, 1, tzinfo=UTC) - _EPOCH) // _MICROSECOND
_LAST_US = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_OF_A_READ_RECORD = {"topic", "offset"}


class LineRecord(NamedTuple):
    """A record to produce; None leaves the choice to the producer."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    timestamp_us: int | None = None


def parse_value(line: bytes, key_separator: bytes | None) -> LineRecord:
    """Read a line of the format `value`.

    Raises:
        InvalidRequestError: there should be a key, and the separator is not there.
    """
    if key_separator is None:
        return LineRecord(line)
    key, found, value = line.partition(key_separator)
    if not found:
        raise InvalidRequestError(f"expected a key, {key_separator!r} and a value, received {line[:80]!r}")
    return LineRecord(value, key)


def parse_json(line: bytes) -> LineRecord:
    """Read a line of the format `json`; `topic` and `offset` of a record that was read are left aside.

    Raises:
        InvalidRequestError: not JSON, or a member does not fit.
    """
    document = decode_plain(line)
    if isinstance(document, Mapping):
        document = {name: value for name, value in document.items() if name not in _OF_A_READ_RECORD}
    record = from_plain(JsonRecord, document)
    return LineRecord(
        value=_to_bytes(record.value, record.value_encoding, "value"),
        key=_to_bytes(record.key, record.key_encoding, "key"),
        headers=_parse_headers(record.headers),
        partition=record.partition,
        timestamp_us=None if record.timestamp is None else parse_timestamp(record.timestamp),
    )


def parse_timestamp(value: int | str) -> int:
    """Return microseconds since 1970 of milliseconds since 1970 or an ISO 8601 time (UTC where it names no zone).

    Raises:
        InvalidRequestError: neither.
    """
    if isinstance(value, int):
        return value * 1000
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        raise InvalidRequestError(
            f"timestamp: expected milliseconds since 1970 or ISO 8601, received {value!r}",
            code=ErrorCode.INVALID_TIMESTAMP,
        ) from None
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND


def render_value(record: Record) -> bytes:
    """Return the value as a line; a record without one (a tombstone) prints `null`."""
    return (b"null" if record.value is None else record.value) + b"\n"


def render_json(record: Record) -> bytes:
    """Return the record as one line of JSON. Bytes that are not UTF-8 are base64, which `*_encoding` then says."""
    document: dict[str, Any] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": _iso(record.timestamp),
    }
    for name, data in (("key", record.key), ("value", record.value)):
        text, encoding = _to_text(data)
        document[name] = text
        if encoding is not None:
            document[f"{name}_encoding"] = encoding
    document["headers"] = _render_headers(record.headers)
    return encode_json(document) + b"\n"


def _iso(timestamp_us: int) -> str | int:
    """Return ISO 8601, or milliseconds where the year has more than four digits."""
    if not _FIRST_US <= timestamp_us <= _LAST_US:
        return timestamp_us // 1000
    return (_EPOCH + timestamp_us * _MICROSECOND).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _to_text(data: bytes | None) -> tuple[str | None, str | None]:
    if data is None:
        return None, None
    try:
        return data.decode("utf-8"), None
    except UnicodeDecodeError:
        return base64.b64encode(data).decode("ascii"), "base64"


def _to_bytes(value: object, encoding: str, name: str) -> bytes | None:
    if value is None:
        return None
    if not isinstance(value, str):
        return encode_json(value)
    if encoding == "utf-8":
        return value.encode("utf-8")
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error as error:
        raise InvalidRequestError(f"{name}: expected base64, received {value[:80]!r}: {error}") from None


def _render_headers(headers: Headers) -> dict[str, str | None] | list[dict[str, str | None]]:
    """Return an object; a list where an object cannot say it: repeated keys, or values that are not UTF-8."""
    texts = [(key, *_to_text(value)) for key, value in headers]
    if len({key for key, _ in headers}) == len(headers) and all(encoding is None for _, _, encoding in texts):
        return {key: text for key, text, _ in texts}
    return [
        {"key": key, "value": text} if encoding is None else {"key": key, "value": text, "value_encoding": encoding}
        for key, text, encoding in texts
    ]


def _parse_headers(headers: Mapping[str, Any] | tuple[Any, ...]) -> Headers:
    if isinstance(headers, Mapping):
        return tuple((key, _to_bytes(value, "utf-8", f"headers.{key}")) for key, value in headers.items())
    return tuple(_parse_header(header, f"headers[{i}]") for i, header in enumerate(headers))


def _parse_header(header: object, where: str) -> tuple[str, bytes | None]:
    if not isinstance(header, Mapping) or not isinstance(key := header.get("key"), str):
        raise InvalidRequestError(f"{where}: expected an object with key and value, received {header!r:.80}")
    encoding = "base64" if header.get("value_encoding") == "base64" else "utf-8"
    return key, _to_bytes(header.get("value"), encoding, where)
