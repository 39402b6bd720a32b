"""The broker that holds the replicas: its identity, and the other brokers that it knows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from raftlog.model import BrokerEpoch, BrokerId, BrokerRegistration


@dataclass(slots=True)
class LocalBroker:
    """A broker's identity and its view of the others. All its partitions share one object, so that they agree."""

    broker_id: BrokerId
    broker_epoch: BrokerEpoch = -1
    """Set after registration; -1 before."""
    brokers: Mapping[BrokerId, BrokerRegistration] = field(default_factory=dict)
    """The registered brokers of the metadata that was applied last."""
