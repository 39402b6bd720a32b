"""The table of alerts: when each fires, what it means, and what an operator does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One rule of `deploy/prometheus/rules.yml`."""

    name: str
    metric: str
    """The metric whose row in the reference names this alert."""
    expression: str
    """PromQL."""
    minutes: int
    """How long the expression must hold; 0: the alert fires at once."""
    severity: Literal["critical", "warning"]
    summary: str
    action: str
    """What to do, with a page of the documentation where there is one."""


ALERTS = (
    Alert(
        name="RaftlogNodeDown",
        metric="raftlog_build_info",
        expression='up{job=~"raftlog.*"} == 0',
        minutes=1,
        severity="critical",
        summary="Prometheus cannot scrape {{ $labels.instance }}.",
        action="See whether the process runs and what its log says; start it again. docs/how-to/monitor.md",
    ),
    Alert(
        name="RaftlogNoActiveController",
        metric="raftlog_active_controller",
        expression="(sum(raftlog_active_controller) or vector(0)) < 1",
        minutes=1,
        severity="critical",
        summary="No controller decides: leaders cannot change, and topics cannot be created.",
        action="Start the controllers that are down, so that a majority runs. docs/how-to/replace-a-controller.md",
    ),
    Alert(
        name="RaftlogPartitionsOffline",
        metric="raftlog_cluster_offline_partitions",
        expression="max(raftlog_cluster_offline_partitions) > 0",
        minutes=1,
        severity="critical",
        summary="{{ $value }} partitions have no leader: they can neither be read nor written.",
        action="Start the brokers that have their in-sync replicas. `raftlog topics describe` names them.",
    ),
    Alert(
        name="RaftlogUnderMinIsr",
        metric="raftlog_under_min_isr_partitions",
        expression="sum(raftlog_under_min_isr_partitions) > 0",
        minutes=1,
        severity="critical",
        summary="{{ $value }} partitions refuse acks=all: too few replicas are in sync.",
        action="Look for brokers that are down or slow, and start them.",
    ),
    Alert(
        name="RaftlogUnderReplicated",
        metric="raftlog_under_replicated_partitions",
        expression="sum(raftlog_under_replicated_partitions) > 0",
        minutes=5,
        severity="warning",
        summary="{{ $value }} partitions have a replica out of sync.",
        action="Look for a broker that is down or slow.",
    ),
    Alert(
        name="RaftlogBrokerFenced",
        metric="raftlog_cluster_brokers",
        expression='max(raftlog_cluster_brokers{state="fenced"}) > 0',
        minutes=5,
        severity="warning",
        summary="{{ $value }} registered brokers are fenced.",
        action="Start them, or unregister those that are gone: `raftlog cluster unregister-broker`.",
    ),
    Alert(
        name="RaftlogUncleanElection",
        metric="raftlog_unclean_elections_total",
        expression="sum(increase(raftlog_unclean_elections_total[10m])) > 0",
        minutes=0,
        severity="critical",
        summary="A replica outside ISR and ELR was elected: acknowledged records may be lost.",
        action="The active controller's log names the partitions. docs/explanation/isr-and-elr.md",
    ),
    Alert(
        name="RaftlogIsrFlapping",
        metric="raftlog_isr_shrinks_total",
        expression="sum(rate(raftlog_isr_shrinks_total[10m])) * 60 > 1",
        minutes=10,
        severity="warning",
        summary="Followers leave the ISR {{ $value }} times a minute.",
        action="Check disk and network; raise `replication.replica_lag_time_max_ms`.",
    ),
    Alert(
        name="RaftlogReplicaOffline",
        metric="raftlog_offline_replicas",
        expression="sum by (instance, reason) (raftlog_offline_replicas) > 0",
        minutes=0,
        severity="critical",
        summary="{{ $labels.instance }} cannot use {{ $value }} logs: {{ $labels.reason }}.",
        action="docs/how-to/recover-a-damaged-disk.md",
    ),
    Alert(
        name="RaftlogDiskRefusesWrites",
        metric="raftlog_refusing_replicas",
        expression="sum by (instance, reason) (raftlog_refusing_replicas) > 0",
        minutes=0,
        severity="critical",
        summary="{{ $labels.instance }} cannot append to {{ $value }} logs: {{ $labels.reason }}.",
        action="The disk is probably full: free space, or lower the retention of large topics.",
    ),
    Alert(
        name="RaftlogDiskNearlyFull",
        metric="raftlog_disk_free_bytes",
        expression="raftlog_disk_free_bytes / raftlog_disk_size_bytes < 0.1",
        minutes=10,
        severity="warning",
        summary="{{ $labels.instance }}: less than a tenth of the disk of {{ $labels.folder }} is free.",
        action="Lower the retention of large topics, move partitions, or enlarge the disk.",
    ),
    Alert(
        name="RaftlogBatchesLost",
        metric="raftlog_lost_batches",
        expression="sum by (instance) (raftlog_lost_batches) > 0",
        minutes=0,
        severity="critical",
        summary="{{ $value }} damaged batches on {{ $labels.instance }} are intact nowhere.",
        action="docs/how-to/recover-a-damaged-disk.md, section `A lost batch`",
    ),
    Alert(
        name="RaftlogDiskChangesBits",
        metric="raftlog_repaired_batches_total",
        expression="sum by (instance) (increase(raftlog_repaired_batches_total[1h])) > 0",
        minutes=0,
        severity="warning",
        summary="Damaged batches were found and repaired on {{ $labels.instance }}.",
        action="If it happens again on this node: replace its disk.",
    ),
    Alert(
        name="RaftlogSlowSyncs",
        metric="raftlog_log_sync_seconds",
        expression="histogram_quantile(0.99, sum by (instance, le) (rate(raftlog_log_sync_seconds_bucket[5m]))) > 0.5",
        minutes=10,
        severity="warning",
        summary="{{ $labels.instance }}: a hundredth of the syncs take more than {{ $value }} s.",
        action="Look at the disk. `python -m benchmarks append` measures it.",
    ),
    Alert(
        name="RaftlogEventLoopBlocked",
        metric="raftlog_event_loop_lag_seconds",
        expression="raftlog_event_loop_lag_seconds > 0.1",
        minutes=5,
        severity="warning",
        summary="A request or task blocks the event loop of {{ $labels.instance }} for {{ $value }} s.",
        action="The node's log names each stall. Please report it.",
    ),
    Alert(
        name="RaftlogTransactionStuck",
        metric="raftlog_transaction_oldest_seconds",
        expression="max(raftlog_transaction_oldest_seconds) > 900",
        minutes=5,
        severity="warning",
        summary="A transaction is open for {{ $value }} s: read_committed consumers wait for it.",
        action="`GET /v1/transactions` names it. See whether its producer runs; the coordinator aborts it in the end.",
    ),
    Alert(
        name="RaftlogGroupFallsBehind",
        metric="raftlog_group_lag_records",
        expression=(
            "sum by (group) (raftlog_group_lag_records) > 10000 and "
            "sum by (group) (deriv(raftlog_group_lag_records[30m])) > 0"
        ),
        minutes=30,
        severity="warning",
        summary="The group {{ $labels.group }} is {{ $value }} records behind, and the lag grows.",
        action="See whether its members run; start more of them, up to one for each partition.",
    ),
    Alert(
        name="RaftlogVoterBehind",
        metric="raftlog_quorum_voter_lag_entries",
        expression="max by (voter) (raftlog_quorum_voter_lag_entries) > 1000",
        minutes=5,
        severity="warning",
        summary="Controller {{ $labels.voter }} lacks {{ $value }} entries of the metadata log.",
        action="It is slow or down: docs/how-to/replace-a-controller.md",
    ),
    Alert(
        name="RaftlogSlowCommits",
        metric="raftlog_quorum_commit_seconds",
        expression="histogram_quantile(0.99, sum by (le) (rate(raftlog_quorum_commit_seconds_bucket[5m]))) > 1",
        minutes=10,
        severity="warning",
        summary="A hundredth of the controllers' commits take more than {{ $value }} s.",
        action="Look at the controllers' disks and at the network between them.",
    ),
    Alert(
        name="RaftlogAuditLinesLost",
        metric="raftlog_audit_lost_lines_total",
        expression="sum by (instance) (increase(raftlog_audit_lost_lines_total[10m])) > 0",
        minutes=0,
        severity="critical",
        summary="The audit log of {{ $labels.instance }} lacks lines: what happened there is not known.",
        action="Free or repair the disk of `security.audit_file`. docs/how-to/keep-an-audit-log.md",
    ),
    Alert(
        name="RaftlogAuditLogHangs",
        metric="raftlog_audit_waiting_lines",
        expression="raftlog_audit_waiting_lines > 1000",
        minutes=1,
        severity="warning",
        summary="{{ $value }} lines wait for the disk of the audit log of {{ $labels.instance }}; it keeps 20,000.",
        action="Look at the disk of `security.audit_file`. docs/how-to/keep-an-audit-log.md",
    ),
    Alert(
        name="RaftlogFilesRunOut",
        metric="process_open_fds",
        expression='process_open_fds{job=~"raftlog.*"} / process_max_fds > 0.9',
        minutes=5,
        severity="warning",
        summary="{{ $labels.instance }} has opened nine tenths of the files that it may open.",
        action="Raise the limit (`ulimit -n`), or lower `broker.max_connections` and `broker.max_open_segments`.",
    ),
)
