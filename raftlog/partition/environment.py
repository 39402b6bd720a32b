"""What the replicas of one broker share: settings, clock, tasks, and the observer of what they notice."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from raftlog.config import ReplicationConfig, TopicConfig
from raftlog.errors import StorageError
from raftlog.model import BrokerId, TopicIdPartition
from raftlog.partition.admission import RequireGiven
from raftlog.partition.damage import Damage
from raftlog.partition.metrics import PartitionMetrics
from raftlog.runtime import Clock, Tasks


class ReplicaObserver(Protocol):
    """Acts on what a replica notices."""

    def on_isr_hint(self) -> None:
        """The ISR may have to change."""
        ...

    def on_disk_failure(self, error: StorageError) -> None:
        """A sync or write failed: the content of the disk is unknown."""
        ...

    def on_damage(self, key: TopicIdPartition, damage: Damage) -> None:
        """The first damage of a log was found."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaEnvironment:
    """The surroundings of a replica; one for all replicas of a broker."""

    broker_id: BrokerId
    observer: ReplicaObserver
    clock: Clock
    tasks: Tasks
    """Runs the syncs of group commits."""
    topic_defaults: TopicConfig = field(default_factory=TopicConfig)
    replication: ReplicationConfig = field(default_factory=ReplicationConfig)
    require_given: RequireGiven | None = None
    """Awaited before the first batch of a producer without state here; None: any producer id is valid."""
    metrics: PartitionMetrics = field(default_factory=PartitionMetrics)
