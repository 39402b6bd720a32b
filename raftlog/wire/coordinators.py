"""FindCoordinator: the broker that coordinates a group or a transactional id."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from raftlog.model import BrokerId, LeaderEpoch

CoordinatorKind: TypeAlias = Literal["group", "transaction"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorInfo:
    """Answer of `GET paths.COORDINATOR` (Kafka's FindCoordinator), from any broker."""

    kind: CoordinatorKind
    """Whether a group or a transactional id is coordinated."""
    key: str
    """The group id or the transactional id."""
    broker_id: BrokerId
    """The broker that coordinates it."""
    url: str
    """The broker's URL for clients."""
    topic: str
    """The internal topic that keeps the coordinator's state."""
    partition: int
    """Partition of the internal topic whose leader is the coordinator."""
    leader_epoch: LeaderEpoch
    """The leader epoch of that partition."""
