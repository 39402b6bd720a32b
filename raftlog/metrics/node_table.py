"""Metrics of any node's process, and of controllers: the metadata quorum and the cluster as it records it."""

from __future__ import annotations

from raftlog.metrics.metric import Panel

_CONTROLLER = "kafka.controller:type=KafkaController"
_RAFT = "kafka.server:type=raft-metrics"
_cpu = Panel("cluster", "CPU and garbage collection")
_memory = Panel("cluster", "Memory")
_handles = Panel("cluster", "Files, threads and tasks")
_loop = Panel("cluster", "Event loop")
_up = Panel("cluster", "Uptime and versions")
_audit = Panel("cluster", "Audit log")
_cluster = Panel("quorum", "Brokers, topics and partitions")
_offline = Panel("quorum", "Partitions without a leader")
_elections = Panel("quorum", "Elections")
_position = Panel("quorum", "Term, offsets and epoch")
_active = Panel("quorum", "Active controller")
_commits = Panel("quorum", "Commits")
_voters = Panel("quorum", "Lag of voters")
_files = Panel("quorum", "Journal and snapshot")
_snapshot = Panel("quorum", "Age of the snapshot")

PROCESS_TABLE = (
    _up.gauge("raftlog_build_info", "1, with the versions of raftlog and of Python.", "version", "python"),
    _up.gauge(
        "process_start_time_seconds",
        "When the process started, in seconds since 1970.",
        jmx="java.lang:type=Runtime,StartTime",
        fold="max",
    ),
    _cpu.counter(
        "process_cpu_seconds_total", "CPU time of the process.", jmx="java.lang:type=OperatingSystem,ProcessCpuTime"
    ),
    _cpu.counter(
        "raftlog_gc_seconds_total",
        "Time of garbage collections.",
        jmx="java.lang:type=GarbageCollector,CollectionTime",
    ),
    _cpu.counter(
        "raftlog_gc_collections_total",
        "Garbage collections.",
        "generation",
        jmx="java.lang:type=GarbageCollector,CollectionCount",
    ),
    _memory.gauge(
        "process_resident_memory_bytes",
        "Memory of the process (RSS).",
        fold="max",
    ),
    _handles.gauge(
        "process_open_fds",
        "Open file descriptors.",
        jmx="java.lang:type=OperatingSystem,OpenFileDescriptorCount",
        fold="max",
    ),
    _handles.gauge(
        "process_max_fds",
        "The limit of open file descriptors.",
        jmx="java.lang:type=OperatingSystem,MaxFileDescriptorCount",
        fold="max",
    ),
    _handles.gauge("raftlog_threads", "Threads.", jmx="java.lang:type=Threading,ThreadCount", fold="max"),
    _handles.gauge("raftlog_asyncio_tasks", "Tasks of the event loop.", fold="max"),
    _loop.gauge(
        "raftlog_event_loop_lag_seconds",
        "The longest turn of the event loop within the last minute.",
        jmx="kafka.server:type=KafkaRequestHandlerPool,name=RequestHandlerAvgIdlePercent",
        fold="max",
    ),
    _loop.counter("raftlog_event_loop_stalls_total", "Turns of the event loop that took more than 50 ms."),
    _audit.counter(
        "raftlog_audit_lost_lines_total", "Lines that the audit log lacks: its disk is full, broken or slow."
    ),
    _audit.gauge("raftlog_audit_waiting_lines", "Lines that wait to be written to the audit log; 20,000 at most."),
    _loop.gauge("raftlog_scrape_render_seconds", "How long the previous page of metrics took to render.", fold="max"),
)

QUORUM_TABLE = (
    _active.gauge(
        "raftlog_active_controller",
        "1 on the controller that decides, else 0.",
        jmx=f"{_CONTROLLER},name=ActiveControllerCount",
    ),
    _elections.counter(
        "raftlog_quorum_elections_total",
        "Changes of the quorum's leader that this controller has seen.",
        jmx=f"{_CONTROLLER},name=NewActiveControllersCount",
    ),
    _elections.counter(
        "raftlog_partition_elections_total",
        "Changes of partitions' leaders that this controller decided.",
        jmx="kafka.controller:type=ControllerStats,name=LeaderElectionRateAndTimeMs",
    ),
    _elections.counter(
        "raftlog_unclean_elections_total",
        "Leaders outside ISR and ELR that this controller elected: records may be lost.",
        jmx="kafka.controller:type=ControllerStats,name=UncleanLeaderElectionsPerSec",
    ),
    _position.gauge("raftlog_quorum_term", "The Raft term.", jmx=f"{_RAFT},current-epoch", fold="max"),
    _position.gauge(
        "raftlog_quorum_log_end_offset",
        "The end of this voter's metadata log.",
        jmx=f"{_RAFT},log-end-offset",
        fold="max",
    ),
    _position.gauge(
        "raftlog_quorum_committed_offset",
        "The newest offset that this voter knows to be committed.",
        jmx=f"{_RAFT},high-watermark",
        fold="max",
    ),
    _position.gauge(
        "raftlog_controller_epoch",
        "The epoch of the active controller.",
        fold="max",
    ),
    _commits.histogram(
        "raftlog_quorum_commit_seconds",
        "Time of a commit, on the active controller.",
        jmx=f"{_RAFT},commit-latency-avg",
    ),
    _commits.histogram("raftlog_quorum_journal_sync_seconds", "Time of a sync of the journal."),
    _commits.gauge(
        "raftlog_quorum_waiting_decisions",
        "Ordinary requests that wait for the active controller's decision.",
        jmx="kafka.controller:type=ControllerEventManager,name=EventQueueTimeMs",
    ),
    _voters.gauge(
        "raftlog_quorum_voter_lag_entries",
        "Entries that a voter lacks, as the quorum's leader counts them.",
        "voter",
        fold="max",
    ),
    _files.gauge("raftlog_quorum_journal_bytes", "Size of the journal's file.", fold="max"),
    _files.gauge(
        "raftlog_quorum_snapshot_bytes",
        "Size of the snapshot's file.",
        jmx="kafka.server:type=SnapshotEmitter,name=LatestSnapshotGeneratedBytes",
        fold="max",
    ),
    _snapshot.gauge(
        "raftlog_quorum_snapshot_age_seconds",
        "Seconds since the newest snapshot was written.",
        jmx="kafka.server:type=SnapshotEmitter,name=LatestSnapshotGeneratedAgeMs",
        fold="max",
    ),
    _cluster.gauge(
        "raftlog_cluster_brokers",
        "Registered brokers: unfenced, or fenced.",
        "state",
        jmx=f"{_CONTROLLER},name=ActiveBrokerCount; name=FencedBrokerCount",
        fold="max",
    ),
    _cluster.gauge("raftlog_cluster_topics", "Topics.", jmx=f"{_CONTROLLER},name=GlobalTopicCount", fold="max"),
    _cluster.gauge(
        "raftlog_cluster_partitions", "Partitions.", jmx=f"{_CONTROLLER},name=GlobalPartitionCount", fold="max"
    ),
    _offline.gauge(
        "raftlog_cluster_offline_partitions",
        "Partitions without a leader.",
        jmx=f"{_CONTROLLER},name=OfflinePartitionsCount",
        fold="max",
    ),
    _offline.gauge(
        "raftlog_cluster_imbalanced_partitions",
        "Partitions that another replica leads than the preferred one.",
        jmx=f"{_CONTROLLER},name=PreferredReplicaImbalanceCount",
        fold="max",
    ),
)
