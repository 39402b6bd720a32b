"""The partitions that a consumer reads, and its positions in them."""

from __future__ import annotations

from collections.abc import Sequence

from raftlog.client.arguments import offset_argument, partition_argument
from raftlog.client.consumer_polling import ConsumerPolling
from raftlog.client.start_offsets import Start
from raftlog.errors import InvalidRequestError
from raftlog.model import Offset, TopicPartition


class ConsumerPositions(ConsumerPolling):
    """The part of `Consumer` that is about its partitions and positions."""

    @property
    def assignment(self) -> list[TopicPartition]:
        """Return the partitions that this consumer reads."""
        return list(self._reader.positions)

    def position(self, topic: str, partition: int) -> Offset:
        """Return the offset of the next record that will be returned.

        Args:
            topic: the topic's name.
            partition: the partition's number.

        Raises:
            InvalidRequestError: this consumer does not read the partition.
        """
        return self._reader.positions[self._require_assigned(topic, partition)]

    def lag(self, topic: str, partition: int) -> int | None:
        """Return how many offsets are still to be read; return None until a broker has reported the end.

        Args:
            topic: the topic's name.
            partition: the partition's number.

        Raises:
            InvalidRequestError: this consumer does not read the partition.
        """
        return self._reader.lag(self._require_assigned(topic, partition))

    def pause(self, *partitions: tuple[str, int]) -> None:
        """Return no records of some partitions until `resume`. The partitions stay assigned.

        Args:
            partitions: the (topic, partition) pairs; none: every assigned partition.

        Raises:
            InvalidRequestError: this consumer does not read one of them.
        """
        self._reader.pause(self._chosen(partitions))

    def resume(self, *partitions: tuple[str, int]) -> None:
        """Return records of paused partitions again.

        Args:
            partitions: the (topic, partition) pairs; none: every assigned partition.

        Raises:
            InvalidRequestError: this consumer does not read one of them.
        """
        self._reader.resume(self._chosen(partitions))

    async def seek(self, topic: str, partition: int, offset: Offset) -> None:
        """Continue at an offset.

        Args:
            topic: the topic's name.
            partition: the partition's number.
            offset: the offset of the next record to return.

        Raises:
            InvalidRequestError: it is no offset, or this consumer does not read the partition.
        """
        offset_argument(offset)
        await self._ensure_started()
        self._reader.begin({self._require_assigned(topic, partition): offset})

    async def seek_to(self, start: Start, *partitions: tuple[str, int]) -> None:
        """Continue at the earliest or latest offset, or at a time.

        Times are looked up by the millisecond: `seek_to(record.timestamp)` continues at this record, or at one before
        it of the same millisecond.

        Args:
            start: `earliest`, `latest`, µs since 1970 UTC, a datetime (local if it has no zone), or a timedelta ago.
            partitions: the (topic, partition) pairs; none: every assigned partition.

        Raises:
            InvalidRequestError: INVALID_TIMESTAMP, a number that looks like another unit; or this consumer does not
                read one of the partitions.
        """
        await self._ensure_started()
        self._reader.move(await self._reader.offsets(self._chosen(partitions), start))

    async def beginning_offsets(self) -> dict[TopicPartition, Offset]:
        """Return the log start offset of each partition that this consumer reads."""
        await self._ensure_started()
        return await self._reader.offsets(self._reader.positions, "earliest")

    async def end_offsets(self) -> dict[TopicPartition, Offset]:
        """Return the end of each partition that this consumer reads: its high watermark, or its last stable offset."""
        await self._ensure_started()
        return await self._reader.offsets(self._reader.positions, "latest")

    def _chosen(self, partitions: Sequence[tuple[str, int]]) -> list[TopicPartition]:
        """Return the given partitions, all of which must be assigned; without any, every assigned one."""
        return [self._require_assigned(*partition_argument(named)) for named in partitions] or self.assignment

    def _require_assigned(self, topic: str, partition: int) -> TopicPartition:
        wanted = TopicPartition(topic, partition)
        if wanted not in self._reader.positions:
            read = ", ".join(map(str, self._reader.positions)) or "none yet"
            raise InvalidRequestError(f"{wanted} is not read by this consumer, which reads {read}")
        return wanted
