"""A consumer without a group: it reads the partitions that it was told, from where it was told."""

from __future__ import annotations

from collections.abc import Sequence

from raftlog.client.connection import Connection
from raftlog.client.reader import PartitionReader
from raftlog.client.starts import Start
from raftlog.errors import NotFoundError
from raftlog.model import TopicPartition


class OwnAssignment:
    """The partitions of one consumer.

    Args:
        partitions: of each topic, only these; None means all, those that are added later too.
    """

    def __init__(
        self, connection: Connection, reader: PartitionReader, topics: Sequence[str], partitions: Sequence[int] | None
    ) -> None:
        self._connection = connection
        self._reader = reader
        self._topics = topics
        self._partitions = partitions

    async def begin(self, start: Start) -> None:
        """Start reading every wanted partition that is not read yet.

        Raises:
            NotFoundError: there is no such topic or partition.
        """
        new = [partition for partition in await self._wanted() if partition not in self._reader.positions]
        self._reader.begin(await self._reader.offsets(new, start))

    async def care(self) -> None:
        """Take partitions that were added meanwhile, each from its first record."""
        if self._partitions is None and any(self._connection.is_stale(topic) for topic in self._topics):
            await self.begin("earliest")

    async def _wanted(self) -> list[TopicPartition]:
        wanted = []
        for topic in self._topics:
            count = len((await self._connection.topic(topic)).partitions)
            chosen = range(count) if self._partitions is None else self._partitions
            if outside := [partition for partition in chosen if not 0 <= partition < count]:
                raise NotFoundError(f"topic {topic!r} has partitions 0 to {count - 1}, received {outside[0]}")
            wanted += [TopicPartition(topic, partition) for partition in chosen]
        return wanted
