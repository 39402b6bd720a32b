"""What the replicas of one broker count and time."""

from __future__ import annotations

from dataclasses import dataclass, field

from raftlog.metrics import Histogram


@dataclass(slots=True)
class ProducePhases:
    """Times of produce requests, by phase, in seconds."""

    queue: Histogram = field(default_factory=Histogram)
    """From the arrival of the body to the beginning of its handling."""
    append: Histogram = field(default_factory=Histogram)
    """Checking a batch and writing it."""
    sync: Histogram = field(default_factory=Histogram)
    """From the append to the end of the leader's sync, where the topic needs one."""
    replication: Histogram = field(default_factory=Histogram)
    """From the end of the sync to the high watermark; only acks=all waits for it."""
    answer: Histogram = field(default_factory=Histogram)
    """From the result to the moment when the socket has taken the answer."""


@dataclass(slots=True)
class PartitionMetrics:
    """Counters since the broker started. The event loop's thread changes them."""

    produce: ProducePhases = field(default_factory=ProducePhases)
    sync: Histogram = field(default_factory=Histogram)
    """Syncs of logs, in seconds."""
    leaderships: int = 0
    replicated_in: int = 0
    """Bytes appended as follower."""
    replicated_out: int = 0
    """Bytes sent to followers."""
    retained_segments: int = 0
    """Segments that retention has deleted."""
    compactions: int = 0
    compaction_read: int = 0
    compaction_removed: int = 0
