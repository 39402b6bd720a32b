"""A partition's fetch position: what is fetched next, and from which replica."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from raftlog.errors import OffsetOutOfRangeError
from raftlog.model import NO_LEADER_EPOCH, Address, LeaderEpoch, Offset, TopicPartition
from raftlog.wire.data import DivergingEpoch, FetchPartition

REPLICA_AVOIDED_S = 5.0
"""After a fetch from a follower failed, the consumer reads from the leader for this long."""


@dataclass(slots=True)
class FetchPosition:
    """A partition's fetch position. A seek replaces it, so that late responses to the old one are dropped."""

    offset: Offset
    last_epoch: LeaderEpoch = NO_LEADER_EPOCH
    """The leader epoch of the record before `offset`; -1: unknown."""
    topic_id: str = ""
    """The topic's id. The offset is meaningless in a topic that was recreated under the same name."""
    high_watermark: Offset = -1
    replica: Address | None = None
    """The preferred read replica: a follower in the consumer's rack (KIP-392)."""
    decided_until: float = 0.0
    """Until this loop time, requests do not ask the leader for a preferred read replica."""
    check_crcs: bool = False
    """Whether the broker must verify checksums, too: set after a damaged batch arrived."""

    @property
    def is_decided(self) -> bool:
        """Whether requests do not ask the leader for a preferred read replica now."""
        return asyncio.get_running_loop().time() < self.decided_until

    def replica_now(self) -> Address | None:
        """Return the preferred read replica until it expires."""
        if self.replica is not None and not self.is_decided:
            self.replica = None
        return self.replica

    def prefer(self, replica: Address | None, lasts_s: float) -> None:
        """Set the preferred read replica; None: read from the leader, and do not ask it meanwhile."""
        self.replica = replica
        self.decided_until = asyncio.get_running_loop().time() + lasts_s

    def leave_replica(self) -> bool:
        """Read from the leader for `REPLICA_AVOIDED_S`; return False if a leader was read already."""
        if self.replica is None:
            return False
        self.prefer(None, REPLICA_AVOIDED_S)
        return True

    def to_request(self, partition: TopicPartition, *, max_bytes: int, rack: str) -> FetchPartition:
        """Return the part of a request that fetches from here."""
        return FetchPartition(
            topic=partition.topic,
            partition=partition.partition,
            offset=self.offset,
            max_bytes=max_bytes,
            topic_id=self.topic_id,
            rack="" if self.is_decided else rack,
            any_replica=self.replica is not None,
            last_fetched_epoch=self.last_epoch,
            check_crcs=self.check_crcs,
        )

    def truncated(self, partition: TopicPartition, diverging: DivergingEpoch) -> OffsetOutOfRangeError:
        """Return the error of a position whose record the log has no longer."""
        return OffsetOutOfRangeError(
            f"{partition} was truncated (an unclean election, or lost disks): the record before offset {self.offset} "
            f"had leader epoch {self.last_epoch}, and the log differs from offset {diverging.end_offset} on; records "
            "read from there are no longer in the log",
            details={"diverging_offset": diverging.end_offset, "leader_epoch": diverging.epoch},
        )

    def recreated(self, topic: str, topic_id: str) -> OffsetOutOfRangeError:
        """Return the error of a position in a topic that was deleted and recreated with another id."""
        return OffsetOutOfRangeError(
            f"{topic} was deleted and recreated: offset {self.offset} belongs to topic id "
            f"{self.topic_id}, now it is {topic_id}; seek, or set on_out_of_range"
        )
