"""The leader epochs of the records that a consumer read. A commit stores the epoch of the record before its offset.

A consumer that continues there detects by it that an unclean election truncated that record (KIP-320). No IO.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Self

from raftlog.model import NO_LEADER_EPOCH, LeaderEpoch, Offset, TopicPartition

MAX_EPOCHS = 64
"""Epochs kept for each partition: leaders change rarely, and committed offsets are mostly recent."""


@dataclass(slots=True)
class EpochsRead:
    """The leader epochs of the latest records that were read, by partition."""

    _starts: dict[TopicPartition, list[tuple[Offset, LeaderEpoch]]] = field(default_factory=dict)
    """(first offset, leader epoch) pairs, ascending."""
    _ends: dict[TopicPartition, Offset] = field(default_factory=dict)

    def begin(self, partition: TopicPartition, offset: Offset, epoch: LeaderEpoch) -> None:
        """Record where reading begins.

        Args:
            partition: the partition.
            offset: the first offset to read.
            epoch: the leader epoch of the record before it; -1: unknown.
        """
        self._starts[partition] = [(offset - 1, epoch)]
        self._ends[partition] = offset

    def read(self, partition: TopicPartition, end: Offset, epoch: LeaderEpoch) -> None:
        """Record the epoch of the records that were read after the earlier ones.

        Args:
            partition: the partition.
            end: the offset after the last record.
            epoch: the records' leader epoch.
        """
        starts = self._starts.setdefault(partition, [])
        if not starts or starts[-1][1] != epoch:
            starts.append((self._ends.get(partition, end - 1), epoch))
            del starts[:-MAX_EPOCHS]
        self._ends[partition] = end

    def forget(self, partition: TopicPartition) -> None:
        """Forget a partition.

        Args:
            partition: the partition.
        """
        self._starts.pop(partition, None)
        self._ends.pop(partition, None)

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
        return type(self)({key: list(starts) for key, starts in self._starts.items()}, dict(self._ends))
