"""Who coordinates a group or a transactional id."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from raftlog.model import BrokerId, LeaderEpoch

CoordinatorKind: TypeAlias = Literal["group", "transaction"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorInfo:
    """Answer of `GET paths.COORDINATOR` (Kafka's FindCoordinator), from any broker."""

    kind: CoordinatorKind
    key: str
    broker_id: BrokerId
    url: str
    topic: str
    partition: int
    """Of the internal topic: its leader is the coordinator."""
    leader_epoch: LeaderEpoch
