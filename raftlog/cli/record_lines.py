"""Records as lines of text, for `produce` and `consume`. Pure.

Format `value`: the line is the value, or with a separator the key and the value. Format `json`: an object with the
members of `wire.data.JsonRecord`; `produce --format json` accepts the output of `consume --format json`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from raftlog.broker.json_records import record_from_json, record_to_json
from raftlog.errors import InvalidRequestError
from raftlog.record.model import Headers, Record
from raftlog.schema import from_plain
from raftlog.wire.codec import decode_plain, encode_json
from raftlog.wire.data import JsonRecord

_OF_A_READ_RECORD = {"topic", "offset"}


class LineRecord(NamedTuple):
    """A record to produce; None leaves the choice to the producer."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    timestamp_us: int | None = None


def parse_value(line: bytes, key_separator: bytes | None) -> LineRecord:
    """Parse a line of the format `value`.

    Raises:
        InvalidRequestError: a key is expected, and the line has no separator.
    """
    if key_separator is None:
        return LineRecord(line)
    key, found, value = line.partition(key_separator)
    if not found:
        raise InvalidRequestError(f"expected a key, {key_separator!r} and a value, received {line[:80]!r}")
    return LineRecord(value, key)


def parse_json(line: bytes) -> LineRecord:
    """Parse a line of the format `json`; `topic` and `offset` of a consumed record are ignored.

    Raises:
        InvalidRequestError: the line is not JSON, or a member is invalid.
    """
    document = decode_plain(line)
    if isinstance(document, Mapping):
        document = {name: value for name, value in document.items() if name not in _OF_A_READ_RECORD}
    plain = from_plain(JsonRecord, document)
    try:
        record = record_from_json(plain, number=0, now_us=0)
    except InvalidRequestError as error:
        raise InvalidRequestError(error.message.removeprefix("records[0]."), code=error.code) from None
    timestamp_us = None if plain.timestamp is None else record.timestamp
    return LineRecord(record.value, record.key, record.headers, plain.partition, timestamp_us)


def render_value(record: Record) -> bytes:
    """Return the value as a line; a record without one (a tombstone) prints `null`."""
    return (b"null" if record.value is None else record.value) + b"\n"


def render_json(record: Record) -> bytes:
    """Return the record as one line of JSON, as the HTTP API writes it."""
    return encode_json(record_to_json(record)) + b"\n"
