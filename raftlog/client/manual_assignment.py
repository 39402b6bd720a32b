"""Manual partition assignment: a consumer without a group reads the topics and partitions of its options."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from raftlog.client.connection import Connection
from raftlog.client.reader import PartitionReader
from raftlog.client.start_offsets import Start
from raftlog.client.unexpected import explained
from raftlog.errors import InvalidRequestError, NotFoundError, RaftlogError, RetriableError
from raftlog.model import TopicPartition
from raftlog.runtime import Tasks
from raftlog.wire.metadata import TopicInfo

RETRY_S = 0.2
_log = logging.getLogger(__name__)


class ManualAssignment:
    """The partitions that one consumer assigns to itself.

    Args:
        partitions: the partitions to read of each topic; None: all, also those that are added later.
    """

    def __init__(
        self, connection: Connection, reader: PartitionReader, topics: Sequence[str], partitions: Sequence[int] | None
    ) -> None:
        self._connection = connection
        self._reader = reader
        reader.drop_vanished = self.drop_vanished
        self._topics = topics
        self._partitions = partitions
        self._counts: dict[str, int] = {}
        """The partition count of each topic at the last look."""
        self._compared: dict[str, TopicInfo] = {}
        """The metadata of each topic that has every partition that is read."""
        self._beginning: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._failure: RaftlogError | None = None
        self._tasks = Tasks("consumer's topics")

    async def close(self) -> None:
        await self._tasks.close()

    async def begin_at(self, start: Start) -> None:
        """Begin, even if the call is cancelled meanwhile: the next one waits for the same lookups, see `begin`.

        Raises:
            InvalidRequestError: the consumer was closed meanwhile.
        """
        if self._beginning is None:
            self._beginning = self._tasks.spawn(self.begin(start), name="begin", awaited=True)
        beginning = self._beginning
        await asyncio.wait([beginning])
        self._beginning = None
        if beginning.cancelled():
            raise InvalidRequestError("this consumer was closed while a call for records waited")
        beginning.result()

    async def begin(self, start: Start) -> None:
        """Start reading every selected partition that is not read yet.

        Raises:
            NotFoundError: a topic or a partition does not exist.
        """
        counts, wanted = await self._wanted()
        new = [partition for partition in wanted if partition not in self._reader.positions]
        self._reader.begin(await self._reader.offsets(new, start))
        self._counts = counts

    def run_due_work(self) -> None:
        """Start a background task that reads added partitions from their first record, if a topic may have grown.

        Raises:
            NotFoundError: a topic was deleted; or see `drop_vanished`.
        """
        self.drop_vanished()
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        is_looking = self._looking is not None and not self._looking.done()
        if self._partitions is None and not is_looking and any(map(self._may_have_grown, self._topics)):
            self._looking = self._tasks.spawn(self._look(), name="look for partitions")

    def drop_vanished(self) -> None:
        """Read no longer the partitions that a topic lacks since it was created again.

        Raises:
            NotFoundError: the application asked for these partitions by their numbers.
        """
        for topic in self._topics:
            info = self._connection.cached_topic(topic)
            if info is None or info is self._compared.get(topic):
                continue
            count = len(info.partitions)
            vanished = sorted(at for at in self._reader.positions if at.topic == topic and at.partition >= count)
            if vanished and self._partitions is not None:
                raise NotFoundError(
                    f"topic {topic!r} has partitions 0 to {count - 1} now, not {vanished[0].partition}: it was deleted "
                    "and created again; make another consumer with partitions that it has"
                )
            self._compared[topic] = info
            if not vanished:
                continue
            self._reader.end(vanished)
            listed = ", ".join(map(str, vanished))
            _log.warning("topic %s was created again with %d partitions; no longer read: %s", topic, count, listed)

    def _may_have_grown(self, topic: str) -> bool:
        info = self._connection.cached_topic(topic)
        return self._connection.is_stale(topic) or info is None or len(info.partitions) != self._counts.get(topic)

    async def _look(self) -> None:
        try:
            await self.begin("earliest")
        except RetriableError:
            await asyncio.sleep(RETRY_S)  # The next call tries again.
        except Exception as error:  # noqa: BLE001  (the callers that wait get it)
            self._failure = explained(error, "the look for new partitions", RaftlogError)
            self._reader.fetcher.interrupt()

    async def _wanted(self) -> tuple[dict[str, int], list[TopicPartition]]:
        """Return each topic's partition count, and the partitions to read."""
        counts, wanted = {}, []
        for topic in self._topics:
            count = counts[topic] = len((await self._connection.topic(topic)).partitions)
            chosen = range(count) if self._partitions is None else self._partitions
            if outside := [partition for partition in chosen if not 0 <= partition < count]:
                raise NotFoundError(f"topic {topic!r} has partitions 0 to {count - 1}, received {outside[0]}")
            wanted += [TopicPartition(topic, partition) for partition in chosen]
        return counts, wanted
