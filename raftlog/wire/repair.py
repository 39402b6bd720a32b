"""Repair of damaged batches: a replica requests the bytes of a batch from another replica (docs/adr/0017)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from raftlog.model import NO_LEADER_EPOCH, LeaderEpoch, Offset, TopicId, TopicIdPartition


class Holding(StrEnum):
    """What a broker has of the requested batch, in its replica or in quarantined copies."""

    WHOLE = "whole"
    """The batch is intact; its bytes follow."""
    OTHER = "other"
    """Another intact batch covers the offset: of another epoch, or changed by compaction."""
    DAMAGED = "damaged"
    ABSENT = "absent"
    """The log ends before the offset, or starts after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairRequest:
    """JSON sent to `paths.REPAIR`. The answer is a frame: `RepairResponse`, then whole batches from `offset` on."""

    topic_id: TopicId
    partition: int
    offset: Offset
    """Base offset of the first requested batch."""
    leader_epoch: LeaderEpoch
    """Leader epoch of the first batch; NO_LEADER_EPOCH: any, the sender knows the batch after the damage."""
    max_bytes: int = 1 << 20
    """Soft limit: the first batch is sent even if it is longer."""

    @property
    def key(self) -> TopicIdPartition:
        return TopicIdPartition(self.topic_id, self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairResponse:
    """Head of a repair frame."""

    holding: Holding
    log_start_offset: Offset = -1
    """Where the sender's log starts: earlier records were deleted. -1: its log is not open, or has no record."""
    log_start_epoch: LeaderEpoch = NO_LEADER_EPOCH
    """Leader epoch of the record at its log start."""
    first_offset: Offset = -1
    """Base offset of the first batch of the sender's log; -1 like the start, which may be inside that batch."""
    log_end_offset: Offset = -1
    """Where the sender's log ends; -1 like the start."""
    high_watermark: Offset = -1
    """Records below it are committed, as far as the sender knows; -1 like the start."""
    from_log: bool = False
    """The batches are those of the sender's open log, not of a quarantined copy."""
    generation: str = ""
    """Differs from that of an earlier response if the sender's log was compacted or truncated in between."""
