"""Repair of damaged batches: one replica asks another for the bytes that both should hold (docs/adr/0017)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from raftlog.model import LeaderEpoch, Offset, TopicId, TopicIdPartition


class Holding(StrEnum):
    """What a broker holds of the batch that was asked for, in its replica or in what it has put aside."""

    WHOLE = "whole"
    """The bytes follow."""
    OTHER = "other"
    """A sound batch covers the offset, but not the one that was asked for: another epoch, or cleaned by compaction."""
    DAMAGED = "damaged"
    ABSENT = "absent"
    """The log ends before the offset, or starts after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairRequest:
    """JSON sent to `paths.REPAIR`. The answer is a frame: `RepairResponse`, then whole batches from `offset` on."""

    topic_id: TopicId
    partition: int
    offset: Offset
    """Base offset of the first batch that is wanted."""
    leader_epoch: LeaderEpoch
    """Of the first batch."""
    max_bytes: int = 1 << 20
    """The first batch is answered even if it alone is longer."""

    @property
    def key(self) -> TopicIdPartition:
        return TopicIdPartition(self.topic_id, self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairResponse:
    """Head of a repair frame."""

    holding: Holding
