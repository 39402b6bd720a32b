"""Where to begin reading: an end of the log, or a time."""

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
    """Ask a partition's leader for the first offset at or after `at`; where readers stop if there is none."""
    return (await ask_offset(connection, partition, at, isolation)).offset


async def ask_offset(
    connection: Connection, partition: TopicPartition, at: Start, isolation: Isolation = "read_uncommitted"
) -> OffsetResponse:
    """Ask a partition's leader for an offset, and for both ends of the log."""
    path = paths.fill(paths.OFFSETS, topic=partition.topic, partition=partition.partition)
    query = {"at": at_text(at), "isolation": isolation}
    return await connection.at_leader(OffsetResponse, "GET", *partition, path, query=query)


def at_text(at: Start) -> str:
    """Return a start as the query of `paths.OFFSETS` has it: an end, or the millisecond that the time lies in.

    Raises:
        ConfigError: it is none.
        InvalidRequestError: INVALID_TIMESTAMP, a number that can hardly be meant as microseconds.
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
