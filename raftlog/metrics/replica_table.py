"""Metrics of replicas: leadership, replication, logs on disk, damage and its repair."""

from __future__ import annotations

from raftlog.metrics.metric import Panel

_MANAGER = "kafka.server:type=ReplicaManager"
_TRAFFIC = "kafka.server:type=BrokerTopicMetrics"
_partitions = Panel("cluster", "Replicas and leaders")
_unhealthy = Panel("cluster", "Partitions that are not fully replicated")
_isr = Panel("cluster", "Changes of in-sync replicas")
_replication = Panel("cluster", "Replication")
_lag = Panel("cluster", "Lag of followers and of the high watermark")
_sessions = Panel("cluster", "Fetch sessions")
_damage = Panel("cluster", "Damage and repair")
_scrub = Panel("cluster", "Scrubbing")
_disk = Panel("cluster", "Disks")
_sync = Panel("cluster", "Syncs of logs")
_state = Panel("cluster", "State of brokers")
_size = Panel("topics", "Size of logs")
_segments = Panel("topics", "Segments")
_work = Panel("topics", "Retention and compaction")
_by_partition = Panel("topics", "Offsets by partition")
_isr_by_partition = Panel("topics", "Replicas by partition")

REPLICA_TABLE = (
    _state.gauge("raftlog_broker_fenced", "1 while the controllers fence this broker, else 0.", fold="max"),
    _state.gauge(
        "raftlog_metadata_offset",
        "The offset of the metadata log that this broker has applied.",
        jmx="kafka.server:type=broker-metadata-metrics,last-applied-record-offset",
        fold="max",
    ),
    _partitions.gauge("raftlog_partitions", "Replicas on this broker.", jmx=f"{_MANAGER},name=PartitionCount"),
    _partitions.gauge(
        "raftlog_partitions_led", "Partitions that this broker leads.", jmx=f"{_MANAGER},name=LeaderCount"
    ),
    _partitions.counter(
        "raftlog_leaderships_begun_total",
        "Leader epochs that began on this broker.",
    ),
    _unhealthy.gauge(
        "raftlog_under_replicated_partitions",
        "Partitions that this broker leads with a replica out of sync.",
        jmx=f"{_MANAGER},name=UnderReplicatedPartitions",
    ),
    _unhealthy.gauge(
        "raftlog_under_min_isr_partitions",
        "Partitions that this broker leads and that refuse acks=all.",
        jmx=f"{_MANAGER},name=UnderMinIsrPartitionCount",
    ),
    _unhealthy.gauge(
        "raftlog_offline_replicas",
        "Replicas whose log cannot be used; the reason is damaged, or an error code.",
        "reason",
        jmx=f"{_MANAGER},name=OfflineReplicaCount",
    ),
    _unhealthy.gauge(
        "raftlog_refusing_replicas", "Replicas whose last append failed on disk; the reason is an error code.", "reason"
    ),
    _isr.gauge("raftlog_in_sync_replicas", "In-sync replicas of the partitions that this broker leads, added up."),
    _isr.gauge("raftlog_assigned_replicas", "Assigned replicas of the partitions that this broker leads, added up."),
    _isr.counter(
        "raftlog_isr_shrinks_total", "ISR shrinks that this broker proposed.", jmx=f"{_MANAGER},name=IsrShrinksPerSec"
    ),
    _isr.counter(
        "raftlog_isr_expands_total",
        "ISR expansions that this broker proposed.",
        jmx=f"{_MANAGER},name=IsrExpandsPerSec",
    ),
    _replication.counter(
        "raftlog_replication_bytes_in_total",
        "Batch bytes that this broker appended as follower.",
        jmx=f"{_TRAFFIC},name=ReplicationBytesInPerSec",
    ),
    _replication.counter(
        "raftlog_replication_bytes_out_total",
        "Batch bytes sent to followers.",
        jmx=f"{_TRAFFIC},name=ReplicationBytesOutPerSec",
    ),
    _lag.gauge(
        "raftlog_follower_max_lag_records",
        "The records that a follower lacks of the partition where it is furthest behind, as this leader counts them.",
        "follower",
        jmx="kafka.server:type=ReplicaFetcherManager,name=MaxLag,clientId=Replica",
        fold="max",
    ),
    _lag.gauge(
        "raftlog_high_watermark_lag_records",
        "Records above the high watermarks of the partitions that this broker leads, added up.",
    ),
    _lag.gauge(
        "raftlog_stable_offset_lag_records",
        "Records between last stable offset and high watermark of the partitions that this broker leads, added up.",
        jmx="kafka.cluster:type=Partition,name=LastStableOffsetLag",
    ),
    _sessions.gauge(
        "raftlog_fetch_sessions",
        "Fetch sessions of followers.",
        jmx="kafka.server:type=FetchSessionCache,name=NumIncrementalFetchSessions",
    ),
    _sessions.gauge(
        "raftlog_fetch_session_partitions",
        "Partitions in the fetch sessions of followers.",
        jmx="kafka.server:type=FetchSessionCache,name=NumIncrementalFetchPartitionsCached",
    ),
    _size.gauge(
        "raftlog_log_bytes",
        "Bytes of this broker's replicas on disk; the 200 largest topics by name, the rest as (other).",
        "topic",
        jmx="kafka.log:type=Log,name=Size,topic=*,partition=*",
    ),
    _segments.gauge(
        "raftlog_log_segments",
        "Segments of this broker's replicas.",
        jmx="kafka.log:type=Log,name=NumLogSegments,topic=*,partition=*",
    ),
    _segments.gauge("raftlog_open_segment_files", "Segment files that are open."),
    _sync.histogram(
        "raftlog_log_sync_seconds",
        "Time of a sync of a log.",
        jmx="kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs",
    ),
    _work.counter("raftlog_retention_segments_total", "Segments that retention has deleted."),
    _work.counter("raftlog_compactions_total", "Compactions of logs."),
    _work.counter(
        "raftlog_compaction_read_bytes_total",
        "Bytes of segments before their compaction.",
    ),
    _work.counter(
        "raftlog_compaction_removed_bytes_total",
        "Bytes that compaction has removed.",
    ),
    _disk.gauge("raftlog_disk_free_bytes", "Bytes that are free in the file system of a data folder.", "folder"),
    _disk.gauge("raftlog_disk_size_bytes", "Size of the file system of a data folder.", "folder"),
    _damage.gauge("raftlog_quarantined_logs", "Damaged logs that are set aside on this broker's disks."),
    _damage.gauge(
        "raftlog_corrupt_replicas", "Replicas whose log was found damaged in use and is not repaired or replaced yet."
    ),
    _damage.gauge("raftlog_repairing_replicas", "Replicas under repair."),
    _damage.counter("raftlog_repaired_batches_total", "Damaged batches repaired from another replica."),
    _damage.gauge(
        "raftlog_lost_batches", "Damaged batches on this broker that no replica has intact, as far as is known."
    ),
    _scrub.counter(
        "raftlog_scrubbed_bytes_total", "Bytes that the scrubber has read; a batch counts for 4 KiB at least."
    ),
    _damage.counter("raftlog_scrub_damage_found_total", "Damaged places that the scrubber has found."),
    _scrub.gauge(
        "raftlog_scrub_longest_unchecked_seconds",
        "Seconds since the check of the replica whose last check is the oldest.",
        fold="max",
    ),
    _by_partition.gauge(
        "raftlog_partition_log_end_offset",
        "The offset after the last record, on the leader.",
        "topic",
        "partition",
        jmx="kafka.log:type=Log,name=LogEndOffset,topic=*,partition=*",
        fold="max",
        detail=True,
    ),
    _by_partition.gauge(
        "raftlog_partition_high_watermark_offset",
        "The offset below which consumers read, on the leader.",
        "topic",
        "partition",
        fold="max",
        detail=True,
    ),
    _by_partition.gauge(
        "raftlog_partition_log_start_offset",
        "The first offset that is kept, on the leader.",
        "topic",
        "partition",
        jmx="kafka.log:type=Log,name=LogStartOffset,topic=*,partition=*",
        fold="max",
        detail=True,
    ),
    _by_partition.gauge(
        "raftlog_group_committed_offset",
        "A group's committed offset, on its coordinator.",
        "group",
        "topic",
        "partition",
        fold="max",
        detail=True,
    ),
    _isr_by_partition.gauge(
        "raftlog_partition_in_sync_replicas",
        "In-sync replicas, as the leader counts them.",
        "topic",
        "partition",
        jmx="kafka.cluster:type=Partition,name=InSyncReplicasCount,topic=*,partition=*",
        fold="max",
        detail=True,
    ),
    _isr_by_partition.gauge(
        "raftlog_partition_log_bytes",
        "Bytes of the leader's log on disk.",
        "topic",
        "partition",
        fold="max",
        detail=True,
    ),
)
