"""Parses and validates the query of `GET /v1/topics/{topic}/records`. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, cast, get_args

from raftlog.errors import ErrorCode, InvalidRequestError
from raftlog.model import Isolation, Offset
from raftlog.record.formats import COLUMNS

MAX_PARTITIONS = 10_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DIGITS = 19

Mark = Literal["earliest", "latest"]
Place = Mark | int | Mapping[int, Offset]
"""A mark, a time (ms since 1970), or an offset for each partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicQuery:
    """One read of a topic."""

    partitions: tuple[int, ...] | None
    """None: all."""
    begin: Place
    end: Place
    columns: tuple[str, ...]
    max_records: int | None
    key: bytes | None
    isolation: Isolation
    follow: bool
    """Whether the read has no end: new records are streamed as they arrive."""


def parse(query: Mapping[str, str], *, last_event_id: str | None = None) -> TopicQuery:
    """Parse a query whose names are among those of `openapi.parameters.TOPIC_READ`.

    Args:
        last_event_id: where a reader of server-sent events continues, instead of `from`.

    Raises:
        InvalidRequestError: a value is invalid, or two values contradict each other.
    """
    follow = _flag(query, "follow")
    if follow and "until" in query:
        raise InvalidRequestError("until: with follow=true there is no end, so until has no effect; leave one out")
    return TopicQuery(
        partitions=_partitions(query.get("partitions")),
        begin=_place("from", query.get("from", "earliest") if last_event_id is None else last_event_id),
        end=_place("until", query.get("until", "latest")),
        columns=_columns(query.get("columns")),
        max_records=_max_records(query.get("max_records")),
        key=query["key"].encode() if "key" in query else None,
        isolation=_isolation(query.get("isolation", "read_committed")),
        follow=follow,
    )


def positions_text(positions: Mapping[int, Offset]) -> str:
    """Return positions in the form that `from` takes."""
    return ",".join(f"{partition}:{offset}" for partition, offset in sorted(positions.items()))


def _place(name: str, text: str) -> Place:
    if text in ("earliest", "latest"):
        return cast("Mark", text)
    if ":" in text and text.replace(":", "").replace(",", "").isdigit():
        return _offsets(name, text)
    return _time(name, text)


def _offsets(name: str, text: str) -> Mapping[int, Offset]:
    found: dict[int, Offset] = {}
    for item in text.split(","):
        partition, colon, offset = item.partition(":")
        if not colon or not _is_number(partition) or not _is_number(offset) or int(partition) in found:
            raise InvalidRequestError(
                f"{name}: expected each partition once with its offset, as in 0:1500,1:20, received {text!r:.80}"
            )
        found[int(partition)] = int(offset)
    return found


def _time(name: str, text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidRequestError(
            f"{name}: expected earliest, latest, a time in ISO 8601 (2026-01-31T12:00:00Z), or partition:offset pairs "
            f"(0:1500,1:20), received {text!r:.80}",
            code=ErrorCode.INVALID_TIMESTAMP,
        ) from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def _partitions(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    found: dict[int, None] = {}
    named = 0
    for item in text.split(","):
        first, dash, last = item.partition("-")
        last = last if dash else first
        if not _is_number(first) or not _is_number(last) or not int(first) <= int(last) < 10**9:
            raise InvalidRequestError(f"partitions: expected numbers and spans, as in 0,4-7, received {text!r:.80}")
        named += int(last) - int(first) + 1  # A partition counts each time: what counts is the work.
        if named > MAX_PARTITIONS:
            raise InvalidRequestError(f"partitions: expected at most {MAX_PARTITIONS}, received {text!r:.80}")
        found |= dict.fromkeys(range(int(first), int(last) + 1))
    return tuple(found)


def _columns(text: str | None) -> tuple[str, ...]:
    return COLUMNS if text is None else tuple(text.split(","))


def _max_records(text: str | None) -> int | None:
    if text is None:
        return None
    if not _is_number(text) or int(text) < 1:
        raise InvalidRequestError(f"max_records: expected a number from 1, received {text!r:.80}")
    return int(text)


def _isolation(text: str) -> Isolation:
    if text not in get_args(Isolation):
        raise InvalidRequestError(f"isolation: expected {' or '.join(get_args(Isolation))}, received {text!r:.80}")
    return cast("Isolation", text)


def _flag(query: Mapping[str, str], name: str) -> bool:
    text = query.get(name, "false")
    if text not in ("true", "false"):
        raise InvalidRequestError(f"{name}: expected true or false, received {text!r:.80}")
    return text == "true"


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < _DIGITS
