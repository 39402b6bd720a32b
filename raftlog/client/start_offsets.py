"""Start positions: an end of the log or a time, and the offset that it resolves to (Kafka: ListOffsets)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Literal, TypeAlias

from raftlog.client.connection import Connection
from raftlog.client.times import microseconds
from raftlog.errors import ConfigError
from raftlog.model import Isolation, Offset, TopicPartition
from raftlog.wire import paths
from raftlog.wire.data import OffsetResponse

Start: TypeAlias = Literal["earliest", "latest"] | int | datetime | timedelta
"""A number is microseconds since 1970 UTC, as in `Record.timestamp`; a datetime without a zone is local time; a
timedelta is so long ago."""


async def offset_at(
    connection: Connection, partition: TopicPartition, at: Start, isolation: Isolation = "read_uncommitted"
) -> Offset:
    """Return the first offset at or after `at`, from the leader; the end that readers see if there is none."""
    return (await ask_offset(connection, partition, at, isolation)).offset


async def ask_offset(
    connection: Connection, partition: TopicPartition, at: Start, isolation: Isolation = "read_uncommitted"
) -> OffsetResponse:
    """Return a partition's offset at `at` and the log's start, from the leader."""
    path = paths.fill(paths.OFFSETS, topic=partition.topic, partition=partition.partition)
    query = {"at": at_text(at), "isolation": isolation}
    return await connection.at_leader(OffsetResponse, "GET", *partition, path, query=query)


def at_text(at: Start) -> str:
    """Return a start as the query parameter of `paths.OFFSETS`: an end of the log, or a time in milliseconds.

    Raises:
        ConfigError: `at` has another type or value.
        InvalidRequestError: INVALID_TIMESTAMP, a number that is probably in another unit.
    """
    if isinstance(at, str) and at in ("earliest", "latest"):
        return at
    if isinstance(at, timedelta):
        at = _ago(at)
    if isinstance(at, str) or not isinstance(at, int | float | datetime):
        raise ConfigError(
            f"start: expected earliest, latest, a datetime, a timedelta or microseconds since 1970, received {at!r}"
        )
    return str(microseconds("start", at) // 1_000)


def _ago(distance: timedelta) -> datetime:
    try:
        return datetime.now(UTC) - distance
    except OverflowError:
        raise ConfigError(f"start: expected a time of the years 1 to 9999, received {distance!r} ago") from None
