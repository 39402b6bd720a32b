"""Partitioners: the caller's partition, the application's partitioner, murmur2 of the key, or a sticky partition."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TypeAlias

from raftlog.errors import InvalidRequestError
from raftlog.model import TopicPartition
from raftlog.record.partitioner import partition_for_key

Partitioner: TypeAlias = Callable[[str, bytes | None, bytes | None, int], int | None]
"""Takes a record's topic, key and value and the number of partitions; returns a partition, or None for the default.

It is called in the event loop for each record that names no partition, so it must not wait. A topic may get more
partitions while the producer runs.
"""


class StickyPartition:
    """The partition that gets a topic's records without a key until `limit` bytes went to it (KIP-794)."""

    __slots__ = ("filled", "limit", "partition")

    def __init__(self, partition: TopicPartition, limit: int) -> None:
        self.partition = partition
        self.limit = limit
        self.filled = 0


class Partitioning:
    """Chooses partitions.

    Args:
        batch_bytes: how many bytes of records without a key go to one partition before the next.
    """

    def __init__(self, batch_bytes: int, partitioner: Partitioner | None = None) -> None:
        self._batch_bytes = batch_bytes
        self._partitioner = partitioner
        self._sticky: dict[str, StickyPartition] = {}

    @property
    def is_custom(self) -> bool:
        """Whether the application has its own partitioner."""
        return self._partitioner is not None

    def sticky(self, topic: str) -> StickyPartition | None:
        """Return the sticky partition of a topic, if it has one."""
        return None if self.is_custom else self._sticky.get(topic)

    def choose(
        self, topic: str, count: int, requested: int | None, key: bytes | None, value: bytes | None, size: int
    ) -> TopicPartition:
        """Choose among a topic's `count` partitions for a record of `size` bytes, or several with one key.

        In this order: `requested`; the application's partitioner; the key's hash, as in Kafka; the sticky partition
        (KIP-794).

        Args:
            requested: the caller's partition; None: choose one.

        Raises:
            InvalidRequestError: the partition does not exist, or the partitioner failed or returned none that exists.
        """
        if requested is None:
            if self._partitioner is not None:
                requested = self._ask(self._partitioner, topic, count, key, value)
            if requested is None:
                if key is not None:
                    return TopicPartition(topic, partition_for_key(key, count))
                sticky = self._sticky.get(topic)
                # A topic that was created again may have fewer partitions.
                if sticky is None or sticky.filled >= sticky.limit or sticky.partition.partition >= count:
                    sticky = self._sticky[topic] = StickyPartition(
                        self._another(topic, count, sticky), self._batch_bytes
                    )
                sticky.filled += size
                return sticky.partition
        if not 0 <= requested < count:
            raise InvalidRequestError(f"topic {topic!r} has partitions 0 to {count - 1}, received {requested}")
        return TopicPartition(topic, requested)

    @staticmethod
    def _another(topic: str, count: int, sticky: StickyPartition | None) -> TopicPartition:
        last = sticky.partition.partition if sticky else random.randrange(count)  # noqa: S311
        number = (last + 1 + random.randrange(max(1, count - 1))) % count  # noqa: S311
        return TopicPartition(topic, number)

    @staticmethod
    def _ask(partitioner: Partitioner, topic: str, count: int, key: bytes | None, value: bytes | None) -> int | None:
        try:
            chosen: object = partitioner(topic, key, value, count)
        except Exception as error:
            raise InvalidRequestError(f"partitioner: failed for a record of topic {topic!r}: {error!r}") from error
        if chosen is None or (type(chosen) is int and 0 <= chosen < count):
            return chosen
        raise InvalidRequestError(
            f"partitioner: expected a partition of topic {topic!r}, 0 to {count - 1}, or None, received {chosen!r}"
        )
