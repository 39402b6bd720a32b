"""Fetches of followers. In a session, a request contains only partitions whose position has changed (KIP-227)."""

from __future__ import annotations

from dataclasses import dataclass

from raftlog.model import BrokerEpoch, BrokerId, LeaderEpoch, Offset, TopicId, TopicIdPartition
from raftlog.wire.data import DivergingEpoch
from raftlog.wire.errors import WireError

NO_SESSION = -1
"""Session epoch of a request without a session: request and response contain every partition."""
NEW_SESSION = 0
"""Session epoch of a request that opens a session: it contains every partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaFetchPartition:
    """A follower's position: it has persisted every record below `fetch_offset`."""

    topic_id: TopicId
    partition: int
    leader_epoch: LeaderEpoch
    """The leader epoch in the follower's metadata; fences both sides."""
    fetch_offset: Offset
    last_fetched_epoch: LeaderEpoch
    """Leader epoch of the record before `fetch_offset`; -1 for an empty log."""
    log_start_offset: Offset = 0
    check_crcs: bool = True
    """False: the follower verifies payload checksums, and fetches again with True if one is wrong."""

    @property
    def key(self) -> TopicIdPartition:
        return TopicIdPartition(self.topic_id, self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaFetchRequest:
    """Sent to `paths.REPLICA_FETCH`, as JSON or packed. The answer is a frame: `ReplicaFetchResponse`, then batches."""

    replica_id: BrokerId
    broker_epoch: BrokerEpoch
    """The follower's broker epoch: a late fetch of an earlier incarnation must not count (KIP-903)."""
    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 8 << 20
    partition_max_bytes: int = 1 << 20
    session_id: str = ""
    session_epoch: int = NO_SESSION
    """`NEW_SESSION`, then increased by one with each request of the session."""
    answers_lost: bool = False
    """The previous response did not arrive, or was not read: its results must be sent again."""
    forgotten: tuple[TopicIdPartition, ...] = ()
    """Partitions that the follower no longer reads here."""
    partitions: tuple[ReplicaFetchPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaFetchResult:
    """One partition of the answer: `length` bytes of whole batches, a diverging epoch, or an error.

    A follower that must start over gets an error or a diverging epoch. The bytes are then those of its leader's
    producers, from `partition.sent_producers`; earlier versions send none.
    """

    topic_id: TopicId
    partition: int
    length: int = 0
    high_watermark: Offset = -1
    log_start_offset: Offset = -1
    leader_epoch: LeaderEpoch = -1
    replicated_offset: Offset = -1
    """Every assigned replica has all records below it: compaction may remove tombstones below it."""
    diverging: DivergingEpoch | None = None
    error: WireError | None = None

    @property
    def key(self) -> TopicIdPartition:
        return TopicIdPartition(self.topic_id, self.partition)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaFetchResponse:
    """Head of a replica fetch frame. In a session it contains changed partitions only."""

    session_id: str = ""
    partitions: tuple[ReplicaFetchResult, ...]
    packs: bool = False
    """The leader reads the requests of this session in packed form, too: see `wire.packed_fetch`."""
