"""Checks that followers receive each update of a partition: no client notices a missing one for long.

The next update of the partition includes the missing one, so a history looks correct but slow. Where no next update
comes, a client waits for the record without end.
"""

from __future__ import annotations

from raftlog.model import TopicIdPartition
from raftlog.partition.core.fetch_sessions import LeaderSession
from raftlog.partition.replica import Replica
from simulation.cluster.nodes import Node


def unheard(node: Node) -> str | None:
    """Return an update that a broker has not sent to a follower, and will not send."""
    if not node.running or node.broker is None:
        return None
    led = {replica.assignment.key: replica for replica in node.replicas if replica.core is not None}
    for session in node.broker.replicas.followers.sessions._by_follower.values():
        for key in session.partitions:
            if key in led and (wrong := _unheard(session, key, led[key])):
                return f"{led[key].assignment.topic_partition}: broker {session.follower} has not received {wrong}"
    return None


def _unheard(session: LeaderSession, key: TopicIdPartition, replica: Replica) -> str | None:
    told, core = session.partitions[key], replica.core
    if told.awaiting or key in session._dirty or told.position.leader_epoch != replica.state.leader_epoch:
        return None
    if core is not None and not core.counts_session(session.follower, session.clock):
        return "the request to report its position again: the old one does not count"
    if told.position.fetch_offset < replica.log.log_end_offset:
        return f"the log end {replica.log.log_end_offset}, only {told.position.fetch_offset}"
    if told.marks is not None and told.marks[0] != replica.high_watermark:
        return f"the high watermark {replica.high_watermark}, only {told.marks[0]}"
    return None
