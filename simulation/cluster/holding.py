"""What followers say that they hold, and what they had synced when they said so.

A fetch position is a promise, whoever makes it: a broker that is about to end has left the ISR, or has gone, before
anybody could see that it holds less, and what a leader has acknowledged because of it stays acknowledged.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from raftlog.model import BrokerEpoch, BrokerId, Offset, TopicIdPartition
from raftlog.partition.replica import Replica
from simulation.cluster.nodes import Node

Who = tuple[TopicIdPartition, BrokerId, BrokerEpoch]


class Holding:
    """Compares what leaders were told with what was so."""

    def __init__(self) -> None:
        self._most: dict[Who, float] = {}
        """How far a broker's log was synced at most; where it was cut, nobody knows how far it had been."""
        self._before: dict[Replica, Who] = {}

    def look(self, brokers: Iterable[Node]) -> str | None:
        """Return which leader was told of more than there was."""
        now = {
            replica: (replica.assignment.key, node.node_id, node.broker.lifecycle.broker_epoch)
            for node in brokers
            for replica in node.replicas
            if node.broker is not None
        }
        for replica, who in (self._before | now).items():  # One that has closed meanwhile, too.
            end = math.inf if replica.log.cuts else held_end(replica)
            self._most[who] = max(self._most.get(who, 0), end)
        self._before = now
        return next((wrong for replica in now if (wrong := self._told_too_much(replica))), None)

    def _told_too_much(self, leader: Replica) -> str | None:
        for follower, known in leader.core.followers.items() if leader.core is not None else ():
            most = self._most.get((leader.assignment.key, follower, known.broker_epoch), math.inf)
            if known.end_offset > most:
                return (
                    f"broker {follower} told the leader of {leader.assignment.topic_partition} that it holds "
                    f"everything below {known.end_offset}, and had synced what is below {most}"
                )
        return None


def held_end(replica: Replica) -> Offset:
    """Return up to where a replica holds everything as firmly as its topic asks."""
    return replica.log.durable_end_offset if replica.config.flush == "batch" else replica.log.log_end_offset
