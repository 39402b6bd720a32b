"""The leader epochs of the records that a consumer read, and their topics' ids. A commit has both. No IO.

A commit stores the epoch of the record before its offset. A consumer that continues there detects by it that an unclean
election truncated that record (KIP-320). By the id, the coordinator refuses offsets of a topic that was deleted.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Self

from raftlog.model import NO_LEADER_EPOCH, LeaderEpoch, Offset, TopicId, TopicPartition

MAX_EPOCHS = 64
"""Epochs kept for each partition: leaders change rarely, and committed offsets are mostly recent."""
MAX_LEFT = 1_000
"""Forgotten partitions whose topics' ids are kept."""


@dataclass(slots=True)
class EpochsRead:
    """The leader epochs and topic ids of the latest records that were read, by partition."""

    _starts: dict[TopicPartition, list[tuple[Offset, LeaderEpoch]]] = field(default_factory=dict)
    """(first offset, leader epoch) pairs, ascending."""
    _ends: dict[TopicPartition, Offset] = field(default_factory=dict)
    _topic_ids: dict[TopicPartition, TopicId] = field(default_factory=dict)
    _left: dict[TopicPartition, TopicId] = field(default_factory=dict)
    """The topic ids of partitions that were forgotten, the latest last: commits of what was read there may follow."""

    def begin(
        self,
        partition: TopicPartition,
        offset: Offset,
        epoch: LeaderEpoch,
        topic_id: TopicId = "",
        *,
        is_chosen: bool = True,
    ) -> None:
        """Record where reading begins.

        Args:
            partition: the partition.
            offset: the first offset to read.
            epoch: the leader epoch of the record before it; -1: unknown.
            topic_id: the id of the topic; empty: unknown.
            is_chosen: the application chose this position. Otherwise what it commits before it has got a record from
                there may still be of earlier records, and has their topic's id.
        """
        self._starts[partition] = [(offset - 1, epoch)]
        self._ends[partition] = offset
        if is_chosen or not self.topic_id(partition):
            self._topic_ids[partition] = topic_id

    def read(self, partition: TopicPartition, end: Offset, epoch: LeaderEpoch, topic_id: TopicId = "") -> None:
        """Record the epoch of the records that were read after the earlier ones.

        Args:
            partition: the partition.
            end: the offset after the last record.
            epoch: the records' leader epoch.
            topic_id: the id of their topic; empty: unknown.
        """
        self._topic_ids[partition] = topic_id
        starts = self._starts.setdefault(partition, [])
        if not starts or starts[-1][1] != epoch:
            starts.append((self._ends.get(partition, end - 1), epoch))
            del starts[:-MAX_EPOCHS]
        self._ends[partition] = end

    def forget(self, partition: TopicPartition) -> None:
        """Forget a partition, apart from its topic's id.

        Args:
            partition: the partition.
        """
        self._starts.pop(partition, None)
        self._ends.pop(partition, None)
        if topic_id := self._topic_ids.pop(partition, ""):
            self._left.pop(partition, None)
            self._left[partition] = topic_id
            if len(self._left) > MAX_LEFT:
                del self._left[next(iter(self._left))]

    def topic_id(self, partition: TopicPartition) -> TopicId:
        """Return the id of the topic of the latest records that were read; empty: unknown.

        Args:
            partition: the partition.
        """
        return self._topic_ids.get(partition, "") or self._left.get(partition, "")

    def before(self, partition: TopicPartition, offset: Offset) -> LeaderEpoch:
        """Return the leader epoch of the record before an offset; -1: unknown.

        Args:
            partition: the partition.
            offset: the offset.
        """
        starts = self._starts.get(partition, [])
        at = bisect_right(starts, offset - 1, key=itemgetter(0))
        if not at or offset > self._ends[partition]:
            return NO_LEADER_EPOCH
        return starts[at - 1][1]

    def copy(self) -> Self:
        """Return a copy of the current state."""
        starts = {key: list(starts) for key, starts in self._starts.items()}
        return type(self)(starts, dict(self._ends), dict(self._topic_ids), dict(self._left))
