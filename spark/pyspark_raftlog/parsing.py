"""Parsers of single options. Each raises `ValueError` with what it expected."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from raftlog.model import Address, Isolation, Offset, TopicPartition
from raftlog.wire.client_ids import EXPECTED, is_client_id

_COMPRESSIONS: dict[str, Literal["lz4", "zstd"] | None] = {
    "none": None,
    "uncompressed": None,
    "lz4": "lz4",
    "zstd": "zstd",
}

_INTEGER = re.compile(r"-?\d+")
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999
_MOST = 2**63 - 1
"""As large a number as Spark, and the log, can hold."""
_DURATION = re.compile(r"(\d+)\s*(ms|s|m|min|h|d)?")
_MS = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_SIZE = re.compile(r"(\d+)\s*([kmgt]?)b?")
_BYTES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


class AtTime(NamedTuple):
    """The first record at or after a time, in milliseconds since 1970."""

    timestamp_ms: int


Position: TypeAlias = Literal["earliest", "latest"] | AtTime | Offset
"""Where to begin or end in one partition. A number is an offset."""
PositionSpec: TypeAlias = Position | Mapping[TopicPartition, Position]
"""One position for every partition, or one for each."""


class Subscribe(NamedTuple):
    """Whole topics by name; all must exist."""

    topics: tuple[str, ...]


class SubscribePattern(NamedTuple):
    """Every topic whose whole name matches, including topics created later."""

    pattern: str


class Assign(NamedTuple):
    """Exactly these partitions."""

    partitions: tuple[TopicPartition, ...]


Subscription: TypeAlias = Subscribe | SubscribePattern | Assign


def parse_bootstrap(text: str) -> tuple[Address, ...]:
    """Parse comma-separated broker URLs; `host:port` means `http://host:port`."""
    addresses = tuple(Address.of_url(item.strip()) for item in text.split(",") if item.strip())
    if not addresses:
        raise ValueError("expected one or more broker URLs")
    return addresses


def parse_subscribe(text: str) -> Subscribe:
    """Read comma-separated topic names."""
    topics = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not topics:
        raise ValueError("expected one or more topic names, separated by commas")
    return Subscribe(topics)


def parse_pattern(text: str) -> SubscribePattern:
    """Read a regular expression."""
    try:
        re.compile(text)
    except re.error as reason:
        raise ValueError(f"expected a regular expression ({reason})") from None
    return SubscribePattern(text)


def parse_assign(text: str) -> Assign:
    """Read `{"topic": [0, 1]}`."""
    shape = 'expected JSON like {"topic": [0, 1]}'
    partitions = []
    for topic, numbers in _json_object(text, shape).items():
        if not isinstance(numbers, list) or not numbers:
            raise ValueError(shape)
        partitions += [TopicPartition(topic, _natural(number, shape)) for number in numbers]
    if not partitions or len(set(partitions)) != len(partitions):
        raise ValueError(f"{shape}, each partition once")
    return Assign(tuple(sorted(partitions)))


def parse_time(text: str) -> AtTime:
    """Read milliseconds since 1970."""
    shape = "expected milliseconds since 1970"
    if not _INTEGER.fullmatch(text.strip()):
        raise ValueError(shape)
    return _at_time(int(text), shape)


def parse_times(text: str) -> Mapping[TopicPartition, Position]:
    """Read `{"topic": {"0": ms}}`."""
    shape = 'expected JSON like {"topic": {"0": 1700000000000}} with milliseconds since 1970'
    return {key: _at_time(value, shape) for key, value in _by_partition(text, shape).items()}


def _at_time(value: object, shape: str) -> AtTime:
    """Take any time that a record can have; -1 and -2 are not meant as times, but as Kafka's latest and earliest."""
    if not isinstance(value, int) or isinstance(value, bool) or value in (-1, -2):
        raise ValueError(shape)
    if not _FIRST_MS <= value <= _LAST_MS:
        raise ValueError(f"{shape}, {_FIRST_MS} to {_LAST_MS} (the years 1 to 9999)")
    return AtTime(value)


