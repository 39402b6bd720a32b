"""Committed offsets: what a group stores for each partition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from raftlog import wire
from raftlog.client.arguments import offset_argument, partition_argument, require_offsets
from raftlog.client.core.epochs_read import EpochsRead
from raftlog.model import NO_LEADER_EPOCH, LeaderEpoch, Offset, TopicPartition

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


def with_epochs(
    offsets: Mapping[TopicPartition, OffsetAndMetadata], read: EpochsRead
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return offsets with the leader epochs of the records before them, where those were read and none is given."""
    return {
        partition: replace(chosen, leader_epoch=read.before(partition, chosen.offset))
        if chosen.leader_epoch == NO_LEADER_EPOCH
        else chosen
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
        )
        for partition, chosen in sorted(offsets.items())
    )
