"""Preferred read replica (KIP-392): an in-sync follower in the consumer's rack."""

from __future__ import annotations

from collections.abc import Mapping

from raftlog.model import BrokerId, BrokerRegistration, Offset
from raftlog.partition.core.leader import LeaderCore


def preferred_read_replica(
    core: LeaderCore, brokers: Mapping[BrokerId, BrokerRegistration], *, rack: str, offset: Offset
) -> BrokerId | None:
    """Return the in-sync follower in `rack` with the highest end offset that has `offset`; None: read from the leader.

    The leader is preferred in its own rack. A follower counts only if unfenced, in the incarnation that has fetched.
    """
    leader = brokers.get(core.broker_id)
    if not rack or (leader is not None and leader.rack == rack) or offset > core.high_watermark:
        return None
    best, best_end = None, offset - 1
    for member in core.state.replicas:
        follower, broker = core.followers.get(member), brokers.get(member)
        if follower is None or broker is None or member not in core.state.isr or broker.rack != rack:
            continue
        if not 0 <= follower.log_start_offset <= offset:
            continue  # It has deleted that offset already, or has not said: it would refuse, again and again.
        alive = not broker.fenced and not broker.in_controlled_shutdown
        if alive and broker.broker_epoch == follower.broker_epoch and follower.end_offset > best_end:
            best, best_end = member, follower.end_offset
    return best
