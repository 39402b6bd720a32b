"""Compares the end offsets that followers report with what they had synced when they reported it.

A fetch position is a promise, also from a broker that is about to exit. Such a broker leaves the ISR, or exits, before
a client could notice that it stores less. What a leader acknowledged because of its promise stays acknowledged.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from raftlog.model import BrokerEpoch, BrokerId, Offset, TopicIdPartition
from raftlog.partition.replica import Replica
from simulation.cluster.nodes import Node

Who = tuple[TopicIdPartition, BrokerId, BrokerEpoch]


class Holding:
    """Compares the end offsets that leaders received with the followers' logs."""

    def __init__(self) -> None:
        self._most: dict[Who, float] = {}
        """By replica, the highest end that was synced; infinite if the log was truncated, for then it is unknown."""
        self._before: dict[Replica, Who] = {}

    def look(self, brokers: Iterable[Node]) -> str | None:
        """Return which leader received a higher end offset than its follower had synced."""
        now = {
            replica: (replica.assignment.key, node.node_id, node.broker.lifecycle.broker_epoch)
            for node in brokers
            for replica in node.replicas
            if node.broker is not None
        }
        for replica, who in (self._before | now).items():  # Replicas that were closed meanwhile, too.
            end = math.inf if replica.log.cuts else held_end(replica)
            self._most[who] = max(self._most.get(who, 0), end)
        self._before = now
        return next((wrong for replica in now if (wrong := self._told_too_much(replica))), None)

    def _told_too_much(self, leader: Replica) -> str | None:
        for follower, known in leader.core.followers.items() if leader.core is not None else ():
            most = self._most.get((leader.assignment.key, follower, known.broker_epoch), math.inf)
            if known.end_offset > most:
                return (
                    f"broker {follower} reported the end {known.end_offset} to the leader of "
                    f"{leader.assignment.topic_partition}, and had synced its log up to {most}"
                )
        return None


def held_end(replica: Replica) -> Offset:
    """Return the end of the log that a replica stores as durably as its topic requires."""
    return replica.log.durable_end_offset if replica.config.flush == "batch" else replica.log.log_end_offset
