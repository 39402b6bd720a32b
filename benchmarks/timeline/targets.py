"""What the tracer times: functions by their module and name, each with a kind for the table."""

from __future__ import annotations

from typing import NamedTuple


class Target(NamedTuple):
    """A function to time: `module:name`, and its kind."""

    place: str
    kind: str

    @property
    def label(self) -> str:
        return self.place.partition(":")[2].removeprefix("_")


LOOP, POLL, WAIT, STEP = "event loop", "select, timeout 0", "select, sleeping", "task steps, callbacks"
"""Kinds of what the tracer times besides functions: a turn, the two kinds of waits for events, and callbacks."""
REQUESTS = "requests, connections"
SYSTEM, JSON, HTTP, RECORD, LOG = "system calls", "JSON", "HTTP heads", "batch", "log"
REPLICATION, TIMERS, TASKS, METRICS, CLIENT = "replication", "timers", "tasks, call_soon", "metrics", "producer"
KINDS = (LOOP, POLL, WAIT, STEP, REQUESTS, SYSTEM, JSON, HTTP, RECORD, LOG, REPLICATION, TIMERS, TASKS, METRICS, CLIENT)
SENT, RECEIVED = frozenset({"writev", "socket.sendmsg", "socket.send", "sendfile"}), "socket.recv_into"

TARGETS = (
    Target("os:writev", SYSTEM),
    Target("os:sendfile", SYSTEM),
    Target("os:pwrite", SYSTEM),
    Target("os:pread", SYSTEM),
    Target("os:fdatasync", SYSTEM),
    Target("socket:socket.recv_into", SYSTEM),
    Target("socket:socket.sendmsg", SYSTEM),
    Target("socket:socket.send", SYSTEM),
    Target("raftlog.transport.session:HttpSession.call", REQUESTS),
    Target("raftlog.transport.session:HttpSession.call_frame", REQUESTS),
    Target("raftlog.transport.session:HttpSession.request", REQUESTS),
    Target("raftlog.transport.session:HttpSession._send_lean", REQUESTS),
    Target("raftlog.transport.lean:LeanPool.post", REQUESTS),
    Target("raftlog.transport.lean:_Connection.exchange", REQUESTS),
    Target("raftlog.transport.lean:_Connection.buffer_updated", REQUESTS),
    Target("raftlog.transport.socket_writer:SocketWriter.send", REQUESTS),
    Target("raftlog.broker.lean.connection:LeanConnection.buffer_updated", REQUESTS),
    Target("raftlog.broker.lean.connection:LeanConnection._answer", REQUESTS),
    Target("raftlog.broker.lean.connection:LeanConnection._on_answered", REQUESTS),
    Target("raftlog.broker.lean.routes:LeanRoutes.handle", REQUESTS),
    Target("raftlog.broker.appending:append_batch", REQUESTS),
    Target("asyncio.timeouts:Timeout.__aenter__", TIMERS),
    Target("asyncio.timeouts:Timeout.__aexit__", TIMERS),
    Target("raftlog.wire.codec:encode_json", JSON),
    Target("raftlog.wire.codec:decode_plain", JSON),
    Target("raftlog.schema:from_plain", JSON),
    Target("raftlog.wire.http1:encode_head", HTTP),
    Target("raftlog.wire.http1:parse_response", HTTP),
    Target("raftlog.transport.lean:_Connection._read_head", HTTP),
    Target("raftlog.broker.lean.head_fields:split_head", HTTP),
    Target("raftlog.broker.lean.routes:LeanRoutes.match", HTTP),
    Target("raftlog.broker.lean.reply:encode_reply", HTTP),
    Target("raftlog.record.validate:validate_batch", RECORD),
    Target("raftlog.record.batch:stamp", RECORD),
    Target("raftlog.record.batch:parse_header", RECORD),
    Target("raftlog.client.produce_requests:ProduceRequests.encode", RECORD),
    Target("raftlog.partition.replica:Replica.append", LOG),
    Target("raftlog.partition.replica:Replica.append_now", LOG),
    Target("raftlog.partition.follower_replica:FollowerReplica.append_fetched", LOG),
    Target("raftlog.partition.storage.log:PartitionLog.append", LOG),
    Target("raftlog.partition.storage.log:PartitionLog.find_verified", LOG),
    Target("raftlog.partition.storage.log:PartitionLog.fsync", LOG),
    Target("raftlog.partition.core.producers:ProducerStates.check", LOG),
    Target("raftlog.partition.core.producers:ProducerStates.on_appended", LOG),
    Target("raftlog.partition.waiters:OffsetWaiters.wait", REPLICATION),
    Target("raftlog.partition.replica_fetch_server:ReplicaFetchServer.serve", REPLICATION),
    Target("raftlog.partition.core.leader:LeaderCore.on_follower_fetch", REPLICATION),
    Target("raftlog.partition.core.fetch_sessions:LeaderSessions.on_request", REPLICATION),
    Target("raftlog.partition.replica:Replica.on_follower_fetch", REPLICATION),
    Target("raftlog.partition.replica_fetch_server:ReplicaFetchServer._acknowledge", REPLICATION),
    Target("raftlog.partition.replica_fetch_server:ReplicaFetchServer._look", REPLICATION),
    Target("raftlog.partition.fetcher:LeaderFetcher._request", REPLICATION),
    Target("raftlog.partition.fetcher:LeaderFetcher._fetch", REPLICATION),
    Target("raftlog.partition.fetcher:LeaderFetcher._take", REPLICATION),
    Target("raftlog.partition.fetcher:LeaderFetcher._take_one", REPLICATION),
    Target("raftlog.partition.fetcher:LeaderFetcher._take_marks", REPLICATION),
    Target("raftlog.partition.waiters:Notifier.fire", REPLICATION),
    Target("asyncio.base_events:BaseEventLoop.call_at", TIMERS),
    Target("asyncio.events:TimerHandle.cancel", TIMERS),
    Target("asyncio.base_events:BaseEventLoop.call_soon", TASKS),
    Target("asyncio.base_events:BaseEventLoop.create_task", TASKS),
    Target("raftlog.broker.lean.routes:LeanRoutes.note_times", METRICS),
    Target("raftlog.serving.request_metrics:RequestMetrics.count", METRICS),
    Target("raftlog.partition.replica:Replica._note_waits", METRICS),
    Target("raftlog.client.record_appender:RecordAppender.add", CLIENT),
    Target("raftlog.client.record_appender:RecordAppender._place", CLIENT),
    Target("raftlog.client.core.accumulator:Accumulator.add", CLIENT),
    Target("raftlog.client.produce_requests:ProduceRequests.body", CLIENT),
    Target("raftlog.client.sender:Sender._count", CLIENT),
    Target("raftlog.client.sender:Sender._on_result", CLIENT),
)
"""An `async` function is timed from each of its waits to the next one. It must be awaited where it is called."""
KIND_OF = {target.label: target.kind for target in TARGETS} | {kind: kind for kind in (LOOP, POLL, WAIT)}


def kind_of(label: str) -> str:
    """Return the kind of a span: that of its function, or a task's step or a callback."""
    return KIND_OF.get(label, STEP)
