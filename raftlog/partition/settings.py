"""What a broker's replicas are configured with, and what they use of the rest of the broker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from raftlog.config import ReplicationConfig, TopicConfig
from raftlog.errors import StorageError
from raftlog.partition.admission import RequireGiven
from raftlog.partition.core.producers import ProducerLimits
from raftlog.partition.damage import DamagePort
from raftlog.partition.isr import AlterPartitionPort
from raftlog.partition.log_cleaner import CleanerSettings
from raftlog.partition.metrics import PartitionMetrics
from raftlog.partition.repair import PATIENCE_S
from raftlog.partition.scrubber import ScrubSettings
from raftlog.partition.storage.file_pool import DEFAULT_LIMIT
from raftlog.runtime import Clock
from raftlog.transport import HttpSession


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSettings:
    """The settings of all replicas of a broker."""

    topic_defaults: TopicConfig = field(default_factory=TopicConfig)
    replication: ReplicationConfig = field(default_factory=ReplicationConfig)
    checkpoint_interval_ms: int = 5_000
    retention_check_interval_ms: int = 30_000
    producer_limits: ProducerLimits = field(default_factory=ProducerLimits)
    max_open_segments: int = DEFAULT_LIMIT
    cleaner: CleanerSettings = field(default_factory=CleanerSettings)
    scrub: ScrubSettings = field(default_factory=ScrubSettings)
    repair_patience_s: float = PATIENCE_S


class ControllerPort(AlterPartitionPort, DamagePort, Protocol):
    """Client of the active controller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaPorts:
    """What the replicas of a broker use of the rest of it."""

    session: HttpSession
    controller: ControllerPort
    clock: Clock
    on_disk_failure: Callable[[StorageError], None] = lambda _: None
    """Called when a sync or write failed: the content of the disk is unknown, so the broker has to shut down."""
    require_given: RequireGiven | None = None
    """Awaited before the first batch of a producer without state here; None: any producer id is valid."""
    metrics: PartitionMetrics = field(default_factory=PartitionMetrics)
