"""What a controller counts, and its figures on its node's page of metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from raftlog.metadata_quorum.image import MetadataImage
from raftlog.metadata_quorum.quorum_interface import Quorum, QuorumFiles, QuorumState
from raftlog.metadata_quorum.records import ChangePartition, Record
from raftlog.metrics import Histogram, Page
from raftlog.model import NO_LEADER
from raftlog.runtime import in_slices

_SLICE = 1_000


@dataclass(slots=True)
class QuorumMetrics:
    """Counters since the controller started."""

    commit: Histogram = field(default_factory=Histogram)
    """Commits, in seconds."""
    elections: int = 0
    """Changes of the quorum's leader."""
    partition_elections: int = 0
    unclean_elections: int = 0

    def note_decision(self, before: MetadataImage, records: Iterable[Record]) -> None:
        """Count the partitions whose leader a decision of this controller changed."""
        for record in records:
            if isinstance(record, ChangePartition):
                state = before.partition(record.topic_id, record.partition)
                if state is not None and record.state.leader not in (NO_LEADER, state.leader):
                    self.partition_elections += 1


def show_quorum(page: Page, quorum: Quorum, state: QuorumState, files: QuorumFiles | None, *, now_s: float) -> None:
    """Add the figures of a voter to a page.

    Args:
        files: None: they cannot be read.
        now_s: since 1970.
    """
    page.add("raftlog_quorum_term", state.term)
    page.add("raftlog_quorum_log_end_offset", state.log_end_offset)
    page.add("raftlog_quorum_committed_offset", state.committed_offset)
    page.add_histogram("raftlog_quorum_journal_sync_seconds", quorum.journal_syncs)
    if quorum.leader == quorum.node_id:
        for voter in state.voters:
            lag = max(0, state.log_end_offset - voter.log_end_offset)
            page.add("raftlog_quorum_voter_lag_entries", lag, voter=voter.node_id)
    if files is not None:
        page.add("raftlog_quorum_journal_bytes", files.journal_bytes)
        if files.snapshot_bytes:
            page.add("raftlog_quorum_snapshot_bytes", files.snapshot_bytes)
            page.add("raftlog_quorum_snapshot_age_seconds", max(0.0, now_s - files.snapshot_written_s))


def show_counters(page: Page, metrics: QuorumMetrics, *, active: bool, waiting: int) -> None:
    """Add what a controller has counted to a page.

    Args:
        active: whether it is the active controller.
        waiting: the requests that wait for a decision.
    """
    page.add("raftlog_active_controller", int(active))
    page.add("raftlog_quorum_elections_total", metrics.elections)
    page.add("raftlog_partition_elections_total", metrics.partition_elections)
    page.add("raftlog_unclean_elections_total", metrics.unclean_elections)
    page.add("raftlog_quorum_waiting_decisions", waiting)
    page.add_histogram("raftlog_quorum_commit_seconds", metrics.commit)


async def show_cluster(page: Page, image: MetadataImage) -> None:
    """Add the figures of the cluster to a page."""
    offline = imbalanced = count = 0
    async for topic in in_slices(image.topics.values(), _SLICE):
        for state in topic.partitions.values():
            count += 1
            offline += state.leader == NO_LEADER
            imbalanced += state.leader not in (NO_LEADER, state.replicas[0])
    brokers = Counter("fenced" if broker.fenced else "unfenced" for broker in image.brokers.values())
    page.add("raftlog_controller_epoch", image.controller_epoch)
    page.add("raftlog_cluster_brokers", brokers["unfenced"], state="unfenced")
    page.add("raftlog_cluster_brokers", brokers["fenced"], state="fenced")
    page.add("raftlog_cluster_topics", len(image.topics))
    page.add("raftlog_cluster_partitions", count)
    page.add("raftlog_cluster_offline_partitions", offline)
    page.add("raftlog_cluster_imbalanced_partitions", imbalanced)
