"""Committed offsets: what a group stores for each partition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from raftlog import wire
from raftlog.client.arguments import offset_argument, partition_argument, require_offsets
from raftlog.client.core.epochs_read import EpochsRead
from raftlog.model import NO_LEADER_EPOCH, LeaderEpoch, Offset, TopicId, TopicPartition

if TYPE_CHECKING:
    from raftlog.wire.groups import CommitOffset


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetAndMetadata:
    """A committed offset, or an offset to commit, with a text of the application's own."""

    offset: Offset
    """The offset of the next record to read."""
    metadata: str = ""
    """The application's text."""
    leader_epoch: LeaderEpoch = NO_LEADER_EPOCH
    """The leader epoch of the record before the offset; -1: unknown. A member that continues here detects by it
    whether that record was truncated."""
    topic_id: TopicId = field(default="", repr=False, compare=False)
    """The id of the topic that was read; empty: that of the records that the consumer has returned. The coordinator
    refuses the offset if the topic was deleted and created again since."""


OffsetsToCommit: TypeAlias = Mapping[tuple[str, int], Offset | OffsetAndMetadata]


def full(offsets: OffsetsToCommit) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return offsets to commit, each with metadata and leader epoch.

    Raises:
        InvalidRequestError: `offsets` is not a mapping of partitions to offsets.
    """
    require_offsets(offsets)
    return {partition_argument(partition): _full(chosen) for partition, chosen in offsets.items()}


def _full(chosen: Offset | OffsetAndMetadata) -> OffsetAndMetadata:
    if isinstance(chosen, OffsetAndMetadata):
        offset_argument(chosen.offset)
        return chosen
    return OffsetAndMetadata(offset=offset_argument(chosen))


def as_read(
    offsets: Mapping[TopicPartition, OffsetAndMetadata], read: EpochsRead
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return offsets with what was read, where none is given: leader epochs of the records before them, topic ids."""
    return {
        partition: replace(
            chosen,
            leader_epoch=read.before(partition, chosen.offset)
            if chosen.leader_epoch == NO_LEADER_EPOCH
            else chosen.leader_epoch,
            topic_id=chosen.topic_id or read.topic_id(partition),
        )
        for partition, chosen in offsets.items()
    }


def on_the_wire(offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> tuple[CommitOffset, ...]:
    """Return offsets as a commit request has them, by partition."""
    return tuple(
        wire.groups.CommitOffset(
            topic=partition.topic,
            partition=partition.partition,
            offset=chosen.offset,
            metadata=chosen.metadata,
            leader_epoch=chosen.leader_epoch,
            topic_id=chosen.topic_id,
        )
        for partition, chosen in sorted(offsets.items())
    )
