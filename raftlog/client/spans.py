"""Spans: offset ranges of partitions for a bounded read. Start and end are resolved before the first fetch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, TypeAlias, get_args

from raftlog.client.arguments import is_whole, partitions_option, require_topic_name
from raftlog.client.connection import Connection
from raftlog.client.start_offsets import Start, ask_offset
from raftlog.errors import ConfigError, NotFoundError, OffsetOutOfRangeError
from raftlog.model import Isolation, Offset, TopicPartition
from raftlog.runtime import concurrently

Bound: TypeAlias = Literal["earliest", "latest"] | datetime | timedelta | Offset | Mapping[int, Offset]
"""An end of the log, a time (a timedelta is so long ago), an offset of the only partition, or offsets by partition."""


@dataclass(frozen=True, slots=True)
class Span:
    """The offsets `start` to `end` (exclusive) of one partition."""

    partition: TopicPartition
    start: Offset
    end: Offset
    log_start: Offset
    """The log start offset when the span was resolved."""
    topic_id: str
    """Guards against a topic that was deleted and recreated under the same name."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The part of a topic to read.

    Raises:
        TypeError, ConfigError: a field is invalid.
    """

    topic: str
    partitions: tuple[int, ...] | None = None
    """None: all."""
    start: Bound = "earliest"
    end: Bound = "latest"
    isolation: Isolation = "read_committed"

    def __post_init__(self) -> None:
        require_topic_name(self.topic)
        if self.isolation not in get_args(Isolation):
            raise ConfigError(f"isolation: expected read_committed or read_uncommitted, received {self.isolation!r}")
        _require_bound("start", self.start)
        _require_bound("end", self.end)


def selection(
    topic: str, partitions: Iterable[int] | None, start: Bound, end: Bound, isolation: Isolation
) -> Selection:
    """Return a validated selection."""
    chosen = None if partitions is None else tuple(dict.fromkeys(partitions_option(partitions)))
    return Selection(topic, chosen, start, end, isolation)


async def spans_of(connection: Connection, wanted: Selection) -> list[Span]:
    """Resolve a selection to offsets, with the partitions' leaders.

    Raises:
        NotFoundError: the topic or a partition does not exist.
        ConfigError: a single offset was given for several partitions.
        OffsetOutOfRangeError: a given offset is not in the log.
    """
    info = await connection.topic(wanted.topic)
    count = len(info.partitions)
    numbers = range(count) if wanted.partitions is None else wanted.partitions
    if outside := [number for number in numbers if number >= count]:
        raise NotFoundError(f"topic {wanted.topic!r} has partitions 0 to {count - 1}, received {outside[0]}")
    for name, bound in (("start", wanted.start), ("end", wanted.end)):
        _require_fits(name, bound, wanted.topic, numbers)
    places = [TopicPartition(wanted.topic, number) for number in numbers]
    return await concurrently([_span(connection, place, wanted, info.topic_id) for place in places])


async def _span(connection: Connection, partition: TopicPartition, wanted: Selection, topic_id: str) -> Span:
    latest = await ask_offset(connection, partition, "latest", wanted.isolation)
    ends = range(latest.log_start_offset, max(latest.log_start_offset, latest.offset) + 1)
    end = await _resolved(connection, partition, wanted.end, wanted.isolation, ends, "end")
    start = await _resolved(connection, partition, wanted.start, wanted.isolation, ends, "start")
    return Span(partition, start, max(start, end), latest.log_start_offset, topic_id)


async def _resolved(
    connection: Connection, partition: TopicPartition, given: Bound, isolation: Isolation, ends: range, name: str
) -> Offset:
    bound: Start
    if isinstance(given, Mapping):
        bound = given.get(partition.partition, "earliest" if name == "start" else "latest")
    else:
        bound = given
    if bound == "earliest":
        return ends.start
    if bound == "latest":
        return ends[-1]
    if isinstance(bound, int):
        if bound not in ends:
            raise OffsetOutOfRangeError(
                f"{name}: {partition} can be read from offset {ends.start} to {ends[-1]}, received {bound}"
            )
        return bound
    # The log may have grown between the two requests. Newer records are not part of the span.
    found = (await ask_offset(connection, partition, bound, isolation)).offset
    return min(found, ends[-1])


def _require_bound(name: str, bound: object) -> None:
    if isinstance(bound, Mapping):
        is_one = all(is_whole(key) and is_whole(value) for key, value in bound.items())
    else:
        is_one = bound in ("earliest", "latest") if isinstance(bound, str) else _is_place(bound)
    if not is_one:
        raise ConfigError(
            f"{name}: expected earliest, latest, a datetime, a timedelta (so long ago), an offset, or offsets by "
            f"partition such as {{0: 5}}, received {bound!r:.80}"
        )


def _is_place(bound: object) -> bool:
    return isinstance(bound, datetime | timedelta) or is_whole(bound)


def _require_fits(name: str, bound: Bound, topic: str, numbers: Iterable[int]) -> None:
    read = list(numbers)
    if isinstance(bound, int) and len(read) > 1:
        raise ConfigError(
            f"{name}: {len(read)} partitions of {topic!r} are read, and an offset is of one: name offsets by "
            f"partition such as {{0: {bound}}}, or read partitions=[0]; received {bound}"
        )
    if isinstance(bound, Mapping) and (odd := sorted(set(bound) - set(read))):
        raise ConfigError(f"{name}: partition {odd[0]} of {topic!r} is not read; read are {read}")
