"""Where to begin reading: an end of the log, or a time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Literal, TypeAlias

from raftlog.client.connection import Connection
from raftlog.errors import ConfigError
from raftlog.model import Isolation, Offset, TopicPartition
from raftlog.wire import paths
from raftlog.wire.data import OffsetResponse

Start: TypeAlias = Literal["earliest", "latest"] | int | datetime | timedelta
"""A number is milliseconds since 1970 UTC, a timedelta so long ago."""


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
    """Return a start as the query of `paths.OFFSETS` has it.

    Raises:
        ConfigError: it is none.
    """
    if isinstance(at, timedelta):
        at = datetime.now(UTC) - at
    if isinstance(at, datetime):
        moment = at if at.tzinfo else at.replace(tzinfo=UTC)
        return str(int(moment.timestamp() * 1000))
    if isinstance(at, int) or at in ("earliest", "latest"):
        return str(at)
    raise ConfigError(
        f"start: expected earliest, latest, a datetime, a timedelta or milliseconds since 1970, received {at!r}"
    )
