"""Metrics of requests, of what producers and consumers send and read, and of coordinators."""

from __future__ import annotations

from raftlog.metrics.metric import BYTES, RECORDS, Panel

_REQUEST = "kafka.network:type=RequestMetrics"
_TRAFFIC = "kafka.server:type=BrokerTopicMetrics"
_requests = Panel("clients", "Requests")
_latency = Panel("clients", "Latency of requests")
_waiting = Panel("clients", "Requests in progress")
_connections = Panel("clients", "Connections")
_refused = Panel("clients", "Refusals")
_throttled = Panel("clients", "Quotas")
_throttled_s = Panel("clients", "Delays by quotas")
_phases = Panel("cluster", "Phases of a produce request")
_records = Panel("cluster", "Records")
_bytes = Panel("cluster", "Bytes")
_batches = Panel("topics", "Batches")
_topic_records = Panel("topics", "Records by topic")
_topic_bytes = Panel("topics", "Bytes by topic")
_groups = Panel("clients", "Consumer groups")
_lag = Panel("clients", "Lag of consumer groups")
_transactions = Panel("clients", "Transactions")
_transaction_age = Panel("clients", "The oldest open transaction")

REQUEST_TABLE = (
    _requests.counter(
        "raftlog_requests_total",
        "Requests that were answered; those of Kafka's protocol have the route `kafka` and the API.",
        "route",
        "status",
        jmx=f"{_REQUEST},name=RequestsPerSec,request=*; name=ErrorsPerSec",
    ),
    _latency.histogram(
        "raftlog_request_seconds",
        "The time from a request's arrival to its answer, long polls included.",
        "route",
        jmx=f"{_REQUEST},name=TotalTimeMs,request=*",
    ),
    _waiting.gauge(
        "raftlog_requests_in_progress",
        "Requests that are being handled; parked ones included, but for members of classic groups.",
        "listener",
        jmx="kafka.network:type=RequestChannel,name=RequestQueueSize",
    ),
    _waiting.gauge(
        "raftlog_parked_requests",
        "Requests that wait for records, replication or a change of a group.",
        "kind",
        jmx="kafka.server:type=DelayedOperationPurgatory,name=PurgatorySize,delayedOperation=*",
    ),
    _connections.gauge(
        "raftlog_connections",
        "Open connections.",
        "listener",
        jmx="kafka.server:type=socket-server-metrics,connection-count",
    ),
    _refused.counter(
        "raftlog_connections_refused_total",
        "Connections that were refused because there were too many.",
        "listener",
    ),
    _refused.counter(
        "raftlog_access_refusals_total",
        "Operations that access rules, missing or wrong credentials refused, or would refuse with log-only.",
        jmx="kafka.server:type=socket-server-metrics,failed-authentication-total",
    ),
    _throttled.counter(
        "raftlog_throttled_total",
        "Requests and connections that a quota delayed: produce, fetch, request, time or connection.",
        "limit",
    ),
    _throttled_s.counter(
        "raftlog_throttle_seconds_total",
        "For how long quotas delayed requests and connections.",
        "limit",
        jmx="kafka.server:type={Produce|Fetch|Request},user=*,client-id=*,throttle-time",
    ),
    _throttled.counter(
        "raftlog_quota_refusals_total", "Requests and connections that were refused because of a quota."
    ),
    _throttled.gauge(
        "raftlog_quota_buckets",
        "Users and client ids, or groups of them, whose use this broker counts for quotas.",
    ),
    _phases.histogram(
        "raftlog_produce_phase_seconds",
        "Time of a produce request: queue, append, sync (of the leader), replication (after that), answer.",
        "phase",
        jmx=f"{_REQUEST},name=RequestQueueTimeMs, LocalTimeMs, RemoteTimeMs, ResponseSendTimeMs,request=Produce",
    ),
    _records.counter(
        "raftlog_records_in_total",
        "Records that this broker appended as leader.",
        jmx=f"{_TRAFFIC},name=MessagesInPerSec",
    ),
    _records.counter("raftlog_records_out_total", "Records sent to consumers; compacted offsets count too."),
    _bytes.counter(
        "raftlog_bytes_in_total",
        "Batch bytes that this broker appended as leader.",
        jmx=f"{_TRAFFIC},name=BytesInPerSec",
    ),
    _bytes.counter("raftlog_bytes_out_total", "Batch bytes sent to consumers.", jmx=f"{_TRAFFIC},name=BytesOutPerSec"),
    _batches.histogram(
        "raftlog_batch_bytes",
        "Sizes of the batches that producers sent.",
        jmx="kafka.producer:type=producer-metrics,batch-size-avg",
        buckets=BYTES,
    ),
    _batches.histogram(
        "raftlog_batch_records",
        "Records in each batch that producers sent.",
        jmx="kafka.producer:type=producer-metrics,records-per-request-avg",
        buckets=RECORDS,
    ),
    _topic_records.counter(
        "raftlog_topic_records_in_total",
        "Records appended by topic; topics beyond the first 200 count as (other).",
        "topic",
        jmx=f"{_TRAFFIC},name=MessagesInPerSec,topic=*",
    ),
    _topic_records.counter("raftlog_topic_records_out_total", "Records sent to consumers by topic.", "topic"),
    _topic_bytes.counter(
        "raftlog_topic_bytes_in_total",
        "Batch bytes appended by topic.",
        "topic",
        jmx=f"{_TRAFFIC},name=BytesInPerSec,topic=*",
    ),
    _topic_bytes.counter(
        "raftlog_topic_bytes_out_total",
        "Batch bytes sent to consumers by topic.",
        "topic",
        jmx=f"{_TRAFFIC},name=BytesOutPerSec,topic=*",
    ),
    _groups.gauge(
        "raftlog_groups",
        "Consumer groups that this broker coordinates.",
        "state",
        jmx="kafka.server:type=group-coordinator-metrics,consumer-group-count,state=*",
    ),
    _groups.gauge("raftlog_group_members", "Members of the groups that this broker coordinates."),
    _groups.counter(
        "raftlog_group_rebalances_total",
        "Assignments that this broker has computed for groups.",
        jmx="kafka.server:type=group-coordinator-metrics,consumer-group-rebalance-count",
    ),
    _lag.gauge(
        "raftlog_group_lag_records",
        "Records between a group's committed offsets and the high watermarks, for partitions with a replica here.",
        "group",
        "topic",
        jmx="kafka.consumer:type=consumer-fetch-manager-metrics,records-lag",
    ),
    _lag.gauge(
        "raftlog_group_partitions_without_lag",
        "Partitions with a committed offset whose lag this coordinator does not know: it has no replica of them.",
    ),
    _transactions.gauge(
        "raftlog_transactions",
        "Transactions that this broker coordinates: ongoing, or ending (markers are being written).",
        "state",
    ),
    _transaction_age.gauge(
        "raftlog_transaction_oldest_seconds",
        "The age of the oldest ongoing transaction that this broker coordinates; 0 without one.",
        fold="max",
    ),
)