def parse_offsets(text: str) -> PositionSpec | None:
    """Read `earliest`, `latest` or `{"topic": {"0": 23, "1": -2}}`."""
    lowered = text.strip().lower()
    if lowered == "earliest":
        return "earliest"
    if lowered == "latest":
        return "latest"
    shape = 'expected earliest, latest or JSON like {"topic": {"0": 23, "1": -2}} (-2 earliest, -1 latest)'
    return {key: _parse_position(value, shape) for key, value in _by_partition(text, shape).items()}


def _parse_position(value: object, shape: str) -> Position:
    if value == -2:
        return "earliest"
    if value == -1:
        return "latest"
    return _natural(value, shape)


def _by_partition(text: str, shape: str) -> dict[TopicPartition, object]:
    positions: dict[TopicPartition, object] = {}
    for topic, by_number in _json_object(text, shape).items():
        if not isinstance(by_number, dict):
            raise ValueError(shape)  # noqa: TRY004 -- the caller turns ValueError into a ConfigError
        for number, value in by_number.items():
            if not number.isdecimal():
                raise ValueError(shape)
            positions[TopicPartition(topic, int(number))] = value
    if not positions:
        raise ValueError(shape)
    return positions


def _json_object(text: str, shape: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as reason:
        raise ValueError(f"{shape} ({reason})") from None
    if not isinstance(value, dict):
        raise ValueError(shape)  # noqa: TRY004 -- as above
    return value


def _natural(value: object, shape: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError(shape)
    return value


def parse_dial(text: str) -> Mapping[str, str]:
    """Read `{"host:port": "host:port"}`."""
    shape = 'expected JSON like {"host:port": "host:port"}'
    dial = _json_object(text, shape)
    for address in (*dial, *dial.values()):
        Address.parse(str(address))
    return {key: str(value) for key, value in dial.items()}


def parse_strategy(text: str) -> Literal["error", "latest"]:
    """Read `error` or `latest`."""
    lowered = text.strip().lower()
    if lowered == "error":
        return "error"
    if lowered == "latest":
        return "latest"
    raise ValueError("expected error or latest")


def parse_bool(text: str) -> bool:
    """Read `true` or `false`."""
    lowered = text.strip().lower()
    if lowered not in ("true", "false"):
        raise ValueError("expected true or false")
    return lowered == "true"


def parse_count(text: str) -> int:
    """Read a whole number of at least 1."""
    if not text.strip().isdecimal() or not 1 <= int(text) <= _MOST:
        raise ValueError("expected a whole number of at least 1, and less than 2**63")
    return int(text)


def parse_batch_id(text: str) -> int:
    """Read the number of a micro-batch."""
    if not text.strip().isdecimal() or int(text) > _MOST:
        raise ValueError("expected a whole number of at least 0, and less than 2**63")
    return int(text)


def parse_isolation(text: str) -> Isolation:
    """Read `read_committed` or `read_uncommitted`."""
    lowered = text.strip().lower()
    if lowered == "read_committed":
        return "read_committed"
    if lowered == "read_uncommitted":
        return "read_uncommitted"
    raise ValueError("expected read_committed or read_uncommitted")


def parse_duration(text: str) -> int:
    """Parse a duration such as `15m`, `30s` or `500ms`, as Spark writes it; a plain number is in milliseconds."""
    matched = _DURATION.fullmatch(text.strip().lower())
    if matched is None or not int(matched[1]):
        raise ValueError("expected a time such as 15m, 30s or 500ms")
    return int(matched[1]) * _MS[matched[2] or "ms"]


def parse_size(text: str) -> int:
    """Parse a size such as `64m` or `1g`, as Spark writes it; a plain number is in bytes."""
    matched = _SIZE.fullmatch(text.strip().lower())
    if matched is None or not int(matched[1]):
        raise ValueError("expected a size such as 64m or 1g")
    return int(matched[1]) * _BYTES[matched[2]]


def parse_name(text: str) -> str:
    """Read a name that is not empty."""
    if not text.strip():
        raise ValueError("expected a name")
    return text.strip()


def parse_client_id(text: str) -> str:
    """Read a client id."""
    if not is_client_id(text.strip()):
        raise ValueError(f"expected {EXPECTED}")
    return text.strip()


def parse_compression(text: str) -> Literal["lz4", "zstd"] | None:
    """Read the name of a compression."""
    if text.strip().lower() not in _COMPRESSIONS:
        raise ValueError("expected none, lz4 or zstd")
    return _COMPRESSIONS[text.strip().lower()]
