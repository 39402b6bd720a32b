"""What no client sees for long: news of a partition that a leader has forgotten to tell a follower, or to count.

The next news of the partition takes it along, so a history looks sound but slow; where there is no next, whoever waits
for the record waits in vain.
"""

from __future__ import annotations

from raftlog.model import TopicIdPartition
from raftlog.partition.core.fetch_sessions import LeaderSession
from raftlog.partition.replica import Replica
from simulation.cluster.nodes import Node


def unheard(node: Node) -> str | None:
    """Return what a broker's followers have not been told, and will not be."""
    if not node.running or node.broker is None:
        return None
    led = {replica.assignment.key: replica for replica in node.replicas if replica.core is not None}
    for session in node.broker.replicas._followers.sessions._by_follower.values():
        for key in session.partitions:
            if key in led and (wrong := _unheard(session, key, led[key])):
                return f"{led[key].assignment.topic_partition}: broker {session.follower} has not been told {wrong}"
    return None


def _unheard(session: LeaderSession, key: TopicIdPartition, replica: Replica) -> str | None:
    told, core = session.partitions[key], replica.core
    if told.awaiting or key in session._dirty or told.position.leader_epoch != replica.state.leader_epoch:
        return None
    if core is not None and not core.counts_session(session.follower, session.clock):
        return "that its position must be named again: it does not count"
    if told.position.fetch_offset < replica.log.log_end_offset:
        return f"that the log ends at {replica.log.log_end_offset}, not at {told.position.fetch_offset}"
    if told.marks is not None and told.marks[0] != replica.high_watermark:
        return f"that the high watermark is {replica.high_watermark}, not {told.marks[0]}"
    return None
