"""The figures of a broker's replicas, gathered in slices."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from raftlog.errors import DamagedDataError
from raftlog.metrics import Page
from raftlog.metrics.page import OTHER, labels_text
from raftlog.partition.core.leader import LeaderCore
from raftlog.partition.metrics import PartitionMetrics
from raftlog.partition.replica import Replica
from raftlog.partition.replica_manager import ReplicaManager
from raftlog.runtime import in_slices

MOST_TOPICS = 200
MOST_PARTITIONS = 20_000
"""Partitions with series of their own, with `?detail=partitions`."""
_SLICE = 64


@dataclass(slots=True)
class _Sums:
    """Sums of all replicas."""

    replicas: int = 0
    led: int = 0
    under_replicated: int = 0
    under_min_isr: int = 0
    in_sync: int = 0
    assigned: int = 0
    above_high_watermark: int = 0
    above_stable: int = 0
    segments: int = 0
    waiting_appends: int = 0
    bytes: Counter[str] = field(default_factory=Counter)
    """By topic."""
    follower_lag: dict[int, int] = field(default_factory=dict)
    refusing: Counter[str] = field(default_factory=Counter)

    def add(self, replica: Replica) -> None:
        """Add one replica."""
        log = replica.log
        self.replicas += 1
        self.segments += log.segment_count
        self.bytes[replica.assignment.topic] += log.size_bytes
        self.waiting_appends += replica.waiting_appends
        if log.refusal:
            self.refusing[log.refusal.code.value] += 1
        if replica.core is not None:
            self._add_led(replica, replica.core)

    def _add_led(self, replica: Replica, core: LeaderCore) -> None:
        state, end = core.state, replica.log.log_end_offset
        self.led += 1
        self.in_sync += len(state.isr)
        self.assigned += len(state.replicas)
        self.under_replicated += len(state.isr) < len(state.replicas)
        self.under_min_isr += core.under_min_isr
        self.above_high_watermark += max(0, end - core.high_watermark)
        self.above_stable += max(0, core.high_watermark - replica.last_stable_offset)
        for broker_id, follower in core.followers.items():
            if follower.end_offset >= 0:
                lag = max(0, end - follower.end_offset)
                self.follower_lag[broker_id] = max(lag, self.follower_lag.get(broker_id, 0))


async def show_replicas(page: Page, replicas: ReplicaManager, metrics: PartitionMetrics, *, detail: bool) -> None:
    """Add the figures of replicas to a page.

    Args:
        detail: also those of each partition that this broker leads.
    """
    sums, shown = _Sums(), 0
    async for replica in in_slices(replicas.replicas, _SLICE):
        sums.add(replica)
        if detail and replica.core is not None and shown < MOST_PARTITIONS:
            shown += 1
            _show_partition(page, replica, replica.core)
    _show_sums(page, sums)
    _show_work(page, replicas, metrics)
    _show_damage(page, replicas)


def _show_sums(page: Page, sums: _Sums) -> None:
    page.add("raftlog_partitions", sums.replicas)
    page.add("raftlog_partitions_led", sums.led)
    page.add("raftlog_under_replicated_partitions", sums.under_replicated)
    page.add("raftlog_under_min_isr_partitions", sums.under_min_isr)
    page.add("raftlog_in_sync_replicas", sums.in_sync)
    page.add("raftlog_assigned_replicas", sums.assigned)
    page.add("raftlog_high_watermark_lag_records", sums.above_high_watermark)
    page.add("raftlog_stable_offset_lag_records", sums.above_stable)
    page.add("raftlog_log_segments", sums.segments)
    page.add("raftlog_parked_requests", sums.waiting_appends, kind="produce")
    for follower, lag in sorted(sums.follower_lag.items()):
        page.add("raftlog_follower_max_lag_records", lag, follower=follower)
    for reason, count in sorted(sums.refusing.items()):
        page.add("raftlog_refusing_replicas", count, reason=reason)
    largest = sums.bytes.most_common(MOST_TOPICS)
    for topic, size in largest:
        page.add("raftlog_log_bytes", size, topic=topic)
    if len(sums.bytes) > MOST_TOPICS:
        page.add("raftlog_log_bytes", sums.bytes.total() - sum(size for _, size in largest), topic=OTHER)


def _show_work(page: Page, replicas: ReplicaManager, metrics: PartitionMetrics) -> None:
    page.add("raftlog_leaderships_begun_total", metrics.leaderships)
    page.add("raftlog_isr_shrinks_total", replicas.isr.shrinks)
    page.add("raftlog_isr_expands_total", replicas.isr.expands)
    page.add("raftlog_replication_bytes_in_total", metrics.replicated_in)
    page.add("raftlog_replication_bytes_out_total", metrics.replicated_out)
    page.add("raftlog_fetch_sessions", replicas.followers.session_count)
    page.add("raftlog_fetch_session_partitions", replicas.followers.session_partitions)
    page.add("raftlog_parked_requests", replicas.followers.under_way, kind="replica_fetch")
    page.add("raftlog_open_segment_files", replicas.open_files)
    page.add_histogram("raftlog_log_sync_seconds", metrics.sync)
    page.add("raftlog_retention_segments_total", metrics.retained_segments)
    page.add("raftlog_compactions_total", metrics.compactions)
    page.add("raftlog_compaction_read_bytes_total", metrics.compaction_read)
    page.add("raftlog_compaction_removed_bytes_total", metrics.compaction_removed)


def _show_damage(page: Page, replicas: ReplicaManager) -> None:
    offline = Counter(
        "damaged" if isinstance(error, DamagedDataError) else error.code.value for error in replicas.offline.values()
    )
    for reason, count in sorted(offline.items()):
        page.add("raftlog_offline_replicas", count, reason=reason)
    page.add("raftlog_quarantined_logs", replicas.quarantined)
    page.add("raftlog_corrupt_replicas", len(replicas.damage))
    page.add("raftlog_repairing_replicas", len(replicas.repairs))
    page.add("raftlog_repaired_batches_total", replicas.repairs.repaired_batches)
    page.add("raftlog_lost_batches", replicas.repairs.lost_batches)
    page.add("raftlog_scrubbed_bytes_total", replicas.scrubber.checked_bytes)
    page.add("raftlog_scrub_damage_found_total", replicas.scrubber.found)
    page.add("raftlog_scrub_longest_unchecked_seconds", replicas.scrubber.longest_unchecked_ms / 1000)


def _show_partition(page: Page, replica: Replica, core: LeaderCore) -> None:
    topic, partition = replica.assignment.topic_partition
    at = labels_text({"topic": topic, "partition": partition})
    page.add_at("raftlog_partition_log_end_offset", replica.log.log_end_offset, at)
    page.add_at("raftlog_partition_high_watermark_offset", core.high_watermark, at)
    page.add_at("raftlog_partition_log_start_offset", replica.log.log_start_offset, at)
    page.add_at("raftlog_partition_in_sync_replicas", len(core.state.isr), at)
    page.add_at("raftlog_partition_log_bytes", replica.log.size_bytes, at)
