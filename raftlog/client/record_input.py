"""Validation of a producer's arguments, and their conversion to records."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TypeAlias

from raftlog.client.core.pending_batch import RECORD_OVERHEAD_BYTES, headers_bytes, record_bytes
from raftlog.client.times import Time, microseconds
from raftlog.errors import ErrorCode, InvalidRequestError
from raftlog.record.model import Headers, NewRecord

HeadersLike: TypeAlias = Mapping[str, bytes | None] | Sequence[tuple[str, bytes | None]] | None


def new_record(value: object, key: object, headers: HeadersLike, timestamp: Time | None) -> tuple[NewRecord, int]:
    """Return a record and its estimated bytes in a batch.

    Raises:
        TypeError: a part has a wrong type.
        InvalidRequestError: a time or a header cannot be stored.
    """
    if type(value) is not bytes:
        value = bytes_or_none("value", value)
    at = time.time_ns() // 1_000 if timestamp is None else microseconds("timestamp", timestamp)
    if key is None and not headers:
        return tuple.__new__(NewRecord, (value, None, at, ())), RECORD_OVERHEAD_BYTES + (len(value) if value else 0)
    record = NewRecord(value, bytes_or_none("key", key), at, _headers(headers) if headers else ())
    return record, record_bytes(record)


def checked_values(values: Sequence[object]) -> list[bytes | None]:
    """Return a copy of the values, each as bytes or None.

    Raises:
        TypeError: a value has another type.
    """
    if isinstance(values, str | bytes | bytearray | memoryview):
        raise TypeError(f"values: expected several, in a list, received one {type(values).__name__}; use send for it")
    taken = list(values)
    if set(map(type, taken)) <= {bytes}:
        return taken  # type: ignore[return-value]
    return [bytes_or_none(f"values[{number}]", value) for number, value in enumerate(taken)]


def in_runs(
    values: Sequence[bytes | None], key: bytes | None, max_bytes: int, headers: Headers = ()
) -> Iterator[tuple[Sequence[bytes | None], int]]:
    """Divide values into runs of at most `max_bytes`, or of one value; yield each with its estimated batch bytes."""
    each = RECORD_OVERHEAD_BYTES + len(key or b"") + headers_bytes(headers)
    lengths = _lengths(values)
    whole = each * len(values) + sum(lengths)
    if values and whole <= max_bytes:
        yield values, whole
        return
    before = list(accumulate(lengths, initial=0))

    def size_of_first(count: int) -> int:
        return before[count] + each * count

    at = 0
    while at < len(values):
        limit = size_of_first(at) + max_bytes
        after = max(at + 1, bisect_right(range(len(before)), limit, key=size_of_first) - 1)
        yield values[at:after], size_of_first(after) - size_of_first(at)
        at = after


def _lengths(values: Sequence[bytes | None]) -> list[int]:
    """Return the length of each value, without a step of Python for each."""
    try:
        return list(map(len, values))  # type: ignore[arg-type]
    except TypeError:  # One is None.
        return [len(value or b"") for value in values]


def bytes_or_none(name: str, value: object) -> bytes | None:
    """Return a key, a value or a header's value.

    Raises:
        TypeError: the value is neither bytes nor None.
    """
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    hint = ": encode it, for example with .encode()" if isinstance(value, str) else ""
    raise TypeError(f"{name}: expected bytes or None, received {type(value).__name__}{hint}")


def _headers(headers: object) -> Headers:
    pairs = list(headers.items()) if isinstance(headers, Mapping) else headers
    if not isinstance(pairs, list | tuple) or not all(
        isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs
    ):
        raise TypeError(f"headers: expected a mapping, or a list of pairs of key and value, received {headers!r}")
    return tuple((_text(key), bytes_or_none(f"headers[{key!r}]", value)) for key, value in pairs)


def _text(key: object) -> str:
    if not isinstance(key, str):
        raise TypeError(f"headers: expected str keys, received {type(key).__name__}")
    try:
        key.encode()
    except UnicodeEncodeError:
        raise InvalidRequestError(
            f"headers: expected keys that UTF-8 can encode, received {key!r}", code=ErrorCode.INVALID_RECORD
        ) from None
    return key
